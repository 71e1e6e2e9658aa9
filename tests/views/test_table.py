"""The table of scores on terminals of any width."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from robin_cli.analysis.scores import Scores, judge_scores, score
from robin_cli.model.errors import InputError
from robin_cli.model.records import Judgment, Pair
from robin_cli.render.fitting import Cells, _look, fit, told_apart
from robin_cli.render.terminal import View
from robin_cli.render.text import plain
from robin_cli.settings.reading import load_settings
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.schema import JUDGMENTS
from robin_cli.storage.store import RunStore
from tests.conftest import robin
from tests.storage.test_store import SETTINGS, judgment, manifest
from tests.views.tables import print_scores

ENDS = ("likely_low", "likely_high", "ci_low", "ci_high")
VIEWS = (View(), View(wide=True), View(sort="variance", top=3))
ATTRIBUTES = ("helpfulness", "correctness", "coherence", "complexity", "verbosity", "style", "safety", "tone of voice")

# Short alphabets make texts that are alike; the wide, the joined, the invisible and the hostile are among them.
ids = st.one_of(
    st.text(st.sampled_from("ab-1"), min_size=1, max_size=300),
    st.text(st.sampled_from("a你猫👩\u200d\ufe0f\u200b\u0301é 🇩🇪…#1\x1b\u202e\n"), min_size=1, max_size=300),
    st.text(min_size=1, max_size=40),
    st.tuples(st.text(st.sampled_from("xy"), max_size=2), st.integers(0, 30)).map(
        lambda each: f"a/very/long/common/prefix-{each[0]}-{'z' * each[1]}/and/an/end/that/is/the/same.json"
    ),
)
numbers = st.floats(-1000, 100_000).map("{:.2f}".format)


@st.composite
def tables(draw: st.DrawFn) -> list[Cells]:
    """Up to 8 attributes, side by side or below each other, and several judges."""
    rows = draw(st.integers(1, 12))
    place = st.integers(0, rows - 1)

    def names(name: str, least: int = 0) -> Cells:
        known = draw(st.lists(ids, min_size=rows, max_size=rows, unique=True))
        places = list(range(rows)) if least else draw(st.lists(place, min_size=rows, max_size=rows))
        return Cells(name, [plain(known[at], keep="") for at in places], numbers=[at + 1 for at in places])

    def figures(name: str, rank: int, group: str = "") -> Cells:
        return Cells(name, draw(st.lists(numbers, min_size=rows, max_size=rows)), rank, group=group)

    if draw(st.booleans()):
        groups = [plain(each, keep="") for each in draw(st.lists(ids, min_size=1, max_size=8, unique=True))]
        each = [(figures("score", at, group), figures("interval", 9, group)) for at, group in enumerate(groups)]
        return [names("pair", 1), *(column for pair in each for column in pair)]
    texts = [names(name) for name in ("attribute", "judge")[: draw(st.integers(0, 2))]]
    return [names("pair", 1), *texts, figures("score", 0), *(figures(f"number {at}", at) for at in range(1, 5))]


@given(tables(), st.integers(40, 250))
@settings(max_examples=60, deadline=None)
def test_cuts_no_number_and_keeps_ids_apart_at_any_width(columns: list[Cells], width: int) -> None:
    fitted = fit(columns, width, 2)
    assert sum(fitted.widths) + 2 * (len(fitted.widths) - 1) <= width
    assert len(fitted.columns) < len(columns) or not fitted.left_out
    for column, taken in zip(fitted.columns, fitted.widths, strict=True):
        assert all(cell_len(cell) <= taken for cell in column.cells)
        if column.numbers is None:
            assert any(column is each for each in columns)  # as it was, nothing cut
        else:
            assert len({_look(cell) for cell in column.cells}) == len(set(column.numbers))
    assert all(cell_len(name) <= span for name, span in fitted.groups)
    assert bool(fitted.left_out) == (width < fitted.all_columns)
    assert not fit(columns, fitted.all_columns, 2).left_out


@given(st.lists(ids, min_size=1, max_size=30, unique=True), st.integers(8, 40))
@example(["#2", "x" * 20, "#3"], 8)
@example(["a\u200b", "a"], 8)
@settings(max_examples=60, deadline=None)
def test_shows_what_differs_where_ids_are_cut(texts: list[str], width: int) -> None:
    shown = told_apart([plain(text, keep="") for text in texts], range(1, len(texts) + 1), width)
    assert all(cell_len(each) <= width for each in shown)
    assert len({_look(each) for each in shown}) == len(texts)


def test_cuts_ids_in_the_middle_and_keeps_the_part_that_differs() -> None:
    assert told_apart(["a-long-id-with-a-tail", "short"], [1, 2], 12) == ["a-long…-tail", "short"]
    alike = [f"dataset/2026/split-{part}/responses.jsonl" for part in ("train", "test", "valid")]
    assert told_apart(alike, [1, 2, 3], 20) == ["datase…train/….jsonl", "datase…test/r….jsonl", "datase…valid/….jsonl"]
    assert told_apart(["猫" * 9 + "a", "猫" * 9 + "b"], [1, 2], 9) == ["猫猫…猫a", "猫猫…猫b"]


def rated(
    folder: Path, ids_: Sequence[str], attributes: Sequence[str], judges: Sequence[str] = ("judge",), **about_: Any
) -> RunData:
    """A run in which the ratings of a pair differ the more, the later it comes; every fifth pair has a human rating."""
    record = {name: getattr(judgment(0), name) for name in Judgment.__slots__}
    pairs = [Pair(each, "p", "r", dict.fromkeys(attributes, 3.0)) for each in ids_]
    answers = [
        Judgment(**(record | {"pair_id": each, "attribute": attribute, "judge": judge, "draw": draw, "rating": rating}))
        for at, each in enumerate(ids_)
        for attribute in attributes
        for judge in judges
        for draw, rating in enumerate([2] * (12 - at % 12) + [0, 4] * (at % 12))
    ]
    settings_ = {**SETTINGS, "temperature": 1.0, "base_url": ["http://x/v1"], "model": list(judges)}
    about: dict[str, Any] = {
        "settings": settings_,
        "data": {"source": "x", "sha256": "0", "pairs": len(pairs)},
        "budget": 1000,
        **about_,
    }
    with RunStore.create(folder / "r", manifest(attributes=tuple(attributes), **about), pairs) as store:
        store.append(answers)
    return read_run(folder / "r", JUDGMENTS.names)


def shown_at(width: int, run: RunData, view: View, scores: Scores | None = None) -> list[str]:
    out = io.StringIO()
    print_scores(Console(file=out, width=width), scores or score(run), run, view)
    return out.getvalue().split("\n")


@pytest.mark.parametrize("many", [1, 4, 8])
def test_prints_whole_numbers_from_40_to_250_columns(tmp_path: Path, many: int) -> None:
    run = rated(
        tmp_path, [f"pair-{at}-{'x' * 40 * (at % 3)}" for at in range(14)], ATTRIBUTES[:many], ("a" * 30, "b" * 30)
    )
    panel, each_judge = score(run), judge_scores(run)
    figures = {f"{value:.2f}".removesuffix(".00") for value in np.asarray(panel.columns["score"])}
    for width, view, scores in product((40, 60, 80, 120, 160, 250), VIEWS, (panel, each_judge)):
        lines = shown_at(width, run, view, scores)
        rule = next(at for at, line in enumerate(lines) if set(line) == {"─"})
        body = lines[rule + 1 : rule + 1 + min(view.top, 14)]
        assert all(cell_len(line) <= width for line in [*lines[: rule + 1], *body]), (width, view)
        assert not re.search(r"\d\.\d?…|…\.\d", "\n".join(body)), (width, view)
        at = lines[rule - 1].index("score")
        assert {line[at : at + 5].strip() for line in body} <= figures or scores is each_judge, (width, view)


def test_says_what_is_left_out_and_how_to_see_it(tmp_path: Path) -> None:
    run = rated(tmp_path, [f"pair-{at}" for at in range(70)], ATTRIBUTES[:4])
    text = "\n".join(shown_at(40, run, View()))
    assert "left out at 40 columns: guaranteed, variance, human, ratings; wider: -o FILE, or COLUMNS=" in text
    assert "95 % intervals: likely, on average over the pairs; guaranteed, for each of them" in text
    assert "60 of 280 rows, widest likely interval first (another order: --sort score|variance|data)" in text
    assert f"all rows: robin export {run.path} --format table --top 280" in text
    wide_enough = int(text.partition("COLUMNS=")[2].split()[0])
    assert "left out" not in "\n".join(shown_at(wide_enough, run, View()))
    assert "left out" in "\n".join(shown_at(wide_enough - 1, run, View()))


def test_puts_first_what_needs_attention_and_files_stay_in_the_order_of_the_data(tmp_path: Path) -> None:
    run = rated(tmp_path, [f"pair-{at:02}" for at in range(12)], ATTRIBUTES[:1])
    low, high = (np.asarray(score(run).columns[name]) for name in ("likely_low", "likely_high"))

    def first(lines: list[str]) -> list[str]:
        return [line.split()[0] for line in lines if line.startswith("pair-")]

    assert first(shown_at(80, run, View()))[0] == f"pair-{np.argmax(high - low):02}"
    assert first(shown_at(80, run, View(sort="data", top=3))) == ["pair-00", "pair-01", "pair-02"]
    assert first(shown_at(80, run, View(sort="score"))) == [f"pair-{at:02}" for at in range(12)]  # all alike
    flags = ("--sort", "variance", "--top", "2")
    assert first(robin("export", "r", "--format", "table", *flags, cwd=tmp_path).stdout.split("\n")) == [
        "pair-11",
        "pair-10",
    ]
    rows = robin("export", "r", *flags, cwd=tmp_path).stdout.split("\n")[1:-1]
    assert [row.split(",")[0].strip('"') for row in rows] == [f"pair-{at:02}" for at in range(12)]


def test_shows_the_guaranteed_interval_beside_the_likely_one_and_first_what_has_neither(tmp_path: Path) -> None:
    run = rated(tmp_path, ["one", "two", "three"], ATTRIBUTES[:1])
    scores = score(run)
    columns = dict(scores.columns)
    for name in ("score", "likely_low", "likely_high"):
        columns[name] = np.array([np.nan, *np.asarray(columns[name])[1:]])
    head, _, first, second, *_ = shown_at(100, run, View(), replace(scores, columns=columns))
    assert head.split()[:4] == ["pair", "score", "likely", "guaranteed"]
    assert first.split()[:3] == ["one", "–", "–"]
    likely_low, likely_high, low, high = (np.asarray(columns[name])[2] for name in ENDS)
    assert f"{likely_low:.2f} – {likely_high:.2f}  {low:.2f} – {high:.2f}" in second


def test_compares_shares_where_attributes_have_scales_of_their_own(tmp_path: Path) -> None:
    run = rated(tmp_path, ["same", "varies"], ("large", "small"), scale={"small": (0, 4), "large": (0, 100)})
    first = {sort: shown_at(80, run, View(sort=sort))[2].split()[1] for sort in ("width", "score", "variance")}
    assert first == {"width": "small", "score": "small", "variance": "small"}  # 2 of 4 is more than 2 of 100


def test_refuses_an_order_that_it_does_not_know() -> None:
    with pytest.raises(InputError, match="--sort best: must be one of width, score, variance, data"):
        load_settings({"sort": "best"}, None)
    with pytest.raises(InputError, match="--top 0: must be a number of rows"):
        load_settings({"top": 0}, None)


def test_shows_each_attribute_in_columns_of_its_own(tmp_path: Path) -> None:
    run = rated(tmp_path, ["one", "two"], ATTRIBUTES[:2])
    group, head, _, *rows = shown_at(120, run, View(wide=True))
    assert re.fullmatch(r" *─+ helpfulness ─+  ─+ correctness ─+ *", group)
    assert head.split().count("score") == 2
    assert sorted(row.split()[0] for row in rows[:2]) == ["one", "two"]
