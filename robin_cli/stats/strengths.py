"""Strengths of systems: those that make the preferences between their responses most likely, and their errors.

The model is that of Bradley and Terry (:mod:`robin_cli.policies.bradley_terry`), with each comparison counted once, however
often it was asked. Prompts are the sample: the responses to one are compared many times, so errors are sums by prompt. The
model need not hold, nor need votes be independent within a prompt.

With few prompts, or systems compared on few of them, sums of residuals are too small, as the model was fitted to them. So each
prompt's part is the change of the strengths without it, in one step of Newton's method:
    V = (G − 1)/G Σ_g δ_g δ_gᵀ,   δ_g = (H − H_g)⁻¹ s_g,
H being the information, H_g and s_g the prompt's part of it and of the slope (CR3 of Bell and McCaffrey, "Bias reduction in
standard errors for linear regression with multi-stage samples", Survey Methodology 28, 2002). Degrees of freedom are by
Satterthwaite, with the variances of the prompts' parts by the model. One more prompt is counted, with the model's variance of
single votes: if all preferences are equal, such as those of a judge that goes by the order alone, the next prompt may still
differ. If few prompts bear on a system, or if the votes alone would make a strength infinite, the variance is at least the
model's for single votes.
benchmarks/rankings.py measures the coverage.

If earlier verdicts chose what was compared, a system that is unlucky at first keeps its bad luck, and the likeliest strengths
are too far apart. A posterior does not depend on the choice (Rubin, "Inference and missing data", Biometrika 63, 1976). So
strengths then have a Cauchy prior with the scale τ (with a normal one, a system that is far off moves all others), and the log
likelihood ℓ is divided by φ, the mean of V over the variance of single votes, at least 1 if the votes alone would make a
strength infinite. τ is even between the ends of _SPREADS. Each has its evidence as weight, by Laplace's method (Tierney and
Kadane, "Accurate approximations for posterior moments and marginal densities", JASA 81, 1986), β being the mode:
    ln e = ℓ(β)/φ − Σ ln(τ + β²/τ) − ½ ln |H/φ + diag(2/(τ² + β²))|.
The covariance is Σ w (P⁻¹ + (β − β̄)(β − β̄)ᵀ). P has the prior's curvature in place of that of the normal one with the same
slope, for strengths whose sum is 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.bradley_terry import (
    chance,
    fit,
    of_differences,
    wins_of,
    with_prior,
)

_STEPS = 200
ENDLESS = 30.0
_LEAST_FREEDOM = 0.5
_CELLS_AT_A_TIME = 2**18
"""Numbers held for some prompts together. Products of larger matrices are shared out among threads, which takes longer."""
_FEWEST_ROWS = 16
_MOST_OF = 1.0 - 1e-9
"""The most of a prompt's information that is left out: if it has all there is, no equations would be left."""

_SPREADS = 0.05 * 2.0 ** (0.5 * np.arange(15))
"""τ: each √2 times the one before."""
_CLOSE, _NEAR = 1e-6, 0.1
"""Precision of a mode, and the step from which on the rest is short."""
_LEAST_WEIGHT = 1e-4
_LEAST_CURVATURE = 0.01
"""Over the precision of the normal distribution with the prior's slope: in its tails the prior bends the other way."""

_FEW = 4.0
"""Degrees of freedom below which the variance is at least the model's."""


@dataclass(frozen=True, slots=True)
class Votes:
    """Comparisons of two systems, each counted once: ``y`` is the share of the vote for system ``a``, the rest is for ``b``.

    ``prompt``: number from 0, below ``prompts``.
    """

    y: FloatArray
    a: IntArray
    b: IntArray
    prompt: IntArray
    prompts: int
    systems: int


def votes_of(preference: FloatArray, system: IntArray, prompt: IntArray, systems: int) -> Votes:
    """Return the comparisons of two systems that have a preference."""
    between = ~np.isnan(preference) & (system[:, 0] != system[:, 1])
    prompts, number = np.unique(prompt[between], return_inverse=True)
    a, b = system[between].T
    return Votes(preference[between], a, b, np.asarray(number), len(prompts), systems)


