"""The urgency of arms, as columns of numbers, and the most urgent ones; the same in a run and in a simulation."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
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

_PARTS = 64


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
