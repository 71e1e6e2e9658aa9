"""Forecasts of a run before it is made: the experiment on judges drawn from a belief about its arms.

The belief is a prior, the ratings of an earlier run, or the run's own pilot. Each simulated run draws a judge of its own. If
there are many pairs, only some are simulated, in whole groups, with their share of the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Protocol

import numpy as np
from scipy.special import ndtri

from robin_cli.goals.base import Goal
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy
from robin_cli.simulation.experiment import Measured, World, spend
from robin_cli.simulation.rating_model import assumed_mixture, draw_distributions, fit_mixture
from robin_cli.simulation.runs import Ratings

RUNS = 30
"""Simulated runs; each draws anew how the pairs vary."""

QUANTILES = 200
"""Ratings that stand for a distribution."""

_ARMS_AT_MOST, _ARMS_AT_LEAST = 1_000, 50
_STEPS_AT_MOST, _STEPS_OF_A_SEARCH = 200_000, 50_000
_CALLS_OF_A_SEARCH = 2_000
"""Calls of each arm up to which a budget for an error is searched."""

_ARMS_FIRST = 20
_STEPS_TO_THE_END, _ARMS_EVENLY = (40_000, 6_000), (300, 60)
"""If each arm is judged by itself, and if several are together, each of which takes more time."""

_CALLS_TO_THE_END = 1_000
"""Calls of each arm up to which the end of a run is searched."""

_END_SPREAD, _END_SPREAD_FROM, _END_SPREAD_OF_PRIOR = 0.5, 3, 0.17
"""Error of the forecast end with thresholds: the standard deviation of its logarithm times the root of the ratings of an arm,
and the ratings from which on it falls; without ratings, the standard deviation itself: the prior is wide, and its end late
(python -m benchmarks.decisions). The best of groups is drawn from so few arms that these leave enough open."""

SHARE_WITHIN = 0.9
"""Share of runs that end within the forecast calls to the end."""

_POINTS = 12
_FIT_ROWS = 20_000
_LEAST = 1e-6
_NOISE = 1.96
"""Standard errors to either side of a 95 % interval."""

PolicyAt = Callable[[int, FloatArray, Goal], Policy | None]
"""Returns the policy for a budget of the whole run; None if it refuses the budget. Takes the variances that it may know of the
simulated arms (its initial ones, else the true ones), and the goal over these arms."""


class Belief(Protocol):
    """A belief about a judge before a run; ``goal``: that of the whole run."""

    @property
    def goal(self) -> Goal: ...

    def worlds(self, arms: int, runs: int, rng: np.random.Generator) -> tuple[World, FloatArray]:
        """Return a judge for each run, of about ``arms`` arms, and the variances that a policy may know of them."""
        ...


@dataclass(frozen=True, slots=True)
class Known:
    """A belief about the arms of one attribute and judge before a run.

    Attributes:
        counts: number of times that each arm got each rating, shape (pairs, levels); zeros without ratings.
        weights: of the mixture they come from, see :func:`robin_cli.simulation.rating_model.fit_mixture`.
        variances: the scheduler's initial ones, shape (pairs,); None if it has none. All arms of a run have them, or none.
    """

    counts: IntArray
    weights: FloatArray
    variances: FloatArray | None = None

    @classmethod
    def of(cls, counts: IntArray, rng: np.random.Generator) -> Known:
        """Return the belief by each pair's ratings, shape (pairs, levels); with many pairs the mixture is fitted to some."""
        return cls(counts, fit_mixture(rng.permutation(counts)[:_FIT_ROWS]))

    @classmethod
    def nothing(cls, pairs: int, scale: Scale, attribute: str) -> Known:
        """Return a prior: the pairs vary as those of the paper did at this attribute."""
        return cls(np.zeros((pairs, scale.levels), dtype=np.int64), assumed_mixture(attribute))


