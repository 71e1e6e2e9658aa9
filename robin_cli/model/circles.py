"""Whether systems go in a circle: whether who beats whom is more than a strength of each system explains.

Beside the strengths β each couple of systems may have an effect of its own, u ~ N(0, σ²), in log odds. With y the mean of the n
comparisons of a couple, p what the fitted strengths expect, and v = n p (1 − p), r = (y − p) / (p (1 − p)) is about normal
about (β_i − β_j) + u less what was fitted, with variance φ/v. With β normal, too, with standard deviation _WIDE,
    e = mean over σ of N(r; 0, φ/v + σ² + _WIDE² D Dᵀ) / N(r; 0, φ/v + _WIDE² D Dᵀ),
D being the differences that couples are of. That is a ratio of likelihoods: whoever was asked, and whenever one looks, it is 1
on average if there are no such effects. So it is ever 1/ALARM or more in a share of ALARM of all runs at most (Ville's
inequality; Ramdas, Grünwald, Vovk and Shafer, "Game-theoretic statistics and safe anytime-valid inference", Statistical
Science 38, 2023).
As p and φ are estimated it holds about: benchmarks/tournaments.py --circles measures it.

φ is how much preferences scatter within couples, over what single votes would: effects of couples are not in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR, chance, fit, wins_of

ALARM = 0.02
"""Of runs without effects of couples, the share in which some are found, looked at however often."""

_EFFECTS = (0.25, 0.5, 1.0)
_WIDE = 4.0
_PRIOR_COMPARISONS = 16.0
_EQUAL = 1e-9
_MOST_TRIED = 500
_MOST_LOG = 700.0


class Circle(NamedTuple):
    """Systems that no strengths explain.

    Attributes:
        systems: three by number, each preferred to the next and the last to the first; none where no three are.
        rates: in how many of their comparisons, from 0 to 1.
        evidence: e; 1/ALARM or more.
    """

    systems: tuple[int, ...]
    rates: tuple[float, ...]
    evidence: float


def circle(preference: FloatArray, system: IntArray, systems: int) -> Circle | None:
    """The three systems that most clearly go in a circle; None where strengths explain the preferences.

    Args:
        preference: for A, from 0 to 1, shape (C,); nan without one.
        system: of A and of B by number, shape (C, 2).
    """
    there = ~np.isnan(preference) & (system[:, 0] != system[:, 1])
    y, system = preference[there], system[there]
    wins = wins_of(y, system, systems)
    couple = np.nonzero(np.triu(wins + wins.T))
    if len(couple[0]) < systems:
        return None
    n = (wins + wins.T)[couple]
    known = wins + 0.5 * PRIOR
    np.fill_diagonal(known, 0.0)
    strength = fit(known).values
    expected = chance(strength[couple[0]] - strength[couple[1]])
    single = expected * (1.0 - expected)
    rate = wins[couple] / n
    low, high = np.sort(system, axis=1).T
    of_low = np.where(low == system[:, 0], y, 1.0 - y)
    rates = np.full((systems, systems), np.nan)
    rates[couple] = rate
    scatter = float(((of_low - rates[low, high]) ** 2).sum())
    few = 0.25 * _PRIOR_COMPARISONS
    dispersion = (scatter + few) / (float(((n - 1.0) * single).sum()) + few)
    variance, residual = dispersion / (n * single), (rate - expected) / single
    without = _log_likelihood(couple, residual, variance, systems)
    each = [_log_likelihood(couple, residual, variance + effect**2, systems) - without for effect in _EFFECTS]
    evidence = float(np.exp(np.minimum(each, _MOST_LOG)).mean())
    if evidence < 1.0 / ALARM:
        return None
    rates[couple[::-1]] = 1.0 - rate
    return Circle(*_clearest(rates, wins + wins.T, strength), evidence)


def _log_likelihood(couple: tuple[IntArray, ...], residual: FloatArray, variance: FloatArray, systems: int) -> float:
    """ln N(residual; 0, variance + _WIDE² D Dᵀ), less a constant, by way of the equations of the strengths."""
    weight = np.zeros((systems, systems))
    weight[couple] = 1.0 / variance
    slope = np.zeros_like(weight)
    slope[couple] = residual / variance
    weight, slope = weight + weight.T, (slope - slope.T).sum(axis=1)
    precision = np.diag(weight.sum(axis=1) + _WIDE**-2) - weight
    explained = slope @ np.linalg.solve(precision, slope)
    squares = float((residual**2 / variance).sum()) - explained
    return -0.5 * float(np.log(variance).sum() + np.linalg.slogdet(precision)[1] + squares)


def _clearest(rates: FloatArray, votes: FloatArray, strength: FloatArray) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """Three systems in a circle and the rates of it, whose least clear preference is the clearest; nothing where none are."""
    beats = np.nan_to_num((rates - 0.5) * np.sqrt(votes), nan=-np.inf)
    weaker, stronger = np.nonzero((beats > 0) & (strength[:, None] <= strength + _EQUAL))  # each circle has one
    found: tuple[int, ...] = ()
    clearest = 0.0
    for place in np.argsort(-beats[weaker, stronger], kind="stable")[:_MOST_TRIED]:
        i, j = int(weaker[place]), int(stronger[place])
        back = np.minimum(beats[j], beats[:, i])
        k = int(back.argmax())
        if (clear := min(float(back[k]), float(beats[i, j]))) > clearest:
            found, clearest = (i, j, k), clear
    return found, tuple(float(rates[i, j]) for i, j in zip(found, (*found[1:], *found[:1]), strict=True))
