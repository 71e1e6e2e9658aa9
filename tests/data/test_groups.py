"""Groups of pairs: which responses belong together, by a column of the data or by their prompts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli.data.pair_table import PairTable
from robin_cli.data.pairs import load_pairs
from robin_cli.goals.checks import check_groups
from robin_cli.model.errors import InputError, RobinError
from robin_cli.model.records import Pair
from robin_cli.run.pools import load_pools
from robin_cli.run.reader import read_run
from tests.conftest import has, judging, refuses, robin
from tests.data.writing import WRITERS, as_lines, written

ROWS = [
    {"id": "a", "prompt": "p", "response": "r", "set": "x"},
    {"id": "b", "prompt": "q", "response": "r", "set": "y"},
    {"id": "c", "prompt": "p", "response": "s", "set": "y"},
    {"id": "d", "prompt": "p", "response": "r", "set": "x"},
]


ASKED: dict[str, Any] = {
    "attribute": "helpfulness",
    "judge": lambda _: "Rating: 3",
    "budget": 8,
    "quiet": True,
}


def groups(pairs: Sequence[Pair]) -> list[str | None]:
    return [pair.group for pair in pairs]


def sha(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:16]


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_reads_groups_from_any_format(tmp_path: Path, suffix: str) -> None:
    file = written(tmp_path, f"p{suffix}", WRITERS[suffix](ROWS))
    assert groups(load_pairs(file, group="set").pairs) == ["x", "y", "y", "x"]
    assert groups(load_pairs(file).pairs) == [None] * 4
    numbered = [{**row, "set": number} for number, row in enumerate(ROWS)]
    assert groups(
        load_pairs(written(tmp_path, f"n{suffix}", WRITERS[suffix](numbered)), group="set").pairs
    ) == list("0123")


NO_GROUP = r"""
{"set": null} → p.jsonl:2: the group in field "set" is null or empty\. Name the group, or
{"set": ""} → is null or empty
{"set": 1.5} → is a number with a fraction, not text or a whole number|not text or a whole number
{"set": [1]} → is a list, not text or a whole number
{"sets": 1} → p.jsonl:2: no field "set" \(--group set\); found id, prompt, response, sets\. Use --group sets\.
"""


@pytest.mark.parametrize(
    ("change", "said"), [line.split(" → ") for line in NO_GROUP.strip().splitlines()]
)
def test_says_where_a_group_is_none(tmp_path: Path, change: str, said: str) -> None:
    bad = {name: value for name, value in ROWS[1].items() if name != "set"} | json.loads(change)
    file = written(tmp_path, "p.jsonl", [ROWS[0], bad, *ROWS[2:]])
    refuses(InputError, said, load_pairs, file, group="set")
    left = load_pairs(file, group="set", skip_bad_rows=True)
    assert groups(left.pairs) == ["x", "y", "x"]
    assert left.skipped == 1


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_names_the_column_that_may_be_meant(tmp_path: Path, suffix: str) -> None:
    file = written(tmp_path, f"p{suffix}", ROWS)
    for group, columns, said in (
        ("sett", {}, r'no field "sett" \(--group sett\); found .*\. Use --group set\.'),
        ("sett", {"response": "respnse"}, r"Use --columns response=response and --group set\."),
        ("zzzz", {}, r"Use --group NAME, NAME being the field that holds it"),
    ):
        refuses(InputError, said, load_pairs, file, group=group, columns=columns)


def test_takes_a_column_that_means_something_else_too(tmp_path: Path) -> None:
    rows = [{**row, "helpfulness": 3, "group": 2} for row in ROWS]
    file = written(tmp_path, "p.jsonl", as_lines(rows))
    assert groups(load_pairs(file, group="prompt").pairs) == ["p", "q", "p", "p"]
    by_rating = load_pairs(file, group="helpfulness", columns={"group": "group"}).pairs
    assert groups(by_rating) == ["3"] * 4
    assert by_rating[0].human == {"helpfulness": 3.0, "group": 2.0}
    refuses(
        InputError,
        '"pair_group": robin keeps the groups',
        load_pairs,
        file,
        columns={"pair_group": "group"},
    )


def test_merges_workers_of_one_group_and_refuses_two(tmp_path: Path) -> None:
    def row(worker: int, group: str) -> dict[str, Any]:
        axes = {"text": "s", "axes": {"overall": worker}}
        return {"info": {"post": "p", "id": group}, "summary": axes, "worker": worker}

    merged = load_pairs(written(tmp_path, "p.jsonl", [row(1, "g"), row(3, "g")]), group="info.id")
    assert [(pair.group, pair.human) for pair in merged.pairs] == [("g", {"overall": 2.0})]
    file = written(tmp_path, "q.jsonl", [row(1, "g"), row(3, "h")])
    said = r'q\.jsonl:2: the same texts belong to the group "g" in line 1, and to "h" here'
    refuses(InputError, said, load_pairs, file, group="info.id")
    assert load_pairs(file, group="info.id", skip_bad_rows=True).left_out == {
        "the same pair in another group": 1
    }


def test_reads_groups_of_several_files_up_to_a_limit(tmp_path: Path) -> None:
    files = [written(tmp_path, f"{k}.jsonl", as_lines(ROWS[2 * k : 2 * k + 2])) for k in range(2)]
    assert groups(load_pairs(files, group="set", limit=3).pairs) == ["x", "y", "y"]
    other = written(tmp_path, "o.csv", b"id,prompt,response\ne,p,r\n")
    refuses(
        InputError,
        r'o.csv: no field "set" \(--group set\)',
        load_pairs,
        [*files, other],
        group="set",
    )


def test_numbers_groups_as_they_first_appear() -> None:
    by_prompt = [Pair(row["id"], row["prompt"], row["response"]) for row in ROWS]
    assert PairTable.from_pairs(by_prompt).groups.tolist() == [0, 1, 0, 0]
    named = [Pair(row["id"], row["prompt"], row["response"], group=row["set"]) for row in ROWS]
    assert PairTable.from_pairs(named).groups.tolist() == [0, 1, 1, 0]
    assert PairTable.from_pairs([]).groups.tolist() == []


def test_says_what_of_the_groups_is_nothing_to_choose_from() -> None:
    assert check_groups(np.array([0, 0, 1, 1, 1]), None) == ""
    said = "1 of 3 groups have one response only and nothing to choose"
    assert check_groups(np.array([0, 0, 1, 2, 1]), "set") == said
    why = r"--decide best: 60 of 60 prompts have one response only, .*; name the column .* with --group"
    refuses(InputError, why, check_groups, np.arange(60), None)
    with pytest.raises(
        InputError, match=r"3 of 3 groups by set have one response only, .*; name another column"
    ):
        check_groups(np.arange(3), "set")


@pytest.mark.parametrize("group", [None, "set"])
def test_keeps_groups_in_a_run(tmp_path: Path, group: str | None) -> None:
    file = written(tmp_path, "p.jsonl", ROWS)
    run = robin_cli.judge(file, group=group, run=tmp_path / "r", **ASKED)
    data = read_run(run.path)
    numbers = [0, 1, 0, 0] if group is None else [0, 1, 1, 0]
    assert (
        data.pairs.groups.tolist()
        == PairTable.from_pairs(load_pairs(file, group=group).pairs).groups.tolist()
        == numbers
    )
    assert data.pairs.group_names == ([sha("p"), sha("q")] if group is None else ["x", "y"])
    assert data.pairs == load_pairs(file, group=group).pairs
    assert data.human == {}
    assert ("group" in data.manifest.settings) == (group is not None)
    assert ("pair_group" in pd.read_parquet(run.path / "pairs.parquet")) == (group is not None)
    pool = load_pools(run.path)["helpfulness"]
    assert pool.groups is not None
    assert pool.groups.tolist() == numbers
    assert load_pools(run.path, grouped=False)["helpfulness"].groups is None
    with pytest.raises(
        InputError, match=r"--group set: .* is a run, whose pairs have the groups it was made with"
    ):
        load_pools(run.path, "set")


def test_goes_on_with_the_groups_a_run_was_made_with(tmp_path: Path, replay_url: str) -> None:
    written(tmp_path, "p.jsonl", as_lines(ROWS))
    asked = judging(replay_url, "p.jsonl", 4, "--run", "r", "--group", "set", "-q")
    robin(*asked, cwd=tmp_path, exits=0)
    robin("resume", "r", "--budget", "8", "-q", cwd=tmp_path, exits=0)
    other = robin(*asked, "--group", "id", cwd=tmp_path, exits=2)
    assert "group: the run has set, now id" in other.stderr
    assert read_run(tmp_path / "r").pairs.group_names == ["x", "y"]
    empty = robin(*asked, "--group", "", cwd=tmp_path)
    has(empty.stderr, "--group", "the name of a column")


def test_takes_pairs_with_groups_from_python(tmp_path: Path) -> None:
    frame = pd.DataFrame(ROWS)
    pairs = robin_cli.load_pairs(frame, group="set")
    assert groups(pairs) == ["x", "y", "y", "x"]
    for name, data, group in (("pairs", pairs, None), ("frame", frame, "set")):
        run = robin_cli.judge(data, group=group, run=tmp_path / name, **ASKED)
        assert read_run(run.path).pairs.group_names == ["x", "y"], name
    refuses(
        RobinError,
        "group: is about data that robin reads; give it to load_pairs",
        robin_cli.judge,
        pairs,
        group="set",
        run=tmp_path / "no",
        **ASKED,
    )
    with pytest.raises(
        RobinError, match='1 of 4 pairs have no group, the first "z"; give each one, or none'
    ):
        robin_cli.judge([*pairs[:3], Pair("z", "p", "r")], run=tmp_path / "no", **ASKED)


LONG = [("b", 1, "v"), ("a", 2, "w"), ("c", 3, "v"), ("b", 4, "v")]


@pytest.mark.parametrize("column", ["group", "set"])
def test_finds_the_groups_of_a_long_table(tmp_path: Path, column: str) -> None:
    rows = [{"pair_id": pair, "rating": rating, column: group} for pair, rating, group in LONG]
    file = written(tmp_path, "p.csv", rows)
    found = load_pools(file)["p"].groups
    if column == "set":
        assert found is None
        found = load_pools(file, "set")["p"].groups
    assert found is not None
    assert found.tolist() == [0, 1, 0]


def test_numbers_the_groups_of_each_set_of_ratings_for_itself(tmp_path: Path) -> None:
    of_set = [("x1", "s"), ("y1", "t"), ("y2", "t"), ("x1", "t"), ("x2", "t")]
    rows = [
        {"pair_id": pair, "rating": 1, "group": pair[0], "attribute": name} for pair, name in of_set
    ]
    pools = load_pools(written(tmp_path, "p.jsonl", as_lines(rows)))
    assert [np.asarray(pools[name].groups).tolist() for name in "st"] == [[0], [0, 0, 1, 1]]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            [("a", "x"), ("a", "y")],
            'p.jsonl:2: "a" belongs to the group "y" here, and to "x" before; give each pair one group',
        ),
        ([("a", "x"), ("b", None)], 'p.jsonl:2: "b" has no group there'),
    ],
)
def test_refuses_named_groups_that_are_none(
    tmp_path: Path, rows: list[tuple[str, str | None]], said: str
) -> None:
    lines = [{"pair_id": pair, "rating": 1, "sets": group} for pair, group in rows]
    file = written(tmp_path, "p.jsonl", as_lines(lines))
    refuses(InputError, said, load_pools, file, "sets")
    refuses(
        InputError,
        r'p.jsonl: no column "set" \(--group set\); found .*sets',
        load_pools,
        file,
        "set",
    )
