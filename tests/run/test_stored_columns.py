"""columns.parquet of a run: what is in it, what is refused of a received one, and what does not read it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from robin_cli.model.errors import InputError, StorageError
from robin_cli.model.records import Pair
from robin_cli.run.pair_files import read_columns
from robin_cli.run.reader import read_run
from robin_cli.run.writer import RunWriter
from robin_cli.show.status import status_of
from tests.conftest import refuses
from tests.run.test_store import judgment, manifest

PAIRS = [
    Pair("p0", "prompt", "a", columns={"system": "x", "n": 1, "a": 0.5, "a.b": "in", "mixed": 1}),
    Pair("p1", "prompt", "b", columns={"system": "y", "n": 2, "flag": True, "mixed": False}),
    Pair("p2", "prompt", "c"),
]


def made(path: Path, pairs: list[Pair] | None = None) -> Path:
    with RunWriter.create(path, manifest(), PAIRS if pairs is None else pairs) as store:
        store.append([judgment(0)])
    return path


def test_keeps_each_column_with_its_type(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    schema = pq.read_schema(run / "columns.parquet")
    types = {
        "system": "large_string",
        "n": "int64",
        "a": "double",
        "a.b": "large_string",
        "mixed": "large_string",
    }
    assert {field.name: str(field.type) for field in schema} == {**types, "flag": "bool"}
    assert read_columns(run, ["a", "flag"]).to_pydict() == {
        "a": [0.5, None, None],
        "flag": [None, True, None],
    }
    data = read_run(run)
    assert list(data.column_names) == ["system", "n", "a", "a.b", "mixed", "flag"]
    columns = [data.column(name) for name in ("mixed", "flag", "a")]
    assert columns == [["1", "false", None], [None, "true", None], ["0.5", None, None]]
    first, second = (
        {**pair.columns, "mixed": text} for pair, text in zip(PAIRS, ("1", "false"), strict=False)
    )
    assert [dict(pair.columns) for pair in data.pairs] == [first, second, {}]
    assert (run / "columns.parquet").stat().st_mode & 0o077 == 0


def test_names_the_columns_there_are_where_one_is_not(tmp_path: Path) -> None:
    data = read_run(made(tmp_path / "r"))
    said = r'no column "sistem" in its data, which have system, n, .*flag; did you mean "system"\?'
    refuses(InputError, said, data.column, "sistem")
    none = read_run(made(tmp_path / "none", [Pair("p0", "p", "r")]))
    assert list(none.column_names) == []
    assert none.pairs[0].columns == {}
    said = r'no column "system": its data had only prompts, .*; make a new run from'
    refuses(InputError, said, none.column, "system")


def test_reads_the_columns_only_when_they_are_looked_at(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    (run / "columns.parquet").write_bytes(b"damaged")
    data = read_run(run)
    assert data.pairs[0].prompt == "prompt"
    assert status_of(run).facts["spent"] == 1
    with RunWriter.open(run) as store:
        assert store.pairs[1].response == "b"
    for use in (
        lambda: data.pairs[0].columns["system"],
        lambda: data.column_names,
        lambda: data.pairs.columns,
    ):
        refuses(StorageError, r"columns.parquet", use)


def test_leaves_no_columns_of_a_run_that_made_way(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "r", manifest(), PAIRS).make_way()
    made(tmp_path / "r", [Pair("p0", "p", "r")])
    assert list(read_run(tmp_path / "r").column_names) == []


def test_refuses_columns_of_other_pairs(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    pq.write_table(pa.table({"system": ["x", "y"]}), run / "columns.parquet")
    said = "columns.parquet has 2 rows, and pairs.parquet 3.*restore it from a copy"
    refuses(StorageError, said, read_columns, run)
