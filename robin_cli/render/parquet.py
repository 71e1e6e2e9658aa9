"""Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import IO

from robin_cli.datasets.parquet_tables import checked_writer
from robin_cli.results.tables import Parts
from robin_cli.storage.segments import gathered

_GROUP_BYTES = 2**24


def write_parquet(results: Parts, file: IO[bytes] | Path) -> None:
    """Write ``results`` as a Parquet file. OSError where the disk refuses."""
    with checked_writer(file, results.schema) as writer:
        for table in gathered(results.parts, nbytes=_GROUP_BYTES):
            writer.write_table(table)
