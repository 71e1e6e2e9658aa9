"""Scores, exports and text on a terminal."""

from __future__ import annotations

import io
import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from robin_cli.analysis.scores import Scores, judge_scores, score
from robin_cli.model.errors import InputError, StorageError
from robin_cli.model.records import Judgment, Pair
from robin_cli.render.files import check_output, export
from robin_cli.render.terminal import View
from robin_cli.render.text import plain
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.store import RunStore
from robin_cli.views import data_columns
from robin_cli.views.status import READ, print_status, status_of
from tests.storage.test_store import SETTINGS, judgment, manifest
from tests.views.tables import print_scores, score_rows

HOSTILE = ["=1+1", "+A1", "-2", "@x", "\t=1", "\r=1", "<script>", "\x1b[31m", 'a,b\n"c"', "\u202ex", "{{ 7 }}"]


def rated(folder: Path, pairs: list[Pair], ratings: list[list[int]]) -> RunData:
    given_: list[Judgment] = []
    for pair, each in zip(pairs, ratings, strict=True):
        for draw, rating in enumerate(each):
            record = judgment(0)
            values = {name: getattr(record, name) for name in Judgment.__slots__}
            given_.append(
                Judgment(**(values | {"pair_id": pair.pair_id, "rating": rating, "draw": draw, "text": pair.prompt}))
            )
    settings = {**SETTINGS, "temperature": 1.0, "base_url": "http://x/v1"}
    with RunStore.create(
        folder / "r", manifest(settings=settings, data={"source": "x", "sha256": "0", "pairs": len(pairs)}), pairs
    ) as store:
        store.append(given_)
    return read_run(folder / "r", READ)


def test_scores_as_by_hand_and_leaves_empty_what_is_undefined(tmp_path: Path) -> None:
    pairs = [Pair("a", "p", "r", {"helpfulness": 3.0}), Pair("b", "p", "r"), Pair("c", "p", "r")]
    run = rated(tmp_path, pairs, [[0, 4, 2], [3], []])
    columns = score(run).columns
    assert list(columns["pair_id"]) == ["a", "b", "c"]
    np.testing.assert_allclose(np.asarray(columns["score"], float), [2, 3, np.nan])
    np.testing.assert_allclose(np.asarray(columns["variance"], float), [4, np.nan, np.nan])
    # the pooled variance, (8 + 2)/(2 + 1), counts as four ratings more: docs/scores.md
    moderated = np.sqrt([(8 + 4 * 10 / 3) / 6 / 3, 4 * 10 / 3 / 4 / 1, np.nan])
    np.testing.assert_allclose(np.asarray(columns["std_error"], float), moderated)
    np.testing.assert_allclose(np.asarray(columns["human"], float), [3, np.nan, np.nan])
    width = np.asarray(columns["ci_high"], float) - np.asarray(columns["ci_low"], float)
    assert (width[1] > 2, width[2]) == (True, 4)
    assert score(run).error_bound == 4


def hostile(folder: Path) -> tuple[RunData, Scores]:
    pairs = [Pair(text, text, text) for text in HOSTILE]
    run = rated(folder, pairs, [[1, 2]] * len(pairs))
    return run, score(run)


@pytest.mark.parametrize("wide", [False, True])
def test_puts_each_text_beside_its_scores_however_many_pairs_are_read_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, wide: bool
) -> None:
    pairs = [Pair(f"p{number}", f"prompt {number}", f"response {number}") for number in range(2_500)]
    settings = {**SETTINGS, "model": ["x", "y"]}
    made = manifest(settings=settings, attributes=("style", "tone"), budget=10_000)
    with RunStore.create(tmp_path / "r", made, pairs) as store:
        rated_one = replace(judgment(0), pair_id="p2017", attribute="tone", rating=3)
        store.append([replace(rated_one, judge=judge) for judge in ("x", "y")])
    run = read_run(tmp_path / "r")
    monkeypatch.setattr(data_columns, "_GROUP_BYTES", 1)

    for scores in (score(run), judge_scores(run)):
        found = score_rows(scores, run, with_text=True, wide=wide)
        parts = list(found.parts)
        assert len(parts) > 2
        frame = pa.concat_tables(parts).to_pandas()
        assert len(frame) == (len(pairs) if wide else len(scores))
        assert (frame["prompt"] == "prompt " + frame["pair_id"].str[1:]).all()
        assert (frame["response"] == "response " + frame["pair_id"].str[1:]).all()
        one = found.schema.names[1:] if wide else ["score"]
        assert frame.loc[frame["pair_id"] == "p2017", one].isin([3.0]).any(axis=None)


def test_leaves_no_half_file_where_it_cannot_write(tmp_path: Path) -> None:
    run, scores = hostile(tmp_path)
    with pytest.raises(StorageError, match="name another file with -o"):
        export(score_rows(scores, run), {}, fmt="csv", output=str(tmp_path / "no" / "s.csv"))


def test_prints_nothing_that_a_terminal_acts_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, scores = hostile(tmp_path)
    out = io.StringIO()
    print_scores(Console(file=out, width=100, force_terminal=False), scores, run, View())
    print_status(status_of(run.path))
    shown = out.getvalue() + capsys.readouterr().out
    assert "\\x1b[31m" in shown
    assert not [char for char in shown if unicodedata.category(char) == "Cc" and char != "\n"]
    assert "\u202e" not in shown


@given(st.text())
def test_makes_any_text_plain(text: str) -> None:
    assert not [char for char in plain(text) if unicodedata.category(char) in {"Cc", "Cs"} and char not in "\n\t"]


def test_keeps_ordinary_text_as_it_is() -> None:
    assert plain("Ärger, 你好, 👩‍🚀\n\tok") == "Ärger, 你好, 👩‍🚀\n\tok"


def test_refuses_a_file_for_the_table_before_anything_is_paid_for(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--format table is for a terminal; leave --format out to write a file"):
        check_output("table", str(tmp_path / "s.csv"))
    check_output("table", None)
