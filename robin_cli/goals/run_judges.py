"""The judges of a run: their calls and money, and those that repeat themselves, in facts and in words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from robin_cli.model.records import number_of
from robin_cli.run.fold import Spending
from robin_cli.show.words import money_text, significant
from robin_cli.stats.repeats import Repeats

if TYPE_CHECKING:
    from robin_cli.goals.base import Goal
    from robin_cli.run.manifest import Manifest
    from robin_cli.run.reader import RunReader

_CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class JudgeUse:
    """The use of a judge: its calls, its ratings and its money."""

    judge: str
    spent: int
    ratings: int
    money: Spending

    @classmethod
    def of(cls, run: RunReader, judge: str) -> Self:
        """Return it for a judge of ``run``."""
        place, arms = run.space.judges.index(judge), run.fold.arms
        mine = run.space.judge == place
        ratings = int(arms.n[mine].sum())
        return cls(
            judge, ratings + int(arms.n_unparsed[mine].sum()), ratings, run.fold.spending(place)
        )

    def facts(self) -> dict[str, Any]:
        """Return it as JSON."""
        return {
            "judge": self.judge,
            "spent": self.spent,
            "ratings": self.ratings,
            "cost_usd": self.money.exact_usd,
            "cost_usd_at_least": self.money.cost_usd,
        }

    def line(self, noun: str, *more: str) -> str:
        """Return it in words; ``noun``: what an answer holds."""
        money = [] if self.money.cost_usd is None else [money_text(self.money)]
        told = [number_of(self.spent, "call"), number_of(self.ratings, noun), *more, *money]
        return f"{self.judge}: {', '.join(told)}"


def repeats_of(manifest: Manifest, goal: Goal) -> Repeats | None:
    """Return what finds the judges of a run that repeat themselves; None if it asks them for certified decisions."""
    if manifest.own_settings["certify"]:
        return None
    asks_all = goal.asks_all and goal.least_calls == len(goal.space)
    return Repeats(goal.space, manifest.expected, asks_all=asks_all, ends=goal.ends)


def repeating_of(run: RunReader, goal: Goal) -> Repeating | None:
    """Return the judges that repeat themselves; None for files of scores, which no judge is asked for."""
    repeats = None if run.manifest.file_of_scores else repeats_of(run.manifest, goal)
    return None if repeats is None else Repeating(run, goal.noun, repeats)


class Repeating:
    """The judges of a run that repeat themselves, each on some attributes.

    Attributes:
        places: numbers of attribute and judge, in pairs.
        has_ended: whether the run may end because of it.
    """

    def __init__(self, run: RunReader, noun: str, repeats: Repeats) -> None:
        self._run, self._noun, self._arms = run, noun, run.fold.arms
        found = repeats.repeated(self._arms)
        self.places: list[list[int]] = np.argwhere(found.is_certain).tolist()
        self._made = found.made
        self.has_ended = not run.manifest.repeat_anyway and repeats.end_the_run(self._arms)

    def facts(self) -> list[dict[str, Any]]:
        """Return them as JSON: the repeats, and the upper 95 % limit of the share that would differ."""
        space = self._run.space
        return [
            {
                "judge": space.judges[judge],
                "attribute": space.attributes[attribute],
                "repeats": int(self._made[attribute, judge]),
                "differ_at_most": _most_that_differ(int(self._made[attribute, judge])),
            }
            for attribute, judge in self.places
        ]

    @cached_property
    def lines(self) -> list[str]:
        """A line on them; empty if none repeats itself."""
        if not self.places:
            return []
        made = [int(self._made[attribute, judge]) for attribute, judge in self.places]
        is_second = self._arms.n.max() <= 2
        kind = f"second {self._noun}" if is_second else "repeat"
        limit = significant(100 * _most_that_differ(min(made)), 1)
        parts = [f"{self._who}: {sum(made):,} of {number_of(sum(made), kind)} were the same"]
        manifest, spent = self._run.manifest, self._arms.spent
        if self.has_ended and not manifest.is_spent(spent):
            budget = f" of {manifest.budget:,}" if manifest.budget_usd is None else ""
            parts.append(f"stopped after {spent:,}{budget} calls")
        parts.append(f"at most {limit} % of repeats would differ (95 % confidence)")
        return [f"{'; '.join(parts)}. What is left is not noise: ask another judge, or people"]

    @property
    def _who(self) -> str:
        space = self._run.space
        judges = {judge: space.judges[judge] for _, judge in self.places}
        who = "the judge" if len(space.judges) == 1 else " and ".join(judges.values())
        verb = "repeats itself" if len(judges) == 1 else "repeat themselves"
        names = {attribute: space.attributes[attribute] for attribute, _ in self.places}
        on = "" if len(names) == len(space.attributes) else f" on {', '.join(names.values())}"
        return f"{who} {verb}{on}"


def _most_that_differ(repeats: int) -> float:
    """Return the upper limit of the share that differs, if none of ``repeats`` did: 1 − 0.05^(1/n), Clopper and Pearson's."""
    return float(1.0 - (1.0 - _CONFIDENCE) ** (1.0 / repeats))
