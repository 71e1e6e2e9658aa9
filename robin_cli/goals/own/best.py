"""Goal: which response of each group is best, by ratings of each."""

from __future__ import annotations

from typing import Self

from robin_cli.goals.deciding import Deciding
from robin_cli.goals.sources import Source
from robin_cli.model.task import Task


class Best(Deciding):
    """The response of each group whose mean rating is the highest."""

    @classmethod
    def of(cls, source: Source) -> Self | None:
        """Return the goal where the run looks for the best of each group. InputError for groups that are too large."""
        if source.is_pairwise or (decision := source.decision) is None or not decision.is_best:
            return None
        task = Task(decision, source.space, source.groups)
        _ = task.contests  # refuses groups that are too large
        return cls(source.space, task)
