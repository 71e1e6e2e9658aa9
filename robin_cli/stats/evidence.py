"""Evidence on which side of a threshold the mean of each arm's ratings is, valid whenever you look.

Two bets run for each arm, like those behind its interval (:mod:`robin_cli.stats.intervals`): W⁺(τ − ε), that its mean is
above τ − ε, and W⁻(τ + ε), that it is below τ + ε. If the mean is not there, the bet is a non-negative martingale from 1, so it
passes 1/δ with probability at most δ (Ville). Only one side can be wrong, and within the margin ε of τ none is.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.intervals import distinct_rows, log_wealth


def log_evidence(
    counts: FloatArray | IntArray, low: float, high: float, threshold: float, margin: float
) -> tuple[FloatArray, FloatArray]:
    """Return ln W⁺(τ − ε) and ln W⁻(τ + ε): that each mean is above the threshold, and below; shape (K,) each.

    inf if the margin reaches beyond the scale: that side cannot be wrong.

    Args:
        counts: ratings of each arm by level, the lowest first, shape (K, levels).
        threshold, margin: τ and ε, in points; ε at least 0.
    """
    # many pairs with few ratings have few different counts
    distinct, which = distinct_rows(np.asarray(counts, dtype=np.float64))
    above = _log_wealth_at(distinct, high - low, threshold - margin - low)
    below = _log_wealth_at(distinct[:, ::-1], high - low, high - threshold - margin)
    return above[which], below[which]


def _log_wealth_at(counts: FloatArray, width: float, m: float) -> FloatArray:
    if m <= 0:
        return np.full(len(counts), np.inf)
    return log_wealth(counts, np.linspace(0.0, width, counts.shape[1]), np.full(len(counts), m))


def certified(log_values: FloatArray, error_rate: float) -> NDArray[np.bool_]:
    """Return which decisions can be certified together: at any time, on average at most ``error_rate`` of them are wrong.

    By the e-BH procedure they are the k largest, for the largest k with e_(k) ≥ K/(δ k) (Wang and Ramdas, "False discovery rate
    control with e-values", JRSS B 84, 2022), with the larger of two sides' evidence, of which at most one can be wrong.
    ``log_values``: logarithms of the evidence for each decision, shape (…, K); each row a family of its own.
    """
    falling = -np.sort(-log_values, axis=-1)
    count = falling.shape[-1]
    shares = np.arange(1, count + 1) / max(1, count)
    enough = falling >= -np.log(error_rate * shares)
    least = np.where(enough, falling, np.inf).min(axis=-1, keepdims=True, initial=np.inf)
    return np.asarray((log_values >= least) & (least < np.inf))
