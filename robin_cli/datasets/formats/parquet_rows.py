"""Parquet as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.datasets import lines
from robin_cli.datasets.fields import CHATS
from robin_cli.datasets.parquet_tables import batches, opened_file, readable
from robin_cli.datasets.rows import BadRow, Format, Row, Table, leads_into
from robin_cli.model.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa


def read_parquet(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:
    """Rows with the wanted columns; a field of a struct is named with dots.

    Raises InputError for a damaged file, and for one that takes too much memory to decode.
    """
    file, schema = opened_file(stream, source)
    names = list(_leaf_names(list(schema)))
    columns = [name for name in names if name in wanted or any(leads_into(path, name) for path in wanted)]
    if {"prompt", "response"} <= set(columns):  # conversations matter only where one of these is not there
        columns = [name for name in columns if name not in CHATS]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise InputError(f'{source}: two columns are called "{shown(twice)}". Rename or remove one of them.')
    return Table(names, "row", _rows(batches(file, stream, source, columns), source))


def _rows(found: Iterator[pa.RecordBatch], source: str) -> Iterator[tuple[int, Row | BadRow]]:
    number = 0
    with readable(source):
        for batch in found:
            yield from enumerate(_python_rows(batch), number + 1)
            number += batch.num_rows


def _python_rows(batch: pa.RecordBatch) -> Iterable[Row | BadRow]:
    if batch.nbytes <= lines.MAX_LINE_BYTES:
        try:
            rows: list[Row] = batch.to_pylist()
        except UnicodeDecodeError:  # pyarrow does not say in which row
            pass
        else:
            return rows
    return (_python_row(batch.slice(at, 1)) for at in range(batch.num_rows))


def _python_row(batch: pa.RecordBatch) -> Row | BadRow:
    if batch.nbytes > lines.MAX_LINE_BYTES:
        return BadRow(lines.too_long("row"), "too long")
    try:
        row: Row = batch.to_pylist()[0]
    except UnicodeDecodeError:
        return BadRow(
            "the text is not UTF-8. Write the column anew as UTF-8, or leave such rows out with --skip-bad-rows.",
            "not UTF-8",
        )
    return row


def _leaf_names(fields: Sequence[pa.Field[Any]], prefix: str = "") -> Iterator[str]:
    import pyarrow as pa

    for field in fields:
        if pa.types.is_struct(field.type):
            inner = [field.type.field(at) for at in range(field.type.num_fields)]
            yield from _leaf_names(inner, f"{prefix}{field.name}.")
        else:
            yield f"{prefix}{field.name}"


FORMATS = {".parquet": Format(read_parquet, (b"PAR1",), packable=False)}
