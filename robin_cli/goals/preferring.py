"""The base of the goals of a pairwise run: each call compares two responses in one order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from robin_cli.goals.base import Goal
from robin_cli.goals.checks import no_ratings
from robin_cli.goals.found import Found
from robin_cli.goals.preferences import Preferences
from robin_cli.goals.watching import ComparisonsWatch, Counts, Watch
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import number_of
from robin_cli.model.space import ArmSpace
from robin_cli.policies.matches import Matches
from robin_cli.run.reader import RunReader
from robin_cli.stats.court import Snapshot
from robin_cli.stats.ranking import effects_of

_EQUAL = 1e-9


@dataclass(frozen=True)
class Preferring(Goal):
    """A goal of comparisons of two responses, each asked in both orders.

    An unknown result counts as half wrong; for truly equal responses, no result is wrong.
    """

    asked_by: ClassVar[str] = "--pairwise"
    noun: ClassVar[str] = "verdict"
    rows: ClassVar[str] = "comparisons"
    results: ClassVar[str] = "preferences"
    asks_all: ClassVar[bool] = False
    columns: ClassVar[tuple[str, ...]] = (
        "what",
        "asked_mean",
        "calls_mean",
        "wrong_mean",
        "wrong_sem",
        "any_mean",
        "order_effect_mean",
    )
    figures: ClassVar[Mapping[str, str]] = {}
    what: ClassVar[str] = "comparisons"
    asks_each: ClassVar[bool] = True
    """Whether an unasked comparison counts as unknown."""

    space: ArmSpace
    matches: Matches

    says: ClassVar[type[Found]] = Preferences

    def has_none(self, run: RunReader, what: str) -> str:
        return no_ratings(run.path, what)

    @property
    def fewest(self) -> tuple[int, str]:
        """The fewest comparisons that give any result, and their names in words."""
        return 1, "one comparison"

    def check_reach(self, budget: int) -> None:
        """Raise InputError if ``budget`` calls do not ask enough comparisons in both orders for any result."""
        comparisons, what = self.fewest
        if budget < (least := self.space.arms_per_pair * comparisons):
            judges = f" by {len(self.space.judges)} judges" if len(self.space.judges) > 1 else ""
            raise InputError(
                f"--budget {budget}: does not pay for {what} in both orders{judges}; raise it to {least} or more"
            )

    def caution(self, budget: int) -> str:
        """Return the number of comparisons that ``budget`` calls ask, if that is not all."""
        asked = budget // self.space.arms_per_pair
        if asked >= len(self.matches) or not self.asks_each:
            return ""
        return (
            f"the budget of {budget:,} asks {asked:,} of {number_of(len(self.matches), 'comparison')} in both orders, drawn at "
            "random; the others get no preference"
        )

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        del counts, own, target  # settings refuse an error to stop at beside comparisons
        return ComparisonsWatch(self.matches)

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        """Return the share that is wrong, whether any is, the share of comparisons asked, and the calls of each."""
        runs, scale = len(found.n), self.space.scales[0]
        by_order = (runs * len(self.matches), len(self.space.variants), -1)
        points, true = (
            (each.reshape(by_order) - scale.low) / (scale.high - scale.low)
            for each in (found.estimates, truth)
        )
        preference, in_truth = (each.mean(axis=(1, 2)).reshape(runs, -1) for each in (points, true))
        is_whole = ~np.isnan(preference)
        wrong = np.array([self.wrong(*each) for each in zip(in_truth, preference, strict=True)])
        return {
            "wrong": wrong,
            "any": (wrong > 0).astype(np.float64),
            "asked": is_whole.mean(axis=1),
            "calls": np.array([found.budget * runs / max(int(is_whole.sum()), 1)]),
            "order_effect": effects_of(points).reshape(runs, -1),
        }

    def wrong(self, truth: FloatArray, preference: FloatArray) -> float:
        """Return the share of wrong results.

        Args:
            truth, preference: for A in each comparison, true and found, shape (comparisons,); found is nan if unasked.
        """
        return share_wrong(truth - 0.5, np.nan_to_num(preference, nan=0.5) - 0.5)

    @property
    def has_win_rates(self) -> bool:
        """Whether win rates are reported."""
        return len(self.matches.names) > 1


def share_wrong(truth: FloatArray, found: FloatArray) -> float:
    """Return the share of sides, of those that truth has, that differ from those found; a tie found is half wrong."""
    side, mine = (np.where(np.abs(each) <= _EQUAL, 0.0, np.sign(each)) for each in (truth, found))
    differs = side != 0
    return float((0.5 * (1.0 - side[differs] * mine[differs])).mean()) if differs.any() else 0.0
