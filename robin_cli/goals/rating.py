"""The base of goals by ratings of single responses, and the results of a run of ratings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.base import Goal
from robin_cli.goals.decided import decision_facts
from robin_cli.goals.found import Builder, Found
from robin_cli.goals.people_tables import OF_SCORES, stances_of_scores
from robin_cli.goals.scores import decision_table, scores_as_asked
from robin_cli.goals.training import preference_table
from robin_cli.goals.watching import Counts, ErrorWatch, Watch
from robin_cli.model.errors import InputError
from robin_cli.model.records import first_text, number_of, things_rated
from robin_cli.run.reader import RunReader
from robin_cli.show.words import (
    AT_TARGET,
    MOST_LINES,
    WORST,
    error_text,
    finite,
    target_text,
)
from robin_cli.stats.scores import Scores, spread_between
from robin_cli.stats.worst_error import Aim, worst_error


class OfJudge(NamedTuple):
    """A judge's ratings: the mean of each attribute, nan without one, and the number of scores behind them."""

    means: Mapping[str, float]
    scores: int


class Rated(Found):
    """The results of a run of ratings: scores, their errors, means, agreement with people, judges."""

    tables: ClassVar[Mapping[str, Builder]] = {
        "scores": scores_as_asked,
        "judge-scores": partial(scores_as_asked, by_judge=True),
        "decisions": decision_table,
        "preferences": preference_table,
        **OF_SCORES,
    }

    @property
    def each(self) -> Scores:
        """The scores of each judge."""
        return self.all_scores[-1]

    @property
    def is_panel(self) -> bool:
        """Whether there are several judges."""
        return len(self.run.space.judges) > 1

    @property
    def has_errors(self) -> bool:
        """Whether errors of scores are known. A file with neither a scale nor two scores of any pair has none."""
        has_scale = all(each.are_known for each in self.run.manifest.known_ends)
        return has_scale or bool((self.run.fold.arms.n > 1).any())

    @cached_property
    def worst_error(self) -> float:
        """The expected error of the worst score; nan while unknown."""
        if not self.has_errors:
            return math.nan
        arms = self.run.fold.arms
        return worst_error(self.run.space, arms.sums, self.wanted & ~arms.is_retired)

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Whether each arm is to have a rating, shape (K,)."""
        return np.ones(len(self.run.space), dtype=np.bool_)

    @cached_property
    def aim(self) -> Aim | None:
        """The target error of the last session, and the present one; None without a target."""
        error = self.run.manifest.last_session.get("target_error")
        if error is None:
            return None
        return Aim(error, self.worst_error, self.run.space.has_several_scales)

    stances = stances_of_scores

    @property
    def is_over(self) -> bool:
        """Whether the target error is reached."""
        return self.aim is not None and self.aim.reached

    @property
    def target(self) -> float:
        """The share of likely wrong decisions at which the last session ends; 0: never."""
        return self.run.manifest.target_wrong

    @property
    def mean_text(self) -> str:
        """The means in a line, for runs with another goal."""
        many, is_panel = self.people.first, self.is_panel
        first = f"; of {first_text(many, is_panel=is_panel)} of each pair" if many else ""
        return f"{'; '.join(self.mean_lines())}{first}"

    @property
    def answer(self) -> list[str]:
        """The mean of each attribute, and the error beside its target."""
        others = [] if self.aim is None else [aim_text(self.aim)]
        return [*self.mean_lines(MOST_LINES - len(others)), *others]

    @property
    def asides(self) -> list[str]:
        """The number of pairs without a rating of each attribute, if there are any, and judges that repeat themselves."""
        space, lines = self.run.space, []
        unrated = space.by_pair(np.isnan(self.scores.numbers("score"))).sum(axis=0).tolist()
        for name, count in zip(space.attributes, unrated, strict=True):
            of = f" of {name}" if len(space.attributes) > 1 else ""
            if count:
                have = "has" if count == 1 else "have"
                lines.append(f"{number_of(count, 'pair')} {have} no rating{of}")
        return [*lines, *self.repeat_lines]

    @property
    def is_open(self) -> bool:
        """Whether a target error is not reached."""
        return self.aim is not None and not self.aim.reached

    @cached_property
    def of_judges(self) -> Sequence[OfJudge]:
        """The means of each judge's ratings, in the order of the run's judges."""
        space, means, found = self.run.space, self.each.numbers("score"), []
        for number in range(len(space.judges)):
            mine = (space.judge == number) & ~np.isnan(means)
            rated = {
                name: means[mine & (space.attribute == place)]
                for place, name in enumerate(space.attributes)
            }
            by_attribute = {
                name: float(each.mean()) if len(each) else math.nan for name, each in rated.items()
            }
            found.append(OfJudge(by_attribute, sum(map(len, rated.values()))))
        return found

    @cached_property
    def judge_spread(self) -> float:
        """The standard deviation of the judges' means of one pair, without noise; nan if unknown."""
        return math.nan if self.scores.between is None else spread_between(self.scores.between)

    @property
    def _spread_over(self) -> int:
        return 0 if self.scores.between is None else int((~np.isnan(self.scores.between)).sum())

    def facts(self) -> dict[str, Any]:
        aim, decided = self.aim, self.scores.decided
        return {
            "worst_error": finite(self.worst_error),
            "target_error": None if aim is None else aim.error,
            "target_reached": None if aim is None else aim.reached,
            "decide": None if decided is None else str(decided.task.decision),
            "decisions": None if decided is None else decision_facts(decided, self.target),
            **self.agreed_facts(),
            "errors_are": "shares of the scale" if self.run.space.has_several_scales else "points",
            **self.people.facts(),
            "judges": [
                {
                    **asked.facts(),
                    "mean_scores": {name: finite(mean) for name, mean in own.means.items()},
                    "mean_score": finite(next(iter(own.means.values())))
                    if len(own.means) == 1
                    else None,
                    "scores": own.scores,
                }
                for asked, own in zip(self.judges, self.of_judges, strict=True)
            ],
            "judge_spread": finite(self.judge_spread),
            "judge_spread_over": self._spread_over,
        }

    def lines(self) -> dict[str, str]:
        arms, space, people = self.run.fold.arms, self.run.space, self.people
        judges = f" × {len(space.judges)} judges" if self.is_panel else ""
        of = f"{number_of(len(self.run.pair_ids), 'pair')} × {', '.join(space.attributes)}{judges}"
        return {
            "scores": f"{int(self.wanted.sum()):,} ({of}), {int((self.wanted & (arms.n == 0)).sum()):,} without a rating, "
            f"{int(arms.is_retired.sum()):,} given up",
            WORST: ": ".join(self.worst_text()[1:]),
            **people.human_lines(self.run),
            **people.own_lines(known=True),
            **(self._judge_lines() if self.is_panel else {}),
        }

    def error_text(self, error: float) -> str:
        """Return an error in words with its unit."""
        return error_text(error, as_share=self.run.space.has_several_scales)

    def worst_text(self) -> tuple[str, str, str]:
        """Return a label, the expected error of the worst score, and what it is of or why it is unknown."""
        if not self.has_errors:
            why = "nothing was scored twice, and the scale is not known (--scale LOW-HIGH)"
            return WORST, "expected error not known", why
        if math.isnan(self.worst_error):
            is_unrated = (self.wanted & (self.run.fold.arms.n == 0)).any()
            return (
                WORST,
                "expected error not known",
                "some scores have no rating yet" if is_unrated else "no score is left",
            )
        single = " of a single judge" if self.is_panel else ""
        said = f"how far the least certain score{single} is from its judge's mean"
        return WORST, f"expected error about {self.error_text(self.worst_error)}", said

    @property
    def spread_over(self) -> str:
        """The number of scores behind the spread between judges, in words."""
        return f"over {number_of(self._spread_over, 'score')}"

    def _judge_lines(self) -> dict[str, str]:
        lines, spread = {}, self.judge_spread
        for number, (asked, own) in enumerate(zip(self.judges, self.of_judges, strict=True), 1):
            means = {
                name: "–" if math.isnan(mean) else f"{mean:.2f}" for name, mean in own.means.items()
            }
            mean = ", ".join(
                f"{told} {name}" if len(means) > 1 else told for name, told in means.items()
            )
            lines[f"judge {number}"] = asked.line(
                "rating", f"mean {mean} over {number_of(own.scores, 'score')}"
            )
        unknown = "not known: a judge has fewer than two ratings of every pair"
        apart = (
            f"standard deviation of their means of one pair, noise taken out; {self.spread_over}"
        )
        return {
            **lines,
            "between judges": f"{unknown if math.isnan(spread) else self.error_text(spread)} ({apart})",
        }


