"""JSON: lines for files, and objects for scripts."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import IO, Any

import orjson

from robin_cli.results.tables import Parts

_AT_A_TIME = 20_000


def rows_of(results: Parts) -> Iterator[dict[str, Any]]:
    """Yield each row by the names of its columns."""
    for table in results.parts:
        for batch in table.to_batches(max_chunksize=_AT_A_TIME):
            yield from batch.to_pylist()


def write_jsonl(results: Parts, file: IO[bytes]) -> None:
    """Write ``results``, a JSON object a line."""
    for row in rows_of(results):
        file.write(orjson.dumps(row, option=orjson.OPT_UTC_Z) + b"\n")


def print_json(*values: object, indent: bool = False) -> None:
    """Print each of ``values`` as JSON on standard output: a line each, or an ``indent``ed block."""
    lines = (orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else None) + b"\n" for value in values)
    sys.stdout.buffer.write(b"".join(lines))
    sys.stdout.buffer.flush()
