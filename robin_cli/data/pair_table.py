"""Pairs in columns, with their texts on disk: a :class:`Pair` is made only when it is asked for."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.groups import name_of
from robin_cli.data.spool import Spool
from robin_cli.data.texts import Texts, names_of, numbered_texts, numbers_of
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import GROUP_COLUMN, OTHER_COLUMN, SYSTEM_COLUMN, Pair, Value, as_text

if TYPE_CHECKING:
    from robin_cli.data.checking import Held

REFERENCE = "reference"
"""The column of reference answers."""

OPTIONAL_TEXTS = {REFERENCE: "reference", GROUP_COLUMN: "group", OTHER_COLUMN: "other"}
"""The optional columns of a table of pairs, and the field of a pair that each holds."""

ALWAYS = ("pair_id", "prompt", "response")
TEXTS = (*ALWAYS, *OPTIONAL_TEXTS)

_NOTHING = ""
"""A placeholder column for rows without further columns: no column of data has this name."""

_ATTRIBUTES = {"prompt": "prompt", "response": "response", **OPTIONAL_TEXTS}
AT_A_TIME = 2**9
"""The most rows that are checked and stored together: so many stay in the processor's cache."""

_EXACT = 2**53
"""Every whole number up to here is a floating-point number."""

_TYPES: Mapping[type, pa.DataType] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}

Renamed = Mapping[str, str]
"""Attributes by name, and the attribute whose human ratings each of them takes."""


