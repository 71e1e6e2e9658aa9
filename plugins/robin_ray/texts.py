"""Bring the texts of pairs to workers: all at once if they are few, else with each call."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from robin_cli.data.pair_table import REFERENCE
from robin_cli.model.records import OTHER_COLUMN, Pair
from robin_cli.run.layout import PAIRS
from robin_cli.run.tables import opened_table, read_table

if TYPE_CHECKING:
    import pyarrow as pa

MOST_AT_ONCE = 256 * 2**20
"""The limit on the bytes of texts that each machine gets as a whole."""

_COLUMNS = ("pair_id", "prompt", "response", REFERENCE, OTHER_COLUMN)


class PairTexts:
    """Pairs with their texts, by their position in the data, from a table of :func:`table_of`."""

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
    """Return the texts of the pairs of ``run``."""
    with opened_table(run / PAIRS) as (_, schema):
        names = [name for name in schema.names if name in _COLUMNS]
    return read_table(run / PAIRS, names).combine_chunks()
