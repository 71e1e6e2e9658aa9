"""Parquet as tables, a batch at a time and only the columns that are needed, in a memory that no file decides."""

from __future__ import annotations

import hashlib
import io
from contextlib import contextmanager
from itertools import groupby
from typing import IO, TYPE_CHECKING

from robin_cli.datasets import lines
from robin_cli.datasets.columns import DAMAGED
from robin_cli.datasets.parquet_pages import group_sizes, most_unpacked, places_of, with_further
from robin_cli.model.errors import Damaged, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    from robin_cli.datasets.columns import FurtherColumns

_BUFFER_BYTES = 2**20
_AT_ONCE_BYTES = 2**28
_GROUPS_AT_ONCE = 64

_MARK = b"robin: SHA-256 of the footer\n"
"""What stands between the last page and the footer of a run's own file, where nobody else looks, with the digest behind it."""

_UNREADABLE = (OSError, ValueError, LookupError, TypeError, ArithmeticError, NotImplementedError, MemoryError)
"""What pyarrow raises for damaged files and values it has no Python type for: its own errors are subclasses of these,
but for ArrowException itself, and its converters add Python's."""


def checked_writer(stream: IO[bytes] | Path, schema: pa.Schema, *, packed: bool = True) -> pq.ParquetWriter:
    """Make a writer of Parquet whose pages have checksums, as in all that robin writes; ``packed``: compressed."""
    import pyarrow.parquet as pq

    # Few values at a time: a page is looked at for its size only between them, and texts are long.
    return pq.ParquetWriter(
        stream,
        schema,
        compression="zstd" if packed else "none",
        use_dictionary=packed,
        write_batch_size=64,
        write_page_checksum=True,
    )


@contextmanager
def written_table(stream: IO[bytes], schema: pa.Schema, *, packed: bool = True) -> Iterator[pq.ParquetWriter]:
    """Write a run's own Parquet file, with a digest of its footer: one bit there gives a column another name.

    Args:
        stream: can be read, and moved about in.
    """
    with checked_writer(stream, schema, packed=packed) as writer:
        yield writer
    start, footer = _footer(stream)
    stream.seek(start)
    stream.write(_MARK + hashlib.sha256(footer).digest() + footer)


def _footer(stream: IO[bytes]) -> tuple[int, bytes]:
    """Where the footer of a Parquet file begins, and all bytes from there on."""
    end = stream.seek(-8, io.SEEK_END)
    start = stream.seek(max(0, end - int.from_bytes(stream.read(4), "little")))
    return start, stream.read()


def _check_footer(stream: IO[bytes]) -> None:
    """ValueError where the footer is not the one that was written; files of others, and of earlier robins, do not say."""
    start, footer = _footer(stream)
    digest = hashlib.sha256(footer).digest()
    stream.seek(max(0, start - len(_MARK) - len(digest)))
    if stream.read(len(_MARK)) == _MARK and stream.read(len(digest)) != digest:
        raise ValueError("its footer is not the one that was written")


def read_table(stream: IO[bytes], source: str, columns: Sequence[str]) -> pa.Table:
    """The columns of a Parquet file, of those that it has.

    Raises InputError for a damaged file, and for one that takes too much memory to decode.
    """
    import pyarrow as pa

    file, schema = opened_file(stream, source)
    names = [name for name in schema.names if name in columns]
    with readable(source):
        plain = pa.schema([field.with_type(_plain_type(field.type)) for field in map(schema.field, names)])
    return pa.Table.from_batches(list(batches(file, stream, source, names)), plain)


def table_batches(stream: IO[bytes], source: str, wanted: Callable[[str], bool]) -> Iterator[pa.RecordBatch]:
    """The wanted columns of a Parquet file, some rows at a time. Raises InputError as :func:`read_table`."""
    file, schema = opened_file(stream, source)
    yield from batches(file, stream, source, list(filter(wanted, schema.names)))


