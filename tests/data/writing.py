"""Files as other programs write them, for the tests to read."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from robin_cli.data.pairs import Dataset, load_pairs
from robin_cli.model.errors import InputError
from robin_cli.model.records import PLACE_COLUMNS, Pair, Value

Row = Mapping[str, Any]
Got = TypeVar("Got")

ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity")


def rated(prompt: str, response: str, *ratings: Any) -> dict[str, Any]:
    """A row as HelpSteer2 has them; a rating of each of the ATTRIBUTES."""
    return {"prompt": prompt, "response": response, **dict(zip(ATTRIBUTES, ratings, strict=True))}


TURNS = "Hi\n<extra_id_1>Assistant\nHello!\n<extra_id_1>User\nA haiku, please."
HELPSTEER = [
    rated("Name three birds.", "Robin, wren, owl.", 4, 4, 4, 1, 0),
    rated(TURNS, "Old pond, über frogs 🐸,\nsplash.", 2, 3, 3, 2, 1),
]


def as_lines(rows: Sequence[object]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def as_array(rows: Sequence[object]) -> bytes:
    return json.dumps(rows, indent=1, ensure_ascii=False).encode()


def as_csv(rows: Sequence[Row], delimiter: str = ",") -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(
        text, list(dict.fromkeys(name for row in rows for name in row)), delimiter=delimiter
    )
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def as_parquet(rows: Sequence[Row]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return as_table(pa.table({name: [row.get(name) for row in rows] for name in names}))


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


def written(folder: Path, name: str, data: bytes | list[Any]) -> Path:
    """The file of these bytes, or of these rows in the format of its name."""
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else WRITERS["".join(path.suffixes)](data))
    return path


def as_table(table: pa.Table, **options: Any) -> bytes:
    """A Parquet file of the table."""
    sink = io.BytesIO()
    pq.write_table(table, sink, **options)
    return sink.getvalue()


def read(
    folder: Path, rows: bytes | list[Any], name: str = "pairs.jsonl", **options: Any
) -> Dataset:
    """What robin reads of a file of these rows, or bytes."""
    return load_pairs(written(folder, name, rows), **options)


def columns_of(pair: Pair) -> dict[str, Value]:
    """The further columns of a pair, without its place in the file."""
    return {
        name: value for name, value in pair.columns.items() if name not in PLACE_COLUMNS.values()
    }


def complaint(path: Path, **options: Any) -> str:
    """What robin says of the file, without the folder it is in."""
    with pytest.raises(InputError) as caught:
        load_pairs(path, **options)
    return str(caught.value).replace(f"{path.parent}/", "")


def refused(
    folder: Path, rows: bytes | list[Any], name: str = "pairs.jsonl", **options: Any
) -> str:
    """What robin says of a file of these rows, or bytes."""
    return complaint(written(folder, name, rows), **options)


def measured(call: Callable[[], Got]) -> tuple[Got, int]:
    """What a call returns, and the most bytes that Python held meanwhile."""
    tracemalloc.start()
    try:
        return call(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
