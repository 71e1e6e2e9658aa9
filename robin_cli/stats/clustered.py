"""Bounds for the mean of bounded values in the population of prompts, whatever its distribution.

Responses to one prompt are alike, so prompts are the sample. Student's t over prompts is too sure if few prompts differ: from
20 prompts that all score 4 it would make a point, although 20 prompts miss one in 20 that scores 0 in a third of all samples.

Here the prompts get random weights, as in the Bayesian bootstrap (Rubin, Annals of Statistics 9, 1981), and one more prompt
joins them: for the lower bound one with as many pairs as any, all with the lowest possible score; for the upper the highest.
With independent exponential weights E_g, totals T_g and sizes n_g the bound is the m at which
    P(Σ E_g (T_g − n_g m) + E_0 n_max (low − m) ≤ 0) = α.
With one pair for each prompt this is Gaffke's bound ("Three test statistics for a nonparametric one-sided hypothesis", Math.
Methods of Statistics 14, 2005; arXiv:1905.06208), and for values 0 and 1 that of Clopper and Pearson. No distribution is known
for which it fails; benchmarks/gate.py measures it.

The probability is an integral of the moment generating function along a line through its saddle point (Imhof, Biometrika 48,
1961; Daniels, Ann. Math. Stat. 25, 1954). So nothing is random, and small α keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray

MOST_DIFFERENT = 400
"""Up to this number of kinds of prompts, bounds of many means are exact."""

MOST_TIMES = 1e4
"""The most calls, or prompts, that are considered, over those there are."""

_CARRY = 0.5
"""The largest share of one prompt, and skewness, at which t holds: less costs power at 20 prompts, see docs/evidence."""

_BISECTIONS = 14
_SPARSE = 8
_ALIKE = 1e-18
"""A smaller variance over the square of the scale's width is rounding."""

_STEP = 0.1
_STEPS_AT_A_TIME = 16
_STEPS_AT_MOST = 400
_NEGLIGIBLE = 1e-13
_PRECISION = 1e-9


@dataclass(frozen=True, slots=True)
class Clusters:
    """Values by prompt; equal prompts share a row. All of shape (rows,).

    Attributes:
        totals, sizes: sum of the values of a prompt's pairs, and their number.
        times: number of prompts in the row; may be fractional.
    """

    totals: FloatArray
    sizes: FloatArray
    times: FloatArray

    @property
    def mean(self) -> float:
        return float((self.totals @ self.times) / (self.sizes @ self.times))

    @property
    def prompts(self) -> float:
        return float(self.times.sum())

    @property
    def residuals(self) -> FloatArray:
        """What each row's total is above that of the mean, shape (rows,)."""
        return self.totals - self.mean * self.sizes

    @property
    def variance(self) -> float:
        """Variance of the mean, by residual sums of prompts with G/(G − 1) (Cochran's ratio estimator); inf for one prompt."""
        if self.prompts <= 1:
            return math.inf
        squares = float(self.residuals**2 @ self.times)
        return self.prompts / (self.prompts - 1) * squares / float(self.sizes @ self.times) ** 2

    def are_alike(self, width: float) -> bool:
        """Return whether all prompts have the same mean up to rounding; ``width``: of the scale."""
        if math.isinf(width):
            width = float(np.abs(self.totals / self.sizes).max())
        return self.variance <= _ALIKE * width**2


def clusters_of(values: FloatArray, prompt: IntArray | None = None) -> Clusters:
    """Group the ``values`` of pairs by ``prompt``, numbers from 0; shape (K,) each. None: one value a prompt."""
    sums = values + 1j  # sums and sizes together
    if prompt is not None:
        if prompt.max(initial=0) >= _SPARSE * len(prompt):  # a few pairs of many prompts
            prompt = np.unique(prompt, return_inverse=True)[1]
        sums = np.bincount(prompt, values) + 1j * np.bincount(prompt)
        sums = sums[sums.imag > 0]
    kinds, times = np.unique(sums, return_counts=True)
    return Clusters(kinds.real.copy(), kinds.imag.copy(), times.astype(np.float64))


