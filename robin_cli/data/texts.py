"""Columns of texts that make Python strings only when asked, and the numbering of equal texts."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import overload

import numpy as np
import pyarrow as pa

from robin_cli.model.arms import IntArray

_AT_A_TIME = 10_000


class Texts(Sequence[str]):
    """A sequence of texts in an Arrow column: each takes its bytes and 16 more; a Python string 50.

    It equals any sequence of the same texts in the same order.
    """

    __slots__ = ("column",)

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    @classmethod
    def from_texts(cls, texts: Iterable[str]) -> Texts:
        """Make a column of any texts; one of this class is returned as it is."""
        if isinstance(texts, cls):
            return texts
        return cls(pa.chunked_array([pa.array(texts, pa.large_string())]))

    def __len__(self) -> int:
        return len(self.column)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Texts: ...
    def __getitem__(self, at: int | slice) -> str | Texts:
        if isinstance(at, slice):
            start, stop, step = at.indices(len(self))
            if step == 1:
                return Texts(self.column.slice(start, max(0, stop - start)))
            return Texts(self.column.take(pa.array(range(start, stop, step), pa.int64())))
        text: str = self.column[at].as_py()
        return text

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_A_TIME):
            yield from self.column.slice(start, _AT_A_TIME).to_pylist()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Texts):
            return bool(self.column.equals(other.column))
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return all(a == b for a, b in zip_longest(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Texts({len(self):,} texts)"


def give_back() -> None:
    """Return the memory that Arrow and the C library keep for later to the system.

    It is a gigabyte after ten million pairs.
    """
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc's
        if trim is not None:
            trim(0)


def numbers_of(parts: Iterable[pa.Array]) -> IntArray:
    """Return a number for each text, shape (texts,), from 0 in order of first appearance.

    Equal texts share it. Null is "". Texts are compared by Python's salted 64-bit hashes: of ten
    million different texts two have the same hash, and number, with a probability of 1 in 400,000.

    Args:
        parts: the column, in order.
    """
    hashes = [
        np.fromiter((hash(text or "") for text in part.to_pylist()), np.int64, len(part))
        for part in parts
    ]
    give_back()
    # np.unique with inverse takes twice the time, and three times the memory
    found = np.concatenate([np.empty(0, dtype=np.int64), *hashes])
    order = np.argsort(found, kind="stable")
    is_new = np.append(True, np.diff(found[order]) != 0)[: len(order)]  # numpy's
    first = order[is_new]
    place = np.empty(len(first), dtype=np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    found[order] = place[np.cumsum(is_new) - 1]
    return found


def numbered_texts(
    parts: Callable[[], Iterable[pa.Array]], name: Callable[[str], str]
) -> tuple[IntArray, Texts]:
    """Return :func:`numbers_of` and :func:`names_of` a column, whose ``parts`` are read twice."""
    numbers = numbers_of(parts())
    return numbers, names_of(parts(), numbers, name)


def names_of(parts: Iterable[pa.Array], numbers: IntArray, name: Callable[[str], str]) -> Texts:
    """Return ``name`` of each different text, in the order of their numbers.

    Args:
        parts: the column, as it was numbered.
    """
    names, start, highest = [], 0, -1
    for part in parts:
        here = numbers[start : start + len(part)]
        start += len(part)
        before = np.maximum.accumulate(np.append(highest, here))
        highest = before[-1]
        new = part.filter(pa.array(here > before[:-1]))
        names.append(pa.array([name(text or "") for text in new.to_pylist()], pa.large_string()))
    return Texts(pa.chunked_array(names, pa.large_string()))
