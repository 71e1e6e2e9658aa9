"""What the data say of each row of a table for files: its further columns, and its texts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.results.tables import read_by
from robin_cli.storage.pair_files import read_pair_batches
from robin_cli.storage.reader import RunData
from robin_cli.storage.segments import gathered

_TEXTS = {"prompt": "prompt", "response": "response"}
"""Columns of the texts, and what they are called among the run's pairs."""
_GROUP_BYTES = 2**24


def with_data(
    table: pa.Table,
    run: RunData,
    pairs: NDArray[np.integer[Any]] | None,
    *,
    with_text: bool,
    texts: Mapping[str, str] = _TEXTS,
    told: Collection[str] = (),
) -> pa.RecordBatchReader:
    """``table`` with what the data say of the pair of each row.

    Args:
        pairs: of the rows, rising; None where there is a row for each, in order.
        with_text: add ``texts``, columns that come last, and the columns of the data that they are.
        told: names of further columns that ``table`` has already.
    """
    taken = {*table.column_names, *texts}
    for name in run.column_names:
        if name in told:
            continue
        called = name
        while called in taken or (called != name and called in run.column_names):
            called = f"data.{called}"
        taken.add(called)
        values = run.columns[name]
        table = table.append_column(called, values if pairs is None else values.take(pairs))
    if not with_text:
        return table.to_reader()
    schema = table.schema
    for name in texts:
        schema = schema.append(pa.field(name, pa.large_string()))
    return read_by(schema, _with_texts(table, run, np.arange(len(table)) if pairs is None else pairs, texts, schema))


def _with_texts(
    table: pa.Table, run: RunData, pairs: NDArray[np.integer[Any]], texts: Mapping[str, str], schema: pa.Schema
) -> Iterator[pa.Table]:
    """``table`` with the texts of the pair of each row, some rows at a time, as they are read."""
    start, wanted = 0, set(texts.values())
    batches = read_pair_batches(run.path, lambda name: name in wanted)
    for found in gathered((pa.Table.from_batches([batch]) for batch in batches), nbytes=_GROUP_BYTES):
        first, last = np.searchsorted(pairs, [start, start + len(found)]).tolist()
        rows = pa.array(pairs[first:last] - start)
        columns = [found[of_data].take(rows) for of_data in texts.values()]
        start += len(found)
        yield pa.table([*table.slice(first, last - first).columns, *columns], schema=schema)
