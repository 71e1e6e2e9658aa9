"""The decisions of a run: watched while it goes on, as facts, and in words for displays, the status, tables and the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from robin_cli.analysis.decided import Decided, decide, decisions_by, score_means, tally_of
from robin_cli.analysis.decisions import Evidence, RunVerdicts
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.likely_wrong import chances_of_some, is_good_enough, share_of
from robin_cli.goals.watching import Counts, ErrorWatch, Fact, Watch
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.decision import BEST, KEEP, UNDECIDED
from robin_cli.model.records import number_of
from robin_cli.model.task import Task
from robin_cli.planning.stopping import TEST_GROWTH, reached
from robin_cli.results.words import Bars, finite, share_text

_MANY_ARMS, _MANY_CALLS = 2**15, 2**9
"""With more arms, a display looks at the chances again only after so many calls: each time takes a tenth of a second."""


def decision_facts(decided: Decided, target: float) -> dict[str, Any]:
    """Return the decisions of a run as JSON; ``target``: the share likely wrong at which it ends, 0 for none."""
    asked, wrong = decided.task.decision, decided.share_wrong
    facts = {
        "of": decided.decisions,
        "each": _noun(decided.task),
        **decided.tally(),
        "likely_wrong": float(np.nansum(decided.likely_wrong)),
        "likely_wrong_share": finite(wrong),
        "likely_wrong_of": int((~np.isnan(decided.likely_wrong)).sum()),
        "target_wrong": target,
        "margins": dict(zip(decided.task.space.attributes, asked.margins, strict=True)),
    }
    if decided.certified is not None:
        facts |= {"certified": int(decided.certified.sum()), "error_rate": asked.error_rate}
    return facts


def decided_text(decided: Decided) -> str:
    """Return what was decided, how much of it is likely wrong, and how much is certified."""
    head = standing_text(decided.task, decided.tally(), decided.likely_wrong)
    return "; ".join([head, *certified_lines(decided)])


def kept_text(task: Task, tally: Mapping[str, int]) -> str:
    """Return how many pairs are kept, or of how many groups the best is known."""
    unknown = tally[UNDECIDED]
    if not task.decision.is_best:
        return f"kept {tally[KEEP]:,} of {task.decisions:,}{f', {unknown:,} not rated' * bool(unknown)}"
    rated = f"{tally[BEST]:,} of " if unknown else ""
    return f"found the best of {rated}{things(task)}"


def wrong_text(chances: FloatArray, noun: str = "") -> str:
    """Return how many decisions are likely wrong, in a clause; see :func:`number_wrong`."""
    is_or_are = "are" if round(float(np.nansum(chances))) > 1 else "is"
    return f"{number_wrong(chances, noun)} {is_or_are} likely wrong"


def number_wrong(chances: FloatArray, noun: str = "") -> str:
    """Return how many decisions are likely wrong: "about 2 of the 300 decisions".

    Args:
        chances: that each is wrong; nan if it is unknown.
        noun: a decision; "" for none.
    """
    known = chances[~np.isnan(chances)]
    count = round(float(known.sum()))
    number = f"about {count:,}" if count else "fewer than 1"
    return f"{number} of the {number_of(len(known), noun) if noun else f'{len(known):,}'}"


def standing_text(task: Task, tally: Mapping[str, int], chances: FloatArray) -> str:
    """Return what was decided, and how much of it is likely wrong."""
    noun = "" if task.decision.is_best else "decision"
    return f"{kept_text(task, tally)}; {wrong_text(chances, noun)}"


def certified_lines(decided: Decided) -> list[str]:
    """Return how many decisions are certified, and the promise; empty without --certify."""
    if decided.certified is None:
        return []
    task, count = decided.task, int(decided.certified.sum())
    if not count:
        return [f"none of {things(task)} is certified yet"]
    return [f"{count:,} of {things(task)} certified ({promise(task)})"]


def promise(task: Task) -> str:
    """Return the promise of the certified decisions."""
    rate = task.decision.error_rate
    assert rate is not None  # noqa: S101  # for the types
    return f"at most {100 * rate:g} % of these wrong on average"


def margin_text(task: Task) -> str:
    """Return the margin, or that of each attribute if they differ."""
    margins, names = task.decision.margins, task.space.attributes
    if len({f"{margin:g}" for margin in margins}) == 1:
        return f"margin {margins[0]:g}"
    return "margins " + ", ".join(
        f"{margin:g} {name}" for margin, name in zip(margins, names, strict=True)
    )


def target_line(share: float, target: float) -> str:
    """Return the share that is likely wrong beside the one at which the run ends."""
    now = "not known" if math.isnan(share) else share_text(share)
    is_reached = "reached" if share <= target else "not reached"
    return f"at most {share_text(target)} of the decisions likely wrong: {is_reached} ({now})"


def things(task: Task) -> str:
    """Return the decisions in words with their number: "60 pairs"."""
    several = task.decision.is_best and len(task.space.attributes) > 1
    return number_of(task.decisions, _noun(task)) + " × attributes" * several


def _noun(task: Task) -> str:
    return "group" if task.decision.is_best else "pair"


class DecisionsWatch(Watch):
    """Watches the decisions by the ratings so far; with --certify the scheduler adds these to :attr:`verdicts`.

    Args:
        counts: reads all ratings so far, for the evidence of certified decisions.
        target: the share likely wrong at which the run ends; 0 for none.
    """

    decides: ClassVar[bool] = True

    def __init__(self, task: Task, counts: Counts, target: float) -> None:
        self._task, self._target = task, target
        self._errors, self._bars = ErrorWatch(task.space), Bars()
        self._chances, self._looks_at = np.empty(0), 0.0
        if task.decision.error_rate is not None:
            self.verdicts = self._verdicts = RunVerdicts(Evidence(task), counts())
        if target:
            self.stop = reached(self._is_good_enough, first=len(task.space), growth=TEST_GROWTH)

    def _is_good_enough(self, arms: Arms) -> bool:
        return is_good_enough(self._task, *arms.copied_sums(), arms.retired_mask, self._target)

    def is_over(self, arms: Arms) -> bool:
        if self._target and self._is_good_enough(arms):
            return True
        return (
            self.verdicts is not None
            and decide(self._task, lambda: self._verdicts.counts, arms).is_over
        )

    def standing(self, arms: Arms) -> list[Fact]:
        """Return what is decided, how much of it is likely wrong, how much is certified, and the error of the worst score."""
        task, sums, gone = self._task, arms.copied_sums(), arms.retired_mask
        decision = decisions_by(task, score_means(task.space, *sums[:2]))
        if arms.spent >= self._looks_at:
            self._chances = chances_of_some(task, *sums, gone)
            self._looks_at = arms.spent + _MANY_CALLS * (len(task.space) > _MANY_ARMS)
        chances, share = self._chances, share_of(self._chances)
        if len(chances) < task.decisions:
            chances = np.full(task.decisions, share)
        bars = "" if math.isnan(share) else self._bars.with_next(share)
        facts = [
            ("decided", kept_text(task, tally_of(task, decision))),
            ("likely wrong", f"{number_wrong(chances, 'decision')}{bars}"),
        ]
        if (rate := task.decision.error_rate) is not None:
            sure = int(certified(self._verdicts.evidence.log[0], rate).sum())
            facts.append(("certified", f"{sure:,} of {things(task)}"))
        return [*facts, *self._errors.standing(arms)]
