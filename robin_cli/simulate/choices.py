"""The next arms of many simulated runs side by side, as the planner of a run chooses them."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.session.asking import NEVER, by_turns, most_urgent


def most_urgent_of_runs(urgency: FloatArray, count: int) -> IntArray:
    """Return the ``count`` most urgent of each row, the most urgent first and ties to the lower index.

    Args:
        urgency: shape (rows, arms).
        count: at least 1, and no more than arms.
    """
    if count == 1:
        return np.asarray(urgency.argmax(axis=1))[:, None]
    rows = -urgency  # np.partition is slow on many equal values at the low end
    last = np.partition(rows, count - 1)[:, count - 1, None]
    row, arm = np.nonzero(rows <= last)
    order = np.lexsort((rows[row, arm], row))
    starts = np.searchsorted(row, np.arange(len(rows)))[:, None]
    return np.asarray(arm[order[starts + np.arange(count)]])


def turns_of_runs(
    urgency: FloatArray, nearness: FloatArray, count: int, made: IntArray, part: FloatArray
) -> IntArray:
    """Return ``count`` arms of each row, :func:`by_turns`; once neither finds any more, the lowest indices follow.

    Args:
        urgency, nearness: shape (rows, arms); NEVER for an arm that may not be asked.
        count: at least 1, and no more than arms.
        made: visits made before, shape (rows,).
        part: as for :func:`by_turns`, shape (rows, 1).
    """
    if count == 1:
        return _one_of_runs(np.stack([urgency, nearness], axis=1), made[:, None], part)
    chosen = []
    for row in range(len(urgency)):
        urgent, near = most_urgent(urgency[row], count), most_urgent(nearness[row], count)
        first = by_turns(urgent, near, made.item(row), part.item(row), count)
        chosen.append(list(dict.fromkeys([*first.tolist(), *range(urgency.shape[1])]))[:count])
    return np.array(chosen)


def _one_of_runs(of_both: FloatArray, made: IntArray, part: FloatArray) -> IntArray:
    """Return :func:`turns_of_runs` for one arm of each row; ``of_both``: shape (rows, 2, arms)."""
    turn = (np.floor((made + 1) * part) > np.floor(made * part)).astype(np.int64)
    may_be_asked = of_both.max(axis=2) > NEVER
    turn = np.where(np.take_along_axis(may_be_asked, turn, axis=1), turn, 1 - turn)
    chosen = np.take_along_axis(of_both.argmax(axis=2), turn, axis=1)
    return np.where(may_be_asked.any(axis=1, keepdims=True), chosen, 0)
