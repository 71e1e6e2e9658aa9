"""Parquet as tables: a batch at a time, the needed columns only, in bounded memory whatever the file holds."""

from __future__ import annotations

import hashlib
import io
import sys
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import IO, TYPE_CHECKING

from robin_cli.datasets import lines
from robin_cli.datasets.columns import DAMAGED
from robin_cli.model.errors import Damaged, InputError, shown, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    import pyarrow.parquet as pq

    from robin_cli.datasets.columns import FurtherColumns

MOST_BYTES = 2**28
"""The most memory to decode a batch: its rows, and the open pages of its columns, which Arrow decodes whole."""

BATCH_ROWS = 1024
_FEWER = 32
"""The factor by which a batch that takes more is made smaller."""

_BUFFER_BYTES = 2**20
_ONE_AT_A_TIME = Lock()

_MARK = b"robin: SHA-256 of the footer\n"
"""Stands between the last page and the footer of a run's own files, where readers do not look; the digest follows it."""

_UNREADABLE = (
    OSError,
    ValueError,
    LookupError,
    TypeError,
    ArithmeticError,
    NotImplementedError,
    MemoryError,
)
"""The errors of pyarrow for damaged files, and for values without a Python type, except ArrowException itself."""


def checked_writer(
    stream: IO[bytes] | Path, schema: pa.Schema, *, packed: bool = True
) -> pq.ParquetWriter:
    """Return a Parquet writer whose pages have checksums, as in all that robin writes; ``packed``: compressed."""
    import pyarrow.parquet as pq

    # A page's size is checked only between writes, and texts are long: so write few values at a time.
    return pq.ParquetWriter(
        stream,
        schema,
        compression="zstd" if packed else "none",
        use_dictionary=packed,
        write_batch_size=64,
        write_page_checksum=True,
    )


@contextmanager
def written_table(
    stream: IO[bytes], schema: pa.Schema, *, packed: bool = True
) -> Iterator[pq.ParquetWriter]:
    """Write a run's own Parquet file, with a digest of its footer: one flipped bit there can rename a column.

    Args:
        stream: must be readable and seekable.
    """
    with checked_writer(stream, schema, packed=packed) as writer:
        yield writer
    start, footer = _footer(stream)
    stream.seek(start)
    stream.write(_MARK + hashlib.sha256(footer).digest() + footer)


def _footer(stream: IO[bytes]) -> tuple[int, bytes]:
    """Return the offset of a Parquet file's footer, and all bytes from there on."""
    end = stream.seek(-8, io.SEEK_END)
    start = stream.seek(max(0, end - int.from_bytes(stream.read(4), "little")))
    return start, stream.read()


def _check_footer(stream: IO[bytes]) -> None:
    """Raise ValueError if the footer does not match its digest; files of others, and of older versions, have none."""
    start, footer = _footer(stream)
    digest = hashlib.sha256(footer).digest()
    stream.seek(max(0, start - len(_MARK) - len(digest)))
    if stream.read(len(_MARK)) == _MARK and stream.read(len(digest)) != digest:
        raise ValueError("its footer is not the one that was written")


def read_table(
    stream: IO[bytes], source: str, columns: Sequence[str], rows: int = BATCH_ROWS
) -> pa.Table:
    """Return those of the columns that a Parquet file has, with the file's metadata; ``rows`` as for :func:`batches`.

    Raises InputError for a damaged file, and for one that takes too much memory to decode.
    """
    import pyarrow as pa

    file, schema = opened_file(stream, source)
    names = [name for name in schema.names if name in columns]
    with readable(source):
        plain = pa.schema(
            [field.with_type(_plain_type(field.type)) for field in map(schema.field, names)],
            schema.metadata,
        )
    return pa.Table.from_batches(list(batches(file, stream, source, names, rows=rows)), plain)


def table_batches(
    stream: IO[bytes], source: str, wanted: Callable[[str], bool]
) -> Iterator[pa.RecordBatch]:
    """Yield the wanted columns of a Parquet file, some rows at a time. Raises InputError as :func:`read_table`."""
    file, schema = opened_file(stream, source)
    yield from batches(file, stream, source, list(filter(wanted, schema.names)))


