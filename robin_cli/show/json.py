"""JSON: lines for files, and objects for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO, Any

import orjson
import pyarrow as pa

_AT_A_TIME = 20_000


def few_at_a_time(results: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """Yield the rows in batches small enough to write at once."""
    for batch in results:
        for start in range(0, len(batch), _AT_A_TIME):
            yield batch.slice(start, _AT_A_TIME)


def rows_of(results: pa.RecordBatchReader) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its columns."""
    for batch in few_at_a_time(results):
        yield from batch.to_pylist()


def write_jsonl(results: pa.RecordBatchReader, file: IO[bytes]) -> None:
    """Write ``results``, one JSON object per line."""
    for row in rows_of(results):
        file.write(orjson.dumps(row, option=orjson.OPT_UTC_Z) + b"\n")


def print_json(*values: object, indent: bool = False) -> None:
    """Print each of ``values`` as JSON on standard output, one per line, or an ``indent``ed block."""
    lines = (
        orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None) + b"\n"
        for value in values
    )
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()
