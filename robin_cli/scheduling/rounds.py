"""How a budget goes out in rounds: how far each goes before its answers are looked at."""

from __future__ import annotations


def round_ends(budget: int, arms: int, rounds: int) -> tuple[int, ...]:
    """Calls that are spent at the end of each round, rising; the last is ``budget``.

    Args:
        budget: calls in all, at least 1.
        arms: K.
        rounds: at least 1.
    """
    shares = [(2**number - 1) / (2**rounds - 1) for number in range(1, rounds + 1)]
    ends = [max(min(arms, budget), round(budget * share)) for share in shares]
    return tuple(sorted(set(ends)))


def first_depth(budget: int, arms: int, rounds: int) -> int:
    """Calls of each arm in the first round, rounded up; at least 1."""
    return max(1, -(-round_ends(budget, arms, rounds)[0] // max(1, arms)))
