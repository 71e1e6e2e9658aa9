"""Goal: which of two responses is better, comparison by comparison."""

from __future__ import annotations

from typing import Self

from robin_cli.goals.preferring import Preferring
from robin_cli.questions.inquiry import Inquiry


class Prefer(Preferring):
    """The preference of each comparison, asked in both orders."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal where comparisons are not of three systems or more."""
        if not source.is_pairwise or source.own["decide"] is not None or source.matches.ranks_systems:
            return None
        return cls(source.space, source.matches)
