"""What a forecast says beforehand, against what then happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.allocation.policies import Policy, Setup, make_policy
from robin_cli.data.pools import load_pools
from robin_cli.records import Scale
from robin_cli.statistics.forecast import Expected, Found, Known, Needed, budget_for, calls_for, forecast, most_calls
from robin_cli.statistics.rating_model import draw_distributions, fit_mixture
from robin_cli.statistics.simulation import Ratings, simulate
from tests.conftest import ROOT

SCALE = Scale(0, 4)
POOLS = load_pools(ROOT / "configs" / "pools" / "paper_digitised.parquet")


def pilot(truth: Ratings, times: int, rng: np.random.Generator) -> IntArray:
    """Counts of ``times`` ratings of every pair."""
    drawn = truth.draw(np.repeat(np.arange(len(truth.sizes))[:, None], times, axis=1), rng)
    return np.stack([(drawn == level).sum(axis=1) for level in range(5)], axis=1)


@pytest.mark.parametrize("scheduler", ["robin-hood", "uniform"])
@pytest.mark.parametrize("name", ["gpt-4.1-nano/correctness", "llama-3-1-8b/verbosity"])
def test_forecasts_the_error_from_three_calls_a_pair(name: str, scheduler: str) -> None:
    # Measured over all eight pools, pilots of 3, 6 and 20 calls and 10 to 100 calls a pair: 0.79 to 1.16 of the truth.
    rng = np.random.default_rng(5)
    truth = Ratings.of(POOLS[name].ratings)
    arms = len(truth.sizes)
    budgets = [25 * arms, 50 * arms]

    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        return make_policy(scheduler, Setup(arms, budget, SCALE, variances=variances))

    counts = pilot(truth, 3, rng)
    foreseen = forecast([Known(counts, fit_mixture(counts), SCALE)], policy_at, budgets, rng)
    seen = simulate(truth, policy_at(budgets[-1], truth.variances), budgets, 20, rng)

    for snapshot in seen:
        assert 0.7 < foreseen[snapshot.budget].worst / snapshot.wce.mean() < 1.4
        assert 0.7 < foreseen[snapshot.budget].mean / snapshot.mean_error.mean() < 1.4


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

    assert 0 < (variances[alike] > 2).mean() < 0.3  # some, and by far not all: of 225 about 25 in truth
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


def searched(scheduler: str, counts: IntArray, error: float, *, least: int = 0, **measure: Any) -> Found:
    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        return make_policy(scheduler, Setup(len(counts), budget, SCALE, variances=variances))

    known, rng = [Known(counts, fit_mixture(counts), SCALE)], np.random.default_rng(3)
    return budget_for(error, known, policy_at, rng, least=max(least, len(counts)), **measure)


@pytest.mark.parametrize(
    ("scheduler", "measure", "error"),
    [("robin-hood", "worst", 0.25), ("uniform", "worst", 0.15), ("two-priors", "mean", 0.06)],
)
def test_finds_the_budget_for_an_error(scheduler: str, measure: Any, error: float) -> None:
    # Measured over two pools of 1,016 and of 60 pairs, three schedulers and errors of 0.4, 0.2 and 0.1: 0.8 to 1.3 times it.
    rng = np.random.default_rng(5)
    truth = Ratings.of(POOLS["gpt-4.1-nano/correctness"].ratings[:100])

    found = searched(scheduler, pilot(truth, 6, rng), error, measure=measure)
    policy = make_policy(scheduler, Setup(100, found.needed.calls, SCALE, variances=truth.variances))
    (seen,) = simulate(truth, policy, [found.needed.calls], 20, rng)

    reached = seen.wce if measure == "worst" else seen.mean_error
    assert found.needed.relation == "about"
    assert 0.75 < reached.mean() / error < 1.3
    assert found.low.calls <= found.needed.calls <= found.high.calls
    assert found.low.calls < found.high.calls < 2 * found.low.calls


def test_says_where_the_search_for_a_budget_ends() -> None:
    varied = np.tile([[5, 0, 0, 0, 5]], (20, 1))

    assert searched("uniform", varied, 3.9).needed == Needed(20, "at most")
    assert searched("uniform", varied, 3.0, least=700).needed == Needed(700, "at most")  # of a pilot
    assert searched("uniform", varied, 0.01).needed == Needed(most_calls(20), "more than")


def expected(errors: dict[int, float]) -> dict[int, Expected]:
    return {budget: Expected(budget, worst, 0.0, 0.0, 0.0, 20) for budget, worst in errors.items()}


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        (0.8, Needed(500, "at most")),
        (0.4, Needed(1000, "about")),
        (0.282843, Needed(2000, "about")),
        (0.2, Needed(4000, "about")),
        (0.1, Needed(4000, "more than")),
    ],
)
def test_reads_off_the_calls_for_an_error(error: float, calls: Needed) -> None:
    assert calls_for(error, expected({500: 0.6, 1000: 0.4, 4000: 0.2})) == calls


def test_more_calls_are_never_said_to_be_worse() -> None:
    noisy = expected({1000: 0.40, 2000: 0.30, 4000: 0.31})

    assert calls_for(0.305, noisy) == Needed(1900, "about")
    assert calls_for(0.25, noisy) == Needed(4000, "more than")


def test_budgets_that_come_to_the_same_share_are_all_forecast() -> None:
    counts = np.tile([[0, 0, 1, 2, 1]], (2000, 1))

    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        return make_policy("uniform", Setup(len(variances), budget, SCALE))

    found = forecast([Known(counts, fit_mixture(counts), SCALE)], policy_at, [2000, 2001], np.random.default_rng(0))

    assert list(found) == [2000, 2001]


def test_budgets_that_would_take_minutes_are_left_out() -> None:
    counts = np.tile([[1, 0, 0, 0, 1]], (5, 1))

    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        return make_policy("robin-hood", Setup(5, budget, SCALE, variances=variances))

    found = forecast([Known(counts, fit_mixture(counts), SCALE)], policy_at, [5000, 10**9], np.random.default_rng(0))

    assert list(found) == [5000]


def test_pairs_that_cannot_all_be_simulated_are_forecast_from_a_part() -> None:
    rng = np.random.default_rng(2)
    counts = np.tile([[0, 0, 1, 2, 1]], (20_000, 1))
    known = [Known(counts, fit_mixture(counts), SCALE)]

    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        return make_policy("uniform", Setup(len(variances), budget, SCALE))

    many = forecast(known, policy_at, [200_000], rng)[200_000]
    few = forecast([Known(counts[:1000], known[0].weights, SCALE)], policy_at, [10_000], rng)[10_000]

    assert 1.05 < many.worst / few.worst < 1.5  # the worst of more pairs is worse
    assert 0.9 < many.mean / few.mean < 1.1
