"""The base of policies that ask a comparison more often, the less certain its preference is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.matches import Matches
from robin_cli.policies.base import Policy, flat_variance, per_arm, pooled_variance, squares_within


@dataclass(frozen=True, slots=True)
class Comparing(Policy):
    """A policy with one variance for all arms of a comparison, similar to that of two-priors for an arm.

    It is V = √(flat · (SS + w g) / (Σ (n − 1) + w)). SS are squares about the mean of each order and judge, so that the order
    effect is no uncertainty, and ``flat`` is the mean of each arm's :func:`flat_variance`. g = (Σ SS + v) / (Σ (n − 1) + 1)
    pools all comparisons; v is the variance of a verdict drawn evenly from the scale, which is V without a verdict.

    Attributes:
        pooled: g, in simulation one for each run.
    """

    whole: ClassVar[bool] = True
    pairwise: ClassVar[bool] = True
    prior_weight: ClassVar[float]
    """w"""

    matches: Matches
    pooled: float | FloatArray

    def variance(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """Return V of comparisons, shape (…); ``n`` is 0 if an arm has no verdict, shape (…, arms of one)."""
        scale, weight = self.matches.space.scales[0], self.prior_weight
        rated, count = n > 0, np.maximum(n, 1.0)
        flat = np.where(
            rated, flat_variance(count, total, total_sq, scale.low, scale.high), 0.0
        ).sum(axis=-1)
        flat = np.where(
            rated.any(axis=-1), flat / np.maximum(rated.sum(axis=-1), 1), scale.even_variance
        )
        squares, freedom = (
            squares_within(n, total, total_sq).sum(axis=-1),
            (count - 1.0).sum(axis=-1),
        )
        return np.asarray(
            np.sqrt(flat * (squares + weight * per_arm(self.pooled, flat)) / (freedom + weight))
        )

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Self:
        """Return it with g from these ratings."""
        pooled = pooled_variance(n, total, total_sq, self.matches.space.scales[0].even_variance)
        return replace(self, pooled=pooled if n.ndim > 1 else float(pooled))
