"""What a run decided, wherever it is shown."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import openpyxl
import pytest
from rich.console import Console

import robin_cli
from robin_cli.goals.deciding import decided_lines, decision_facts
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.watch import Watch
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair
from robin_cli.policies.base import Policy
from robin_cli.policies.milestones import looks_at
from robin_cli.run.fold import Spending
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.writer import RunWriter
from robin_cli.session.scheduling import look_again
from robin_cli.show.files import export
from robin_cli.show.live import LiveView, progress_line
from robin_cli.show.report.page import html
from robin_cli.show.run_list import runs_in
from robin_cli.show.status import READ, status_of
from robin_cli.stats.decided import Decided
from robin_cli.stats.evidence import log_evidence
from robin_cli.stats.level_counts import LevelCounts
from robin_cli.stats.scores import score
from tests.conftest import DEMO, judging, robin
from tests.run.test_store import SETTINGS
from tests.show.tables import make_run, page_of, print_scores, score_rows


@pytest.fixture(scope="module")
def decided(tmp_path_factory: pytest.TempPathFactory, replay_url: str) -> tuple[Path, str, str]:
    """A run of the demo that reached its target, and what was said when its first calls were spent, and at the end."""
    folder = tmp_path_factory.mktemp("decided")
    short = robin(
        *judging(replay_url, DEMO / "pairs.jsonl", 30, "--run", "r", "--decide", "score>=3"),
        *("--limit", "20"),
        cwd=folder,
    )
    assert short.returncode == 0, short.stderr
    done = robin("resume", "r", "--budget", "3000", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, short.stderr, done.stderr


def run_of(
    path: Path, ratings: list[list[int | None]], decide: str = "score>=3", **change: Any
) -> RunReader:
    pairs = [Pair(f"p{k}", f"prompt {k // 2}", f"response {k}") for k in range(len(ratings))]
    settings = {**SETTINGS, "decide": decide, "scheduler": "uniform"}
    values: dict[str, Any] = {"settings": settings, "budget": sum(map(len, ratings))} | change
    return make_run(path, pairs, ratings, feedback="f", **values)


MIXED: list[list[int | None]] = [[4] * 40, [4] * 40, [0] * 40, [3, 4, 3], [None] * 5]
"""Three certain ones, one that leans, and one that was given up without a rating."""


def decided_by(run: RunReader) -> Decided:
    found = score(run).decided
    assert found is not None
    return found


def table(run: RunReader, width: int, *, wide: bool = False) -> str:
    out = io.StringIO()
    print_scores(Console(file=out, width=width), score(run), run, wide=wide)
    return out.getvalue()


def test_says_at_the_end_what_was_decided_and_what_is_left_over(
    decided: tuple[Path, str, str],
) -> None:
    _, _, said = decided
    *_, counts, step = said.splitlines()
    assert re.fullmatch(r"kept \d+ of 20; fewer than 1 of the 20 decisions is likely wrong", counts)
    assert "certif" not in said
    assert re.search(r"^[\d,]+ of 3,000 calls spent", said, re.MULTILINE)
    assert step == "next: robin report r -o report.html"


def test_sends_nothing_more_once_few_decisions_are_likely_wrong_and_says_so(
    decided: tuple[Path, str, str],
) -> None:
    folder, _, _ = decided
    before = status_of(folder / "r").facts
    for more in ((), ("--budget", "4000")):
        again = robin("resume", "r", *more, cwd=folder)
        assert again.returncode == 0, again.stderr
        assert "nothing was sent: the run has reached its goal already" in again.stderr
    after = status_of(folder / "r").facts
    assert (after["spent"], after["sessions"]) == (before["spent"], before["sessions"])
    assert after["state"] == "finished"
    assert [run["state"] for run in runs_in(folder)] == ["finished"]


def test_is_finished_in_the_report_whatever_budget_is_left(decided: tuple[Path, str, str]) -> None:
    page = page_of(read_run(decided[0] / "r", READ), working=False)
    assert not any("calls are spent" in warning for warning in page.warnings)
    assert page.charts[0].title == "How many decisions are likely wrong?"
    assert page.answer[0].startswith("kept ")


def test_says_where_the_budget_went_first_what_it_decides_and_how_to_go_on(
    decided: tuple[Path, str, str],
) -> None:
    _, short, _ = decided
    assert re.search(
        r"kept \d+ of 20; (about \d+|fewer than 1) of the 20 decisions (is|are) likely wrong", short
    )
    assert re.search(r"next: robin resume r --budget \d+$", short, re.MULTILINE)


CERTIFYING = {**SETTINGS, "decide": "score>=3", "scheduler": "uniform", "certify": True}


@pytest.mark.parametrize("certify", [False, True])
def test_says_what_is_decided_and_only_if_asked_what_is_certified(
    tmp_path: Path, *, certify: bool
) -> None:
    run = run_of(tmp_path / "r", MIXED, settings={**CERTIFYING, "certify": certify})
    decided = decided_by(run)
    facts = decision_facts(decided, 0.01)
    assert [facts[name] for name in ("of", "each", "keep", "drop", "undecided")] == [
        *(5, "pair", 3, 1, 1)
    ]
    assert (facts["target_wrong"], facts["margins"]) == (0.01, {"helpfulness": 0.1})
    assert facts["likely_wrong"] == pytest.approx(np.nansum(decided.likely_wrong))
    assert facts["likely_wrong_of"] == 4
    said = "kept 3 of 5, 1 not rated; fewer than 1 of the 4 decisions is likely wrong"
    if certify:
        said += "; 3 of 5 pairs certified (at most 5 % of these wrong on average)"
        assert (facts["certified"], facts["error_rate"]) == (3, 0.05)
    assert "; ".join(decided_lines(decided)) == said

    status = status_of(run.path)
    assert status.facts["decide"] == "helpfulness>=3"
    assert status.lines["decided"] == f"{said}; margin 0.1"
    shown = [table(run, 200), *status.lines.values(), json.dumps(status.facts)]
    shown += [html(page_of(run, working=False)), *robin_cli.open_run(run.path).decisions().columns]
    assert any("certif" in each for each in shown) is certify


def test_says_nothing_of_decisions_where_there_are_none(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", MIXED, settings={**SETTINGS})
    status = status_of(run.path)
    assert (status.facts["decide"], status.facts["decisions"]) == (None, None)
    assert "decided" not in status.lines
    assert "decision" not in table(run, 200)
    assert "How many decisions are likely wrong?" not in [
        each.title for each in page_of(run, working=False).charts
    ]
    with pytest.raises(InputError, match="decides nothing; make a run with --decide"):
        robin_cli.open_run(run.path).decisions()


def test_the_table_shows_the_most_uncertain_decisions_first_however_narrow_it_is(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path / "r", MIXED)
    for width in (40, 80, 200):
        rows = [
            line.split()
            for line in table(run, width).splitlines()
            if line.startswith("p") and line[1].isdigit()
        ]
        assert [row[1] for row in rows] == ["keep", "keep", "keep", "drop", "undecided"], width
    assert "the most uncertain decision first" in table(run, 200)


def test_the_table_shows_the_most_uncertain_group_first_with_its_best_on_top(
    tmp_path: Path,
) -> None:
    ratings: list[list[int | None]] = [[4] * 40, [0] * 40, [2, 3], [3, 4], [1] * 9]
    run = run_of(tmp_path / "r", ratings, "best")
    rows = [line.split()[:2] for line in table(run, 200).splitlines() if line.startswith("p")]
    assert [row[0] for row in rows[1:]] == ["p3", "p2", "p0", "p1", "p4"]


def test_the_wide_table_has_one_decision_a_pair_or_one_an_attribute_for_the_best(
    tmp_path: Path,
) -> None:
    kept = table(run_of(tmp_path / "r", MIXED), 200, wide=True)
    best = table(run_of(tmp_path / "s", MIXED[:4], "best"), 200, wide=True)
    assert [each.split("95 %")[0].count("decision ") for each in (kept, best)] == [1, 1]
    assert "group" in best.splitlines()[1]


@pytest.mark.parametrize(
    ("decide", "said"), [("score>=3", ["keep", "keep", "drop", "keep"]), ("best", None)]
)
def test_a_workbook_colours_decisions_by_what_they_say(
    tmp_path: Path, decide: str, said: list[str] | None
) -> None:
    run = run_of(tmp_path / "r", MIXED[:4], decide)
    for wide in (False, True):
        export(
            score_rows(score(run), run, wide=wide), {}, fmt=None, output=str(tmp_path / "s.xlsx")
        )
        sheet = openpyxl.load_workbook(tmp_path / "s.xlsx")["results"]
        heads = [cell.value for cell in sheet[1]]
        (column,) = (place for place, head in enumerate(heads, 1) if str(head).endswith("decision"))
        if said is not None:
            assert [sheet.cell(row, column).value for row in range(2, 6)] == said
        (ruled,) = sheet.conditional_formatting
        (where,) = ruled.sqref.ranges
        assert (where.min_col, where.max_col) == (column, column)
        assert where.max_row > 1_000_000  # rows that are added, too
        colours = {rule.formula[0].strip('"'): rule.dxf.fill.bgColor.rgb for rule in ruled.rules}
        assert colours.keys() == {"keep", "best", "drop", "rejected", "undecided"}
        assert colours["keep"] == colours["best"]
        assert colours["drop"] == colours["rejected"]
        lightness = sorted(
            0.2126 * r + 0.7152 * g + 0.0722 * b
            for r, g, b in (bytes.fromhex(c[-6:]) for c in colours.values())
        )
        assert lightness[2] - lightness[1] > 20  # apart in grey as well
        assert lightness[4] - lightness[3] > 10


def test_a_workbook_without_decisions_has_no_colours(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", MIXED, settings={**SETTINGS})
    export(score_rows(score(run), run), {}, fmt=None, output=str(tmp_path / "s.xlsx"))
    assert not list(openpyxl.load_workbook(tmp_path / "s.xlsx")["results"].conditional_formatting)


def session_of(run: RunReader) -> Any:
    watch = Watch(goal_of_run(run), lambda: LevelCounts.from_run(run), 0.01)
    if watch.verdicts is not None:
        watch.verdicts.look(run.fold.arms, Policy())
    return SimpleNamespace(
        space=run.space,
        arms=run.fold.arms,
        stats=SimpleNamespace(
            unparsed={}, failed={}, ratings=1, in_flight=2, refused=0, waited_s=0
        ),
        budget=SimpleNamespace(spent=3, total=4, left=1),
        money=SimpleNamespace(limit=None),
        by_money=False,
        total=Spending(1, 1, None, complete=True),
        planner=SimpleNamespace(warming_up=False),
        watch=watch,
        noun="rating",
        under=None,
    )


def test_the_live_view_has_the_course_of_what_is_likely_wrong_and_ends_as_the_summary(
    tmp_path: Path,
) -> None:
    run = run_of(tmp_path / "r", [[4], [3], [0], [2, 1]])
    session = session_of(run)
    first = dict(session.watch.standing(run.fold.arms))
    assert first["decided"] == "kept 2 of 4"
    assert first["likely wrong"] == "fewer than 1 of the 4 decisions"
    assert not session.watch.is_over(run.fold.arms)
    for arm, rating in ((0, 4), (1, 4), (2, 0), (3, 0)):
        for _ in range(20):
            run.fold.writable.add_rating(arm, rating)
    then = dict(session.watch.standing(run.fold.arms))
    assert then["likely wrong"] == "fewer than 1 of the 4 decisions █▁"
    assert session.watch.is_over(run.fold.arms)
    summary = "; ".join(decided_lines(decided_by(run)))
    assert summary == f"{then['decided']}; fewer than 1 of the 4 decisions is likely wrong"


@pytest.mark.parametrize("width", [30, 60, 100])
def test_the_live_view_says_what_is_decided_first(tmp_path: Path, width: int) -> None:
    session = session_of(run_of(tmp_path / "r", MIXED, settings=CERTIFYING))
    out = io.StringIO()
    Console(file=out, width=width).print(LiveView(session).render())
    shown = " ".join(" ".join(line.strip("│ ") for line in out.getvalue().splitlines()).split())
    assert re.search(r"decided:? kept 3 of 5", shown)
    assert re.search(r"likely wrong:? fewer than 1 of the 4", shown)
    assert re.search(r"certified:? 3 of 5 pairs", shown)
    pace: Any = SimpleNamespace(rate=lambda *_: 1.0, slow=lambda *_: "", left=lambda *_: "9 s left")
    assert "decided: kept 3 of 5" in progress_line(session, pace)


def test_python_has_the_decisions_a_row_a_pair(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", MIXED)
    found = robin_cli.open_run(run.path).decisions(with_text=True)
    assert list(found.columns) == [
        *("pair_id", "decision", "likely_wrong", "helpfulness_score", "prompt", "response")
    ]
    assert found["decision"].tolist() == ["keep", "keep", "drop", "keep", "undecided"]
    assert found["likely_wrong"].isna().tolist() == [False] * 4 + [True]
    assert found["response"].tolist() == [f"response {k}" for k in range(5)]


def test_python_has_the_best_of_each_group(tmp_path: Path) -> None:
    run = run_of(tmp_path / "r", [[4] * 60, [1] * 60, [3] * 60, [0] * 60, [2]], "best")
    found = robin_cli.open_run(run.path).decisions()
    assert list(found.columns) == [
        "pair_id",
        "attribute",
        "group",
        "decision",
        "likely_wrong",
        "score",
    ]
    assert found["decision"].tolist() == ["best", "rejected", "best", "rejected", ""]
    assert found["group"].nunique() == 3
    decided = decided_by(run)
    facts = decision_facts(decided, 0.0)
    assert (facts["of"], facts["best"], facts["undecided"]) == (2, 2, 0)
    assert (
        "; ".join(decided_lines(decided))
        == "found the best of 2 groups; fewer than 1 of the 2 is likely wrong"
    )


def test_python_says_what_was_decided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def judge(messages: list[Mapping[str, str]]) -> str:
        return f"Feedback: counted.\nRating: {4 if 'good' in messages[-1]['content'] else 0}"

    pairs = [Pair(f"p{k}", "p", "good" if k % 2 else "poor") for k in range(6)]
    settings: dict[str, Any] = {"decide": "score>=2", "run": tmp_path / "r"}
    run = robin_cli.judge(
        pairs, judge=judge, attribute="helpfulness", budget=600, rubric=[], **settings
    )
    assert "kept 3 of 6; fewer than 1 of the 6 decisions is likely wrong" in capsys.readouterr().err
    run.resume(judge=judge)
    said = capsys.readouterr().err
    assert "nothing was sent" in said
    assert said.endswith(f"next: robin report {tmp_path / 'r'} -o report.html\n")


def test_a_resumed_run_begins_with_the_look_that_it_made_last(tmp_path: Path) -> None:
    asked: list[list[int | None]] = [[(pair + draw) % 5 for draw in range(6)] for pair in range(60)]
    asked[7][1] = None  # an answer without a rating is spent, too
    run_of(tmp_path / "r", asked, settings={**CERTIFYING, "scheduler": "auto"})
    by_time = [(pair, asked[pair][draw]) for draw in range(6) for pair in range(60)]

    with RunWriter.open(tmp_path / "r") as store:
        goal, fold = goal_of_run(store), store.fold()
        watch = Watch(goal, lambda: LevelCounts(store.space), None)
        assert watch.verdicts is not None
        looked = look_again(store, fold, goal, watch.verdicts)

    assert looked == looks_at(60).until(360) < 360
    counts = np.zeros((60, 5))
    for pair, rating in by_time[:looked]:
        if rating is not None:
            counts[pair, rating] += 1
    seen = watch.verdicts.seen
    assert seen is not None
    assert seen.n.tolist() == counts.sum(axis=1).tolist()
    assert seen.log == pytest.approx(np.maximum(*log_evidence(counts, 0, 4, 3, 0.1)), rel=1e-11)
