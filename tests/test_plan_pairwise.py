"""robin plan --pairwise as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import DEMO, replaying, robin

DATA = DEMO / "responses.jsonl"
PLAN = ("plan", DATA, "--pairwise")


def test_says_how_many_comparisons_a_budget_asks_and_sends_nothing(tmp_path: Path) -> None:
    shown = robin(*PLAN, "--budget", "600", "--model", "gpt-4.1-mini", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "600 comparisons of 6 systems" in shown.stdout
    assert "To ask all once takes 1,200 calls: 2 orders." in shown.stdout
    assert "--scheduler auto: tournament" in shown.stdout
    assert "Nothing was sent." in shown.stdout
    assert "not all comparisons need be asked" in " ".join(shown.stdout.split())
    assert "error" not in shown.stdout

    plan = json.loads(robin(*PLAN, "--budget", "600", "--model", "gpt-4.1-mini", "--json", cwd=tmp_path).stdout)
    rows = plan["forecast"]
    assert [row["budget"] for row in rows] == [150, 300, 600, 1200, 2400]
    assert [row["comparisons_asked"] for row in rows] == [75, 150, 300, 600, 600]
    assert [row["calls_of_each"] for row in rows] == [1, 1, 1, 1, 2]
    wins = [row["win_rate_half_width"] for row in rows]
    assert wins == sorted(wins, reverse=True)
    assert [row["cost_usd_at_least"] for row in rows] == sorted(row["cost_usd_at_least"] for row in rows)
    ways = {row["way"]: row for row in plan["ways"]}
    assert ways["batch"]["cost_usd_at_least"] == pytest.approx(0.5 * ways["one call at a time"]["cost_usd_at_least"])
    assert ways["batch"]["seconds"] == 4 * 24 * 3600


def test_plans_to_ask_all_once_where_no_budget_is_given(tmp_path: Path) -> None:
    two = tmp_path / "two.jsonl"
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    two.write_text("".join(json.dumps(row) + "\n" for row in rows if row["system"] in {"amber", "birch"}), "utf-8")
    plan = json.loads(robin("plan", two, "--pairwise", "--model", "a", "--model", "b", "--json", cwd=tmp_path).stdout)
    assert (plan["comparisons"], plan["calls_a_comparison"], plan["budget"]) == (40, 4, 160)
    assert plan["scheduler"] == "preferences"
    assert plan["preferences_vary"]["told_by"] == 0


def test_plans_by_a_pilot_that_is_the_beginning_of_the_run(tmp_path: Path) -> None:
    with replaying(DEMO / "votes.parquet") as url:
        judge = ("--base-url", url, "--model", "replay:votes", "--run", "r")
        shown = robin(*PLAN, "--budget", "600", "--pilot", "50", *judge, cwd=tmp_path)
        assert shown.returncode == 0, shown.stderr
        told = re.search(r"as in (\d+) comparisons of the pilot", " ".join(shown.stdout.split()))
        assert told is not None
        assert 40 <= int(told[1]) <= 50  # some may be asked twice
        assert "The pilot's 100 calls count" in shown.stdout
        assert "To spend it: robin resume r --budget 600" in shown.stdout
        again = robin("resume", "r", "--budget", "600", "--base-url", url, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert "600 of 600 calls spent, 500 verdicts in this session" in again.stderr
        few = robin(*PLAN, "--pilot", "5", *judge, cwd=tmp_path)
    assert few.returncode == 2
    assert "20 are needed; give more" in few.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--for-error", "0.2"), "leave one of the two out"),
        (("--compare", "0.1"), "leave one of the two out"),
        (("--budget", "4"), "raise it to 10 or more"),
        (("--target-error", "0.1"), "leave one of the two out"),
    ],
)
def test_refuses_what_comparisons_do_not_have(tmp_path: Path, more: tuple[str, ...], says: str) -> None:
    done = robin(*PLAN, "--model", "m", *more, cwd=tmp_path)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