@dataclass(frozen=True, slots=True)
class RatingsBelief:
    """A belief about a judge that rates: for each attribute and judge, in the order of a pair's arms."""

    known: Sequence[Known]
    goal: Goal

    @property
    def end_spread(self) -> float:
        """The standard deviation of the logarithm of the calls to the end, beyond that between the drawn judges."""
        if not self.known or _several(self.goal):
            return 0.0
        each = min(known.counts.sum() / len(known.counts) for known in self.known)
        return (
            _END_SPREAD / math.sqrt(max(_END_SPREAD_FROM, each)) if each else _END_SPREAD_OF_PRIOR
        )

    def worlds(self, arms: int, runs: int, rng: np.random.Generator) -> tuple[World, FloatArray]:
        """Draw pairs without replacement for each run, and their rating distributions from the posterior of each."""
        sample = _Sample(self.goal, arms)
        drawn = []
        for _ in range(runs):
            pairs = sample.pairs(rng)
            drawn.append((pairs, self._ratings(pairs, rng)))
        values = np.concatenate([each for _, each in drawn])
        units = np.tile(sample.goal.space.units, runs)
        ratings = Ratings(values, np.full(len(values), QUANTILES), units)
        begun = [each.variances for each in self.known if each.variances is not None]
        known = ratings.variances
        if begun:
            known = np.stack(begun, axis=1)[np.concatenate([pairs for pairs, _ in drawn])].ravel()
        return World(ratings, sample.goal, runs), known

    def _ratings(self, pairs: IntArray, rng: np.random.Generator) -> FloatArray:
        """Return ratings of all arms of ``pairs`` as quantiles, shape (arms, QUANTILES), pair by pair."""
        of_each = [
            quantiles(
                # Results that depend on the distance of means to a threshold must not depend on the grid's own means.
                draw_distributions(each.counts[pairs], each.weights, rng, between=self.goal.ends),
                self.goal.space.scale_of(place),
            )
            for place, each in enumerate(self.known)
        ]
        return np.stack(of_each, axis=1).reshape(-1, QUANTILES)


class _Sample:
    """Some of the pairs of a run, or of its groups.

    Attributes:
        goal: the goal over as many pairs; group sizes have the proportions that they have in the run.
    """

    def __init__(self, goal: Goal, arms: int) -> None:
        space, group = goal.space, goal.groups
        pairs = len(space.pair_ids)
        wanted = min(pairs, max(1, min(arms, _ARMS_AT_MOST) // space.arms_per_pair))
        # Pairs that are simulated together, a row for each group, by the size of their group.
        self._together = [np.arange(pairs)[:, None]] if group is None else _groups_by_size(group)
        units = [len(each) for each in self._together]
        self._taken = shares(units, max(1, round(sum(units) * wanted / pairs)))
        self._taken[-1] = max(1, self._taken[-1])  # else there might be nothing to decide
        sizes = np.repeat([each.shape[1] for each in self._together], self._taken)
        ids = [str(number) for number in range(sizes.sum())]
        groups = None if group is None else np.repeat(np.arange(len(sizes)), sizes)
        self.goal = goal.over(replace(space, pair_ids=ids), groups)

    def pairs(self, rng: np.random.Generator) -> IntArray:
        """Return pairs drawn without replacement."""
        drawn = [
            units[np.sort(rng.permutation(len(units))[:taken])]
            for units, taken in zip(self._together, self._taken, strict=True)
        ]
        return np.concatenate([each.ravel() for each in drawn])


def _groups_by_size(group: IntArray) -> list[IntArray]:
    """Return the pairs of each group, a row for each group, one array for each size of groups, rising."""
    by_group = np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1])
    sizes = np.array([len(each) for each in by_group])
    return [
        np.stack([by_group[each] for each in np.flatnonzero(sizes == size)])
        for size in np.unique(sizes)
    ]


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """Return ``total`` divided among ``sizes`` in proportion, as evenly as whole numbers allow."""
    ends = np.floor(np.cumsum(sizes) * total / sum(sizes) + 0.5).astype(np.int64)
    return [int(each) for each in np.diff(ends, prepend=0)]


def quantiles(distributions: FloatArray, scale: Scale) -> FloatArray:
    """Return quantiles of each distribution over the scale, shape (size, QUANTILES)."""
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES
    values = np.full((len(distributions), QUANTILES), float(scale.low))
    for below in distributions.cumsum(axis=1).T[:-1]:
        values += places > below[:, None]
    return values


@dataclass(frozen=True, slots=True)
class Expected(Measured):
    """The results of a budget: each simulated run's measures, scaled to a run of all arms.

    Attributes:
        is_over: whether every run ended before its budget was spent.
        arms: of each simulated run.
    """

    is_over: bool
    arms: int


def simulated(
    belief: Belief,
    some: float,
    policy_at: PolicyAt,
    budgets: Sequence[int],
    rng: np.random.Generator,
    *,
    rounds: int | None = None,
    most: float = math.inf,
) -> dict[int, Expected]:
    """Spend each of ``budgets`` on judges drawn from ``belief``, of about ``some`` of the arms; by budget, rising.

    Calls grow in proportion to the arms, the largest error like the largest of as many normal variables. Budgets that the
    policy refuses, and those of more than ``most`` calls, are left out.
    """
    world, known = belief.worlds(int(some), RUNS, rng)
    space, arms = world.goal.space, len(belief.goal.space)
    size = len(space)
    low, high = space.ends
    widest = float(((high - low) / space.units).max())
    further = largest_normal(arms) / largest_normal(size)
    found = {}
    for budget, snapshot in spend(
        *(world, lambda budget: policy_at(budget, known, world.goal), budgets, RUNS, rng),
        rounds=rounds,
        share=size / arms,
        most=most,
    ):
        each, is_over = world.measured(snapshot), False
        if "wce" in each:
            worst = further * each.pop("wce")
            each["worst"] = worst * min(1.0, widest / (worst.mean() or widest))
        if belief.goal.ends:
            is_over = bool((each["calls"] < snapshot.budget).all())
            each["calls"] = each["calls"] * (arms / size)
        found[budget] = Expected(is_over, size, measured=each)
    return dict(sorted(found.items()))


