"""How many decisions are likely wrong, and how decisions came in: against definitions, and against the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.task import Task
from robin_cli.stats.curve import likely_wrong_curve
from robin_cli.stats.decided import decide
from robin_cli.stats.level_counts import LevelCounts, counts_by_scale
from robin_cli.stats.likely_wrong import DRAWS, likely_wrong

FIVE = Scale(0, 4)


def task_of(
    decide: str, pairs: int, *attributes: str, judges: int = 1, group: list[int] | None = None
) -> Task:
    names = attributes or ("a",)
    space = ArmSpace(
        [f"p{k}" for k in range(pairs)],
        names,
        [f"j{k}" for k in range(judges)],
        [FIVE] * len(names),
    )
    asked = decision_of(decide, names, space.scales, margin=0.1, error_rate=0.05)
    return Task(asked, space, None if group is None else np.array(group))


def arms_of(ratings: Sequence[Sequence[float]]) -> WritableArms:
    arms = WritableArms(len(ratings))
    for arm, each in enumerate(ratings):
        for rating in each:
            arms.add_rating(arm, rating)
    return arms


def chances_of(task: Task, arms: WritableArms) -> FloatArray:
    return likely_wrong(task, arms.columns.sums, arms.columns.is_retired)


def moments_of(
    ratings: Sequence[Sequence[float]],
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The means, standard errors and degrees of freedom of arms on one scale of five levels, by the definition."""
    n = np.array([len(each) for each in ratings])
    squares = np.array([n[k] * np.var(each) for k, each in enumerate(ratings)])
    pooled = (squares.sum() + 4 * (4 / 9) ** 2) / ((n - 1).sum() + 4)
    return (
        np.array([np.mean(each) for each in ratings]),
        np.sqrt((squares + 4 * pooled) / (n + 3) / n),
        n + 3.0,
    )


def test_a_side_is_likely_wrong_by_the_tail_beyond_the_margin() -> None:
    ratings: list[list[float]] = [[3.5, 4, 3], [2, 3, 2, 1]]  # between the levels
    mean, error, freedom = moments_of(ratings)
    chances = chances_of(task_of("a>=3", 3), arms_of([*ratings, []]))
    for arm in (0, 1):
        tail = stats.t(freedom[arm]).sf((abs(mean[arm] - 3) + 0.1) / error[arm])
        assert chances[arm] == pytest.approx(tail)
    assert chances[2] == 0.5, "nothing is known of it yet"


def test_a_pair_of_several_thresholds_is_likely_wrong_by_all_of_them() -> None:
    of_a: list[list[float]] = [[3, 4, 3.5], [3, 3, 4, 4]]
    of_b: list[list[float]] = [[1, 1.5], [2, 3, 3]]
    mean, error, freedom = (
        np.stack(each, axis=1) for each in zip(moments_of(of_a), moments_of(of_b), strict=True)
    )
    tail = stats.t(freedom)
    hold = tail.cdf((mean * [1, -1] - [3, -2] + 0.1) / error).prod(axis=1)
    by_more = tail.cdf((mean * [1, -1] - [3, -2] - 0.1) / error).prod(axis=1)
    arms = arms_of([of_a[0], of_b[0], of_a[1], of_b[1]])
    chances = chances_of(task_of("a>=3,b<=2", 2, "a", "b"), arms)
    np.testing.assert_allclose(chances, [1 - hold[0], by_more[1]])


def test_a_best_is_likely_wrong_if_any_rival_may_be_better() -> None:
    ratings: list[list[float]] = [[4, 4, 3], [3, 4, 2.5], [0, 1], [3, 2, 4, 4], [2]]
    mean, error, _ = moments_of(ratings)
    spread = np.sqrt(4 / 3) * error
    # beyond the scale's end it is at the end, and nobody is better
    lead = np.linspace(-2, 4, 20_001)
    density = stats.norm(mean[0], spread[0]).pdf(lead)
    ahead = lead[:, None] + 0.1
    below = np.where(ahead >= 4, 1.0, stats.norm(mean[1:4], spread[1:4]).cdf(ahead))
    exact = np.trapezoid(density * (1 - below.prod(axis=1)), lead)
    chances = chances_of(task_of("best", 5, group=[0, 0, 0, 0, 1]), arms_of(ratings))
    assert len(chances) == 1, "a group of one decides nothing"
    assert chances[0] == pytest.approx(exact, abs=3 * np.sqrt(exact * (1 - exact) / DRAWS))
    assert chances[0] > 1.3 * stats.norm.sf(
        (mean[0] - mean[1] + 0.1) / np.hypot(spread[0], spread[1])
    ), "more than of the nearest rival alone"


