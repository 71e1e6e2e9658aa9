"""Strengths of systems from their wins, by the model of Bradley and Terry: P(i beats j) = 1 / (1 + exp(β_j − β_i)).

Strengths are natural logarithms, of mean 0. The difference of two is the log odds between them; times 173.7 it is Elo points.
A tie is half a win for each side (Bradley and Terry, "Rank analysis of incomplete block designs", Biometrika 39, 1952).

The maximum likelihood exists if a chain of wins leads from every system to every other (Ford, "Solution of a ranking problem
from binary comparisons", American Mathematical Monthly 64, 1957). It is infinite if, say, one never lost; then PRIOR ties are
added for every two systems that were compared.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray

PRIOR = 0.5
"""Ties for each two compared systems, if the votes alone would make a strength infinite."""

_PRECISION = 1e-12
_ROUNDING = 1e-14
_STEPS = 500
_NOTHING = 1e-12
"""A smaller share of wins, of the votes between two systems, is rounding."""


class NotConnected(ValueError):
    """Some systems have no common scale, because no chain of comparisons connects them.

    ``parts``: the numbers of the systems of each connected part; the part with the first system comes first.
    """

    def __init__(self, parts: list[list[int]]) -> None:
        super().__init__(f"{len(parts)} parts of the systems were never compared with one another")
        self.parts = parts


class Strengths(NamedTuple):
    """β of mean 0, shape (m,), and whether the votes alone bound all of them; if not, ``values`` include the prior."""

    values: FloatArray
    is_bounded: bool


def fit(wins: FloatArray) -> Strengths:
    """Return the strengths that make the votes most likely.

    Args:
        wins: ``wins[i, j]``: votes for i against j, shape (m, m). Ties count half for each, fractions are allowed, and the
            diagonal is not read.

    Raises:
        NotConnected: no chain of comparisons leads from some systems to others.
    """
    from scipy.sparse.csgraph import connected_components

    wins = wins - np.diag(np.diag(wins))
    votes = wins + wins.T
    parts, part = connected_components(votes > 0, directed=False)
    if parts > 1:
        numbers = dict.fromkeys(part.tolist())
        raise NotConnected([np.flatnonzero(part == number).tolist() for number in numbers])
    chains, _ = connected_components(wins > _NOTHING * votes, connection="strong")
    is_bounded = chains == 1
    return Strengths(_most_likely(wins if is_bounded else with_prior(wins)), is_bounded)


def with_prior(wins: FloatArray) -> FloatArray:
    """Return the wins with PRIOR ties more for each two compared systems, and nothing on the diagonal."""
    compared = wins + wins.T > 0
    np.fill_diagonal(compared, val=False)
    return np.asarray(np.where(compared, wins + 0.5 * PRIOR, 0.0))


def _most_likely(wins: FloatArray) -> FloatArray:
    """Maximize the likelihood by Newton's method; it is concave, so steps are halved until it grows."""
    votes, m = wins + wins.T, len(wins)
    strength = np.zeros(m)
    likelihood = _log_likelihood(wins, strength)
    for _ in range(_STEPS):
        chance = win_chances(strength)
        slope = wins.sum(axis=1) - (votes * chance).sum(axis=1)
        known = information(votes, chance)
        # its average in the null direction, the sum of all strengths
        known += max(float(np.trace(known)) / m, np.finfo(np.float64).tiny) / m
        step = np.linalg.solve(known, slope)
        step -= step.mean()
        least = likelihood - _ROUNDING * abs(likelihood)
        while (likelihood := _log_likelihood(wins, strength + step)) < least:
            step = 0.5 * step
        strength = strength + step
        if np.abs(step).max() < _PRECISION * max(1.0, np.abs(strength).max()):
            break
    return np.asarray(strength - strength.mean())


def chance(log_odds: FloatArray) -> FloatArray:
    """Return the probability with these log odds."""
    small = np.exp(-np.abs(log_odds))
    return np.asarray(np.where(log_odds < 0.0, small, 1.0) / (1.0 + small))


def win_chances(strength: FloatArray) -> FloatArray:
    """Return P(i beats j), shape (m, m)."""
    return chance(strength[:, None] - strength[None, :])


def information(votes: FloatArray, chance: FloatArray) -> FloatArray:
    """Return Fisher's information of the strengths, Σ n_ij p_ij p_ji (e_i − e_j)(e_i − e_j)ᵀ over every two; shape (m, m).

    Args:
        votes: between every two, symmetric, shape (m, m).
        chance: the result of :func:`win_chances`.
    """
    weight = votes * chance * chance.T
    np.fill_diagonal(weight, 0.0)
    return np.asarray(np.diag(weight.sum(axis=1)) - weight)


def of_differences(covariance: FloatArray) -> FloatArray:
    """Return the variance of the difference of every two, (e_i − e_j)ᵀ C (e_i − e_j), shape (m, m)."""
    variance = np.diag(covariance)
    return np.asarray(np.maximum(variance[:, None] + variance - 2.0 * covariance, 0.0))


def _log_likelihood(wins: FloatArray, strength: FloatArray) -> float:
    behind = strength[None, :] - strength[:, None]
    return -float((wins * (np.maximum(behind, 0.0) + np.log1p(np.exp(-np.abs(behind))))).sum())


def wins_of(preference: FloatArray, system: IntArray, systems: int) -> FloatArray:
    """Return the ``wins`` of comparisons that count as one vote each.

    Args:
        preference: A's share of the vote, shape (C,).
        system: numbers of A's and B's system, shape (C, 2).
    """
    a, b = system.T
    wins = np.bincount(a * systems + b, preference, systems**2) + np.bincount(
        b * systems + a, 1 - preference, systems**2
    )
    return np.asarray(wins.reshape(systems, systems), dtype=np.float64)
