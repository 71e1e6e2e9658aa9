"""How far off the scores of a run will be, before it is made: the run simulated on pairs like those it will meet."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import ndtri

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.allocation.policies import Policy, Uniform
from robin_cli.records import Scale
from robin_cli.statistics.rating_model import draw_distributions
from robin_cli.statistics.simulation import Ratings, simulate

RUNS = 30
"""Simulated runs, each on a draw of its own of how the pairs vary."""

_ARMS_AT_MOST = 1_000
_ARMS_AT_LEAST = 50
_STEPS_AT_MOST = 200_000
_QUANTILES = 200

PolicyAt = Callable[[int, FloatArray], Policy | None]
"""The policy for a budget, given the variances that it may know of the simulated arms: those that :class:`Known` has, else
the true ones; None for a budget that it refuses."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the arms of one attribute before a run.

    Attributes:
        counts: how often each arm got each rating, shape (arms, levels); zeros where nothing is known.
        weights: of the mixture they come from, see :func:`robin_cli.statistics.rating_model.fit_mixture`.
        variances: those that the scheduler begins with, shape (arms,); None where it begins with none. All attributes or none.
    """

    counts: IntArray
    weights: FloatArray
    variances: FloatArray | None = None


@dataclass(frozen=True, slots=True)
class Expected:
    """What a scheduler reaches with ``budget`` calls; errors in points of the scale, means over simulated runs.

    Attributes:
        worst: the largest distance of a score from the judge's mean.
        worst_sem: its standard error over the runs.
        mean: that distance, averaged over the arms.
        runs: how many were simulated.
    """

    budget: int
    worst: float
    worst_sem: float
    mean: float
    runs: int


def forecast(
    known: Sequence[Known], scale: Scale, policy_at: PolicyAt, budgets: Sequence[int], rng: np.random.Generator
) -> Mapping[int, Expected]:
    """Simulate runs of every budget on arms like ``known``.

    Of more than 1,000 arms, or with very many calls, some arms are simulated, drawn anew for each run, with their share of the
    budget; the largest error is then scaled to all arms as the largest of so many normal variables grows.

    Args:
        known: by attribute.
        budgets: calls in all, rising, each at least the number of arms.

    Returns:
        By budget, rising; left out are budgets that the policy refuses, and those that would take too long to simulate.
    """
    arms = sum(len(each.counts) for each in known)
    simulated = min(arms, _ARMS_AT_MOST, max(_ARMS_AT_LEAST, _STEPS_AT_MOST * arms // max(budgets)))
    grown = _largest_normal(arms) / _largest_normal(simulated)
    worlds = [_world(known, simulated, rng) for _ in range(RUNS)]
    ratings = _ratings(np.concatenate([distributions for _, distributions in worlds]), scale)
    begun = [each.variances for each in known if each.variances is not None]
    told = np.concatenate(begun)[np.concatenate([chosen for chosen, _ in worlds])] if begun else ratings.variances
    expected = {}
    for policy, group in _by_warm_up(policy_at, budgets, told):
        shares = {budget: round(budget * simulated / arms) for budget in group}
        if not isinstance(policy, Uniform):  # which takes whole rounds at once
            shares = {
                budget: share for budget, share in shares.items() if share <= _STEPS_AT_MOST or budget == budgets[0]
            }
        reached = {
            each.budget: each for each in simulate(ratings, policy, list(shares.values()), RUNS, rng, worlds=RUNS)
        }
        for budget, share in shares.items():
            snapshot = reached[share]
            expected[budget] = Expected(
                budget=budget,
                worst=min(scale.high - scale.low, grown * float(snapshot.wce.mean())),
                worst_sem=grown * float(snapshot.wce.std(ddof=1)) / math.sqrt(RUNS),
                mean=float(snapshot.mean_error.mean()),
                runs=RUNS,
            )
    return dict(sorted(expected.items()))


@dataclass(frozen=True, slots=True)
class Needed:
    """Calls for an error: ``about`` so many, ``at most`` the smallest budget simulated, or ``more than`` the largest."""

    calls: int
    relation: Literal["about", "at most", "more than"]


def calls_for(error: float, expected: Mapping[int, Expected]) -> Needed:
    """After how many calls the largest error is about ``error``.

    Read off between the budgets, straight in logarithms, to two significant digits; never beyond them: a scheduler that leaves
    steady pairs alone does not get better with the square root of the calls.
    """
    budgets = np.array(list(expected), dtype=np.float64)
    # More calls never make it worse: what rises is the noise of the simulation.
    worst = np.minimum.accumulate([each.worst for each in expected.values()])
    if error >= worst[0]:
        return Needed(int(budgets[0]), "at most")
    if error < worst[-1]:
        return Needed(int(budgets[-1]), "more than")
    calls = np.exp(np.interp(-np.log(error), -np.log(worst), np.log(budgets)))
    return Needed(int(float(f"{calls:.2g}")), "about")


def _by_warm_up(
    policy_at: PolicyAt, budgets: Sequence[int], variances: FloatArray
) -> Iterator[tuple[Policy, list[int]]]:
    """Budgets whose policies are the same are simulated as one run; in theory mode the constants depend on the budget."""
    policies = [(policy_at(budget, variances), budget) for budget in budgets]
    groups: dict[int, tuple[Policy, list[int]]] = {}
    for policy, budget in policies:
        if policy is not None:
            groups.setdefault(policy.warm_up, (policy, []))[1].append(budget)
    yield from groups.values()


def _world(known: Sequence[Known], size: int, rng: np.random.Generator) -> tuple[IntArray, FloatArray]:
    """``size`` of the arms, and distributions of their ratings, shape (size, levels)."""
    offsets = np.cumsum([0, *(len(each.counts) for each in known)])
    chosen = np.sort(rng.permutation(offsets[-1])[:size])
    drawn = [
        draw_distributions(each.counts[chosen[(chosen >= start) & (chosen < end)] - start], each.weights, rng)
        for each, start, end in zip(known, offsets[:-1], offsets[1:], strict=True)
    ]
    return chosen, np.concatenate(drawn)


def _ratings(distributions: FloatArray, scale: Scale) -> Ratings:
    """Each distribution as its quantiles."""
    places = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    values = np.full((len(distributions), _QUANTILES), float(scale.low))
    for below in distributions.cumsum(axis=1).T[:-1]:
        values += places > below[:, None]
    return Ratings(values, np.full(len(distributions), _QUANTILES))


def _largest_normal(count: int) -> float:
    """About the largest absolute value of ``count`` standard normal variables, at least 2: Φ⁻¹(1 − 1/(2·count))."""
    return float(ndtri(1.0 - 0.5 / max(2, count)))
