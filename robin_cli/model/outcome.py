"""The outcome of calls: their answers, or the kind of failure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from robin_cli.model.records import REFUSALS, Judgment


class Unanswered(Enum):
    """The kinds of calls without an answer; none costs a unit of the budget."""

    PERMANENT = "permanent"
    """Refused as it is: the arm is retired, for good or for this session."""
    TRANSIENT = "transient"
    """Failed for an unknown reason: it counts against the arm, and others are asked first."""
    UNREACHED = "unreached"
    """The endpoint was away: it does not count against the arm, and others are asked first."""
    WITHDRAWN = "withdrawn"
    """Not made after all."""


class Final(tuple[None, ...]):
    """Answers without a rating that would be the same again: the arm is retired."""


Outcome = Sequence[float | None] | Unanswered
"""The answers in their order, each a rating or None if it has none; or the kind of failure."""


def outcome_of(judgments: Sequence[Judgment]) -> Outcome:
    """Return the outcome that the judgments of one request record."""
    if judgments and not judgments[0].counts:
        return Unanswered.PERMANENT if judgments[0].reason in REFUSALS else Unanswered.TRANSIENT
    if judgments and judgments[0].is_final:
        return Final(None for _ in judgments)
    return tuple(None if each.value is None else float(each.value) for each in judgments)
