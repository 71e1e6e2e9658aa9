"""The scores as a table: on a terminal, in files, with the further columns of the data."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

import robin_cli
from robin_cli.data.checking import pair_id_of
from robin_cli.goals import rows as data_columns
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.writer import RunWriter
from robin_cli.show.columns import SCORES
from robin_cli.show.files import export
from robin_cli.show.outputs import check_output
from robin_cli.show.text import plain
from robin_cli.stats.scores import score
from tests.conftest import robin
from tests.run.test_store import SETTINGS, judgment, manifest
from tests.show.tables import make_run, rated, score_rows, shown_at

ENDS = ("ci_low", "ci_high", "guaranteed_low", "guaranteed_high")
VIEWS: tuple[dict[str, Any], ...] = ({}, {"wide": True})
ATTRIBUTES = (
    "helpfulness",
    "correctness",
    "coherence",
    "complexity",
    "verbosity",
    "style",
    "safety",
    "tone of voice",
)


def test_shows_beside_hashes_how_texts_begin_and_beside_any_row_what_was_asked_for(
    tmp_path: Path,
) -> None:
    texts = [
        ("What\nis \x1b[31mthe capital of France?", each) for each in ("Paris, of course.", "Lyon.")
    ]
    texts += [("Name a prime. " * 20, "7")]
    pairs = [
        Pair(pair_id_of(*each), *each, columns={"topic": topic, "score": at})
        for at, (each, topic) in enumerate(zip(texts, ("maps", "=cmd()\x07", ""), strict=True))
    ]
    run = make_run(tmp_path / "r", pairs, [[3, 3]] * 3)
    lines = shown_at(170, run)
    assert lines[0].split()[:2] == ["pair", "prompt"]
    beginnings = [line[18:].split("  ")[0] for line in lines[2:5]]
    assert beginnings[:2] == [
        f"What is \\x1b[31mthe capital of… → {each}" for each in ("Paris, of course.", "Lyon.")
    ]
    assert beginnings[2] == f"{' '.join(['Name a prime.'] * 4)}…"

    lines = shown_at(100, run, show=("topic", "score", "response"))
    assert lines[0].split()[:5] == ["pair", "prompt", "topic", "score", "response"]
    # whose texts go on below
    rows = [line for line in lines[2:] if line[:1].isalnum() and " – " in line]
    assert [
        cell in line for cell, line in zip(("maps", r"=cmd()\x07", "–"), rows, strict=True)
    ] == [True] * 3
    assert "Lyon." in rows[1]
    named = make_run(tmp_path / "named", [replace(pairs[0], pair_id="capital")], [[4, 4]])
    assert "prompt" not in shown_at(170, named)[0]  # an id of the data is as it is, and enough
    assert "the capital" in shown_at(170, named, show=("prompt",))[2]

    (tmp_path / "pairs.jsonl").write_text(
        json.dumps({"prompt": "p", "response": "r", "topic": "x"}), encoding="utf-8"
    )
    flags = (
        *("--budget", "9", "--base-url", "http://127.0.0.1:1/v1", "--model", "m", "-a"),
        *("helpfulness", "--run", "new"),
    )
    refused = robin(
        "judge", "pairs.jsonl", *flags, "--show", "topics", cwd=tmp_path, exits=2
    ).stderr
    assert (
        'no column of the data, which have topic, source_line, prompt, response; did you mean "topic"?'
        in refused
    )
    assert not (tmp_path / "new").exists()
    refused = robin("export", "r", "--show", "topics", cwd=tmp_path, exits=2).stderr
    assert 'did you mean "topic"?' in refused


def test_scores_as_by_hand_and_leaves_empty_what_is_undefined(tmp_path: Path) -> None:
    pairs = [Pair("a", "p", "r", {"helpfulness": 3.0}), Pair("b", "p", "r"), Pair("c", "p", "r")]
    run = make_run(tmp_path / "r", pairs, [[0, 4, 2], [3], []])
    columns = score(run).columns
    assert list(columns["pair_id"]) == ["a", "b", "c"]
    np.testing.assert_allclose(np.asarray(columns["score"], float), [2, 3, np.nan])
    np.testing.assert_allclose(np.asarray(columns["variance"], float), [4, np.nan, np.nan])
    # the pooled variance, (8 + 2)/(2 + 1), counts as four ratings more: docs/evidence/scores.md
    moderated = np.sqrt([(8 + 4 * 10 / 3) / 6 / 3, 4 * 10 / 3 / 4 / 1, np.nan])
    np.testing.assert_allclose(np.asarray(columns["std_error"], float), moderated)
    np.testing.assert_allclose(np.asarray(columns["human"], float), [3, np.nan, np.nan])
    width = np.asarray(columns["guaranteed_high"], float) - np.asarray(
        columns["guaranteed_low"], float
    )
    assert (width[1] > 2, width[2]) == (True, 4)


@pytest.mark.parametrize("wide", [False, True])
def test_puts_each_text_beside_its_scores_however_many_pairs_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, wide: bool
) -> None:
    pairs = [
        Pair(f"p{number}", f"prompt {number}", f"response {number}") for number in range(2_500)
    ]
    settings = {**SETTINGS, "model": ["x", "y"]}
    made = manifest(settings=settings, attributes=("style", "tone"), budget=10_000)
    with RunWriter.create(tmp_path / "r", made, pairs) as store:
        rated_one = replace(judgment(0), pair_id="p2017", attribute="tone", rating=3)
        store.append([replace(rated_one, judge=judge) for judge in ("x", "y")])
    run = read_run(tmp_path / "r")
    monkeypatch.setattr(data_columns, "_GROUP_BYTES", 1)

    for scores in (score(run), score(run, by_judge=True)):
        found = score_rows(scores, run, with_text=True, wide=wide)
        parts = list(found)
        assert len(parts) > 2
        frame = pa.Table.from_batches(parts).to_pandas()
        assert len(frame) == (len(pairs) if wide else len(scores))
        assert (frame["prompt"] == "prompt " + frame["pair_id"].str[1:]).all()
        assert (frame["response"] == "response " + frame["pair_id"].str[1:]).all()
        one = found.schema.names[1:] if wide else ["score"]
        assert frame.loc[frame["pair_id"] == "p2017", one].isin([3.0]).any(axis=None)


@given(st.text())
def test_makes_any_text_plain(text: str) -> None:
    assert not [
        char
        for char in plain(text)
        if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t"
    ]


def test_keeps_ordinary_text_as_it_is() -> None:
    assert plain("Ärger, 你好, 👩‍🚀\n\tok") == "Ärger, 你好, 👩‍🚀\n\tok"


def test_refuses_a_file_for_the_table_before_anything_is_paid_for(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match="--format table is for a terminal; leave --format out to write a file"
    ):
        check_output("table", str(tmp_path / "s.csv"))
    check_output("table", None)


@pytest.mark.parametrize("many", [1, 5])
def test_prints_whole_numbers_from_40_to_250_columns(tmp_path: Path, many: int) -> None:
    run = rated(
        tmp_path,
        [f"pair-{at}-{'x' * 40 * (at % 3)}" for at in range(14)],
        ATTRIBUTES[:many],
        ("a" * 30, "b" * 30),
    )
    panel, each_judge = score(run), score(run, by_judge=True)
    figures = {f"{value:.2f}" for value in np.asarray(panel.columns["score"])}
    for width, view, scores in product((40, 80, 120, 250), VIEWS, (panel, each_judge)):
        lines = shown_at(width, run, scores, **view)
        rule = next(at for at, line in enumerate(lines) if set(line) == {"─"})
        body = lines[rule + 1 : rule + 15]
        assert all(cell_len(line) <= width for line in [*lines[: rule + 1], *body]), (width, view)
        assert not re.search(r"\d\.\d?…|…\.\d", "\n".join(body)), (width, view)
        at = lines[rule - 1].index("score")
        assert {line[at : at + 5].strip() for line in body} <= figures or scores is each_judge, (
            width,
            view,
        )


def test_says_what_is_left_out_and_how_to_see_it(tmp_path: Path) -> None:
    run = rated(tmp_path, [f"pair-{at}" for at in range(70)], ATTRIBUTES[:4])
    text = "\n".join(shown_at(40, run))
    assert "left out at 40 columns: variance, human, ratings; wider: -o FILE, or COLUMNS=" in text
    assert "95 % intervals hold on average over the pairs\n" in text
    assert "60 of 280 rows, widest interval first\n" in text
    assert f"all rows: robin export {run.path}\n" in text
    wide_enough = int(text.partition("COLUMNS=")[2].split()[0])
    assert "left out" not in "\n".join(shown_at(wide_enough, run))
    assert "left out" in "\n".join(shown_at(wide_enough - 1, run))


def test_puts_first_what_needs_attention_and_files_stay_in_the_order_of_the_data(
    tmp_path: Path,
) -> None:
    run = rated(tmp_path, [f"pair-{at:02}" for at in range(12)], ATTRIBUTES[:1])
    low, high = (np.asarray(score(run).columns[name]) for name in ("ci_low", "ci_high"))

    def first(lines: list[str]) -> list[str]:
        return [line.split()[0] for line in lines if line.startswith("pair-")]

    assert first(shown_at(80, run))[0] == f"pair-{np.argmax(high - low):02}"
    rows = robin("export", "r", cwd=tmp_path).stdout.split("\n")[1:-1]
    assert [row.split(",")[0].strip('"') for row in rows] == [f"pair-{at:02}" for at in range(12)]


def test_shows_the_guaranteed_interval_beside_the_other_if_asked_and_first_what_has_no_score(
    tmp_path: Path,
) -> None:
    run = rated(tmp_path, ["one", "two", "three"], ATTRIBUTES[:1])
    scores = score(run)
    columns = dict(scores.columns)
    for name in ("score", "ci_low", "ci_high"):
        columns[name] = np.array([np.nan, *np.asarray(columns[name])[1:]])
    head, _, first, second, *_ = shown_at(
        100, run, replace(scores, columns=columns), guaranteed=True
    )
    assert head.split()[:5] == ["pair", "score", "95", "%", "guaranteed"]
    assert first.split()[:3] == ["one", "–", "–"]
    ci_low, ci_high, low, high = (np.asarray(columns[name])[2] for name in ENDS)
    assert f"{ci_low:.2f} – {ci_high:.2f}  {low:.2f} – {high:.2f}" in second


def test_compares_shares_where_attributes_have_scales_of_their_own(tmp_path: Path) -> None:
    run = rated(
        tmp_path, ["same", "varies"], ("large", "small"), scale={"small": (0, 4), "large": (0, 100)}
    )
    assert shown_at(80, run)[2].split()[1] == "small"  # 2 of 4 is more than 2 of 100


def test_shows_each_attribute_in_columns_of_its_own(tmp_path: Path) -> None:
    run = rated(tmp_path, ["one", "two"], ATTRIBUTES[:2])
    group, head, _, *rows = shown_at(120, run, wide=True)
    assert re.fullmatch(r" *─+ helpfulness ─+  ─+ correctness ─+ *", group)
    assert head.split().count("score") == 2
    assert sorted(row.split()[0] for row in rows[:2]) == ["one", "two"]


DATA: list[dict[str, Any]] = [
    {
        "system": "small",
        "score": 9,
        "data.score": "x",
        "cost": 0.5,
        "safe": True,
        "=2+2": "=1+1",
        "prompt": "asked",
    },
    {"system": "large", "tokens": 2**53 + 1},
    {},
]
OURS = [
    name
    for name in SCORES.public
    if name
    not in {
        "judge",
        "judges",
        "judge_spread",
        "decision",
        "likely_wrong",
        "certified",
        "agreed",
        "group",
        "guaranteed_low",
        "guaranteed_high",
        "prompt_id",
    }
]


def run_of(folder: Path) -> RunReader:
    pairs = [
        Pair(name, f"p {name}", f"r {name}", columns=each)
        for name, each in zip("abc", DATA, strict=True)
    ]
    return make_run(folder / "r", pairs, [[0, 4, 2], [3], []])


def test_further_columns_come_behind_the_scores_and_before_the_texts_and_give_way_to_their_names(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path)
    table = score_rows(score(run), run, with_text=True).read_all()
    theirs = [
        "system",
        "data.data.score",
        "data.score",
        "cost",
        "safe",
        "=2+2",
        "data.prompt",
        "tokens",
    ]
    assert table.column_names == [*OURS, *theirs, "prompt", "response"]
    assert table["system"].to_pylist() == ["small", "large", None]
    assert table["data.data.score"].to_pylist() == [9, None, None]
    assert table["tokens"].to_pylist() == [None, 2**53 + 1, None]
    wide = score_rows(score(run), run, wide=True).read_all()
    assert wide.column_names[-8:] == [
        "system",
        "score",
        "data.score",
        "cost",
        "safe",
        "=2+2",
        "data.prompt",
        "tokens",
    ]
    assert [str(table.schema.field(name).type) for name in ("cost", "safe", "tokens")] == [
        "double",
        "bool",
        "int64",
    ]


def test_further_columns_stand_once_in_each_row_of_several_attributes_and_judges(
    tmp_path: Path,
) -> None:
    pairs = [Pair(name, name, "r", columns={"system": f"of {name}"}) for name in "ab"]
    settings = {**SETTINGS, "model": ["x", "y"]}
    made = manifest(settings=settings, attributes=("style", "tone"), budget=100)
    answers = [
        replace(judgment(0), rating=2, pair_id=pair, attribute=attribute, judge=judge, draw=0)
        for pair in "ab"
        for attribute in ("style", "tone")
        for judge in ("x", "y")
    ]
    with RunWriter.create(tmp_path / "r", made, pairs) as store:
        store.append(answers)
    run = read_run(tmp_path / "r")
    for table in (
        score_rows(score(run), run).read_all(),
        score_rows(score(run, by_judge=True), run).read_all(),
    ):
        assert table["system"].to_pylist() == [
            f"of {name}" for name in table["pair_id"].to_pylist()
        ]
    for scores in (score(run), score(run, by_judge=True)):
        wide = score_rows(scores, run, wide=True).read_all()
        assert [name for name in wide.column_names if "system" in name] == ["system"]
        assert wide["system"].to_pylist() == ["of a", "of b"]
    frame = robin_cli.open_run(tmp_path / "r").scores()
    assert list(frame["system"]) == ["of a", "of a", "of b", "of b"]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = (
    NAMES
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
)


@settings(max_examples=5, deadline=None)
@given(rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=3))
def test_further_columns_come_out_whatever_they_are_called_and_hold(
    rows: list[dict[str, Any]],
) -> None:
    with tempfile.TemporaryDirectory() as name:
        pairs = [Pair(f"p{at}", "p", f"r{at}", columns=each) for at, each in enumerate(rows)]
        run = make_run(Path(name) / "r", pairs, [[1, 2]] * len(rows))
        table, files = (
            score_rows(score(run), run).read_all(),
            {fmt: Path(name) / f"s.{fmt}" for fmt in ("csv", "jsonl", "xlsx")},
        )
        for file in files.values():
            export(table.to_reader(), {}, fmt=None, output=str(file))
        assert table.column_names[: len(OURS)] == OURS
        cells = list(csv.reader(io.StringIO(files["csv"].read_bytes().decode(), newline="")))
        assert [len(line) for line in cells] == [len(table.column_names)] * (1 + len(rows))
        lines = [json.loads(line) for line in files["jsonl"].read_bytes().split(b"\n")[:-1]]
        assert lines == table.to_pylist()
        assert openpyxl.load_workbook(files["xlsx"])["results"].max_row == 1 + len(rows)


def test_further_columns_are_not_in_the_table_of_the_terminal(tmp_path: Path) -> None:
    assert "small" not in "\n".join(shown_at(300, run_of(tmp_path)))


def test_further_columns_go_with_decisions(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    rows = [
        {"prompt": f"p{k}", "response": "r", "id": f"{k}", "system": f"s{k}", "decision": "x"}
        for k in range(4)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = robin_cli.judge(
        data,
        attribute="helpfulness",
        budget=80,
        judge=rate,
        run=str(tmp_path / "r"),
        decide="score>=2",
        quiet=True,
    )
    table = run.decisions()
    assert list(table["system"]) == ["s0", "s1", "s2", "s3"]
    assert list(table["data.decision"]) == ["x"] * 4
    assert list(run.scores(wide=True)["system"]) == ["s0", "s1", "s2", "s3"]
    done = robin("export", "r", cwd=tmp_path)
    assert done.stdout.splitlines()[0].endswith(",decision,likely_wrong,system,data.decision")


def rate(_messages: list[Mapping[str, str]]) -> str:
    return "Feedback: fine.\nRating: 4"
