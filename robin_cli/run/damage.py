"""Errors about damaged files of a run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from robin_cli.data.parquet_tables import opened_file
from robin_cli.model.errors import Damaged, InputError, StorageError

UNREADABLE = (OSError, InputError, KeyError, ValueError, pa.ArrowException)


def unreadable(path: Path, error: Exception) -> StorageError:
    """Return the error for a damaged file of a run."""
    if isinstance(error, Damaged):
        return StorageError(f"{error.fact}. Restore it from a copy")
    if isinstance(error, InputError):
        return StorageError(str(error))
    if isinstance(error, OSError) and error.filename and error.strerror:
        return StorageError(
            f"{error.filename}: cannot be read ({error.strerror}); restore it from a copy"
        )
    return StorageError(f"{path}: cannot be read ({error}); restore it from a copy")


def rows_in(path: Path) -> int:
    """Return the number of rows of a Parquet file of a run. StorageError if it is damaged."""
    try:
        with path.open("rb") as file:
            return int(opened_file(file, str(path))[0].metadata.num_rows)
    except UNREADABLE as error:
        raise unreadable(path, error) from error
