"""Different numbers found by counting, which takes a tenth of the time of sorting them, where they are small."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import IntArray

_ROOM = 8
"""Numbers up to so many times as many as there are of them are counted; of larger ones too few may be there."""


def distinct(numbers: IntArray) -> int:
    """How many different ones there are, quickest of the places of texts, which are below their number."""
    return int(np.count_nonzero(np.bincount(numbers))) if _are_small(numbers) else len(np.unique(numbers))


def renumbered(numbers: IntArray) -> tuple[IntArray, IntArray]:
    """Where each different number comes first, in the order of the numbers, and which of them each is.

    The same as ``np.unique(numbers, return_index=True, return_inverse=True)[1:]``.
    """
    if not _are_small(numbers):
        _, first, which = np.unique(numbers, return_index=True, return_inverse=True)
        return first, which
    found = np.full(int(numbers.max()) + 1, -1)
    found[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)  # what is written last stays
    is_there = found >= 0
    if is_there.all():
        return found, np.asarray(numbers, dtype=np.int64)
    return found[is_there], (np.cumsum(is_there) - 1)[numbers]


def _are_small(numbers: IntArray) -> bool:
    return len(numbers) > 0 and bool(numbers.min() >= 0 and numbers.max() < _ROOM * len(numbers))