def mean_bounds(
    clusters: Clusters, low: float, high: float, *, alpha: float
) -> tuple[float, float]:
    """Return bounds for the mean in the population, each missed with probability at most ``alpha`` / 2.

    ``low``, ``high``: ends of the scale; infinite without one, as the bounds then are.
    """
    if math.isinf(low):
        return low, high
    upper = lower_bound(_mirrored(clusters, low, high), low, alpha=alpha / 2)
    return lower_bound(clusters, low, alpha=alpha / 2), low + high - upper


def quick_mean_bounds(
    clusters: Clusters, low: float, high: float, *, alpha: float
) -> tuple[float, float]:
    """Return the same, or for more than MOST_DIFFERENT kinds of prompts Student's t: right by then, and far faster."""
    bounds = mean_bounds if len(clusters.times) <= MOST_DIFFERENT else student_bounds
    return bounds(clusters, low, high, alpha=alpha)


def student_bounds(
    clusters: Clusters, low: float, high: float, *, alpha: float
) -> tuple[float, float]:
    """Return Student's t interval for the mean over prompts, within ``low`` and ``high``.

    If all prompts are equal, its width would be 0, which does not prove that others are; it is then :func:`mean_bounds`.
    """
    if clusters.are_alike(high - low):
        return mean_bounds(clusters, low, high, alpha=alpha)
    half = student_factor(clusters.prompts, alpha) * math.sqrt(clusters.variance)
    return max(low, clusters.mean - half), min(high, clusters.mean + half)


def few_carry(clusters: Clusters, low: float, high: float) -> bool:
    """Return whether few prompts carry the variance, so that Student's t would be too narrow.

    One prompt has most of it, or the residuals are lopsided: their skewness over √G, Σr³/(Σr²)^1.5, is large, as with less
    than four prompts far off on one side. Where residuals are symmetric, t holds.
    """
    if clusters.prompts <= 1 or clusters.are_alike(high - low):
        return True
    residuals = clusters.residuals
    total = float(residuals**2 @ clusters.times)
    largest = float((residuals[clusters.times > 0] ** 2).max())
    skew = abs(float(residuals**3 @ clusters.times)) / total**1.5
    return largest > _CARRY * total or skew > _CARRY


def bounds_over_prompts(
    clusters: Clusters, low: float, high: float, *, alpha: float, is_robust: bool = False
) -> tuple[float, float]:
    """Return :func:`student_bounds`; if few prompts carry the variance, or ``is_robust``, no less than :func:`mean_bounds`."""
    ends = student_bounds(clusters, low, high, alpha=alpha)
    if math.isinf(low) or not (is_robust or few_carry(clusters, low, high)):
        return ends
    wide = mean_bounds(coarse(clusters, low, high), low, high, alpha=alpha)
    return min(ends[0], wide[0]), max(ends[1], wide[1])


def coarse(clusters: Clusters, low: float, high: float, most: int = MOST_DIFFERENT) -> Clusters:
    """Return at most ``most`` kinds of prompts of one pair, the nearest averaged: at 400, bounds move by a millionth."""
    if len(clusters.times) <= most or math.isinf(high) or (clusters.sizes != 1.0).any():
        return clusters
    share = (clusters.totals - low) / (high - low)
    cell = np.unique(np.floor(share * most), return_inverse=True)[1]
    times = np.bincount(cell, clusters.times).astype(np.float64)
    totals = np.bincount(cell, clusters.times * clusters.totals) / times
    return Clusters(totals, np.ones(len(times)), times)


def student_factor(count: float, alpha: float) -> float:
    """Return half an interval over the standard error: Student's t with ``count`` − 1 degrees of freedom."""
    from scipy.special import stdtrit

    return float(stdtrit(count - 1.0, 1.0 - 0.5 * alpha))


def _mirrored(clusters: Clusters, low: float, high: float) -> Clusters:
    """Return the clusters of low + high − value: a lower bound of these is an upper bound of the values."""
    return replace(clusters, totals=(low + high) * clusters.sizes - clusters.totals)


