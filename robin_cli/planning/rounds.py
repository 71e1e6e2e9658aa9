"""How a budget goes out in rounds: how far each goes before its answers are looked at.

A first round is even, for nothing is known; it has two parts of the budget, and each round after it one. Nothing else is
tuned: sizes that grow from round to round, as theory would have them, were no better (docs/evidence/batches.md).
"""

from __future__ import annotations


def round_ends(budget: int, arms: int, rounds: int, *, warm_up: int = 1) -> tuple[int, ...]:
    """Calls that are spent at the end of each round, rising; the last is ``budget``.

    Args:
        budget: calls in all, at least 1.
        arms: K, at least 1.
        rounds: at least 1.
        warm_up: ratings that the policy wants of every arm before it looks at any; they make one round, however many they are.
            Where it wants none, the first round goes to the arms that the policy would ask first.
    """
    depth = max(warm_up, round(2 * budget / (rounds + 1) / arms), 1)
    first = min(budget, arms * depth if warm_up else max(1, round(2 * budget / (rounds + 1))))
    first = budget if rounds == 1 else first
    steps = max(1, rounds - 1)
    return tuple(sorted({first, *(first + round((budget - first) * step / steps) for step in range(1, steps + 1))}))


def first_depth(budget: int, arms: int, rounds: int, *, warm_up: int = 1) -> int:
    """Calls of each arm in the first round, rounded up; at least 1, but none where the policy has no warm-up."""
    if not warm_up:
        return 0
    return max(1, -(-round_ends(budget, arms, rounds, warm_up=warm_up)[0] // arms))
