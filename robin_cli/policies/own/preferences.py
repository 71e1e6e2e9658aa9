"""Preferences: each comparison by itself, more often the more its verdicts vary."""

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
    """Every comparison once in both orders, in random order; then the one whose preference is least certain.

    The arms of a comparison share its V, each over its own calls, so they stay within one call of each other.
    """

    prior_weight: ClassVar[float] = 8.0

    objective: str = "worst-case"
    warm_up: int = 1

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return the policy for the comparisons of the run."""
        if setup.matches is None:
            raise InputError(
                "--scheduler preferences: compares two responses; take it with --pairwise"
            )
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
        self,
        n: FloatArray,
        pending: FloatArray,
        total: FloatArray,
        total_sq: FloatArray,
        *_: object,
    ) -> FloatArray:
        """Return the urgency of V of the comparison after the calls of each of its arms."""
        variance = self.variance(n, total, total_sq)
        return np.asarray(
            urgency(variance[..., None], np.maximum(n + pending, 0.5), self.objective)
        )
