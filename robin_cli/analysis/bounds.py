"""How far off the worst score may be: the paper's bounds, and an estimate for where these say little.

The paper's allocation lemma claims n_i ≥ ⌊λ_i B⌋ for ROBIN (λ_i = σ_i²/Σσ²). Greedy choice by σ_i²/n_i is Adams' method of
apportionment, for which that fails; what holds is n_i ≥ λ_i (B − K), and for ROBIN-HOOD, while σ² ≤ V̄ ≤ 3σ²,
n_i ≥ λ_i (B − K t0)/3. So B − K stands here where Theorem 1 has B, and B − K t0 where Theorem 2 has B.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import flat_variance

_BISECTIONS = 24

ROBIN_ASSUMES = "known variances, sub-Gaussian ratings with these variances (Theorem 1, with B − K for B)"
ROBIN_HOOD_ASSUMES = "Gaussian ratings, and V̄ within [σ², 3σ²] after the warm-up (Theorem 2, with B − K·t0 for B)"


def robin_bound(variances: FloatArray, budget: int, delta: float) -> float:
    """√(2 Σσ² / (B − K) · ln(2K/δ)): with probability at least 1 − δ no score of ROBIN is further off.

    Args:
        variances: the true ones, shape (K,).
        budget: B, in calls.
        delta: in (0, 1].

    Returns:
        In points of the scale; inf for B ≤ K, nan if a variance is.
    """
    arms = len(variances)
    return _bound(2.0 * float(variances.sum()), budget - arms, math.log(2 * arms / delta))


def robin_hood_bound(variances: FloatArray, budget: int, delta: float, warm_up: int) -> float:
    """√(6 Σσ² / (B − K t0) · ln(4K/δ)): the same for ROBIN-HOOD with a warm-up of t0 calls an arm; inf for B ≤ K t0."""
    arms = len(variances)
    return _bound(6.0 * float(variances.sum()), budget - arms * warm_up, math.log(4 * arms / delta))


def theorem_bound(
    theorem: int, variances: FloatArray, budget: int, delta: float, warm_up: int
) -> tuple[float | None, str]:
    """The bound of the paper's Theorem 1 or 2, None where there is none yet, and what it assumes; ``warm_up`` is t0."""
    if theorem == 1:
        bound, assumes = robin_bound(variances, budget, delta), ROBIN_ASSUMES
    else:
        bound, assumes = robin_hood_bound(variances, budget, delta, warm_up), ROBIN_HOOD_ASSUMES
    return bound if math.isfinite(bound) else None, assumes


def _bound(variance: float, calls: int, log_term: float) -> float:
    return math.sqrt(variance / calls * log_term) if calls > 0 else math.inf


def likely_worst_error(
    n: IntArray,
    totals: FloatArray | IntArray,
    totals_sq: FloatArray | IntArray,
    ends: tuple[FloatArray, FloatArray],
    units: FloatArray,
) -> float:
    """About how far the score furthest off is from its arm's true mean: the median of the largest of K errors.

    Each error is taken as normal with variance V/n, where V is the posterior mean of the arm's variance under a flat prior
    over ratings (:func:`robin_cli.policies.base.flat_variance`), so that ratings which all agree so far are no proof.
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
    # The sums may be of a rating more than the counts, where the run goes on: then a variance may come out below 0.
    error = np.sqrt(np.maximum(variance, np.finfo(np.float64).tiny) / count) / units
    low, high = 0.0, float(((ends[1] - ends[0]) / units).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        # ln P(no error is larger): Σ ln(2Φ(x) − 1) = Σ ln(1 − 2Φ(−x))
        inside = np.log1p(-2.0 * ndtr(-middle / error)).sum()
        low, high = (middle, high) if inside < math.log(0.5) else (low, middle)
    return high


def worst_error_of(
    space: ArmSpace, is_kept: NDArray[np.bool_], n: IntArray, totals: FloatArray, totals_sq: FloatArray
) -> float:
    """:func:`likely_worst_error` of the arms of ``space`` that ``is_kept`` says; all of shape (K,)."""
    low, high = space.ends
    return likely_worst_error(
        n[is_kept], totals[is_kept], totals_sq[is_kept], (low[is_kept], high[is_kept]), space.units[is_kept]
    )


def import_special_functions() -> Callable[[FloatArray], FloatArray]:
    """Φ. Late: importing it takes 0.2 s, and a run without a display does without it."""
    from scipy.special import ndtr

    return ndtr
