"""robin report of a pairwise run: who beats whom, the ranking, what the order does, and each comparison with its texts."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from robin_cli.model.errors import InputError
from robin_cli.show.drawing import picture
from robin_cli.show.report.page import Page as Report
from robin_cli.show.report.page import html
from robin_cli.show.report.preferences import MOST_SYSTEMS, labels_of
from robin_cli.show.report.writing import write_report
from robin_cli.stats.pairwise import pairwise_scores
from tests.conftest import leaving_out_pictures
from tests.show.comparing_runs import compared_run
from tests.show.conftest import Open
from tests.show.tables import page_of, page_of_two
from tests.show.test_report import EXTRA, HOSTILE, twenty
from tests.stats.test_pairwise import found_in

FOUR = ("wren", "robin", "jay", "crow")


def words_in(page: Report, title: str) -> list[str]:
    """What is written in the picture of that title."""
    (chart,) = (each for each in page.charts if each.title == title)
    return re.findall(r"<text[^>]*>([^<]*)</text>", picture(chart, 0))


def test_tells_who_beats_whom_the_ranking_and_what_the_order_does(tmp_path: Path) -> None:
    run = compared_run(
        tmp_path / "r", FOUR, [-1.5, -0.5, 0.5, 1.5], prompts=30, first=0.2, judges=("x", "y")
    )
    page, found = page_of(run, working=False), found_in(run)
    ranking = found.ranked.ranking
    assert ranking is not None
    order = np.argsort(-ranking.strength)
    names = [
        FOUR[place] if found.ranked.names == list(FOUR) else found.ranked.names[place]
        for place in order
    ]

    (table,) = page.tables
    best = table.records()[0]
    assert best["system"] == "crow"
    assert best["win_rate"] == ranking.win_rate[order[0]]
    facts = page.facts["About this run"]
    assert facts["comparisons"] == "180 of 180 comparisons asked in both orders"
    for judge, effect in zip(("x", "y"), found.order_effects, strict=True):
        line = facts[f"order effect of {judge}"]
        assert line.startswith(f"{effect.effect:+.2f} ")
        assert f"the first response is preferred in {50 + 100 * effect.effect:.0f} %" in line

    written = words_in(page, "Who beats whom?")
    rates = ranking.rates(order.tolist()).rate
    assert [word for word in written if word.isdigit()] == [
        f"{100 * rate:.0f}" for rate in rates.ravel() if rate == rate
    ]
    assert [word for word in written if word in FOUR] == names * 2
    written = words_in(page, "How do the systems rank?")
    assert [word for word in written if word in FOUR] == names
    ranks = [
        f"{low}–{high}" if low < high else f"{low}"
        for low, high in zip(ranking.rank_low, ranking.rank_high, strict=True)
    ]
    assert written[-5:] == [*(ranks[place] for place in order), "ranks"]


def test_tells_which_of_two_systems_is_better_or_that_it_is_open(tmp_path: Path) -> None:
    apart = page_of(compared_run(tmp_path / "apart", ("wren", "crow"), [0.0, 2.0], prompts=30))
    first, second = apart.tables[0].records()
    assert (first["system"], first["rank_high"], second["rank_low"]) == ("crow", 1, 2)
    assert 0.6 < first["win_rate"] < 0.95
    assert re.search(r"That both are equal: p \d", apart.charts[0].says)
    close = page_of(compared_run(tmp_path / "close", ("wren", "crow"), [0.0, 0.0], prompts=30))
    assert {row["rank_high"] for row in close.tables[0].records()} == {2}


def test_shows_each_comparison_with_its_texts_and_verdicts(tmp_path: Path, opened: Open) -> None:
    run = compared_run(tmp_path / "r", ("wren", "crow"), [0.0, 1.0], prompts=12, first=0.25)
    seen = opened(html(page_of(run, draws=False)))
    columns = found_in(run).scores.columns
    seen.page.select_option("#order", label="order of the data")
    assert seen.rows() == list(columns["pair_id"])
    assert seen.column("A preferred") == [
        f"{value:.2f}" for value in np.asarray(columns["preference"], float)
    ]
    assert seen.column("A") == list(columns["system_a"])
    ends = np.column_stack([np.asarray(columns[name], float) for name in ("ci_low", "ci_high")])
    assert seen.column("95 %") == [f"{low:.2f} – {high:.2f}" for low, high in ends]
    seen.page.locator("tr.row button").first.click()
    seen.page.wait_for_selector(".texts li")
    texts = seen.page.locator(".texts").inner_text()
    pair = run.pairs[0]
    for text in (
        "Prompt",
        pair.prompt,
        "Response A",
        pair.response,
        "Response B",
        str(pair.other),
        "A first: ",
        "B first: ",
    ):
        assert text in texts
    said = {2: "A is better", 1: "tie", 0: "B is better"}
    for row in run.judgments.to_pylist():
        if row["pair_id"] == pair.pair_id:
            assert f"{row['attribute'][0].upper()} first: {said[row['rating']]}" in texts
    assert "where B came first the judge calls it response A" in seen.page.inner_text("caption")
    seen.page.select_option("#order", label="most swayed by the order")
    swayed = [abs(float(text)) for text in seen.column("order ±")]
    assert swayed == sorted(swayed, reverse=True)
    seen.page.fill("#find", "crow 0:")
    assert seen.rows() == ["0:0", "10:0"]
    assert seen.complaints == []


def test_fits_a_phone_with_as_many_systems_as_it_draws(tmp_path: Path, opened: Open) -> None:
    names = [f"model-{number:02}-instruct" for number in range(MOST_SYSTEMS + 2)]
    run = compared_run(tmp_path / "r", names, np.linspace(-2, 2, len(names)).tolist(), prompts=1)
    page = page_of(run)
    text = html(replace(page, charts=page.charts[:2]))
    seen = opened(text, 1200, "dark")
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen.show(390)
    assert seen.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.charts[0].title == "How do the systems rank?"
    words = re.findall(r"<text[^>]*>([^<]*)</text>", text[: text.index("Who beats whom?")])
    assert len([word for word in words if word in names]) == MOST_SYSTEMS
    assert all("Of 22 systems these are the best 20." in each.says for each in page.charts[:2])
    assert seen.complaints == []


def test_says_which_systems_no_comparison_connects(tmp_path: Path) -> None:
    run = compared_run(
        tmp_path / "r", FOUR, [0, 1, 2, 3], asked=[("wren", "robin"), ("jay", "crow")], prompts=6
    )
    page = page_of(run, working=False)
    (warning,) = (each for each in page.warnings if "no ranking" in each)
    parts = [set(part.split(", ")) for part in re.findall(r"(\w+, \w+)", warning)]
    assert parts == [{"wren", "robin"}, {"jay", "crow"}]
    assert page.facts["About this run"]["comparisons"].startswith("12 of 36")
    assert not page.tables
    assert "Who beats whom?" not in {each.title for each in page.charts}


def test_shows_comparisons_of_nobody_s_responses_and_of_which_none_was_asked(
    tmp_path: Path, opened: Open
) -> None:
    nameless = compared_run(tmp_path / "nameless", FOUR, [0, 1, 2, 3], named=False, prompts=3)
    page = page_of(nameless, working=False)
    assert page.title == "18 comparisons, 3 prompts"
    assert {"A", "B"}.isdisjoint(
        column.header for column in page.rows.table.shown(page.rows.table.terminal)
    )
    unasked = page_of(
        compared_run(tmp_path / "unasked", FOUR, [0, 1, 2, 3], asked=[], prompts=3), working=False
    )
    assert not unasked.charts
    assert not unasked.tables
    seen = opened(html(unasked))
    assert seen.column("A preferred") == ["–"] * 18
    assert seen.complaints == []


def test_says_that_strengths_have_a_prior_where_a_system_never_lost(tmp_path: Path) -> None:
    run = compared_run(tmp_path / "r", ("wren", "crow"), [-30, 30], ties=0)
    assert any(
        "strengths have 0.5 ties more in them" in each
        for each in page_of(run, working=False).warnings
    )


def test_executes_nothing_of_a_system_s_name(tmp_path: Path, opened: Open) -> None:
    names = [*EXTRA, "$x_1$", HOSTILE[0][:60]]
    run = compared_run(
        tmp_path / "r", names, [0.1 * number for number in range(len(names))], prompts=1
    )
    seen = opened(html(page_of(run)))
    seen.page.locator("tr.row button").first.click()
    seen.page.wait_for_selector(".texts pre")
    assert seen.page.evaluate("window.hacked") is None
    assert seen.page.locator("main script, main iframe, main [onload]").count() == 0
    assert (seen.dialogs, seen.complaints, len(seen.requests)) == ([], [], 1)


def test_tells_apart_systems_whose_names_begin_and_end_alike() -> None:
    names = [f"gpt-4.1-nano-2025-04-14-{middle}-preview" for middle in ("one", "two")]
    assert labels_of([*names, "short"]) == [
        "gpt-4.1-nano-20…-preview (1)",
        "gpt-4.1-nano-20…-preview (2)",
        "short",
    ]


def test_shows_two_pairwise_runs_side_by_side_but_none_beside_ratings(
    tmp_path: Path, opened: Open
) -> None:
    first = compared_run(tmp_path / "a", ("wren", "crow"), [0.0, 1.0], prompts=8)
    second = compared_run(tmp_path / "c", ("wren", "crow"), [0.0, -3.0], prompts=8)
    with pytest.raises(InputError, match="have no pair and attribute in common"):
        page_of_two(twenty(tmp_path / "b"), first)
    with leaving_out_pictures():
        both = write_report([tmp_path / "a", tmp_path / "c"], str(tmp_path / "both.html"))
        alone = write_report([tmp_path / "a"], None)
    assert both is not None
    seen = opened(both.read_text(encoding="utf-8"))
    mine, theirs = (
        np.asarray(pairwise_scores(run).columns["preference"]) for run in (first, second)
    )
    assert seen.column("A − B") == [
        f"{value:+.2f}" if value > 0 else f"{value:.2f}" for value in mine - theirs
    ]
    seen.page.locator("tr.row button").first.click()
    seen.page.wait_for_selector(".texts li")
    texts = seen.page.locator(".texts").inner_text()
    assert all(
        words in texts for words in ("Response A", "Response B", "A · A first: ", "B · B first: ")
    )
    assert seen.complaints == []
    assert alone == tmp_path / "a" / "report.html"
    assert "The ranking of the systems" in alone.read_text(encoding="utf-8")
    assert alone.stat().st_mode & 0o777 == 0o600


def test_tells_no_interval_out_of_one_prompt(tmp_path: Path) -> None:
    one = page_of(compared_run(tmp_path / "r", FOUR, [0, 1, 2, 3], prompts=1), working=False)
    assert {row["win_low"] for row in one.tables[0].records()} == {None}


def test_tells_the_best_response_to_each_prompt_and_how_many_are_likely_wrong(
    tmp_path: Path, opened: Open
) -> None:
    def best_of(name: str, strengths: list[float], draws: int) -> Report:
        settings = {"decide": "best", "scheduler": "auto"}
        run = compared_run(
            tmp_path / name, FOUR[:3], strengths, prompts=4, draws=draws, ties=0, settings=settings
        )
        return page_of(run, draws=False)

    sure = best_of("sure", [-30, 0, 30], 20)
    assert sure.answer[0] == "found the best of 4 prompts; fewer than 1 of the 4 is likely wrong"
    seen = opened(html(sure))
    for best, a, b in zip(seen.column("best"), seen.column("A"), seen.column("B"), strict=True):
        assert best == ("A" if a == "jay" else "B" if b == "jay" else "–")
    open_ = best_of("open", [0, 0, 0], 1)
    assert re.search(r"about [2-4] of the 4 are likely wrong", open_.answer[0])
    # a comparison of each prompt that has its best response comes first
    assert "–" not in seen.column("best")[:4]
