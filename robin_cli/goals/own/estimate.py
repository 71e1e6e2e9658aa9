"""Goal: the score of each pair, until the budget is spent or the worst one is expected to be near enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from robin_cli.goals.rating import RatingGoal
from robin_cli.model.space import ArmSpace
from robin_cli.policies.registry import BASELINE
from robin_cli.run.inquiry import Inquiry


@dataclass(frozen=True)
class ScoresGoal(RatingGoal):
    """The score of each pair, as certain as the budget allows."""

    is_usual: ClassVar[bool] = True
    first_visit: ClassVar[int] = 2
    simulated: ClassVar[tuple[str, ...]] = (BASELINE, "two-priors", "robin-hood", "robin")

    space: ArmSpace

    @classmethod
    def of(cls, source: Inquiry) -> Self:
        """Return the goal of a run that names no other."""
        return cls(source.space)