def test_an_unrated_rival_may_be_anything_until_it_is_given_up() -> None:
    task, arms = task_of("best", 3, group=[0, 0, 0]), arms_of([[4, 4, 3], [1, 0, 1], []])
    before = chances_of(task, arms)[0]
    arms.add_failure(2, permanent=True)
    assert before > 0.05
    assert chances_of(task, arms)[0] < 0.01
    assert np.isnan(chances_of(task_of("a>=3", 3), arms)[2])


@pytest.mark.parametrize("per", [3, 10])
@pytest.mark.parametrize("asked", ["a>=3", "best"])
def test_says_about_how_many_decisions_are_wrong(asked: str, per: int) -> None:
    """Of a noisy judge, so that at 3 ratings a pair about 4 of 10 are wrong of those said to be the best."""
    rng = np.random.default_rng(5)
    pairs = 4_000
    task = task_of(
        asked, pairs, group=None if asked != "best" else (np.arange(pairs) // 4).tolist()
    )
    chance = rng.dirichlet([0.4, 0.5, 0.8, 1.2, 1.0], pairs)
    truth = chance @ np.arange(5)
    ratings = (rng.random((pairs, per, 1)) > chance.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    mean = ratings.mean(axis=1)
    if asked == "best":
        best = truth.reshape(-1, 4)
        lead = mean.reshape(-1, 4).argmax(axis=1)
        wrong = best[np.arange(len(best)), lead] < best.max(axis=1) - 0.1
    else:
        wrong = np.where(mean >= 3, truth < 3 - 0.1, truth >= 3 + 0.1)
    assert 0.7 < chances_of(task, arms_of(ratings.tolist())).mean() / wrong.mean() < 1.6


def run_of(task: Task, arm: list[int], rating: list[int]) -> Any:
    """What a run in memory has of these ratings, in this order."""
    judgments = pa.table(
        {
            "rating": pa.array(rating, pa.int32()),
            "expected_rating": pa.nulls(len(arm), pa.float64()),
            "status": ["ok"] * len(arm),
        }
    )
    fold = SimpleNamespace(arms=WritableArms(len(task.space)).columns)  # none of which is given up
    return SimpleNamespace(
        space=task.space, arm=np.array(arm, dtype=np.int64), judgments=judgments, fold=fold
    )


TASKS = {
    "a threshold": task_of("a>=3", 40),
    "two attributes": task_of("a>=3,b<=2", 20, "a", "b"),
    "a panel": task_of("a>=3", 20, judges=2),
    "the best": task_of("best", 40, group=[k // 4 for k in range(40)]),
    "the best by a panel, beside one alone": task_of(
        "best", 21, judges=2, group=[k // 4 for k in range(21)]
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_curve_ends_where_the_run_does_and_an_even_run_is_its_own_even_spread(
    name: str,
) -> None:
    task, rng = TASKS[name], np.random.default_rng(1)
    level = task.space.pair % 4
    arm = np.tile(np.arange(len(task.space)), 80)
    rating = level[arm] + rng.integers(0, 2, len(arm))
    run = run_of(task, arm.tolist(), rating.tolist())
    curve = likely_wrong_curve(run, task)

    arms = WritableArms(len(task.space))
    for each, value in zip(arm.tolist(), rating.tolist(), strict=True):
        arms.add_rating(each, value)
    counts = LevelCounts.by(task.space, counts_by_scale(task.space, run.arm, run.judgments))
    found = decide(task, lambda: counts, arms.columns)
    assert curve.calls[-1] == len(arm)
    assert curve.run[0] > curve.run[-1]
    assert curve.run[-1] == pytest.approx(found.share_wrong) == pytest.approx(curve.even[-1])


def test_the_curve_shows_what_an_even_spread_would_have_left_wrong() -> None:
    """One pair out of ten is near the threshold, and got most of the calls."""
    task = task_of("a>=3", 10)
    rng = np.random.default_rng(2)
    arm = np.concatenate([np.tile(np.arange(10), 14), np.zeros(1_000, dtype=np.int64)])
    near = rng.choice([2, 3, 4], len(arm), p=[0.1, 0.5, 0.4])
    rating = np.where(arm == 0, near, np.where(arm % 2, 4, 1))
    curve = likely_wrong_curve(run_of(task, arm.tolist(), rating.tolist()), task)
    assert curve.run[0] > curve.run[-1]
    assert curve.run[7] < 0.1 * curve.even[7]
    assert np.abs(np.diff(curve.run[-4:])).max() < 0.02, "without a jump at the end"
    few = replace(task, decision=decision_of("a>=3", ("a",), [FIVE], margin=0.01, error_rate=0.05))
    assert len(likely_wrong_curve(run_of(few, [], []), few).calls) == 0
