"""Goal: on which side of a threshold each pair lies."""

from __future__ import annotations

from typing import Self

from robin_cli.goals.deciding import Deciding
from robin_cli.model.task import Task
from robin_cli.questions.inquiry import Inquiry


class Threshold(Deciding):
    """Which pairs are kept, for their mean ratings meet thresholds."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal where the run names thresholds."""
        if source.is_pairwise or (decision := source.decision) is None or decision.is_best:
            return None
        return cls(source.space, Task(decision, source.space))
