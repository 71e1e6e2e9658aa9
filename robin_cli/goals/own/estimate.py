"""Goal: the score of each pair, until the budget is spent or the largest error is small enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from robin_cli.goals.aims import Aimed, ErrorWatch, aim_of
from robin_cli.goals.base import Counts, Goal, Watch
from robin_cli.model.space import ArmSpace
from robin_cli.planning.costs import Per
from robin_cli.policies.registry import BASELINE
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.reader import RunData


@dataclass(frozen=True)
class Estimate(Goal):
    """The score of each pair, as sure as the budget makes it.

    Attributes:
        objective: what is to be small, one of :data:`~robin_cli.policies.base.OBJECTIVES`.
    """

    is_usual: ClassVar[bool] = True
    simulated: ClassVar[tuple[str, ...]] = (BASELINE, "robin-hood", "robin")

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

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None, *, guaranteed: bool) -> Watch:
        """Watch the largest error."""
        del own
        return ErrorWatch(self.space, target, counts() if guaranteed else None)

    def is_over(self, run: RunData, bound: float | None = None) -> bool:
        """Return whether the error that the last session was to stop at is reached."""
        return Aimed(aim_of(run, bound)).is_over
