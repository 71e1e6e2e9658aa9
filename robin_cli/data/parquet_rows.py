"""Parquet as rows, a batch at a time and only the columns that are needed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.data import lines
from robin_cli.data.rows import BadRow, Row, Table, shown
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

_BATCH_ROWS = 1024
_BUFFER_BYTES = 2**20

_UNREADABLE = (OSError, ValueError, LookupError, TypeError, ArithmeticError, NotImplementedError, MemoryError)
"""What pyarrow raises for damaged files and values it has no Python type for: its own errors are subclasses of these,
but for ArrowException itself, and its converters add Python's."""


def read_parquet(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:
    """Rows with the wanted columns; a field of a struct is named with dots. Raises InputError for a damaged file."""
    import pyarrow.parquet as pq

    with _readable(source):
        # Without a buffer size, or with pre_buffer, pyarrow holds whole row groups: 930 MB where this takes 110.
        file = pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES, pre_buffer=False)
        names = list(_leaf_names(list(file.schema_arrow)))
    columns = [name for name in names if name in wanted]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise InputError(f'{source}: two columns are called "{shown(twice)}". Rename or remove one of them.')
    return Table(names, "row", _rows(file, source, columns))


def _rows(file: pq.ParquetFile, source: str, columns: list[str]) -> Iterator[tuple[int, Row | BadRow]]:
    number = total = 0
    with _readable(source):
        # One thread: the work is in making Python strings, and more threads only hold more batches in memory.
        for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=columns, use_threads=False):
            total += batch.nbytes
            if total > lines.MAX_FILE_BYTES:
                raise lines.file_too_long(source)
            rows = _python_rows(batch)
            yield from enumerate(rows, number + 1)
            number += len(rows)


def _python_rows(batch: pa.RecordBatch) -> Sequence[Row | BadRow]:
    try:
        rows: list[Row] = batch.to_pylist()
    except UnicodeDecodeError:  # pyarrow does not say in which row
        return [_python_row(batch.slice(at, 1)) for at in range(batch.num_rows)]
    return rows


def _python_row(batch: pa.RecordBatch) -> Row | BadRow:
    try:
        row: Row = batch.to_pylist()[0]
    except UnicodeDecodeError:
        return BadRow(
            "the text is not UTF-8. Write the column anew as UTF-8, or leave such rows out with --skip-bad-rows."
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


@contextmanager
def _readable(source: str) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (*_UNREADABLE, pa.ArrowException) as error:
        reason = shown((str(error).splitlines() or [type(error).__name__])[0], 160)
        raise InputError(
            f"{source}: not a Parquet file that can be read: {reason.rstrip('.')}. Write or download it again."
        ) from None
