"""Variances of few ratings, moderated by those of all pairs, and the likely intervals and errors from them.

A few equal ratings do not prove that a judge never varies, nor do two different ones prove that it varies much. So each arm's
variance is drawn toward that of the others, as in limma (Smyth, "Linear models and empirical Bayes methods for assessing
differential expression", Stat. Appl. Genet. Mol. Biol. 3, 2004): V = (SS + 4 g) / (n + 3), g being the pooled variance within
arms, which counts as 4 more ratings. (x̄ − μ) / √(V/n) is then taken as Student's t with n + 3 degrees of freedom.

If all pairs flip at the same low rate, most have only equal ratings, and t misses their means. The pooled residuals then show
how far a mean may be off: :func:`skewed`, a bootstrap-t (Efron and Tibshirani, "An introduction to the bootstrap", 1993).

All this holds on average over the pairs, if ratings were taken without regard to their values; it guarantees nothing for a
single pair. :mod:`robin_cli.analysis.intervals` has guarantees. benchmarks/coverage.py measures coverage under every scheduler.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace

WEIGHT = 4.0
"""Ratings that the pooled variance counts as."""

_DRAWS = 2000
_BINS = 128
_EXACT = 80
_CAUTION = 0.75
"""Standard errors by which the pooled variance may be too small: if means flip together, all intervals miss together."""

_BISECTIONS = 24
_MOST_TELLING = 1000


@dataclass(frozen=True, slots=True)
class Moderated:
    """The moderated variances of K arms, shape (K,) each.

    Attributes:
        variance: V, in squared points of each arm's scale; positive, nan without a rating.
        freedom: degrees of freedom of V.
        error_variance: V / n, of the arm's mean rating.
    """

    variance: FloatArray
    freedom: FloatArray
    error_variance: FloatArray


class Prior(NamedTuple):
    """The pooled variance before the first repeated rating.

    Attributes:
        variance: as a share of the squared width of the scale; None for that of a rating drawn evenly from its levels.
        weight: degrees of freedom that it counts as later.
    """

    variance: float | None
    weight: float


EVEN = Prior(None, 1.0)


def moderated(
    space: ArmSpace,
    n: IntArray | FloatArray,
    totals: FloatArray,
    totals_sq: FloatArray,
    prior: Prior = EVEN,
) -> Moderated:
    """Return the moderated variances of all arms, pooled over those of one attribute and judge.

    g = (Σ SS + w v) / (Σ (n − 1) + w). Before the first repeated rating it is v, the prior's variance, which later counts as w
    degrees of freedom; so no V is 0. A scale that is guessed from the ratings says nothing: V is nan until two ratings of an arm
    differ.

    Args:
        n, totals, totals_sq: ratings of each arm, their sum and the sum of their squares, shape (…, K).
    """
    count = n.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.where(n > 1, np.maximum(totals_sq - totals * totals / count, 0.0), 0.0)
    firsts = [
        scale.prior if prior is EVEN else (prior.weight * _before(scale, prior), prior.weight)
        for scale in space.scales
    ]
    even, weight = np.repeat(firsts, space.raters, axis=0).T
    kinds = [space.kind == kind for kind in range(space.arms_per_pair)]
    within, freedom = (
        np.stack([np.compress(mine, each, axis=-1).sum(axis=-1) for mine in kinds], axis=-1)
        for each in (squares, np.maximum(count - 1.0, 0.0))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = np.where(within + even > 0, (within + even) / (freedom + weight), np.nan)
    pooled = pooled[..., space.kind]
    variance = np.where(n > 0, (squares + WEIGHT * pooled) / (count + WEIGHT - 1.0), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Moderated(variance, count + WEIGHT - 1.0, variance / count)


def _before(scale: Scale, prior: Prior) -> float:
    if prior.variance is None:
        return scale.even_variance
    return prior.variance * (scale.high - scale.low) ** 2


def likely_half_widths(
    error_variance: FloatArray, freedom: FloatArray, *, alpha: float
) -> FloatArray:
    """Return t_{1 − α/2} √(error variance), for the freedom of each; shape (rows,)."""
    from scipy.special import stdtrit

    kinds, kind_of = np.unique(freedom, return_inverse=True)
    return np.asarray(stdtrit(kinds, 1.0 - 0.5 * alpha)[kind_of] * np.sqrt(error_variance))


def likely_intervals(
    center: FloatArray,
    error_variance: FloatArray,
    freedom: FloatArray,
    skew: FloatArray,
    guaranteed: FloatArray,
    *,
    alpha: float,
) -> tuple[FloatArray, FloatArray]:
    """Return the ends of the likely intervals, shape (rows,) each; nan where ``center`` is.

    They are center ∓ skew · t_{1 − α/2} √(error variance), cut to the guaranteed interval.

    Args:
        center, error_variance, freedom: the score, its error variance and the degrees of freedom of this, shape (rows,).
        skew: the factors of :func:`skewed` for each row, shape (2, rows).
        guaranteed: lower and upper ends, shape (2, rows).
    """
    below, above = likely_half_widths(error_variance, freedom, alpha=alpha) * skew
    low, high = (np.where(np.isnan(center), np.nan, end) for end in guaranteed)
    return np.fmax(center - below, low), np.fmin(center + above, high)


def skewed(counts: FloatArray, scale: Scale, *, alpha: float) -> FloatArray:
    """Return the factors by which the true means of K arms of one kind may lie further below, and above, their mean than by t.

    For each number of ratings n, samples of n pooled residuals (x − x̄) √(n/(n − 1)) are drawn. The quantiles of mean / √(V/n)
    that α/2 of the samples exceed are compared with t.

    Args:
        counts: number of times that each arm got each rating, shape (K, L), for L ≥ 2 ratings evenly spaced over ``scale``.
        alpha: of the intervals; in (0, 1).

    Returns:
        Factors of at least 1 on the half widths by t, shape (2, K): below and above. The same ratings give the same factors.
    """
    from scipy.special import stdtrit

    n = counts.sum(axis=1)
    levels = np.linspace(0.0, scale.high - scale.low, counts.shape[1])
    again = counts[n > 1]
    size = again.sum(axis=1)
    residuals = (levels - (again @ levels / size)[:, None]) * np.sqrt(size / (size - 1.0))[:, None]
    found = np.ones((2, len(n)))
    if not ((again > 0) & (np.abs(residuals) > levels[-1] / _BINS)).any():
        return found
    place = (
        ((residuals / levels[-1] / math.sqrt(2.0) + 1.0) * 0.5 * _BINS)
        .astype(np.int64)
        .clip(0, _BINS - 1)
        .ravel()
    )
    weight = np.bincount(place, again.ravel(), _BINS)
    value = np.bincount(place, (again * residuals).ravel(), _BINS)[weight > 0] / weight[weight > 0]
    share = weight[weight > 0] / weight.sum()
    even, beside = scale.prior
    pooled = (
        (again * residuals**2).sum() - (again * residuals**2 / size[:, None]).sum() + even
    ) / ((size - 1.0).sum() + beside)
    kurtosis = share @ value**4 / (share @ value**2) ** 2
    caution = 1.0 + _CAUTION * math.sqrt(max(kurtosis - 1.0, 0.0) / weight.sum())
    sizes = np.concatenate([np.arange(1, _EXACT), _EXACT * 1.1 ** np.arange(34)]).astype(np.int64)
    for some in sizes[np.isin(sizes, sizes[np.searchsorted(sizes, n, side="right") - 1])]:
        drawn = np.random.default_rng(some).multinomial(some, share, _DRAWS)
        means = drawn @ value / some
        squares = np.maximum(drawn @ value**2 - some * means**2, 0.0)
        freedom = some + WEIGHT - 1.0
        ends = np.quantile(
            means / np.sqrt((squares + WEIGHT * pooled) / freedom / some),
            [1.0 - 0.5 * alpha, 0.5 * alpha],
        )
        found[:, n >= some] = np.maximum(
            1.0, caution * np.abs(ends) / stdtrit(freedom, 1.0 - 0.5 * alpha)
        )[:, None]
    return found


def freedom_of_sum(error_variances: FloatArray, freedoms: FloatArray) -> FloatArray:
    """Return the degrees of freedom of Σ_j A_j, shape (rows, J): (Σ A_j)² / Σ (A_j²/ν_j), Welch and Satterthwaite."""
    if freedoms.shape[1] == 1:
        return np.asarray(freedoms[:, 0])
    return np.asarray(
        error_variances.sum(axis=1) ** 2 / (error_variances**2 / freedoms).sum(axis=1)
    )


def chance_below(x: FloatArray, freedom: FloatArray) -> FloatArray:
    """Return P(t < x) of Student's t with these degrees of freedom, elementwise; nan if either is."""
    from scipy.special import stdtr

    return np.asarray(stdtr(freedom, x))


