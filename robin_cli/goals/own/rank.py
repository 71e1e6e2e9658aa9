"""Goal: the ranking of three systems or more, by comparisons of two responses at a time."""

from __future__ import annotations

from typing import ClassVar, Self

import numpy as np

from robin_cli.goals.preferring import Preferring, share_wrong
from robin_cli.model.arms import FloatArray
from robin_cli.model.bradley_terry import PRIOR, fit, wins_of
from robin_cli.questions.inquiry import Inquiry


class Rank(Preferring):
    """The order of the systems."""

    what: ClassVar[str] = "couples of systems"
    asks_each: ClassVar[bool] = False
    aside: ClassVar[str] = (
        "With three systems and more not all comparisons need be asked: --scheduler tournament asks more between close ones."
    )

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal where three systems or more are compared."""
        if not source.is_pairwise or source.own["decide"] is not None or not source.matches.ranks_systems:
            return None
        return cls(source.space, source.matches)

    @property
    def fewest(self) -> tuple[int, str]:
        """A comparison for each system but one."""
        count = len(self.matches.names)
        return count - 1, f"a comparison for each of {count} systems but one"

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of couples of systems in the wrong order."""
        i, j = np.triu_indices(len(self.matches.names), 1)
        real, mine = (self._strengths(each) for each in (truth, preference))
        return share_wrong(real[i] - real[j], mine[i] - mine[j])

    def _strengths(self, preference: FloatArray) -> FloatArray:
        """Return strengths by the comparisons with a preference, and half a tie of every two systems: not all are compared."""
        there = ~np.isnan(preference)
        wins = wins_of(preference[there], self.matches.system[there], len(self.matches.names)) + 0.5 * PRIOR
        np.fill_diagonal(wins, 0.0)
        return fit(wins).values
