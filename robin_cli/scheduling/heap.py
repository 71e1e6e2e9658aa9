"""A priority queue over all arms whose keys change with every call."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable

from robin_cli.scheduling.keys import NEVER

_STALE = math.nan


class LazyHeap:
    """Finds the arm of the smallest key, ties going to the lower arm, in O(log K).

    ``key`` is an arm's true place, ``entry`` the foremost place that the heap holds for it, never behind the true one. An arm
    that became less urgent (each call makes it so) is moved back only when it comes to the front, and its key is not even
    computed before; one that became more urgent gets a second entry, and the first is dropped when met.

    Args:
        keys: of all arms.
        key_of: the key of an arm now; never nan, which is this queue's mark for a key to be asked for.
    """

    def __init__(self, keys: list[float], key_of: Callable[[int], float]) -> None:
        self.key = keys
        self._key_of = key_of
        self._entry = list(keys)
        self._heapify()

    def place(self, arm: int, key: float) -> None:
        """Give ``arm`` a new key; NEVER takes it out."""
        self.key[arm] = key
        if key < self._entry[arm]:
            self._entry[arm] = key
            heapq.heappush(self._heap, (key, arm))
            if len(self._heap) > 4 * len(self.key) + 64:
                self._entry = [entry if key != key else key for entry, key in zip(self._entry, self.key, strict=True)]
                self._heapify()

    def move_back(self, arm: int) -> None:
        """Note that ``arm`` became less urgent, or may not be asked any more."""
        self.key[arm] = _STALE

    def first(self) -> int | None:
        """The arm of the smallest key; None if there is none that may be asked."""
        heap, keys, entries = self._heap, self.key, self._entry
        while heap:
            entry, arm = heap[0]
            key = keys[arm]
            if entry == key:
                return arm
            if key != key:  # stale
                keys[arm] = self._key_of(arm)
                continue
            if entry == entries[arm] and key != NEVER:
                entries[arm] = key
                heapq.heapreplace(heap, (key, arm))
                continue
            if entry == entries[arm]:
                entries[arm] = NEVER
            heapq.heappop(heap)
        return None

    def __len__(self) -> int:
        return len(self._heap)

    def _heapify(self) -> None:
        self._heap = [(entry, arm) for arm, entry in enumerate(self._entry) if entry != NEVER]
        heapq.heapify(self._heap)
