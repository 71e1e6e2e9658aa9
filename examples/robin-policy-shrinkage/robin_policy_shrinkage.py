"""Shrinkage: each pair's variance is taken for what its own ratings say, drawn toward what all pairs' ratings say together.

σ̂² = (SS + w g) / (n − 1 + w), SS the sum of squares about the pair's mean and g the variance within pairs, pooled over all
(James and Stein 1961, with a fixed weight w = 2). It is never 0, so no pair starves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.policies.base import Estimating, Setup, per_arm

WEIGHT = 2.0


@dataclass(frozen=True)
class Shrinkage(Estimating):
    """``even``: the variance of a rating drawn evenly from the scale, which g is before there are ratings.

    ``pooled`` is g: a number in a run, one of each run, shape (runs,), in a simulation.
    """

    even: float
    pooled: float | FloatArray
    warm_up: int = 1

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        """For the ratings of the run's scale."""
        even = (setup.scale.levels**2 - 1) / 12
        return cls(even, even)

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """σ̂² of each pair after n ratings of sum ``total`` and sum of squares ``total_sq``."""
        squares = total_sq - total * total / n
        return (squares + WEIGHT * per_arm(self.pooled, n)) / (n - 1.0 + WEIGHT)

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Shrinkage:
        """The same with g = (Σ SS + v) / (Σ (n − 1) + 1), v that of an even draw; shape (…, pairs)."""
        squares = np.where(n > 1, total_sq - total * total / np.maximum(n, 1.0), 0.0)
        pooled = (squares.sum(axis=-1) + self.even) / (np.maximum(n - 1.0, 0.0).sum(axis=-1) + 1.0)
        return replace(self, pooled=pooled if pooled.ndim else float(pooled))
