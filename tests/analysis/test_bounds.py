"""How far off the worst score may be, computed another way."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robin_cli.analysis.bounds import robin_bound, robin_hood_bound, theorem_bound
from robin_cli.model.arms import FloatArray

VARIANCES = np.array([0.1, 0.7, 2.5, 0.0, 1.3])


def beyond(t: float, variances: FloatArray, n: FloatArray) -> float:
    """Σ_i P(|error_i| > t), at most, for sub-Gaussian ratings: the sum that the paper's proofs set to δ."""
    varied = variances > 0
    return float((2 * np.exp(-(t**2) * n[varied] / (2 * variances[varied]))).sum())


def test_bounds_robins_error_by_a_union_over_the_arms() -> None:
    share = VARIANCES / VARIANCES.sum()
    for budget, delta in ((105, 0.007), (1005, 0.3)):
        t = robin_bound(VARIANCES, budget, delta)
        # every arm, also one that never varies, has δ/K of what may fail
        assert beyond(t, VARIANCES, share * (budget - 5)) == pytest.approx(delta * 4 / 5)


def test_bounds_robin_hoods_error_with_a_third_of_the_calls_and_half_of_what_may_fail() -> None:
    share = VARIANCES / VARIANCES.sum()
    for budget, delta, warm_up in ((205, 0.007, 20), (1005, 0.3, 150)):
        t = robin_hood_bound(VARIANCES, budget, delta, warm_up)
        assert beyond(t, VARIANCES, share * (budget - 5 * warm_up) / 3) == pytest.approx(
            delta / 2 * 4 / 5
        )


def test_states_no_bound_before_the_warm_up_is_over() -> None:
    assert robin_bound(np.ones(10), 10, 0.1) == np.inf
    assert robin_bound(np.ones(10), 11, 0.1) < np.inf
    assert robin_hood_bound(np.ones(10), 200, 0.1, 20) == np.inf
    assert robin_hood_bound(np.ones(10), 201, 0.1, 20) < np.inf
    assert math.isnan(robin_bound(np.array([1.0, np.nan]), 100, 0.1))


def test_tells_the_bound_of_each_theorem_with_what_that_assumes() -> None:
    known, assumes = theorem_bound(1, VARIANCES, 1005, 0.1, 20)
    assert known == robin_bound(VARIANCES, 1005, 0.1)
    assert "known variances" in assumes
    assert "Theorem 1" in assumes
    learned, assumes = theorem_bound(2, VARIANCES, 1005, 0.1, 20)
    assert learned == robin_hood_bound(VARIANCES, 1005, 0.1, 20)
    assert "after the warm-up" in assumes
    assert "Theorem 2" in assumes
    assert [theorem_bound(theorem, VARIANCES, 5, 0.1, 20)[0] for theorem in (1, 2)] == [None, None]
