"""Uniform: round robin, the paper's baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.matches import Matches
from robin_cli.policies.systems import Systems


@dataclass(frozen=True, slots=True)
class Uniform(Policy):
    """The arm with the fewest calls comes next: the paper's baseline, a warm-up without an end."""

    evenly: ClassVar[bool] = True
    adapts: ClassVar[bool] = False
    asks_on: ClassVar[bool] = True

    warm_up: int = 2**40
    order: Matches | Systems | None = None

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return the policy; comparisons, and systems to be compared, have an order of their own."""
        return cls(order=setup.systems if setup.matches is None else setup.matches)

    @property
    def turn(self) -> IntArray | None:
        """The order within a round, see :attr:`Matches.turn` and :attr:`Systems.turn`; None for that of the data.

        So a budget that ends within a round skips neither an order of a comparison nor a response to a prompt.
        """
        return None if self.order is None else self.order.turn

    def priority(self, n: FloatArray, pending: FloatArray, *_: object) -> FloatArray:
        """Return 1 / (n + pending), whatever the ratings."""
        return 1.0 / (n + pending)
