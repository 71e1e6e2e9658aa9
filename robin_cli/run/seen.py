"""A hash table from ids to rows that does not keep the ids: ten million of them take 200 MB."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import IntArray

_SMALLEST = 2**12
_MOST_FULL = 0.6
_FREE = 0

Hashes = NDArray[np.uint64]


class Seen:
    """Row numbers by the hash of their id. A hit may be a collision: the caller compares the ids.

    Open addressing with linear probing, a whole batch of ids at once.

    Args:
        expected: the number of ids, if it is known: the table then need not grow.
    """

    def __init__(self, expected: int = 0) -> None:
        slots = max(_SMALLEST, int(expected / _MOST_FULL) + 1)
        self._hashes = np.zeros(slots, np.uint64)
        self._rows = np.zeros(slots, np.uint32)
        self._count = 0

    def find(self, ids: Collection[str]) -> IntArray:
        """Return the row that may have each id, shape (ids,); -1 if none has."""
        hashes = _hashed(ids)
        found = np.full(len(hashes), -1, np.int64)
        slots, open_ = self._first(hashes), np.arange(len(hashes))
        while open_.size:
            there = self._hashes[slots[open_]]
            hits = open_[there == hashes[open_]]
            found[hits] = self._rows[slots[hits]]
            open_ = open_[(there != _FREE) & (there != hashes[open_])]
            slots[open_] = (slots[open_] + 1) % len(self._hashes)
        return found

    def add(self, ids: Collection[str], first: int) -> None:
        """Add the ids of the rows from ``first`` on; they must differ, and be new."""
        self._count += len(ids)
        while self._count > _MOST_FULL * len(self._hashes):
            hashes, rows = self._hashes, self._rows
            self._hashes, self._rows = (
                np.zeros(2 * len(hashes), np.uint64),
                np.zeros(2 * len(hashes), np.uint32),
            )
            taken = hashes != _FREE
            self._put(hashes[taken], rows[taken])
        self._put(_hashed(ids), np.arange(first, first + len(ids), dtype=np.uint32))

    def _put(self, hashes: Hashes, rows: NDArray[np.uint32]) -> None:
        slots, rest = self._first(hashes), np.arange(len(hashes))
        while rest.size:
            is_free = self._hashes[slots[rest]] == _FREE
            tried = rest[is_free]
            self._hashes[slots[tried]] = hashes[tried]  # of several that want one slot, one gets it
            got = self._hashes[slots[tried]] == hashes[tried]
            self._rows[slots[tried[got]]] = rows[tried[got]]
            rest = np.concatenate([rest[~is_free], tried[~got]])
            slots[rest] = (slots[rest] + 1) % len(self._hashes)

    def _first(self, hashes: Hashes) -> IntArray:
        return (hashes % np.uint64(len(self._hashes))).astype(np.int64)


def _hashed(ids: Iterable[str]) -> Hashes:
    """Return Python's 64-bit hashes, never _FREE. They are salted, so hostile data cannot provoke collisions."""
    hashes = np.fromiter(map(hash, ids), np.int64).view(np.uint64)
    hashes[hashes == _FREE] = 1
    return hashes
