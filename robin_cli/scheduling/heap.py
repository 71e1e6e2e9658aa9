"""A priority queue over all arms whose keys change with every call."""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.scheduling.keys import NEVER

_STALE = math.nan
_FEWEST = 1024
_PART = 8
"""In the heap itself are at most so many arms, and this part of all, before all are sorted anew: a column of numbers takes a
twelfth of the memory."""


class LazyHeap:
    """Finds the arm of the smallest key, ties going to the lower arm, in O(log K).

    ``key`` is an arm's true place, ``entry`` the foremost place that the queue holds for it, never behind the true one. An arm
    that became less urgent (each call makes it so) is moved back only when it comes to the front, and its key is not even
    computed before; one that became more urgent gets a second entry, and the first is dropped when met.

    Most entries stand in columns, sorted; those of arms that were moved since are in a heap.

    Args:
        keys: of all arms.
        key_of: the key of an arm now; never nan, which is this queue's mark for a key to be asked for.
    """

    def __init__(self, keys: Sequence[float] | FloatArray, key_of: Callable[[int], float]) -> None:
        self.key = array("d", np.asarray(keys, dtype=np.float64).tobytes())
        self._key_of = key_of
        self._entry = self.key[:]
        self._most = _FEWEST + len(self.key) // _PART
        self._sort()

    def place(self, arm: int, key: float) -> None:
        """Give ``arm`` a new key; NEVER takes it out."""
        self.key[arm] = key
        if key < self._entry[arm]:
            self._entry[arm] = key
            self._push(key, arm)

    def move_back(self, arm: int) -> None:
        """Note that ``arm`` became less urgent, or may not be asked any more."""
        self.key[arm] = _STALE

    def first(self) -> int | None:
        """The arm of the smallest key; None if there is none that may be asked."""
        keys, entries = self.key, self._entry
        while (front := self._front()) is not None:
            entry, arm, is_sorted = front
            key = keys[arm]
            if entry == key:
                return arm
            if key != key:  # stale
                keys[arm] = self._key_of(arm)
                continue
            is_moved = entry == entries[arm] and key != NEVER
            if entry == entries[arm]:
                entries[arm] = key
            if is_sorted:
                self._at += 1
                if is_moved:
                    self._push(key, arm)
            elif is_moved:
                heapq.heapreplace(self._heap, (key, arm))
            else:
                heapq.heappop(self._heap)
        return None

    def __len__(self) -> int:
        return len(self._order) - self._at + len(self._heap)

    def _front(self) -> tuple[float, int, bool] | None:
        """The foremost entry, its arm, and whether it stands among those that were sorted."""
        heap, at = self._heap, self._at
        if at == len(self._order):
            return (*heap[0], False) if heap else None
        entry, arm = self._sorted[at], self._order[at]
        if heap:
            first, moved = heap[0]
            if first < entry or (first == entry and moved < arm):
                return first, moved, False
        return entry, arm, True

    def _push(self, key: float, arm: int) -> None:
        heapq.heappush(self._heap, (key, arm))
        if len(self._heap) > self._most:
            keys = np.frombuffer(self.key)
            np.copyto(np.frombuffer(self._entry), keys, where=~np.isnan(keys))
            self._sort()

    def _sort(self) -> None:
        entries = np.frombuffer(self._entry)
        arms = np.flatnonzero(entries != NEVER)
        arms = arms[np.argsort(entries[arms], kind="stable")]
        self._order, self._sorted = array("q", arms.tobytes()), array("d", entries[arms].tobytes())
        self._at = 0
        self._heap: list[tuple[float, int]] = []
