"""What the scheduler asks of decisions: which arms need no more calls, and whether all is decided."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, IntArray

_GROWTH = 1.01
_MOST = 4_000
_LOOKS_FROM = 2


class Verdicts(Protocol):
    """The decisions of a run as they stand."""

    @property
    def settled(self) -> NDArray[np.bool_]:
        """Which arms need no more calls, because what hangs on them is decided; shape (K,)."""

    @property
    def all_decided(self) -> bool:
        """Whether every decision holds."""

    def add(self, arm: int, ratings: Iterable[float]) -> None:
        """Take further ratings of ``arm``; none where it was asked in vain."""

    def look(self, arms: Arms) -> IntArray:
        """Decide anew by all ratings so far; the arms that became settled, or are not settled any more."""


def next_look(spent: int, arms: int) -> int:
    """How many calls are spent when decisions are looked at next: two an arm, and whenever they have grown by 1 %.

    At the latest after 4,000, or a fiftieth of the arms where that is more: a look at all that many calls changed would hold
    up the answers meanwhile.
    """
    grown = min(math.ceil(spent * _GROWTH), spent + max(_MOST, arms // 50))
    return max(_LOOKS_FROM * arms, spent + 1, grown)
