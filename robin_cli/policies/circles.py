"""Tests for a circle of systems: preferences between them that a strength of each cannot explain.

Beside the strengths β, each matchup of systems may have an effect of its own, u ~ N(0, σ²), in log odds. Let y be the mean
of the n comparisons of a matchup, p its expectation by the fitted strengths, and v = n p (1 − p). Then
r = (y − p) / (p (1 − p)) is about normal with mean (β_i − β_j) + u less the fitted
difference, and with variance φ/v. If β is normal too, with standard deviation _WIDE,
    e = mean over σ of N(r; 0, φ/v + σ² + _WIDE² D Dᵀ) / N(r; 0, φ/v + _WIDE² D Dᵀ),
where D maps strengths to the matchups' differences. This is a ratio of likelihoods. Without such effects it is 1 on average,
whatever was asked and whenever you look. So it reaches 1/ALARM in at most a share of ALARM of all runs (Ville's inequality;
Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical Science 38, 2023).
As p and φ are estimated, this holds approximately: benchmarks/tournaments.py --circles measures it.

φ is the variance of preferences within matchups, divided by that of single votes. It has no effects of matchups.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.bradley_terry import PRIOR, chance, fit, wins_of

ALARM = 0.02
"""The share of runs without effects of matchups in which some are found, however often you look."""

_EFFECTS = (0.25, 0.5, 1.0)
_WIDE = 4.0
_PRIOR_COMPARISONS = 16.0
_EQUAL = 1e-9
_MOST_TRIED = 500
_MOST_LOG = 700.0


class Circle(NamedTuple):
    """Systems whose preferences no strengths explain.

    Attributes:
        systems: three by number, each preferred to the next and the last to the first; empty if no three are.
        rates: the share of their comparisons in which each is preferred, 0 to 1.
        evidence: e, at least 1/ALARM.
    """

    systems: tuple[int, ...]
    rates: tuple[float, ...]
    evidence: float


def circle(
    preference: FloatArray, system: IntArray, systems: int, strength: FloatArray | None = None
) -> Circle | None:
    """Return the clearest circle of three systems; None if strengths explain the preferences.

    Args:
        preference: for A, 0 to 1, shape (C,); nan without one.
        system: numbers of A's and B's system, shape (C, 2).
        strength: of the systems by these votes, with PRIOR ties of every two; None to fit it.
    """
    is_counted = ~np.isnan(preference) & (system[:, 0] != system[:, 1])
    y, system = preference[is_counted], system[is_counted]
    wins = wins_of(y, system, systems)
    matchup = np.nonzero(np.triu(wins + wins.T))
    if len(matchup[0]) < systems:
        return None
    n = (wins + wins.T)[matchup]
    if strength is None:
        strength = fit(wins + 0.5 * PRIOR).values
    expected = chance(strength[matchup[0]] - strength[matchup[1]])
    single = expected * (1.0 - expected)
    rate = wins[matchup] / n
    low, high = np.sort(system, axis=1).T
    of_low = np.where(low == system[:, 0], y, 1.0 - y)
    rates = np.full((systems, systems), np.nan)
    rates[matchup] = rate
    scatter = float(((of_low - rates[low, high]) ** 2).sum())
    few = 0.25 * _PRIOR_COMPARISONS
    dispersion = (scatter + few) / (float(((n - 1.0) * single).sum()) + few)
    variance, residual = dispersion / (n * single), (rate - expected) / single
    without = _log_likelihood(matchup, residual, variance, systems)
    log_ratios = [
        _log_likelihood(matchup, residual, variance + effect**2, systems) - without
        for effect in _EFFECTS
    ]
    evidence = float(np.exp(np.minimum(log_ratios, _MOST_LOG)).mean())
    if evidence < 1.0 / ALARM:
        return None
    rates[matchup[::-1]] = 1.0 - rate
    return Circle(*_clearest(rates, wins + wins.T, strength), evidence)


def _log_likelihood(
    matchup: tuple[IntArray, ...], residual: FloatArray, variance: FloatArray, systems: int
) -> float:
    """Return ln N(residual; 0, variance + _WIDE² D Dᵀ), less a constant, from the normal equations of the strengths."""
    weight = np.zeros((systems, systems))
    weight[matchup] = 1.0 / variance
    slope = np.zeros_like(weight)
    slope[matchup] = residual / variance
    weight, slope = weight + weight.T, (slope - slope.T).sum(axis=1)
    precision = np.diag(weight.sum(axis=1) + _WIDE**-2) - weight
    explained = slope @ np.linalg.solve(precision, slope)
    squares = float((residual**2 / variance).sum()) - explained
    return -0.5 * float(np.log(variance).sum() + np.linalg.slogdet(precision)[1] + squares)


def _clearest(
    rates: FloatArray, votes: FloatArray, strength: FloatArray
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Return the circle of three whose least clear preference is the clearest, with its rates; empty without a circle."""
    beats = np.nan_to_num((rates - 0.5) * np.sqrt(votes), nan=-np.inf)
    # every circle has such a step
    weaker, stronger = np.nonzero((beats > 0) & (strength[:, None] <= strength + _EQUAL))
    best: tuple[int, ...] = ()
    clearest = 0.0
    for place in np.argsort(-beats[weaker, stronger], kind="stable")[:_MOST_TRIED]:
        i, j = int(weaker[place]), int(stronger[place])
        back = np.minimum(beats[j], beats[:, i])
        k = int(back.argmax())
        if (clear := min(float(back[k]), float(beats[i, j]))) > clearest:
            best, clearest = (i, j, k), clear
    return best, tuple(
        float(rates[i, j]) for i, j in zip(best, (*best[1:], *best[:1]), strict=True)
    )
