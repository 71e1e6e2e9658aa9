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

from robin_cli.model.arms import FloatArray, IntArray

ALPHA = 0.05
"""The intervals hold with probability at least 1 − ALPHA, each for itself."""

# Stakes even in log-odds: small ones for many varied ratings, large ones for ratings that all agree.
_STAKES = 1.0 / (1.0 + np.exp(-np.linspace(-5.0, 5.0, 21)))
_BISECTIONS = 40


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
    distinct, which = _distinct_rows(np.asarray(counts, dtype=np.float64))
    levels = np.linspace(0.0, high - low, distinct.shape[1])
    from_below, from_above = (_lower_ends(each, levels, alpha)[which] for each in (distinct, distinct[:, ::-1]))
    return low + from_below, high - from_above


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
    distinct, _ = _distinct_rows(np.asarray(counts, dtype=np.float64))
    if not len(distinct):
        return np.nan
    if not distinct.any(axis=1).all():
        return high - low
    levels = np.linspace(0.0, high - low, distinct.shape[1])
    below, above = 0.0, high - low
    for _ in range(_BISECTIONS):
        middle = 0.5 * (below + above)
        exceeding = np.zeros(len(distinct), dtype=np.bool_)
        for side in (distinct, distinct[:, ::-1]):
            exceeding |= _stands(side, levels, side @ levels / side.sum(axis=1) - middle, alpha / len(counts))
        if exceeding.any():
            below, distinct = middle, distinct[exceeding]
        else:
            above = middle
    return above


def _distinct_rows(counts: FloatArray) -> tuple[FloatArray, IntArray]:
    """The rows that differ, in the order of their numbers, and which of them each row is: ``distinct[which]`` is ``counts``."""
    sizes = counts.max(axis=0, initial=0.0) + 1.0
    if (
        np.log2(sizes).sum() < 62 and (counts == np.floor(counts)).all()
    ):  # one number says a row, and sorts in a tenth of it
        places = np.cumprod(np.append(1, sizes[:0:-1].astype(np.int64)))[::-1]
        _, first, which = np.unique(counts.astype(np.int64) @ places, return_index=True, return_inverse=True)
        return counts[first], which
    distinct, which = np.unique(counts, axis=0, return_inverse=True)
    return distinct, which.ravel()


def _lower_ends(counts: FloatArray, levels: FloatArray, alpha: float) -> FloatArray:
    """The smallest m that stands, in points above the low end, shape (K,)."""
    n = counts.sum(axis=1)
    below = np.zeros(len(counts))
    # The mean itself is never bet against: at m = x̄ no stake has made money (concavity of the logarithm).
    above = np.divide(counts @ levels, n, out=np.zeros(len(counts)), where=n > 0)
    for _ in range(_BISECTIONS):
        middle = 0.5 * (below + above)
        stands = _stands(counts, levels, middle, alpha)
        below, above = np.where(stands, below, middle), np.where(stands, middle, above)
    return below


def _stands(counts: FloatArray, levels: FloatArray, m: FloatArray, alpha: float) -> NDArray[np.bool_]:
    """Which m are means of the scale that no bet has won against: W⁺(m) < 2/α; levels and m from 0 on, shape (K,)."""
    odds = levels / np.maximum(m, np.finfo(np.float32).tiny)[:, None] - 1.0
    log_wealth = np.logaddexp.reduce([np.einsum("kl,kl->k", counts, np.log1p(stake * odds)) for stake in _STAKES])
    return np.asarray((m > 0) & (log_wealth < np.log(2.0 * len(_STAKES) / alpha)))
