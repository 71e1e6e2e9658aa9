"""How far off the scores of a run will be, before it is made: the run simulated on pairs like those it will meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from robin_cli.analysis.rating_model import draw_distributions
from robin_cli.analysis.simulation import Ratings, simulate
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy

RUNS = 30
"""Simulated runs, each on a draw of its own of how the pairs vary."""

_ARMS_AT_MOST = 1_000
_ARMS_AT_LEAST = 50
_STEPS_AT_MOST = 200_000
QUANTILES = 200
"""Ratings that a distribution is laid out as."""

_STEPS_OF_A_SEARCH = 50_000
_CALLS_AN_ARM_AT_MOST = 2_000
_LEAST = 1e-6
_NOISE = 1.96
"""Standard errors to either side that make 95 %."""

Measure = Literal["worst", "mean"]
"""The error over all pairs that is meant: the largest, or the average."""

PolicyAt = Callable[[int, FloatArray, Sequence[tuple[Scale, IntArray]]], Policy | None]
"""The policy for a budget, given the variances that it may know of the simulated arms (those that :class:`Known` has, else
the true ones), and each scale with the arms rated on it; None for a budget that it refuses."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the arms of one attribute before a run.

    Attributes:
        counts: how often each arm got each rating, shape (arms, levels); zeros where nothing is known.
        weights: of the mixture they come from, see :func:`robin_cli.analysis.rating_model.fit_mixture`.
        scale: the ratings there are.
        variances: those that the scheduler begins with, shape (arms,); None where it begins with none. All attributes or none.
    """

    counts: IntArray
    weights: FloatArray
    scale: Scale
    variances: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a scheduler reaches with ``budget`` calls; errors in points, means over simulated runs.

    Where the arms are rated on several scales, errors are shares of the width of each arm's own.

    Attributes:
        worst: the largest distance of a score from the judge's mean.
        mean: that distance, averaged over the arms.
        worst_sem, mean_sem: their standard errors over the runs.
        runs: how many were simulated.
    """

    budget: int
    worst: float
    worst_sem: float
    mean: float
    mean_sem: float
    runs: int