def lower_bound(clusters: Clusters, low: float, *, alpha: float) -> float:
    """Return a lower bound of the mean in the population, wrong with probability ``alpha``; values are ``low`` or more."""
    mean = clusters.mean
    # With α below a half the bound is below the mean; if all values are the lowest, it is the lowest.
    if mean <= low or _doubt(clusters, low, mean) <= alpha:
        return mean
    from scipy.optimize import brentq  # takes a quarter of a second, too long for every start

    def excess(m: float) -> float:
        return _doubt(clusters, low, m) - alpha

    return float(brentq(excess, low, mean, xtol=_PRECISION * (mean - low), rtol=1e-12))


def is_above(clusters: Clusters, m: float, low: float, *, alpha: float) -> bool:
    """Return whether :func:`lower_bound` is at least ``m``, without computing it."""
    return m <= low or (m <= clusters.mean and _doubt(clusters, low, m) <= alpha)


def least_times(is_enough: Callable[[float], bool], most: float = MOST_TIMES) -> float | None:
    """Return about the least number from 1 that is enough, as any larger one is; None if none up to ``most`` is."""
    if not is_enough(most):
        return None
    below, above = 0.0, math.log(most)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (below + above)
        below, above = (below, middle) if is_enough(math.exp(middle)) else (middle, above)
    return math.exp(above)


def probability_beyond(clusters: Clusters, low: float, high: float, *, at: float) -> float:
    """Return the smallest α at which :func:`mean_bounds` leave ``at`` out; at most 1."""
    if clusters.mean < at:
        clusters, at = _mirrored(clusters, low, high), low + high - at
    return min(1.0, 2.0 * _doubt(clusters, low, at)) if clusters.mean > at else 1.0


def _doubt(clusters: Clusters, low: float, m: float) -> float:
    """Return the probability that the randomly weighted mean, with one more prompt at ``low``, is at most ``m``."""
    each = np.append(clusters.sizes * m - clusters.totals, clusters.sizes.max() * (m - low))
    return probability_above(each, np.append(clusters.times, 1.0))


def probability_above(scales: FloatArray, times: FloatArray) -> float:
    """Return P(Σ b_i E_i > 0) for independent exponential E_i, with ``times`` of each b_i among ``scales``."""
    if (scales <= 0).all():
        return 0.0
    if (scales >= 0).all():
        return 1.0
    from scipy.optimize import brentq

    scales = scales / np.abs(scales).max()
    end = 1.0 / scales.max()

    def slope(s: float) -> float:  # of ln M(s) − ln s; the line crosses the axis where it is 0
        return float(times @ (scales / (1.0 - s * scales)) - 1.0 / s)

    # Keep as far from both ends as their terms can grow: b/(1 − s b) ≤ Σ|b| times, 1/s likewise.
    least = 1.0 / (2.0 * float(times @ np.abs(scales)) + 2.0 / end)
    last = end * (1.0 - 1e-13)
    s = last
    if slope(last) > 0:
        s = float(brentq(slope, min(least, 0.5 * end), last, xtol=1e-15, rtol=1e-12))
    return _integral(scales, times, s)


def _integral(scales: FloatArray, times: FloatArray, s: float) -> float:
    """Return (1/π) ∫ Re M(s + iu)/(s + iu) du from 0, M(s) = Π 1/(1 − s b); u = σ sinh x makes it fall fast for any b."""
    width = 1.0 / math.sqrt(float(times @ (scales / (1.0 - s * scales)) ** 2) + s**-2)
    height = -float(times @ np.log1p(-s * scales)) - math.log(s)
    # M(s + iu)/M(s) = Π 1/(1 − iu b'), b' = b/(1 − s b)
    moved = scales / (1.0 - s * scales)
    found, x = 0.0, np.arange(_STEPS_AT_A_TIME) * _STEP
    for _ in range(_STEPS_AT_MOST // _STEPS_AT_A_TIME):
        u = width * np.sinh(x)
        log_terms = -(np.log1p(-1j * np.multiply.outer(u, moved)) @ times) - np.log1p(1j * u / s)
        terms = np.exp(log_terms).real * width * np.cosh(x)
        if x[0] == 0.0:
            terms[0] *= 0.5
        found += float(terms.sum())
        if (np.exp(log_terms.real) * np.cosh(x))[-1] < _NEGLIGIBLE:
            break
        x = x + _STEPS_AT_A_TIME * _STEP
    return float(np.clip(found * _STEP * math.exp(height) / math.pi, 0.0, 1.0))
