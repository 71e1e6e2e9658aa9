"""Preferences: each comparison for itself, the more often the more its verdicts vary."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.matches import Matches
from robin_cli.policies.base import Policy, Setup, flat_variance, per_arm, urgency

_PRIOR_WEIGHT = 8.0


@dataclass(frozen=True, slots=True)
class Preferences(Policy):
    """Every comparison once in both orders, drawn at random; then that one whose preference is least certain.

    A comparison's variance is V = √(flat · (SS + 8 g) / (Σ (n − 1) + 8)), as two-priors has it of an arm, over all arms of the
    comparison: SS are squares about the mean of each order and judge, so that an order's effect is no doubt to be bought down,
    and ``flat`` is the mean of each arm's :func:`flat_variance`. g = (Σ SS + v) / (Σ (n − 1) + 1) is that of all, v being that
    of a verdict drawn evenly from the scale. All arms of a comparison have its V, over their own calls: so they stay within one
    call of each other.

    Attributes:
        pooled: g, in simulation one a run.
    """

    whole: ClassVar[bool] = True
    pairwise: ClassVar[bool] = True

    matches: Matches
    objective: str
    pooled: float | FloatArray
    warm_up: int = 1

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """For the comparisons of the run."""
        if setup.matches is None:
            raise InputError("--scheduler preferences: asks which of two responses is better; take it with --pairwise")
        return cls(setup.matches, setup.objective, _even(setup.matches))

    @property
    def turn(self) -> IntArray:
        """Comparison by comparison, see :attr:`Matches.turn`."""
        return self.matches.turn

    @property
    def contests(self) -> IntArray:
        """The arms of each comparison."""
        space = self.matches.space
        return np.arange(len(space)).reshape(len(self.matches), len(space.variants), -1)

    def priority(
        self,
        n: FloatArray,
        pending: FloatArray,
        total: FloatArray,
        total_sq: FloatArray,
        arm: IntArray,  # noqa: ARG002
    ) -> FloatArray:
        """V of the comparison, over the calls of each of its arms."""
        scale = self.matches.space.scales[0]
        there = n > 0
        count = np.where(there, n, 1.0)
        squares = np.where(there, np.maximum(total_sq - total * total / count, 0.0), 0.0).sum(axis=(-2, -1))
        flat = np.where(there, flat_variance(count, total, total_sq, scale.low, scale.high), 0.0).sum(axis=(-2, -1))
        flat = flat / np.maximum(there.sum(axis=(-2, -1)), 1)
        freedom = (count - 1.0).sum(axis=(-2, -1))
        variance = np.sqrt(flat * (squares + _PRIOR_WEIGHT * per_arm(self.pooled, flat)) / (freedom + _PRIOR_WEIGHT))
        return np.asarray(urgency(variance[..., None, None], np.maximum(n + pending, 0.5), self.objective))

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Preferences:
        """The same with g from these ratings."""
        freedom = np.maximum(n - 1.0, 0.0).sum(axis=-1)
        squares = np.where(n > 1, np.maximum(total_sq - total * total / np.maximum(n, 1.0), 0.0), 0.0).sum(axis=-1)
        pooled = (squares + _even(self.matches)) / (freedom + 1.0)
        return replace(self, pooled=pooled if n.ndim > 1 else float(pooled))


def _even(matches: Matches) -> float:
    return float((matches.space.scales[0].levels ** 2 - 1) / 12)
