"""Division of a budget into rounds, after each of which the answers count.

The first round is even, as nothing is known; it has two parts of the budget, and each round after it one. Nothing else is
tuned: sizes that grow from round to round, as in theory, were no better (docs/evidence/batches.md).
"""

from __future__ import annotations


def first_depth(
    budget: int, arms: int, rounds: int, *, warm_up: int = 1, most: int | None = None
) -> int:
    """Return the calls of each arm in the first round, rounded up; at least 1, or 0 if the policy has no warm-up.

    Args:
        budget: calls in all, at least 1.
        arms: K, at least 1.
        rounds: at least 1.
        warm_up: ratings of every arm that the policy needs first; they make one round, however many they are.
        most: the most beyond the warm-up; None for a share of the budget. A single round spends it whatever this says.
    """
    if not warm_up:
        return 0
    share = 2 * budget / (rounds + 1) / arms
    depth = max(warm_up, round(share) if most is None else min(most, round(share)), 1)
    whole = max(1, -(-budget // arms))
    return whole if rounds == 1 else min(depth, whole)


def round_ends(
    budget: int, arms: int, rounds: int, *, depth: int = 1, least: int = 1
) -> tuple[int, ...]:
    """Return the calls spent at the end of each round, rising; the last is ``budget``.

    Args:
        depth: of :func:`first_depth`, for the same ``budget``, ``arms`` and ``rounds``. With 0, the first round goes to the
            arms that the policy asks first.
        least: calls that the policy without a warm-up makes before it chooses any.
    """
    share = round(2 * budget / (rounds + 1))
    first = budget if rounds == 1 else min(budget, arms * depth if depth else max(least, share))
    steps = max(1, rounds - 1)
    later = (first + round((budget - first) * step / steps) for step in range(1, steps + 1))
    return tuple(sorted({first, *later}))
