"""Goal: the score of each pair, until the budget is spent or the worst one is expected to be near enough."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from robin_cli.goals.base import Goal, Words
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.rated import Rated
from robin_cli.goals.stopping import StoppingRule, reached
from robin_cli.model.arms import Arms
from robin_cli.model.errors import InputError
from robin_cli.model.records import things_rated
from robin_cli.policies.registry import BASELINE
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.reader import RunReader
from robin_cli.show.words import (
    WORST,
    WORST_ERROR,
    error_text,
    target_text,
)
from robin_cli.stats.worst_error import worst_error


class RatingGoal(Goal):
    """A goal by ratings: scores of pairs and attributes. It is the base of others, which change parts of it."""

    result_class = Rated

    def check_reach(self, budget: int) -> None:
        space, fewest = self.space, self.least_calls
        if budget < fewest:
            what = things_rated(fewest, len(space.attributes), len(space.judges))
            raise InputError(
                f"--budget {budget}: reaches {budget:,} of {what} once; raise it to {fewest} or more, or take fewer pairs "
                f"with --limit {max(1, self.pairs_within(budget))}"
            )

    def pairs_within(self, budget: int) -> int:
        return budget // self.space.arms_per_pair

    def is_reached(self, arms: Arms, target: float) -> bool:
        return target > 0 and self._worst_error(arms) <= target

    def stopping(self, target: float) -> StoppingRule | None:
        return reached(lambda arms: self.is_reached(arms, target))

    def standing(self, arms: Arms, target: float) -> list[Fact]:
        if unrated := int((arms.n[~arms.is_retired] == 0).sum()):
            return [line(WORST, f"not known ({unrated:,} not rated yet)")]
        worst, as_share = self._worst_error(arms), self.space.has_several_scales
        if math.isnan(worst):
            return [line(WORST, "–")]
        aim = f" (target {target_text(target, as_share=as_share)})" if target else ""
        return [line(WORST, f"expected error about {error_text(worst, as_share=as_share)}{aim}")]

    def _worst_error(self, arms: Arms) -> float:
        return worst_error(self.space, arms.copied_sums(), ~arms.is_retired)

    def has_none(self, run: RunReader, what: str) -> str:
        return (
            f"{run.name}: has ratings, not comparisons, so there is no {what}; use robin compare, or make a run with robin "
            "judge --pairwise"
        )


@dataclass(frozen=True)
class ScoresGoal(RatingGoal):
    """The score of each pair, as certain as the budget allows: the goal of a run that names no other."""

    first_visit = 2
    figures: ClassVar[Mapping[str, str]] = {"worst_error": "worst_mean", "mean_error": "mean_mean"}
    simulated = (BASELINE, "two-priors", "robin-hood", "robin")

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self:
        return cls(source.space)

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        worst, mean = (words(row[name]) for name in ("worst_error", "mean_error"))
        return f"the {WORST_ERROR} is about {worst}, of the average one {mean}"
