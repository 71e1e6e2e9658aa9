"""Further columns of the data in exports: behind robin's own, in every format, and nothing in them acts."""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import openpyxl
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

import robin_cli
from robin_cli.analysis.scores import judge_scores, score
from robin_cli.model.records import Pair
from robin_cli.render.files import export
from robin_cli.render.terminal import View
from robin_cli.results.tables import Parts
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.store import RunStore
from tests.conftest import robin
from tests.storage.test_store import SETTINGS, judgment, manifest
from tests.views.tables import print_scores, score_rows
from tests.views.test_results import rated

DATA: list[dict[str, Any]] = [
    {"system": "small", "score": 9, "data.score": "x", "cost": 0.5, "safe": True, "=2+2": "=1+1", "prompt": "asked"},
    {"system": "large", "tokens": 2**53 + 1},
    {},
]
OURS = list(
    pd.read_csv(
        io.StringIO(
            "pair_id,attribute,score,n,variance,std_error,ci_low,ci_high,likely_low,likely_high,n_unparsed,human,given_up"
        )
    )
)


def run_of(folder: Path) -> RunData:
    pairs = [Pair(name, f"p {name}", f"r {name}", columns=each) for name, each in zip("abc", DATA, strict=True)]
    return rated(folder, pairs, [[0, 4, 2], [3], []])


def test_come_behind_the_scores_and_before_the_texts_and_give_way_to_their_names(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    table = score_rows(score(run), run, with_text=True).whole()
    theirs = ["system", "data.data.score", "data.score", "cost", "safe", "=2+2", "data.prompt", "tokens"]
    assert table.column_names == [*OURS, *theirs, "prompt", "response"]
    assert table["system"].to_pylist() == ["small", "large", None]
    assert table["data.data.score"].to_pylist() == [9, None, None]
    assert table["tokens"].to_pylist() == [None, 2**53 + 1, None]
    wide = score_rows(score(run), run, wide=True).whole()
    assert wide.column_names[-8:] == ["system", "score", "data.score", "cost", "safe", "=2+2", "data.prompt", "tokens"]
    assert [str(table.schema.field(name).type) for name in ("cost", "safe", "tokens")] == ["double", "bool", "int64"]


def test_stand_once_in_each_row_of_several_attributes_and_judges(tmp_path: Path) -> None:
    pairs = [Pair(name, name, "r", columns={"system": f"of {name}"}) for name in "ab"]
    settings = {**SETTINGS, "model": ["x", "y"]}
    made = manifest(settings=settings, attributes=("style", "tone"), budget=100)
    answers = [
        replace(judgment(0), rating=2, pair_id=pair, attribute=attribute, judge=judge, draw=0)
        for pair in "ab"
        for attribute in ("style", "tone")
        for judge in ("x", "y")
    ]
    with RunStore.create(tmp_path / "r", made, pairs) as store:
        store.append(answers)
    run = read_run(tmp_path / "r")
    for table in (score_rows(score(run), run).whole(), score_rows(judge_scores(run), run).whole()):
        assert table["system"].to_pylist() == [f"of {name}" for name in table["pair_id"].to_pylist()]
    for scores in (score(run), judge_scores(run)):
        wide = score_rows(scores, run, wide=True).whole()
        assert [name for name in wide.column_names if "system" in name] == ["system"]
        assert wide["system"].to_pylist() == ["of a", "of b"]
    frame = robin_cli.open_run(tmp_path / "r").scores()
    assert list(frame["system"]) == ["of a", "of a", "of b", "of b"]


NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
VALUES = NAMES | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()


@settings(max_examples=15, deadline=None)
@given(rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=3))
def test_come_out_whatever_they_are_called_and_hold(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        pairs = [Pair(f"p{at}", "p", f"r{at}", columns=each) for at, each in enumerate(rows)]
        run = rated(Path(name), pairs, [[1, 2]] * len(rows))
        table, files = (
            score_rows(score(run), run).whole(),
            {fmt: Path(name) / f"s.{fmt}" for fmt in ("csv", "jsonl", "xlsx")},
        )
        for file in files.values():
            export(Parts.of(table), {}, fmt=None, output=str(file))
        assert table.column_names[: len(OURS)] == OURS
        cells = list(csv.reader(io.StringIO(files["csv"].read_bytes().decode(), newline="")))
        assert [len(line) for line in cells] == [len(table.column_names)] * (1 + len(rows))
        lines = [json.loads(line) for line in files["jsonl"].read_bytes().split(b"\n")[:-1]]
        assert lines == table.to_pylist()
        assert openpyxl.load_workbook(files["xlsx"])["results"].max_row == 1 + len(rows)


def test_are_not_in_the_table_of_the_terminal(tmp_path: Path) -> None:
    run, out = run_of(tmp_path), io.StringIO()
    print_scores(Console(file=out, width=300), score(run), run, View())
    assert "small" not in out.getvalue()


def test_go_with_decisions(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    rows = [{"prompt": f"p{k}", "response": "r", "id": f"{k}", "system": f"s{k}", "decision": "x"} for k in range(4)]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = robin_cli.judge(
        data, attribute="helpfulness", budget=80, judge=rate, run=str(tmp_path / "r"), decide="score>=2", quiet=True
    )
    table = run.decisions()
    assert list(table["system"]) == ["s0", "s1", "s2", "s3"]
    assert list(table["data.decision"]) == ["x"] * 4
    assert list(run.scores(wide=True)["system"]) == ["s0", "s1", "s2", "s3"]
    done = robin("export", "r", cwd=tmp_path)
    assert done.stdout.splitlines()[0].endswith(",decision,leaning,certified,system,data.decision")


def rate(_messages: list[Mapping[str, str]]) -> str:
    return "Feedback: fine.\nRating: 4"
