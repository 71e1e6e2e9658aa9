"""How many leanings are likely wrong, and how decisions came in: against definitions, and against the truth."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from robin_cli.analysis.curve import decision_curve_of
from robin_cli.analysis.decided import decide, doubts, leanings, share_of
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import moderated
from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.storage.fold import counts_by_scale

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


def arms_of(ratings: list[list[int]]) -> WritableArms:
    arms = WritableArms(len(ratings))
    for arm, each in enumerate(ratings):
        for rating in each:
            arms.add_rating(arm, rating)
    return arms


def doubts_of(
    task: Task, arms: WritableArms
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """The doubts, and the means, standard errors and degrees of freedom of all arms."""
    sums = (arms.counts, arms.totals, arms.totals_sq)
    with np.errstate(invalid="ignore"):
        means = arms.totals / arms.counts
    rows = task.space.by_rater(means).mean(axis=1)
    found = moderated(task.space, *sums)
    return (
        doubts(task, rows, leanings(task, rows), sums, arms.retired_mask),
        means,
        np.sqrt(found.error_variance),
        found.freedom,
    )


def test_doubts_a_side_by_the_tail_beyond_the_margin() -> None:
    doubt, mean, error, freedom = doubts_of(
        task_of("a>=3", 3), arms_of([[3, 4, 3], [2, 3, 2, 1], []])
    )
    for arm in (0, 1):
        tail = stats.t(freedom[arm]).sf((abs(mean[arm] - 3) + 0.1) / error[arm])
        assert doubt[arm] == pytest.approx(tail)
    assert np.isnan(doubt[2])


def test_doubts_a_pair_of_several_thresholds_by_all_of_them() -> None:
    task = task_of("a>=3,b<=2", 2, "a", "b")
    doubt, mean, error, freedom = doubts_of(
        task, arms_of([[3, 4, 3], [1, 2], [3, 3, 4, 4], [2, 3, 3]])
    )
    tail = [stats.t(each) for each in freedom]
    kept = 1 - tail[0].cdf((mean[0] - 3 + 0.1) / error[0]) * tail[1].cdf(
        (2 - mean[1] + 0.1) / error[1]
    )
    dropped = tail[2].cdf((mean[2] - 3 - 0.1) / error[2]) * tail[3].cdf(
        (2 - mean[3] - 0.1) / error[3]
    )
    np.testing.assert_allclose(doubt, [kept, kept, dropped, dropped])


def test_doubts_the_best_by_its_nearest_rival() -> None:
    task = task_of("best", 4, group=[0, 0, 0, 1])
    doubt, mean, error, freedom = doubts_of(task, arms_of([[4, 4, 3], [3, 4, 3], [0, 1], [2]]))
    both = np.hypot(error[0], error[1])
    free = both**4 / (error[0] ** 4 / freedom[0] + error[1] ** 4 / freedom[1])
    tail = stats.t(free).sf((mean[0] - mean[1] + 0.1) / both)
    np.testing.assert_allclose(doubt, [tail, tail, tail, np.nan])


def test_does_not_know_how_sure_a_best_is_with_an_unrated_rival() -> None:
    doubt, *_ = doubts_of(task_of("best", 3, group=[0, 0, 0]), arms_of([[4, 4, 3], [3, 4, 3], []]))
    assert np.isnan(doubt).all()


@pytest.mark.parametrize(("asked", "per"), [("a>=3", 3), ("a>=3", 10), ("best", 3), ("best", 10)])
def test_says_about_how_many_leanings_are_wrong(asked: str, per: int) -> None:
    """Of a noisy judge, so that at 3 ratings a pair about 4 of 10 are wrong of those said to be the best."""
    rng = np.random.default_rng(5)
    pairs = 4_000
    task = task_of(
        asked, pairs, group=None if asked != "best" else (np.arange(pairs) // 4).tolist()
    )
    chance = rng.dirichlet([0.4, 0.5, 0.8, 1.2, 1.0], pairs)
    truth = chance @ np.arange(5)
    ratings = (rng.random((pairs, per, 1)) > chance.cumsum(axis=1)[:, None, :-1]).sum(axis=2)
    doubt, mean, *_ = doubts_of(task, arms_of(ratings.tolist()))
    if asked == "best":
        best = truth.reshape(-1, 4)
        lead = mean.reshape(-1, 4).argmax(axis=1)
        wrong = best[np.arange(len(best)), lead] < best.max(axis=1) - 0.1
    else:
        wrong = np.where(mean >= 3, truth < 3 - 0.1, truth >= 3 + 0.1)
    assert 0.6 < share_of(doubt) / wrong.mean() < 1.7


def run_of(task: Task, arm: list[int], rating: list[int]) -> Any:
    """What a run in memory has of these ratings, in this order."""
    judgments = pa.table(
        {
            "rating": pa.array(rating, pa.int32()),
            "expected_rating": pa.nulls(len(arm), pa.float64()),
            "status": ["ok"] * len(arm),
        }
    )
    fold = SimpleNamespace(arms=WritableArms(len(task.space)))  # none of which is given up
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
    curve = decision_curve_of(run, task)

    arms = WritableArms(len(task.space))
    for each, value in zip(arm.tolist(), rating.tolist(), strict=True):
        arms.add_rating(each, value)
    counts = LevelCounts.by(task.space, counts_by_scale(task.space, run.arm, run.judgments))
    found = decide(task, counts, arms)
    assert curve.calls[-1] == len(arm)
    assert curve.certified[0] < curve.certified[-1]
    assert curve.certified[-1] == found.certified[found.first].mean() == curve.even_certified[-1]
    assert (
        curve.doubt[-1] == pytest.approx(found.likely_wrong) == pytest.approx(curve.even_doubt[-1])
    )


def test_the_curve_shows_what_an_even_spread_would_have_left_open() -> None:
    """One pair out of ten is near the threshold, and got most of the calls."""
    task = task_of("a>=3", 10)
    rng = np.random.default_rng(2)
    arm = np.concatenate([np.tile(np.arange(10), 14), np.zeros(1_000, dtype=np.int64)])
    near = rng.choice([2, 3, 4], len(arm), p=[0.1, 0.5, 0.4])
    rating = np.where(arm == 0, near, np.where(arm % 2, 4, 1))
    curve = decision_curve_of(run_of(task, arm.tolist(), rating.tolist()), task)
    assert curve.certified[-1] == 1.0
    assert curve.certified[-1] > curve.certified[0]
    few = replace(task, decision=decision_of("a>=3", ("a",), [FIVE], margin=0.01, error_rate=0.05))
    assert len(decision_curve_of(run_of(few, [], []), few).calls) == 0
