"""Bring the texts of pairs to workers: all at once if they are few, through shared storage, or with each call."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from robin_cli.data.pair_table import REFERENCE
from robin_cli.model.errors import RobinError
from robin_cli.model.records import OTHER_COLUMN, Pair
from robin_cli.run.layout import PAIRS
from robin_cli.run.pair_files import read_pairs
from robin_cli.run.tables import opened_table, read_table

if TYPE_CHECKING:
    import pyarrow as pa

    from robin_ray.wire import Run

MOST_AT_ONCE = 256 * 2**20
"""The limit on the bytes of texts that each machine gets as a whole."""

_COLUMNS = ("pair_id", "prompt", "response", REFERENCE, OTHER_COLUMN)
_TOLD_BY = 64 * 1024


class PairTexts(Protocol):
    """Pairs with their texts, by their position in the data."""

    def __getitem__(self, position: int, /) -> Pair: ...


class _Table:
    """Pairs from a table of their texts."""

    def __init__(self, table: pa.Table) -> None:
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        self._texts = [columns[name] for name in _COLUMNS[:3]]
        self._reference, self._other = columns.get(REFERENCE), columns.get(OTHER_COLUMN)

    def __getitem__(self, position: int) -> Pair:
        pair_id, prompt, response = (column[position].as_py() for column in self._texts)
        reference, other = (
            None if column is None else column[position].as_py()
            for column in (self._reference, self._other)
        )
        return Pair(pair_id, prompt, response, reference=reference, other=other)


def bytes_of_texts(run: Path) -> int:
    """Estimate the memory for the texts of the pairs of ``run``. StorageError if they cannot be read."""
    with opened_table(run / PAIRS) as (file, _):
        metadata = file.metadata
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        return sum(group.total_byte_size for group in groups)


def table_of(run: Path) -> pa.Table:
    """Return the texts of the pairs of ``run``, for :func:`texts_at`."""
    with opened_table(run / PAIRS) as (_, schema):
        names = [name for name in schema.names if name in _COLUMNS]
    return read_table(run / PAIRS, names).combine_chunks()


def identity_of(run: Path) -> str:
    """Identify the file of the pairs of ``run`` by its length and a digest of its end, which has the offsets of all data.

    Raises:
        OSError: the file is missing.
    """
    with (run / PAIRS).open("rb") as file:
        length = file.seek(0, os.SEEK_END)
        file.seek(max(0, length - _TOLD_BY))
        return f"{length}-{hashlib.sha256(file.read()).hexdigest()}"


def texts_at(run: Run, handed: object) -> PairTexts | None:
    """Return the texts for a worker: those ``handed`` over, or the run's, read here; None if neither is available.

    Args:
        handed: a table of texts; None for none.
    """
    if handed is not None:
        return _Table(handed)
    if not run.path:
        return None
    try:
        return read_pairs(Path(run.path)) if identity_of(Path(run.path)) == run.identity else None
    except (OSError, RobinError):  # no storage that is shared
        return None
