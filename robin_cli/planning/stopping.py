"""When a run is over before its budget is spent: its goal is reached, or nothing is left to ask; and which arms are settled."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.planning.budget import CallBudget
from robin_cli.policies.base import Policy, Seen

_LOOKS_AGAIN_AFTER = 1.01


class Standing(Protocol):
    """What a rule sees of a run: the planner."""

    @property
    def arms(self) -> Arms:
        """The numbers so far."""

    @property
    def budget(self) -> CallBudget:
        """The calls there are."""


StoppingRule = Callable[[Standing], bool]
"""A question to a run, answered with whether it is over."""


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


_GROWTH = 1.01
_MOST = 4_000
_LOOKS_FROM = 2


Counted = Iterable[tuple[Scale, IntArray, FloatArray]]
"""Each scale, the arms rated on it, and how often each of them got each level, shape (arms, levels)."""


class Verdicts(Protocol):
    """The decisions of a run as they stand."""

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Which arms need no more calls, because what hangs on them is decided; shape (K,)."""

    @property
    def all_decided(self) -> bool:
        """Whether every decision holds."""

    def add(self, arm: int, ratings: Iterable[float | None]) -> None:
        """Take further ratings of ``arm``, None where an answer holds none; none at all where it was asked in vain."""

    @property
    def seen(self) -> Seen | None:
        """What the last look is to the policy, where it asks for what is nearest to certain."""

    def begin(self, space: ArmSpace, counted: Counted, arms: Arms, policy: Policy) -> None:
        """Begin as after a look at ``arms``, of which so many ratings of each level were ``counted``."""

    def look(self, arms: Arms, policy: Policy) -> IntArray:
        """Decide anew by all ratings so far; the arms whose urgency may be another now."""


def last_look(spent: int, arms: int) -> int:
    """How many calls were spent when decisions were looked at last, after ``spent`` of them; 0 if they never were."""
    last, at = 0, next_look(0, arms)
    while at <= spent:
        last, at = at, next_look(at, arms)
    return last


def next_look(spent: int, arms: int) -> int:
    """How many calls are spent when decisions are looked at next: two an arm, and whenever they have grown by 1 %.

    At the latest after 4,000, or a fiftieth of the arms where that is more: a look at all that many calls changed would hold
    up the answers meanwhile.
    """
    grown = min(math.ceil(spent * _GROWTH), spent + max(_MOST, arms // 50))
    return max(_LOOKS_FROM * arms, spent + 1, grown)
