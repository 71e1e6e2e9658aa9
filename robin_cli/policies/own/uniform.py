"""Uniform: round robin, the paper's baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.matches import Matches
from robin_cli.policies.base import Policy, Setup


@dataclass(frozen=True, slots=True)
class Uniform(Policy):
    """The arm with the fewest calls comes next: the paper's baseline, a warm-up without an end."""

    evenly: ClassVar[bool] = True
    adapts: ClassVar[bool] = False

    warm_up: int = 2**40
    matches: Matches | None = None

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return the policy; comparisons have an order of their own."""
        return cls(matches=setup.matches)

    @property
    def turn(self) -> IntArray | None:
        """In a pairwise run that of :attr:`Matches.turn`: a budget that ends within a round skips no order."""
        return None if self.matches is None else self.matches.turn

    def priority(self, n: FloatArray, pending: FloatArray, *_: object) -> FloatArray:
        """Return 1 / (n + pending), whatever the ratings."""
        return 1.0 / (n + pending)
