"""What a forecast draws its pairs from, against Bayes' rule written out and the condition for a maximum likelihood."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from robin_cli.model.arms import FloatArray
from robin_cli.simulate.rating_model import draw_distributions, fit_mixture

POINTS = [
    (mean, spread)
    for mean in np.arange(-2, 23) / 20
    for spread in 0.02 * 200 ** (np.arange(20) / 19)
]
"""The grid's means and spreads, in shares of the scale's width."""


def rounded_normal(mean: float, spread: float, levels: int) -> FloatArray:
    """How often a normal variable, rounded to ``levels`` ratings from 0 to 1 and kept between them, is each of them."""
    middles = [(k + 0.5) / (levels - 1) for k in range(levels - 1)]
    below = stats.norm.cdf(middles, mean, spread)
    return np.diff(np.concatenate([[0.0], below, [1.0]]))


def alone(point: int) -> FloatArray:
    """A mixture that is one point of the grid."""
    weights = np.zeros(len(POINTS))
    weights[point] = 1.0
    return weights


def near(point: int, levels: int) -> FloatArray:
    """The distributions whose means lie from halfway to one neighbour of the point to halfway to the other."""
    mean, spread = POINTS[point]
    return np.array(
        [rounded_normal(mean + off, spread, levels) for off in np.linspace(-1, 1, 81) / 40]
    )


@pytest.mark.parametrize("levels", [2, 5, 9])
def test_its_pairs_are_normal_variables_rounded_to_the_scale(levels: int) -> None:
    nothing = np.zeros((1, levels), dtype=np.int64)
    for point in range(0, 500, 23):
        (drawn,) = draw_distributions(nothing, alone(point), np.random.default_rng(0))
        off = np.abs(near(point, levels) - drawn).max(axis=1).min()
        assert off < 0.02, POINTS[point]


def test_draws_as_bayes_rule_says() -> None:
    points, prior = [228, 250, 193], np.array([0.5, 0.2, 0.3])
    weights = np.zeros(len(POINTS))
    weights[points] = prior
    counts = np.array([[0, 1, 2, 0, 0]])
    distributions = np.array([rounded_normal(*POINTS[point], 5) for point in points])
    likelihood = [stats.multinomial.pmf(counts[0], 3, p / p.sum()) for p in distributions]
    posterior = prior * likelihood / (prior @ likelihood)
    assert posterior.min() > 0.01

    drawn = draw_distributions(np.repeat(counts, 20_000, axis=0), weights, np.random.default_rng(3))

    apart = np.abs(drawn[:, None] - distributions).sum(axis=2)
    shares = np.bincount(apart.argmin(axis=1), minlength=3) / len(drawn)
    np.testing.assert_allclose(shares, posterior, atol=4 * 0.5 / np.sqrt(20_000))


def test_fits_the_mixture_under_which_the_ratings_are_likeliest() -> None:
    rng = np.random.default_rng(4)
    counts = rng.multinomial(6, rng.dirichlet(np.ones(3), 300))
    # the unrated say nothing
    weights = fit_mixture(np.concatenate([counts, np.zeros((50, 3), dtype=np.int64)]))
    rows, times = np.unique(counts, axis=0, return_counts=True)
    likelihood = np.array(
        [stats.multinomial.pmf(rows, 6, rounded_normal(*point, 3)) for point in POINTS]
    ).T

    # At the maximum no point of the grid gains: Σ_i L_ij / Σ_k w_k L_ik ≤ number of pairs (Lindsay 1983). What is
    # gained at most, in log likelihood a pair, is how far that is passed.
    gain = (times @ (likelihood / (likelihood @ weights)[:, None]) / times.sum()).max() - 1
    assert -1e-9 < gain < 0.01
    even = (times @ (likelihood / likelihood.mean(axis=1)[:, None]) / times.sum()).max() - 1
    assert even > 0.3
    assert weights.sum() == pytest.approx(1.0)


def test_knows_nothing_without_ratings() -> None:
    np.testing.assert_allclose(fit_mixture(np.zeros((3, 5), dtype=np.int64)), 1 / 500)
    np.testing.assert_allclose(fit_mixture(np.zeros((0, 5), dtype=np.int64)), 1 / 500)
    assert draw_distributions(
        np.zeros((0, 5), dtype=np.int64), alone(3), np.random.default_rng(0)
    ).shape == (0, 5)


def test_believes_a_pair_that_was_rated_very_often() -> None:
    counts = np.tile([[4000, 3000, 2000, 1000, 500]], (2, 1))
    drawn = draw_distributions(counts, fit_mixture(counts), np.random.default_rng(6))
    np.testing.assert_allclose(drawn, counts / counts.sum(axis=1, keepdims=True), atol=0.06)


def test_draws_more_pairs_than_it_looks_at_together() -> None:
    counts = np.zeros((10_000, 2), dtype=np.int64)
    counts[::2, 0], counts[1::2, 1] = 40, 40
    drawn = draw_distributions(counts, np.full(500, 1 / 500), np.random.default_rng(5))
    assert drawn[::2, 0].min() > 0.5
    assert drawn[1::2, 1].min() > 0.5


def test_three_alike_ratings_do_not_mean_that_a_pair_never_varies() -> None:
    # half of the pairs never vary, half are 0 or 4 at random: a quarter of those come out alike three times
    rng = np.random.default_rng(1)
    varied = rng.binomial(3, 0.5, size=200)
    counts = np.zeros((400, 5), dtype=np.int64)
    counts[:200, 4] = 3
    counts[200:, 0], counts[200:, 4] = varied, 3 - varied

    drawn = draw_distributions(counts, fit_mixture(counts), rng)
    levels = np.arange(5)
    variances = drawn @ levels**2 - (drawn @ levels) ** 2
    alike = counts[:, 4] == 3

    # some, and by far not all: of 225 about 25 in truth
    assert 0 < (variances[alike] > 2).mean() < 0.3
    assert (variances[~alike] > 2).mean() > 0.8
    assert abs(variances.mean() - 2.0) < 0.4


@given(
    counts=st.lists(st.lists(st.integers(0, 50), min_size=3, max_size=3), min_size=0, max_size=20),
    seed=st.integers(0, 9),
)
def test_a_mixture_is_one_whatever_was_rated(counts: list[list[int]], seed: int) -> None:
    table = np.array(counts, dtype=np.int64).reshape(-1, 3)

    weights = fit_mixture(table)
    drawn = draw_distributions(table, weights, np.random.default_rng(seed))

    assert np.isclose(weights.sum(), 1.0)
    assert (weights >= 0).all()
    assert drawn.shape == table.shape
    assert np.allclose(drawn.sum(axis=1), 1.0)


def test_means_lie_between_those_of_the_grid() -> None:
    nothing = np.zeros((4000, 5), dtype=np.int64)
    point = POINTS.index(min(POINTS, key=lambda each: abs(each[0] - 0.5) + abs(each[1] - 0.2)))
    levels = np.linspace(0, 1, 5)

    means = draw_distributions(nothing, alone(point), np.random.default_rng(0)) @ levels

    ends = [rounded_normal(0.5 + side, POINTS[point][1], 5) @ levels for side in (-0.025, 0.025)]
    assert [means.min(), means.max()] == pytest.approx(ends, abs=1e-3)
    assert means.mean() == pytest.approx(0.5, abs=0.002)
