"""What a forecast says beforehand, against what then happens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.analysis.forecast import (
    RUNS,
    Expected,
    Found,
    Known,
    Needed,
    _largest_normal,
    budget_for,
    calls_for,
    forecast,
    most_calls,
    quantiles,
    shares,
)
from robin_cli.analysis.rating_model import draw_distributions, fit_mixture
from robin_cli.analysis.simulation import Ratings, simulate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import make_policy
from tests.analysis.paper import paper_pools

SCALE = Scale(0, 4)


def pilot(truth: Ratings, times: int, rng: np.random.Generator) -> IntArray:
    """Counts of ``times`` ratings of every pair."""
    drawn = truth.draw(np.repeat(np.arange(len(truth.sizes))[:, None], times, axis=1), rng)
    return np.stack([(drawn == level).sum(axis=1) for level in range(5)], axis=1)


@pytest.mark.parametrize(
    ("name", "scheduler"), [("gpt-4.1-nano/correctness", "robin-hood"), ("llama-3-1-8b/verbosity", "uniform")]
)
def test_forecasts_the_error_from_three_calls_a_pair(name: str, scheduler: str) -> None:
    # Measured over all eight pools, pilots of 3, 6 and 20 calls and 10 to 100 calls a pair: 0.79 to 1.16 of the truth.
    rng = np.random.default_rng(5)
    truth = Ratings.of(paper_pools()[name].ratings[:300])
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
    truth = Ratings.of(paper_pools()["gpt-4.1-nano/correctness"].ratings[:100])

    found = searched(scheduler, pilot(truth, 6, rng), error, measure=measure)
    policy = make_policy(scheduler, Setup(100, found.needed.calls, SCALE, variances=truth.variances))
    (seen,) = simulate(truth, policy, [found.needed.calls], 20, rng)

    reached = seen.wce if measure == "worst" else seen.mean_error
    assert found.needed.relation == "about"
    assert 0.75 < reached.mean() / error < 1.3
    assert found.low.calls <= found.needed.calls <= found.high.calls
    assert found.low.calls < found.high.calls < 2 * found.low.calls


def test_says_how_far_the_simulations_own_noise_leaves_the_budget_open() -> None:
    counts = np.tile([[5, 0, 0, 0, 5]], (100, 1))
    found = searched("uniform", counts, 0.3)

    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        return make_policy("uniform", Setup(100, budget, SCALE, variances=variances))

    known, calls = [Known(counts, fit_mixture(counts), SCALE)], found.needed.calls
    (there,) = forecast(known, policy_at, [calls], np.random.default_rng(4)).values()
    # The error falls as the root of the calls: ± 1.96 standard errors of it are twice as much of them.
    open_to_noise = np.log(found.high.calls / found.low.calls)
    assert open_to_noise == pytest.approx(2 * 2 * 1.96 * there.worst_sem / there.worst, rel=0.4)


def test_says_where_the_search_for_a_budget_ends() -> None:
    varied = np.tile([[5, 0, 0, 0, 5]], (20, 1))

    assert searched("uniform", varied, 3.9).needed == Needed(20, "at most")
    assert searched("uniform", varied, 3.0, least=700).needed == Needed(700, "at most")  # of a pilot
    assert searched("uniform", varied, 0.01).needed == Needed(most_calls(20), "more than")


def expected(errors: dict[int, float]) -> dict[int, Expected]:
    return {budget: Expected(budget, worst, 0.0, 0.0, 0.0, 20) for budget, worst in errors.items()}


def test_reads_off_the_calls_for_an_error() -> None:
    for error, calls in (
        (0.8, Needed(500, "at most")),
        (0.6, Needed(500, "at most")),
        (0.4, Needed(1000, "about")),
        (0.282843, Needed(2000, "about")),
        (0.2, Needed(4000, "about")),
        (0.1, Needed(4000, "more than")),
    ):
        assert calls_for(error, expected({500: 0.6, 1000: 0.4, 4000: 0.2})) == calls, (error, calls)


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


@pytest.mark.parametrize(
    ("arms", "budget", "steps", "simulated"),
    [(2000, 4_000, 1_000, 500), (2000, 4_000, 20_000, 1000), (2000, 400_000, 1_000, 50), (30, 600, 10, 30)],
)
def test_simulates_as_many_arms_as_the_steps_allow(arms: int, budget: int, steps: int, simulated: int) -> None:
    counts = np.tile([[0, 0, 1, 2, 1]], (arms, 1))
    seen: list[int] = []

    def policy_at(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
        seen.append(len(variances))
        return make_policy("uniform", Setup(len(variances), budget, SCALE))

    forecast([Known(counts, fit_mixture(counts), SCALE)], policy_at, [budget], np.random.default_rng(0), steps=steps)

    assert seen == [simulated * RUNS]


def test_says_of_a_scheduler_that_takes_no_budget_that_it_needs_more_than_the_most_tried() -> None:
    counts = np.tile([[0, 0, 1, 2, 1]], (10, 1))
    known = [Known(counts, fit_mixture(counts), SCALE)]

    found = budget_for(0.1, known, lambda *_: None, np.random.default_rng(0), least=10)

    assert found == Found(*[Needed(most_calls(10), "more than")] * 3)


COIN, EVEN = np.array([0.5, 0, 0, 0, 0.5]), np.full(5, 0.2)


def errors_of(distributions: list[tuple[FloatArray, int]], calls: int) -> FloatArray:
    """How far the mean of ``calls`` ratings of each arm is off, in 4,000 runs; so many arms of each distribution."""
    rng = np.random.default_rng(11)
    levels = np.arange(5)
    return np.concatenate(
        [np.abs(rng.multinomial(calls, p, (4000, arms)) @ levels / calls - p @ levels) for p, arms in distributions],
        axis=1,
    )


def evenly(budget: int, variances: FloatArray, _groups: object = None) -> Policy:
    return make_policy("uniform", Setup(len(variances), budget, SCALE))


def as_rated(distributions: list[tuple[FloatArray, int]]) -> Known:
    """Arms rated so often that nothing is open about how they vary."""
    counts = np.concatenate([np.tile((40_000 * p).astype(np.int64), (arms, 1)) for p, arms in distributions])
    return Known(counts, fit_mixture(counts), SCALE)


@pytest.mark.parametrize("calls", [9, 25])
def test_foresees_what_an_even_spread_reaches(calls: int) -> None:
    known = as_rated([(COIN, 30), (EVEN, 30)])
    # what the mixture can say of these distributions, for its means and spreads are those of a grid
    drawn = draw_distributions(known.counts[[0, 30]], known.weights, np.random.default_rng(0))
    errors = errors_of([(drawn[0], 30), (drawn[1], 30)], calls)

    told = forecast([known], evenly, [60 * calls], np.random.default_rng(2))[60 * calls]

    assert told.runs == 30
    assert abs(told.worst - errors.max(axis=1).mean()) < 4 * told.worst_sem
    assert abs(told.mean - errors.mean(axis=1).mean()) < 4 * told.mean_sem
    assert told.worst_sem == pytest.approx(errors.max(axis=1).std() / np.sqrt(30), rel=0.4)
    assert told.mean_sem == pytest.approx(errors.mean(axis=1).std() / np.sqrt(30), rel=0.4)


def test_foresees_the_worst_of_more_pairs_than_it_simulates() -> None:
    known = as_rated([(EVEN, 4000)])
    (drawn,) = draw_distributions(known.counts[:1], known.weights, np.random.default_rng(0))
    errors = np.stack(
        [errors_of([(drawn, 1)], 50).reshape(-1)[np.random.default_rng(k).integers(4000, size=4000)] for k in range(50)]
    )

    told = forecast([known], evenly, [200_000], np.random.default_rng(2))[200_000]

    assert told.worst == pytest.approx(errors.max(axis=1).mean(), rel=0.06)
    assert told.mean == pytest.approx(errors.mean(), rel=0.03)


def test_foresees_shares_of_the_scale_where_there_are_several() -> None:
    one = as_rated([(COIN, 20)])
    ten = Known(one.counts, one.weights, Scale(10, 14))
    wide = Known(
        np.tile([[20_000, *[0] * 8, 20_000]], (20, 1)),
        fit_mixture(np.tile([[20_000, *[0] * 8, 20_000]], (20, 1))),
        Scale(1, 10),
    )
    (alone,) = forecast([one], evenly, [200], np.random.default_rng(2)).values()
    (same,) = forecast([one, ten], evenly, [400], np.random.default_rng(2)).values()
    (shares,) = forecast([one, wide], evenly, [400], np.random.default_rng(2)).values()
    # two scales of one width: not the same scale, so errors are shares; the mean of forty arms is that of twenty
    assert same.mean == pytest.approx(alone.mean / 4, rel=0.1)
    assert shares.mean == pytest.approx(alone.mean / 4, rel=0.1)
    assert shares.worst <= 1


def test_foresees_no_error_wider_than_the_scale() -> None:
    # mostly the lowest rating: after one call the arms that got the highest are off by most of the scale, and the largest
    # error of so many more than are simulated would come to more than all of it
    one = as_rated([(np.array([0.6, 0.2, 0.1, 0.06, 0.04]), 30_000)])
    for scales, widest in (([SCALE, Scale(10, 14)], 1), ([SCALE], 4), ([Scale(1, 5)], 4)):
        known = [Known(one.counts, one.weights, scale) for scale in scales]
        arms = 30_000 * len(scales)

        told = forecast(known, evenly, [arms], np.random.default_rng(2))[arms]

        assert told.worst == widest, scales
        assert told.mean < widest / 2, scales


def test_divides_the_simulated_pairs_among_attributes_as_evenly_as_whole_numbers_go() -> None:
    for sizes, total in (([3, 3, 3], 7), ([1000, 10, 500], 100), ([5], 3), ([4, 4], 8)):
        parts = shares(sizes, total)
        assert sum(parts) == total
        assert all(abs(part - total * size / sum(sizes)) < 1 for part, size in zip(parts, sizes, strict=True))


def test_lays_a_distribution_out_in_two_hundredquantiles() -> None:
    p = np.array([0.1, 0.25, 0.0, 0.6, 0.05])
    (values,) = quantiles(p[None, :], Scale(1, 5))
    assert [np.sum(values == level) for level in range(1, 6)] == [20, 50, 0, 120, 10]


def test_knows_how_large_the_largest_of_normal_variables_gets() -> None:
    for count in (2, 10, 1000):
        # the level that one of so many passes on average
        assert count * 2 * stats.norm.sf(_largest_normal(count)) == pytest.approx(1.0), count
        assert _largest_normal(1) == _largest_normal(2), count


def test_tries_two_thousand_calls_a_pair_at_most() -> None:
    assert most_calls(300) == 600_000
    assert most_calls(3) == 100_000  # as for fifty pairs
