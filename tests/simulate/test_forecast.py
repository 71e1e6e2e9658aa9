"""Forecasts against a second way to compute them: closed forms, and the experiment itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from robin_cli.goals.base import Goal
from robin_cli.goals.keep import DecisionsGoal
from robin_cli.goals.scores import ScoresGoal
from robin_cli.model.arms import IntArray
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import make_policy
from robin_cli.policies.task import Task
from robin_cli.simulate.experiment import World
from robin_cli.simulate.forecast import (
    SHARE_WITHIN,
    Forecast,
    Known,
    calls_for,
    largest_normal,
    quantiles,
)

SCALE = Scale(0, 4)


def space_of(pairs: int) -> ArmSpace:
    return ArmSpace([str(each) for each in range(pairs)], ["helpfulness"], ["j"], [SCALE])


def estimating(pairs: int) -> Goal:
    return ScoresGoal(space_of(pairs))


def deciding(pairs: int, text: str, group: IntArray | None = None) -> Goal:
    space = space_of(pairs)
    task = Task(
        decision_of(text, ["helpfulness"], [SCALE], margin=0.5, error_rate=0.1), space, group
    )
    return DecisionsGoal(space, task)


def by(name: str) -> Callable[[int, World], Policy]:
    def policy_at(budget: int, world: World) -> Policy:
        goal = world.goal
        setup = Setup(len(goal.space), budget, SCALE, task=goal.task)
        return make_policy(name, replace(setup, by_scale=goal.space.by_scale()))

    return policy_at


def flipping(pairs: int) -> list[Known]:
    """What fifty ratings of each pair say, half of which are 1 and half 3."""
    counts = np.tile(np.array([0, 25, 0, 25, 0]), (pairs, 1))
    return [Known.from_counts(counts, np.random.default_rng(0))]


def nothing(pairs: int) -> list[Known]:
    return [Known.nothing(pairs, SCALE, "helpfulness")]


@pytest.mark.parametrize("calls", [4, 16])
def test_an_even_spread_has_the_errors_of_means_of_independent_ratings(calls: int) -> None:
    found = Forecast(flipping(100), estimating(100)).expected(by("uniform"), [100 * calls])
    # a rating is off its mean by 1, so the error of a mean is about normal with this deviation
    deviation = 1 / np.sqrt(calls)
    assert found[100 * calls].figure("mean_mean") == pytest.approx(
        deviation * np.sqrt(2 / np.pi), rel=0.2
    )
    assert found[100 * calls].figure("worst_mean") == pytest.approx(
        deviation * stats.norm.ppf(1 - 0.5 / 100), rel=0.25
    )


def test_the_worst_of_more_pairs_than_are_simulated_is_larger() -> None:
    few, many = (
        Forecast(flipping(pairs), estimating(pairs)).expected(by("uniform"), [9 * pairs])[9 * pairs]
        for pairs in (100, 2000)
    )
    grown = largest_normal(2000) / largest_normal(100)
    assert many.figure("worst_mean") == pytest.approx(few.figure("worst_mean") * grown, rel=0.1)
    assert many.figure("mean_mean") == pytest.approx(few.figure("mean_mean"), rel=0.1)


def test_calls_for_an_error_bring_it() -> None:
    forecast = Forecast(nothing(40), estimating(40))
    needed = forecast.calls_for_error(by("two-priors"), 0.3)
    reached = forecast.expected(by("two-priors"), [needed.calls])[needed.calls]
    evenly = forecast.calls_for_error(by("uniform"), 0.3)
    assert needed.relation == "about"
    assert reached.figure("worst_mean") == pytest.approx(0.3, rel=0.2)
    assert evenly.calls > 1.1 * needed.calls
    assert needed.calls == int(float(f"{needed.calls:.2g}"))
    assert forecast.calls_for_error(by("uniform"), 3.9) == (40, "at most")
    assert forecast.calls_for_error(by("uniform"), 0.001) == (4000, "more than")


def test_reads_calls_between_budgets_in_logarithms() -> None:
    found = Forecast(nothing(40), estimating(40)).expected(by("uniform"), [400, 1600])
    high, low = (each.figure("worst_mean") for each in found.values())
    assert calls_for(float(np.sqrt(high * low)), found) == (800, "about")


@pytest.mark.parametrize("goal", [deciding(15, "score>=2"), deciding(8, "best", np.arange(8) // 2)])
def test_most_runs_decide_everything_within_the_calls_to_the_end(goal: Goal) -> None:
    pairs = len(goal.space)
    forecast = Forecast(nothing(pairs), goal)
    needed = forecast.calls_to_end(by("auto"), {})
    assert needed.relation == "about"
    longer = forecast.expected(by("auto"), [2 * needed.calls])[2 * needed.calls]
    within = (longer.measured["calls"] <= 1.3 * needed.calls).mean()
    assert within >= SHARE_WITHIN - 0.15
    assert longer.figure("certified_mean") > 0.9
    few = forecast.expected(by("auto"), [2 * pairs])[2 * pairs]
    assert few.figure("certified_mean") < longer.figure("certified_mean")


def test_the_same_seed_forecasts_the_same() -> None:
    one, other = (
        Forecast(nothing(60), estimating(60)).expected(by("two-priors"), [600])[600]
        for _ in range(2)
    )
    np.testing.assert_array_equal(one.measured["worst"], other.measured["worst"])


def test_simulates_whole_groups() -> None:
    group = np.repeat(np.arange(200), 3)
    seen: list[IntArray] = []

    def policy_at(budget: int, world: World) -> Policy:
        assert world.goal.groups is not None
        seen.append(np.bincount(world.goal.groups))
        return by("uniform")(budget, world)

    Forecast(nothing(600), deciding(600, "best", group)).expected(policy_at, [1200])
    assert set(seen[0].tolist()) == {3}
    assert 100 <= seen[0].sum() <= 130


def test_quantiles_stand_for_a_distribution() -> None:
    p = np.array([[0.1, 0.2, 0.3, 0.15, 0.25]])
    (values,) = quantiles(p, Scale(1, 5))
    np.testing.assert_allclose(np.bincount(values.astype(int), minlength=6)[1:] / len(values), p[0])