@dataclass(frozen=True, slots=True)
class Errors:
    """Errors of the strengths for prompts like these.

    Attributes:
        clustered, modelled: their covariance by prompt, and that by the model, shape (m, m) each.
        freedom, freedom_apart: degrees of freedom of each one's variance, (m,), and of the difference of every two, (m, m).
        is_bounded: as of the ranking.
    """

    clustered: FloatArray
    modelled: FloatArray
    freedom: FloatArray
    freedom_apart: FloatArray
    is_bounded: bool

    def variance(
        self, variance_of: Callable[[FloatArray], FloatArray], freedom: FloatArray
    ) -> FloatArray:
        """Return the variance of linear combinations of the strengths, of any shape.

        ``variance_of`` maps a covariance of the strengths to it.
        """
        clustered, modelled = variance_of(self.clustered), variance_of(self.modelled)
        tells_little = (freedom < _FEW) | (not self.is_bounded)
        return np.asarray(np.where(tells_little, np.maximum(clustered, modelled), clustered))


def estimated(votes: Votes, *, were_chosen: bool) -> tuple[FloatArray, Errors]:
    """Return the strengths, of mean 0, and their errors; NotConnected if there are none.

    ``were_chosen``: whether earlier verdicts chose the comparisons. The prior then needs the dispersion over several prompts.
    """
    wins = wins_of(votes.y, np.stack([votes.a, votes.b], axis=1), votes.systems)
    found = fit(wins)
    known = _Likelihood(wins if found.is_bounded else with_prior(wins)).information(found.values)
    known += np.trace(known) / votes.systems**2  # in the null direction, the sum of all strengths
    errors = _errors(votes, wins, found.values, known, is_bounded=found.is_bounded)
    if not were_chosen or votes.prompts < 2:
        return found.values, errors
    dispersion = float(np.trace(known @ errors.clustered)) / (votes.systems - 1)
    if not found.is_bounded:  # equal votes count as no more than single ones
        dispersion = max(1.0, dispersion)
    mean, covariance = _posterior(wins, dispersion)
    return mean, Errors(
        covariance, covariance, errors.freedom, errors.freedom_apart, is_bounded=True
    )


class _Likelihood:
    """The log likelihood of strengths. Of many systems, few pairs were compared: only these take time."""

    def __init__(self, wins: FloatArray) -> None:
        self._systems = len(wins)
        self._a, self._b = np.nonzero(np.triu(wins + wins.T, 1))
        self._wins, self._losses = wins[self._a, self._b], wins[self._b, self._a]

    def height(self, values: FloatArray) -> float:
        """Return the log likelihood."""
        ahead = values[self._a] - values[self._b]
        lost = self._wins @ np.logaddexp(0.0, -ahead) + self._losses @ np.logaddexp(0.0, ahead)
        return -float(lost)

    def slope(self, values: FloatArray) -> FloatArray:
        """Return its derivative, shape (m,)."""
        p = chance(values[self._a] - values[self._b])
        of_pair, m = self._wins - (self._wins + self._losses) * p, self._systems
        ups, downs = (np.bincount(at, of_pair, m) for at in (self._a, self._b))
        return np.asarray(ups - downs, dtype=np.float64)

    def information(self, values: FloatArray) -> FloatArray:
        """Return Fisher's information, shape (m, m)."""
        p = chance(values[self._a] - values[self._b])
        weight = (self._wins + self._losses) * p * (1.0 - p)
        known = np.zeros((self._systems, self._systems))
        known[self._a, self._b] = known[self._b, self._a] = -weight
        np.fill_diagonal(known, -known.sum(axis=1))
        return known


def _posterior(wins: FloatArray, dispersion: float) -> tuple[FloatArray, FloatArray]:
    """Return the posterior mean of the strengths and their covariance, see the top of this file."""
    from scipy.linalg import cholesky

    m, mode, likelihood = len(wins), np.zeros(len(wins)), _Likelihood(wins)
    modes, evidence = [], []
    for spread in _SPREADS:
        mode = _mode(likelihood, mode, spread, dispersion)
        known = likelihood.information(mode) / dispersion + np.diag(_precision(mode, spread))
        height = likelihood.height(mode) / dispersion + _log_prior(mode, spread)
        evidence.append(height - float(np.log(np.diag(cholesky(known))).sum()))
        modes.append(mode)
    odds = np.array(evidence) + np.log(_SPREADS)  # on steps of ln τ an even τ has the weight τ
    weight = np.exp(odds - odds.max())
    weight = np.where(weight < _LEAST_WEIGHT, 0.0, weight)
    weight /= weight.sum()
    mean, covariance = weight @ np.array(modes), np.zeros((m, m))
    for share, mode, spread in zip(weight, modes, _SPREADS, strict=True):
        if share:
            known = likelihood.information(mode) / dispersion + np.diag(_curvature(mode, spread))
            covariance += share * (np.linalg.inv(known) + np.outer(mode - mean, mode - mean))
    centre = np.eye(m) - 1.0 / m
    return centre @ mean, centre @ covariance @ centre


