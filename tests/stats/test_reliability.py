"""How far a judge agrees with itself, against the analysis of variance, and against what it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.stats.agreement import Agreement, reliability

PAIRS, EACH = 60, 6


def by_name(found: list[Agreement]) -> dict[str, Agreement]:
    return {each.coefficient: each for each in found}


def rated(seed: int, noise: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ratings of 60 pairs, six each."""
    rng = np.random.default_rng(seed)
    return rng.normal(2, 1, (PAIRS, 1)) + rng.normal(0, noise, (PAIRS, EACH))


def of_one(ratings: list[np.ndarray[Any, Any]]) -> tuple[Any, Any, Any]:
    """Scores, numbers of ratings and variances, of ratings of each pair."""
    variances = [[each.var(ddof=1) if len(each) > 1 else np.nan] for each in ratings]
    return (
        np.array([each.mean() for each in ratings]),
        np.array([[len(each)] for each in ratings]),
        np.array(variances),
    )


def test_agrees_with_the_analysis_of_variance() -> None:
    ratings = rated(1, 1.5)
    found = by_name(reliability(*of_one(list(ratings)), np.arange(PAIRS) // 2))
    # one-way, from sums of squares
    between = EACH * ((ratings.mean(axis=1) - ratings.mean()) ** 2).sum() / (PAIRS - 1)
    within = ((ratings - ratings.mean(axis=1, keepdims=True)) ** 2).sum() / (PAIRS * (EACH - 1))
    assert found["icc"].value == pytest.approx((between - within) / (between + (EACH - 1) * within))
    assert found["reliability"].value == pytest.approx((between - within) / between)
    assert found["ceiling"].value == pytest.approx(np.sqrt(found["reliability"].value))
    for told in found.values():
        assert (told.n, told.n_prompts, told.resamples, told.why) == (60, 30, 1000, "")
        assert told.ci_low < told.value < told.ci_high


def test_draws_the_variance_of_each_pair_toward_the_mean_of_those_asked_twice() -> None:
    rng = np.random.default_rng(3)
    counts = [1] * 20 + [2] * 20 + [9] * 20
    ratings = [rng.normal(2, 1) + rng.normal(0, 0.2 * count, count) for count in counts]
    found = by_name(reliability(*of_one(ratings), np.arange(60), resamples=0))
    squares = [float(((each - each.mean()) ** 2).sum()) for each in ratings]
    typical = np.mean(
        [square / (count - 1) for square, count in zip(squares, counts, strict=True) if count > 1]
    )
    within = [
        (square + 4 * typical) / (count + 3) for square, count in zip(squares, counts, strict=True)
    ]
    total = np.var([each.mean() for each in ratings], ddof=1)
    between = total - np.mean([each / count for each, count in zip(within, counts, strict=True)])
    assert 0 < between < 0.95 * total
    assert found["reliability"].value == pytest.approx(between / total)
    assert found["icc"].value == pytest.approx(between / (between + np.mean(within)))


def test_says_what_asking_as_often_again_would_correlate_with() -> None:
    # unequal numbers of ratings, unequal noise, many pairs: the scores of two runs correlate as the one run says
    rng = np.random.default_rng(2)
    pairs = 20_000
    truth, noise, n = (
        rng.normal(0, 1, pairs),
        rng.uniform(0.2, 3, pairs),
        rng.integers(1, 12, pairs),
    )
    first, second = (
        [
            mean + spread * rng.normal(0, 1, count)
            for mean, spread, count in zip(truth, noise, n, strict=True)
        ]
        for _ in range(2)
    )
    scores, counts, variances = of_one(first)
    found = by_name(reliability(scores, counts, variances, np.arange(pairs), resamples=0))
    again = [each.mean() for each in second]
    assert found["reliability"].value == pytest.approx(np.corrcoef(scores, again)[0, 1], abs=0.02)
    assert found["ceiling"].value == pytest.approx(np.corrcoef(scores, truth)[0, 1], abs=0.02)
    one = np.corrcoef([each[0] for each in first], [each[0] for each in second])[0, 1]
    assert found["icc"].value == pytest.approx(one, abs=0.02)


def test_takes_the_noise_anew_in_each_resample() -> None:
    # as the one way of doing it spelt out; with the noise held fixed the interval would be a third as wide
    rng = np.random.default_rng(5)
    counts = np.array([2] * 40 + [1] * 260)
    ratings = [rng.normal(2, 1) + rng.normal(0, 0.9, count) for count in counts]
    scores, n, variances = of_one(ratings)
    told = by_name(reliability(scores, n, variances, np.arange(300)))["reliability"]
    drawn: list[float] = []
    fixed: list[float] = []
    typical = np.nanmean(variances)
    for _ in range(1000):
        rows = rng.integers(300, size=300)
        for found, mine in ((drawn, np.nanmean(variances[rows])), (fixed, typical)):
            within = (np.nan_to_num(variances[rows]) * (n[rows] - 1) + 4 * mine) / (n[rows] + 3)
            found.append(1 - (within / n[rows]).mean() / scores[rows].var(ddof=1))
    # 40 prompts say how noisy the judge is
    tail = stats.norm.cdf(-np.sqrt(40 / 39) * stats.t.ppf(0.975, 39))
    low, high = np.quantile(drawn, [tail, 1 - tail])
    assert (told.ci_low, told.ci_high) == pytest.approx((low, high), abs=0.04)
    assert told.ci_high - told.ci_low > 2 * np.ptp(np.quantile(fixed, [0.025, 0.975]))


def test_states_nothing_where_too_few_pairs_were_asked_twice() -> None:
    for counts, why in (
        ([1] * 200, "0 further ratings of pairs already rated, 30 are needed"),
        ([2] + [1] * 199, "1 further rating of pairs already rated, 30 are needed"),
        ([2] * 29 + [1] * 171, "29 further ratings of pairs already rated, 30 are needed"),
        ([2] * 30 + [1] * 170, ""),
        ([9] * 20 + [1] * 180, ""),
    ):
        rng = np.random.default_rng(6)
        ratings = [rng.normal(2, 1) + rng.normal(0, 0.5, count) for count in counts]
        found = reliability(*of_one(ratings), np.arange(200))
        few = "too few pairs were asked twice to know the judge's noise: "
        assert {each.why for each in found} == {few + why if why else ""}, (counts, why)
        assert {bool(np.isnan([each.value, each.ci_low]).all()) for each in found} == {bool(why)}, (
            counts,
            why,
        )


def test_holds_what_a_retest_brings_where_few_pairs_were_asked_twice() -> None:
    # the noise of 400 pairs, 40 of them asked twice: told right on average, and inside the interval
    held, values = [], []
    for seed in range(30):
        rng = np.random.default_rng([7, seed])
        truth, counts = rng.normal(2, 0.8, 400), np.array([2] * 40 + [1] * 360)
        ratings = [
            mean + rng.normal(0, 0.7, count) for mean, count in zip(truth, counts, strict=True)
        ]
        told = reliability(*of_one(ratings), np.arange(400), resamples=100)[0]
        expected = 0.64 / (0.64 + 0.49 * (0.9 + 0.1 / 2))
        held.append(told.ci_low <= expected <= told.ci_high)
        values.append(told.value)
    assert np.mean(values) == pytest.approx(0.579, abs=0.03)
    assert np.mean(held) > 0.85


def test_takes_pure_noise_for_no_reliability() -> None:
    scores, pairs = np.tile([1.0, 2.0], 20), np.arange(40)
    found = reliability(scores, np.full((40, 1), 2), np.full((40, 1), 2.0), pairs)
    assert [each.value for each in found] == [0] * 3
    assert np.isnan([(each.ci_low, each.ci_high) for each in found]).all()
    assert {each.why for each in found} == {
        "noise alone explains how these scores differ, so the variance of the pairs themselves is unknown"
    }


def test_states_no_interval_where_no_two_ratings_of_a_pair_differ() -> None:
    found = reliability(np.arange(40.0), np.full((40, 1), 2), np.zeros((40, 1)), np.arange(40))
    assert [each.value for each in found] == [1.0] * 3
    assert np.isnan([[each.ci_low, each.ci_high] for each in found]).all()
    assert {each.why for each in found} == {
        "no two ratings of a pair differ, so their noise is unknown"
    }


def test_adds_the_noise_of_the_judges_of_a_panel_and_leaves_out_what_has_no_score() -> None:
    rng = np.random.default_rng(8)
    scores = np.append(np.arange(40.0), [np.nan] * 3)
    n, variances = np.tile([2, 5], (43, 1)), rng.uniform(1, 9, (43, 2))
    found = reliability(scores, n, variances, np.arange(43), resamples=0)
    total = np.arange(40).var(ddof=1)
    noise = (variances[:40, 0].mean() / 2 + variances[:40, 1].mean() / 5) / 4
    assert {each.coefficient: each.value for each in found} == pytest.approx(
        {"reliability": (total - noise) / total, "ceiling": np.sqrt((total - noise) / total)}
    )
    assert {(each.n, each.n_prompts) for each in found} == {(40, 40)}
    n[:, 1], variances[:, 1] = 1, np.nan
    few = "too few pairs were asked twice to know the noise of each judge: 0 further ratings of pairs already rated"
    assert {each.why for each in reliability(scores, n, variances, np.arange(43))} == {
        f"{few}, 30 are needed"
    }


def test_states_nothing_on_few_prompts_or_scores_all_alike() -> None:
    twice, ones = np.full((40, 1), 2), np.ones((40, 1))
    no = "no interval below 20 prompts"
    few = reliability(np.arange(40.0), twice, ones, np.arange(40) % 19)
    assert {each.why for each in few} == {f"{no}; this run has 19"}
    once = reliability(np.arange(40.0), np.r_[twice[:19] + 1, twice[19:] - 1], ones, np.arange(40))
    assert {each.why for each in once} == {
        f"{no} with a pair that was asked twice; this run has 19"
    }
    assert all(np.isfinite(each.value) and np.isnan(each.ci_low) for each in (*few, *once))
    alike = reliability(np.ones(40), twice, ones, np.arange(40))
    assert {each.why for each in alike} == {"all scores are alike"}
    assert all(np.isnan([each.value, each.ci_low]).all() for each in alike)
