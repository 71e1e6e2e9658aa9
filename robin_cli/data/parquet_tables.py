"""Parquet as tables: a batch at a time, the needed columns only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from robin_cli.model.errors import Damaged, shown

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH_ROWS = 1024
_BUFFER_BYTES = 2**20


def written_table(stream: IO[bytes] | Path, schema: pa.Schema) -> pq.ParquetWriter:
    """Return a Parquet writer whose pages have checksums, as in all that robin writes."""
    import pyarrow.parquet as pq

    # A page's size is checked only between writes, and texts are long: so write few values at a
    # time.
    return pq.ParquetWriter(
        stream, schema, compression="zstd", write_batch_size=64, write_page_checksum=True
    )


def opened_file(stream: IO[bytes], source: str) -> tuple[pq.ParquetFile, pa.Schema]:
    """Open a Parquet file so that no row group is in memory as a whole; return it and its schema.

    Pages that have checksums are verified as they are read. InputError for a damaged file.
    """
    import pyarrow.parquet as pq

    with readable(source):
        # Without a buffer size, or with pre_buffer, pyarrow holds whole row groups: 930 MB where
        # this takes 110.
        file = pq.ParquetFile(
            stream, buffer_size=_BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True
        )
        return file, file.schema_arrow


def batches(
    file: pq.ParquetFile, source: str, columns: Sequence[str], rows: int = BATCH_ROWS
) -> Iterator[pa.RecordBatch]:
    """Yield batches of at most ``rows`` rows of the columns, or leaf columns."""
    paths = [file.schema.column(at).path for at in range(len(file.schema))]
    leaves = [
        path
        for path in paths
        if any(path == name or path.startswith(f"{name}.") for name in columns)
    ]
    count = 0
    with readable(source):
        # One thread: most work is making Python strings, and more threads only keep more batches
        # in memory.
        for batch in file.iter_batches(rows, columns=leaves, use_threads=False):
            count += len(batch)
            yield batch
        if leaves and count != file.metadata.num_rows:
            raise ValueError(f"{count:,} of its {file.metadata.num_rows:,} rows are there")


@contextmanager
def readable(source: str) -> Iterator[None]:
    """Raise the errors of pyarrow as InputError: for damage, and values without a Python type."""
    import pyarrow as pa

    try:
        yield
    except (
        *(OSError, ValueError, LookupError, TypeError, ArithmeticError),
        *(NotImplementedError, MemoryError, pa.ArrowException),
    ) as error:
        reason = shown((str(error).splitlines() or [type(error).__name__])[0], 160)
        raise Damaged(
            f"{source}: not a Parquet file that can be read: {reason.rstrip('.')}"
        ) from None
