"""Goal: which of the systems that answered the same prompts is better, by the ratings of their responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from robin_cli.goals.base import Words
from robin_cli.goals.rating import Rating
from robin_cli.goals.watching import Conclusion, Counts, ErrorWatch, Fact, Watch
from robin_cli.model.arms import Arms
from robin_cli.model.errors import InputError, typed
from robin_cli.model.records import COMPARE, SYSTEM_COLUMN, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import FEWEST_PROMPTS, Asked, Systems
from robin_cli.planning.costs import Per
from robin_cli.questions.inquiry import Inquiry


@dataclass(frozen=True, slots=True)
class PromptsEnding:
    """How far a run that compares systems came."""

    asked: Asked
    is_over: bool = False

    def lines(self, at: Conclusion) -> list[str]:
        """Return how many prompts were asked about in full, and how to go on."""
        asked = self.asked
        partly = f", {asked.partly:,} partly" if asked.partly else ""
        unrated = f"; {number_of(asked.unrated, 'pair')} without a score" if asked.unrated else ""
        line = f"{asked.whole:,} of {number_of(asked.prompts, 'prompt')} asked about in full{partly}{unrated}"
        if at.in_python:
            return [f"{line}; to go on: {at.again()}"]
        compare = f"robin compare {typed(at.run)} --by {SYSTEM_COLUMN} says how far the systems are apart"
        return [line, f"{compare}; to go on: {at.again()}"]


class PromptsWatch(Watch):
    """Watches how far the prompts were asked about."""

    def __init__(self, systems: Systems) -> None:
        self._systems = systems
        self._errors = ErrorWatch(systems.space, None, None)

    def ending(self, arms: Arms) -> PromptsEnding:
        """Return how far the run came."""
        return PromptsEnding(self._systems.asked(arms))

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the likely worst error of the scores."""
        return self._errors.standing(arms)


@dataclass(frozen=True)
class Compare(Rating):
    """How far systems are apart, over the prompts that they answered."""

    asks_all: ClassVar[bool] = False

    space: ArmSpace
    systems: Systems

    @classmethod
    def of(cls, source: Inquiry) -> Self | None:
        """Return the goal where systems are to be compared by ratings."""
        asked = source.own["objective"] == COMPARE and source.own["decide"] is None
        return cls(source.space, source.systems) if asked else None

    def without_systems(self, why: str) -> list[str]:
        """Return why they cannot be."""
        return [f"{why}."]

    def check_reach(self, budget: int) -> None:
        """InputError if ``budget`` calls do not ask about prompts enough to compare on."""
        if budget < (least := self.systems.calls_for(FEWEST_PROMPTS)):
            raise InputError(
                f"--budget {budget}: does not reach all responses to {FEWEST_PROMPTS} prompts, the fewest that systems are "
                f"compared on; raise it to {least} or more"
            )

    def caution(self, budget: int) -> str:
        """Return how many prompts ``budget`` calls ask about, where that is not all."""
        if budget >= len(self.space):
            return ""
        reached, there = self.systems.prompts_within(budget), int(self.systems.is_shared.sum())
        return (
            f"the budget of {budget:,} asks about {reached:,} of the {there:,} prompts that systems are compared on, "
            "drawn at random, with all responses to each; the other pairs get no score"
        )

    @property
    def per(self) -> Per:
        """By what each arm costs."""
        return Per.ARM

    def watch(self, counts: Counts, own: Mapping[str, Any], target: float | None, *, guaranteed: bool) -> Watch:
        """Watch how far the prompts were asked about."""
        del counts, own, target, guaranteed  # settings refuse an error to stop at beside a comparison
        return PromptsWatch(self.systems)

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        """Return which difference of two systems shows, and over how many prompts."""
        prompts = number_of(row["prompts"], "prompt")
        if row["shows"] is None:
            return f"which difference shows over {prompts} is not known"
        return f"a difference of {words(row['shows'])} between two systems shows, over {prompts}"
