"""Goals of comparisons: the preference of each, the best response to each prompt, and the ranking of systems."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np

from robin_cli.goals.bests import DuelsWatch
from robin_cli.goals.preferring import Preferring, share_wrong
from robin_cli.goals.watching import Counts, Watch
from robin_cli.model.arms import FloatArray
from robin_cli.policies.base import DEFAULT_MARGIN
from robin_cli.policies.bradley_terry import PRIOR, fit, wins_of
from robin_cli.run.inquiry import Inquiry
from robin_cli.stats.court import Court, DuelCourt, Snapshot

_ROUNDING = 1e-9


class Prefer(Preferring):
    """The preference of each comparison, asked in both orders."""

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if comparisons are not of three systems or more."""
        if (
            not source.is_pairwise
            or source.run_settings["decide"] is not None
            or source.matches.ranks_systems
        ):
            return None
        return cls(source.space, source.matches)


@dataclass(frozen=True)
class Preferred(Preferring):
    """The response to each prompt that is preferred to all others."""

    what: ClassVar[str] = "prompts"
    asks_each: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = (
        *Preferring.columns,
        *("likely_wrong_mean", "likely_wrong_sem", "calls_sem"),
    )

    margin: float = DEFAULT_MARGIN
    target_wrong: float = 0.0

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if the run looks for the best response to each prompt."""
        own = source.run_settings
        if not source.is_pairwise or own["decide"] is None:
            return None
        margin = own["margin"] or DEFAULT_MARGIN
        return cls(source.space, source.matches, margin, source.target_wrong)

    @property
    def fewest(self) -> tuple[int, str]:
        """The number of prompts, with one comparison each."""
        return int(np.unique(self.matches.prompt).size), "a comparison for each prompt"

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        return DuelsWatch(self.matches, counts, own, target or 0.0)

    @property
    def has_win_rates(self) -> bool:
        """Whether win rates are reported: systems are not ranked."""
        return False

    def court(self, runs: int) -> Court:
        return DuelCourt(self.matches.rivals, self.margin, runs, self.target_wrong)

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return also the share likely wrong, and the calls spent until the run ended."""
        return {**super().loss(found, truth), **found.measured}

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of prompts with no leader, or with a response preferred to it by more than the margin."""
        rows, side = self.matches.rivals.rows, self.matches.rivals.side
        of_prompts = np.where(rows >= 0, preference[rows], np.nan)
        leader = self.matches.rivals.leaders(of_prompts, np.arange(len(rows)))[:, None]
        ahead = np.where(side[..., 0] == leader, 0.5 - truth[rows], -np.inf)
        ahead = np.where(side[..., 1] == leader, truth[rows] - 0.5, ahead)
        is_behind = (np.where(rows >= 0, ahead, -np.inf) > self.margin + _ROUNDING).any(axis=1)
        return float((is_behind | np.isnan(of_prompts).all(axis=1)).mean())


class Rank(Preferring):
    """The order of the systems."""

    what: ClassVar[str] = "couples of systems"
    asks_each: ClassVar[bool] = False

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if three systems or more are compared."""
        if (
            not source.is_pairwise
            or source.run_settings["decide"] is not None
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
        wins = wins_of(preference[there], self.matches.system[there], len(self.matches.names))
        return fit(wins + 0.5 * PRIOR).values
