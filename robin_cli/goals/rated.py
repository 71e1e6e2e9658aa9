"""The results of a run of ratings: scores, their errors, means, agreement with people, judges."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.deciding import decision_facts
from robin_cli.goals.differences import systems_table
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.judge_use import uses_of
from robin_cli.goals.people_tables import OF_PEOPLE
from robin_cli.goals.result import Builder, Result
from robin_cli.goals.tables import decision_table, scores_as_asked
from robin_cli.goals.training import preference_table
from robin_cli.model.records import first_text, number_of
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

_UNKNOWN_ERROR = "expected error not known"


class Rated(Result):
    """The results of a run of ratings: scores, their errors, means, agreement with people, judges."""

    tables: ClassVar[Mapping[str, Builder]] = {
        "scores": scores_as_asked,
        "judge-scores": partial(scores_as_asked, by_judge=True),
        "decisions": decision_table,
        "preferences": preference_table,
        "systems": systems_table,
        **OF_PEOPLE,
    }

    @property
    def by_judge(self) -> Scores:
        """The scores of each judge."""
        return self.all_scores[-1]

    @property
    def wanted(self) -> NDArray[np.bool_]:
        """Whether each arm is to have a rating, shape (K,)."""
        return np.ones(len(self.run.space), dtype=np.bool_)

    @property
    def has_errors(self) -> bool:
        """Whether errors of scores are known. A file with neither a scale nor two scores of any pair has none."""
        has_scale = all(ends.are_known for ends in self.run.manifest.known_ends)
        return has_scale or bool((self.run.fold.arms.n > 1).any())

    @cached_property
    def worst_error(self) -> float:
        """The expected error of the worst score; nan while unknown."""
        arms = self.run.fold.arms
        if not self.has_errors:
            return math.nan
        return worst_error(self.run.space, arms.sums, self.wanted & ~arms.is_retired)

    @cached_property
    def aim(self) -> Aim | None:
        """The target error of the last session, and the present one; None without a target."""
        error = self.run.manifest.last_session.get("target_error")
        if error is None:
            return None
        return Aim(error, self.worst_error, self.run.space.has_several_scales)

    @property
    def is_over(self) -> bool:
        return self.aim is not None and self.aim.reached

    @property
    def is_open(self) -> bool:
        return self.aim is not None and not self.aim.reached

    def headline(self) -> Sequence[Fact]:
        means = self.mean_lines(MOST_LINES - len(self.on_target))
        return [line("", mean) for mean in means]

    @property
    def on_target(self) -> Sequence[Fact]:
        aim = self.aim
        return () if aim is None else [Fact("target_reached", aim.reached, aim_text(aim))]

    @property
    def asides(self) -> list[str]:
        space, lines = self.run.space, []
        unrated = space.by_pair(np.isnan(self.scores.numbers("score"))).sum(axis=0).tolist()
        for name, count in zip(space.attributes, unrated, strict=True):
            about = f" of {name}" if len(space.attributes) > 1 else ""
            if count:
                have = "has" if count == 1 else "have"
                lines.append(f"{number_of(count, 'pair')} {have} no rating{about}")
        return [*lines, *self.repeat_lines]

    def details(self) -> Sequence[Fact]:
        run, arms, space = self.run, self.run.fold.arms, self.run.space
        aim, decided, people, wanted = self.aim, self.scores.decided, self.people, self.wanted
        judges = f" × {len(space.judges)} judges" if self.is_panel else ""
        kinds = f"{number_of(len(run.pair_ids), 'pair')} × {', '.join(space.attributes)}{judges}"
        unrated, given_up = int((wanted & (arms.n == 0)).sum()), int(arms.is_retired.sum())
        error = finite(self.worst_error), ": ".join(self.worst_text()[1:])
        decisions = None if decided is None else decision_facts(decided, self.target)
        return [
            line(
                "scores",
                f"{int(wanted.sum()):,} ({kinds}), {unrated:,} without a rating, {given_up:,} given up",
            ),
            Fact("worst_error", *error, WORST),
            Fact("target_error", aim and aim.error),
            Fact("target_reached", aim and aim.reached),
            Fact("decide", decided and str(decided.task.decision)),
            Fact("decisions", decisions),
            *(Fact(fact.name, fact.value) for fact in self.agreed),
            Fact("errors_are", "shares of the scale" if space.has_several_scales else "points"),
            *people.facts(),
            *people.lines(run),
            *self._judge_facts(),
        ]

    def _judge_facts(self) -> Iterator[Fact]:
        uses, between = uses_of(self.run, self.by_judge.numbers("score")), self.scores.between
        yield Fact("judges", [use.facts() for use in uses])
        spread, over, text = math.nan, 0, ""
        if between is not None:
            spread, over = spread_between(between), int((~np.isnan(between)).sum())
        if self.is_panel:
            yield from (line(f"judge {at}", use.line("rating")) for at, use in enumerate(uses, 1))
            known = "not known: a judge has fewer than two ratings of every pair"
            if not math.isnan(spread):
                known = self.error_text(spread)
            apart = "standard deviation of their means of one pair, noise taken out; over"
            text = f"{known} ({apart} {number_of(over, 'score')})"
        yield Fact("judge_spread", finite(spread), text, "between judges")
        yield Fact("judge_spread_over", over)

    def error_text(self, error: float) -> str:
        return error_text(error, as_share=self.run.space.has_several_scales)

    def worst_text(self) -> tuple[str, str, str]:
        """Return a label, the expected error of the worst score, and what it is of or why it is unknown."""
        if not self.has_errors:
            why = "nothing was scored twice, and the scale is not known (--scale LOW-HIGH)"
            return WORST, _UNKNOWN_ERROR, why
        if math.isnan(self.worst_error):
            is_unrated = (self.wanted & (self.run.fold.arms.n == 0)).any()
            why = "some scores have no rating yet" if is_unrated else "no score is left"
            return WORST, _UNKNOWN_ERROR, why
        single = " of a single judge" if self.is_panel else ""
        what = f"how far the least certain score{single} is from its judge's mean"
        return WORST, f"expected error about {self.error_text(self.worst_error)}", what

    def average_line(self) -> Fact:
        """Return the means in a line, for goals whose answer is another."""
        first = self.people.first
        ratings = first_text(first, is_panel=self.is_panel) if first else ""
        means = "; ".join(self.mean_lines())
        return line("scores on average", f"{means}; of {ratings} of each pair" if first else means)


def aim_text(aim: Aim) -> str:
    wanted, now = (target_text(error, as_share=aim.as_share) for error in (aim.error, aim.now))
    if math.isnan(aim.now):
        stands = "not known: some scores have no rating"
    else:
        stands = f"about {now}, an estimate: {AT_TARGET}" if aim.reached else f"about {now}"
    reached = "reached" if aim.reached else "not reached"
    return f"the target error of {wanted} is {reached} ({stands})"
