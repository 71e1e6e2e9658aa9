"""Variances of few ratings, moderated by those of all pairs, and the likely intervals from them.

A few equal ratings do not prove that a judge never varies. So each arm's variance is drawn toward that of the others, as in
limma (Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004): V = (SS + 4 g) / (n + 3), g being the pooled variance within arms, which
counts as 4 more ratings. (x̄ − μ) / √(V/n) is then taken as Student's t with n + 3 degrees of freedom.

If all pairs flip at the same low rate, most have only equal ratings, and t misses their means. The pooled residuals then show
how far a mean may be off: :func:`skewed`, a bootstrap-t (Efron and Tibshirani, "An introduction to the bootstrap", 1993).

All this holds on average over the pairs; :mod:`robin_cli.stats.intervals` has guarantees for each. benchmarks/coverage.py
measures coverage under every scheduler.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray, Sums
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace

WEIGHT = 4.0
"""Ratings that the pooled variance counts as."""

_AT_A_TIME = 2**16
_DRAWS = 2000
_BINS = 128
_EXACT = 80
_CAUTION = 0.75
"""Standard errors by which the pooled variance may be too small: if means flip together, all intervals miss together."""


@dataclass(frozen=True, slots=True)
class Moderated:
    """The moderated variances of K arms, shape (K,) each.

    ``variance``: V, in squared points of each arm's scale; positive, nan without a rating. ``freedom``: its degrees of freedom.
    ``error_variance``: V / n, of the arm's mean rating.
    """

    variance: FloatArray
    freedom: FloatArray
    error_variance: FloatArray


def moderated(
    space: ArmSpace, sums: Sums, prior: Callable[[Scale], tuple[float, float]] | None = None
) -> Moderated:
    """Return the moderated variances of all arms, pooled over those of one attribute and judge.

    g = (Σ SS + w v) / (Σ (n − 1) + w). Before the first repeated rating it is v, which later counts as w degrees of freedom, so
    that no V is 0. A scale that is guessed from the ratings says nothing: V is nan until two ratings of an arm differ.
    ``prior``: returns w v and w of a scale; None for its own, the variance of a rating drawn evenly from its levels, once.
    """
    count, total, total_sq = sums
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.where(count > 1, np.maximum(total_sq - total * total / count, 0.0), 0.0)
    priors = [scale.prior if prior is None else prior(scale) for scale in space.scales]
    even, weight = np.repeat(priors, space.raters, axis=0).T
    kinds = [space.kind == kind for kind in range(space.arms_per_pair)]
    within, freedom = (
        np.stack([np.compress(is_kind, each, axis=-1).sum(axis=-1) for is_kind in kinds], axis=-1)
        for each in (squares, np.maximum(count - 1.0, 0.0))
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = np.where(within + even > 0, (within + even) / (freedom + weight), np.nan)
    pooled = pooled[..., space.kind]
    variance = np.where(count > 0, (squares + WEIGHT * pooled) / (count + WEIGHT - 1.0), np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Moderated(variance, count + WEIGHT - 1.0, variance / count)


def as_usual(scale: Scale) -> tuple[float, float]:
    """Return a prior for :func:`moderated`: ratings vary as usual, where its own is cautious."""
    return 4.0 * scale.usual_variance, 4.0


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
    that α/2 of the samples exceed are compared with t. The same ratings give the same factors: at least 1, shape (2, K).

    ``counts``: number of times that each arm got each rating, shape (K, L), for L ≥ 2 ratings evenly spaced over ``scale``.
    """
    from scipy.special import stdtrit

    n, found = counts.sum(axis=1), np.ones((2, len(counts)))
    weight, value, pooled = _residuals(counts, n, scale)
    if not len(weight):
        return found
    share = weight / weight.sum()
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
        widened = caution * np.abs(ends) / stdtrit(freedom, 1.0 - 0.5 * alpha)
        for factor, of_side in zip(found, np.maximum(1.0, widened), strict=True):
            factor[n >= some] = of_side
    return found


def _residuals(
    counts: FloatArray, n: FloatArray, scale: Scale
) -> tuple[FloatArray, FloatArray, float]:
    """Return the weights and the values of the pooled residuals in bins, and the pooled variance.

    Some arms at a time: a million take 40 MB an array. Without bins, no residual is larger than one.
    """
    levels = np.linspace(0.0, scale.high - scale.low, counts.shape[1])
    weight, total, squares, freedom = np.zeros(_BINS), np.zeros(_BINS), 0.0, 0.0
    varies = False
    for start in range(0, len(counts), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        again, size = counts[part][n[part] > 1], n[part][n[part] > 1]
        apart = levels - (again @ levels / size)[:, None]
        residuals = apart * np.sqrt(size / (size - 1.0))[:, None]
        varies |= bool(((again > 0) & (np.abs(residuals) > levels[-1] / _BINS)).any())
        place = (residuals / levels[-1] / math.sqrt(2.0) + 1.0) * 0.5 * _BINS
        place = place.astype(np.int64).clip(0, _BINS - 1).ravel()
        weight += np.bincount(place, again.ravel(), _BINS)
        total += np.bincount(place, (again * residuals).ravel(), _BINS)
        squares += float((again * apart**2).sum())
        freedom += float((size - 1.0).sum())
    even, beside = scale.prior
    is_there = (weight > 0) & varies
    pooled = (squares + even) / (freedom + beside) if varies else math.nan  # without repeats 0 / 0
    return weight[is_there], total[is_there] / weight[is_there], pooled


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
