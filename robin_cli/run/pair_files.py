"""The data of a run: its pairs, their further columns, and the variances that its scheduler starts with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.pair_table import OPTIONAL_TEXTS, PairTable
from robin_cli.data.parquet_tables import batches
from robin_cli.data.spool import Spool
from robin_cli.data.texts import Texts, give_back, numbered_texts, numbers_of
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Value
from robin_cli.run.layout import COLUMNS, PAIRS, SEGMENTS, VARIANCES
from robin_cli.run.tables import (
    column_names,
    count_rows,
    opened_table,
    read_table,
    table_writer,
    write_table,
)

PAIRS_AT_A_TIME = 10_000
GROUP_BYTES = 2**25
"""A row group ends after this many bytes of texts: its pages, which are decoded whole, are then no longer."""


def write_data(run: Path, pairs: PairTable, variances: FloatArray | None) -> None:
    """Write the data of a new run. OSError if the disk refuses."""
    (run / SEGMENTS).mkdir(mode=0o700, exist_ok=True)
    _write_batches(run / PAIRS, pairs.table.schema, pairs.batches())
    give_back()  # the memory of their pages, which is much if texts are long
    for name in (COLUMNS, VARIANCES):  # of an earlier run without answers
        (run / name).unlink(missing_ok=True)
    if pairs.columns.num_columns:
        _write_batches(run / COLUMNS, pairs.columns.schema, pairs.columns.to_batches())
    if variances is not None:
        write_table(pa.table({"variance": variances}), run / VARIANCES)


def _write_batches(path: Path, schema: pa.Schema, parts: Iterable[pa.RecordBatch]) -> None:
    """Write batches in row groups of a bounded size: there may be ten million pairs, with long texts."""
    with table_writer(path, schema) as writer:
        group: list[pa.RecordBatch] = []
        for batch in parts:
            for start in range(0, len(batch), PAIRS_AT_A_TIME):
                group.append(batch.slice(start, PAIRS_AT_A_TIME))
                is_large = sum(part.nbytes for part in group) >= GROUP_BYTES
                if is_large or sum(map(len, group)) >= PAIRS_AT_A_TIME:
                    writer.write_table(pa.Table.from_batches(group, schema))
                    group = []
        if group:
            writer.write_table(pa.Table.from_batches(group, schema))


def read_variances(run: Path) -> FloatArray | None:
    """Return the variances that the scheduler of ``run`` started with, shape (K,), or None. StorageError for damage."""
    if not (run / VARIANCES).exists():
        return None
    return np.array(read_table(run / VARIANCES, ["variance"])["variance"], np.float64)


class StoredPairs(PairTable):
    """The pairs of the run at ``run``; columns and texts are read when they are needed. StorageError if they cannot be."""

    def __init__(self, run: Path) -> None:
        super().__init__(
            lambda: Spool.from_batches(read_pair_batches(run)), lambda: read_columns(run)
        )
        self.run = run

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def ids(self) -> Texts:
        """The ids, shape (pairs,), in memory."""
        return Texts(read_table(self.run / PAIRS, ["pair_id"]).combine_chunks()["pair_id"])

    @cached_property
    def has(self) -> frozenset[str]:
        """The OPTIONAL_TEXTS that any pair has."""
        return frozenset(OPTIONAL_TEXTS.keys() & column_names(self.run / PAIRS))

    def texts(self, name: str) -> Iterator[pa.Array]:
        """Yield the column ``name``, one of TEXTS, in parts."""
        return _texts([self.run], name)

    def at(self, places: NDArray[np.integer[Any]]) -> PairTable:
        """Return the pairs at ``places``, which must rise, with their texts and without further columns."""
        spool, start = Spool(), 0
        for batch in read_pair_batches(self.run):
            first, last = np.searchsorted(places, [start, start + len(batch)])
            if first < last:
                spool.add(batch.take(pa.array(places[first:last] - start)))
            start += len(batch)
        give_back()
        return PairTable(lambda: spool)

    def column(self, name: str) -> list[Value | None]:
        """Return each pair's value in a further column; None if it has none."""
        if name not in read_column_names(self.run):
            return [None] * len(self)
        values: list[Value | None] = read_columns(self.run, [name])[name].to_pylist()
        return values


def read_pair_batches(
    path: Path, wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of the pairs of the run at ``path``, in batches. StorageError if they cannot be read."""
    with opened_table(path / PAIRS) as (file, schema):
        yield from batches(file, str(path / PAIRS), list(filter(wanted, schema.names)))


def _texts(paths: Sequence[Path], name: str) -> Iterator[pa.Array]:
    """Yield a column of texts of several runs, in parts. StorageError if they cannot be read."""
    for path in paths:
        for batch in read_pair_batches(path, name.__eq__):
            yield batch.column(name)


def read_numbers(paths: Sequence[Path], name: str) -> IntArray:
    """Return numbers for the texts in a column of several runs: see :func:`robin_cli.data.texts.numbers_of`.

    Returns:
        The numbers for the pairs of all runs, run by run, shape (pairs,).

    Raises:
        StorageError: the pairs of a run cannot be read.
    """
    return numbers_of(_texts(paths, name))


def read_prompts(paths: Sequence[Path]) -> tuple[IntArray, Texts]:
    """Return the numbers of the prompts as :func:`read_numbers`, and the different prompts."""
    return numbered_texts(lambda: _texts(paths, "prompt"), str)


def count_empty_responses(path: Path) -> int:
    """Return how many pairs of the run at ``path`` have an empty response. StorageError if they cannot be read."""
    empty = (
        pc.sum(pc.equal(pc.binary_length(response), 0)).as_py()
        for response in _texts([path], "response")
    )
    return sum(count or 0 for count in empty)


def read_column_names(path: Path) -> list[str]:
    """Return the names of the further columns of the run at ``path``. StorageError if they cannot be read."""
    return column_names(path / COLUMNS) if (path / COLUMNS).exists() else []


def read_columns(path: Path, names: Sequence[str] | None = None) -> pa.Table:
    """Return further columns of the run at ``path``, a row per pair: int64, double, bool or large_string.

    Args:
        names: the columns to read, which the run has; None for all.

    Raises:
        StorageError: they cannot be read.
    """
    pairs, known = count_rows(path / PAIRS), read_column_names(path)
    if not known:
        return pa.table({})
    table = read_table(path / COLUMNS, known if names is None else names)
    if len(table) != pairs:
        raise StorageError(
            f"{path / COLUMNS} has {len(table):,} rows, and {PAIRS} {pairs:,}; restore it from a copy"
        )
    return table.replace_schema_metadata(None)
