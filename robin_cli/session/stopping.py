"""The end of a run before its budget is spent: its goal is reached, or nothing is left to ask; and the settled arms."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Seen
from robin_cli.session.budget import CallBudget

_LOOKS_AGAIN_AFTER = 1.01


class Standing(Protocol):
    """The part of the planner that a stopping rule sees."""

    @property
    def arms(self) -> Arms:
        """The numbers so far."""

    @property
    def budget(self) -> CallBudget:
        """The budget of calls."""


StoppingRule = Callable[[Standing], bool]
"""Returns whether a run is over."""


def reached(
    goal: Callable[[Arms], bool], first: int = 1, growth: float = _LOOKS_AGAIN_AFTER
) -> StoppingRule:
    """Return a rule that ends a run once ``goal`` holds, tested at ``first`` calls, and whenever they have grown so much.

    When it is tested follows from the calls spent alone, also after a stop. If calls are under way then, it is tested again
    when all are in, as they may undo it.
    """
    tests_at, holds, is_settled = -1, False, True

    def is_over(at: Standing) -> bool:
        nonlocal tests_at, holds, is_settled
        spent, under_way = at.budget.spent, at.budget.reserved > 0
        if tests_at < 0:
            tests_at = next_test(spent - 1, first, growth)
        if spent >= tests_at or (holds and not is_settled and not under_way):
            tests_at = next_test(spent, first, growth)
            holds, is_settled = goal(at.arms), not under_way
        return holds

    return is_over


def next_test(spent: int, first: int, growth: float) -> int:
    """Return the calls, more than ``spent``, at which a goal is tested next."""
    at = first
    while at <= spent:
        at = max(at + 1, math.ceil(at * growth))
    return at


TEST_GROWTH = 1.03
"""Growth of the calls between two tests whether few enough decisions are likely wrong."""

LOOK_GROWTH = 1.01
"""Growth of the calls from one look at decisions to the next."""

_MOST = 4_000
_LOOKS_FROM = 2


Counted = Iterable[tuple[Scale, IntArray, FloatArray]]
"""Each scale, the arms rated on it, and the number of times each got each level, shape (arms, levels)."""


class Verdicts(Protocol):
    """The decisions of a run as they stand."""

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Whether each arm needs no more calls, as its decisions are certified; shape (K,)."""

    @property
    def all_decided(self) -> bool:
        """Whether every decision is certified."""

    def add(self, arm: int, ratings: Iterable[float | None]) -> None:
        """Add ratings of ``arm``, None for an answer without one; empty if no answer came."""

    @property
    def seen(self) -> Seen | None:
        """The state at the last look, for policies that ask about the decisions nearest to certain; else None."""

    def begin(self, space: ArmSpace, counted: Counted, arms: Arms, policy: Policy) -> None:
        """Begin as after a look at ``arms``, whose ratings of each level are ``counted``."""

    def look(self, arms: Arms, policy: Policy) -> IntArray:
        """Decide by all ratings so far; return the arms whose urgency may have changed."""


def last_look(spent: int, arms: int) -> int:
    """Return the calls spent at the last look at decisions, after ``spent`` of them; 0 before the first."""
    last, at = 0, next_look(0, arms)
    while at <= spent:
        last, at = at, next_look(at, arms)
    return last


def next_look(spent: int, arms: int, growth: float = LOOK_GROWTH) -> int:
    """Return the calls spent at the next look at decisions: two per arm first, then whenever they have grown by so much.

    A look comes after 4,000 more calls at the latest, or a fiftieth of the arms if that is more: a look at more changes would
    hold up the answers meanwhile.
    """
    grown = min(math.ceil(spent * growth), spent + max(_MOST, arms // 50))
    return max(_LOOKS_FROM * arms, spent + 1, grown)