def expected_worst_error(
    space: ArmSpace,
    is_kept: NDArray[np.bool_],
    n: IntArray,
    totals: FloatArray,
    totals_sq: FloatArray,
) -> float:
    """Return the expected error of the worst score from its arm's true mean: the median of the largest of all errors.

    Each error is taken as √(V/n) times Student's t with n + 3 degrees of freedom: Π P(|t| < x / √(V_i/n_i)) = ½.

    Args:
        is_kept: whether each arm counts, shape (K,).
        n, totals, totals_sq: ratings of each arm, their sum and the sum of their squares, shape (K,).

    Returns:
        In the units of ``space``; nan while an arm that counts has no rating (its score is unknown), and without arms.
    """
    if not is_kept.any() or not n[is_kept].all():
        return math.nan
    found = moderated(space, n, totals, totals_sq)
    error = np.sqrt(found.error_variance)[is_kept] / space.units[is_kept]
    return median_of_worst(error, found.freedom[is_kept], space)


def median_of_worst(error: FloatArray, freedom: FloatArray, space: ArmSpace) -> float:
    """Return the median of the largest of K errors, each ``error`` times Student's t; at most the scale; nan if one is inf.

    Args:
        error: standard errors in the units of ``space``, shape (K,), for K ≥ 1.
        freedom: degrees of freedom, shape (K,).
    """
    if not np.isfinite(error).all():
        return math.nan
    # Integer ratings leave few different arms: one complex number holds n and the error.
    kinds, first, count = np.unique(freedom + 1j * error, return_index=True, return_counts=True)
    freedom, error = kinds.real, error[first]
    low, high = space.ends
    below, above = 0.0, float(((high - low) / space.units).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (below + above)
        inside = (count * _log_chance_within(freedom, error, middle)).sum()
        below, above = (middle, above) if inside < math.log(0.5) else (below, middle)
    return above


def is_likely_beyond(
    space: ArmSpace,
    is_kept: NDArray[np.bool_],
    n: IntArray,
    totals: FloatArray,
    totals_sq: FloatArray,
    error: float,
) -> bool:
    """Return whether :func:`expected_worst_error` is above ``error``, or unknown, in a small part of its time.

    If not, it is at most ``error`` up to the last step of its search.
    """
    if not is_kept.any() or not n[is_kept].all():
        return True
    found = moderated(space, n, totals, totals_sq)
    each, freedom = (
        np.sqrt(found.error_variance)[is_kept] / space.units[is_kept],
        found.freedom[is_kept],
    )
    if (
        len(each) > _MOST_TELLING
    ):  # every factor is at most 1, so that of a part may be too small already
        most = np.argpartition(each, -_MOST_TELLING)[-_MOST_TELLING:]
        if _log_chance_within(freedom[most], each[most], error).sum() < math.log(0.5):
            return True
    return bool(_log_chance_within(freedom, each, error).sum() < math.log(0.5))


def _log_chance_within(freedom: FloatArray, error: FloatArray, x: float) -> FloatArray:
    """Return ln P(|t| < x / error) = ln (1 − 2 T(−x / error)) of each."""
    from scipy.special import stdtr

    return np.asarray(np.log1p(-2.0 * stdtr(freedom, -x / error)))
