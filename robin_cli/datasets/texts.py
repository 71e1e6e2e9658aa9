"""Texts in columns: a Python string is made when it is asked for, and none is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import overload

import pyarrow as pa

_AT_A_TIME = 10_000


class Texts(Sequence[str]):
    """Texts as Arrow has them, one behind the other: 16 bytes and its own for each, where a Python string takes 50 more.

    Equal to any sequence of the same texts in the same order.
    """

    __slots__ = ("column",)

    def __init__(self, column: pa.ChunkedArray) -> None:
        self.column = column

    @classmethod
    def of(cls, texts: Iterable[str]) -> Texts:
        """Those of any kind, taken over."""
        return texts if isinstance(texts, cls) else cls(pa.chunked_array([pa.array(texts, pa.large_string())]))

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
        found: str = self.column[at].as_py()
        return found

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_A_TIME):
            yield from self.column.slice(start, _AT_A_TIME).to_pylist()

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Texts):
            return bool(self.column.equals(other.column))
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(mine == theirs for mine, theirs in zip_longest(self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Texts({len(self):,} texts)"


def give_back() -> None:
    """Have Arrow give back what it keeps of memory for later: of ten million pairs, a gigabyte."""
    pa.default_memory_pool().release_unused()
