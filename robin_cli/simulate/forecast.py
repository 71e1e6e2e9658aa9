"""Forecasts of a run before it is made: the experiment on judges drawn from a prior, or from an earlier run's ratings.

Each simulated run draws a judge of its own. Of many pairs only some are simulated, in whole groups, with their share of the
budget. All results are rounded to two digits: more would only be the noise of the simulation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from robin_cli.goals.base import Goal
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy
from robin_cli.simulate.experiment import MeasuredRuns, World, spend
from robin_cli.simulate.rating_model import assumed_mixture, draw_distributions, fit_mixture
from robin_cli.simulate.runs import DrawnRatings

RUNS = 20
"""Simulated runs; each draws anew how the pairs vary."""

QUANTILES = 200
"""Ratings that stand for a distribution."""

SHARE_WITHIN = 0.9
"""Share of the simulated runs that end within the forecast calls."""

_MOST_ARMS, _FEWEST_ARMS, _CALLS = 120, 40, 2_500
"""The arms of a simulated run, and about how many of its calls are simulated if that leaves enough arms."""

_SEARCHED, _SEARCHED_BEST = 100, 30
"""Calls per arm up to which a forecast looks for the goal; for the best of groups, whose evidence takes longer to compute."""

_LOOK_GROWTH = 1.1
"""Growth of the calls between two looks at decisions, for which a run takes 1 or 3 %: a look takes as long as many calls."""

_BLOCKS = 8
"""A simulated run chooses this share of its arms at a time: one by one takes minutes, and brings hardly less."""

_POINTS = 10
_FITTED_PAIRS = 20_000

PolicyAt = Callable[[int, World], Policy]
"""Returns the policy of a world's runs for a budget of the whole run."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of an attribute and judge: how often each pair got each rating, (pairs, levels), and the mixture."""

    counts: IntArray
    weights: FloatArray

    @classmethod
    def from_counts(cls, counts: IntArray, rng: np.random.Generator) -> Known:
        """Return what each pair's ratings say; with many pairs the mixture is fitted to some."""
        return cls(counts, fit_mixture(rng.permutation(counts)[:_FITTED_PAIRS]))

    @classmethod
    def nothing(cls, pairs: int, scale: Scale, attribute: str) -> Known:
        """Return a prior from the paper's pairs at this attribute."""
        return cls(np.zeros((pairs, scale.levels), dtype=np.int64), assumed_mixture(attribute))


class Needed(NamedTuple):
    """Calls that reach a goal: ``about`` so many, ``at most`` or ``more than``."""

    calls: int
    relation: str


