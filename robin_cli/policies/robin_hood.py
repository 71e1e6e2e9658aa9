"""ROBIN-HOOD, the paper's algorithm 2."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.policies.base import MODES, Estimating, Setup


@dataclass(frozen=True, slots=True)
class RobinHood(Estimating):
    """Priority V̄_i / n_i with V̄_i = σ̂_i² / (1 − √(c / n_i)), eq. (ucb_var).

    The paper has two definitions of c and of the warm-up t0: ``practice`` that of its experiments, ``theory`` that of its
    Theorem 2. A call under way counts only in the n_i by which V̄_i is divided: it improves the mean, not the variance estimate.
    """

    starves: ClassVar[bool] = True
    asks_on: ClassVar[bool] = True

    c: float
    warm_up: int

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        """Return the policy for a run.

        ``practice``: c = 4 ln(1/δ) ("t0 is defined to be 4 ln(1/δ)"), and whole rounds until every arm has more than c
        ratings, t0 = ⌊c⌋ + 1 (20 at δ = 0.007). ``theory``: c = 4 ln(4KB/δ) and t0 = ⌈16 ln(4KB/δ)⌉.

        Raises:
            InputError: δ outside (0, 1]; an unknown mode; ``theory`` with a budget below its own warm-up.
        """
        arms, budget, delta = setup.arms, setup.budget, setup.delta
        if not 0.0 < delta <= 1.0:
            raise InputError(
                f"--delta {delta:g}: a failure probability is above 0 and at most 1, for example 0.007"
            )
        if setup.mode == "practice":
            c = 4.0 * math.log(1.0 / delta)
            return cls(c=c, warm_up=math.floor(c) + 1)
        if setup.mode != "theory":
            raise InputError(f'--mode "{setup.mode}": known modes are {", ".join(MODES)}')
        warm_up = theory_warm_up(arms, budget, delta)
        if arms * warm_up > budget:
            raise InputError(
                f"--budget {budget}: ROBIN-HOOD in theory mode needs {warm_up} calls for each of {arms} scores before it "
                f"adapts, {smallest_theory_budget(arms, delta)} calls at least; raise the budget, or use --mode practice"
            )
        return cls(c=4.0 * math.log(4.0 * arms * budget / delta), warm_up=warm_up)

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """Return V̄, for n > c; σ̂² = Σx²/n − (Σx/n)² is eq. (est_var), exact for integer ratings."""
        return (n * total_sq - total * total) / (n * n) / (1.0 - np.sqrt(self.c / n))


def smallest_theory_budget(arms: int, delta: float) -> int:
    """Return the smallest B with B ≥ K · t0(B); it exists, as t0 grows only like ln B."""
    budget = arms
    while (needed := arms * theory_warm_up(arms, budget, delta)) > budget:
        budget = needed
    return budget


def theory_warm_up(arms: int, budget: int, delta: float) -> int:
    """Return t0 = ⌈16 ln(4KB/δ)⌉ calls for each arm, the exploration of the paper's Theorem 2."""
    return math.ceil(16.0 * math.log(4.0 * arms * budget / delta))
