"""Dirichlet: the posterior mean of the variance under a flat prior on the ratings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from robin_cli.model.arms import FloatArray
from robin_cli.policies.base import Estimating, Setup, flat_variance


@dataclass(frozen=True, slots=True)
class Dirichlet(Estimating):
    """Posterior mean of the variance over n, under a symmetric Dirichlet prior of total mass A = 2 on the L ratings.

    With the posterior mean p̄ = (counts + A/L) / (n + A) of the rating probabilities, the posterior mean of the variance is
    (Σp̄x² − (Σp̄x)²) · (n + A)/(n + A + 1), for which the sums of the ratings are enough. The flat prior is optimistic about
    arms with few ratings, so that none starves; the warm-up is one rating of each arm, and there is no δ.
    """

    low: int
    high: int
    objective: str = "worst-case"
    warm_up: int = 1

    @classmethod
    def of(cls, setup: Setup) -> Self:
        return cls(setup.scale.low, setup.scale.high, setup.objective)

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """Return E[σ²], see :func:`flat_variance`."""
        return flat_variance(n, total, total_sq, self.low, self.high)
