"""Bounds for a mean by prompt: against exact ones, against drawing, and against the truth in samples that fool others."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robin_cli.model.arms import FloatArray
from robin_cli.stats.clustered import (
    Clusters,
    clusters_of,
    is_above,
    lower_bound,
    mean_bounds,
    probability_above,
)


def test_bounds_shares_of_prompts_of_one_pair_as_clopper_and_pearson_do() -> None:
    for met, of in ((0, 1), (1, 1), (3, 10), (20, 20), (99, 100), (500, 1000)):
        for alpha in (0.2, 0.05, 1e-6):
            values = np.repeat([1.0, 0.0], [met, of - met])
            exact = stats.binomtest(met, of).proportion_ci(1 - alpha, method="exact")
            found = mean_bounds(clusters_of(values, np.arange(of)), 0.0, 1.0, alpha=alpha)
            assert found == pytest.approx((exact.low, exact.high), abs=1e-7), (met, of, alpha)


def test_bounds_a_mean_by_the_quantile_of_randomly_weighted_prompts_and_one_more_at_the_end() -> (
    None
):
    rng = np.random.default_rng(0)
    values, prompt = rng.uniform(1, 5, 30), rng.integers(0, 9, 30)
    totals, sizes = np.bincount(prompt, values), np.bincount(prompt)
    weights = rng.exponential(size=(400_000, len(sizes) + 1))
    drawn = []
    for end, quantile in ((1.0, 0.05), (5.0, 0.95)):
        extra = weights[:, -1] * sizes.max()
        drawn.append(
            np.quantile(
                (weights[:, :-1] @ totals + extra * end) / (weights[:, :-1] @ sizes + extra),
                quantile,
            )
        )
    assert mean_bounds(clusters_of(values, prompt), 1.0, 5.0, alpha=0.1) == pytest.approx(
        drawn, abs=0.01
    )


@pytest.mark.parametrize(
    "scales", [[1.0, -2.0], [0.5, 0.5, -1.0], [1.0, -1e-6], [1.0, -1e6], [3.0, 2.0, -0.1, -4.0]]
)
def test_reckons_probabilities_of_sums_of_exponentials(scales: list[float]) -> None:
    def above(rates: list[float]) -> float:
        """By conditioning on the first, memoryless: P(aE₁ + rest > 0) for distinct scales, by partial fractions."""
        positive = [each for each in rates if each > 0]
        return sum(
            float(
                np.prod(
                    [each / (each - other) for other in rates if other != each], dtype=np.float64
                )
            )
            for each in positive
        )

    found = probability_above(
        np.unique(scales), np.unique(scales, return_counts=True)[1].astype(np.float64)
    )
    if len(set(scales)) == len(scales):
        assert found == pytest.approx(above(scales), rel=1e-9)
    else:  # P(Γ(2)/2 > E): 1 − 1/(1 + ½)²
        assert found == pytest.approx(1 - 1 / 1.5**2, rel=1e-9)


def test_is_as_wide_as_students_t_where_prompts_are_many_and_never_a_point_where_they_agree() -> (
    None
):
    rng = np.random.default_rng(1)
    values, prompt = rng.normal(2.0, 0.3, 8000), np.arange(8000) // 4
    values += rng.normal(0.0, 0.3, 2000)[prompt]
    clusters = clusters_of(values, prompt)
    low, high = mean_bounds(clusters, 0.0, 4.0, alpha=0.05)
    residuals = np.bincount(prompt, values - values.mean())
    error = np.sqrt(2000 / 1999 * (residuals**2).sum()) / 8000
    assert clusters.variance == pytest.approx(error**2)
    assert high - low == pytest.approx(2 * stats.t.ppf(0.975, 1999) * error, rel=0.08)
    low, high = mean_bounds(clusters_of(np.full(20, 4.0), np.arange(20)), 0.0, 4.0, alpha=0.05)
    assert low == pytest.approx(4 * 0.025 ** (1 / 20))
    assert high == 4.0


def test_takes_pairs_of_one_prompt_for_no_more_than_it() -> None:
    rng = np.random.default_rng(2)
    values, prompt = rng.uniform(0, 4, 30), np.arange(30)
    once = mean_bounds(clusters_of(values, prompt), 0.0, 4.0, alpha=0.05)
    assert mean_bounds(
        clusters_of(values.repeat(4), prompt.repeat(4)), 0.0, 4.0, alpha=0.05
    ) == pytest.approx(once)


def test_says_as_its_bound_does_whether_a_mean_is_above() -> None:
    clusters = Clusters(
        np.array([3.0, 8.0, 2.0]), np.array([1.0, 3.0, 1.0]), np.array([4.0, 2.0, 1.0])
    )
    low = lower_bound(clusters, 0.0, alpha=0.025)
    assert is_above(clusters, low - 1e-6, 0.0, alpha=0.025)
    assert not is_above(clusters, low + 1e-6, 0.0, alpha=0.025)
    assert is_above(clusters, 0.0, 0.0, alpha=0.025)


def rare(prompts: int, rng: np.random.Generator) -> FloatArray:
    return np.where(rng.random(prompts) < 0.05, 0.0, 4.0)


# benchmarks/gate.py counts over more prompts, populations and runs.
def test_misses_rare_bad_prompts_no_more_often_than_it_says_where_t_does() -> None:
    prompts, runs, rng = 20, 120, np.random.default_rng(20)
    missed = missed_by_t = 0
    for _ in range(runs):
        clusters = clusters_of(rare(prompts, rng), np.arange(prompts))
        low, high = mean_bounds(clusters, 0.0, 4.0, alpha=0.05)
        missed += not low <= 3.8 <= high
        half = stats.t.ppf(0.975, prompts - 1) * np.sqrt(clusters.variance)
        missed_by_t += not clusters.mean - half <= 3.8 <= clusters.mean + half
    assert missed <= 0.05 * runs + 2 * np.sqrt(0.05 * 0.95 * runs)
    assert missed_by_t > 1.5 * 0.05 * runs
