"""What a session looks at while its run goes on, and how it ends: scores by their error, comparisons by how many were asked."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import likely_worst_error
from robin_cli.analysis.worst_error import Aim, Target
from robin_cli.model.arms import Arms
from robin_cli.model.errors import typed
from robin_cli.model.matches import Compared, Matches
from robin_cli.model.space import ArmSpace
from robin_cli.planning.stopping import StoppingRule, Verdicts, reached
from robin_cli.results.words import AT_TARGET, WORST, compared_text, error_text, target_text

Fact = tuple[str, str]
"""A name and a value, as a display shows them."""

Counts = Callable[[], LevelCounts]
"""Reads how often each arm got each level; called only where a goal needs that."""


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What the last lines of a session say of its budget.

    Attributes:
        run: the run's folder.
        worked: False where there was nothing to do, and nothing was sent.
        is_spent: whether the budget is spent.
        budget, spent, left: the budget and its parts in words, as ``300 calls``.
        more: the setting that gives the run more to spend, ``budget`` or ``budget_usd``.
        in_python: whether the next step is a line of Python, and not a command.
    """

    run: Path
    worked: bool
    is_spent: bool
    budget: str
    spent: str
    left: str
    more: str
    in_python: bool = False

    def again(self, **settings: str) -> str:
        """Return how to go on with other ``settings``; without any, with more to spend."""
        given = settings or {self.more: "MORE"}
        if self.in_python:
            return f"open_run({str(self.run)!r}).resume({', '.join(f'{k}={v}' for k, v in given.items())})"
        return " ".join(["robin resume", typed(self.run), *(f"--{k.replace('_', '-')} {v}" for k, v in given.items())])


class Ending(Protocol):
    """How a run stands to its goal."""

    @property
    def is_over(self) -> bool:
        """Whether the goal is reached, so that the run is finished before its budget is spent."""

    def lines(self, at: Conclusion) -> list[str]:
        """Return what the last lines of a session say of the goal, and how to go on; nothing for a budget alone."""


class Watch(ABC):
    """What a session looks at while its run goes on.

    Attributes:
        verdicts: what is decided by the ratings so far; None where nothing is to be decided.
        stop: says when the run is over before its budget is spent; None: never.
    """

    verdicts: Verdicts | None = None
    stop: StoppingRule | None = None

    @property
    def may_end_early(self) -> bool:
        """Whether the run may be over before its budget is spent."""
        return self.verdicts is not None or self.stop is not None

    def add(self, arm: int, ratings: Iterable[float]) -> None:  # noqa: B027  # most look at nothing else than the arms
        """Take further ratings of ``arm``, which are on disk."""

    @abstractmethod
    def ending(self, arms: Arms) -> Ending:
        """Return how the run stands now."""

    @abstractmethod
    def standing(self, arms: Arms) -> list[Fact]:
        """Return how the run stands, for displays; ``arms`` may change meanwhile."""


@dataclass(frozen=True, slots=True)
class Aimed:
    """How the scores stand to the error that the run stops at; ``aim`` is None for a run with none."""

    aim: Aim | None

    @property
    def is_over(self) -> bool:
        """Whether the target error is reached."""
        return self.aim is not None and self.aim.reached

    def lines(self, at: Conclusion) -> list[str]:
        """Return how the worst error stands to the target, what that took, and how to go on."""
        aim = self.aim
        if aim is None:
            return []
        wanted = f"the target error of {target_text(aim.error, as_share=aim.as_share)}"
        already, unsent = ("", "") if at.worked else (" already", ", so nothing was sent")
        if aim.reached:
            smaller = {"target_error": "SMALLER"} | ({at.more: "MORE"} if at.is_spent else {})
            reached_by = f"{wanted} is reached{already} ({_now(aim)}){unsent}: {at.spent}, {at.left}"
            way_on = f"{reached_by}; for a smaller error: {at.again(**smaller)}"
            return [way_on, *[f"this is an estimate: {AT_TARGET}"] * (at.worked and not aim.guaranteed)]
        ended = f"the budget of {at.budget} is spent{already}" if at.is_spent else "no pair is left to ask"
        plan = f" (robin plan DATA … --variances {typed(at.run)} --for-error {aim.error:g} says about how much)"
        says = "" if aim.guaranteed or not at.is_spent else plan
        return [f"{wanted} is not reached ({_now(aim)}): {ended}{unsent}; to go on: {at.again()}{says}"]


def _now(aim: Aim) -> str:
    if math.isnan(aim.now):
        return "not known: some scores have no rating"
    error = target_text(aim.now, as_share=aim.as_share)
    return f"at most {error}, for all scores at once" if aim.guaranteed else f"about {error}"


class ErrorWatch(Watch):
    """Watches the largest error of the scores.

    Args:
        target: the error that the session stops at; None for none.
        counts: of all ratings so far, and of those to come; None where the target is held against the estimate.
    """

    def __init__(self, space: ArmSpace, target: float | None, counts: LevelCounts | None) -> None:
        self._space = space
        self._counts = counts
        self._target = None if target is None else Target(space, target, counts)
        self.stop = None if self._target is None else reached(self._target.is_reached)

    def add(self, arm: int, ratings: Iterable[float]) -> None:
        """Take further ratings of ``arm``."""
        if self._counts is not None:
            self._counts.add(arm, ratings)

    def ending(self, arms: Arms) -> Aimed:
        """Return how the worst error stands to the target."""
        return Aimed(None if self._target is None else self._target.aim(arms))

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the likely worst error."""
        kept, sums = ~arms.retired_mask, arms.copied_sums()
        if unrated := int((sums[0][kept] == 0).sum()):
            return [(WORST, f"not known ({unrated:,} not rated yet)")]
        worst = likely_worst_error(self._space, kept, *sums)
        if math.isnan(worst):
            return [(WORST, "–")]
        return [(WORST, f"about {error_text(worst, as_share=self._space.has_several_scales)}{self._aimed}")]

    @property
    def _aimed(self) -> str:
        if self._target is None:
            return ""
        error = target_text(self._target.error, as_share=self._space.has_several_scales)
        return f" (target {error}{', guaranteed' * self._target.guaranteed})"


@dataclass(frozen=True, slots=True)
class ComparisonsEnding:
    """How many comparisons were asked."""

    compared: Compared
    is_over: bool = False

    def lines(self, at: Conclusion) -> list[str]:
        """Return how many comparisons were asked, and how to go on."""
        return [f"{compared_text(self.compared)}; {at.left if self.is_over else f'to go on: {at.again()}'}"]


class ComparisonsWatch(Watch):
    """Watches how many comparisons were asked."""

    def __init__(self, matches: Matches) -> None:
        self._matches = matches

    def ending(self, arms: Arms) -> ComparisonsEnding:
        """Return how far the run came."""
        return ComparisonsEnding(self._matches.compared(arms))

    def standing(self, arms: Arms) -> list[Fact]:
        """Return how many comparisons were asked."""
        return [("compared", compared_text(self._matches.compared(arms)))]
