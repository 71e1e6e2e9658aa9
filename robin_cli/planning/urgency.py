"""How urgent arms are, as columns of numbers, and which are the most urgent; the same in a run and in a simulation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.task import contest_of
from robin_cli.policies.base import Policy, Seen, exited

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
    policy: Policy,
    seen: Seen | None,
    n: FloatArray,
    pending: FloatArray,
    total: FloatArray,
    total_sq: FloatArray,
    arm: IntArray,
) -> tuple[FloatArray, FloatArray | None]:
    """Compute the urgency of arms past their warm-up, and after a look how near they are to certain; all of one shape.

    Raises:
        InputError: the policy ends the program, which it would do in the loop of a run without a word.
    """
    nearness = None
    try:
        with np.errstate(invalid="ignore", divide="ignore"):
            if seen is None:
                found = policy.priority(n, pending, total, total_sq, arm)
            else:
                found, nearness = policy.priorities(n, pending, total, total_sq, arm, seen)
    except SystemExit as error:
        raise exited(policy, error) from error
    # Without a warm-up, an arm without a call has half a one.
    return found + SPREAD / np.maximum(n + pending, 0.5), nearness


def halves(urgency: FloatArray, nearness: FloatArray, count: int, made: int) -> tuple[IntArray, NDArray[np.bool_]]:
    """Return ``count`` arms of the last axis, by turns the most urgent left and the nearest to certain, and which are these.

    The first of them are those of a smaller ``count``. Where neither finds any more, the lowest indices follow.

    Args:
        urgency, nearness: shape (…, arms); NEVER where an arm may not be asked.
        count: at least 1, and no more than arms.
        made: requests made before: after an even number of them an urgent one comes first.
    """
    rows, near = (each.reshape(-1, each.shape[-1]) for each in (urgency, nearness))
    run, place = np.arange(len(rows))[:, None], np.arange(2.0 * count)
    by_turns = ((rows, most_urgent(rows, count)), (near, most_urgent(near, count)))[:: -1 if made % 2 else 1]
    sequence = np.stack([order for _, order in by_turns], axis=-1).reshape(len(rows), -1)
    there = np.stack([column[run, order] > NEVER for column, order in by_turns], axis=-1).reshape(sequence.shape)
    turn = np.full(rows.shape, np.inf)
    for first in (1, 0):
        mine = sequence[:, first::2]
        turn[run, mine] = np.minimum(turn[run, mine], np.where(there, place, np.inf)[:, first::2])
    is_next = there & (turn[run, sequence] == place)
    if (np.count_nonzero(is_next, axis=1) < count).any():
        chosen = most_urgent(-turn, count)
    else:
        chosen = sequence[run, np.argsort(~is_next, axis=1, kind="stable")[:, :count]]
    with np.errstate(invalid="ignore"):  # of those that neither found
        is_near = turn[run, chosen] % 2 != made % 2
    shape = (*urgency.shape[:-1], count)
    return chosen.reshape(shape), is_near.reshape(shape)


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


def sets_of(contests: IntArray | None, arms: int, together: int) -> tuple[IntArray | None, Sequence[int]]:
    """Return which of ``arms`` are looked at together, those of a contest or a question, and in which set each is.

    None, and each its own, where every arm stands alone.
    """
    sets = np.arange(arms).reshape(-1, together) if contests is None and together > 1 else contests
    return sets, range(arms) if sets is None else contest_of(sets, arms).data
