"""Further columns of the data: kept beside the pairs, as they came, and within bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from robin_cli.datasets.pairs import load_pairs
from robin_cli.model.records import Pair, as_text
from robin_cli.storage.reader import read_run
from robin_cli.storage.store import RunStore
from tests.datasets.writing import WRITERS, as_lines, written
from tests.storage.test_store import manifest

Row = Mapping[str, Any]

SYSTEMS: list[Row] = [
    {
        "id": "a",
        "prompt": "p",
        "response": "r",
        "model": "small",
        "tokens": 3,
        "cost": 0.5,
        "safe": True,
        "helpfulness": 1,
    },
    {"id": "b", "prompt": "p", "response": "s", "model": "large", "tokens": None, "cost": 2.0, "safe": False},
]


def row(**more: Any) -> dict[str, Any]:
    return {"prompt": "p", "response": "r", **more}


def kept(folder: Path, *rows: Row, suffix: str = ".jsonl", **options: Any) -> list[dict[str, Any]]:
    numbered = [{"id": f"{at}", **each} for at, each in enumerate(rows)]
    path = written(folder, f"pairs{suffix}", WRITERS[suffix](numbered))
    return [dict(pair.columns) for pair in load_pairs(path, **options).pairs]


def stored(folder: Path, pairs: Sequence[Pair]) -> Path:
    RunStore.create(folder / "r", manifest(budget=len(pairs)), pairs).close()
    return folder / "r"


@pytest.mark.parametrize("suffix", sorted(WRITERS))
def test_keeps_what_else_the_rows_hold_whatever_the_format(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, f"pairs{suffix}", WRITERS[suffix](SYSTEMS))
    found = [{name: as_text(value) for name, value in pair.columns.items()} for pair in load_pairs(path).pairs]
    words = {"True": "true", "False": "false", "2.0": "2"}  # CSV has texts as they were written
    assert [{name: words.get(text, text) for name, text in each.items()} for each in found] == [
        {"model": "small", "tokens": "3", "cost": "0.5", "safe": "true"},
        {"model": "large", "cost": "2", "safe": "false"},
    ]
    run = read_run(stored(tmp_path, load_pairs(path).pairs))
    assert list(run.column_names) == ["model", "tokens", "cost", "safe"]
    assert run.column("model") == ["small", "large"]
    assert run.column("tokens") == ["3", None]
    assert [dict(pair.columns) for pair in run.pairs] == [dict(pair.columns) for pair in load_pairs(path).pairs]


def test_names_what_lies_in_objects_with_dots_and_leaves_lists_out(tmp_path: Path) -> None:
    deep = {
        "a": {"b": {"c": {"d": 1, "x": {"y": 1}}, "e": 2}},
        "list": [1],
        "objects": [{"x": 1}],
        "none": None,
        "no": {},
    }
    assert kept(tmp_path, row(**deep), row(**deep, **{"a.b.e": 3})) == [
        {"a.b.c.d": 1, "a.b.e": 2},
        {"a.b.c.d": 1, "a.b.e": 3},  # what is called so comes first
    ]


def test_shares_one_empty_mapping_among_pairs_without_further_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "pairs.jsonl", as_lines([row(id=1, helpfulness=3), row(id=2)]))
    first, second = load_pairs(path).pairs
    assert first.columns == {}
    assert first.columns is second.columns
