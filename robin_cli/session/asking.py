"""The rules of asking that a run and a simulation share: urgency, the most urgent arms, the length of visits."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import LONGEST_VISIT, RETIRE_AFTER
from robin_cli.policies.base import WARM_UP, Columns, Policy, Seen, rounded

NEVER = -np.inf
"""The urgency of an arm that may not be asked."""

IN_WARM_UP = 0.5 * WARM_UP
"""Every arm in its warm-up has a larger urgency."""

FIRST = 0.25 * WARM_UP
"""The urgency of an arm past its warm-up, or without one, that comes before all others."""

SPREAD = 1e-300
"""Times 1/n added to every priority if some are 0: it orders arms that never vary by their calls, so that spare budget is
spread and does not go to the first arm alone. In other priorities rounding loses it."""

NO_END = 2**62

_PARTS = 64

KNOWN_FOR_EACH_PENDING = 4

ASKED_FOR_EACH_KNOWN = 2
"""For a round of a run that decides: otherwise an arm whose few ratings lie where nothing is clear takes much of it."""

RATINGS_FOR_EACH_CALL = 4
"""A visit has a call for so many ratings of its arm: that costs nothing in error (docs/evidence/schedulers.md)."""


def block_of(arms: int) -> int:
    """Return the number of arms chosen at once: a sixty-fourth, as good as one by one (benchmarks/blocks.py)."""
    return -(-arms // _PARTS)


def urgency_by(
    policy: Policy, seen: Seen | None, arms: Columns
) -> tuple[FloatArray, FloatArray | None]:
    """Return the urgency of arms past their warm-up, and after a look their nearness to certain; all of one shape."""
    nearness = None
    with np.errstate(invalid="ignore", divide="ignore"):
        if seen is None:
            priority = policy.priority(arms)
        else:
            priority, nearness = policy.priorities(arms, seen)
    if np.count_nonzero(priority) < priority.size:
        # Without a warm-up, an arm without a call counts as having half a call.
        priority = priority + SPREAD / np.maximum(arms.made, 0.5)
    return rounded(priority), None if nearness is None else rounded(nearness)


def most_urgent(urgency: FloatArray, count: int) -> IntArray:
    """Return up to ``count`` arms that may be asked, the most urgent first and ties to the lower index.

    Args:
        urgency: shape (arms,); NEVER for an arm that may not be asked.
        count: at least 1, and no more than arms.
    """
    best = urgency.max()
    first = np.flatnonzero(urgency == best)
    if len(first) >= count:  # as in warm-ups
        return first[: count * (best > NEVER)]
    # np.partition is slow on many equal values at the low end
    bound = -np.partition(-urgency, count - 1)[count - 1]
    above = np.flatnonzero(urgency > bound)
    above = above[(-urgency[above]).argsort(kind="stable")]
    if bound == NEVER or len(above) == count:
        return above
    return np.concatenate([above, np.flatnonzero(urgency == bound)[: count - len(above)]])


def by_turns(urgent: IntArray, near: IntArray, made: int, part: float, count: int) -> IntArray:
    """Return up to ``count`` arms by turns, some of the most ``urgent`` and some of the nearest to certain, none twice.

    Args:
        made: visits made before.
        part: share of the turns for the nearest to certain, in 128ths: turn t is one if ⌊part · t⌋ grows.
    """
    queues, left = (iter(urgent.tolist()), iter(near.tolist())), len(urgent) + len(near)
    chosen: dict[int, None] = {}
    reached = int(made * part)
    while left and len(chosen) < count:
        made += 1
        is_near = int(made * part) > reached
        reached += is_near
        if (arm := next(queues[is_near], None)) is not None:
            left -= 1
            chosen[arm] = None
    return np.fromiter(chosen, np.int64, len(chosen))


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
