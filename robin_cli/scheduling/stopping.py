"""When a run is over: small rules that compose, as in ``budget_spent | nothing_left``."""

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


class StoppingRule:
    """A question to a run, answered with whether it is over; ``|`` and ``&`` make one rule of two."""

    def __init__(self, is_over: Callable[[Standing], bool]) -> None:
        self._is_over = is_over

    def __call__(self, at: Standing) -> bool:
        return self._is_over(at)

    def __or__(self, other: StoppingRule) -> StoppingRule:
        return StoppingRule(lambda at: self(at) or other(at))

    def __and__(self, other: StoppingRule) -> StoppingRule:
        return StoppingRule(lambda at: self(at) and other(at))


@StoppingRule
def budget_spent(at: Standing) -> bool:
    """Every call of the budget is spent."""
    return at.budget.exhausted


@StoppingRule
def nothing_left(at: Standing) -> bool:
    """No arm may be asked, and nothing is under way that could change it."""
    return at.idle and not at.budget.reserved


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

    return StoppingRule(is_over)