def checked_file(stream: IO[bytes], source: str, columns: Collection[str]) -> pq.ParquetFile:
    """Open a Parquet file whose columns can be read at once. InputError as :func:`read_table`."""
    file, schema = opened_file(stream, source)
    names = [name for name in schema.names if name in columns]
    with readable(source):
        if most_unpacked(file, stream, places_of(stream, source), _leaves(file, names), source) > _AT_ONCE_BYTES:
            for _ in batches(file, stream, source, names):
                pass  # they are counted, one at a time
    return file


def opened_file(stream: IO[bytes], source: str) -> tuple[pq.ParquetFile, pa.Schema]:
    """Open a Parquet file whose row groups are not held whole: it, and its schema. InputError for a damaged one.

    Pages are held to their checksums as they are read, where they have some.
    """
    import pyarrow.parquet as pq

    with readable(source):
        # Without a buffer size, or with pre_buffer, pyarrow holds whole row groups: 930 MB where this takes 110.
        file = pq.ParquetFile(stream, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
        _check_footer(stream)
        return file, file.schema_arrow


def batches(
    file: pq.ParquetFile,
    stream: IO[bytes],
    source: str,
    columns: Sequence[str],
    further: FurtherColumns | None = None,
    names: Sequence[str] = (),
    beside: int = 0,
) -> Iterator[pa.RecordBatch]:
    """The columns' batches, each of so few rows that it fits into memory; InputError as :func:`read_table`.

    With them come the leaf columns ``names``, as long as ``further`` wants them, and they fit beside the others. ``beside``:
    the bytes of other files that this one belongs to.
    """
    leaves = _leaves(file, columns)
    packed = beside + stream.seek(0, io.SEEK_END)
    total = rows_read = 0
    with readable(source):
        pages = places_of(stream, source)
        sizes = group_sizes(file, stream, pages, leaves, source)
        places = {file.schema.column(at).path: at for at in range(len(file.schema))} if names else {}

        def reading(group: int) -> tuple[int | None, Sequence[str], int]:
            """How many rows at a time, and which columns; together with few others, for what is wanted may change."""
            size, kept = sizes[group], leaves
            if further and (wanted := {name: places[name] for name in names if further.wants(name)}):
                size, more = with_further(file, stream, pages, group, size, wanted)
                for name in wanted.keys() - set(more):
                    further.leave_out(name, DAMAGED)
                kept = [*leaves, *more]
            return size.batch_rows, kept, group // _GROUPS_AT_ONCE * bool(names)

        for (rows, kept, _), groups in groupby(range(len(sizes)), key=reading):
            # One thread: the work is in making Python strings, and more threads only hold more batches in memory.
            for packed_batch in file.iter_batches(rows, row_groups=list(groups), columns=kept, use_threads=False):
                batch = _expanded(packed_batch)
                rows_read += len(batch)
                total += part_of(batch, columns).nbytes if names else batch.nbytes
                lines.check_unpacked(total, packed, source)
                if total > lines.MAX_FILE_BYTES:
                    raise lines.file_too_long(source)
                yield batch
        if leaves and rows_read != file.metadata.num_rows:
            raise ValueError(f"{rows_read:,} of its {file.metadata.num_rows:,} rows are there")


def part_of(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
    """The part of a batch that holds the leaf columns ``columns``."""
    import pyarrow as pa

    steps = [name.split(".") for name in columns]
    heads = {".".join(each[:length]) for each in steps for length in range(1, len(each) + 1)}
    at = [place for place, name in enumerate(batch.schema.names) if name in heads]
    return pa.RecordBatch.from_arrays(
        [batch.column(each) for each in at], schema=pa.schema(list(map(batch.schema.field, at)))
    )


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


@contextmanager
def readable(source: str) -> Iterator[None]:
    """What pyarrow raises, as InputError."""
    import pyarrow as pa

    try:
        yield
    except (*_UNREADABLE, pa.ArrowException) as error:
        reason = shown((str(error).splitlines() or [type(error).__name__])[0], 160)
        raise Damaged(f"{source}: not a Parquet file that can be read: {reason.rstrip('.')}") from None
