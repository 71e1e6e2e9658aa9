"""robin simulate on recorded verdicts."""

from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import ROOT, robin

VOTES = ROOT / "configs" / "demo" / "votes.parquet"
RATINGS = ROOT / "configs" / "demo" / "ratings.parquet"
COLUMNS = [
    "attribute",
    "scheduler",
    "budget",
    "what",
    "asked_mean",
    "calls_mean",
    "wrong_mean",
    "wrong_sem",
    "any_mean",
    "order_effect_mean",
    "runs",
]


def simulated(cwd: Path, *flags: object) -> tuple[pd.DataFrame, str]:
    done = robin("simulate", VOTES, "--pairwise", *map(str, flags), cwd=cwd)
    assert done.returncode == 0, done.stderr
    return pd.read_csv(io.StringIO(done.stdout)), done.stderr


def test_compares_rankings_with_those_of_an_even_spread(tmp_path: Path) -> None:
    table, said = simulated(tmp_path, "--budget", "200,400", "--runs", "40")
    assert list(table.columns) == COLUMNS
    assert list(zip(table["scheduler"], table["budget"], strict=True)) == [
        (name, budget) for name in ("uniform", "tournament") for budget in (200, 400)
    ]
    assert set(table["what"]) == {"couples of systems"}
    assert table["asked_mean"].round(2).tolist()[:2] == [0.17, 0.33]
    assert (table["wrong_mean"] < 0.1).all()
    assert "votes · tournament at 200: " in said


def test_simulates_the_best_responses_and_single_preferences(tmp_path: Path) -> None:
    best, _ = simulated(tmp_path, "--decide", "best", "--budget", "900", "--runs", "3", "--limit", "90")
    assert best["scheduler"].tolist() == ["uniform", "duels"]
    assert set(best["what"]) == {"prompts"}
    single, _ = simulated(
        tmp_path, "--budget", "40", "--runs", "3", "--limit", "1", "--schedulers", "uniform,preferences"
    )
    assert set(single["what"]) == {"comparisons"}
    assert (single["calls_mean"] == 40).all()


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((VOTES, "--budget", "100"), "add --pairwise"),
        ((RATINGS, "--pairwise", "--budget", "100"), "holds no verdicts"),
        ((VOTES, "--pairwise", "--budget", "1"), "asks no comparison in both orders"),
        ((VOTES, "--pairwise", "--budget", "100", "--schedulers", "robin"), "has schedulers of its own"),
        ((VOTES, "--pairwise", "--budget", "100", "--scale", "0-2"), "not with --scale"),
        ((VOTES, "--pairwise", "--budget", "100", "--decide", "score>=3"), "--decide best"),
        ((VOTES, "--pairwise", "--decide", "best", "--budget", "100", "--margin", "1"), "below 0.5"),
        ((VOTES, "--pairwise", "--budget", "100", "--attribute", "me"), "no judge in"),
    ],
)
def test_refuses_what_cannot_be_simulated_of_verdicts(tmp_path: Path, flags: tuple[object, ...], said: str) -> None:
    done = robin("simulate", *map(str, flags), cwd=tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
