"""Fixed numbers of ratings or calls at which a run is fitted, looked at or tested: a resumed run does so at the same ones."""

from __future__ import annotations

import math
from typing import NamedTuple

FIT_GROWTH, LOOK_GROWTH, TEST_GROWTH = 1.1, 1.01, 1.03
"""Growth of the ratings from one fit to the next, and of the calls from one look at decisions, or one test of them."""

_MOST = 4_000


class Milestones(NamedTuple):
    """Rising whole numbers.

    Attributes:
        first: at least 1.
        growth: of each over the one before, rounded up.
        longest: the most between two.
    """

    first: int
    growth: float
    longest: int = 2**62

    def after(self, now: float) -> int:
        """Return the first one after ``now``."""
        at = self.first
        while at <= now:
            at = self._next(at)
        return at

    def until(self, now: float) -> int:
        """Return the last one up to ``now``; 0 before the first."""
        last, at = 0, self.first
        while at <= now:
            last, at = at, self._next(at)
        return last

    def _next(self, at: int) -> int:
        return min(max(at + 1, math.ceil(at * self.growth)), at + self.longest)


def fits_from(first_fit: int) -> Milestones:
    """Return the ratings at which a pooled policy is fitted, see :attr:`ArmSpace.first_fit`."""
    return Milestones(first_fit, FIT_GROWTH)


def looks_at(arms: int, growth: float = LOOK_GROWTH) -> Milestones:
    """Return the calls at which decisions are looked at: two for each arm first.

    A look comes after 4,000 more calls at the latest, or a fiftieth of the arms if that is more: a look at more changes would
    hold up the answers meanwhile.
    """
    return Milestones(max(1, 2 * arms), growth, max(_MOST, arms // 50))