def aim_text(aim: Aim) -> str:
    """Return the expected error of the worst score beside its target, in words."""
    wanted, now = (target_text(error, as_share=aim.as_share) for error in (aim.error, aim.now))
    if math.isnan(aim.now):
        stands = "not known: some scores have no rating"
    else:
        stands = f"about {now}, an estimate: {AT_TARGET}" if aim.reached else f"about {now}"
    return (
        f"the target error of {wanted} is {'reached' if aim.reached else 'not reached'} ({stands})"
    )


class RatingGoal(Goal):
    """A goal by ratings: scores of pairs and attributes. It is the base of others, which change parts of it."""

    says: ClassVar[type[Found]] = Rated

    def check_reach(self, budget: int) -> None:
        """Raise InputError if ``budget`` calls do not reach every arm once that must be asked."""
        space, fewest = self.space, self.least_calls
        if budget < fewest:
            what = things_rated(fewest, len(space.attributes), len(space.judges))
            raise InputError(
                f"--budget {budget}: reaches {budget:,} of {what} once; raise it to {fewest} or more, or take fewer pairs "
                f"with --limit {max(1, self.pairs_within(budget))}"
            )

    def pairs_within(self, budget: int) -> int:
        """Return how many pairs ``budget`` calls reach once."""
        return budget // self.space.arms_per_pair

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        del counts, own
        return ErrorWatch(self.space, target)

    def has_none(self, run: RunReader, what: str) -> str:
        """Return the error that there is no table of comparisons, and the next step."""
        return (
            f"{run.name}: has ratings, not comparisons, so there is no {what}; use robin compare, or make a run with robin "
            "judge --pairwise"
        )
