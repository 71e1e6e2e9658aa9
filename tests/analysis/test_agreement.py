"""How far scores and human ratings agree, against scipy's own coefficients and bootstrap."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.analysis.agreement import agreement, off_scale, resamples_for
from robin_cli.model.records import Scale

COEFFICIENTS: dict[str, Any] = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}


def test_agrees_with_the_textbook_on_correlations_and_their_intervals() -> None:
    rng = np.random.default_rng(1)
    x = rng.integers(0, 5, 60).astype(float)
    y = x + rng.normal(0, 2, 60)
    y[:5] = np.nan
    found = {each.coefficient: each for each in agreement(x, y)}
    both = ~np.isnan(y)
    for name, coefficient in COEFFICIENTS.items():
        told = found[name]
        assert told.value == pytest.approx(coefficient(x[both], y[both]).statistic)
        assert (told.n, told.resamples, told.why) == (55, 1000, "")
        assert told.ci_low < told.value < told.ci_high
    interval = stats.bootstrap(
        (x[both], y[both]),
        lambda a, b, axis: stats.pearsonr(a, b, axis=axis).statistic,
        paired=True,
        method="percentile",
        n_resamples=10_000,
        rng=np.random.default_rng(2),
    ).confidence_interval
    # by chance a bootstrap of 1,000 is some .01 off; the ends of an interval of 90 % would be .04 further in
    assert found["pearson"].ci_low == pytest.approx(interval.low, abs=0.025)
    assert found["pearson"].ci_high == pytest.approx(interval.high, abs=0.025)


def test_states_no_correlation_on_thin_or_constant_data() -> None:
    thin = agreement(np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.0, 3.0]))
    assert all(np.isnan(each.value) and np.isnan(each.ci_low) for each in thin)
    assert [(each.n, each.resamples) for each in thin] == [(2, 0)] * 3
    assert {each.why for each in thin} == {"2 pairs have a score and a human rating; 10 are needed"}
    assert np.isnan(agreement(np.arange(9.0), np.arange(9.0))[0].value)
    assert agreement(np.arange(10.0), np.arange(10.0))[0].value == pytest.approx(1.0)
    for scores, human, said in (
        (np.ones(30), np.arange(30.0), "scores"),
        (np.arange(30.0), np.ones(30), "human ratings"),
    ):
        constant = agreement(scores, human)
        assert all(np.isnan(each.value) for each in constant)
        assert {each.why for each in constant} == {f"all {said} are alike"}


@pytest.mark.parametrize(("apart", "known"), [(1, True), (2, False)])
def test_states_no_interval_where_most_resamples_are_of_pairs_all_alike(apart: int, known: bool) -> None:
    # one score of ten differs: 35 % of the resamples leave it out. If one human rating of another pair does, too: 59 %
    x, y = np.zeros(10), np.zeros(10)
    x[0] = y[apart - 1] = 1.0
    for each in agreement(x, y):
        assert np.isfinite(each.value)
        assert np.isfinite([each.ci_low, each.ci_high]).all() == known
        assert each.why == ("" if known else "too many of the resamples are of pairs that are all alike")


def test_states_values_alone_where_nothing_is_resampled() -> None:
    (pearson, *_) = agreement(np.arange(12.0), np.arange(12.0) ** 2, resamples=0)
    assert pearson.value == pytest.approx(stats.pearsonr(np.arange(12), np.arange(12) ** 2).statistic)
    assert np.isnan([pearson.ci_low, pearson.ci_high]).all()


@pytest.mark.parametrize(("pairs", "times"), [(10, 1000), (5000, 1000), (10_000, 500), (50_000, 100), (1_000_000, 100)])
def test_resamples_less_where_there_are_more_pairs(pairs: int, times: int) -> None:
    assert resamples_for(pairs) == times


def test_says_how_many_human_ratings_are_off_the_scale() -> None:
    human = np.array([np.nan, 1, 7, 0.5, 7.5, 4])
    assert off_scale(human, Scale(1, 7)) == "2 of 5 human ratings are off the scale 1-7 (they go from 0.5 to 7.5)"
    assert off_scale(np.array([1.0, 7, np.nan]), Scale(1, 7)) == ""
