"""Recorded verdicts as pools, and which are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from robin_cli.datasets.votes import holds_votes, load_votes
from robin_cli.model.errors import InputError
from tests.conftest import refuses

Row = dict[str, Any]
TWO: Row = {
    "prompt": "q",
    "response_a": "one",
    "response_b": "two",
    "system_a": "x",
    "system_b": "y",
}
TURNED: Row = {
    "prompt": "q",
    "response_a": "two",
    "response_b": "one",
    "system_a": "y",
    "system_b": "x",
}
DEMO = Path(__file__).parent.parent.parent / "configs" / "demo"


def written(tmp_path: Path, *rows: Row) -> str:
    path = tmp_path / "votes.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


def points(tmp_path: Path, *rows: Row) -> list[list[list[int]]]:
    (pool,) = load_votes(written(tmp_path, *rows)).values()
    return [[each.tolist() for each in order] for order in pool.points]


def test_gathers_the_verdicts_on_a_comparison_by_order(tmp_path: Path) -> None:
    rows = [
        {**TWO, "verdict": said, "order": order}
        for said, order in (("A", "a-first"), ("tie", "a-first"), ("B", "b-first"))
    ]
    assert points(tmp_path, *rows) == [[[2, 1]], [[0]]]


def test_counts_a_verdict_without_an_order_in_both(tmp_path: Path) -> None:
    assert points(
        tmp_path, {**TWO, "verdict": "a"}, {**TWO, "verdict": "B", "order": "b-first"}
    ) == [[[2]], [[0, 2]]]


def test_takes_the_verdicts_of_the_other_order_where_there_are_none(tmp_path: Path) -> None:
    assert points(tmp_path, {**TWO, "verdict": "A", "order": "b-first"}) == [[[2]], [[2]]]


def test_knows_a_comparison_with_its_sides_changed(tmp_path: Path) -> None:
    rows = [
        {**TWO, "verdict": "A", "order": "a-first"},
        {**TURNED, "verdict": "A", "order": "a-first"},
    ]
    assert points(tmp_path, *rows) == [[[2]], [[0]]]


@pytest.mark.parametrize(
    ("said", "found"),
    [("A", 2), (" b ", 0), ("TIE", 1), (1, 2), (0.5, 1), ("0", 0), (1.0, 2), ("0.5", 1)],
)
def test_reads_letters_and_shares(tmp_path: Path, said: object, found: int) -> None:
    assert points(tmp_path, {**TWO, "verdict": said})[0] == [[found]]


def test_leaves_rows_without_a_verdict_out_and_splits_by_judge(tmp_path: Path) -> None:
    rows = [
        {**TWO, "verdict": "A", "judge": "big"},
        {**TWO, "verdict": "B", "judge": "small"},
        {**TWO, "verdict": None},
    ]
    pools = load_votes(written(tmp_path, *rows))

    assert list(pools) == ["big", "small"]
    assert pools["big"].pairs[0].columns == {"system_a": "x", "system_b": "y"}
    assert not any((each == 1).any() for order in pools["big"].points for each in order)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {**TWO, "verdict": "C"},
            r'votes.jsonl:1: the verdict is "C", not one of A, B, tie, 1, 0.5 and 0',
        ),
        ({**TWO, "verdict": 2}, 'the verdict is "2"'),
        ({**TWO, "verdict": ["A"]}, "the verdict is"),
        ({**TWO, "verdict": True}, "the verdict is"),
        (
            {**TWO, "verdict": "A", "order": "first"},
            'the order is "first", not one of a-first, b-first',
        ),
        ({**TWO, "verdict": "A", "judge": 3}, "the judge is a number"),
        ({"prompt": "q", "response_a": "one", "verdict": "A"}, 'no field "response_b"'),
        ({**TWO, "prompt": None, "verdict": "A"}, 'field "prompt" is null'),
        ({**TWO, "verdict": None}, "holds no verdicts"),
    ],
)
def test_says_what_is_wrong_with_a_row(tmp_path: Path, row: Row, said: str) -> None:
    refuses(
        InputError,
        rf"(?s){said}.*Recorded verdicts have prompt",
        load_votes,
        written(tmp_path, row),
    )


def test_tells_verdicts_from_ratings(tmp_path: Path) -> None:
    assert holds_votes(written(tmp_path, {**TWO, "verdict": "A"}))
    assert holds_votes(str(DEMO / "votes.parquet"))
    assert not holds_votes(str(DEMO / "ratings.parquet"))
    assert not holds_votes(str(tmp_path))


def test_ships_a_simulated_pool_of_six_systems() -> None:
    (pool,) = load_votes(DEMO / "votes.parquet").values()

    assert (len(pool.pairs), pool.size) == (600, 4800)
    assert any((each == 1).any() for order in pool.points for each in order)
    assert {len(each) for order in pool.points for each in order} == {4}
    assert len({value for pair in pool.pairs for value in pair.columns.values()}) == 6
