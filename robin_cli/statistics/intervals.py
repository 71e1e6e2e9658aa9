"""Confidence intervals for mean ratings that hold although the ratings decided how many there are.

An adaptive scheduler asks more where ratings vary, so the number of ratings depends on the ratings, and intervals made
for a fixed number do not hold as they stand. A confidence sequence holds at every number at once, whoever stops when.

The sequence used here bets. If m is the true mean of ratings x in [0, 1], then for every stake 0 < θ < 1 the products
    Π (1 + θ (x/m − 1))   and   Π (1 + θ ((1 − x)/(1 − m) − 1))
are non-negative martingales that start at 1: money made by betting that the mean is above (below) m. So are their averages
W⁺(m), W⁻(m) over a fixed grid of stakes. By Ville's inequality either passes 2/α at any time with probability at most
α/2. The interval is the m at which neither did. W⁺ falls and W⁻ rises in m, so each end is one root.

Sources: betting confidence sequences, Waudby-Smith and Ramdas, "Estimating means of bounded random variables by betting",
JRSS B 86 (2024); averaging over constant stakes, Orabona and Jun, "Tight concentrations and confidence sequences from the
regret of universal portfolio", IEEE Trans. Inf. Theory 70 (2024). The products depend on the ratings' counts alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robin_cli.allocation.arms import FloatArray, IntArray

ALPHA = 0.05
"""The intervals hold with probability at least 1 − ALPHA, each for itself."""

# Stakes even in log-odds: small ones for many varied ratings, large ones for ratings that all agree.
_STAKES = 1.0 / (1.0 + np.exp(-np.linspace(-5.0, 5.0, 21)))
_BISECTIONS = 40
_REACH_BISECTIONS = 20
_CHUNK = 4096


def mean_intervals(
    counts: FloatArray | IntArray, low: float, high: float, *, alpha: float = ALPHA
) -> tuple[FloatArray, FloatArray]:
    """Anytime-valid intervals for the mean ratings of K arms.

    Args:
        counts: how often each arm got each rating, shape (K, L), for L ≥ 2 ratings evenly spaced from ``low`` to ``high``.
        low, high: the ends of the scale.
        alpha: each interval misses its mean with at most this probability; in (0, 1).

    Returns:
        Lower and upper ends, shape (K,) each, on the scale; the whole scale for an arm without ratings. Never a point.

    Raises:
        ValueError: α outside (0, 1).
    """
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must lie between 0 and 1, got {alpha}")
    distinct, which = np.unique(np.asarray(counts, dtype=np.float64), axis=0, return_inverse=True)
    lower = _lower_ends(distinct, alpha)[which.ravel()]
    upper = 1.0 - _lower_ends(distinct[:, ::-1], alpha)[which.ravel()]
    return low + (high - low) * lower, low + (high - low) * upper


def largest_reach(counts: FloatArray | IntArray, low: float, high: float, *, alpha: float = ALPHA) -> float:
    """How far the mean of any of K arms may be from that of its ratings, all K at once: a union bound over the arms.

    The largest distance from an arm's mean rating to the far end of its interval at α/K, found without the intervals.

    Args:
        counts: as for :func:`mean_intervals`; fractions are allowed (what an arm would have after so many calls).
        low, high: the ends of the scale.
        alpha: with at least 1 − α no arm is further off, whenever one looks; in (0, 1).

    Returns:
        A distance in points of the scale: the whole scale where an arm has no ratings; nan where K is 0.
    """
    distinct = np.unique(np.asarray(counts, dtype=np.float64), axis=0)
    if not len(distinct):
        return np.nan
    n = distinct.sum(axis=1)
    if (n == 0).any():
        return high - low
    limit = np.log(2.0 * len(counts) / alpha)
    levels = np.linspace(0.0, 1.0, distinct.shape[1])
    below, above = 0.0, 1.0
    for _ in range(_REACH_BISECTIONS):
        middle = 0.5 * (below + above)
        exceeding = np.zeros(len(distinct), dtype=np.bool_)
        for start in range(0, len(distinct), _CHUNK):
            part = slice(start, start + _CHUNK)
            exceeding[part] = _reaches(distinct[part], levels, middle, limit)
        if exceeding.any():
            below, distinct = middle, distinct[exceeding]
        else:
            above = middle
    return (high - low) * above


def _reaches(counts: FloatArray, levels: FloatArray, distance: float, limit: float) -> NDArray[np.bool_]:
    """Which arms' intervals go further than ``distance`` from their mean, on either side; scaled to [0, 1]."""
    reaches = np.zeros(len(counts), dtype=np.bool_)
    for side in (counts, counts[:, ::-1]):
        m = side @ levels / side.sum(axis=1) - distance
        inside = m > 0  # the scale ends there
        reaches[inside] |= _log_wealth(side[inside], levels, m[inside]) < limit
    return reaches


def _lower_ends(counts: FloatArray, alpha: float) -> FloatArray:
    """The smallest m not yet bet against, ratings scaled to [0, 1], shape (K,)."""
    chunks = [_lower_chunk(counts[start : start + _CHUNK], alpha) for start in range(0, len(counts), _CHUNK)]
    return np.concatenate(chunks) if chunks else np.empty(0)


def _lower_chunk(counts: FloatArray, alpha: float) -> FloatArray:
    levels = np.linspace(0.0, 1.0, counts.shape[1])
    n = counts.sum(axis=1)
    below = np.zeros(len(counts))
    # The mean itself is never bet against: at m = x̄ no stake has made money (concavity of the logarithm).
    above = np.divide(counts @ levels, n, out=np.zeros(len(counts)), where=n > 0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (below + above)
        rejected = _log_wealth(counts, levels, middle) >= np.log(2.0 / alpha)
        below = np.where(rejected, middle, below)
        above = np.where(rejected, above, middle)
    return below


def _log_wealth(counts: FloatArray | IntArray, levels: FloatArray, m: FloatArray) -> FloatArray:
    """ln W⁺(m), the average over stakes, shape (K,)."""
    safe = np.maximum(m, np.finfo(np.float64).tiny)[:, None, None]
    growth = np.log1p(_STAKES[None, :, None] * (levels[None, None, :] / safe - 1.0))
    wealth: NDArray[np.float64] = np.einsum("kl,ksl->ks", counts.astype(np.float64), growth)
    top = wealth.max(axis=1)
    return np.asarray(top + np.log(np.exp(wealth - top[:, None]).mean(axis=1)))
