"""Columns of texts that store a number per row: scores of ten million pairs by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.texts import Texts

_AT_A_TIME = 10_000


class Named(Sequence[str]):
    """A sequence of texts, each stored as its place in ``names``. It equals any sequence of the same texts."""

    __slots__ = ("names", "places")

    def __init__(self, names: Sequence[str], places: NDArray[np.integer[Any]]) -> None:
        self.names, self.places = names, places

    @property
    def column(self) -> pa.ChunkedArray:
        """The texts as an Arrow column."""
        if not len(self.places):
            return pa.chunked_array([], Texts.from_texts(()).column.type)
        first = int(self.places.min())  # a take costs as much as the column is long
        between = Texts.from_texts(self.names).column.slice(
            first, int(self.places.max()) + 1 - first
        )
        places = self.places - first
        if len(between) == len(places) and np.array_equal(places, np.arange(len(between))):
            return between
        return between.take(pa.array(places))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, at: int) -> str: ...
    @overload
    def __getitem__(self, at: slice) -> Named: ...
    def __getitem__(self, at: int | slice) -> str | Named:
        return (
            Named(self.names, self.places[at])
            if isinstance(at, slice)
            else self.names[int(self.places[at])]
        )

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_A_TIME):
            yield from self[start : start + _AT_A_TIME].column.to_pylist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001  # numpy's
        return np.asarray(np.array(list(self.names), dtype=object)[self.places], dtype=dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Named({len(self):,} texts)"
