"""Uniform: round robin, the paper's baseline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import Columns, Policy, Setup


@dataclass(frozen=True, slots=True)
class Uniform(Policy):
    """The arm with the fewest calls comes next: a warm-up without an end.

    Comparisons, and systems to be compared, have an order of their own within a round, ``turn``, so that a budget that ends
    there skips neither an order of a comparison nor a response to a prompt.
    """

    evenly: ClassVar[bool] = True
    adapts: ClassVar[bool] = False
    asks_on: ClassVar[bool] = True

    warm_up: int = 2**40
    turn: IntArray | None = None

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        order = setup.systems if setup.matches is None else setup.matches
        return cls(turn=None if order is None else order.turn)

    def priority(self, arms: Columns) -> FloatArray:
        return 1.0 / arms.made
