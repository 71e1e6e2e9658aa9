"""A cheap judge asks everything once, and a dear one is asked where the decision is open."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import replaying, robin, write_pairs

PAIRS, START, CALLS = 32, 20, 80
CHEAP, DEAR = "replay:cheap", "replay:dear"


@pytest.fixture(scope="module")
def two_judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A replay of two judges, one of whom flattens what the other says, and varies more."""
    rng = np.random.default_rng(2)
    quality = rng.normal(2, 1, PAIRS)
    rows = [
        {
            "pair_id": f"p{k}",
            "attribute": name,
            "rating": int(np.clip(round(rng.normal(a + b * q, sd)), 0, 4)),
        }
        for k, q in enumerate(quality)
        for name, a, b, sd in (("cheap", 0.8, 0.8, 0.6), ("dear", 0.0, 1.0, 0.3))
        for _ in range(30)
    ]
    pool = tmp_path_factory.mktemp("pool") / "ratings.csv"
    pd.DataFrame(rows).to_csv(pool, index=False)
    with replaying(pool) as url:
        yield url


def judged(url: str, data: Path, *more: str) -> list[str | Path]:
    return [
        *(
            "judge",
            data,
            "-a",
            "helpfulness",
            "--base-url",
            url,
            "--run",
            "r",
            "--decide",
            "score>=2.5",
            "--seed",
            "1",
        ),
        *("--model", CHEAP, "--settle", DEAR, "--concurrency", "1", *more),
    ]


def test_asks_the_dear_judge_at_random_and_where_a_decision_is_open(
    tmp_path: Path, two_judges: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    done = robin(*judged(two_judges, data, "-b", str(CALLS)), cwd=tmp_path, exits=0)

    scores = pd.read_csv(io.StringIO(done.stdout)).set_index("pair_id")
    judgments = pd.read_parquet(tmp_path / "r" / "judgments")
    asked = {name: mine.groupby("pair_id").size() for name, mine in judgments.groupby("judge")}
    assert asked[CHEAP].tolist() == [1] * PAIRS
    first, later = judgments[: PAIRS + START], judgments[PAIRS + START :]
    assert (first["judge"] == DEAR).sum() == START
    assert set(later["judge"]) == {DEAR}
    each = pd.read_csv(
        io.StringIO(robin("export", "r", "--what", "judge-scores", cwd=tmp_path).stdout)
    )
    means = each.pivot(index="pair_id", columns="judge", values="score").loc[scores.index]
    unasked = scores["n"] == 0
    assert 0 < unasked.sum() == PAIRS - len(asked[DEAR])
    distance = (scores["score"] - 2.5).abs()
    assert distance[later["pair_id"]].mean() < 0.7 * distance[unasked].mean()
    line = np.polyfit(
        means[CHEAP][unasked], scores["score"][unasked], 1
    )  # what is predicted lies on one line
    inside = unasked & scores["score"].between(0.01, 3.99)
    np.testing.assert_allclose(
        np.polyval(line, means[CHEAP][inside]), scores["score"][inside], atol=0.2
    )
    drawn = ~unasked & (scores["n"] > 2)
    assert ((scores["score"] - means[DEAR]).abs()[drawn] < 0.5).all()
    assert not scores["certified"][unasked].any()

    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert [judge["spent"] for judge in status["judges"]] == [PAIRS, CALLS - PAIRS]
    assert f"; {DEAR} asked about {len(asked[DEAR])} of {PAIRS} scores" in status["answer"][0]


def test_spends_one_budget_of_money_over_both(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    prices = ("--price-in", "1", "--price-in", "4", "--price-out", "0", "--price-out", "0")
    robin(*judged(two_judges, data, "--budget-usd", "0.08", *prices), cwd=tmp_path, exits=0)
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert 0.08 - 0.0068 <= status["cost_usd"] <= 0.08  # less than a call is left
    assert status["judges"][0]["spent"] == PAIRS


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ((), "--settle: is for --decide, which is not given"),
        (
            ("--decide", "score>=2", "--model", "third"),
            "it needs one other judge; name a single --model",
        ),
        (
            ("--decide", "score>=2", "--scheduler", "uniform"),
            "--settle: has schedulers of its own; leave --scheduler",
        ),
        (
            ("--decide", "score>=2", "--batch"),
            "--settle: not with --batch; leave one of the two out",
        ),
        (
            ("--decide", "score>=2", "--samples-per-request", "2"),
            "--settle: not with --samples-per-request",
        ),
        (
            ("--decide", "score>=2", "-b", "51"),
            "is asked about everything once, and dear about 20 pairs at random",
        ),
    ],
)
def test_refuses_what_goes_not_with_a_judge_that_settles(
    tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    judge = (
        "judge",
        data,
        "-a",
        "helpfulness",
        "--base-url",
        "http://127.0.0.1:9",
        "--model",
        "m",
        "--settle",
        "dear",
    )
    budget = () if "-b" in more else ("-b", "100")
    done = robin(*judge, *budget, *more, cwd=tmp_path, exits=2)
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "runs").exists()


def test_plans_by_money_whether_to_take_both(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    plan = (
        "plan",
        data,
        "-a",
        "helpfulness",
        "--model",
        "cheap",
        "--settle",
        "dear",
        "--decide",
        "score>=3",
        "--margin",
        "0.9",
    )
    prices = ("--price-in", "0", "--price-in", "0", "--price-out", "5", "--price-out", "50")
    said = " ".join(
        robin(*plan, *prices, "--budget-usd", "0.3", cwd=tmp_path, exits=0).stdout.split()
    )
    assert "of the decisions are wrong by both judges," in said
    assert "by dear alone: " in said
