"""The decisions of a run: watched while it goes on, as facts, and in words for displays, the status, tables and the report."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from robin_cli.goals.stopping import reached
from robin_cli.goals.watching import Counts, Fact, Watch
from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.decision import BEST, KEEP, UNDECIDED
from robin_cli.model.records import number_of
from robin_cli.policies.milestones import TEST_GROWTH
from robin_cli.policies.task import Task
from robin_cli.show.words import Bars, finite, share_text
from robin_cli.stats.decided import Decided, decide, decisions_by, tally_of
from robin_cli.stats.decisions import Certainty, Evidence, RunVerdicts
from robin_cli.stats.evidence import certified
from robin_cli.stats.likely_wrong import likely_wrong, share_of, share_to_test
from robin_cli.stats.row_scores import row_scores


def decision_facts(decided: Decided, target: float) -> dict[str, Any]:
    """Return the decisions of a run as JSON; ``target``: the share likely wrong at which it ends, 0 for none."""
    asked = decided.task.decision
    return {
        "of": decided.decisions,
        "each": _noun(decided.task),
        **decided.tally(),
        **certainty_facts(decided.likely_wrong, target, decided.certified, asked.error_rate),
        "margins": dict(zip(decided.task.space.attributes, asked.margins, strict=True)),
    }


def certainty_facts(
    chances: FloatArray, target: float, sure: NDArray[np.bool_] | None, error_rate: float | None
) -> dict[str, Any]:
    """Return how many decisions are likely wrong, and with --certify how many are certified, as JSON."""
    facts = {
        "likely_wrong": float(np.nansum(chances)),
        "likely_wrong_share": finite(share_of(chances)),
        "likely_wrong_of": int((~np.isnan(chances)).sum()),
        "target_wrong": target,
    }
    if sure is not None:
        facts |= {"certified": int(sure.sum()), "error_rate": error_rate}
    return facts


def decided_lines(decided: Decided) -> list[str]:
    """Return what is decided and how much of it is likely wrong; with --certify how much is certified."""
    task, noun = decided.task, "" if decided.task.decision.is_best else "decision"
    return [
        f"{kept_text(task, decided.tally())}; {wrong_text(decided.likely_wrong, noun)}",
        *certified_lines(decided.certified, things(task), task.decision.error_rate),
    ]


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


def certified_lines(
    sure: NDArray[np.bool_] | None, things: str, error_rate: float | None
) -> list[str]:
    """Return how many of ``things`` are certified, and the promise; empty without --certify."""
    if sure is None or error_rate is None:
        return []
    if not sure.any():
        return [f"none of {things} is certified yet"]
    return [f"{int(sure.sum()):,} of {things} certified ({promise(error_rate)})"]


def promise(error_rate: float) -> str:
    """Return the promise of certified decisions."""
    return f"at most {100 * error_rate:g} % of these wrong on average"


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
    if share > target and now == share_text(target):
        now = f"{100 * share:.3g} %"
    is_reached = "reached" if share <= target else "not reached"
    return f"at most {share_text(target)} of the decisions likely wrong: {is_reached} ({now})"


def things(task: Task) -> str:
    """Return the decisions in words with their number: "60 pairs"."""
    several = task.decision.is_best and len(task.space.attributes) > 1
    return number_of(task.decisions, _noun(task)) + " × attributes" * several


def _noun(task: Task) -> str:
    return "group" if task.decision.is_best else "pair"


class DecidingWatch(Watch):
    """Watches decisions by the ratings so far; with --certify the scheduler adds these to :attr:`verdicts`.

    Args:
        of: the decisions in words, with their number.
        evidence: for certified decisions; None without --certify.
        counts: reads all ratings so far, for the evidence.
        target: the share likely wrong at which the run ends; 0 for none.
        first: calls at which that is tested first.
    """

    decides: ClassVar[bool] = True
    verdicts: RunVerdicts | None = None

    def __init__(
        self, of: str, evidence: Certainty | None, counts: Counts, target: float, first: int
    ) -> None:
        self._of, self._evidence, self._target, self._bars = of, evidence, target, Bars()
        if evidence is not None:
            self.verdicts = RunVerdicts(evidence, counts())
        if target:
            self.stop = reached(self.is_good_enough, first, TEST_GROWTH)

    @abstractmethod
    def is_good_enough(self, arms: Arms) -> bool:
        """Return whether few enough decisions are likely wrong."""

    @abstractmethod
    def is_certified(self, arms: Arms, verdicts: RunVerdicts) -> bool:
        """Return whether every decision that can be certified is."""

    @abstractmethod
    def decided(self, arms: Arms) -> tuple[str, FloatArray]:
        """Return what is decided, in words, and the chance that each decision is wrong."""

    def is_over(self, arms: Arms) -> bool:
        if self._target and self.is_good_enough(arms):
            return True
        return self.verdicts is not None and self.is_certified(arms, self.verdicts)

    def standing(self, arms: Arms) -> list[Fact]:
        """Return what is decided, how much of it is likely wrong, and how much is certified."""
        kept, chances = self.decided(arms)
        share = share_of(chances)
        bars = "" if math.isnan(share) else self._bars.with_next(share)
        facts = [("decided", kept), ("likely wrong", f"{number_wrong(chances, 'decision')}{bars}")]
        if self._evidence is not None:
            sure = int(certified(self._evidence.log[0], self._evidence.error_rate).sum())
            facts.append(("certified", f"{sure:,} of {self._of}"))
        return facts


class DecisionsWatch(DecidingWatch):
    """Watches decisions on pairs, or on the best of groups."""

    def __init__(self, task: Task, counts: Counts, target: float) -> None:
        self._task = task
        evidence = None if task.decision.error_rate is None else Evidence(task)
        super().__init__(things(task), evidence, counts, target, task.space.first_fit)

    def is_good_enough(self, arms: Arms) -> bool:
        sums, given_up = arms.copied_sums(), arms.is_retired
        return share_to_test(self._task, sums, given_up, self._target) <= self._target

    def is_certified(self, arms: Arms, verdicts: RunVerdicts) -> bool:
        return decide(self._task, lambda: verdicts.counts, arms).is_over

    def decided(self, arms: Arms) -> tuple[str, FloatArray]:
        task, sums = self._task, arms.copied_sums()
        tally = tally_of(task, decisions_by(task, row_scores(task.space, task, sums).score))
        return kept_text(task, tally), likely_wrong(task, sums, arms.is_retired)
