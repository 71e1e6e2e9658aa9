"""When a run is over before its budget is spent: its goal is reached, or nothing is left to ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from robin_cli.model.arms import Arms
from robin_cli.scheduling.budget import CallBudget

_LOOKS_AGAIN_AFTER = 1.01


class Standing(Protocol):
    """What a rule sees of a run: the scheduler."""

    @property
    def arms(self) -> Arms:
        """The numbers so far."""

    @property
    def budget(self) -> CallBudget:
        """The calls there are."""

    @property
    def idle(self) -> bool:
        """Whether no arm may be asked now."""


StoppingRule = Callable[[Standing], bool]
"""A question to a run, answered with whether it is over."""


def nothing_left(at: Standing) -> bool:
    """Return whether the budget is spent, or no arm may be asked and nothing is under way that could change that."""
    return at.budget.exhausted or (at.idle and not at.budget.reserved)


def reached(goal: Callable[[Arms], bool]) -> StoppingRule:
    """What a run is for is reached. Looked at whenever the spent calls have grown by 1 %.

    Where calls are under way then, it is looked at again when all are in: what they bring may undo it.
    """
    looks_at, holds, is_settled = 0.0, False, True

    def is_over(at: Standing) -> bool:
        nonlocal looks_at, holds, is_settled
        under_way = at.budget.reserved > 0
        if at.budget.spent >= looks_at or (holds and not is_settled and not under_way):
            looks_at = max(at.budget.spent + 1.0, at.budget.spent * _LOOKS_AGAIN_AFTER)
            holds, is_settled = goal(at.arms), not under_way
        return holds

    return is_over
