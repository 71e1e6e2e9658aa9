"""Goals of comparisons of two responses, each asked in both orders: the preference of each, and the ranking of systems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from robin_cli.goals.base import Goal
from robin_cli.goals.checks import no_ratings
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.preferences import Preferences
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import number_of
from robin_cli.policies.bradley_terry import PRIOR, fit, wins_of
from robin_cli.policies.matches import Matches
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.reader import RunReader
from robin_cli.show.words import compared_text
from robin_cli.stats.court import Snapshot
from robin_cli.stats.ranking import effects_of

_EQUAL = 1e-9


@dataclass(frozen=True)
class PairwiseGoal(Goal):
    """A goal of comparisons.

    An unknown result counts as half wrong; for truly equal responses, no result is wrong.

    Attributes:
        asks_each: whether an unasked comparison counts as unknown.
    """

    result_class = Preferences
    flag = "--pairwise"
    noun = "verdict"
    rows = "comparisons"
    results = "preferences"
    asks_all = False
    columns: ClassVar[tuple[str, ...]] = (
        "what",
        "asked_mean",
        "calls_mean",
        "wrong_mean",
        "wrong_sem",
        "any_mean",
        "order_effect_mean",
    )
    what = "comparisons"
    asks_each = True

    matches: Matches

    @classmethod
    def _of_systems(cls, source: Inquiry, *, are_ranked: bool) -> Self | None:
        is_mine = source.is_pairwise and source.run_settings["decide"] is None
        if not is_mine or source.matches.ranks_systems != are_ranked:
            return None
        return cls(source.space, source.matches)

    def standing(self, arms: Arms, target: float) -> list[Fact]:
        del target
        return [line("compared", compared_text(self.matches.compared(arms)))]

    def has_none(self, run: RunReader, what: str) -> str:
        return no_ratings(run.path, what)

    @property
    def fewest(self) -> tuple[int, str]:
        return 1, "one comparison"

    def check_reach(self, budget: int) -> None:
        comparisons, what = self.fewest
        if budget < (least := self.space.arms_per_pair * comparisons):
            judges = f" by {len(self.space.judges)} judges" if len(self.space.judges) > 1 else ""
            raise InputError(
                f"--budget {budget}: does not pay for {what} in both orders{judges}; raise it to {least} or more"
            )

    def caution(self, budget: int) -> str:
        asked = budget // self.space.arms_per_pair
        if asked >= len(self.matches) or not self.asks_each:
            return ""
        return (
            f"the budget of {budget:,} asks {asked:,} of {number_of(len(self.matches), 'comparison')} in both orders, drawn at "
            "random; the others get no preference"
        )

    def loss(self, snapshot: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the share that is wrong, whether any is, the share of comparisons asked, and the calls of each."""
        runs, scale = len(snapshot.n), self.space.scales[0]
        by_order = (runs * len(self.matches), len(self.space.variants), -1)
        points, true = (
            (means.reshape(by_order) - scale.low) / (scale.high - scale.low)
            for means in (snapshot.estimates, truth)
        )
        preference, in_truth = (
            means.mean(axis=(1, 2)).reshape(runs, -1) for means in (points, true)
        )
        is_whole = ~np.isnan(preference)
        wrong = np.array([self.wrong(*run) for run in zip(in_truth, preference, strict=True)])
        return {
            "wrong": wrong,
            "any": (wrong > 0).astype(np.float64),
            "asked": is_whole.mean(axis=1),
            "calls": np.array([snapshot.budget * runs / max(int(is_whole.sum()), 1)]),
            "order_effect": effects_of(points).reshape(runs, -1),
        }

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of wrong results.

        Args:
            truth, preference: for A in each comparison, true and measured, shape (comparisons,); nan if it was not asked.
        """
        return share_wrong(truth - 0.5, np.nan_to_num(preference, nan=0.5) - 0.5)


class PreferencesGoal(PairwiseGoal):
    """The preference of each comparison, asked in both orders."""

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        return cls._of_systems(source, are_ranked=False)


class RankingGoal(PairwiseGoal):
    """The order of the systems, if three or more are compared."""

    what = "pairs of systems"
    asks_each = False

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        return cls._of_systems(source, are_ranked=True)

    @property
    def fewest(self) -> tuple[int, str]:
        count = len(self.matches.names)
        return count - 1, f"a comparison for each of {count} systems but one"

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        i, j = np.triu_indices(len(self.matches.names), 1)
        real, measured = (self._strengths(points) for points in (truth, preference))
        return share_wrong(real[i] - real[j], measured[i] - measured[j])

    def _strengths(self, preference: FloatArray) -> FloatArray:
        """Return strengths by the comparisons with a preference, and half a tie of every two systems, compared or not."""
        names, known = len(self.matches.names), ~np.isnan(preference)
        wins = wins_of(preference[known], self.matches.system[known], names) + 0.5 * PRIOR
        return fit(wins).values


def share_wrong(truth: FloatArray, measured: FloatArray) -> float:
    """Return the share of sides, of those that truth has, that differ from the measured ones; a measured tie is half wrong."""
    real, other = (
        np.where(np.abs(ahead) <= _EQUAL, 0.0, np.sign(ahead)) for ahead in (truth, measured)
    )
    differs = real != 0
    if not differs.any():
        return 0.0
    return float((0.5 * (1.0 - real[differs] * other[differs])).mean())
