"""pairs.parquet and columns.parquet: the pairs of a run and their further columns, written and read in parts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.local import whole_file
from robin_cli.data.pair_table import ALWAYS, OPTIONAL_TEXTS, TEXTS, PairTable
from robin_cli.data.parquet_tables import batches, opened_file, table_batches, written_table
from robin_cli.data.spool import Spool
from robin_cli.data.texts import Texts, give_back, numbered_texts, numbers_of
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError, StorageError, did_you_mean, shown
from robin_cli.model.records import OTHER_COLUMN, SYSTEM_COLUMN, Value
from robin_cli.run.damage import UNREADABLE, rows_in, unreadable
from robin_cli.run.layout import COLUMNS, PAIRS, name_of

PAIRS_AT_A_TIME = 10_000
GROUP_BYTES = 2**25
"""A row group ends after this many bytes of texts: its pages, which are decoded whole, are then no longer."""
_NO_COLUMNS = pa.table({})


class StoredPairs(PairTable):
    """The pairs of the run at ``run``; columns and texts are read when they are needed. StorageError if they cannot be."""

    def __init__(self, run: Path) -> None:
        super().__init__(lambda: Spool.of(read_pair_batches(run)), lambda: read_columns(run))
        self.run = run

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def ids(self) -> Texts:
        """The ids, shape (pairs,), in memory."""
        return read_pair_ids(self.run)

    @cached_property
    def has(self) -> frozenset[str]:
        """The OPTIONAL_TEXTS that any pair has."""
        return frozenset(OPTIONAL_TEXTS.keys() & read_pair_names(self.run))

    def texts(self, name: str) -> Iterator[pa.Array]:
        """Yield the column ``name``, one of TEXTS, in parts."""
        if name == OTHER_COLUMN and name not in self.has:
            raise StorageError(
                f"{self.run / PAIRS}: has no second responses; restore it from a copy"
            )
        return _texts([self.run], name)

    def at(self, places: NDArray[np.integer[Any]]) -> PairTable:
        """Return the pairs at ``places``, which must rise, with their texts and without further columns."""
        spool, start = Spool(), 0
        for batch in read_pair_batches(self.run):
            mine = (
                places[np.searchsorted(places, start) : np.searchsorted(places, start + len(batch))]
                - start
            )
            start += len(batch)
            if len(mine):
                spool.add(batch.take(pa.array(mine)))
        give_back()
        return PairTable(lambda: spool)

    @property
    def systems(self) -> list[Value | None]:
        """The system of each pair's response. StorageError if a pair has none."""
        found = self.column(SYSTEM_COLUMN)
        if missing := found.count(None):
            raise StorageError(
                f"{self.run}: {missing:,} of {len(found):,} pairs have no {SYSTEM_COLUMN}, and the run was made to compare "
                f"systems; restore {COLUMNS} from a copy"
            )
        return found

    def column(self, name: str) -> list[Value | None]:
        """Return each pair's value in a further column; None if it has none."""
        found = _read_columns(self.run, lambda known: {name} & set(known))[0]
        return found[name].to_pylist() if found.num_columns else [None] * len(self)


def _texts(paths: Sequence[Path], name: str) -> Iterator[pa.Array]:
    """Yield a column of texts of several runs, in parts. StorageError if they cannot be read."""
    return (
        batch.column(name)
        for path in paths
        for batch in read_pair_batches(path, lambda each: each == name)
    )


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


def read_pairs(path: Path) -> PairTable:
    """Read the pairs of the run at ``path`` with their texts. StorageError if they cannot be read."""
    spool = Spool.of(read_pair_batches(path))
    return PairTable(lambda: spool, lambda: read_columns(path))


def read_column_names(path: Path) -> list[str]:
    """Return the names of the further columns of the run at ``path``. StorageError if they cannot be read."""
    return _read_columns(path, lambda _known: ())[1]


def read_columns(path: Path, names: Collection[str] | None = None) -> pa.Table:
    """Return further columns of the run at ``path``, a row per pair: int64, double, bool or large_string.

    Args:
        names: the columns to read; None for all.

    Raises:
        InputError: the run has no such column. StorageError: they cannot be read.
    """
    table, known = _read_columns(
        path, lambda known: [name for name in known if names is None or name in names]
    )
    for name in names or ():
        if name not in known:
            raise InputError(f"{name_of(path)}: {_no_column(name, known)}")
    return table


def _no_column(name: str, known: Sequence[str]) -> str:
    if not known:
        return (
            f'no column "{shown(name)}": its data had only prompts, responses and human ratings; make a new run from data '
            "that have the column"
        )
    listed = ", ".join(map(shown, known[:12])) + (", …" if len(known) > 12 else "")
    return f'no column "{shown(name)}" in its data, which have {listed}{did_you_mean(name, known)}'