def _mode(
    likelihood: _Likelihood, start: FloatArray, spread: float, dispersion: float
) -> FloatArray:
    """Return the likeliest strengths with the prior by Newton's method; ``start`` if they grow without end."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    values, length = start, math.inf

    def height(at: FloatArray) -> float:
        return likelihood.height(at) + dispersion * _log_prior(at, spread)

    for _ in range(_STEPS):
        slope = likelihood.slope(values) - dispersion * _precision(values, spread) * values
        known, reached = likelihood.information(values), height(values)
        # Near the mode the prior's own curvature takes few steps; further away it may lead to another mode.
        least = -1.0 if length < _NEAR else _LEAST_CURVATURE
        try:
            factor = cho_factor(known + dispersion * np.diag(_curvature(values, spread, least)))
        except LinAlgError:  # the prior bends upwards more than the votes bend downwards
            factor = cho_factor(known + dispersion * np.diag(_curvature(values, spread)))
        step = cho_solve(factor, slope)
        while height(values + step) < reached - 1e-14 * abs(reached):
            step = 0.5 * step
        values, length = values + step, np.abs(step).max()
        if length < _CLOSE:
            return values
        if np.abs(values).max() > ENDLESS:
            break
    return start


def _log_prior(values: FloatArray, spread: float) -> float:
    """Return the logarithm of the Cauchy density of the strengths, less a constant."""
    return -float(np.log(spread + values**2 / spread).sum())


def _precision(values: FloatArray, spread: float) -> FloatArray:
    """Return the precision of the normal distributions with the prior's slopes at ``values``."""
    return 2.0 / (spread**2 + values**2)


def _curvature(values: FloatArray, spread: float, least: float = _LEAST_CURVATURE) -> FloatArray:
    """Return the downward curvature of the prior's logarithm; at ``least`` that share of :func:`_precision`."""
    bends = (spread**2 - values**2) / (spread**2 + values**2)
    return np.asarray(_precision(values, spread) * np.maximum(bends, least))


def _errors(
    votes: Votes, wins: FloatArray, values: FloatArray, known: FloatArray, *, is_bounded: bool
) -> Errors:
    """Return the errors, see the top of this file; ``known``: H.

    A prompt bears only on the systems compared on it. With E their columns of the unit matrix, and H_g = E A Eᵀ, s_g = E a,
    there are as many equations as these systems: (H − H_g)⁻¹ s_g = H⁻¹ E (I − A Eᵀ H⁻¹ E)⁻¹ a.
    """
    inverse = np.asarray(np.linalg.inv(known), dtype=np.float64)
    m, count = votes.systems, votes.prompts
    p = chance(values[votes.a] - values[votes.b])
    parts = inverse @ _Likelihood(wins).information(values) @ inverse
    clustered, own, apart = np.zeros((m, m)), np.zeros(m), np.zeros((m, m))
    for rows, cell, members in _by_prompt(votes):
        slope, squares = _sums(cell, (votes.y - p)[rows], (p * (1.0 - p))[rows], members.shape)
        of_members = inverse[members]
        among = np.take_along_axis(of_members, members[:, None], axis=2)
        left_out = np.linalg.solve(
            np.eye(members.shape[1]) - _MOST_OF * squares @ among, slope[..., None]
        )
        change = (of_members * left_out).sum(axis=1)
        clustered += change.T @ change
        shares = squares @ of_members
        by_itself = (shares * of_members).sum(axis=1)
        own += (by_itself**2).sum(axis=0)
        if members.shape[1] == 2:
            _add_fourth_powers(apart, squares[:, 0, 0], of_members[:, 0] - of_members[:, 1])
        else:
            _add_squares(apart, by_itself[:, None], shares, of_members)
    clustered *= (count - 1) / count if count > 1 else np.nan
    inverse -= inverse.mean()  # removes the value added in the null direction
    clustered += inverse / max(count, 1)
    freedom = _freedom(np.diag(parts), own)
    freedom_apart = _freedom(of_differences(parts), np.triu(apart) + np.triu(apart, 1).T)
    return Errors(clustered, inverse, freedom, freedom_apart, is_bounded)


