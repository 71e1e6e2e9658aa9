"""What a session watches while its run goes on: the error of scores, or the number of comparisons asked."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import ClassVar

from robin_cli.goals.stopping import Progress, StoppingRule, reached
from robin_cli.model.arms import Arms
from robin_cli.model.space import ArmSpace
from robin_cli.policies.matches import Matches
from robin_cli.policies.systems import Systems
from robin_cli.show.words import WORST, compared_text, error_text, target_text
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.level_counts import LevelCounts
from robin_cli.stats.looks import are_told_apart, last_look, looks_of
from robin_cli.stats.repeats import Repeats
from robin_cli.stats.worst_error import worst_error

Fact = tuple[str, str]
"""A name and a value, for displays."""

Counts = Callable[[], LevelCounts]
"""Reads how often each arm got each level; called only by goals that need it."""


class Watch:
    """Watches a run while a session goes on.

    Attributes:
        verdicts: the decisions by the ratings so far; None without any.
        stop: returns whether the run is over before its budget is spent; None: never.
        decides: whether the run decides.
        repeats: finds judges that repeat themselves; None to ask them all the same.
    """

    verdicts: RunVerdicts | None = None
    stop: StoppingRule | None = None
    repeats: Repeats | None = None
    decides: ClassVar[bool] = False

    @property
    def may_end_early(self) -> bool:
        """Whether the run may be over before its budget is spent."""
        return self.verdicts is not None or self.stop is not None

    def is_over(self, arms: Arms) -> bool:
        """Return whether the goal is reached, so that the run is finished before its budget is spent."""
        del arms
        return False

    def standing(self, arms: Arms) -> list[Fact]:
        """Return how the run stands, for displays; ``arms`` may change meanwhile."""
        del arms
        return []


class ErrorWatch(Watch):
    """Watches the expected error of the worst score.

    Args:
        target: the error that the session stops at; None for none.
    """

    def __init__(self, space: ArmSpace, target: float | None = None) -> None:
        self._space = space
        self._target = target
        if target is not None:
            self.stop = reached(self.is_over)

    def is_over(self, arms: Arms) -> bool:
        """Return whether the target error is reached."""
        return self._target is not None and self._error(arms) <= self._target

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the expected error of the worst score."""
        if unrated := int((arms.n[~arms.is_retired] == 0).sum()):
            return [(WORST, f"not known ({unrated:,} not rated yet)")]
        worst = self._error(arms)
        if math.isnan(worst):
            return [(WORST, "–")]
        return [
            (
                WORST,
                f"expected error about {error_text(worst, as_share=self._space.has_several_scales)}{self._aimed}",
            )
        ]

    def _error(self, arms: Arms) -> float:
        return worst_error(self._space, arms.copied_sums(), ~arms.is_retired)

    @property
    def _aimed(self) -> str:
        if self._target is None:
            return ""
        return f" (target {target_text(self._target, as_share=self._space.has_several_scales)})"


class SystemsWatch(ErrorWatch):
    """Looks at the differences of systems for each number of prompts, then of calls; ``target``: 0 for never."""

    def __init__(self, systems: Systems, target: float) -> None:
        super().__init__(systems.space)
        self._systems, self._p = systems, target
        self._looks, self._are_told = looks_of(systems), False
        self._looks_again = reached(self.is_over, 2 * len(systems.space), 2.0)
        if target and self._looks:
            self.stop = self._look

    def _look(self, at: Progress) -> bool:
        if self._looks and at.budget.spent >= self._systems.calls_for(self._looks[0]):
            look = last_look(self._systems, at.arms)
            if look >= self._looks[0]:
                self._are_told = are_told_apart(self._systems, at.arms, self._p)
                self._looks = [each for each in self._looks if each > look]
        if (
            self._looks and at.budget.reserved
        ):  # calls beyond a look wait for it: it may end the run
            calls = at.budget.spent + at.budget.reserved
            if calls >= self._systems.calls_for(self._looks[0]):
                return True
        return self._are_told or (not self._looks and self._looks_again(at))

    def is_over(self, arms: Arms) -> bool:
        return are_told_apart(self._systems, arms, self._p)


class ComparisonsWatch(Watch):
    """Watches the number of comparisons asked."""

    def __init__(self, matches: Matches) -> None:
        self._matches = matches

    def standing(self, arms: Arms) -> list[Fact]:
        return [("compared", compared_text(self._matches.compared(arms)))]
