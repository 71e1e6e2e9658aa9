"""Goals of comparisons: the preference of each, the best response to each prompt, and the ranking of systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from robin_cli.goals.bests import DuelsWatch
from robin_cli.goals.preferring import Preferring, share_wrong
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.bradley_terry import PRIOR, fit, wins_of
from robin_cli.model.decision import FOR_MORE
from robin_cli.model.rivals import Rivals
from robin_cli.questions.inquiry import Inquiry


class Prefer(Preferring):
    """The preference of each comparison, asked in both orders."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if comparisons are not of three systems or more."""
        if (
            not source.is_pairwise
            or source.own["decide"] is not None
            or source.matches.ranks_systems
        ):
            return None
        return cls(source.space, source.matches)


@dataclass(frozen=True)
class Preferred(Preferring):
    """The response to each prompt that is preferred to all others."""

    what: ClassVar[str] = "prompts"
    asks_each: ClassVar[bool] = False

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if the run looks for the best response to each prompt."""
        return (
            cls(source.space, source.matches)
            if source.is_pairwise and source.own["decide"] is not None
            else None
        )

    @property
    def fewest(self) -> tuple[int, str]:
        """The number of prompts, with one comparison each."""
        return int(np.unique(self.matches.prompt).size), "a comparison for each prompt"

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        return DuelsWatch(self.matches, counts, own, target or 0.0)

    @property
    def for_more(self) -> str:
        return FOR_MORE

    @property
    def has_win_rates(self) -> bool:
        """Whether win rates are reported: systems are not ranked."""
        return False

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of prompts with another best response."""
        return float((self._best(preference) != self._best(truth)).mean())

    @cached_property
    def _rivals(self) -> Rivals:
        return Rivals(self.matches)

    def _best(self, preference: FloatArray) -> IntArray:
        """Return the place of the leading response to each prompt; −1 if nothing is known of any."""
        rows = self._rivals.rows
        of_prompts = np.where(rows >= 0, preference[rows], np.nan)
        leader = self._rivals.leaders(of_prompts, np.arange(len(of_prompts)))
        return np.where(np.isnan(of_prompts).all(axis=1), -1, leader)


class Rank(Preferring):
    """The order of the systems."""

    what: ClassVar[str] = "couples of systems"
    asks_each: ClassVar[bool] = False

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if three systems or more are compared."""
        if (
            not source.is_pairwise
            or source.own["decide"] is not None
            or not source.matches.ranks_systems
        ):
            return None
        return cls(source.space, source.matches)

    @property
    def fewest(self) -> tuple[int, str]:
        """The number of systems less one."""
        count = len(self.matches.names)
        return count - 1, f"a comparison for each of {count} systems but one"

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of couples of systems in the wrong order."""
        i, j = np.triu_indices(len(self.matches.names), 1)
        real, mine = (self._strengths(each) for each in (truth, preference))
        return share_wrong(real[i] - real[j], mine[i] - mine[j])

    def _strengths(self, preference: FloatArray) -> FloatArray:
        """Return strengths by the comparisons with a preference, and half a tie of every two systems, compared or not."""
        there = ~np.isnan(preference)
        wins = (
            wins_of(preference[there], self.matches.system[there], len(self.matches.names))
            + 0.5 * PRIOR
        )
        np.fill_diagonal(wins, 0.0)
        return fit(wins).values
