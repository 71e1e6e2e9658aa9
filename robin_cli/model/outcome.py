"""What came of the calls that a scheduler gave leave for."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from robin_cli.model.records import PERMANENT_FAILURES, Judgment


class Unanswered(Enum):
    """Why calls brought no answer at all; none of them costs a unit of the budget."""

    PERMANENT = "permanent"
    """Refused for what was asked, and always will be: the arm is retired."""
    TRANSIENT = "transient"
    """Failed for now, and it is not known why: it counts against the arm, and others are asked first."""
    UNREACHED = "unreached"
    """The endpoint was away: nothing is said of the arm, and others are asked first."""
    WITHDRAWN = "withdrawn"
    """Not made after all."""


Outcome = Sequence[float | None] | Unanswered
"""The answers in their order, each its rating or None where none could be read; or why there is none."""


def outcome_of(judgments: Sequence[Judgment]) -> Outcome:
    """What the judgments of one request say: its answers, or the failure that its only judgment records."""
    if judgments and not judgments[0].counts:
        return Unanswered.PERMANENT if judgments[0].reason in PERMANENT_FAILURES else Unanswered.TRANSIENT
    return tuple(None if each.value is None else float(each.value) for each in judgments)
