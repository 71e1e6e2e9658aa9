"""Goal: which of the systems that answered the same prompts is better, by the ratings of their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

from robin_cli.goals.answers import at_most
from robin_cli.goals.differences import better_lines, each_of, letters_of, next_step, table_of
from robin_cli.goals.found import Found, View
from robin_cli.goals.rating import Rated, RatingGoal
from robin_cli.goals.watching import Counts, SystemsWatch, Watch
from robin_cli.model.decision import SYSTEM, is_of_systems
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import SYSTEM_COLUMN, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.policies.systems import FEWEST_PROMPTS, Asked, Systems
from robin_cli.run.inquiry import Inquiry
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line
from robin_cli.stats.looks import are_told_apart
from robin_cli.stats.run_compare import Compared, compared


class Comparison(Rated):
    """The results of a run that compares systems."""

    goal: Compare

    @cached_property
    def compared(self) -> Compared:
        """The systems and their differences."""
        return compared(
            [self.run], lambda _line: None, by=SYSTEM_COLUMN, given=self.given, as_they_are=True
        )

    @cached_property
    def asked(self) -> Asked:
        """Numbers of prompts asked about."""
        return self.goal.systems.asked(self.run.fold.arms)

    @property
    def answer(self) -> list[str]:
        """The better system, and by how much."""
        return at_most(
            better_lines(self.compared),
            f"robin compare {typed(self.run.name)} --by {SYSTEM_COLUMN}",
        )

    @property
    def asides(self) -> list[str]:
        """Numbers of prompts asked about, in words."""
        asked = self.asked
        partly = f", {asked.partly:,} partly" if asked.partly else ""
        unrated = f"; {number_of(asked.unrated, 'pair')} without a score" if asked.unrated else ""
        return [
            f"{asked.whole:,} of {number_of(asked.prompts, 'prompt')} asked about in full{partly}{unrated}",
            *self.repeat_lines,
        ]

    def lines(self) -> dict[str, str]:
        return {
            "prompts": self.asides[0],
            **({"target": self._target_text()} if self.target else {}),
            **super().lines(),
            "scores on average": self.mean_text,
        }

    def _target_text(self) -> str:
        stands = "reached" if self.is_over else "not reached"
        return f"every one-sided p at most {self.target:g} over all looks: {stands}"

    @property
    def is_over(self) -> bool:
        """Whether every two systems are told apart at the last look."""
        return are_told_apart(self.goal.systems, self.run.fold.arms, self.target)

    @property
    def is_open(self) -> bool:
        """Whether systems that are not settled have prompts that were not asked about."""
        is_settled = all(one.is_settled for _, one, _ in each_of(self.compared))
        return not is_settled and self.asked.whole < self.asked.prompts

    def next_step(self) -> str:
        return next_step(self.compared) or super().next_step()

    def delivered(self, view: View) -> list[Table]:
        """Return the differences, and the scores."""
        table = table_of(self.compared)
        letters = [
            f"{letter}: {one_line(name)}"
            for name, letter in letters_of(self.compared.systems).items()
        ]
        return [replace(table, notes=["; ".join(letters), *table.notes]), *super().delivered(view)]


@dataclass(frozen=True)
class Compare(RatingGoal):
    """The differences of systems, over the prompts that they answered."""

    asked_by: ClassVar[str] = f"--decide {SYSTEM}"
    figures: ClassVar[Mapping[str, str]] = {}
    asks_all: ClassVar[bool] = False
    says: ClassVar[type[Found]] = Comparison

    space: ArmSpace
    systems: Systems

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal if systems are to be compared by ratings."""
        return (
            cls(source.space, source.systems)
            if is_of_systems(source.run_settings["decide"])
            else None
        )

    @property
    def recorded(self) -> Mapping[str, Any]:
        """The decision, without blanks."""
        return {"decide": SYSTEM}

    def without_systems(self, why: str) -> list[str]:
        return [f"{why}."]

    def check_reach(self, budget: int) -> None:
        """Raise InputError if ``budget`` calls do not ask about enough prompts to compare on."""
        if budget < (least := self.systems.calls_for(FEWEST_PROMPTS)):
            raise InputError(
                f"--budget {budget}: does not reach all responses to {FEWEST_PROMPTS} prompts, the fewest that systems are "
                f"compared on; raise it to {least} or more"
            )

    def caution(self, budget: int) -> str:
        """Return the number of prompts that ``budget`` calls ask about, if that is not all."""
        if budget >= len(self.space):
            return ""
        reached, there = self.systems.prompts_within(budget), int(self.systems.is_shared.sum())
        return (
            f"the budget of {budget:,} asks about {reached:,} of the {there:,} prompts that systems are compared on, "
            "drawn at random, with all responses to each; the other pairs get no score"
        )

    @property
    def for_more(self) -> str:
        return self.smaller_target

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None) -> Watch:
        """Watch the expected error of the worst score, and end once every two systems are told apart."""
        del counts, own
        return SystemsWatch(self.systems, target or 0.0)
