"""Distinct numbers by counting, which takes a tenth of the time of sorting if they are small."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import IntArray

_ROOM = 8
"""Numbers below this multiple of their count are counted; the range of larger ones would be mostly empty."""


def distinct(numbers: IntArray) -> int:
    """Return how many distinct numbers there are; fastest for numbers below their count, such as places of texts."""
    return (
        int(np.count_nonzero(np.bincount(numbers)))
        if _are_small(numbers)
        else len(np.unique(numbers))
    )


def renumbered(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Return where each distinct number comes first, in rising order of the numbers, and the place of each among them.

    It is ``np.unique(numbers, return_index=True, return_inverse=True)[1:]``, faster.
    """
    if not _are_small(numbers):
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
        return first, which
    found = np.full(int(numbers.max()) + 1, -1)
    found[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # the last write wins
    is_there = found >= 0
    if is_there.all():
        return found, np.asarray(numbers, dtype=np.int64)
    return found[is_there], (np.cumsum(is_there) - 1)[numbers]


def _are_small(numbers: IntArray) -> bool:
    return len(numbers) > 0 and bool(numbers.min() >= 0 and numbers.max() < _ROOM * len(numbers))
