"""The policies' formulas by value, each computed another way: from the ratings themselves, by direct sums or by scipy."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.base import MODES, Policy, Setup
from robin_cli.policies.own.dirichlet import Dirichlet
from robin_cli.policies.own.robin import Robin
from robin_cli.policies.own.robin_hood import (
    RobinHood,
    practice_constant,
    smallest_theory_budget,
    theory_warm_up,
)
from robin_cli.policies.own.two_priors import TwoPriors
from robin_cli.policies.own.uniform import Uniform
from robin_cli.policies.prior import Warm, prior_variances, warm_policy
from robin_cli.policies.registry import POLICIES, make_policy, policy_named
from tests.planning.played import play

SCALES = [Scale(0, 4), Scale(1, 5), Scale(1, 10), Scale(-2, 2)]
scaled_ratings = st.sampled_from(SCALES).flatmap(
    lambda scale: st.tuples(
        st.just(scale), st.lists(st.integers(scale.low, scale.high), min_size=1, max_size=40)
    )
)


def columns(arms: list[list[int]] | list[list[float]]) -> tuple[FloatArray, FloatArray, FloatArray]:
    """n, Σx and Σx² of each arm."""
    n, total, total_sq = np.array(
        [[len(each), sum(each), sum(x * x for x in each)] for each in arms], float
    ).T
    return n, total, total_sq


def worth(policy: Policy, ratings: list[int], pending: float = 0.0, arm: int = 0) -> float:
    """The priority of one arm."""
    n, total, total_sq = columns([ratings])
    return policy.priority(n, np.array([pending]), total, total_sq, np.array([arm])).item()


def even_variance(scale: Scale) -> float:
    return float(np.var(np.arange(scale.low, scale.high + 1)))


# what one more call does, by objective: σ²/k is the variance of a mean of k ratings
EFFECT = {"worst-case": lambda v, k: v / k, "mean-error": lambda v, k: v / k - v / (k + 1)}


def test_uniform_asks_the_arm_with_the_fewest_calls() -> None:
    keys = {
        (n, pending): worth(Uniform(), [3] * n, pending)
        for n in (1, 2, 5)
        for pending in (0.0, 3.0)
    }
    assert sorted(keys, key=lambda key: -keys[key]) == sorted(keys, key=sum)


def test_robin_hoods_constants_are_those_of_the_paper() -> None:
    assert practice_constant(0.007) == pytest.approx(19.85, abs=0.005)
    for delta in (0.007, 0.3):
        policy = RobinHood.of(Setup(5, 1000, SCALES[0], delta=delta))
        assert math.exp(-policy.c / 4) == pytest.approx(delta)
        # a bound needs n > c: the first whole number above it
        assert policy.warm_up == next(n for n in itertools.count(1) if n > policy.c)


def test_robin_hoods_constants_of_theorem_2_leave_each_bound_its_share_of_delta() -> None:
    for arms, budget, delta in ((10, 20_000, 0.1), (3, 5000, 0.007)):
        t0 = next(t for t in itertools.count(1) if 4 * arms * budget * math.exp(-t / 16) <= delta)
        assert theory_warm_up(arms, budget, delta) == t0
        policy = RobinHood.of(Setup(arms, budget, SCALES[0], delta=delta, mode="theory"))
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
        RobinHood.of(Setup(arms, smallest, SCALES[0], delta=0.05, mode="theory")).warm_up * arms
        <= smallest
    )
    with pytest.raises(InputError, match=f"{smallest} calls at least; raise the budget"):
        RobinHood.of(Setup(arms, smallest - 1, SCALES[0], delta=0.05, mode="theory"))


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.0000001, float("nan")])
def test_refuses_a_failure_probability_that_is_none(delta: float) -> None:
    with pytest.raises(InputError, match=r"for example 0\.007"):
        RobinHood.of(Setup(3, 100, SCALES[0], delta=delta))
    assert RobinHood.of(Setup(3, 100, SCALES[0], delta=1.0)).warm_up == 1


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


@pytest.mark.parametrize("objective", EFFECT)
@given(
    drawn=scaled_ratings,
    pooled=st.floats(0.01, 4),
    alike=st.sampled_from([0.0, 0.3, 1.0]),
    pending=st.integers(0, 9),
)
def test_asks_where_a_mean_is_least_certain_by_the_variance_that_each_docstring_has(
    objective: str, drawn: tuple[Scale, list[int]], pooled: float, alike: float, pending: int
) -> None:
    scale, ratings = drawn
    ends, n, c = (scale.low, scale.high), len(ratings), len(ratings) / 3
    even, others = range(scale.low, scale.high + 1), [*ratings[1:], *ends]
    moments = float(np.mean(others)), float(np.mean(np.square(others)))
    for policy, variance, off in (
        (Robin(np.array([0.3]), objective), 0.3, 1e-9),
        # the bound is the variance that would be seen as σ̂² if it fell short by its share √(c/n)
        (
            RobinHood(c=c, warm_up=1, objective=objective),
            float(np.var(ratings)) / (1 - math.sqrt(c / n)),
            1e-9,
        ),
        (Dirichlet(*ends, objective), dirichlet_variance(ratings, even), 1e-9),
        # the quantile of χ² is Wilson and Hilferty's: within 0.5 % of scipy's from 8 degrees of freedom on
        (
            TwoPriors(scale, objective, pooled, alike, *moments),
            two_priors(ratings, others, pooled, alike),
            0.003,
        ),
        (begun(scale, objective), two_priors(ratings, even, even_variance(scale), 0.0), 0.003),
    ):
        expected = EFFECT[objective](variance, n + pending)
        assert worth(policy, ratings, pending) == pytest.approx(expected, rel=off, abs=1e-12), (
            policy
        )


def begun(scale: Scale, objective: str = "worst-case", evidence: float = 0.0) -> TwoPriors:
    return TwoPriors.of(Setup(5, 1000, scale, objective=objective, evidence=evidence))


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
    policy = begun(SCALES[1], evidence=evidence).fitted(*columns(arms))
    pooled, alike = two_fits(arms, evidence, even_variance(SCALES[1]))
    assert policy.pooled == pytest.approx(pooled)
    assert policy.alike == pytest.approx(alike)
    assert (policy.first, policy.second) == pytest.approx(moments_of(arms, evidence, SCALES[1]))


def test_two_priors_fits_each_of_several_runs_by_itself() -> None:
    rng = np.random.default_rng(2)
    runs = [[rng.integers(1, high + 1, 5).tolist() for _ in range(6)] for high in (2, 3, 5)]
    n, total, total_sq = (np.stack(each) for each in zip(*map(columns, runs), strict=True))
    together = begun(SCALES[1], evidence=3.0).fitted(n, total, total_sq)
    expected = np.array([two_fits(run, 3.0, even_variance(SCALES[1])) for run in runs])
    np.testing.assert_allclose(np.array([together.pooled, together.alike]).T, expected)
    moments = [moments_of(run, 3.0, SCALES[1]) for run in runs]
    np.testing.assert_allclose(np.array([together.first, together.second]).T, moments)
    estimates = together.estimate(n, total, total_sq)
    for k, run in enumerate(runs):
        alone = begun(SCALES[1], evidence=3.0).fitted(*columns(run))
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


@pytest.mark.parametrize("name", ["dirichlet", "two-priors"])
@pytest.mark.parametrize("weight", [8.0, 4.0])
@pytest.mark.parametrize("objective", EFFECT)
def test_a_prior_counts_as_ratings_of_the_arms_own_mean_and_of_its_prior_variance(
    name: str, weight: float, objective: str
) -> None:
    scale, ratings = SCALES[2], [3, 9, 4, 4]
    setup = Setup(3, 100, scale, objective=objective)
    prior = np.array([0.5, 3.0, 1.0])
    policy = warm_policy(name, setup, prior, weight=weight)
    assert isinstance(policy, Warm)
    cold: Any = make_policy(name, setup)
    for arm in range(3):
        # before the first fit: the mean of the priors is the level, and half of what sets an arm apart is believed
        spread = math.sqrt(prior.mean() + 0.5 * (prior[arm] - prior.mean()))
        half = int(weight / 2)
        mean = sum(ratings) / 4
        expected = cold.estimate(
            *columns([[*ratings, *[mean - spread] * half, *[mean + spread] * half]])
        ).item()
        assert worth(policy, ratings, 3.0, arm) == pytest.approx(
            EFFECT[objective](expected, len(ratings) + 3)
        )


def test_a_prior_for_robin_hood_counts_as_its_warm_up_but_for_one_rating() -> None:
    prior = np.array([0.5, 3.0, 1.0])
    policy = warm_policy("robin-hood", Setup(3, 100, SCALES[0]), prior)
    assert isinstance(policy, Warm)
    assert (policy.weight, policy.warm_up) == (19.0, 1)
    assert warm_policy("robin-hood", Setup(3, 100, SCALES[0]), prior, weight=7.5).warm_up == 13
    two = warm_policy("two-priors", Setup(3, 100, SCALES[0]), prior)
    assert isinstance(two, Warm)
    assert (two.weight, two.warm_up) == (8.0, 1)


@pytest.mark.parametrize("scale", SCALES)
def test_a_prior_that_says_nothing_varies_is_not_believed_to_the_letter(scale: Scale) -> None:
    policy = warm_policy("dirichlet", Setup(2, 100, scale), np.zeros(2))
    assert isinstance(policy, Warm)
    assert policy.relative.tolist() == [1.0, 1.0]
    assert policy.prior_level == policy.level == pytest.approx(even_variance(scale) / 1000)
    one = warm_policy("dirichlet", Setup(2, 100, scale), np.array([0.0, 3.0]))
    assert isinstance(one, Warm)
    assert one.relative.tolist() == [0.001, 2.0]  # shares of the mean
    assert one.level == 1.5


def fit_by_least_squares(warm: Warm, arms: list[list[int]]) -> tuple[float, float, float]:
    """g, r̄ and the slope of s²/g on r: a straight line by weighted least squares, with the first guess as a measurement."""
    several = [
        (r, each) for r, each in zip(warm.relative.tolist(), arms, strict=True) if len(each) > 1
    ]
    w = np.array([len(each) - 1 for _, each in several], dtype=np.float64)
    r = np.array([share for share, _ in several])
    s_squared = np.array([np.var(each, ddof=1) for _, each in several])
    pooled = (w @ s_squared + 8 * warm.prior_level) / (w.sum() + 8)
    center = float(np.average(r, weights=w))
    first = 0.5 / (1 + 0.5 * (center - 1))
    rows = np.concatenate(
        [np.stack([np.ones_like(r), r - center], axis=1) * np.sqrt(w)[:, None], [[0, math.sqrt(8)]]]
    )
    values = np.concatenate([s_squared / pooled * np.sqrt(w), [first * math.sqrt(8)]])
    return float(pooled), center, float(np.linalg.lstsq(rows, values)[0][1])


def test_a_prior_is_trusted_by_the_slope_of_the_variances_on_it() -> None:
    rng = np.random.default_rng(6)
    inside = 0
    for _ in range(40):
        arms = [
            rng.integers(3 - d, 4 + d, rng.integers(1, 14)).tolist() for d in rng.integers(0, 3, 12)
        ]
        prior = np.array([np.var(each) for each in arms]) * rng.gamma(2, 0.5, 12) + 0.1
        warm = warm_policy("dirichlet", Setup(12, 1000, SCALES[1]), prior)
        assert isinstance(warm, Warm)
        fitted = warm.fitted(*columns(arms))
        pooled, center, slope = fit_by_least_squares(warm, arms)
        b, level = cast("float", fitted.trust), cast("float", fitted.level)
        assert 0 <= b <= 1
        assert level * (1 + b * (center - 1)) == pytest.approx(pooled)
        if 0 < b < 1:
            inside += 1
            assert b / (1 + b * (center - 1)) == pytest.approx(slope)
        else:
            reached = 1 / center  # of b = 1, the steepest line that the level allows
            assert slope >= reached - 1e-12 if b else slope <= 0
    assert inside > 10


def test_a_prior_is_trusted_wholly_where_no_trust_makes_as_steep_a_line() -> None:
    # all that varies is the one arm of which the prior said so, on ten times the level of the prior and more
    arms = [[1, 5] * 6, [2] * 3, [4] * 3, *([3] for _ in range(7))]
    prior = np.array([1e-3, *[0.0] * 9])
    warm = warm_policy("dirichlet", Setup(10, 1000, SCALES[1]), prior)
    assert isinstance(warm, Warm)
    pooled, center, slope = fit_by_least_squares(warm, arms)
    assert slope * (center - 1) > 1  # b = m / (1 − m (r̄ − 1)) has no answer
    fitted = warm.fitted(*columns(arms))
    assert fitted.trust == 1.0
    assert fitted.level == pytest.approx(pooled / center)


def test_a_prior_is_fitted_to_a_single_difference() -> None:
    arms = [[1, 5], [3], [2]]
    warm = warm_policy("dirichlet", Setup(3, 100, SCALES[1]), np.array([2.0, 0.5, 0.5]))
    assert isinstance(warm, Warm)
    pooled, center, slope = fit_by_least_squares(warm, arms)
    fitted = warm.fitted(*columns(arms))
    b = cast("float", fitted.trust)
    assert b / (1 + b * (center - 1)) == pytest.approx(slope)
    assert cast("float", fitted.level) * (1 + b * (center - 1)) == pytest.approx(pooled)


def test_each_policy_names_the_theorem_that_bounds_its_error() -> None:
    bounds = {(name, mode): policy_named(name).theorem(mode) for name in POLICIES for mode in MODES}
    assert {key: theorem for key, theorem in bounds.items() if theorem is not None} == {
        ("auto", "theory"): 2,
        ("robin", "practice"): 1,
        ("robin", "theory"): 1,
        ("robin-hood", "theory"): 2,
    }


def test_a_prior_is_fitted_to_each_of_several_runs_by_itself() -> None:
    rng = np.random.default_rng(7)
    prior = rng.gamma(2, 0.5, 12)  # of two runs of six arms
    both = warm_policy("two-priors", Setup(6, 1000, SCALES[1]), prior)
    assert isinstance(both, Warm)
    runs = [[rng.integers(1, 6, 7).tolist() for _ in range(6)] for _ in range(2)]
    n, total, total_sq = (np.stack(each) for each in zip(*map(columns, runs), strict=True))
    fitted = both.fitted(n, total, total_sq)
    rows = np.arange(12).reshape(2, 6)
    keys = fitted.priority(n, np.zeros((2, 6)), total, total_sq, rows)
    for k in range(2):
        one = warm_policy("two-priors", Setup(6, 1000, SCALES[1]), prior)
        assert isinstance(one, Warm)
        alone = Warm(one.inner, one.relative[rows[k]], 8.0, 1, one.prior_level, one.level).fitted(
            n[k], total[k], total_sq[k]
        )
        expected = alone.priority(n[k], np.zeros(6), total[k], total_sq[k], np.arange(6))
        np.testing.assert_allclose(keys[k], expected)


def test_a_prior_is_not_changed_by_arms_asked_once() -> None:
    warm = warm_policy("dirichlet", Setup(3, 100, SCALES[0]), np.array([0.5, 3.0, 1.0]))
    assert isinstance(warm, Warm)
    fitted = warm.fitted(np.ones(3), np.array([1.0, 2, 3]), np.array([1.0, 4, 9]))
    assert fitted.trust == pytest.approx(0.5)
    assert fitted.level == pytest.approx(1.5)


def test_an_earlier_run_says_how_much_each_arm_varies_with_four_ratings_of_the_usual() -> None:
    arms = [[1, 5, 3], [2, 2], [4], [1, 2, 2, 2, 5]]
    several = [np.array(each) for each in arms]
    pooled = sum(len(each) * each.var() for each in several) / sum(
        len(each) - 1 for each in several
    )
    expected = [(each.var() * len(each) + 4 * pooled) / (len(each) - 1 + 4) for each in several]
    np.testing.assert_allclose(prior_variances(*columns(arms)), expected)
    assert np.isnan(prior_variances(*columns([[4], [3]]))).all()


@pytest.mark.parametrize("name", ["robin-hood", "dirichlet", "two-priors"])
def test_learns_of_an_arm_that_the_prior_hid(name: str) -> None:
    # the prior has it the wrong way round: the arm that varies most was said not to vary at all
    steady = [[2], [3], [1, 2], [2, 2, 3], [4, 4, 4, 3]] * 4
    ratings = [[0, 4], *steady]
    prior = np.array([0.0, *(1.0 for _ in steady)])
    policy = warm_policy(name, Setup(len(ratings), 2100, SCALES[0]), prior)
    arms = WritableArms(len(ratings))
    play(policy, ratings, 100 * len(ratings), arms)
    assert arms.counts.argmax() == 0


def test_asks_arms_that_vary_from_the_start() -> None:
    for name in ("robin-hood", "dirichlet", "two-priors"):
        ratings = [[0, 4, 1, 3]] * 10 + [[2]] * 40
        prior = np.array([2.0] * 10 + [0.1] * 40)
        arms = WritableArms(50)
        play(warm_policy(name, Setup(50, 400, SCALES[0]), prior), ratings, 400, arms)
        assert arms.counts[10:].max() <= 8, name
        assert arms.counts[:10].min() >= 15, name


def test_trusts_a_prior_as_far_as_the_ratings_bear_it_out() -> None:
    rng = np.random.default_rng(3)
    true = rng.gamma(1.0, 1.0, 2000)
    n = np.full(2000, 6.0)
    x = rng.normal(
        0.0, np.sqrt(3.0 * true)[:, None], (2000, 6)
    )  # on the whole it varies three times as much
    setup = Setup(2000, 50_000, SCALES[0])

    def fit(prior: FloatArray) -> Warm:
        policy = warm_policy("two-priors", setup, prior)
        assert isinstance(policy, Warm)
        return policy.fitted(n, x.sum(axis=1), (x * x).sum(axis=1))

    assert fit(true).trust > 0.8
    assert 0.3 < float(fit(true + 2 * rng.permutation(true)).trust) < 0.8
    assert fit(rng.permutation(true)).trust < 0.15
    assert 2.5 < float(fit(true).level) < 3.5


def test_a_few_equal_ratings_do_not_say_that_an_arm_never_varies() -> None:
    n, total, total_sq = (
        np.array([2.0, 40.0, 4.0]),
        np.array([4.0, 80.0, 8.0]),
        np.array([8.0, 160.0, 32.0]),
    )
    few, many, varied = prior_variances(n, total, total_sq)
    assert 0 < many < few < varied
