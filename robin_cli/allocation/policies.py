"""Policies: from the numbers of an arm to the priority of its next call.

A policy sees counts and sums, never the run. Each formula is written once and works on floats (the scheduler, one arm at
a time) and on arrays (simulation, all arms at once).

Symbols, as in the paper "LLM-as-Judge on a Budget": K arms, budget B, n_i ratings of arm i, σ̂_i² their 1/n variance, δ
the failure probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, TypeVar

from robin_cli.allocation.arms import FloatArray
from robin_cli.errors import InputError

Number = TypeVar("Number", float, FloatArray)

DEFAULT_DELTA = 0.007
"""The paper's δ, tuned by its authors on their own pools."""

MODES = ("practice", "theory")


class Policy(Protocol):
    """What a scheduler needs to know of a policy."""

    @property
    def warm_up(self) -> int:
        """Ratings that every arm gets, in whole rounds, before ``priority`` is asked."""

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number) -> Number:
        """The larger, the sooner asked; finite for n ≥ ``warm_up`` and strictly falling in ``pending`` where positive.

        Args:
            n: ratings received, at least ``warm_up``.
            pending: calls under way, which count as made: their answers cannot be known, but their number is.
            total: Σ x over the ratings.
            total_sq: Σ x² over the ratings.
        """


def empirical_variance(n: Number, total: Number, total_sq: Number) -> Number:
    """σ̂² = Σx²/n − (Σx/n)², the 1/n variance of the paper's eq. (est_var); exact for integer ratings."""
    return (n * total_sq - total * total) / (n * n)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Round robin: the arm with the fewest calls comes next. The paper's baseline."""

    warm_up: int = 1

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number) -> Number:  # noqa: ARG002
        """1 / (n + pending), whatever the ratings were."""
        return 1.0 / (n + pending)


@dataclass(frozen=True, slots=True)
class RobinHood:
    """ROBIN-HOOD (the paper's algorithm 2): priority V̄_i / n_i with V̄_i = σ̂_i² / (1 − √(c / n_i)), eq. (ucb_var).

    The paper gives two readings of c and of the warm-up t0; ``practice`` is the one of its experiments, ``theory`` the one
    of its Theorem 2. See :func:`robin_hood`. Calls under way enlarge only the n_i that V̄_i is divided by: a call whose
    answer is not known yet makes the mean better, not the variance estimate.
    """

    c: float
    warm_up: int

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number) -> Number:
        """V̄ / (n + pending), for n > c."""
        variance = empirical_variance(n, total, total_sq)
        radius: Number = (self.c / n) ** 0.5
        return variance / (1.0 - radius) / (n + pending)


def practice_constant(delta: float) -> float:
    """c = 4 ln(1/δ), the constant of the paper's experiments ("t0 is defined to be 4 ln(1/δ)")."""
    return 4.0 * math.log(1.0 / delta)


def theory_warm_up(arms: int, budget: int, delta: float) -> int:
    """t0 = ⌈16 ln(4KB/δ)⌉ calls an arm, the exploration of the paper's Theorem 2."""
    return math.ceil(16.0 * math.log(4.0 * arms * budget / delta))


def smallest_theory_budget(arms: int, delta: float) -> int:
    """The smallest B with B ≥ K · t0(B); it exists, since t0 grows as ln B only."""
    budget = arms
    while (needed := arms * theory_warm_up(arms, budget, delta)) > budget:
        budget = needed
    return budget


def robin_hood(arms: int, budget: int, *, delta: float = DEFAULT_DELTA, mode: str = "practice") -> RobinHood:
    """ROBIN-HOOD for ``arms`` arms and ``budget`` calls.

    ``practice``: c = 4 ln(1/δ), and whole rounds until every arm has more than c ratings, t0 = ⌊c⌋ + 1 (20 at δ = 0.007).
    ``theory``: c = 4 ln(4KB/δ) and t0 = ⌈16 ln(4KB/δ)⌉.

    Raises:
        InputError: δ outside (0, 1]; an unknown mode; ``theory`` with a budget below its own warm-up.
    """
    if not 0.0 < delta <= 1.0:
        raise InputError(f"--delta {delta:g}: a failure probability lies above 0 and at most at 1, for example 0.007")
    if mode == "practice":
        c = practice_constant(delta)
        return RobinHood(c=c, warm_up=math.floor(c) + 1)
    if mode != "theory":
        raise InputError(f'--mode "{mode}": known modes are {", ".join(MODES)}')
    warm_up = theory_warm_up(arms, budget, delta)
    if arms * warm_up > budget:
        raise InputError(
            f"--budget {budget}: ROBIN-HOOD in theory mode needs {warm_up} calls for each of {arms} arms before it adapts, "
            f"{smallest_theory_budget(arms, delta)} calls at the least; raise the budget, or use --mode practice"
        )
    return RobinHood(c=4.0 * math.log(4.0 * arms * budget / delta), warm_up=warm_up)


POLICIES = ("robin-hood", "uniform")


def make_policy(name: str, *, arms: int, budget: int, delta: float, mode: str) -> Policy:
    """The policy called ``name``, set up for a run.

    Raises:
        InputError: an unknown name, or settings that the policy refuses.
    """
    if name == "uniform":
        return Uniform()
    if name == "robin-hood":
        return robin_hood(arms, budget, delta=delta, mode=mode)
    raise InputError(f'--scheduler "{name}": known schedulers are {", ".join(POLICIES)}')
