"""The times at which a pooled policy is fitted: fixed numbers of ratings, so that a resumed run is fitted at the same ones."""

from __future__ import annotations

import math

GROWTH = 1.1
"""Growth of the number of ratings from one fit to the next: with K arms, fits are at K · GROWTH^k, rounded up.

A pairwise run is fitted as if it had fewer arms, see :attr:`ArmSpace.first_fit`."""


def next_refit(rated: int, arms: int) -> float:
    """Return the number of ratings at the next fit after ``rated``."""
    at = float(arms)
    while at <= rated:
        at = math.ceil(at * GROWTH)
    return at


def last_refit(rated: int, arms: int) -> int:
    """Return the number of ratings at the last fit; 0 before the first."""
    last, at = 0, arms
    while at <= rated:
        last, at = at, math.ceil(at * GROWTH)
    return last
