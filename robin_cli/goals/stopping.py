"""The end of a run before its budget is spent, because its goal is reached."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from robin_cli.model.arms import Arms
from robin_cli.policies.milestones import LOOK_GROWTH, Milestones


class Calls(Protocol):
    """Calls spent, and calls reserved, which are under way."""

    spent: int
    reserved: int


class Progress(Protocol):
    @property
    def arms(self) -> Arms: ...

    @property
    def budget(self) -> Calls: ...


StoppingRule = Callable[[Progress], bool]
"""Returns whether a run is over."""


def reached(
    goal: Callable[[Arms], bool], first: int = 1, growth: float = LOOK_GROWTH
) -> StoppingRule:
    """Return a rule that ends a run once ``goal`` holds, tested at ``first`` calls, and whenever they have grown so much.

    When it is tested follows from the calls spent alone, also after a stop. If calls are under way then, it is tested again
    when all are in, as they may undo it.
    """
    tests = Milestones(first, growth)
    tests_at, holds, is_settled = -1, False, True

    def is_over(at: Progress) -> bool:
        nonlocal tests_at, holds, is_settled
        spent, under_way = at.budget.spent, at.budget.reserved > 0
        if tests_at < 0:
            tests_at = tests.after(spent - 1)
        if spent >= tests_at or (holds and not is_settled and not under_way):
            tests_at = tests.after(spent)
            holds, is_settled = goal(at.arms), not under_way
        return holds

    return is_over
