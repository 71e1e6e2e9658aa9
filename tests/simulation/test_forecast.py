"""What a forecast says beforehand, against what then happens."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from robin_cli.analysis.court import Court
from robin_cli.goals.base import Goal
from robin_cli.goals.own.decide import Best, Threshold
from robin_cli.goals.own.estimate import Estimate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.simulation import forecast as module
from robin_cli.simulation.forecast import (
    RUNS,
    Expected,
    Known,
    Needed,
    Outlook,
    PolicyAt,
    RatingsBelief,
    _Sample,
    budget_for,
    calls_for,
    calls_of_a_search,
    forecast,
    foresee,
    largest_normal,
    quantiles,
    shares,
)
from robin_cli.simulation.rating_model import draw_distributions, fit_mixture, spread_of
from robin_cli.simulation.runs import Ratings, simulate
from tests.analysis.paper import paper_pools

SCALE = Scale(0, 4)


def space_of(pairs: int, scales: tuple[Scale, ...] = (SCALE,), judges: int = 1) -> ArmSpace:
    return ArmSpace(
        [str(k) for k in range(pairs)],
        "abcdef"[: len(scales)],
        [str(j) for j in range(judges)],
        scales,
    )


def believing(
    *counts: IntArray, scales: tuple[Scale, ...] = (SCALE,), task: Task | None = None
) -> RatingsBelief:
    return RatingsBelief(
        [Known(each, fit_mixture(each)) for each in counts],
        goal_of(space_of(len(counts[0]), scales), task),
    )


def goal_of(space: ArmSpace, task: Task | None = None) -> Goal:
    return Estimate(space, "worst-case") if task is None else Threshold(task.space, task)


def by(scheduler: str, seen: list[int] | None = None) -> PolicyAt:
    def policy_at(budget: int, variances: FloatArray, goal: Goal) -> Policy:
        if seen is not None:
            seen.append(len(variances))
        setup = Setup(len(goal.space), budget, SCALE, variances=variances, task=goal.task)
        return policy_by_scale(scheduler, setup, goal.space.by_scale())

    return policy_at


def refused(*_: object) -> None:
    """A policy for no budget."""


def rated(truth: Ratings, times: int, rng: np.random.Generator) -> IntArray:
    """Counts of ``times`` ratings of every pair."""
    drawn = truth.draw(np.repeat(np.arange(len(truth.sizes))[:, None], times, axis=1), rng)
    return np.stack([(drawn == level).sum(axis=1) for level in range(5)], axis=1)


@pytest.mark.parametrize(
    ("name", "scheduler"),
    [("gpt-4.1-nano/correctness", "robin-hood"), ("llama-3-1-8b/verbosity", "uniform")],
)
def test_forecasts_the_error_from_three_calls_a_pair(name: str, scheduler: str) -> None:
    # Measured over all eight pools, pilots of 3, 6 and 20 calls and 10 to 100 calls a pair: 0.79 to 1.16 of the truth.
    rng = np.random.default_rng(5)
    truth = Ratings.of(paper_pools()[name].ratings[:300])
    budgets = [25 * 300, 50 * 300]
    foreseen = forecast(believing(rated(truth, 3, rng)), by(scheduler), budgets, rng)
    policy = by(scheduler)(budgets[-1], truth.variances, goal_of(space_of(300)))
    assert policy is not None
    for snapshot in simulate(truth, policy, budgets, 20, rng):
        told = foreseen[snapshot.budget]
        assert 0.7 < told.figure("worst_mean") / snapshot.wce.mean() < 1.4
        assert 0.7 < told.figure("mean_mean") / snapshot.mean_error.mean() < 1.4


def searched(
    scheduler: str, counts: IntArray, error: float, *, least: int = 0, **how: Any
) -> Needed:
    rng = np.random.default_rng(3)
    return budget_for(
        error, believing(counts), by(scheduler), rng, least=max(least, len(counts)), **how
    )


@pytest.mark.parametrize(
    ("scheduler", "measure", "error"),
    [("robin-hood", "worst", 0.25), ("uniform", "worst", 0.15), ("two-priors", "mean", 0.06)],
)
def test_finds_the_budget_for_an_error(scheduler: str, measure: str, error: float) -> None:
    # Measured over two pools of 1,016 and of 60 pairs, three schedulers and errors of 0.4, 0.2 and 0.1: 0.8 to 1.3 times it.
    rng = np.random.default_rng(5)
    truth = Ratings.of(paper_pools()["gpt-4.1-nano/correctness"].ratings[:100])
    found = searched(scheduler, rated(truth, 6, rng), error, measure=measure)
    policy = by(scheduler)(found.calls, truth.variances, goal_of(space_of(100)))
    assert policy is not None
    (seen,) = simulate(truth, policy, [found.calls], 20, rng)
    reached = seen.wce if measure == "worst" else seen.mean_error
    assert found.relation == "about"
    assert 0.75 < reached.mean() / error < 1.3
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.calls <= found.high
    assert found.low < found.high < 2 * found.low


def test_says_how_far_the_simulations_own_noise_leaves_the_budget_open() -> None:
    counts = np.tile([[5, 0, 0, 0, 5]], (100, 1))
    found = searched("uniform", counts, 0.3)
    (there,) = forecast(
        believing(counts), by("uniform"), [found.calls], np.random.default_rng(4)
    ).values()
    # The error falls as the root of the calls: ± 1.96 standard errors of it are twice as much of them.
    open_to_noise = np.log((found.high or 0) / (found.low or 1))
    assert open_to_noise == pytest.approx(
        2 * 2 * 1.96 * there.figure("worst_sem") / there.figure("worst_mean"), rel=0.4
    )


def test_says_where_the_search_for_a_budget_ends() -> None:
    varied = np.tile([[5, 0, 0, 0, 5]], (20, 1))
    assert searched("uniform", varied, 3.9) == Needed(20, "at most", 20, 20)
    assert searched("uniform", varied, 3.0, least=700) == Needed(
        700, "at most", 700, 700
    )  # of a pilot
    more = Needed.beyond(calls_of_a_search(20))
    assert searched("uniform", varied, 0.01) == more
    assert budget_for(0.1, believing(varied), refused, np.random.default_rng(0), least=20) == more
    assert (calls_of_a_search(300), calls_of_a_search(3)) == (
        600_000,
        100_000,
    )  # at least as for fifty pairs


def expected(errors: dict[int, float]) -> dict[int, Expected]:
    return {
        budget: Expected(False, 5, measured={"worst": np.full(16, worst)})
        for budget, worst in errors.items()
    }


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
    noisy = expected({1000: 0.40, 2000: 0.30, 4000: 0.31})  # more calls are never said to be worse
    assert calls_for(0.305, noisy) == Needed(1900, "about")
    assert calls_for(0.25, noisy) == Needed(4000, "more than")


def test_forecasts_each_budget_but_those_that_would_take_minutes() -> None:
    many, few = np.tile([[0, 0, 1, 2, 1]], (2000, 1)), np.tile([[1, 0, 0, 0, 1]], (5, 1))
    rng = np.random.default_rng(0)
    assert list(forecast(believing(many), by("uniform"), [2000, 2001], rng)) == [
        2000,
        2001,
    ]  # of the same share
    assert list(forecast(believing(few), by("robin-hood"), [5000, 10**9], rng)) == [5000]


@pytest.mark.parametrize(
    ("arms", "budget", "steps", "simulated"),
    [
        (2000, 4_000, 1_000, 500),
        (2000, 4_000, 20_000, 1000),
        (2000, 400_000, 1_000, 50),
        (30, 600, 10, 30),
    ],
)
def test_simulates_as_many_arms_as_the_steps_allow(
    arms: int, budget: int, steps: int, simulated: int
) -> None:
    seen: list[int] = []
    belief = believing(np.tile([[0, 0, 1, 2, 1]], (arms, 1)))
    forecast(belief, by("uniform", seen), [budget], np.random.default_rng(0), steps=steps)
    assert seen == [simulated * RUNS]


COIN, EVEN = np.array([0.5, 0, 0, 0, 0.5]), np.full(5, 0.2)


def errors_of(distributions: list[tuple[FloatArray, int]], calls: int) -> FloatArray:
    """How far the mean of ``calls`` ratings of each arm is off, in 4,000 runs; so many arms of each distribution."""
    rng = np.random.default_rng(11)
    levels = np.arange(5)
    return np.concatenate(
        [
            np.abs(rng.multinomial(calls, p, (4000, arms)) @ levels / calls - p @ levels)
            for p, arms in distributions
        ],
        axis=1,
    )


def often(*distributions: tuple[FloatArray, int]) -> IntArray:
    """Counts of arms rated so often that nothing is open about how they vary."""
    return np.concatenate(
        [np.tile((40_000 * p).astype(np.int64), (arms, 1)) for p, arms in distributions]
    )


def evenly(belief: RatingsBelief, budget: int) -> Expected:
    return forecast(belief, by("uniform"), [budget], np.random.default_rng(2))[budget]


@pytest.mark.parametrize("calls", [9, 25])
def test_foresees_what_an_even_spread_reaches(calls: int) -> None:
    belief = believing(often((COIN, 30), (EVEN, 30)))
    (known,) = belief.known
    # what the mixture can say of these distributions, for its means and spreads are those of a grid
    drawn = draw_distributions(known.counts[[0, 30]], known.weights, np.random.default_rng(0))
    errors = errors_of([(drawn[0], 30), (drawn[1], 30)], calls)
    told = evenly(belief, 60 * calls)
    for measure, true in (("worst", errors.max(axis=1)), ("mean", errors.mean(axis=1))):
        assert abs(told.figure(f"{measure}_mean") - true.mean()) < 4 * told.figure(f"{measure}_sem")
        assert told.figure(f"{measure}_sem") == pytest.approx(true.std() / np.sqrt(30), rel=0.4)


def test_foresees_the_worst_of_more_pairs_than_it_simulates() -> None:
    belief = believing(often((EVEN, 4000)))
    (known,) = belief.known
    (drawn,) = draw_distributions(known.counts[:1], known.weights, np.random.default_rng(0))
    errors = np.stack(
        [
            errors_of([(drawn, 1)], 50).reshape(-1)[
                np.random.default_rng(k).integers(4000, size=4000)
            ]
            for k in range(50)
        ]
    )
    told = evenly(belief, 200_000)
    assert told.figure("worst_mean") == pytest.approx(errors.max(axis=1).mean(), rel=0.06)
    assert told.figure("mean_mean") == pytest.approx(errors.mean(), rel=0.03)


def test_foresees_shares_of_the_scale_where_there_are_several() -> None:
    coins, wide = often((COIN, 20)), np.tile([[20_000, *[0] * 8, 20_000]], (20, 1))
    alone = evenly(believing(coins), 200)
    for other, scale in ((coins, Scale(10, 14)), (wide, Scale(1, 10))):
        # not the same scale, so errors are shares; the mean of forty arms is that of twenty
        told = evenly(believing(coins, other, scales=(SCALE, scale)), 400)
        assert told.figure("mean_mean") == pytest.approx(alone.figure("mean_mean") / 4, rel=0.1)
        assert told.figure("worst_mean") <= 1


def test_foresees_no_error_wider_than_the_scale() -> None:
    # mostly the lowest rating: after one call the arms that got the highest are off by most of the scale, and the largest
    # error of so many more than are simulated would come to more than all of it
    one = often((np.array([0.6, 0.2, 0.1, 0.06, 0.04]), 30_000))
    for scales, widest in (((SCALE, Scale(10, 14)), 1), ((SCALE,), 4), ((Scale(1, 5),), 4)):
        told = evenly(believing(*[one] * len(scales), scales=scales), 30_000 * len(scales))
        assert told.figure("worst_mean") == pytest.approx(widest), scales
        assert told.figure("mean_mean") < widest / 2, scales


def test_divides_pairs_among_sizes_as_evenly_as_whole_numbers_go() -> None:
    for sizes, total in (([3, 3, 3], 7), ([1000, 10, 500], 100), ([5], 3), ([4, 4], 8)):
        parts = shares(sizes, total)
        assert sum(parts) == total
        assert all(
            abs(part - total * size / sum(sizes)) < 1
            for part, size in zip(parts, sizes, strict=True)
        )


def test_lays_out_distributions_and_knows_their_spread_and_their_largest() -> None:
    p = np.array([0.1, 0.25, 0.0, 0.6, 0.05])
    (values,) = quantiles(p[None, :], Scale(1, 5))
    assert [np.sum(values == level) for level in range(1, 6)] == [20, 50, 0, 120, 10]
    for count in (2, 10, 1000):
        # the level that one of so many passes on average
        assert count * 2 * stats.norm.sf(largest_normal(count)) == pytest.approx(1.0), count
    assert largest_normal(1) == largest_normal(2)
    weights = fit_mixture(often((COIN, 50), (EVEN, 50)))
    drawn = draw_distributions(
        np.zeros((20_000, 5), dtype=np.int64), weights, np.random.default_rng(0)
    )
    means = drawn @ np.arange(5)
    for found, exact in zip(
        spread_of(weights, SCALE),
        (means.var(), (drawn @ np.arange(5) ** 2 - means**2).mean()),
        strict=True,
    ):
        assert found == pytest.approx(exact, rel=0.05)


def to_decide(
    text: str,
    pairs: int,
    *,
    group: IntArray | None = None,
    attributes: int = 1,
    judges: int = 1,
    margin: float = 0.2,
) -> Task:
    space = space_of(pairs, (SCALE,) * attributes, judges)
    decision = decision_of(text, space.attributes, space.scales, margin=margin, error_rate=0.05)
    return Task(decision, space, group)


def decided(scheduler: str, counts: IntArray, task: Task, budgets: list[int]) -> Outlook:
    rng = np.random.default_rng(3)
    return foresee(
        believing(counts, task=task), by(scheduler), budgets, rng, evenly=scheduler == "uniform"
    )


@pytest.mark.parametrize(
    ("scheduler", "text"),
    [("auto", "a>=3"), ("uniform", "a>=3"), pytest.param("auto", "best", marks=pytest.mark.whole)],
)
def test_foresees_wrong_and_certified_decisions_and_the_end_from_a_pilot(
    scheduler: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pilots of 3 calls over pools of the paper: 0.7 to 2.5 times the wrong ones, see docs/evidence/budget.md.
    pairs, margin, runs = (
        (60, 0.4, 16) if text == "a>=3" else (24, 0.6, 12)
    )  # the best of groups takes longer
    monkeypatch.setattr(module, "RUNS", runs)
    truth = Ratings.of(paper_pools()["gpt-4.1-nano/helpfulness"].ratings[::5][:pairs])
    task = to_decide(
        text, pairs, group=np.arange(pairs) // 4 if text == "best" else None, margin=margin
    )
    budgets = [each * pairs for each in (3, 6, 60)]
    told = decided(scheduler, rated(truth, 10, np.random.default_rng(5)), task, budgets)
    verdict = None
    for budget in budgets:
        policy = by(scheduler)(budget, truth.variances, goal_of(task.space, task))
        assert policy is not None
        (snapshot,) = simulate(
            truth, policy, [budget], runs, np.random.default_rng(4), court=partial(Court, task)
        )
        verdict, foreseen = snapshot.verdict, told.expected[budget]
        assert verdict is not None
        wrong = verdict.wrong.mean()
        slack = 4 * np.hypot(foreseen.figure("wrong_sem"), verdict.wrong.std() / np.sqrt(runs))
        assert abs(foreseen.figure("wrong_mean") - wrong) <= max(slack, 0.6 * wrong)
        assert abs(foreseen.figure("certified_mean") - verdict.certified.mean()) < 0.15
        assert foreseen.figure("calls_mean") == pytest.approx(verdict.calls.mean(), rel=0.3)
    assert verdict is not None
    assert told.end is not None
    if scheduler != "uniform":
        assert told.end.relation == "about"
        assert told.end.low is not None
        assert told.end.high is not None
        assert told.end.low < told.end.calls < told.end.high
        assert 0.9 * verdict.calls.mean() < told.end.calls < 2 * verdict.calls.mean()


def test_the_end_is_the_calls_within_which_nine_of_ten_runs_end() -> None:
    pairs, further = 20, 200
    truth = Ratings.of(paper_pools()["gpt-4.1-nano/helpfulness"].ratings[::50][:pairs])
    counts, task = rated(truth, 3, np.random.default_rng(5)), to_decide("a>=3", pairs)
    belief = believing(counts, task=task)
    ends = [
        foresee(belief, by("auto"), [60], np.random.default_rng(3), end_spread=each).end
        for each in (0.0, belief.end_spread)
    ]
    world, variances = belief.worlds(pairs, further, np.random.default_rng(9))
    policy = by("auto")(20_000, variances[:pairs], belief.goal)
    assert policy is not None
    options: dict[str, Any] = {"worlds": further, "court": partial(Court, task)}
    (whole,) = simulate(
        world.ratings, policy, [20_000], further, np.random.default_rng(4), **options
    )
    assert whole.verdict is not None
    exact, doubted = (each.calls if each else 0 for each in ends)
    assert 0.84 < (whole.verdict.calls <= exact).mean() < 0.96
    assert belief.end_spread == pytest.approx(0.5 / np.sqrt(3))
    assert exact < doubted <= 1.01 * exact * np.exp(stats.norm.ppf(0.9) * belief.end_spread)
    assert believing(10 * counts, task=task).end_spread == pytest.approx(0.5 / np.sqrt(30))
    assert believing(0 * counts, task=task).end_spread == 0.17  # a prior alone


def test_foresees_the_share_of_wrong_decisions_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CALLS_TO_THE_END", 20)  # it is not about the end
    pairs = 400
    boundaries = (np.arange(1, 5) - 0.5) / 4  # a rounded normal variable, as the mixture has them
    p = np.diff([0.0, *stats.norm.cdf(boundaries, 0.5525, 0.02 * 200 ** (10 / 19)), 1.0])
    counts = np.tile((20_000 * p).round().astype(np.int64), (pairs, 1))
    sum_of_nine = [1.0]
    for _ in range(9):
        sum_of_nine = np.convolve(sum_of_nine, p).tolist()
    wrong = sum(sum_of_nine[: 9 * 2])  # below the threshold of 2, where the mean is above
    told = decided("uniform", counts, to_decide("a>=2", pairs, margin=0.1), [9 * pairs]).expected[
        9 * pairs
    ]
    assert 0.2 < wrong < 0.4
    assert told.figure("decisions_sum") == 300 * 30
    assert told.figure("wrong_mean") == pytest.approx(wrong, abs=4 * told.figure("wrong_sem"))
    assert told.figure("wrong_sem") == pytest.approx(
        np.sqrt(wrong * (1 - wrong) / 300 / 30), rel=0.5
    )


def test_says_when_everything_is_decided_or_that_it_looks_no_further(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clear = decided(
        "auto", np.tile([[0, 0, 0, 0, 40]], (60, 1)), to_decide("a>=2", 60), [600, 60_000]
    )
    assert clear.end is not None
    whole = clear.expected[60_000]
    assert (whole.figure("wrong_mean"), whole.figure("certified_mean"), clear.end.relation) == (
        0,
        1,
        "about",
    )
    assert whole.figure("calls_mean") < 20 * 60
    assert clear.end.calls == pytest.approx(whole.figure("calls_mean"), rel=0.01)

    skewed = np.tile(
        [[0, 1, 2, 9, 28]], (2000, 1)
    )  # an even spread goes on until the last, and more pairs take longer
    ends = [decided("uniform", skewed[:n], to_decide("a>=2", n), [5 * n]).end for n in (200, 2000)]
    assert [each and each.relation for each in ends] == ["about", "more than"]

    monkeypatch.setattr(module, "_CALLS_TO_THE_END", 300)
    coins = np.tile(
        [[20, 0, 0, 0, 20]], (40, 1)
    )  # the costliest ratings, at the threshold, and hardly any margin
    open_ = decided("auto", coins, to_decide("a>=2", 40, margin=0.01), [400])
    assert open_.end is not None
    assert open_.end.relation == "more than"
    assert open_.end.calls >= 300 * 40 * 0.5
    assert open_.expected[400].figure("calls_mean") == 400

    none = foresee(
        believing(coins, task=to_decide("a>=2", 40)), refused, [400], np.random.default_rng(0)
    )
    assert not none.expected
    assert none.end is not None
    assert none.end.relation == "more than"


def test_simulates_whole_groups_of_all_sizes_in_their_proportions() -> None:
    sizes = np.repeat([1, 2, 5], [200, 400, 200])
    group = np.random.default_rng(0).permutation(np.repeat(np.arange(800), sizes))
    task = to_decide("best", len(group), group=group, attributes=2, judges=3, margin=0.1)
    sample = _Sample(Best(task.space, task), 400 * 6)
    drawn = sample.pairs(np.random.default_rng(1))
    group_of = sample.goal.groups
    assert group_of is not None
    taken = np.bincount(group_of)
    assert len(drawn) == len(set(drawn.tolist())) == taken.sum()
    assert taken.sum() * 6 <= 1000  # arms are simulated at most, however many are asked for
    assert Counter(taken.tolist()) == {
        size: pytest.approx(part, abs=1) for size, part in ((1, 16.6), (2, 33.3), (5, 16.6))
    }
    for number, size in enumerate(taken):
        (mine,) = set(group[drawn[group_of == number]].tolist())
        assert np.bincount(group)[mine] == size

    few = to_decide("best", 5001, group=np.append(np.arange(5000), 4999), margin=0.1)
    part = _Sample(Best(few.space, few), 20).goal  # however few groups have something to decide
    assert part.task is not None
    assert part.task.decisions == 1


def test_foresees_panels_of_several_attributes() -> None:
    pairs = 12
    task = to_decide("a>=2,b<=2", pairs, attributes=2, judges=2)
    high, low = np.tile([[0, 0, 0, 10, 30]], (pairs, 1)), np.tile([[30, 10, 0, 0, 0]], (pairs, 1))
    budgets = [2 * 4 * pairs, 40 * 4 * pairs]
    told = foresee(
        believing(high, high, low, low, task=task), by("auto"), budgets, np.random.default_rng(3)
    )
    whole = told.expected[budgets[1]]
    assert (whole.figure("certified_mean"), whole.figure("wrong_mean")) == (
        1,
        0,
    )  # kept by both: each judge's arms as they are
    assert told.end is not None
    assert told.end.calls < budgets[1]
