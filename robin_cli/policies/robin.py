"""ROBIN, the paper's algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.policies.base import Columns, Policy, Setup


@dataclass(frozen=True, slots=True)
class Robin(Policy):
    """Priority σ_i² / n_i with known variances, after one call of each arm.

    ``variances``, shape (K,), come from a pool of recorded ratings or from an earlier run.
    """

    needs_variances: ClassVar[bool] = True
    adapts: ClassVar[bool] = False
    starves: ClassVar[bool] = True
    asks_on: ClassVar[bool] = True

    variances: FloatArray
    warm_up: int = 1

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        if setup.variances is None:
            raise InputError(
                "--scheduler robin: needs variances known beforehand; name an earlier run with --variances RUN"
            )
        return cls(setup.variances)

    def priority(self, arms: Columns) -> FloatArray:
        return self.variances[arms.arm] / arms.made