class Forecast:
    """Simulates a run with budgets and schedulers; ``known``: of each attribute and judge, in the order of a pair's arms."""

    def __init__(self, known: Sequence[Known], goal: Goal) -> None:
        self._known, self._goal = known, goal
        self._arms = len(goal.space)

    def simulated_arms(self, budget: int) -> int:
        """Return about how many arms are simulated for ``budget`` calls of the whole run."""
        return min(self._arms, max(_FEWEST_ARMS, min(_MOST_ARMS, _CALLS * self._arms // budget)))

    def expected(self, policy_at: PolicyAt, budgets: Sequence[int]) -> dict[int, MeasuredRuns]:
        """Return what each of ``budgets`` brings, scaled to all arms; ``over``: whether a run ends before it is spent."""
        rng = np.random.default_rng(0)
        world = self._world(self.simulated_arms(max(budgets)), rng)
        share = len(world.goal.space) / self._arms
        by_budget = {}
        for budget, snapshot in spend(
            *(world, lambda budget: policy_at(budget, world), budgets, RUNS, rng),
            share=share,
            block=max(1, len(world.goal.space) // _BLOCKS),
            look_growth=_LOOK_GROWTH,
        ):
            measured = world.measured(snapshot)
            if "wce" in measured:
                measured["worst"] = self._worst_of_all(measured.pop("wce"), world.goal)
            if "calls" in measured:
                measured["over"] = np.array(measured["calls"] < snapshot.budget, np.float64)
                measured["calls"] = measured["calls"] / share
            by_budget[budget] = MeasuredRuns(measured=measured)
        return dict(sorted(by_budget.items()))

    def calls_for_error(self, policy_at: PolicyAt, error: float) -> Needed:
        """Return the calls that bring the largest error to ``error``; the range of the search grows fourfold at a time."""
        least, most = self._arms, _SEARCHED * self._arms
        last = min(16 * self._arms, most)
        while True:
            grid = np.geomspace(least, last, _POINTS).round().astype(np.int64)
            needed = calls_for(error, self.expected(policy_at, np.unique(grid).tolist()))
            if needed.relation != "more than" or last >= most:
                return needed
            least, last = last // 4, min(4 * last, most)

    def calls_to_end(self, policy_at: PolicyAt, expected: Mapping[int, MeasuredRuns]) -> Needed:
        """Return the calls within which SHARE_WITHIN of the runs end by themselves, looked for beyond ``expected``, too."""
        most = self._arms * (_SEARCHED if self._goal.groups is None else _SEARCHED_BEST)
        last = max(expected, default=0)
        if last < most and (not last or expected[last].figure("over_mean") < SHARE_WITHIN):
            last, expected = most, self.expected(policy_at, [most])
        if expected[last].figure("over_mean") < SHARE_WITHIN:
            return Needed(two_digits(last), "more than")
        calls = float(np.quantile(expected[last].measured["calls"], SHARE_WITHIN))
        return Needed(max(self._arms, two_digits(calls)), "about")

    def _world(self, arms: int, rng: np.random.Generator) -> World:
        """Return a judge for each run, of the same pairs: their rating distributions are drawn from the posterior."""
        pairs, goal = _sample(self._goal, arms, rng)
        values = np.concatenate([self._ratings(pairs, rng) for _ in range(RUNS)])
        units = np.tile(goal.space.units, RUNS)
        return World(DrawnRatings(values, np.full(len(values), QUANTILES), units), goal, RUNS)

    def _ratings(self, pairs: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return ratings of all arms of ``pairs`` as quantiles, shape (arms, QUANTILES), pair by pair.

        A judge of which nothing is known rates as the first one does.
        """
        space, columns = self._goal.space, list[FloatArray]()
        for at, known in enumerate(self._known):
            if (judge := space.judge.item(at)) and not known.counts.any():
                columns.append(columns[at - judge])
                continue
            drawn = draw_distributions(known.counts[pairs], known.weights, rng)
            columns.append(quantiles(drawn, space.scale_of(at)))
        return np.stack(columns, axis=1).reshape(-1, QUANTILES)

    def _worst_of_all(self, worst: FloatArray, simulated: Goal) -> FloatArray:
        """Scale the largest error of some arms to that of all, as if errors were normal; at most the scale's width."""
        low, high = simulated.space.ends
        widest = float(((high - low) / simulated.space.units).max())
        grown = largest_normal(self._arms) / largest_normal(len(simulated.space))
        return np.minimum(widest, worst * grown)


def _sample(goal: Goal, arms: int, rng: np.random.Generator) -> tuple[IntArray, Goal]:
    """Return about as many pairs as have so many ``arms``, in whole groups, and the goal over them."""
    space, pairs = goal.space, len(goal.space.pair_ids)
    group = np.arange(pairs) if goal.groups is None else goal.groups
    sizes = np.bincount(group)
    order = rng.permutation(len(sizes))
    # groups of one come last: they have nothing to decide
    order = order[np.argsort(sizes[order] < 2, kind="stable")]
    wanted = min(pairs, max(1, arms // space.arms_per_pair))
    enough = int(np.searchsorted(np.cumsum(sizes[order]), wanted)) + 1
    chosen = np.flatnonzero(np.isin(group, order[:enough]))
    renumbered = np.unique(group[chosen], return_inverse=True)[1]
    some = replace(space, pair_ids=[str(number) for number in chosen])
    return chosen, goal.over(some, None if goal.groups is None else renumbered)


def quantiles(distributions: FloatArray, scale: Scale) -> FloatArray:
    """Return quantiles of each distribution over the scale, shape (size, QUANTILES)."""
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES
    values = np.full((len(distributions), QUANTILES), float(scale.low))
    for below in distributions.cumsum(axis=1).T[:-1]:
        values += places > below[:, None]
    return values


def calls_for(error: float, expected: Mapping[int, MeasuredRuns]) -> Needed:
    """Return the calls after which the largest error is ``error``, interpolated between the budgets in logarithms."""
    budgets = np.array(list(expected), dtype=np.float64)
    errors = [runs.figure("worst_mean") for runs in expected.values()]
    falling = np.minimum.accumulate(errors)  # more calls never hurt: a rise is noise
    if error >= falling[0]:
        return Needed(int(budgets[0]), "at most")
    if error < falling[-1]:
        return Needed(two_digits(budgets[-1]), "more than")
    calls = np.exp(np.interp(-np.log(error), -np.log(np.maximum(falling, 1e-6)), np.log(budgets)))
    return Needed(two_digits(float(calls)), "about")


def largest_normal(count: int) -> float:
    """Return about the largest absolute value of ``count`` standard normal variables, at least 2: Φ⁻¹(1 − 1/(2·count))."""
    return float(ndtri(1.0 - 0.5 / max(2, count)))


def two_digits(value: float) -> int:
    """Round a number of calls to two digits."""
    return int(float(f"{value:.2g}"))
