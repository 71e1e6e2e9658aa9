"""How far off the worst score may be, computed another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from robin_cli.analysis.bounds import likely_worst_error, robin_bound, robin_hood_bound
from robin_cli.model.arms import FloatArray

VARIANCES = np.array([0.1, 0.7, 2.5, 0.0, 1.3])


def beyond(t: float, variances: FloatArray, n: FloatArray) -> float:
    """Σ_i P(|error_i| > t), at most, for sub-Gaussian ratings: the sum that the paper's proofs set to δ."""
    varied = variances > 0
    return float((2 * np.exp(-(t**2) * n[varied] / (2 * variances[varied]))).sum())


def test_bounds_robins_error_by_a_union_over_the_arms() -> None:
    share = VARIANCES / VARIANCES.sum()
    for budget, delta in ((105, 0.007), (1005, 0.3)):
        t = robin_bound(VARIANCES, budget, delta)
        # every arm, also one that never varies, has δ/K of what may fail
        assert beyond(t, VARIANCES, share * (budget - 5)) == pytest.approx(delta * 4 / 5)


def test_bounds_robin_hoods_error_with_a_third_of_the_calls_and_half_of_what_may_fail() -> None:
    share = VARIANCES / VARIANCES.sum()
    for budget, delta, warm_up in ((205, 0.007, 20), (1005, 0.3, 150)):
        t = robin_hood_bound(VARIANCES, budget, delta, warm_up)
        assert beyond(t, VARIANCES, share * (budget - 5 * warm_up) / 3) == pytest.approx(delta / 2 * 4 / 5)


def test_states_no_bound_before_the_warm_up_is_over() -> None:
    assert robin_bound(np.ones(10), 10, 0.1) == np.inf
    assert robin_bound(np.ones(10), 11, 0.1) < np.inf
    assert robin_hood_bound(np.ones(10), 200, 0.1, 20) == np.inf
    assert robin_hood_bound(np.ones(10), 201, 0.1, 20) < np.inf
    assert math.isnan(robin_bound(np.array([1.0, np.nan]), 100, 0.1))


def posterior_variance(ratings: list[int], low: int, high: int) -> float:
    """The mean variance over distributions drawn from the Dirichlet posterior under a flat prior of mass 2."""
    levels = np.arange(low, high + 1)
    counts = np.array([ratings.count(level) for level in range(low, high + 1)])
    drawn = np.random.default_rng(1).dirichlet(counts + 2 / len(levels), 200_000)
    return float((drawn @ levels**2 - (drawn @ levels) ** 2).mean())


def test_estimates_the_worst_error_as_the_median_of_the_largest_of_normal_errors() -> None:
    # two scales: errors count in shares of the width
    ratings = [[0, 4, 4, 2], [3, 3], [12, 18, 10, 10, 11]]
    low, high, units = np.array([0.0, 0, 10]), np.array([4.0, 4, 18]), np.array([4.0, 4, 8])
    n, totals, squares = (np.array([sum(x**power for x in each) for each in ratings]) for power in (0, 1, 2))
    variances = [posterior_variance(each, int(a), int(b)) for each, a, b in zip(ratings, low, high, strict=True)]
    errors = np.sqrt(np.array(variances) / n) / units

    told = likely_worst_error(n, totals, squares, (low, high), units)

    drawn = np.abs(np.random.default_rng(2).normal(0.0, errors, (400_000, 3))).max(axis=1)
    assert told == pytest.approx(np.median(drawn), rel=0.01)
    exact = optimize.brentq(lambda t: np.prod(2 * stats.norm.cdf(t / errors) - 1) - 0.5, 0.001, 1.0)
    assert told == pytest.approx(exact, rel=0.005)


def ends_and_units(count: int) -> tuple[tuple[FloatArray, FloatArray], FloatArray]:
    return (np.zeros(count), np.full(count, 4.0)), np.ones(count)


def test_the_likely_worst_error_is_about_the_true_one() -> None:
    rng = np.random.default_rng(4)
    means, spreads = rng.uniform(0.5, 3.5, 400), rng.gamma(2.0, 0.25, 400)
    ratings = np.clip(np.round(rng.normal(means, spreads, (100, 25, 400))), 0, 4)
    true = np.clip(np.round(rng.normal(means, spreads, (10_000, 400))), 0, 4).mean(axis=0)
    worst = np.abs(ratings.mean(axis=1) - true).max(axis=1).mean()

    told = [
        likely_worst_error(np.full(400, 25), run.sum(axis=0), (run * run).sum(axis=0), *ends_and_units(400))
        for run in ratings[:20]
    ]

    assert 0.8 < np.mean(told) / worst < 1.3


def test_the_likely_worst_error_is_no_wider_than_the_scale() -> None:
    one, low, high = np.ones(5000, np.int64), np.full(5000, 10.0), np.full(5000, 18.0)
    assert likely_worst_error(one, 18 * one, 324 * one, (low, high), high - low) == pytest.approx(1.0)
    assert likely_worst_error(one, 18 * one, 324 * one, (low, high), np.full(5000, 2.0)) == pytest.approx(4.0)


def test_ratings_that_all_agree_are_no_proof() -> None:
    n = np.array([3, 3])
    assert likely_worst_error(n, 4.0 * n, 16.0 * n, *ends_and_units(2)) > 0.3
    assert likely_worst_error(100 * n, 400.0 * n, 1600.0 * n, *ends_and_units(2)) < 0.1


def test_estimates_no_worst_error_while_a_score_is_not_known() -> None:
    assert math.isnan(likely_worst_error(np.array([3, 0]), np.array([12, 0]), np.array([48, 0]), *ends_and_units(2)))
    nothing = np.empty(0)
    assert math.isnan(likely_worst_error(np.empty(0, np.int64), nothing, nothing, (nothing, nothing), nothing))


def test_numbers_that_changed_while_they_were_read_make_no_small_error() -> None:
    # the sums of the second arm are of more ratings than its count, as where a run goes on between two copies
    told = likely_worst_error(np.array([2, 50]), np.array([8.0, 300]), np.array([32.0, 900]), *ends_and_units(2))
    alone = likely_worst_error(np.array([2]), np.array([8.0]), np.array([32.0]), *ends_and_units(1))
    assert told == pytest.approx(alone)
