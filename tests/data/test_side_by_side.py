"""Tables with the answers of several systems in columns: a row of the data is a response of each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

from robin_cli.data.comparisons import load_comparisons
from robin_cli.data.pairs import load_pairs, pair_id_of
from robin_cli.model.errors import InputError
from tests.conftest import has, refuses
from tests.data.writing import columns_of, complaint, written

COLUMNS = {"response": "gpt 4|wren", "helpfulness": "stars|wren_stars"}
ROWS: list[dict[str, Any]] = [
    {
        "id": number,
        "prompt": f"p{number}",
        "gpt 4": f"a{number}",
        "wren": f"b{number}",
        "stars": 3,
        "wren_stars": 1,
        "topic": "t",
    }
    for number in range(1, 7)
]


def table(folder: Path, end: str = ".csv", rows: list[dict[str, Any]] = ROWS) -> Path:
    if end != ".xlsx":
        return written(folder, f"wide{end}", rows)
    book = openpyxl.Workbook()
    assert book.active is not None
    for row in (list(rows[0]), *(list(row.values()) for row in rows)):
        book.active.append(row)
    book.save(folder / "wide.xlsx")
    return folder / "wide.xlsx"


@pytest.mark.parametrize("end", [".csv", ".jsonl", ".parquet", ".xlsx"])
def test_reads_a_response_of_each_column(tmp_path: Path, end: str) -> None:
    pairs = list(load_pairs(table(tmp_path, end), columns=COLUMNS).pairs)
    assert [(pair.pair_id, pair.prompt, pair.response) for pair in pairs[:3]] == [
        ("1/gpt 4", "p1", "a1"), ("1/wren", "p1", "b1"), ("2/gpt 4", "p2", "a2"),
    ]  # fmt: skip
    assert [dict(pair.human) for pair in pairs[:2]] == [{"helpfulness": 3.0}, {"helpfulness": 1.0}]
    assert [columns_of(pair) for pair in pairs[:2]] == [
        {"system": name, "topic": "t"} for name in ("gpt 4", "wren")
    ]


def test_makes_ids_of_the_texts_and_tells_systems_apart_that_say_the_same(tmp_path: Path) -> None:
    rows = [{"prompt": "p", "a": "same", "b": "same", "c": "other"}]
    pairs = list(load_pairs(table(tmp_path, rows=rows), columns={"response": "a|b|c"}).pairs)
    ids = [pair.pair_id for pair in pairs]
    assert ids == [pair_id_of("p", "same"), pair_id_of("p", "same\0b"), pair_id_of("p", "other")]
    assert [pair.columns["system"] for pair in pairs] == ["a", "b", "c"]


def test_leaves_out_the_one_that_is_not_there(tmp_path: Path) -> None:
    path = table(tmp_path, ".jsonl", [ROWS[0], {**ROWS[1], "wren": None}])
    assert complaint(path, columns=COLUMNS).startswith(
        'wide.jsonl:2: field "wren" is missing or null. Give the row'
    )
    assert len(load_pairs(path, columns=COLUMNS, skip_bad_rows=True).pairs) == 3


def test_takes_no_rating_for_one_of_all(tmp_path: Path) -> None:
    path = table(tmp_path, rows=[{**ROWS[0], "helpfulness": 0}])
    assert [pair.human for pair in load_pairs(path, columns={"response": "gpt 4|wren"}).pairs] == [
        {},
        {},
    ]


@pytest.mark.parametrize(
    "columns",
    [
        {"response": "a|a"}, {"response": "a|"}, {"prompt": "a|b"}, {"response": "a|b", "system": "c"},
        {"response": "a|b", "prompt": "c|d"}, {"response": "a|b", "helpfulness": "c"}, {"helpfulness": "a|b"},
        {"response": "a|b", "helpfulness": "c|d|e"},
    ],
)  # fmt: skip
def test_says_which_columns_can_stand_side_by_side(tmp_path: Path, columns: dict[str, str]) -> None:
    refuses(
        InputError,
        "response=A|B, which says its system",
        load_pairs,
        table(tmp_path),
        columns=columns,
    )


def test_names_the_column_that_is_not_there(tmp_path: Path) -> None:
    said = complaint(table(tmp_path), columns={"response": "gpt 4|robin"})
    has(
        said, 'wide.csv: no field "robin" (--columns response=robin); found id, prompt, gpt 4, wren'
    )


def test_compares_every_two_of_a_prompt(tmp_path: Path) -> None:
    rows = [{**row, "owl": f"c{row['id']}"} for row in ROWS]
    pairs = load_comparisons(
        table(tmp_path, rows=rows), columns={"response": "gpt 4|wren|owl"}
    ).pairs
    assert len(pairs) == 18
    systems = {
        tuple(sorted((str(pair.columns["system_a"]), str(pair.columns["system_b"]))))
        for pair in pairs
    }
    assert systems == {("gpt 4", "wren"), ("gpt 4", "owl"), ("owl", "wren")}