def _read_columns(
    path: Path, wanted: Callable[[list[str]], Iterable[str]]
) -> tuple[pa.Table, list[str]]:
    """Return a run's ``wanted`` further columns, and the names of all; none if the file does not exist."""
    place = path / COLUMNS
    count = rows_in(path / PAIRS)
    try:
        with place.open("rb") as stream:
            file, schema = opened_file(stream, str(place))
            if file.metadata.num_rows != count:
                raise ValueError(
                    f"{COLUMNS} has {file.metadata.num_rows:,} rows, and {PAIRS} {count:,}"
                )
            names = list(wanted(schema.names))
            # The column a.b comes along with the column a.
            found = [batch.select(names) for batch in batches(file, str(place), names)]
            return pa.Table.from_batches(found, pa.schema(map(schema.field, names))), schema.names
    except FileNotFoundError:
        return _NO_COLUMNS, []
    except UNREADABLE as error:
        raise unreadable(place, error) from error


def read_pair_ids(path: Path) -> Texts:
    """Return the ids of the pairs of the run at ``path``. StorageError if they cannot be read."""
    return Texts(read_table_of_pairs(path, lambda name: name == "pair_id")["pair_id"])


def count_empty_responses(path: Path) -> int:
    """Return how many pairs of the run at ``path`` have an empty response. StorageError if they cannot be read."""
    return sum(
        int(pc.sum(pc.equal(pc.binary_length(batch.column("response")), 0)).as_py() or 0)
        for batch in read_pair_batches(path, lambda name: name == "response")
    )


def read_pair_names(path: Path) -> list[str]:
    """Return the names of the columns in pairs.parquet of the run at ``path``. StorageError if they cannot be read."""
    place = path / PAIRS
    try:
        with place.open("rb") as file:
            names = list(opened_file(file, str(place))[1].names)
    except UNREADABLE as error:
        raise unreadable(place, error) from error
    if len(set(names)) < len(names) or not set(ALWAYS) <= set(names):
        raise StorageError(f"{place}: its columns are not those of a run; restore it from a copy")
    return names


def read_pair_batches(
    path: Path, wanted: Callable[[str], bool] = lambda _: True
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of the pairs of the run at ``path``, in batches. StorageError if they cannot be read."""
    place = path / PAIRS
    try:
        with place.open("rb") as file:
            for batch in table_batches(file, str(place), wanted):
                for name in filter(wanted, ALWAYS):
                    batch.column(name)  # KeyError if it is missing
                yield _typed(batch)
    except UNREADABLE as error:
        raise unreadable(place, error) from error


def read_table_of_pairs(path: Path, wanted: Callable[[str], bool]) -> pa.Table:
    """Return the wanted columns of the pairs of the run at ``path``. StorageError if they cannot be read."""
    batches = list(read_pair_batches(path, wanted))
    try:
        return pa.Table.from_batches(batches).combine_chunks()
    except ValueError as error:  # there is no row
        raise unreadable(path / PAIRS, error) from error


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return pairs with the types that robin writes. ArrowException if they have others."""
    types = [pa.large_string() if name in TEXTS else pa.float64() for name in batch.schema.names]
    return batch.cast(pa.schema(list(map(pa.field, batch.schema.names, types))))


def write_pairs(pairs: PairTable, path: Path) -> None:
    """Write pairs in the columns of :attr:`PairTable.table`, in batches, for there may be ten million."""
    with whole_file(path) as file:
        _write_batches(file, pairs.table.schema, pairs.batches())
    give_back()  # the memory of their pages, which is much if texts are long


def write_columns(pairs: PairTable, path: Path) -> None:
    """Write the further columns of pairs, a row per pair; without any, remove the file."""
    columns = pairs.columns
    if not columns.num_columns:
        path.unlink(missing_ok=True)
        return
    with whole_file(path) as file:
        _write_batches(file, columns.schema, columns.to_batches())


def _write_batches(file: IO[bytes], schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    """Write batches in row groups of a bounded size."""
    with written_table(file, schema) as writer:
        group: list[pa.RecordBatch] = []
        for batch in batches:
            for start in range(0, len(batch), PAIRS_AT_A_TIME):
                group.append(batch.slice(start, PAIRS_AT_A_TIME))
                is_large = sum(each.nbytes for each in group) >= GROUP_BYTES
                if is_large or sum(map(len, group)) >= PAIRS_AT_A_TIME:
                    writer.write_table(pa.Table.from_batches(group, schema))
                    group = []
        if group:
            writer.write_table(pa.Table.from_batches(group, schema))


def write_table(table: pa.Table, path: Path) -> None:
    """Write a Parquet file for its owner only; it appears whole or not at all."""
    with whole_file(path) as file, written_table(file, table.schema) as writer:
        writer.write_table(table)
