"""Files as other programs write them, for the tests to read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robin_cli.datasets.pairs import load_pairs
from robin_cli.model.errors import InputError

Row = Mapping[str, Any]

HELPSTEER = [
    {
        "prompt": "Name three birds.",
        "response": "Robin, wren, owl.",
        "helpfulness": 4,
        "correctness": 4,
        "coherence": 4,
        "complexity": 1,
        "verbosity": 0,
    },
    {
        "prompt": "Hi\n<extra_id_1>Assistant\nHello!\n<extra_id_1>User\nA haiku, please.",
        "response": "Old pond, über frogs 🐸,\nsplash.",
        "helpfulness": 2,
        "correctness": 3,
        "coherence": 3,
        "complexity": 2,
        "verbosity": 1,
    },
]


def as_lines(rows: Sequence[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_array(rows: Sequence[object]) -> bytes:
    return json.dumps(rows, indent=1, ensure_ascii=False).encode()


def as_csv(rows: Sequence[Row], delimiter: str = ",") -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(dict.fromkeys(name for row in rows for name in row)), delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows: Sequence[Row]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    sink = io.BytesIO()
    pq.write_table(pa.table({name: [row.get(name) for row in rows] for name in names}), sink)
    return sink.getvalue()


WRITERS: dict[str, Callable[[Sequence[Row]], bytes]] = {
    ".jsonl": as_lines,
    ".ndjson": as_lines,
    ".jsonl.gz": lambda rows: gzip.compress(as_lines(rows)),
    ".json": as_array,
    ".json.gz": lambda rows: gzip.compress(as_array(rows)),
    ".csv": as_csv,
    ".csv.gz": lambda rows: gzip.compress(as_csv(rows)),
    ".tsv": lambda rows: as_csv(rows, "\t"),
    ".parquet": as_parquet,
}


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


def complaint(path: Path, **options: Any) -> str:
    """What robin says of the file, without the folder it is in."""
    with pytest.raises(InputError) as caught:
        load_pairs(path, **options)
    return str(caught.value).replace(f"{path.parent}/", "")
