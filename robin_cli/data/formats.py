"""The formats robin reads, by the end of a file's name."""

from __future__ import annotations

import gzip
import io
from typing import TYPE_CHECKING, BinaryIO

from robin_cli.data.csv_rows import read_csv, read_tsv
from robin_cli.data.json_rows import read_json_array, read_json_lines
from robin_cli.data.parquet_rows import read_parquet

if TYPE_CHECKING:
    from collections.abc import Collection

    from robin_cli.data.rows import Reader, Table

_BUFFER_BYTES = 2**20

_TEXT: dict[str, Reader] = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_array,
    ".csv": read_csv,
    ".tsv": read_tsv,
}


def _gunzipped(reader: Reader) -> Reader:
    def read(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:
        # GzipFile's own readline is Python; a buffer around it makes lines in C.
        unzipped = io.BufferedReader(gzip.GzipFile(fileobj=stream, mode="rb"), _BUFFER_BYTES)
        return reader(unzipped, source, wanted)

    return read


READERS: dict[str, Reader] = {
    **_TEXT,
    **{f"{suffix}.gz": _gunzipped(reader) for suffix, reader in _TEXT.items()},
    ".parquet": read_parquet,
}
"""What reads a file, by the end of its name in small letters."""

KNOWN = f"{', '.join(_TEXT)} (each also with .gz) and .parquet"
"""The ends of names robin knows, for an error's next step."""


def reader_of(name: str) -> Reader | None:
    """What reads a file of this name, or None."""
    return next((reader for suffix, reader in READERS.items() if name.lower().endswith(suffix)), None)
