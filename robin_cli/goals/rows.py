"""The data beside each row: columns and texts for files, and for people a text that they recognise beside its id."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.images import named
from robin_cli.goals.checks import TEXTS_SHOWN
from robin_cli.model.arms import IntArray
from robin_cli.model.records import PLACE_COLUMNS, Pair
from robin_cli.run.pair_files import read_pair_batches
from robin_cli.run.reader import RunReader
from robin_cli.run.segments import gathered
from robin_cli.show.fitting import shortened
from robin_cli.show.tables import Beside, read_by

_TEXTS = {"prompt": "prompt", "response": "response"}
"""Columns of the texts, and their names in pairs.parquet."""
_GROUP_BYTES = 2**24
_LENGTH = 60
"""The width of a beginning, in cells."""
_MOST_COLUMNS = 12
"""The most columns that a report can search."""
_HASHED = re.compile(r"[0-9a-f]{16}(~[0-9a-f]{16})?\Z")


def is_hashed(pair_id: str) -> bool:
    """Return whether an id looks like those that robin makes for data without ids, which people do not recognise."""
    return _HASHED.match(pair_id) is not None


def beginning(pair: Pair, *, is_shared: bool) -> str:
    """Return the beginning of a pair's prompt; ``is_shared``: other pairs have it too, so add that of its response."""
    if not is_shared:
        return _cut(pair.prompt, _LENGTH)
    return f"{_cut(pair.prompt, _LENGTH // 2)} → {_cut(pair.response, _LENGTH // 2)}"


def beside(run: RunReader, pair: NDArray[np.integer[Any]], show: Sequence[str] = ()) -> Beside:
    """Return a reader of the texts that people see beside rows.

    Args:
        pair: of each row, shape (rows,).
        show: columns of the data, also prompt and response; without it the place in the data and the prompt
            are shown if ids are hashes.
    """

    def read(rows: IntArray) -> Mapping[str, Sequence[str]]:
        pairs, place = np.unique(pair[rows], return_inverse=True)
        names = list(show)
        if any(is_hashed(run.pair_ids[at]) for at in pairs.tolist()) and "prompt" not in show:
            places = [name for name in PLACE_COLUMNS.values() if name in run.column_names]
            names = [*places, "prompt", *names]
        columns: dict[str, Sequence[str]] = {}
        for name in dict.fromkeys(names):
            if name in TEXTS_SHOWN:
                both = zip(run.pairs.at(pairs), pairs, strict=True)
                texts = [_text(stored, name, run, at) for stored, at in both]
            else:
                values = run.column(name)
                texts = [values[at] or "" for at in pairs.tolist()]
            columns[name] = [texts[at] for at in place.tolist()]
        return columns

    return read


def further_columns(run: RunReader, pair: NDArray[np.integer[Any]], but: Sequence[str]) -> Beside:
    """Return a reader of the further columns of the data of each row, without ``but``, cut; only the first of many."""
    names = [name for name in run.column_names if name not in but][:_MOST_COLUMNS]

    def read(rows: IntArray) -> Mapping[str, Sequence[str]]:
        places = pair[rows].tolist()
        columns = ((name, run.column(name)) for name in names)
        return {
            name: [_cut(values[at] or "", _LENGTH) for at in places] for name, values in columns
        }

    return read


def _text(pair: Pair, name: str, run: RunReader, at: int) -> str:
    if name == "response":
        return _cut(pair.response, _LENGTH)
    is_named = run.manifest.is_pairwise and bool(run.matches.names)  # by the names of both systems
    return beginning(pair, is_shared=not is_named and bool(run.pairs.is_shared[at]))


def _cut(text: str, length: int) -> str:
    return shortened(" ".join(named(text)[: 8 * length].split()), length)


def with_data(
    table: pa.Table,
    run: RunReader,
    pairs: NDArray[np.integer[Any]] | None,
    *,
    with_text: bool,
    texts: Mapping[str, str] = _TEXTS,
    without: Collection[str] = (),
) -> pa.RecordBatchReader:
    """Return ``table`` with the data of the pair of each row.

    Args:
        pairs: of the rows, rising; None if there is a row for each, in order.
        with_text: add ``texts``, columns that come last, and the columns of the data that they are.
        without: names of further columns that ``table`` has already.
    """
    taken = {*table.column_names, *texts}
    for name in run.column_names:
        if name in without:
            continue
        called = name
        while called in taken or (called != name and called in run.column_names):
            called = f"data.{called}"
        taken.add(called)
        values = run.pairs.columns[name]
        table = table.append_column(called, values if pairs is None else values.take(pairs))
    if not with_text:
        return table.to_reader()
    schema = table.schema
    for name in texts:
        schema = schema.append(pa.field(name, pa.large_string()))
    return read_by(
        schema,
        _with_texts(table, run, np.arange(len(table)) if pairs is None else pairs, texts, schema),
    )


def _with_texts(
    table: pa.Table,
    run: RunReader,
    pairs: NDArray[np.integer[Any]],
    texts: Mapping[str, str],
    schema: pa.Schema,
) -> Iterator[pa.Table]:
    """Yield ``table`` with the texts of the pair of each row, some rows at a time, as they are read."""
    start, wanted = 0, set(texts.values())
    batches = read_pair_batches(run.path, lambda name: name in wanted)
    for part in gathered(
        (pa.Table.from_batches([batch]) for batch in batches), nbytes=_GROUP_BYTES
    ):
        first, last = np.searchsorted(pairs, [start, start + len(part)]).tolist()
        rows = pa.array(pairs[first:last] - start)
        columns = [part[of_data].take(rows) for of_data in texts.values()]
        start += len(part)
        yield pa.table([*table.slice(first, last - first).columns, *columns], schema=schema)
