"""Division of a budget into rounds, after each of which the answers count.

The first round is even, as nothing is known; it has two parts of the budget, and each round after it one. Nothing else is
tuned: sizes that grow from round to round, as in theory, were no better (docs/evidence/batches.md).
"""

from __future__ import annotations


def round_ends(
    budget: int, arms: int, rounds: int, *, warm_up: int = 1, least: int = 1
) -> tuple[int, ...]:
    """Return the calls spent at the end of each round, rising; the last is ``budget``.

    Args:
        budget: calls in all, at least 1.
        arms: K, at least 1.
        rounds: at least 1.
        warm_up: ratings of every arm that the policy needs first; they make one round, however many they are. Without a
            warm-up, the first round goes to the arms that the policy asks first.
        least: calls that the policy without a warm-up makes before it chooses any.
    """
    depth = max(warm_up, round(2 * budget / (rounds + 1) / arms), 1)
    first = min(budget, arms * depth if warm_up else max(least, round(2 * budget / (rounds + 1))))
    first = budget if rounds == 1 else first
    steps = max(1, rounds - 1)
    return tuple(
        sorted(
            {
                first,
                *(first + round((budget - first) * step / steps) for step in range(1, steps + 1)),
            }
        )
    )


def first_depth(budget: int, arms: int, rounds: int, *, warm_up: int = 1) -> int:
    """Return the calls of each arm in the first round, rounded up; at least 1, or 0 if the policy has no warm-up."""
    if not warm_up:
        return 0
    return max(1, -(-round_ends(budget, arms, rounds, warm_up=warm_up)[0] // arms))
