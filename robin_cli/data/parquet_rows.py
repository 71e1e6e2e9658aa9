"""Parquet as rows, a batch at a time and only the columns that are needed."""

from __future__ import annotations

import io
from contextlib import contextmanager
from itertools import groupby
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from robin_cli.data import lines
from robin_cli.data.fields import CHATS
from robin_cli.data.lines import check_unpacked
from robin_cli.data.parquet_pages import batch_rows, most_unpacked
from robin_cli.data.rows import BadRow, Row, Table, leads_into, shown
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

_BUFFER_BYTES = 2**20
_AT_ONCE_BYTES = 2**28

_UNREADABLE = (OSError, ValueError, LookupError, TypeError, ArithmeticError, NotImplementedError, MemoryError)
"""What pyarrow raises for damaged files and values it has no Python type for: its own errors are subclasses of these,
but for ArrowException itself, and its converters add Python's."""


def read_parquet(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:
    """Rows with the wanted columns; a field of a struct is named with dots.

    Raises InputError for a damaged file, and for one that takes too much memory to decode.
    """
    with _readable(source):
        file = _opened(stream)
        names = list(_leaf_names(list(file.schema_arrow)))
    columns = [name for name in names if name in wanted or any(leads_into(path, name) for path in wanted)]
    if {"prompt", "response"} <= set(columns):  # conversations matter only where one of these is not there
        columns = [name for name in columns if name not in CHATS]
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise InputError(f'{source}: two columns are called "{shown(twice)}". Rename or remove one of them.')
    return Table(names, "row", _rows(batches(file, stream, source, columns), source))


def read_table(stream: IO[bytes], source: str, columns: Sequence[str]) -> pa.Table:
    """The columns of a Parquet file, of those that it has. Raises InputError as :func:`read_parquet`."""
    import pyarrow as pa

    with _readable(source):
        file = _opened(stream)
        schema = file.schema_arrow
    names = [name for name in schema.names if name in columns]
    plain = pa.schema([field.with_type(_plain_type(field.type)) for field in map(schema.field, names)])
    return pa.Table.from_batches(list(batches(file, stream, source, names)), plain)


def table_batches(stream: IO[bytes], source: str) -> Iterator[pa.RecordBatch]:
    """All of a Parquet file, some rows at a time. Raises InputError as :func:`read_parquet`."""
    with _readable(source):
        file = _opened(stream)
    yield from batches(file, stream, source, file.schema_arrow.names)


def check_table(stream: IO[bytes], source: str, columns: Collection[str]) -> None:
    """Look whether columns of a Parquet file can be read at once; back to its beginning. InputError as :func:`read_parquet`."""
    with _readable(source):
        file = _opened(stream)
        names = [name for name in file.schema_arrow.names if name in columns]
        if most_unpacked(file, stream, _leaves(file, names), source) > _AT_ONCE_BYTES:
            for _ in batches(file, stream, source, names):
                pass  # they are counted, one at a time
    stream.seek(0)


def _opened(stream: IO[bytes]) -> pq.ParquetFile:
    import pyarrow.parquet as pq

    # Without a buffer size, or with pre_buffer, pyarrow holds whole row groups: 930 MB where this takes 110.
    return pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES, pre_buffer=False)


def batches(file: pq.ParquetFile, stream: IO[bytes], source: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The columns' batches, each of so few rows that it fits into memory; InputError as :func:`read_parquet`."""
    leaves = _leaves(file, columns)
    packed = stream.seek(0, io.SEEK_END)
    total = 0
    with _readable(source):
        at_a_time = batch_rows(file, stream, leaves, source)
        for rows, groups in groupby(range(len(at_a_time)), key=at_a_time.__getitem__):
            # One thread: the work is in making Python strings, and more threads only hold more batches in memory.
            for packed_batch in file.iter_batches(rows, row_groups=list(groups), columns=leaves, use_threads=False):
                batch = _expanded(packed_batch)
                total += batch.nbytes
                check_unpacked(total, packed, source)
                if total > lines.MAX_FILE_BYTES:
                    raise lines.file_too_long(source)
                yield batch


def _leaves(file: pq.ParquetFile, columns: Sequence[str]) -> list[str]:
    paths = [file.schema.column(at).path for at in range(len(file.schema))]
    return [path for path in paths if any(path == name or path.startswith(f"{name}.") for name in columns)]


def _expanded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with every text written out, as its rows will hold it: categories of pandas hide how large it is."""
    import pyarrow as pa

    types = [_plain_type(each) for each in batch.schema.types]
    if types == batch.schema.types:
        return batch
    return pa.record_batch(list(map(pa.Array.cast, batch.columns, types)), names=batch.schema.names)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries, at any depth."""
    import pyarrow as pa

    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        listed = pa.list_ if pa.types.is_list(kind) else pa.large_list
        return listed(kind.value_field.with_type(_plain_type(kind.value_type)))
    if pa.types.is_struct(kind):
        inner = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([field.with_type(_plain_type(field.type)) for field in inner])
    return kind


def _rows(found: Iterator[pa.RecordBatch], source: str) -> Iterator[tuple[int, Row | BadRow]]:
    number = 0
    with _readable(source):
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
