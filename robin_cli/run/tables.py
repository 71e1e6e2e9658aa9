"""The Parquet files of a run: written whole or not at all, with checksums of their pages and of their footer."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING
from zlib import crc32

import pyarrow as pa

from robin_cli.data.local import whole_file
from robin_cli.data.parquet_tables import batches, opened_file, written_table
from robin_cli.model.errors import Damaged, InputError, StorageError

if TYPE_CHECKING:
    import pyarrow.parquet as pq

UNREADABLE = (OSError, InputError, LookupError, TypeError, ValueError, pa.ArrowException)
"""The errors of reading a damaged file."""

_CHECKSUM, _BLANK = b"crc32:", b"00000000"


@contextmanager
def table_writer(path: Path, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
    """Open a Parquet file that appears at ``path`` whole or not at all. OSError if the disk refuses.

    Parquet checks its pages, but not the footer that says which bytes belong to which column. So the footer gets a
    checksum in its metadata, computed with zeros in its place.
    """
    metadata = {**(schema.metadata or {}), b"robin_footer": _CHECKSUM + _BLANK}
    with whole_file(path) as file:
        with written_table(file, schema.with_metadata(metadata)) as writer:
            yield writer
        start, footer = _footer(file)
        file.seek(start + footer.rindex(_CHECKSUM) + len(_CHECKSUM))
        file.write(b"%08x" % crc32(footer))


def write_table(table: pa.Table, path: Path) -> None:
    """Write a small table. OSError if the disk refuses."""
    with table_writer(path, table.schema) as writer:
        writer.write_table(table)


@contextmanager
def opened_table(path: Path) -> Iterator[tuple[pq.ParquetFile, pa.Schema]]:
    """Open a Parquet file and return it with its schema. StorageError if it is damaged, or what the body reads of it."""
    try:
        with path.open("rb") as file:
            _check_footer(file)
            yield opened_file(file, str(path))
    except UNREADABLE as error:
        raise unreadable(path, error) from error


def read_table(path: Path, columns: Sequence[str], rows: int = 2**14) -> pa.Table:
    """Return columns of a Parquet file with its metadata, decoding ``rows`` at a time. StorageError if it is damaged."""
    with opened_table(path) as (file, schema):
        fields = pa.schema([schema.field(name) for name in columns], schema.metadata)
        parts = [part.select(columns) for part in batches(file, str(path), columns, rows=rows)]
        return pa.Table.from_batches(parts, fields)


def column_names(path: Path) -> list[str]:
    """Return the names of the columns of a Parquet file. StorageError if it is damaged."""
    with opened_table(path) as (_, schema):
        return list(schema.names)


def count_rows(path: Path) -> int:
    """Return the number of rows of a Parquet file. StorageError if it is damaged."""
    with opened_table(path) as (file, _):
        return int(file.metadata.num_rows)


def unreadable(path: Path, error: Exception) -> StorageError:
    """Return the error for a damaged file of a run."""
    if isinstance(error, StorageError):
        return error
    if isinstance(error, Damaged):
        return StorageError(f"{error.fact}. Restore it from a copy")
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    return StorageError(f"{path}: cannot be read ({reason}); restore it from a copy")


def _footer(file: IO[bytes]) -> tuple[int, bytes]:
    """Return the offset and the bytes of a Parquet file's footer, as far as its length can be true."""
    end = max(0, file.seek(0, os.SEEK_END) - 8)
    file.seek(end)
    start = max(0, end - int.from_bytes(file.read(4), "little"))
    file.seek(start)
    return start, file.read(end - start)


def _check_footer(file: IO[bytes]) -> None:
    """Raise ValueError if a footer is not as it was written."""
    _, footer = _footer(file)
    before, mark, after = footer.rpartition(_CHECKSUM)
    written, behind = after[: len(_BLANK)], after[len(_BLANK) :]
    if mark and written != b"%08x" % crc32(before + mark + _BLANK + behind):
        raise ValueError("its footer is not as robin wrote it")
    file.seek(0)