def forecast(
    known: Sequence[Known],
    policy_at: PolicyAt,
    budgets: Sequence[int],
    rng: np.random.Generator,
    *,
    steps: int = _STEPS_AT_MOST,
    rounds: int | None = None,
) -> Mapping[int, Expected]:
    """Simulate runs of every budget on arms like ``known``.

    Of more than 1,000 arms, or with very many calls, some arms are simulated, drawn anew for each run, with their share of the
    budget; the largest error is then scaled to all arms as the largest of so many normal variables grows.

    Args:
        known: by attribute.
        budgets: calls in all, rising, each at least the number of arms.
        steps: about so many calls a run are simulated, if that leaves enough arms.
        rounds: in which the calls go out; None: one call at a time.

    Returns:
        By budget, rising; left out are budgets that the policy refuses, and those that would take too long to simulate.
    """
    arms = sum(len(each.counts) for each in known)
    simulated = min(arms, _ARMS_AT_MOST, max(_ARMS_AT_LEAST, steps * arms // max(budgets)))
    grown = _largest_normal(arms) / _largest_normal(simulated)
    sizes = shares([len(each.counts) for each in known], simulated)
    worlds = [_world(known, sizes, rng) for _ in range(RUNS)]
    groups = _by_scale(known, sizes)
    units = np.ones(simulated)
    if len(groups) > 1:
        for scale, mine in groups:
            units[mine] = scale.high - scale.low
    widest = max((scale.high - scale.low) / units[mine[0]] for scale, mine in groups)
    values = np.concatenate([values for _, values in worlds])
    ratings = Ratings(values, np.full(len(values), QUANTILES), np.tile(units, RUNS))
    begun = [each.variances for each in known if each.variances is not None]
    told = np.concatenate(begun)[np.concatenate([chosen for chosen, _ in worlds])] if begun else ratings.variances
    expected = {}
    for policy, group in by_policy(lambda budget: policy_at(budget, told, groups), budgets):
        parts = {budget: round(budget * simulated / arms) for budget in group}
        if not policy.evenly:  # which takes whole rounds at once
            parts = {budget: part for budget, part in parts.items() if part <= _STEPS_AT_MOST or budget == budgets[0]}
        simulated_runs = simulate(ratings, policy, list(parts.values()), RUNS, rng, worlds=RUNS, rounds=rounds)
        reached = {each.budget: each for each in simulated_runs}
        for budget, part in parts.items():
            snapshot = reached[part]
            expected[budget] = Expected(
                budget=budget,
                worst=min(widest, grown * float(snapshot.wce.mean())),
                worst_sem=grown * float(snapshot.wce.std(ddof=1)) / math.sqrt(RUNS),
                mean=float(snapshot.mean_error.mean()),
                mean_sem=float(snapshot.mean_error.std(ddof=1)) / math.sqrt(RUNS),
                runs=RUNS,
            )
    return dict(sorted(expected.items()))


@dataclass(frozen=True, slots=True)
class Needed:
    """Calls for an error: ``about`` so many, ``at most`` the smallest budget simulated, or ``more than`` the largest."""

    calls: int
    relation: Literal["about", "at most", "more than"]


def calls_for(error: float, expected: Mapping[int, object], measure: str = "worst", *, shift: float = 0.0) -> Needed:
    """After how many calls the error is about ``error``.

    Read off between the budgets, straight in logarithms, to two significant digits; never beyond them: a scheduler that leaves
    steady pairs alone does not get better with the square root of the calls.

    Args:
        expected: by calls, rising.
        measure: what of it is meant; its standard error is there, too.
        shift: read it off so many standard errors of the simulation above its means.
    """
    budgets = np.array(list(expected), dtype=np.float64)
    errors = [getattr(each, measure) + shift * getattr(each, f"{measure}_sem") for each in expected.values()]
    # More calls never make it worse: what rises is the noise of the simulation.
    falling = np.minimum.accumulate(errors)
    if error >= falling[0]:
        return Needed(int(budgets[0]), "at most")
    if error < falling[-1]:
        return Needed(int(budgets[-1]), "more than")
    calls = np.exp(np.interp(-np.log(error), -np.log(np.maximum(falling, _LEAST)), np.log(budgets)))
    return Needed(int(float(f"{calls:.2g}")), "about")


@dataclass(frozen=True, slots=True)
class Found:
    """The budget for an error, of which the noise of the simulation leaves open from ``low`` to ``high``, with 95 %."""

    needed: Needed
    low: Needed
    high: Needed


def most_calls(arms: int) -> int:
    """The largest budget that :func:`budget_for` tries."""
    return _CALLS_AN_ARM_AT_MOST * max(arms, _ARMS_AT_LEAST)


def budget_for(
    error: float,
    known: Sequence[Known],
    policy_at: PolicyAt,
    rng: np.random.Generator,
    *,
    least: int,
    measure: Measure = "worst",
    cheap: bool = False,
    rounds: int | None = None,
) -> Found:
    """The budget with which the error comes to ``error``, searched from ``least`` up to :func:`most_calls`.

    Four times further at a time, so that as many arms are simulated as a budget allows.

    Args:
        cheap: the policy takes whole rounds at once, so more arms can be simulated.
        rounds: see :func:`forecast`.
    """
    arms = sum(len(each.counts) for each in known)
    most = max(least, most_calls(arms))
    first, last = least, min(max(16 * arms, 2 * least), most)
    expected: dict[int, Expected] = {}
    steps = _STEPS_AT_MOST if cheap else _STEPS_OF_A_SEARCH

    def found(start: int, end: int, points: int) -> Found:
        budgets = np.unique(np.geomspace(start, end, points).round().astype(np.int64)).tolist()
        for budget in [budget for budget in expected if start <= budget <= end]:
            del expected[budget]
        expected.update(forecast(known, policy_at, budgets, rng, steps=steps, rounds=rounds))
        if not expected:  # a scheduler that needs more to begin with
            return Found(*[Needed(end, "more than")] * 3)
        rising = dict(sorted(expected.items()))
        return Found(*(calls_for(error, rising, measure, shift=shift) for shift in (0.0, -_NOISE, _NOISE)))

    while (about := found(first, last, 9)).high.relation == "more than" and last < most:
        first, last = max(least, last // 8), min(4 * last, most)
    if about.needed.relation != "about" or about.high.relation != "about":
        return about
    # Once more nearby: where a scheduler begins to adapt the error falls more steeply than between the budgets so far.
    return found(max(least, about.low.calls), about.high.calls, 9)


def by_policy(policy_at: Callable[[int], Policy | None], budgets: Sequence[int]) -> Iterator[tuple[Policy, list[int]]]:
    """Budgets whose policies are the same are simulated as one run; in theory mode the constants depend on the budget."""
    groups: dict[tuple[str, int], tuple[Policy, list[int]]] = {}
    for budget in budgets:
        if (policy := policy_at(budget)) is not None:
            groups.setdefault((policy.said, policy.warm_up), (policy, []))[1].append(budget)
    yield from groups.values()


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """``total`` divided among ``sizes`` in their proportions, as evenly as whole numbers go."""
    ends = np.floor(np.cumsum(sizes) * total / sum(sizes) + 0.5).astype(np.int64)
    return [int(each) for each in np.diff(ends, prepend=0)]


def _by_scale(known: Sequence[Known], sizes: Sequence[int]) -> list[tuple[Scale, IntArray]]:
    """Each scale and the simulated arms rated on it, rising."""
    scales = [each.scale for each in known]
    return [
        (scale, np.flatnonzero(np.repeat([each == scale for each in scales], sizes))) for scale in dict.fromkeys(scales)
    ]


def _world(known: Sequence[Known], sizes: Sequence[int], rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """So many of the arms of each attribute, and their ratings as quantiles, shape (Σ sizes, QUANTILES)."""
    chosen, values = [], []
    offset = 0
    for each, size in zip(known, sizes, strict=True):
        mine = np.sort(rng.permutation(len(each.counts))[:size])
        chosen.append(mine + offset)
        values.append(quantiles(draw_distributions(each.counts[mine], each.weights, rng), each.scale))
        offset += len(each.counts)
    return np.concatenate(chosen), np.concatenate(values)


def quantiles(distributions: FloatArray, scale: Scale) -> FloatArray:
    """Of each distribution over the scale, shape (size, QUANTILES)."""
    places = (np.arange(QUANTILES) + 0.5) / QUANTILES
    values = np.full((len(distributions), QUANTILES), float(scale.low))
    for below in distributions.cumsum(axis=1).T[:-1]:
        values += places > below[:, None]
    return values


def _largest_normal(count: int) -> float:
    """About the largest absolute value of ``count`` standard normal variables, at least 2: Φ⁻¹(1 − 1/(2·count))."""
    return float(ndtri(1.0 - 0.5 / max(2, count)))
