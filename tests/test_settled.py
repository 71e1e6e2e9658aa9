"""Settled in process says what a run of the same ratings says."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from robin_cli import Pair, RobinError, Settled, open_run
from robin_cli.run.reader import RunReader
from robin_cli.stats.repeats import FEWEST
from robin_cli.stats.worst_error import worst_error
from tests.run.test_store import SETTINGS
from tests.show.tables import make_run

IDS = [f"pair-{k}" for k in range(40)]


def drawn(*, varies: bool = True) -> list[list[int | None]]:
    """Ratings on 0-4 of a judge that wavers, the more often the later a pair comes."""
    rng = np.random.default_rng(7)
    means = rng.uniform(0, 4, len(IDS))
    noise = rng.normal(0, 0.8 * varies, (len(IDS), 5))
    levels = (means[:, None] + noise).round().clip(0, 4).astype(int).tolist()
    return [row[: 1 + k % 5] for k, row in enumerate(levels)]


def settled_of(ratings: list[list[int | None]], goal: str | float, **how: Any) -> Settled:
    """The ratings in the order of a run: first ratings first."""
    settled = Settled(goal, (0, 4), **how)
    for draw in range(5):
        for pair_id, row in zip(IDS, ratings, strict=True):
            if draw < len(row):
                settled.add(pair_id, row[draw] or 0)
    return settled


def run_of(folder: Path, ratings: list[list[int | None]]) -> RunReader:
    pairs = [Pair(pair_id, "p", "r") for pair_id in IDS]
    settings = {**SETTINGS, "decide": "score>=2"}
    return make_run(folder / "r", pairs, ratings, settings=settings)


@pytest.mark.parametrize("wrong", [0.01, 0.05, 0.2])
def test_settles_and_decides_as_a_run_of_the_same_ratings(tmp_path: Path, wrong: float) -> None:
    ratings = drawn()
    scores = open_run(run_of(tmp_path, ratings).path).scores()
    settled = settled_of(ratings, "score>=2", wrong=wrong)

    assert [settled.decision(pair_id) for pair_id in IDS] == list(scores["decision"])
    is_settled = (scores["n"] >= 2) & (scores["likely_wrong"] <= wrong)
    assert [settled.is_settled(pair_id) for pair_id in IDS] == list(is_settled)
    assert 0 < is_settled.sum() < len(IDS)
    kept = int((scores["decision"] == "keep").sum())
    assert settled.summary() == {
        "ids": 40, "ratings": 120, "settled": is_settled.sum(), "keep": kept, "drop": 40 - kept,
        "undecided": 0, "likely_wrong": pytest.approx(scores["likely_wrong"].mean(), rel=1e-12),
    }  # fmt: skip


def test_settles_scores_by_the_expected_error_of_a_run_of_each(tmp_path: Path) -> None:
    ratings = drawn()
    run = run_of(tmp_path, ratings)
    sums, every = run.fold.arms.sums, np.arange(len(IDS))
    errors = np.array([worst_error(run.space, sums, every == k) for k in every])
    goal = float(np.median(errors))
    settled = settled_of(ratings, goal)

    expected = (errors <= goal) & (sums.n >= 2)
    assert [settled.is_settled(pair_id) for pair_id in IDS] == expected.tolist()
    assert 0 < expected.sum() < len(IDS)
    worst = worst_error(run.space, sums, every >= 0)
    counts = {"ids": 40, "ratings": 120, "settled": expected.sum()}
    assert settled.summary() == {**counts, "worst_error": worst}
    assert settled.decision("pair-0") == ""


def test_one_rating_is_enough_of_a_judge_that_repeats_itself() -> None:
    steady = drawn(varies=False)
    settled = settled_of([row[:1] for row in steady], "score>=2")
    assert settled.summary()["settled"] == 0
    for repeat in range(FEWEST):
        assert not settled.is_settled(IDS[-1])
        settled.add(IDS[0], steady[0][0] or 0)
        assert settled.summary()["ratings"] == len(IDS) + repeat + 1
    assert settled.summary()["settled"] == len(IDS)
    settled.add(IDS[1], 2)  # it gave another one before
    assert not settled.is_settled(IDS[-1])


def test_knows_nothing_before_ratings() -> None:
    settled = Settled("score>=2", (0, 4))
    assert settled.summary() == {"ids": 0, "settled": 0, "ratings": 0}
    assert (settled.is_settled("a"), settled.decision("a")) == (False, "")


def test_takes_ids_of_any_kind_and_ratings_between_levels() -> None:
    settled = Settled("score>=0.5", (0, 1))
    for pair_id in (1, "1", ("a", 1)):
        for rating in (0.75, 0.25, 0.5, 0.5):  # their sum is a whole number
            settled.add(pair_id, rating if pair_id == 1 else 0.95)
    assert [settled.is_settled(pair_id) for pair_id in (1, "1", ("a", 1))] == [False, True, True]
    assert settled.summary()["keep"] == 3


def test_counts_the_ratings_of_threads() -> None:
    settled = Settled(0.5, (1, 5))

    def rate(start: int) -> None:
        for k in range(300):
            settled.add(k, 1 + (k + start) % 5)
            settled.is_settled(k)

    threads = [threading.Thread(target=rate, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (settled.summary()["ids"], settled.summary()["ratings"]) == (300, 1200)


@pytest.mark.parametrize("rating", [0.99, 5.01, float("nan"), float("inf")])
def test_refuses_ratings_outside_the_scale(rating: float) -> None:
    settled = Settled(0.5, (1, 5))
    with pytest.raises(RobinError, match=r"first: the rating .* is outside the scale 1-5"):
        settled.add("first", rating)
    assert settled.summary()["ratings"] == 0


@pytest.mark.parametrize("goal", ["best", "system", "", "a>=2,b>=2", "score", "score>=9"])
def test_refuses_goals_that_are_not_one_threshold(goal: str) -> None:
    with pytest.raises(RobinError, match=r"give one threshold|is not inside the scale"):
        Settled(goal, (1, 5))
