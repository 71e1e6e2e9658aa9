"""When a pooled policy is fitted: at fixed numbers of ratings, so that an interrupted run is fitted as one that was not."""

from __future__ import annotations

import math

GROWTH = 1.1
"""By how much the ratings have grown from one fit to the next: with K arms it is fitted at K · GROWTH^k, rounded up.

A pairwise run is fitted as if it had fewer, see :attr:`ArmSpace.first_fit`."""


def next_refit(rated: int, arms: int) -> float:
    """How many ratings there are when a pooled policy is fitted next, after ``rated`` of them."""
    at = float(arms)
    while at <= rated:
        at = math.ceil(at * GROWTH)
    return at


def last_refit(rated: int, arms: int) -> int:
    """How many ratings there were when a pooled policy was fitted last; 0 if it never was."""
    last, at = 0, arms
    while at <= rated:
        last, at = at, math.ceil(at * GROWTH)
    return last
