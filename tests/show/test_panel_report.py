"""The report of a panel: each judge and attribute by itself, and figures that agree with the pictures beside them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from robin_cli import open_run
from robin_cli.run.reader import read_run
from robin_cli.show.drawing import picture
from robin_cli.show.report.page import Page, html
from robin_cli.show.status import READ
from tests.conftest import DEMO, REPLAY_MODEL, robin
from tests.judges.wire import completion, serving
from tests.show.conftest import Open
from tests.show.tables import page_of, rated


@pytest.fixture(scope="module")
def panel(tmp_path_factory: pytest.TempPathFactory, replay_url: str) -> Path:
    """A run of two attributes by a replay and by a judge that reads."""
    folder = tmp_path_factory.mktemp("panel")
    with serving(lambda number, _body: completion(f"Feedback: ok.\nRating: {number % 3}")) as wire:
        done = robin(
            *(
                *("judge", DEMO / "pairs.jsonl", "-a", "helpfulness,correctness", "--limit", "6"),
                *("-b", "120"),
            ),
            *(
                *("--scheduler", "two-priors", "--model", f"{REPLAY_MODEL}@{replay_url}"),
                *("--model", f"reads@{wire.url}"),
            ),
            *("--run", "r", "-q"),
            cwd=folder,
        )
    assert done.returncode == 0, done.stderr
    return folder / "r"


@pytest.fixture(scope="module")
def page(panel: Path) -> Page:
    return page_of(read_run(panel, READ), working=False)


def test_tells_each_attribute_and_each_judge_by_itself(page: Page) -> None:
    assert [row["attribute"] for row in page.tables[0].records()] == ["helpfulness", "correctness"]
    (warning,) = page.warnings
    assert warning.startswith(f"The ratings of {REPLAY_MODEL} are recorded ones")
    assert (
        f"judged by {REPLAY_MODEL} (recorded ratings, replayed: no model read these responses), reads"
        in page.subtitle
    )
    arms = {
        f"{name} · {judge}"
        for name in ("helpfulness", "correctness")
        for judge in (REPLAY_MODEL, "reads")
    }
    drawn = {each.title: each for each in page.charts}
    assert set(drawn["Is one judge harsher?"].panels) == arms
    spread = drawn["How do the scores spread?"]
    assert set(spread.panels) == {"helpfulness", "correctness"}
    assert {"helpfulness", "correctness"} <= texts_in(picture(spread, 0))


def test_chooses_by_judge_what_it_rated_and_opens_all_responses_to_a_prompt(
    tmp_path: Path, opened: Open
) -> None:
    run = rated(tmp_path, ["p0", "p1", "p2"], ("helpfulness", "tone"), ("a", "b"))
    seen = opened(html(page_of(run, draws=False)))
    seen.page.select_option("#order", label="order of the data")
    row = seen.page.locator("tr.row").first
    for judge, others in (("a", "b"), ("b", "a")):
        seen.page.select_option("#view", label=f"rated by {judge}")
        assert len(seen.rows()) == 6
        row.locator("button").click()
        seen.page.wait_for_selector(".texts li")
        texts = seen.page.locator(".texts").inner_text()
        assert f"{judge}: Rating 2" in texts
        assert f"{others}: Rating" not in texts
        assert seen.page.locator(".texts li").count() == 12  # of one attribute
    beside = seen.page.locator(".beside h3").all_inner_texts()
    assert beside == ["Response of p0: 2.00", "p1: 2.00", "p2: 2.00"]
    assert not seen.complaints


def texts_in(written: str) -> set[str]:
    return {text.strip() for text in re.findall(r"<text[^>]*>([^<]*)</text>", written)}


def test_sets_scores_against_human_ratings_for_each_attribute_and_each_judge(
    tmp_path: Path,
) -> None:
    attributes = ("helpfulness", "tone")
    run = rated(tmp_path, [f"p{k}" for k in range(14)], attributes, ("a", "b"))
    (drawn,) = (
        each
        for each in page_of(run, working=False).charts
        if each.title == "Do scores agree with people?"
    )
    panels = {f"{name}{judge}" for name in attributes for judge in ("", " · a", " · b")}
    assert set(drawn.panels) == panels
    two = dict([*drawn.panels.items()][:2])
    written = picture(replace(drawn, panels=two), 0)
    assert two.keys() <= texts_in(written)
    ticks = [
        text
        for text in re.findall(r"<text[^>]*>([^<]*)</text>", written)
        if text.strip().isdecimal()
    ]
    assert sorted(ticks) == sorted([*"01234"] * 2 * len(two))  # the scale, both ways, in each
    assert all(f"{name}: " in drawn.says for name in attributes)


def test_tells_no_mean_over_attributes_of_a_judge(panel: Path) -> None:
    for judge in open_run(panel).status()["judges"]:
        assert judge["mean_score"] is None
        assert set(judge["mean_scores"]) == {"helpfulness", "correctness"}
    told = " ".join(robin("status", panel, "--details", cwd=panel.parent).stdout.split())
    assert re.search(
        r"reads: \d+ calls, \d+ ratings, mean \d\.\d\d helpfulness, \d\.\d\d correctness over 12 scores",
        told,
    )
    json.loads(robin("status", panel, "--json", cwd=panel.parent).stdout)
