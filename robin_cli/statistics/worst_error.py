"""How far off the worst score probably is: an estimate for a display, where the guaranteed bound says little."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.allocation.policies import flat_variance

_BISECTIONS = 24


def likely_worst_error(
    n: IntArray,
    totals: FloatArray | IntArray,
    totals_sq: FloatArray | IntArray,
    ends: tuple[FloatArray, FloatArray],
    units: FloatArray,
) -> float:
    """About how far the score furthest off is from its arm's true mean: the median of the largest of K errors.

    Each error is taken as normal with variance V/n, where V is the posterior mean of the arm's variance under a flat prior
    over ratings (:func:`robin_cli.allocation.policies.flat_variance`), so that ratings which all agree so far are no proof.
    On the paper's digitised pools (1,016 pairs, 3 to 100 calls a pair, simulated) it was 0.8 to 2.1 times the mean worst-case
    error, too large where a scheduler leaves steady pairs at 20 calls and few calls have shown how steady they are.

    Args:
        n, totals, totals_sq: ratings of each arm, their sum and the sum of their squares, shape (K,).
        ends: the lowest and the highest rating of each arm's scale, shape (K,) each.
        units: what each arm's error is counted in, in points of its scale, shape (K,).

    Returns:
        In ``units``; nan while an arm has no rating (its score is not known), and without arms.
    """
    ndtr = import_special_functions()
    if not len(n) or not n.all():
        return math.nan
    count = n.astype(np.float64)
    variance = flat_variance(count, np.asarray(totals, np.float64), np.asarray(totals_sq, np.float64), *ends)
    error = np.sqrt(np.maximum(variance, 0.0) / count) / units + 1e-9
    low, high = 0.0, float(((ends[1] - ends[0]) / units).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        # ln P(no error is larger): Σ ln(2Φ(x) − 1) = Σ ln(1 − 2Φ(−x))
        inside = np.log1p(-2.0 * ndtr(-np.maximum(middle / error, 1e-6))).sum()
        low, high = (middle, high) if inside < math.log(0.5) else (low, middle)
    return high


def import_special_functions() -> Callable[[FloatArray], FloatArray]:
    """Φ. Late: importing it takes 0.2 s, and a run without a display does without it."""
    from scipy.special import ndtr

    return ndtr