def _by_prompt(votes: Votes) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
    """Yield some prompts at a time: their rows, the cells of A and of B, shape (2, rows), and the prompts' systems.

    Systems are numbers, shape (prompts, most); a prompt with fewer systems has others behind them, on which it does not
    bear. Cells are the places in these.
    """
    m, prompt = votes.systems, np.tile(votes.prompt, 2)
    cells, cell = np.unique(prompt * m + np.concatenate([votes.a, votes.b]), return_inverse=True)
    starts = np.searchsorted(cells, np.arange(votes.prompts + 1) * m)
    place = (cell - starts[prompt]).reshape(2, -1)
    counts = np.diff(starts)
    order = np.argsort(-counts, kind="stable")  # prompts with equally many systems together
    rank = np.argsort(order)[votes.prompt]
    rows, start = np.argsort(rank, kind="stable"), 0
    while start < votes.prompts:
        most = int(counts[order[start]])
        chosen = order[start : start + max(1, _CELLS_AT_A_TIME // (most * m))]
        mine = rows[slice(*np.searchsorted(rank[rows], [start, start + len(chosen)]).tolist())]
        members = cells[np.minimum(starts[chosen, None] + np.arange(most), len(cells) - 1)] % m
        yield mine, (rank[mine] - start) * most + place[:, mine], members
        start += len(chosen)


def _sums(
    cell: IntArray, slope: FloatArray, weight: FloatArray, shape: tuple[int, ...]
) -> tuple[FloatArray, FloatArray]:
    """Return Σ slope · d and Σ weight · d dᵀ by prompt, d being e_a − e_b: shape ``shape`` and (prompts, most, most).

    ``cell``: of A and of B, see :func:`_by_prompt`. ``shape``: of the prompts' systems.
    """
    count, most = shape[0] * shape[1], shape[1]
    slopes, squares = np.zeros(count), np.zeros(count * most)
    for row, sign in zip(cell, (1.0, -1.0), strict=True):
        slopes += np.bincount(row, sign * slope, count)
        for column, other in zip(cell % most, (1.0, -1.0), strict=True):
            squares += np.bincount(row * most + column, sign * other * weight, count * most)
    return slopes.reshape(shape), squares.reshape(*shape, most)


def _add_squares(
    into: FloatArray, by_itself: FloatArray, shares: FloatArray, of_members: FloatArray
) -> None:
    """Add to ``into`` the squares of each prompt's parts of the variances of all differences, in its upper triangle.

    ``by_itself``: parts of the variance of each strength, shape (prompts, 1, m). ``shares``, ``of_members``: covariances are
    their products, shape (prompts, systems, m) each.
    """
    ones, m = np.ones_like(by_itself), by_itself.shape[2]
    left = np.concatenate([by_itself, ones, -2.0 * shares], axis=1).transpose(0, 2, 1)
    right = np.concatenate([ones, by_itself, of_members], axis=1)
    at_a_time = max(_FEWEST_ROWS, _CELLS_AT_A_TIME // (len(left) * m))
    for start in range(0, m, at_a_time):
        by_two = left[:, start : start + at_a_time] @ right[..., start:]
        into[start : start + at_a_time, start:] += np.einsum("gij,gij->ij", by_two, by_two)


def _freedom(parts: FloatArray, squares: FloatArray) -> FloatArray:
    """Return Satterthwaite's degrees of freedom, of sums over prompts of parts of variances and their squares, less one."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.maximum(parts**2 / squares - 1.0, _LEAST_FREEDOM))


def _add_fourth_powers(into: FloatArray, weight: FloatArray, z: FloatArray) -> None:
    """Add the same for prompts that compare one matchup: Σ w² (z_i − z_j)⁴, multiplied out; w: (prompts,), z: (prompts, m)."""
    squares = z * z
    weighed = weight[:, None] ** 2 * squares
    even, odd = weighed.T @ squares, (weighed * z).T @ z
    own = np.diag(even)
    into += own[:, None] + own + 6.0 * even - 4.0 * (odd + odd.T)
