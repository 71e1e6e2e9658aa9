"""A table of pairs that grows batch by batch, on disk: further columns get their types at the end."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.pair_table import ALWAYS, OPTIONAL_TEXTS, PairTable, pair_of, without_nulls
from robin_cli.data.spool import Spool
from robin_cli.model.records import Pair, Value, as_text

if TYPE_CHECKING:
    from robin_cli.data.checking import Held

_NOTHING = ""
"""A placeholder column for rows without further columns: no column of data has this name."""

_EXACT = 2**53
"""Every whole number up to here is a floating-point number."""

_TYPES: Mapping[type, pa.DataType] = {int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


class GrowingTable:
    """A table that batches of pairs are added to."""

    def __init__(self) -> None:
        self._pairs, self._further = Spool(), Spool()

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, at: int) -> Pair:
        return pair_of(self._pairs.row(at), without_nulls(self._further.row(at)))

    def add_pairs(self, pairs: Sequence[Pair | Held]) -> None:
        """Add pairs. InputError if the disk is full."""
        human, columns = (
            {name: [values.get(name) for values in rows] for name in dict.fromkeys(chain(*rows))}
            for rows in ([pair.human for pair in pairs], [pair.columns for pair in pairs])
        )
        texts = {name: name for name in ALWAYS} | OPTIONAL_TEXTS
        batch = {
            name: pa.array([getattr(pair, field) for pair in pairs], pa.large_string())
            for name, field in texts.items()
        }
        batch |= {name: pa.array(values, pa.float64()) for name, values in human.items()}
        further = _with_values({name: typed(values) for name, values in columns.items()})
        always = {name: batch.pop(name) for name in ALWAYS}
        self._pairs.add(pa.record_batch(always | _with_values(batch)))
        self._further.add(pa.record_batch(further or {_NOTHING: pa.nulls(len(pairs))}))

    def table(self, without: Collection[str] = ()) -> PairTable:
        """Return the pairs, ``without`` these further columns."""
        return PairTable(
            lambda: self._pairs, lambda: _joined(self._further.batches, {_NOTHING, *without})
        )


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
        return _texts(values)
    return pa.array(values, _TYPES.get(next(iter(kinds), str), pa.large_string()))


def _joined(batches: Sequence[pa.RecordBatch], without: Collection[str]) -> pa.Table:
    """Return further columns as one table.

    A column whose batches differ in type becomes numbers if it can, else texts.
    """
    names = dict.fromkeys(name for batch in batches for name in batch.schema.names)
    columns = {}
    for name in (name for name in names if name not in without):
        parts = [
            batch[name] if name in batch.schema.names else pa.nulls(len(batch)) for batch in batches
        ]
        kinds = {part.type for part in parts if part.type != pa.null()}
        if kinds == {pa.int64(), pa.float64()} and all(map(_is_exact, parts)):
            kinds = {pa.float64()}
        if len(kinds) > 1:
            parts, kinds = [_texts(part.to_pylist()) for part in parts], {pa.large_string()}
        (kind,) = kinds
        columns[name] = pa.chunked_array([part.cast(kind) for part in parts], kind)
    return pa.table(columns)


def _is_exact(values: pa.Array) -> bool:
    """Return whether floating-point numbers hold the values exactly."""
    if values.type != pa.int64() or values.null_count == len(values):
        return True
    ends = pc.min_max(values).as_py()
    return bool(ends["min"] >= -_EXACT and ends["max"] <= _EXACT)


def _texts(values: Sequence[Value | None]) -> pa.Array:
    return pa.array([None if each is None else as_text(each) for each in values], pa.large_string())
