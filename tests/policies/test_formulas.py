"""The policies' formulas by value, each computed another way: from the ratings themselves, by direct sums or by scipy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.base import Columns, Policy, Setup
from robin_cli.policies.robin import Robin
from robin_cli.policies.robin_hood import (
    RobinHood,
    smallest_theory_budget,
    theory_warm_up,
)
from robin_cli.policies.two_priors import TwoPriors
from robin_cli.policies.uniform import Uniform
from tests.session.played import sums

SCALES = [Scale(0, 4), Scale(1, 5), Scale(1, 10), Scale(-2, 2)]
scaled_ratings = st.sampled_from(SCALES).flatmap(
    lambda scale: st.tuples(
        st.just(scale), st.lists(st.integers(scale.low, scale.high), min_size=1, max_size=40)
    )
)


def worth(policy: Policy, ratings: list[int], pending: float = 0.0, arm: int = 0) -> float:
    """The priority of one arm."""
    n, total, total_sq = sums([ratings])
    return policy.priority(Columns(n, np.array([pending]), total, total_sq, np.array([arm]))).item()


def even_variance(scale: Scale) -> float:
    return float(np.var(np.arange(scale.low, scale.high + 1)))


def test_uniform_asks_the_arm_with_the_fewest_calls() -> None:
    keys = {
        (n, pending): worth(Uniform(), [3] * n, pending)
        for n in (1, 2, 5)
        for pending in (0.0, 3.0)
    }
    assert sorted(keys, key=lambda key: -keys[key]) == sorted(keys, key=sum)


def test_robin_hoods_constants_are_those_of_the_paper() -> None:
    assert RobinHood.from_setup(Setup(5, 1000, SCALES[0])).c == pytest.approx(19.85, abs=0.005)
    for delta in (0.007, 0.3):
        policy = RobinHood.from_setup(Setup(5, 1000, SCALES[0], delta=delta))
        assert math.exp(-policy.c / 4) == pytest.approx(delta)
        # a bound needs n > c: the first whole number above it
        assert policy.warm_up == next(n for n in itertools.count(1) if n > policy.c)


def test_robin_hoods_constants_of_theorem_2_leave_each_bound_its_share_of_delta() -> None:
    for arms, budget, delta in ((10, 20_000, 0.1), (3, 5000, 0.007)):
        t0 = next(t for t in itertools.count(1) if 4 * arms * budget * math.exp(-t / 16) <= delta)
        assert theory_warm_up(arms, budget, delta) == t0
        policy = RobinHood.from_setup(Setup(arms, budget, SCALES[0], delta=delta, mode="theory"))
        assert policy.warm_up == t0
        assert 4 * arms * budget * math.exp(-policy.c / 4) == pytest.approx(delta)


@pytest.mark.parametrize("arms", [1, 3, 10])
def test_finds_the_smallest_budget_for_the_theory(arms: int) -> None:
    smallest = next(
        budget
        for budget in itertools.count(arms)
        if arms * theory_warm_up(arms, budget, 0.05) <= budget
    )
    assert smallest_theory_budget(arms, 0.05) == smallest
    assert (
        RobinHood.from_setup(Setup(arms, smallest, SCALES[0], delta=0.05, mode="theory")).warm_up
        * arms
        <= smallest
    )
    with pytest.raises(InputError, match=f"{smallest} calls at least; raise the budget"):
        RobinHood.from_setup(Setup(arms, smallest - 1, SCALES[0], delta=0.05, mode="theory"))


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.0000001, float("nan")])
def test_refuses_a_failure_probability_that_is_none(delta: float) -> None:
    with pytest.raises(InputError, match=r"for example 0\.007"):
        RobinHood.from_setup(Setup(3, 100, SCALES[0], delta=delta))
    assert RobinHood.from_setup(Setup(3, 100, SCALES[0], delta=1.0)).warm_up == 1


def dirichlet_variance(ratings: list[int], prior: Sequence[int], mass: float = 2.0) -> float:
    """E[Σ p x² − (Σ p x)²] by the first two moments of a Dirichlet distribution, summed over pairs of levels."""
    levels = {*ratings, *prior}
    alpha = {x: ratings.count(x) + mass * prior.count(x) / len(prior) for x in levels}
    whole = sum(alpha.values())
    mean_square = sum(alpha[x] / whole * x * x for x in levels)
    square_of_mean = sum(
        x * y * alpha[x] * (alpha[y] + (x == y)) / (whole * (whole + 1))
        for x in levels
        for y in levels
    )
    return mean_square - square_of_mean


def two_priors(ratings: list[int], prior: Sequence[int], pooled: float, alike: float) -> float:
    """As the docstring says it: the geometric mean of the two estimates, drawn toward g."""
    squares = float(np.var(ratings) * len(ratings))
    usual = (squares + 8 * pooled) / stats.chi2.ppf(0.1, len(ratings) - 1 + 8)
    return (1 - alike) * stats.gmean([dirichlet_variance(ratings, prior), usual]) + alike * pooled


@given(
    drawn=scaled_ratings,
    pooled=st.floats(0.01, 4),
    alike=st.sampled_from([0.0, 0.3, 1.0]),
    pending=st.integers(0, 9),
)
def test_asks_where_a_mean_is_least_certain_by_the_variance_that_each_docstring_has(
    drawn: tuple[Scale, list[int]], pooled: float, alike: float, pending: int
) -> None:
    scale, ratings = drawn
    ends, n, c = (scale.low, scale.high), len(ratings), len(ratings) / 3
    even, others = range(scale.low, scale.high + 1), [*ratings[1:], *ends]
    moments = float(np.mean(others)), float(np.mean(np.square(others)))
    for policy, variance, off in (
        (Robin(np.array([0.3])), 0.3, 1e-9),
        # the bound is the variance that would be seen as σ̂² if it fell short by its share √(c/n)
        (RobinHood(c=c, warm_up=1), float(np.var(ratings)) / (1 - math.sqrt(c / n)), 1e-9),
        # the quantile of χ² is Wilson and Hilferty's: within 0.5 % of scipy's from 8 degrees of freedom on
        (
            TwoPriors(scale, pooled, alike, *moments),
            two_priors(ratings, others, pooled, alike),
            0.003,
        ),
        (begun(scale), two_priors(ratings, even, even_variance(scale), 0.0), 0.003),
    ):
        expected = variance / (n + pending)
        assert worth(policy, ratings, pending) == pytest.approx(expected, rel=off, abs=1e-12), (
            policy
        )


def begun(scale: Scale, evidence: float = 0.0) -> TwoPriors:
    return TwoPriors.from_setup(Setup(5, 1000, scale, evidence=evidence))


def moments_of(arms: list[list[int]], evidence: float, scale: Scale) -> tuple[float, float]:
    """m₁ and m₂ as the docstring has them: of a rating of an arm drawn evenly, or with e more arms that are an even draw."""
    even = range(scale.low, scale.high + 1)
    weights = [*np.ones(len(arms)), evidence]
    first, second = (
        np.average([np.mean(np.power(x, k)) for x in [*arms, even]], weights=weights)
        for k in (1, 2)
    )
    return first, max(second, first**2 + 0.001 * even_variance(scale))


def two_fits(arms: list[list[int]], evidence: float, even: float) -> tuple[float, float]:
    """g and h as the docstring has them, from the ratings of each arm."""
    several = [np.array(each) for each in arms if len(each) > 1]
    squares = np.concatenate([each - each.mean() for each in several]) if several else np.empty(0)
    freedom = sum(len(each) - 1 for each in several)
    if not freedom:
        return even, 0.0
    g = (float(squares @ squares) + evidence * even) / (freedom + evidence)
    g = max(g, 0.001 * even)
    scatter = np.mean([(len(each) - 1) * (each.var(ddof=1) / g - 1) ** 2 for each in several])
    cv_squared = max(0.0, scatter - 2) / (max(1.0, freedom / len(several)) + 2)
    return g, max(0.0, 1 - cv_squared) * freedom / (freedom + evidence)


some_arms = st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=12), min_size=1, max_size=8)


@given(arms=some_arms, evidence=st.sampled_from([0.0, 8.0]))
def test_two_priors_learns_from_all_arms_how_much_ratings_vary_and_how_alike_arms_are(
    arms: list[list[int]], evidence: float
) -> None:
    policy = begun(SCALES[1], evidence=evidence).fitted(*sums(arms))
    pooled, alike = two_fits(arms, evidence, even_variance(SCALES[1]))
    assert policy.pooled == pytest.approx(pooled)
    assert policy.alike == pytest.approx(alike)
    assert (policy.first, policy.second) == pytest.approx(moments_of(arms, evidence, SCALES[1]))


def test_two_priors_fits_each_of_several_runs_by_itself() -> None:
    rng = np.random.default_rng(2)
    runs = [[rng.integers(1, high + 1, 5).tolist() for _ in range(6)] for high in (2, 3, 5)]
    n, total, total_sq = (np.stack(each) for each in zip(*map(sums, runs), strict=True))
    together = begun(SCALES[1], evidence=3.0).fitted(n, total, total_sq)
    expected = np.array([two_fits(run, 3.0, even_variance(SCALES[1])) for run in runs])
    np.testing.assert_allclose(np.array([together.pooled, together.alike]).T, expected)
    moments = [moments_of(run, 3.0, SCALES[1]) for run in runs]
    np.testing.assert_allclose(np.array([together.first, together.second]).T, moments)
    estimates = together.estimate(n, total, total_sq)
    for k, run in enumerate(runs):
        alone = begun(SCALES[1], evidence=3.0).fitted(*sums(run))
        np.testing.assert_allclose(estimates[k], alone.estimate(n[k], total[k], total_sq[k]))


def test_two_priors_tells_arms_that_are_alike_from_arms_that_are_not() -> None:
    rng = np.random.default_rng(3)

    def alike(cv: float, n: int) -> float:
        true = rng.gamma(1 / cv**2, cv**2, 100_000) if cv else np.ones(100_000)
        x = rng.normal(0.0, np.sqrt(true)[:, None], (100_000, n))
        policy = begun(SCALES[0]).fitted(
            np.full(100_000, float(n)), x.sum(axis=1), (x * x).sum(axis=1)
        )
        return float(cast("float", policy.alike))

    for n in (3, 40):
        assert alike(0.0, n) == pytest.approx(1.0, abs=0.02)
        assert alike(0.5, n) == pytest.approx(1 - 0.5**2, abs=0.03)
        assert alike(1.5, n) == 0.0
