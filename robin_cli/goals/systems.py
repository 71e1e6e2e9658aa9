"""Goal: which of the systems that answered the same prompts is better, by the ratings of their responses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

from robin_cli.goals.differences import (
    all_differences,
    at_most,
    better_lines,
    legend,
    next_step,
    table_of,
)
from robin_cli.goals.facts import Fact, line
from robin_cli.goals.rated import Rated
from robin_cli.goals.result import View
from robin_cli.goals.scores import RatingGoal
from robin_cli.goals.stopping import Progress, StoppingRule, reached
from robin_cli.model.arms import Arms
from robin_cli.model.decision import SYSTEM, is_of_systems
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.policies.systems import FEWEST_PROMPTS, Asked, Systems
from robin_cli.run.inquiry import Inquiry
from robin_cli.show.tables import Table
from robin_cli.stats.looks import are_told_apart, last_look, looks_of
from robin_cli.stats.run_compare import Compared, compared


class SystemsResult(Rated):
    goal: SystemsGoal

    @cached_property
    def compared(self) -> Compared:
        return compared(
            [self.run],
            lambda _line: None,
            by=SYSTEM_COLUMN,
            given_labels=self.labels,
            as_they_are=True,
        )

    @cached_property
    def asked(self) -> Asked:
        """Numbers of prompts asked about."""
        return self.goal.systems.asked(self.run.fold.arms)

    def headline(self) -> Sequence[Fact]:
        more = f"robin compare {typed(self.run.name)} --by {SYSTEM_COLUMN}"
        return [line("", text) for text in at_most(better_lines(self.compared), more)]

    @property
    def asides(self) -> list[str]:
        asked = self.asked
        partly = f", {asked.partly:,} partly" if asked.partly else ""
        unrated = f"; {number_of(asked.unrated, 'pair')} without a score" if asked.unrated else ""
        prompts = f"{asked.whole:,} of {number_of(asked.prompts, 'prompt')} asked about in full"
        return [f"{prompts}{partly}{unrated}", *self.repeat_lines]

    def details(self) -> Sequence[Fact]:
        stands = "reached" if self.is_over else "not reached"
        target = f"every one-sided p at most {self.target:g} over all looks: {stands}"
        return [
            line("prompts", self.asides[0]),
            line("target", target if self.target else ""),
            *super().details(),
            self.average_line(),
        ]

    @property
    def is_over(self) -> bool:
        return self.goal.is_reached(self.run.fold.arms, self.target)

    @property
    def is_open(self) -> bool:
        """Whether systems that are not settled have prompts that were not asked about."""
        is_settled = all(
            difference.is_settled for _, difference, _ in all_differences(self.compared)
        )
        return not is_settled and self.asked.whole < self.asked.prompts

    def next_step(self) -> str:
        return next_step(self.compared) or super().next_step()

    def delivered(self, view: View) -> list[Table]:
        table = table_of(self.compared)
        notes = [legend(self.compared), *table.notes]
        return [replace(table, notes=notes), *super().delivered(view)]


@dataclass(frozen=True)
class SystemsGoal(RatingGoal):
    """The differences of systems, over the prompts that they answered."""

    result_class = SystemsResult
    flag = f"--decide {SYSTEM}"
    asks_all = False

    systems: Systems

    @classmethod
    def asked_by(cls, source: Inquiry) -> Self | None:
        is_asked = is_of_systems(source.run_settings["decide"])
        return cls(source.space, source.systems) if is_asked else None

    @property
    def recorded(self) -> Mapping[str, Any]:
        return {"decide": SYSTEM}

    def check_reach(self, budget: int) -> None:
        if budget < (least := self.systems.calls_for(FEWEST_PROMPTS)):
            raise InputError(
                f"--budget {budget}: does not reach all responses to {FEWEST_PROMPTS} prompts, the fewest that systems are "
                f"compared on; raise it to {least} or more"
            )

    def caution(self, budget: int) -> str:
        if budget >= len(self.space):
            return ""
        within, prompts = self.systems.prompts_within(budget), int(self.systems.is_shared.sum())
        return (
            f"the budget of {budget:,} asks about {within:,} of the {prompts:,} prompts that systems are compared on, "
            "drawn at random, with all responses to each; the other pairs get no score"
        )

    def standing(self, arms: Arms, target: float) -> list[Fact]:
        del target  # it is none of scores
        return super().standing(arms, 0.0)

    def is_reached(self, arms: Arms, target: float) -> bool:
        return are_told_apart(self.systems, arms, target)

    def stopping(self, target: float) -> StoppingRule | None:
        """Return a rule that looks at the differences for each number of prompts, then of calls."""
        systems, looks, is_apart = self.systems, looks_of(self.systems), False
        if not looks:
            return None
        looks_again = reached(
            lambda arms: self.is_reached(arms, target), 2 * len(systems.space), 2.0
        )

        def is_over(at: Progress) -> bool:
            nonlocal looks, is_apart
            spent, under_way = at.budget.spent, at.budget.reserved
            if looks and spent >= systems.calls_for(looks[0]):
                look = last_look(systems, at.arms)
                if look >= looks[0]:
                    is_apart = self.is_reached(at.arms, target)
                    looks = [later for later in looks if later > look]
            # calls beyond a look wait for it: it may end the run
            if looks and under_way and spent + under_way >= systems.calls_for(looks[0]):
                return True
            return is_apart or (not looks and looks_again(at))

        return is_over
