"""Goal: which response of each group is best, by ratings of each."""

from __future__ import annotations

from typing import Self

import numpy as np

from robin_cli.goals.deciding import Deciding
from robin_cli.model.arms import IntArray
from robin_cli.model.task import Task
from robin_cli.questions.inquiry import Inquiry


class Best(Deciding):
    """The response of each group whose mean rating is the highest."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal where the run looks for the best of each group. InputError for groups that are too large."""
        if source.is_pairwise or (decision := source.decision) is None or not decision.is_best:
            return None
        task = Task(decision, source.space, source.groups)
        _ = task.contests  # refuses groups that are too large
        return cls(source.space, task)

    def across(self, part: IntArray) -> str:
        """Return how many groups are in several parts."""
        assert self.task.group is not None  # noqa: S101  # for the types
        of_parts = np.unique(np.stack([self.task.group, part]), axis=1)[0]
        apart = int((np.bincount(of_parts) > 1).sum())
        if not apart:
            return ""
        return (
            f"{apart:,} group{'s have' if apart > 1 else ' has'} responses in more than one of the runs: which is best is "
            "decided anew among all of them"
        )
