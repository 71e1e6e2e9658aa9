"""Goal: the score of each pair, until the budget is spent or the largest error is small enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from robin_cli.goals.rating import Rating
from robin_cli.model.space import ArmSpace
from robin_cli.planning.costs import Per
from robin_cli.policies.registry import BASELINE
from robin_cli.questions.inquiry import Inquiry


@dataclass(frozen=True)
class Estimate(Rating):
    """The score of each pair, as sure as the budget makes it.

    Attributes:
        objective: what is to be small, one of :data:`~robin_cli.policies.base.OBJECTIVES`.
    """

    is_usual: ClassVar[bool] = True
    simulated: ClassVar[tuple[str, ...]] = (BASELINE, "two-priors", "robin-hood", "robin")

    space: ArmSpace
    objective: str

    @classmethod
    def of(cls, source: Inquiry) -> Self:
        """Return the goal of a run that asks for no other."""
        return cls(source.space, str(source.own["objective"]))

    @property
    def per(self) -> Per:
        """By each arm's own cost where the mean error is to be small; else by its judge's."""
        return Per.ARM if self.objective == "mean-error" else Per.ROOT_OF_JUDGE