def opened_file(stream: IO[bytes], source: str) -> tuple[pq.ParquetFile, pa.Schema]:
    """Open a Parquet file so that no row group is in memory as a whole; return it and its schema. InputError if damaged.

    Pages that have checksums are verified as they are read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_memory_pool(
        pa.system_memory_pool()
    )  # others reserve gigabytes of address space, which is what is limited
    with readable(source):
        # Without a buffer size, or with pre_buffer, pyarrow holds whole row groups: 930 MB where this takes 110.
        file = pq.ParquetFile(
            stream, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        )
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
    rows: int = BATCH_ROWS,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of the columns, with so few rows that each fits into memory; InputError as :func:`read_table`.

    A megabyte of Parquet can hold hundreds of gigabytes: pages compress a thousandfold, one entry of a dictionary may be the
    value of every row, and no size that the file states can be trusted. So each batch is decoded within MOST_BYTES of memory,
    and again with fewer rows if that is too little.

    The leaf columns ``names`` are added as long as ``further`` wants them and they can be decoded. ``beside``: the bytes of
    other files that this one belongs to. ``rows``: the most rows of a batch.
    """
    leaves = _leaves(file, columns)
    packed = beside + stream.seek(0, io.SEEK_END)
    total, first, at_once, kept = 0, 0, rows, [*leaves, *names]
    with readable(source):
        decoded = _decoded(file, kept, first, at_once)
        while True:
            try:
                batch = next(decoded, None)
            except Exception as error:  # noqa: BLE001  # raised again, unless a column can be left out
                if isinstance(error, MemoryError) and at_once > 1:
                    at_once = max(1, at_once // _FEWER)
                else:
                    _leave_out(
                        error, file, source, first, at_once, further, leaves, kept[len(leaves) :]
                    )
                    at_once = rows
                kept = [*leaves, *(name for name in names if further and further.wants(name))]
                decoded = _decoded(file, kept, first, at_once)
                continue
            if batch is None:
                break
            first += len(batch)
            total += part_of(batch, columns).nbytes if names else batch.nbytes
            lines.check_unpacked(total, packed, source)
            if total > lines.MAX_FILE_BYTES:
                raise lines.file_too_long(source)
            yield batch
            del batch  # or it would be held while the next one is decoded
            if further and not all(map(further.wants, kept[len(leaves) :])):
                kept, at_once = [*leaves, *filter(further.wants, names)], rows
                decoded = _decoded(file, kept, first, at_once)
        if leaves and first != file.metadata.num_rows:
            raise ValueError(f"{first:,} of its {file.metadata.num_rows:,} rows are there")


def _decoded(
    file: pq.ParquetFile, leaves: Sequence[str], first: int, rows: int
) -> Iterator[pa.RecordBatch]:
    """Yield the leaf columns from the row ``first`` on, ``rows`` at a time. MemoryError if these take too much."""
    at, groups = 0, list(range(file.metadata.num_row_groups))
    while groups and at + (count := file.metadata.row_group(groups[0]).num_rows) <= first:
        at += count
        del groups[0]
    # One thread: most work is making Python strings, and more threads only keep more batches in memory.
    found = file.iter_batches(rows, row_groups=groups, columns=list(leaves), use_threads=False)
    while True:
        with _little_memory():
            packed = next(found, None)
            if packed is None:
                return
            batch = _expanded(packed)
        before = min(max(0, first - at), len(batch))
        at += len(batch)
        del packed
        if before < len(batch) or not leaves:
            yield batch.slice(before)
        del batch


def _is_sound(file: pq.ParquetFile, leaf: str, first: int, rows: int) -> bool:
    """Return whether a leaf column alone can be decoded from the row ``first`` on: the next ``rows``, or fewer of them."""
    import pyarrow as pa

    try:
        next(_decoded(file, [leaf], first, rows), None)
    except MemoryError:
        return rows > 1
    except (*_UNREADABLE, pa.ArrowException):
        return False
    return True


@contextmanager
def _little_memory() -> Iterator[None]:
    """Let this process take at most MOST_BYTES more memory, if the system can limit it: MemoryError beyond."""
    if sys.platform != "linux":
        yield
        return
    import resource

    with _ONE_AT_A_TIME:  # the limit holds for the whole process
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        taken = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
        most = taken + lines.at_most(MOST_BYTES)
        resource.setrlimit(
            resource.RLIMIT_AS, (most if soft == resource.RLIM_INFINITY else min(most, soft), hard)
        )
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _leave_out(
    error: Exception,
    file: pq.ParquetFile,
    source: str,
    first: int,
    rows: int,
    further: FurtherColumns | None,
    leaves: Sequence[str],
    more: Sequence[str],
) -> None:
    """Leave out those of the further leaf columns ``more`` that cannot be decoded; without any, raise the error."""
    if further and more:
        for name in [name for name in more if not _is_sound(file, name, first, rows)] or more:
            further.leave_out(name, DAMAGED)
        return
    if not isinstance(error, MemoryError):
        raise error
    name = next((name for name in leaves if not _is_sound(file, name, first, rows)), leaves[0])
    raise InputError(
        f'{source}: row {first + 1:,}, column "{name[:80]}": takes more than {size(lines.at_most(MOST_BYTES))} to decode. '
        "Write it with smaller pages and row groups, pyarrow.parquet.write_table(table, FILE, write_batch_size=1, "
        "row_group_size=100), or as JSON lines; or, if you trust it, allow more: "
        f"{lines.LIMIT_ENV}=4 (GiB) in the environment"
    ) from None


def part_of(batch: pa.RecordBatch, columns: Iterable[str]) -> pa.RecordBatch:
    """Return the part of a batch that holds the leaf columns ``columns``."""
    import pyarrow as pa

    steps = [name.split(".") for name in columns]
    heads = {".".join(each[:length]) for each in steps for length in range(1, len(each) + 1)}
    at = [place for place, name in enumerate(batch.schema.names) if name in heads]
    return pa.RecordBatch.from_arrays(
        [batch.column(each) for each in at], schema=pa.schema(list(map(batch.schema.field, at)))
    )


def _leaves(file: pq.ParquetFile, columns: Sequence[str]) -> list[str]:
    paths = [file.schema.column(at).path for at in range(len(file.schema))]
    return [
        path
        for path in paths
        if any(path == name or path.startswith(f"{name}.") for name in columns)
    ]


def _expanded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with dictionaries written out: pandas' categories hide how large their rows are."""
    import pyarrow as pa

    types = [_plain_type(each) for each in batch.schema.types]
    if types == batch.schema.types:
        return batch
    return pa.record_batch(list(map(pa.Array.cast, batch.columns, types)), names=batch.schema.names)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionaries, at any depth."""
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
    """Raise the errors of pyarrow as InputError."""
    import pyarrow as pa

    try:
        yield
    except (*_UNREADABLE, pa.ArrowException) as error:
        reason = shown((str(error).splitlines() or [type(error).__name__])[0], 160)
        raise Damaged(
            f"{source}: not a Parquet file that can be read: {reason.rstrip('.')}"
        ) from None