class PairTable(Sequence[Pair]):
    """Pairs as they are stored: a row per pair, those columns of TEXTS that the data have, and a column per human rating.

    The further columns are a table of their own, :attr:`columns`.
    """

    def __init__(
        self,
        pairs: Callable[[], Spool],
        columns: Callable[[], pa.Table] | None = None,
        renamed: Renamed | None = None,
    ) -> None:
        self._read_pairs = pairs
        self._columns = columns or (lambda: pa.table({}))
        self._renamed = renamed or {}

    @cached_property
    def _pairs(self) -> Spool:
        return self._read_pairs()

    @staticmethod
    def spooled(
        batches: Iterable[pa.RecordBatch], columns: Callable[[], pa.Table] | None = None
    ) -> PairTable:
        """Make a table of batches, which are copied now."""
        spool = Spool.of(batches)
        return PairTable(lambda: spool, columns)

    @staticmethod
    def of(pairs: Iterable[Pair], without: Collection[str] = ()) -> PairTable:
        """Make a table of any pairs, ``without`` these further columns; a table is returned as it is."""
        if isinstance(pairs, PairTable):
            return pairs
        growing, rest = GrowingTable(), iter(pairs)
        while part := list(islice(rest, AT_A_TIME)):
            growing.add_pairs(part)
        return growing.table(without)

    def with_ratings(self, renamed: Renamed) -> PairTable:
        """Return the same pairs with human ratings under further names: ``renamed`` maps each to the rating that it takes."""
        return PairTable(lambda: self._pairs, lambda: self.columns, {**self._renamed, **renamed})

    def __len__(self) -> int:
        return len(self._pairs)

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> list[Pair]: ...
    def __getitem__(self, at: int | slice) -> Pair | list[Pair]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        place = at + len(self) if at < 0 else at
        batch, row = self._pairs.at(place)
        found = {
            name: column[row].as_py()
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        }
        return self._pair(found, _Columns(self._further(place, 1), 0))

    def __iter__(self) -> Iterator[Pair]:
        start = 0
        for batch in self._pairs:
            part = self._further(start, len(batch))
            yield from (
                self._pair(found, _Columns(part, row))
                for row, found in enumerate(batch.to_pylist())
            )
            start += len(batch)

    def _further(self, start: int, rows: int) -> Callable[[], Sequence[dict[str, Value]]]:
        """Return a function that reads the further columns of consecutive pairs, once."""

        @cache
        def read() -> Sequence[dict[str, Value]]:
            found = self.columns.slice(start, rows).to_pylist() or [{} for _ in range(rows)]
            return list(map(_without_nulls, found))

        return read

    def _pair(self, found: dict[str, Any], columns: Mapping[str, Value]) -> Pair:
        pair_id, prompt, response = (found.pop(name) for name in ALWAYS)
        reference, group, other = (found.pop(name, None) for name in OPTIONAL_TEXTS)
        human = _without_nulls(found)
        human |= {name: human[whose] for name, whose in self._renamed.items() if whose in human}
        return Pair(pair_id, prompt, response, human, reference, group, columns, other)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return len(self) == len(other) and all(
            mine == theirs for mine, theirs in zip(self, other, strict=True)
        )

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def ids(self) -> Texts:
        """The ids, shape (pairs,), in memory."""
        parts = [pa.concat_arrays([batch.column("pair_id")]) for batch in self._pairs]
        return Texts(
            pa.chunked_array([pa.concat_arrays(parts)] if parts else [], pa.large_string())
        )

    def texts(self, name: str) -> Iterator[pa.Array]:
        """Yield the column ``name``, one of TEXTS, in parts."""
        for batch in self._pairs:
            yield (
                batch.column(name)
                if name in batch.schema.names
                else pa.nulls(len(batch), pa.large_string())
            )

    @property
    def prompts(self) -> tuple[IntArray, Texts]:
        """The number of each pair's prompt, shape (pairs,), and the prompts' names by :func:`name_of`."""
        return numbered_texts(lambda: self.texts("prompt"), name_of)

    @cached_property
    def is_shared(self) -> NDArray[np.bool_]:
        """Whether another pair has the same prompt, shape (pairs,)."""
        prompt = numbers_of(self.texts("prompt"))
        return np.asarray(np.bincount(prompt)[prompt] > 1)

    @cached_property
    def groups(self) -> IntArray:
        """The number of each pair's group, shape (pairs,), in the order they first appear; without groups, of its prompt."""
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
        there = name in self.columns.column_names
        return self.columns[name].to_pylist() if there else [None] * len(self)

    @cached_property
    def attributes(self) -> Sequence[str]:
        """The names of the human ratings, sorted."""
        own = {name for batch in self._pairs for name in batch.schema.names if name not in TEXTS}
        return sorted(own | {name for name, whose in self._renamed.items() if whose in own})

    def human(self, attribute: str) -> FloatArray:
        """Return the human ratings of an attribute, shape (pairs,); nan if there is none."""
        found = np.full(len(self), np.nan)
        start = 0
        for batch in self._pairs:
            for name in (
                attribute,
                self._renamed.get(attribute),
            ):  # the latter's replace the former's
                if name is not None and name in batch.schema.names:
                    ratings = batch.column(name)
                    given = pc.is_valid(ratings).to_numpy(zero_copy_only=False)
                    found[start : start + batch.num_rows][given] = ratings.drop_null().to_numpy(
                        zero_copy_only=False
                    )
            start += batch.num_rows
        return found

    @cached_property
    def empty(self) -> int:
        """The number of pairs with an empty response."""
        found = 0
        for batch in self._pairs:
            is_empty = pc.equal(pc.binary_length(batch.column("response")), 0)
            if OTHER_COLUMN in batch.schema.names:
                other = pc.equal(pc.binary_length(batch.column(OTHER_COLUMN)), 0).fill_null(False)  # noqa: FBT003
                is_empty = pc.or_(is_empty, other)
            found += pc.sum(is_empty).as_py() or 0
        return found

    @property
    def has(self) -> frozenset[str]:
        """The OPTIONAL_TEXTS that any pair has."""
        return frozenset(
            name for batch in self._pairs for name in OPTIONAL_TEXTS if name in batch.schema.names
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of :attr:`table`."""
        texts = [name for name in TEXTS if name not in OPTIONAL_TEXTS or name in self.has]
        return pa.schema(
            [
                *(pa.field(name, pa.large_string()) for name in texts),
                *(pa.field(name, pa.float64()) for name in self.attributes),
            ]
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all pairs with the columns of :attr:`schema`, one batch in memory at a time."""
        schema = self.schema
        for batch in self._pairs:
            yield self._whole(batch, schema)

    @cached_property
    def table(self) -> pa.Table:
        """All pairs as one table, which maps the file on disk."""
        schema = self.schema
        return pa.Table.from_batches(
            [self._whole(batch, schema) for batch in self._pairs.batches()], schema
        )

    def _whole(self, batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
        if not self._renamed and batch.schema == schema:
            return batch
        there = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name, whose in self._renamed.items():
            if whose in there:
                there[name] = (
                    pc.coalesce(there[whose], there[name]) if name in there else there[whose]
                )
        columns = [
            there[field.name] if field.name in there else pa.nulls(len(batch), field.type)
            for field in schema
        ]
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    @cached_property
    def columns(self) -> pa.Table:
        """The further columns of the data: int64, double, bool or large_string; an empty table if there are none."""
        return self._columns()


def _without_nulls(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value is not None}


class _Columns(UserDict[str, Value]):
    """The further columns of a pair, read when they are looked at."""

    def __init__(self, part: Callable[[], Sequence[dict[str, Value]]], at: int) -> None:
        self._part, self._at = part, at

    @property
    def data(self) -> dict[str, Value]:  # type: ignore[override]
        return self._part()[self._at]

    def __reduce__(self) -> tuple[type[dict[str, Value]], tuple[dict[str, Value]]]:
        return dict, (self.data,)


class GrowingTable:
    """A table that batches of pairs are added to."""

    def __init__(self) -> None:
        self._pairs, self._further = Spool(), Spool()

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, at: int) -> Pair:
        batch, row = self._further.at(at)
        (columns,) = batch.slice(row, 1).to_pylist()
        return replace(PairTable(lambda: self._pairs)[at], columns=_without_nulls(columns))

    def add(
        self,
        ids: Sequence[str],
        pairs: Sequence[Pair | Held],
        human: Mapping[str, Sequence[Any]],
        columns: Mapping[str, Sequence[Any]],
    ) -> None:
        """Add pairs with their ids, and columns of human ratings and of further values. InputError if the disk is full."""
        texts: dict[str, Sequence[str | None]] = {"pair_id": ids}
        texts |= {name: [getattr(pair, its) for pair in pairs] for name, its in _ATTRIBUTES.items()}
        batch = {name: pa.array(values, pa.large_string()) for name, values in texts.items()}
        batch |= {name: pa.array(values, pa.float64()) for name, values in human.items()}
        further = _with_values({name: typed(values) for name, values in columns.items()})
        self._pairs.add(pa.record_batch(_with_values(batch)))
        self._further.add(pa.record_batch(further or {_NOTHING: pa.nulls(len(pairs))}))

    def add_pairs(self, pairs: Sequence[Pair | Held]) -> None:
        """Add pairs as :meth:`add` does."""
        human, columns = (
            {name: [values.get(name) for values in rows] for name in dict.fromkeys(chain(*rows))}
            for rows in ([pair.human for pair in pairs], [pair.columns for pair in pairs])
        )
        self.add([pair.pair_id for pair in pairs], pairs, human, columns)

    def table(self, without: Collection[str] = ()) -> PairTable:
        """Return the pairs, ``without`` these further columns."""
        return PairTable(lambda: self._pairs, lambda: _joined(self._further, {_NOTHING, *without}))


def _with_values(columns: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
    """Return the columns that have a value in any row."""
    return {name: values for name, values in columns.items() if values.null_count < len(values)}


def typed(values: Sequence[Value | None]) -> pa.Array:
    """Return values as an array of their type; as texts if they have several types."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {int, float} and all(
        abs(value) <= _EXACT for value in values if type(value) is int
    ):
        kinds = {float}
    if len(kinds) > 1:
        return pa.array(
            [None if value is None else as_text(value) for value in values], pa.large_string()
        )
    return pa.array(values, _TYPES.get(next(iter(kinds), str), pa.large_string()))


def _joined(further: Spool, without: Collection[str]) -> pa.Table:
    """Return further columns as one table. A column whose batches differ in type becomes numbers if it can, else texts."""
    batches = further.batches()
    types: dict[str, set[pa.DataType]] = {}
    for batch in batches:
        for field in batch.schema:
            if field.name not in without:
                types.setdefault(field.name, set()).add(field.type)
    if not types:
        return pa.table({})
    return pa.table({name: _joined_column(batches, name, kinds) for name, kinds in types.items()})


def _joined_column(
    batches: Sequence[pa.RecordBatch], name: str, kinds: set[pa.DataType]
) -> pa.ChunkedArray:
    parts = [
        batch.column(name) if name in batch.schema.names else pa.nulls(len(batch))
        for batch in batches
    ]
    if kinds == {pa.int64(), pa.float64()} and all(map(_is_exact, parts)):
        kinds = {pa.float64()}
    if len(kinds) > 1:
        return pa.chunked_array([_as_texts(part) for part in parts], pa.large_string())
    (kind,) = kinds
    return pa.chunked_array(
        [part if part.type == kind else part.cast(kind) for part in parts], kind
    )


def _is_exact(values: pa.Array) -> bool:
    """Return whether floating-point numbers hold the values exactly."""
    if values.type != pa.int64() or values.null_count == len(values):
        return True
    found = pc.min_max(values).as_py()
    return bool(found["min"] >= -_EXACT and found["max"] <= _EXACT)


def _as_texts(values: pa.Array) -> pa.Array:
    if values.type in {pa.large_string(), pa.null()}:
        return values.cast(pa.large_string())
    return pa.array(
        [None if value is None else as_text(value) for value in values.to_pylist()],
        pa.large_string(),
    )
