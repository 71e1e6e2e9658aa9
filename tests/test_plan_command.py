"""robin plan as a user meets it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import DEMO, judging, robin, write_pairs

RESPONSES = DEMO / "responses.jsonl"
PRICES = ("--price-in", "1", "--price-out", "2", "--model", "m")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "pairs.jsonl", 20)


def facts_of(folder: Path, *command: str | Path) -> dict[str, Any]:
    done = robin("plan", *command, "--json", cwd=folder, exits=0)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def said_by(folder: Path, *command: str | Path) -> str:
    return " ".join(robin("plan", *command, cwd=folder, exits=0).stdout.split())


def scores(data: Path, *more: str) -> list[str | Path]:
    return [data, "-a", "helpfulness", *more]


def test_says_what_a_budget_takes_and_brings(tmp_path: Path, data: Path) -> None:
    asked = scores(data, "--budget", "200", *PRICES, "--concurrency", "4")
    facts, said = facts_of(tmp_path, *asked), said_by(tmp_path, *asked)

    low, at, high = facts["forecast"]
    assert [row["budget"] for row in facts["forecast"]] == [100, 200, 400]
    assert low["worst_error"] > at["worst_error"] > high["worst_error"] > high["mean_error"] > 0
    assert facts["requests"] == 140
    assert at["cost_usd_at_least"] == pytest.approx(facts["prompt_tokens"] / 1e6, rel=1e-3)
    one_by_one = facts["prompt_tokens"] * facts["ratings_per_prompt"]
    most = (one_by_one + 200 * 1024 * 2) / 1e6  # if the endpoint gives one rating per request
    assert at["cost_usd_at_most"] == pytest.approx(most, rel=1e-3)
    assert at["cost_usd_about"] - at["cost_usd_at_least"] == pytest.approx(200 * 100 * 2 / 1e6)
    assert at["seconds"] == facts["requests"] * 2 / 4
    assert said.startswith("200 calls cost about $")
    assert f"the expected error of the worst score is about {at['worst_error']:.2f}" in said
    assert "Assumed: ratings vary as those of the paper's two judges do, at helpfulness;" in said
    assert "; answers have 100 tokens; 2 s an answer, 4 at a time." in said
    assert said.endswith("Nothing was sent.")
    assert not list(tmp_path.glob("runs"))


def test_says_when_a_run_by_expectations_would_end(tmp_path: Path, data: Path) -> None:
    pairs = facts_of(tmp_path, *scores(data, "--budget", "200"))["pairs"]
    said = said_by(tmp_path, *scores(data, "--budget", "200", "--answers", "decisions"))
    assert f"ends once 59 repeats agree, after about {pairs + 59} calls" in said


def test_says_all_it_knows_with_details_and_as_a_file(tmp_path: Path, data: Path) -> None:
    asked = scores(data, "--budget", "200", *PRICES)
    said = said_by(tmp_path, *asked, "--details", "--max-cost", "0.001", "--rpm", "30")
    for words in (
        *(
            "Requests: 140 of 1.4 ratings, if the endpoint takes n; time: --rpm 30.",
            "4 characters a token",
        ),
        "Price: $1 a million tokens in, $2 out (--price-in, --price-out).",
        "--max-cost does not pay for them.",
        "--scheduler auto: two-priors; it asks where ratings vary",
        "(in 20 simulated runs).",
        "Simulated: 20 runs of 20 of 20 scores; figures have two digits.",
    ):
        assert words in said
    robin("plan", *asked, "-o", "plan.csv", cwd=tmp_path, exits=0)
    assert pd.read_csv(tmp_path / "plan.csv")["budget"].tolist() == [100, 200, 400]


def test_says_how_many_calls_a_run_takes_until_few_decisions_are_likely_wrong(
    tmp_path: Path, data: Path
) -> None:
    asked = scores(data, "--decide", "score>=2", "--margin", "0.5")
    facts, said = facts_of(tmp_path, *asked), said_by(tmp_path, *asked)

    goal = facts["goal"]
    assert goal["calls"] == facts["budget"] == int(float(f"{goal['calls']:.2g}"))
    assert goal["even_calls"] > 1.3 * goal["calls"]
    assert facts["forecast"][-1]["likely_wrong"] <= 0.015
    assert facts["forecast"][-1]["calls"] < facts["forecast"][-1]["budget"]
    assert said.startswith(
        f"To have 1 % of the decisions likely wrong (score>=2) takes about {goal['calls']:,} calls"
    )
    assert "of the decisions are wrong" in said


def test_finds_the_budget_for_an_error_and_for_an_amount_of_money(
    tmp_path: Path, data: Path
) -> None:
    facts = facts_of(tmp_path, *scores(data, "--target-error", "0.4"))
    at = next(row for row in facts["forecast"] if row["budget"] == facts["budget"])
    assert facts["goal"]["calls"] == facts["budget"]
    assert at["worst_error"] == pytest.approx(0.4, rel=0.25)

    paid = facts_of(tmp_path, *scores(data, "--max-cost", "0.2", *PRICES))
    at = next(row for row in paid["forecast"] if row["budget"] == paid["budget"])
    assert 0.13 < at["cost_usd_about"] <= 0.2, "if the endpoint takes n, money is left"


def test_plans_by_an_earlier_run(tmp_path: Path, data: Path, replay_url: str) -> None:
    judge = judging(replay_url, data, 100, "--run", "r")
    robin(*judge, cwd=tmp_path, exits=0)
    run = ("--variances", "r", "--model", judge[judge.index("--model") + 1])
    facts = facts_of(tmp_path, *scores(data, "--budget", "200", *map(str, run)))

    status = json.loads(robin("status", "r", "--json", cwd=tmp_path, exits=0).stdout)
    assert facts["ratings_vary_as"] == "as in r"
    assert facts["completion_tokens"] == pytest.approx(2 * status["completion_tokens"], rel=0.01)
    # the more calls a pair, the more share a prompt
    assert 1.6 < facts["prompt_tokens"] / status["prompt_tokens"] < 1.9
    assert "as in 100 answers of r" in facts["tokens_from"]
    assert "as in r" in facts["seconds_from"]


def test_comparisons_take_calls_money_and_time_alone(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, RESPONSES, "--pairwise", "--limit", "10", *PRICES)
    assert facts["budget"] == facts["arms"] == 2 * facts["pairs"]
    assert facts["simulated_runs"] is None
    assert facts["forecast"][1]["cost_usd_about"] > 0
    said = said_by(tmp_path, RESPONSES, "--pairwise", "--limit", "10", "--budget", "50")
    assert re.match(r"50 calls take about .*; their price is not known", said)
    assert "error" not in said


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--budget is missing"),
        (("--budget", "5"), "--budget"),
        (("--budget", "200", "--scheduler", "robin"), "name an earlier run with --variances RUN"),
        (("--budget", "200", "--mode", "theory"), "in theory mode needs"),
        (("--target-error", "9"), "above 0 and below 4"),
        (("--budget", "200", "--variances", "nowhere"), "nowhere"),
        (("--budget", "200", "--max-cost", "1", "--model", "m"), "--price-in and --price-out"),
    ],
)
def test_refuses_what_judge_refuses(
    tmp_path: Path, data: Path, more: tuple[str, ...], said: str
) -> None:
    assert said in robin("plan", *scores(data, *more), cwd=tmp_path, exits=2).stderr
