"""The judges of a run: their calls and money, and those that repeat themselves."""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan, nan
from typing import Any, NamedTuple

import numpy as np

from robin_cli.goals.base import Goal
from robin_cli.goals.watch import repeats_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of
from robin_cli.run.fold import Spending
from robin_cli.run.reader import RunReader
from robin_cli.show.words import finite, money_text, significant
from robin_cli.stats.repeats import Repeats

_CONFIDENCE = 0.95


class JudgeUse(NamedTuple):
    """The use of a judge: its calls, its ratings and its money; the mean of each attribute, nan without a score."""

    judge: str
    spent: int
    ratings: int
    money: Spending
    means: Mapping[str, float]
    scores: int

    def facts(self) -> dict[str, Any]:
        facts = {
            "judge": self.judge,
            "spent": self.spent,
            "ratings": self.ratings,
            "cost_usd": self.money.exact_usd,
            "cost_usd_at_least": self.money.cost_usd,
        }
        if not self.means:
            return facts
        means = {name: finite(mean) for name, mean in self.means.items()}
        single = next(iter(means.values())) if len(means) == 1 else None
        return facts | {"mean_scores": means, "mean_score": single, "scores": self.scores}

    def line(self, noun: str) -> str:
        parts = [number_of(self.spent, "call"), number_of(self.ratings, noun)]
        if self.means:
            several = len(self.means) > 1
            means = [
                f"{'–' if isnan(mean) else f'{mean:.2f}'}{f' {name}' * several}"
                for name, mean in self.means.items()
            ]
            parts.append(f"mean {', '.join(means)} over {number_of(self.scores, 'score')}")
        if self.money.cost_usd is not None:
            parts.append(money_text(self.money))
        return f"{self.judge}: {', '.join(parts)}"


def uses_of(run: RunReader, scores: FloatArray | None = None) -> list[JudgeUse]:
    """Return the use of each judge, in the order of the run's judges; ``scores``: those of each judge, for their means."""
    space, arms, uses = run.space, run.fold.arms, []
    for place, judge in enumerate(space.judges):
        is_asked, means, count = space.judge == place, dict[str, float](), 0
        ratings, unparsed = (int(n[is_asked].sum()) for n in (arms.n, arms.n_unparsed))
        if scores is not None:
            known = is_asked & ~np.isnan(scores)
            count = int(known.sum())
            for number, name in enumerate(space.attributes):
                of_name = scores[known & (space.attribute == number)]
                means[name] = float(of_name.mean()) if len(of_name) else nan
        money = run.fold.spending(place)
        uses.append(JudgeUse(judge, ratings + unparsed, ratings, money, means, count))
    return uses


def repeating_of(run: RunReader, goal: Goal) -> Repeating | None:
    """Return the judges that repeat themselves; None for files of scores, which no judge is asked for."""
    repeats = None if run.manifest.file_of_scores else repeats_of(run.manifest, goal)
    return None if repeats is None else Repeating(run, goal.noun, repeats)


class Repeating:
    """The judges of a run that repeat themselves, each on some attributes.

    Attributes:
        has_ended: whether the run may end because of it.
    """

    def __init__(self, run: RunReader, noun: str, repeats: Repeats) -> None:
        self._run, self._noun, arms = run, noun, run.fold.arms
        repeated = repeats.repeated(arms)
        self._judges = [
            (attribute, judge, int(repeated.made[attribute, judge]))
            for attribute, judge in np.argwhere(repeated.is_certain).tolist()
        ]
        self.has_ended = not run.manifest.repeat_anyway and repeats.end_the_run(arms)

    def facts(self) -> list[dict[str, Any]]:
        space = self._run.space
        return [
            {
                "judge": space.judges[judge],
                "attribute": space.attributes[attribute],
                "repeats": made,
                "differ_at_most": _most_that_differ(made),
            }
            for attribute, judge, made in self._judges
        ]

    @property
    def lines(self) -> list[str]:
        if not self._judges:
            return []
        run, manifest, arms = self._run, self._run.manifest, self._run.fold.arms
        names, judges = run.space.attributes, run.space.judges
        who = {judge: judges[judge] for _, judge, _ in self._judges}
        about = {attribute: names[attribute] for attribute, _, _ in self._judges}
        made = [repeats for _, _, repeats in self._judges]
        whose = "the judge" if len(judges) == 1 else " and ".join(who.values())
        verb = "repeats itself" if len(who) == 1 else "repeat themselves"
        on = "" if len(about) == len(names) else f" on {', '.join(about.values())}"
        kind = f"second {self._noun}" if arms.n.max() <= 2 else "repeat"
        parts = [f"{whose} {verb}{on}: {sum(made):,} of {number_of(sum(made), kind)} were the same"]
        if self.has_ended and not manifest.is_spent(arms.spent):
            budget = f" of {manifest.budget:,}" if manifest.budget_usd is None else ""
            parts.append(f"stopped after {arms.spent:,}{budget} calls")
        limit = significant(100 * _most_that_differ(min(made)), 1)
        parts.append(f"at most {limit} % of repeats would differ (95 % confidence)")
        return [f"{'; '.join(parts)}. What is left is not noise: ask another judge, or people"]


def _most_that_differ(repeats: int) -> float:
    """Return the upper limit of the share that differs, if none of ``repeats`` did: 1 − 0.05^(1/n), Clopper and Pearson's."""
    return float(1.0 - (1.0 - _CONFIDENCE) ** (1.0 / repeats))
