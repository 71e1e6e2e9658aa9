"""Preferences: each comparison for itself, the more often the more its verdicts vary."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.policies.base import Setup, urgency
from robin_cli.policies.comparing import Comparing


@dataclass(frozen=True, slots=True)
class Preferences(Comparing):
    """Every comparison once in both orders, drawn at random; then that one whose preference is least certain.

    All arms of a comparison have its V, over their own calls: so they stay within one call of each other.
    """

    prior_weight: ClassVar[float] = 8.0

    objective: str = "worst-case"
    warm_up: int = 1

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """For the comparisons of the run."""
        if setup.matches is None:
            raise InputError("--scheduler preferences: asks which of two responses is better; take it with --pairwise")
        return cls(setup.matches, setup.matches.space.scales[0].even_variance, setup.objective)

    @property
    def turn(self) -> IntArray:
        """Comparison by comparison, see :attr:`Matches.turn`."""
        return self.matches.turn

    @property
    def contests(self) -> IntArray:
        """The arms of each comparison."""
        return np.arange(len(self.matches.space)).reshape(len(self.matches), 1, -1)

    def priority(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, *_: object
    ) -> FloatArray:
        """V of the comparison, over the calls of each of its arms."""
        variance = self.variance(n, total, total_sq)
        return np.asarray(urgency(variance[..., None], np.maximum(n + pending, 0.5), self.objective))
