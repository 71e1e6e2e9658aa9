"""Two priors: each arm by its own ratings, and all arms by theirs together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Estimating, Setup, per_arm, variance_under

_PRIOR_WEIGHT = 8.0
_UPPER_TENTH = 1.2815515655446004  # the normal distribution's quantile at 0.9
_SMALLEST_POOLED = 1e-3


@dataclass(frozen=True, slots=True)
class TwoPriors(Estimating):
    """The geometric mean of two optimistic variance estimates, over n; robin's own.

    The first has a Dirichlet prior of mass 2, and finds arms that flip rarely. Its mean and mean
    square are not those of an even draw but of the ratings of all arms: m₁ = mean_i(Σx/n_i) and m₂ = mean_i(Σx²/n_i). The
    second takes the pooled within-arm variance g of all arms for a scaled inverse-χ² prior of weight a = 8, and the upper tenth
    of the posterior: (SS + a g) / χ²_{0.1}(n − 1 + a), SS being the arm's sum of squares about its mean. The χ² quantile is
    Wilson and Hilferty's, ν (1 − 2/(9ν) + z √(2/(9ν)))³, exact to 1 % for ν ≥ 8.

    If the arms' variances are alike, their observed differences are mostly noise. So the mean is pulled toward g, by
    h = max(0, 1 − CV²), CV being the coefficient of variation of the true variances over the arms. It is estimated from the
    scatter of the s_i² beyond that for equal variances: CV² = max(0, T − 2) / (mean(n_i − 1) + 2), T being the mean of
    (n_i − 1)(s_i²/g − 1)², whose expectation for Gaussian ratings is 2 (1 + CV²) + mean(n_i − 1) CV².

    No arm starves, as no estimate is 0 and every call lowers the arm's priority. docs/evidence/schedulers.md compares it.

    ``pooled``, ``alike``, ``first`` and ``second`` are g, h, m₁ and m₂: numbers in a run, shape (runs,) in simulation. Before
    the first fit, h is 0, and the others are those of a rating drawn evenly from the scale. ``evidence`` is e, the degrees of
    freedom, or arms, that these first values count as in a fit: if arms of other scales compete, a few equal ratings must not
    starve all arms of this one.
    """

    scale: Scale
    pooled: float | FloatArray
    alike: float | FloatArray
    first: float | FloatArray
    second: float | FloatArray
    warm_up: int = 1
    evidence: float = 0.0

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        (first, second), even = setup.scale.even_moments, setup.scale.even_variance
        return cls(setup.scale, even, 0.0, first, second, evidence=setup.evidence)

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """Return (1 − h) √(E[σ²] · σ²_{0.9}) + h g."""
        fit = (self.pooled, self.alike, self.first, self.second)
        pooled, alike, first, second = (per_arm(parameter, n) for parameter in fit)
        freedom = n - 1.0 + _PRIOR_WEIGHT
        spread = 2.0 / (9.0 * freedom)
        cube = 1.0 - spread - _UPPER_TENTH * np.sqrt(spread)
        squares = total_sq - total * total / n
        usual = (squares + _PRIOR_WEIGHT * pooled) / (freedom * (cube * cube * cube))
        both = np.sqrt(variance_under(n, total, total_sq, first, second) * usual)
        return (1.0 - alike) * both + alike * pooled

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> TwoPriors:
        """Return it with g, h, m₁ and m₂ from these ratings; an even draw counts as e arms in m₁ and m₂.

        g = (Σ_i SS_i + e g_0) / (Σ_i (n_i − 1) + e), g_0 being that of an even draw.
        """
        even, e, count = self.scale.even_variance, self.evidence, np.maximum(n, 1.0)
        freedom = np.maximum(n - 1.0, 0.0)
        squares = total_sq - total * total / count
        of_all = freedom.sum(axis=-1)
        is_known, seen = of_all > 0, np.maximum(of_all, 1.0)
        pooled = np.where(is_known, (squares.sum(axis=-1) + e * even) / (seen + e), even)
        # ratings without variance so far may vary later
        pooled = np.maximum(pooled, _SMALLEST_POOLED * even)
        ratio = squares / np.maximum(freedom, 1.0) / pooled[..., None]
        varied = np.maximum((freedom > 0).sum(axis=-1), 1)
        scatter = (freedom * (ratio - 1.0) ** 2).sum(axis=-1) / varied
        cv_squared = np.maximum(0.0, scatter - 2.0) / (np.maximum(of_all / varied, 1.0) + 2.0)
        alike = np.where(is_known, np.maximum(0.0, 1.0 - cv_squared) * seen / (seen + e), 0.0)
        rated = (n > 0).sum(axis=-1) + e
        first, second = (
            ((column / count).sum(axis=-1) + e * of_even) / rated
            for column, of_even in zip((total, total_sq), self.scale.even_moments, strict=True)
        )
        second = np.maximum(second, first * first + _SMALLEST_POOLED * even)
        return replace(self, pooled=pooled, alike=alike, first=first, second=second)
