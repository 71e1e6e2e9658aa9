"""robin judge without a --scheduler: what it takes, says, and keeps to."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import REPLAY_MODEL, ROOT, robin, write_pairs

POOL = ROOT / "configs" / "pools" / "paper_digitised.parquet"


def judging(url: str, budget: int, *more: str) -> list[str]:
    judge = ("--base-url", url, "--model", REPLAY_MODEL, "--seed", "1")
    return [
        *("judge", "pairs.jsonl", "-a", "helpfulness", "--budget", str(budget), "--run", "r"),
        *judge,
        *more,
    ]


def scheduler_of(run: Path) -> str:
    return str(json.loads((run / "manifest.json").read_text())["settings"]["scheduler"])


def test_spends_few_calls_a_pair_where_ratings_vary(tmp_path: Path, replay_url: str) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 20)

    # One call at a time: what is chosen then hangs on the ratings alone, not on which of them came first.
    one_by_one = judging(replay_url, 160, "--concurrency", "1")
    done = robin(*one_by_one, cwd=tmp_path, exits=0)

    assert (
        done.stderr.count(
            "--scheduler auto: two-priors; it asks where ratings vary, from the second call of"
        )
        == 1
    )
    assert scheduler_of(tmp_path / "r") == "two-priors"
    scores = pd.read_csv(io.StringIO(done.stdout))
    assert scores["n"].sum() == 160
    assert scores["n"].max() - scores["n"].min() >= 2  # an even spread gives each 8


def test_keeps_to_what_it_became_when_there_is_more_budget(tmp_path: Path, replay_url: str) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 10)
    first = robin(*judging(replay_url, 50), cwd=tmp_path)

    again = robin(*judging(replay_url, 125), cwd=tmp_path)
    other = robin(*judging(replay_url, 150, "--scheduler", "uniform"), cwd=tmp_path, exits=2)
    resumed = robin("resume", "r", "--budget", "150", cwd=tmp_path)
    planned = json.loads(
        robin("plan", *judging(replay_url, 1000)[1:], "--json", cwd=tmp_path).stdout
    )

    assert [first.returncode, again.returncode, resumed.returncode] == [0, 0, 0]
    assert "scheduler: the run has two-priors, now uniform" in other.stderr
    assert scheduler_of(tmp_path / "r") == "two-priors"
    assert planned["scheduler"] == "two-priors"


def test_goes_on_with_no_run_whose_scheduler_it_would_never_take(
    tmp_path: Path, replay_url: str
) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 5)
    robin(*judging(replay_url, 25, "--scheduler", "uniform"), cwd=tmp_path, exits=0)

    again = robin(*judging(replay_url, 50), cwd=tmp_path, exits=2)

    assert "scheduler: the run has uniform, now two-priors" in again.stderr


def test_plans_what_it_will_do(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 200)
    asked = ("plan", "pairs.jsonl", "-a", "helpfulness", "--budget", "2000")

    shown = robin(*asked, "--details", cwd=tmp_path).stdout
    facts = json.loads(robin(*asked, "--json", cwd=tmp_path).stdout)

    assert "10.0 calls per score, by two-priors." in shown
    assert (facts["scheduler"], facts["scheduler_asked"]) == ("two-priors", "auto")
    here = next(row for row in facts["forecast"] if row["budget"] == 2000)
    assert here["worst_error"] < here["even_worst_error"]


@pytest.mark.slow
def test_gains_over_an_even_spread_at_few_and_at_many_calls_a_pair(tmp_path: Path) -> None:
    budgets = ",".join(str(calls * 100) for calls in (5, 20))
    kind = ("--attribute", "gpt-4.1-nano/helpfulness", "--limit", "100", "--runs", "100")

    done = robin(
        *("simulate", POOL, "--budget", budgets, "--schedulers", "uniform,auto"),
        *kind,
        cwd=tmp_path,
        exits=0,
    )

    error = {
        (row["scheduler"], int(row["budget"]) // 100): float(row["wce_mean"])
        for row in csv.DictReader(io.StringIO(done.stdout))
    }
    gain = {calls: error["auto", calls] / error["uniform", calls] for calls in (5, 20)}
    assert all(gain[calls] <= most for calls, most in {5: 0.92, 20: 0.82}.items()), gain


def test_asks_for_several_ratings_a_request_and_plans_with_as_few_prompts(
    tmp_path: Path, replay_url: str
) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 10)
    asked = ("plan", "pairs.jsonl", "-a", "helpfulness", "--budget", "200", "--json")

    robin(*judging(replay_url, 200), cwd=tmp_path)
    answered = robin("export", "r", "--what", "judgments", cwd=tmp_path, exits=0).stdout
    paid = [row["prompt_tokens"] for row in csv.DictReader(io.StringIO(answered))]
    one, several = (
        json.loads(robin(*asked, "--samples-per-request", n, cwd=tmp_path).stdout)["prompt_tokens"]
        for n in ("1", "auto")
    )

    assert sum(int(each) > 0 for each in paid) <= 200 / 2
    assert several == pytest.approx(one / 2, rel=0.1)
