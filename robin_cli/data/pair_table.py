"""Pairs in columns, with their texts on disk: a :class:`Pair` is made only when it is asked for."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import islice
from operator import eq
from typing import Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.groups import name_of
from robin_cli.data.spool import AROUND_BYTES, Spool
from robin_cli.data.texts import Texts, names_of, numbered_texts, numbers_of
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import GROUP_COLUMN, OTHER_COLUMN, SYSTEM_COLUMN, Pair, Value

REFERENCE = "reference"
"""The column of reference answers."""

OPTIONAL_TEXTS = {REFERENCE: "reference", GROUP_COLUMN: "group", OTHER_COLUMN: "other"}
"""The optional columns of a table of pairs, and the field of a pair that each holds."""

ALWAYS = ("pair_id", "prompt", "response")
TEXTS = (*ALWAYS, *OPTIONAL_TEXTS)

AT_A_TIME = 2**9
"""The most rows that are checked and stored together: so many stay in the processor's cache."""

Renamed = Mapping[str, str]
"""Attributes by name, and the attribute whose human ratings each of them takes."""


class PairTable(Sequence[Pair]):
    """Pairs as they are stored: a row per pair, those columns of TEXTS that the data have, and a
    column per human rating. The further columns are a table of their own, :attr:`columns`.
    """

    def __init__(
        self,
        pairs: Callable[[], Spool],
        columns: Callable[[], pa.Table] = lambda: pa.table({}),
        renamed: Renamed | None = None,
    ) -> None:
        self._read_pairs, self._read_columns = pairs, columns
        self._renamed = renamed or {}

    @staticmethod
    def from_pairs(pairs: Iterable[Pair], without: Collection[str] = ()) -> PairTable:
        """Make a table of any pairs, ``without`` these further columns; a table stays as it is."""
        if isinstance(pairs, PairTable):
            return pairs
        from robin_cli.data.growing_table import GrowingTable

        growing, rest = GrowingTable(), iter(pairs)
        while part := list(islice(rest, AT_A_TIME)):
            growing.add_pairs(part)
        return growing.table(without)

    def with_ratings(self, renamed: Renamed) -> PairTable:
        """Return the same pairs with human ratings under further names.

        Args:
            renamed: maps each name to the rating that it takes.
        """
        return PairTable(lambda: self._spool, lambda: self.columns, {**self._renamed, **renamed})

    @cached_property
    def _spool(self) -> Spool:
        return self._read_pairs()

    @cached_property
    def columns(self) -> pa.Table:
        """The further columns of the data, int64, double, bool or large_string; perhaps none."""
        return self._read_columns()

    @cached_property
    def table(self) -> pa.Table:
        """All pairs as one table, which maps the file on disk."""
        parts = [pa.Table.from_batches([batch]) for batch in self._spool.batches]
        empty = pa.table({name: pa.array([], pa.large_string()) for name in ALWAYS})
        own = table = pa.concat_tables([empty, *parts], promote_options="default")
        for name, of in self._renamed.items():
            if of in own.column_names:
                ratings = own[of]
                if name in own.column_names:
                    ratings, table = pc.coalesce(ratings, own[name]), table.drop_columns([name])
                table = table.append_column(name, ratings)
        # select looks at no values; pa.table would read all of the file
        texts = [name for name in TEXTS if name in table.column_names]
        return table.select([*texts, *sorted({*table.column_names} - {*texts})])

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows of :attr:`table`, few of them in memory at a time."""
        for batch in self.table.to_batches():
            yield batch
            self._spool.look_at(batch.nbytes)

    def __len__(self) -> int:
        return len(self._spool)

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> list[Pair]: ...
    def __getitem__(self, at: int | slice) -> Pair | list[Pair]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        start = range(len(self))[at]
        row = self.table.slice(start, 1)
        self._spool.look_at(AROUND_BYTES + row.nbytes)
        return pair_of(*row.to_pylist(), *self._further(start, 1))

    def __iter__(self) -> Iterator[Pair]:
        start = 0
        for batch in self.batches():
            yield from map(pair_of, batch.to_pylist(), self._further(start, len(batch)))
            start += len(batch)

    def _further(self, start: int, count: int) -> list[Mapping[str, Value]]:
        """Return the further columns of consecutive pairs; they are read when they are looked at."""
        rows = cache(lambda: self.columns.slice(start, count).to_pylist() or [{}] * count)
        return [_Further(rows, at) for at in range(count)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(map(eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def ids(self) -> Texts:
        """The ids, shape (pairs,), in memory."""
        copies = [pa.concat_arrays([part]) for part in self.texts("pair_id")]
        ids = [pa.concat_arrays(copies)] if copies else []
        return Texts(pa.chunked_array(ids, pa.large_string()))

    def texts(self, name: str) -> Iterator[pa.Array]:
        """Yield the column ``name``, one of TEXTS, in parts."""
        return self._parts(name, pa.large_string())

    def _parts(self, name: str, kind: pa.DataType) -> Iterator[pa.Array]:
        for batch in self.batches():
            yield batch[name] if name in batch.schema.names else pa.nulls(len(batch), kind)

    @property
    def prompts(self) -> tuple[IntArray, Texts]:
        """The number of each pair's prompt, shape (pairs,), and the prompts' names."""
        return numbered_texts(lambda: self.texts("prompt"), name_of)

    @cached_property
    def is_shared(self) -> NDArray[np.bool_]:
        """Whether another pair has the same prompt, shape (pairs,)."""
        prompt = numbers_of(self.texts("prompt"))
        return np.asarray(np.bincount(prompt)[prompt] > 1)

    @cached_property
    def groups(self) -> IntArray:
        """The number of each pair's group, shape (pairs,), in the order they first appear.

        Without groups it is that of its prompt.
        """
        return numbers_of(self.texts(self.grouped_by))

    @cached_property
    def group_names(self) -> Texts:
        """The names of the groups in the order of their numbers; a prompt's is :func:`name_of` it."""
        by = self.grouped_by
        return names_of(self.texts(by), self.groups, str if by == GROUP_COLUMN else name_of)

    @property
    def grouped_by(self) -> str:
        """The column by which pairs belong together: the data's groups, or else the prompt."""
        return GROUP_COLUMN if GROUP_COLUMN in self.has else "prompt"

    @property
    def systems(self) -> list[Value | None]:
        """The system of each pair's response, None if the data do not name it."""
        return self.column(SYSTEM_COLUMN)

    def column(self, name: str) -> list[Value | None]:
        """Return each pair's value in a further column; None if it has none."""
        has_it = name in self.columns.column_names
        return self.columns[name].to_pylist() if has_it else [None] * len(self)

    @property
    def attributes(self) -> Sequence[str]:
        """The names of the human ratings, sorted."""
        return [name for name in self.table.column_names if name not in TEXTS]

    def human(self, attribute: str) -> FloatArray:
        """Return the human ratings of an attribute, shape (pairs,); nan if there is none."""
        parts = self._parts(attribute, pa.float64())
        # copied, or they would hold the file's pages in memory
        ratings = [np.array(part.to_numpy(zero_copy_only=False)) for part in parts]
        return np.concatenate([np.empty(0), *ratings])

    @cached_property
    def empty(self) -> int:
        """The number of pairs with an empty response."""
        both = zip(self.texts("response"), self.texts(OTHER_COLUMN), strict=True)
        is_empty = (pc.or_kleene(pc.equal(a, ""), pc.equal(b, "")) for a, b in both)
        return sum(pc.sum(each).as_py() or 0 for each in is_empty)

    @property
    def has(self) -> frozenset[str]:
        """The OPTIONAL_TEXTS that any pair has."""
        return frozenset(OPTIONAL_TEXTS.keys() & {*self.table.column_names})


class _Further(UserDict[str, Value]):
    """The further columns of a pair, read when they are looked at."""

    def __init__(self, rows: Callable[[], Sequence[dict[str, Value]]], at: int) -> None:
        self._rows, self._at = rows, at

    @property
    def data(self) -> dict[str, Value]:  # type: ignore[override]
        return without_nulls(self._rows()[self._at])

    def __reduce__(self) -> tuple[type[dict[str, Value]], tuple[dict[str, Value]]]:
        return dict, (self.data,)


def pair_of(row: dict[str, Any], further: Mapping[str, Value]) -> Pair:
    """Return the pair in a row with the columns of TEXTS and human ratings."""
    pair_id, prompt, response = (row.pop(name) for name in ALWAYS)
    reference, group, other = (row.pop(name, None) for name in OPTIONAL_TEXTS)
    return Pair(pair_id, prompt, response, without_nulls(row), reference, group, further, other)


def without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}
