"""Limits on the calls of an arm: which arms may be asked, and how many calls a visit has."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robin_cli.model.arms import IntArray, WritableArms
from robin_cli.model.records import LONGEST_VISIT, RETIRE_AFTER
from robin_cli.model.space import Coordinates

KNOWN_FOR_EACH_PENDING = 4

NO_END = 2**62

ASKED_FOR_EACH_KNOWN = 2
"""For a round of a run that decides: otherwise an arm whose few ratings lie where nothing is clear takes much of it."""

RATINGS_FOR_EACH_CALL = 4
"""A visit has a call for so many ratings of its arm: that costs nothing in error (docs/evidence/schedulers.md)."""


def visit_of(made: int, first: int) -> int:
    """Return the calls of the next visit of an arm after ``made`` calls; ``first``: those of its first visit."""
    return min(LONGEST_VISIT, -(-made // RATINGS_FOR_EACH_CALL)) or first


def visits_of(calls: int, first: int, longest: int) -> int:
    """Return the visits of an arm that gets so many ``calls``, at most ``longest`` a visit."""
    made = visits = 0
    while made < calls:
        made += min(longest, visit_of(made, first))
        visits += 1
    return visits


def most_under_way(n: IntArray, streak: IntArray, warm_up: int, share: int) -> IntArray:
    """Return the most calls of each arm under way; an arm with less than 1 is not asked at all. All shapes are (arms,).

    - In its warm-up, the rest of its ``share``, and at most its number of ratings, or RETIRE_AFTER if that is more: the first
      arm to be answered would otherwise take the calls of those with slower answers.
    - After it, a quarter of its ratings: more would be chosen on old knowledge.
    - While its last judgment has no rating, or it has none at all, the number that could retire it: an arm that cannot be rated
      must not use up the budget meanwhile.

    Args:
        n, streak: see :class:`Arms`.
        warm_up: ratings of every arm that the policy needs first.
        share: calls of each arm in a warm-up that the budget allows.
    """
    most = np.maximum(1, n // KNOWN_FOR_EACH_PENDING)
    is_first = n < warm_up
    if np.count_nonzero(is_first):
        most = np.where(is_first, np.minimum(share - n, np.maximum(RETIRE_AFTER, n)), most)
    if np.count_nonzero(streak) or np.count_nonzero(n) < len(n):
        most = np.where((streak > 0) | (n == 0), np.minimum(most, RETIRE_AFTER - streak), most)
    return most


def most_in_a_round(
    n: IntArray, streak: IntArray, warm_up: int, share: int, *, decides: bool
) -> IntArray:
    """Return the same for calls in rounds: all of a round are chosen before an answer comes, so none waits for one.

    Args:
        decides: whether the run decides: a round then at most triples the ratings of an arm past its warm-up.
    """
    after = np.maximum(1, ASKED_FOR_EACH_KNOWN * n) if decides else np.full(n.shape, NO_END)
    most = np.where(n < warm_up, share - n, after)
    return np.where(streak > 0, np.minimum(most, RETIRE_AFTER - streak), most)


def reopen_arms(arms: WritableArms, judge: Coordinates, failed: Sequence[int] = ()) -> None:
    """Reopen arms that were given up, perhaps by the judge's fault: the ``failed`` ones, and all of a judge that rated none."""
    is_rated = np.bincount(judge, weights=arms.columns.n) > 0
    streak = arms.columns.streak
    streak[(streak >= RETIRE_AFTER) & ~is_rated[judge]] = 0
    streak[list(failed)] = 0
