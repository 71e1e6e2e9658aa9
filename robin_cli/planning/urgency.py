"""How urgent arms are, as columns of numbers, and which are the most urgent; the same in a run and in a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import Policy, exited

NEVER = -np.inf
"""The urgency of an arm that may not be asked."""

WARM_UP = 2.0**52
"""Less a number of calls: the urgency of an arm in its warm-up; exact in a float64, and above any variance over a count."""

IN_WARM_UP = 0.5 * WARM_UP
"""The urgency of every arm in its warm-up is above."""

FIRST = 0.25 * WARM_UP
"""The urgency of an arm past its warm-up, or without one, that is to be asked before all others."""

SPREAD = 1e-300
"""Times 1/n added to every priority: lost in rounding unless the priority is 0, where it orders arms that never vary by
their calls, so that a budget with nothing better to do is spread and does not pile up on the first arm."""

_PARTS = 64


def block_of(arms: int) -> int:
    """Return how many of ``arms`` are chosen at once: a sixty-fourth, as good as one by one (benchmarks/blocks.py)."""
    return -(-arms // _PARTS)


def urgency_by(
    policy: Policy, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
) -> FloatArray:
    """Compute the urgency of arms past their warm-up; all arguments, and the result, have one shape.

    Raises:
        InputError: the policy ends the program, which it would do in the loop of a run without a word.
    """
    try:
        with np.errstate(invalid="ignore", divide="ignore"):
            found = policy.priority(n, pending, total, total_sq, arm)
    except SystemExit as error:
        raise exited(policy, error) from error
    return found + SPREAD / np.maximum(n + pending, 0.5)  # without a warm-up, an arm without a call has half a one


def most_urgent(urgency: FloatArray, count: int) -> IntArray:
    """Return the ``count`` most urgent of the last axis, the most urgent first and ties to the lower index.

    Args:
        urgency: shape (…, arms).
        count: at least 1, and no more than arms.
    """
    if count == 1:
        return np.asarray(urgency.argmax(axis=-1))[..., None]
    rows = -urgency.reshape(-1, urgency.shape[-1])  # turned round: to part it is slow where many are NEVER
    last = np.partition(rows, count - 1)[:, count - 1, None]
    if urgency.ndim == 1:
        before, tied = np.flatnonzero(rows < last), np.flatnonzero(rows == last)
        before = before[rows[0, before].argsort(kind="stable")]
        return np.concatenate([before, tied[: count - len(before)]])
    row, found = np.nonzero(rows <= last)
    order = np.lexsort((rows[row, found], row))
    starts = np.searchsorted(row, np.arange(len(rows)))[:, None]
    return np.asarray(found[order[starts + np.arange(count)]].reshape(*urgency.shape[:-1], count))


def contest_of(members: IntArray, arms: int) -> IntArray:
    """Return which row of ``members``, such as :attr:`Policy.contests`, each of ``arms`` is in, shape (arms,)."""
    there = members >= 0
    found = np.empty(arms, dtype=np.int64)
    found[members[there]] = np.nonzero(there)[0]
    return found


def sets_of(contests: IntArray | None, arms: int, together: int) -> tuple[IntArray | None, Sequence[int]]:
    """Return which of ``arms`` are looked at together, those of a contest or a question, and in which set each is.

    None, and each its own, where every arm stands alone.
    """
    sets = np.arange(arms).reshape(-1, together) if contests is None and together > 1 else contests
    return sets, range(arms) if sets is None else contest_of(sets, arms).data
