"""Rows that are as most are, made into columns together: ten times as fast as one by one, and to the same end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.datasets.checking import LEVELS, pair_ids_of
from robin_cli.datasets.columns import column_in, column_of
from robin_cli.datasets.pair_table import REFERENCE
from robin_cli.model.records import GROUP_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from robin_cli.datasets.fields import Field, Fields
    from robin_cli.datasets.rows import Row

_TEXT = pa.large_string()
_SPACE, _ASCII = 0x20, 0x7F


class Columns(NamedTuple):
    """Pairs as columns: those of :class:`~robin_cli.datasets.pair_table.PairTable`.

    ``more`` are the further ones of which something may be kept, ``systems`` those that fields were mapped to.
    """

    ids: Sequence[str]
    pairs: Mapping[str, pa.Array]
    more: Mapping[str, pa.Array]
    systems: Mapping[str, pa.Array]


class _NotPlain(Exception):
    """One of these rows has to be looked at by itself: it may be no pair, or what it holds may stand elsewhere."""


def columns_of(rows: Sequence[Row], fields: Fields, names: Sequence[str]) -> Columns | None:
    """The pairs that rows with the same keys hold, as :func:`~robin_cli.datasets.checking.pair_of` has them.

    None where one of them has to be looked at by itself.

    Args:
        names: the keys under which further columns lie.
    """

    def column(path: str) -> pa.Array:
        values = [row[path] for row in rows]
        kinds = {*map(type, values)} - {type(None)}
        if kinds <= {str}:
            return pa.array(values, _TEXT)
        if kinds == {int}:
            return pa.array(values, pa.int64())
        if kinds == {float}:
            return _with_nulls(pa.array(values, pa.float64()))
        raise _NotPlain

    try:
        return _columns(rows[0].keys(), column, lambda name: column_of([row[name] for row in rows]), fields, names)
    except (_NotPlain, UnicodeEncodeError, OverflowError):  # half a surrogate pair: where, who looks at each row says
        return None


def columns_in(batch: pa.RecordBatch, fields: Fields, names: Sequence[str]) -> Columns | None:
    """The same of rows that stand in columns."""

    def column(path: str) -> pa.Array:
        values = batch.column(path)
        if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
            return values.cast(_TEXT)
        if pa.types.is_floating(values.type):
            return _with_nulls(values.cast(pa.float64()))
        if pa.types.is_integer(values.type):
            return values.cast(pa.int64())
        raise _NotPlain

    try:
        batch.validate(full=True)  # that texts are UTF-8, which pyarrow takes a file's word for
        return _columns(batch.schema.names, column, lambda name: column_in(batch.column(name)), fields, names)
    except (_NotPlain, pa.ArrowException):
        return None


def _columns(
    keys: Collection[str],
    column: Callable[[str], pa.Array],
    further: Callable[[str], pa.Array | None],
    fields: Fields,
    names: Sequence[str],
) -> Columns:
    if fields.other is not None or not all(field.path in keys for field in fields.all):
        raise _NotPlain
    prompts, responses = _texts(column(fields.prompt.path)), _texts(column(fields.response.path))
    if not all(doubtful := _doubtful(prompts)) or any(map(str.isspace, doubtful)):
        raise _NotPlain
    if fields.id is None:
        ids = pair_ids_of(*(texts.cast(pa.large_binary()).to_pylist() for texts in (prompts, responses)))
    else:
        ids = _names(column(fields.id.path)).to_pylist()
    pairs = {"pair_id": pa.array(ids, _TEXT), "prompt": prompts, "response": responses}
    if fields.reference is not None:
        pairs[REFERENCE] = _references(column(fields.reference.path), fields.reference)
    if fields.group is not None:
        pairs[GROUP_COLUMN] = _names(column(fields.group.path))
    pairs |= {each.name: _ratings(column(each.path)) for each in fields.ratings}
    systems = {each.name: _names(column(each.path)) for each in fields.systems}
    more = {name: further(name) for name in names}
    kept = {name: values for name, values in more.items() if values is not None}
    if len(kept) < len(more):
        raise _NotPlain
    there = {name: values for name, values in pairs.items() if values.null_count < len(values)}
    return Columns(ids, there, kept, systems)


def _texts(values: pa.Array) -> pa.Array:
    if values.type != _TEXT or values.null_count:
        raise _NotPlain
    return values


def _doubtful(texts: pa.Array) -> list[str]:
    """Those that do not begin with an ASCII character that is no white space, and may be blank."""
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    is_empty = ends[:-1] == ends[1:]
    first = np.full(len(texts), _SPACE, np.uint8)
    if data is not None:
        first[~is_empty] = np.frombuffer(data, np.uint8)[ends[:-1][~is_empty]]
    found: list[str] = texts.take(pa.array(np.flatnonzero((first <= _SPACE) | (first >= _ASCII)))).to_pylist()
    return found


def _names(values: pa.Array) -> pa.Array:
    """Names, that whole numbers may be, too."""
    if values.null_count or values.type == pa.float64():
        raise _NotPlain
    named = values.cast(_TEXT)
    if pc.any(_are_empty(named)).as_py():
        raise _NotPlain
    return named


def _references(values: pa.Array, field: Field) -> pa.Array:
    """Reference answers, null where one is empty."""
    if values.type != _TEXT or (field.mapped and values.null_count):
        raise _NotPlain
    return pc.if_else(_are_empty(values), None, values)


def _ratings(values: pa.Array) -> pa.Array:
    """Ratings that are usual levels, or any finite numbers with a point, null where there is none."""
    if values.type == _TEXT and values.null_count < len(values):
        raise _NotPlain
    if values.type == pa.int64() and values.null_count < len(values):
        found = pc.min_max(values).as_py()
        if found["min"] < 0 or found["max"] >= LEVELS:
            raise _NotPlain
    ratings = values.cast(pa.float64())
    if not pc.all(pc.is_finite(ratings), min_count=0).as_py():
        raise _NotPlain
    return ratings


def _are_empty(texts: pa.Array) -> pa.Array:
    return pc.equal(pc.binary_length(texts), 0)


def _with_nulls(values: pa.Array) -> pa.Array:
    """Numbers, null where one is nan."""
    return pc.if_else(pc.is_nan(values), None, values)