def forecast(
    belief: Belief,
    policy_at: PolicyAt,
    budgets: Sequence[int],
    rng: np.random.Generator,
    *,
    steps: int = _STEPS_AT_MOST,
    rounds: int | None = None,
) -> Mapping[int, Expected]:
    """Simulate runs of every budget, which end when it is spent.

    Args:
        budgets: calls in all, rising, each at least the number of arms.
        steps: about this many calls are simulated in a run, if that leaves enough arms.
        rounds: number of rounds in which the calls go out; None for one call at a time.
    """
    arms = len(belief.goal.space)
    some = min(arms, _ARMS_AT_MOST, max(_ARMS_AT_LEAST, steps * arms // max(budgets)))
    return simulated(belief, some, policy_at, budgets, rng, rounds=rounds, most=_STEPS_AT_MOST)


@dataclass(frozen=True, slots=True)
class Needed:
    """Calls needed: ``about`` this number, ``at most`` the smallest budget simulated, or ``more than`` the largest.

    Attributes:
        low, high: 95 % interval for the noise of the simulation; ``high`` is None if it is unbounded.
    """

    calls: int
    relation: Literal["about", "at most", "more than"]
    low: int | None = None
    high: int | None = None

    @classmethod
    def beyond(cls, calls: int) -> Needed:
        """Return the statement that it takes more than ``calls``, whatever the noise."""
        return cls(calls, "more than", calls)


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast of a scheduler.

    Attributes:
        expected: by budget, rising: those requested, and more in between for a run that ends by itself.
        end: calls within which SHARE_WITHIN of the runs end, with a 95 % interval; None if it does not end by itself.
    """

    expected: Mapping[int, Expected]
    end: Needed | None = None


def foresee(
    belief: Belief,
    policy_at: PolicyAt,
    budgets: Sequence[int],
    rng: np.random.Generator,
    *,
    least: int | None = None,
    evenly: bool = False,
    rounds: int | None = None,
    end_spread: float = 0.0,
) -> Outlook:
    """Simulate runs of every budget, and to their end if they have one.

    Args:
        budgets: calls in all, rising, each at least the number of arms.
        least: the smallest budget in between; None for the smallest of ``budgets``.
        evenly: the policy also asks about arms that are settled, so more calls are simulated.
        rounds: see :func:`forecast`. No budget in between is then simulated, and the end is that of one call at a time.
        end_spread: error of the end beyond that of the simulation, see :attr:`RatingsBelief.end_spread`.
    """
    if not belief.goal.ends:
        return Outlook(forecast(belief, policy_at, budgets, rng, rounds=rounds))
    arms, first, last = len(belief.goal.space), least or budgets[0], budgets[-1]
    several = _several(belief.goal)
    most = max(last, calls_to_the_end(arms))

    def run(size: float, further: Sequence[int]) -> dict[int, Expected]:
        wanted = sorted({*budgets, *further}) if rounds is None or evenly else budgets
        return simulated(belief, size, policy_at, wanted, rng, rounds=None if evenly else rounds)

    def grid(end: float) -> list[int]:
        return [round(each) for each in np.geomspace(first, max(first, end), _POINTS).tolist()]

    if evenly:
        found = run(_ARMS_EVENLY[several], [*grid(last), *[most] * (not several)])
        return Outlook(found, _end(found[max(found)], arms, end_spread, evenly=True))
    # A few pairs first: they show how far it is to the end, and so how many pairs there is time for.
    few = simulated(belief, _ARMS_FIRST, policy_at, [most], rng).get(most)
    if few is None:  # the policy refuses this budget, and so any smaller one
        return Outlook({}, Needed.beyond(most))
    to_end = few.figure("calls_mean") if few.is_over else math.inf
    is_near = to_end <= last and rounds is None
    size = _STEPS_TO_THE_END[several] * arms / min(to_end, last)
    found = run(size, [*grid(min(last, 1.2 * to_end)), *[most] * is_near])
    return Outlook(found, _end(found[most] if is_near else few, arms, end_spread))


def calls_to_the_end(arms: int) -> int:
    """Return the calls up to which the end of a run is searched."""
    return _CALLS_TO_THE_END * arms


def _several(goal: Goal) -> bool:
    """Return whether arms are decided together."""
    return goal.groups is not None or len(goal.space.judges) > 1


def _end(found: Expected, arms: int, end_spread: float, *, evenly: bool = False) -> Needed:
    """Return the calls within which SHARE_WITHIN of runs of all ``arms`` end; their sums vary less than those of some arms.

    They are quantiles of a lognormal variable with the mean and the variance of these runs, and ``end_spread`` besides. An
    even spread goes on until the last arm is decided, which takes longer the more there are.
    """
    calls, grown = found.figure("calls_mean"), arms / found.arms
    if not found.is_over or (evenly and grown > 1):
        return Needed.beyond(_rounded(calls))
    variance = math.log1p(
        float(found.measured["calls"].var(ddof=1)) * (1 / grown + 1 / RUNS) / calls**2
    )
    spread = math.hypot(math.sqrt(variance), end_spread)
    within, low, high = (
        _rounded(calls * math.exp(each * spread - variance / 2))
        for each in (ndtri(SHARE_WITHIN), -_NOISE, _NOISE)
    )
    return Needed(within, "about", low, high)


def _rounded(calls: float) -> int:
    """Round to three significant digits."""
    return int(float(f"{calls:.3g}"))


def calls_for(
    error: float, expected: Mapping[int, Expected], measure: str = "worst", *, shift: float = 0.0
) -> Needed:
    """Return the calls after which the error is about ``error``.

    They are interpolated between the budgets, linearly in logarithms, to two significant digits, and never beyond them: a
    scheduler that leaves steady pairs alone does not improve with the square root of the calls.

    Args:
        expected: by calls, rising.
        shift: number of standard errors of the simulation to add to its means.
    """
    budgets = np.array(list(expected), dtype=np.float64)
    errors = [
        each.figure(f"{measure}_mean") + shift * each.figure(f"{measure}_sem")
        for each in expected.values()
    ]
    # More calls never make it worse: a rise is the noise of the simulation.
    falling = np.minimum.accumulate(errors)
    if error >= falling[0]:
        return Needed(int(budgets[0]), "at most")
    if error < falling[-1]:
        return Needed(int(budgets[-1]), "more than")
    calls = np.exp(np.interp(-np.log(error), -np.log(np.maximum(falling, _LEAST)), np.log(budgets)))
    return Needed(int(float(f"{calls:.2g}")), "about")


def calls_of_a_search(arms: int) -> int:
    """Return the largest budget that :func:`budget_for` tries."""
    return _CALLS_OF_A_SEARCH * max(arms, _ARMS_AT_LEAST)


def budget_for(
    error: float,
    belief: Belief,
    policy_at: PolicyAt,
    rng: np.random.Generator,
    *,
    least: int,
    measure: str = "worst",
    evenly: bool = False,
    rounds: int | None = None,
) -> Needed:
    """Return the budget that brings the error to ``error``, searched from ``least`` up to :func:`calls_of_a_search`.

    The range grows fourfold at a time, so that as many arms are simulated as a budget allows.

    Args:
        evenly: the policy takes whole rounds at once, so more arms can be simulated.
        rounds: see :func:`forecast`.
    """
    arms = len(belief.goal.space)
    most = max(least, calls_of_a_search(arms))
    first, last = least, min(max(16 * arms, 2 * least), most)
    expected: dict[int, Expected] = {}
    steps = _STEPS_AT_MOST if evenly else _STEPS_OF_A_SEARCH

    def found(start: int, end: int, points: int) -> Needed:
        budgets = np.unique(np.geomspace(start, end, points).round().astype(np.int64)).tolist()
        for budget in [budget for budget in expected if start <= budget <= end]:
            del expected[budget]
        expected.update(forecast(belief, policy_at, budgets, rng, steps=steps, rounds=rounds))
        if not expected:  # the scheduler needs a larger budget
            return Needed.beyond(end)
        rising = dict(sorted(expected.items()))
        needed, low, high = (
            calls_for(error, rising, measure, shift=shift) for shift in (0.0, -_NOISE, _NOISE)
        )
        return replace(
            needed, low=low.calls, high=None if high.relation == "more than" else high.calls
        )

    while (about := found(first, last, 9)).high is None and last < most:
        first, last = max(least, last // 8), min(4 * last, most)
    if about.relation != "about" or about.high is None:
        return about
    # Once more nearby: the error falls more steeply from where a scheduler begins to adapt.
    return found(max(least, about.low or 0), about.high, 9)


def largest_normal(count: int) -> float:
    """Return about the largest absolute value of ``count`` standard normal variables, at least 2: Φ⁻¹(1 − 1/(2·count))."""
    return float(ndtri(1.0 - 0.5 / max(2, count)))
