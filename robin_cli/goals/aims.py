"""How far off the scores of a run are, and whether that is as little as was asked for."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.moderated import likely_worst_error
from robin_cli.analysis.worst_error import Aim, Target, error_bound, estimated_error
from robin_cli.goals.watching import Conclusion, Fact, Watch
from robin_cli.model.arms import Arms
from robin_cli.model.errors import typed
from robin_cli.model.space import ArmSpace
from robin_cli.planning.stopping import reached
from robin_cli.results.words import WORST, error_text, target_text
from robin_cli.storage.fold import counts_by_scale
from robin_cli.storage.reader import RunData


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
            return [f"{reached_by}; for a smaller error: {at.again(**smaller)}"]
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


def aim_of(run: RunData, bound: float | None = None) -> Aim | None:
    """Return the error that the last session of ``run`` was to stop at, and how its scores stand to it; None for none.

    Args:
        bound: the error bound of its scores, where it is known already.
    """
    last, space, arms = run.manifest.last_session, run.space, run.fold.arms
    if (error := last.get("target_error")) is None:
        return None
    if not (guaranteed := last.get("guaranteed", False)):
        now = estimated_error(space, arms)
    elif bound is not None:
        now = bound
    else:
        now = error_bound(space, arms, counts_by_scale(space, run.arm, run.judgments))
    return Aim(error, guaranteed, now, space.has_several_scales)
