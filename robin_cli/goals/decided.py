"""The decisions of a run: watched while it goes on, as facts, and in words for displays, the status, tables and the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from robin_cli.analysis.decided import (
    Decided,
    decide,
    doubts,
    first_rows,
    leanings,
    score_means,
    share_of,
)
from robin_cli.analysis.decisions import Evidence, RunVerdicts
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.goals.watching import ErrorWatch, Fact, Watch
from robin_cli.model.arms import Arms
from robin_cli.model.decision import DROP, KEEP, UNDECIDED
from robin_cli.model.records import number_of
from robin_cli.model.task import Task
from robin_cli.results.words import Bars

OPEN = "?"
"""Stands behind a leaning that is not certified; alone without one."""

_LEAST_SHARE = 0.00095
"""A smaller share has no digit that is shown."""
_FEW = 0.0995
"""Smaller shares are shown in tenths of a percent."""

_MANY_ARMS = 2**15
"""With more arms, the estimated share of wrong leanings would take a display a tenth of a second each time."""


def decision_facts(decided: Decided) -> dict[str, Any]:
    """Return the decisions of a run as JSON."""
    asked, is_open, wrong = decided.task.decision, ~decided.held, decided.likely_wrong
    return {
        "of": decided.decisions,
        "each": _each(decided),
        "certified": int(decided.held.sum()),
        "open": int(is_open.sum()),
        **decided.tally(decided.decision),
        "within_margin": _within_margin(decided),
        "settled": int(decided.settled[decided.first].sum()),
        "given_up": int((is_open & decided.stuck).sum()),
        "leaning": decided.tally(decided.leaning),
        "open_leaning": decided.tally(decided.leaning, is_open),
        "likely_wrong_share": None if math.isnan(wrong) else wrong,
        "likely_wrong_of": _known(decided),
        "error_rate": asked.error_rate,
        "margins": dict(zip(decided.task.space.attributes, asked.margins, strict=True)),
    }


def _each(decided: Decided) -> str:
    return "group" if decided.task.decision.is_best else "pair"


def _within_margin(decided: Decided) -> int:
    """Return the number of certified decisions that differ from their means."""
    return int((decided.certified & (decided.decision != decided.leaning))[decided.first].sum())


def _known(decided: Decided) -> int:
    """Return the number of leanings with an estimated doubt."""
    return int((~np.isnan(decided.doubt[decided.first])).sum())


def decided_text(decided: Decided) -> str:
    """Return a sentence on the certified decisions, the open ones and their leanings, and the certainty of both."""
    of, is_open = things(decided), ~decided.held
    certain, open_ = int(decided.held.sum()), int(is_open.sum())
    count = _within_margin(decided)
    either = (
        f", {count:,} of them against their means: within the margin either side will do"
        if count
        else ""
    )
    said = f"decided{_counts(decided.tally(decided.decision))} ({promise(decided)}){either}"
    if not open_:
        return f"all {of} are {said}{_wrong(decided, 'these')}"
    leaning, settled = (
        decided.tally(decided.leaning, is_open),
        int(decided.settled[decided.first].sum()),
    )
    by_means = _counts(leaning).replace(": ", "by their means ", 1)
    if unknown := leaning[UNDECIDED]:
        by_means = f"{by_means}, {unknown:,} not rated".removeprefix(", ")
    together = (
        f"{settled:,} {'has' if settled == 1 else 'have'} the evidence that one alone needs; the fewer of {of} have it, the "
        "more each needs to be certified"
    )
    if certain:
        parts = [
            f"{certain:,} of {of} are {said}",
            f"{open_:,} {'is' if open_ == 1 else 'are'} open{f' ({by_means})' if by_means else ''}",
            together if settled > certain else "",
        ]
    else:
        parts = [by_means, f"none of {of} is certified yet", together if settled else ""]
    if given_up := int((is_open & decided.stuck).sum()):
        parts.append(f"{given_up:,} of those open cannot be decided: given up")
    return "; ".join(filter(None, parts)) + _wrong(decided, number_of(_known(decided), "leaning"))


def kept_text(decided: Decided) -> str:
    """Return how many pairs are kept, or how many groups have a best; how many are certified, and how many are open."""
    certain, open_ = int(decided.held.sum()), f"{int((~decided.held).sum()):,} open"
    if decided.task.decision.is_best:
        return f"best response certified for {certain:,} of {things(decided)}; {open_}"
    sure = decided.tally(decided.decision)
    told = decided.tally(np.where(decided.certified, decided.decision, decided.leaning))
    kept, dropped = (f"{told[side]:,}{{}} ({sure[side]:,} certified)" for side in (KEEP, DROP))
    unrated = f", {told[UNDECIDED]:,} not rated" if told[UNDECIDED] else ""
    return f"kept {kept.format(f' of {things(decided)}')}, dropped {dropped.format('')}{unrated}; {open_}"


def sure_text(decided: Decided) -> str:
    """Return the promise of the certified decisions, and the estimated share of wrong leanings."""
    wrong = _wrong(decided, f"all {number_of(_known(decided), 'leaning')}")
    return f"{promise(decided, 'the certified')}{wrong}"


def things(decided: Decided) -> str:
    """Return the decisions in words with their number: "60 pairs"."""
    several = decided.task.decision.is_best and len(decided.task.space.attributes) > 1
    return number_of(decided.decisions, _each(decided)) + " × attributes" * several


def promise(decided: Decided, of: str = "these") -> str:
    """Return the promise of the certified decisions, which ``of`` names."""
    asked, names = decided.task.decision, decided.task.space.attributes
    each = {f"{margin:g}" for margin in asked.margins}
    of_each = ", ".join(
        f"{margin:g} {name}" for margin, name in zip(asked.margins, names, strict=True)
    )
    said = f"margin {each.pop()}" if len(each) == 1 else f"margins {of_each}"
    return f"at most {100 * asked.error_rate:g} % of {of} wrong on average; {said}"


def wrong_text(share: float) -> str:
    """Return the estimated share of wrong leanings, in words."""
    if math.isnan(share):
        return "not known how many"
    if share < _LEAST_SHARE:
        return "less than 0.1 %"
    return f"about {100 * share:.1f} %" if share < _FEW else f"about {100 * share:.0f} %"


def _wrong(decided: Decided, of: str) -> str:
    share = decided.likely_wrong
    return "" if math.isnan(share) else f"; {wrong_text(share)} of {of} are likely wrong"


def _counts(tally: Mapping[str, int]) -> str:
    """Return how many are kept and dropped; empty for groups, each of which has one best."""
    told = {KEEP: tally.get(KEEP, 0), DROP: tally.get(DROP, 0)}
    return (
        ": " + ", ".join(f"{count:,} {name}" for name, count in told.items())
        if any(told.values())
        else ""
    )


def cells_of(decided: Decided) -> list[str]:
    """Return each row's decision as shown in a table: ``keep``; ``keep?`` for a leaning; ``?`` without one."""
    lean = np.where(decided.leaning == UNDECIDED, "", decided.leaning) + OPEN
    told = np.where(decided.certified, decided.decision, lean)
    cells: list[str] = np.where(
        decided.number < 0, "", told
    ).tolist()  # a group of one response has no decision
    return cells


class DecisionsWatch(Watch):
    """Watches the decisions by the ratings so far, which the scheduler adds to :attr:`verdicts`."""

    verdicts: RunVerdicts

    def __init__(self, task: Task, counts: LevelCounts) -> None:
        self._evidence = Evidence(task)
        self.verdicts = RunVerdicts(self._evidence, counts)
        self._errors = ErrorWatch(task.space)
        self._certified, self._wrong = Bars(), Bars()

    def is_over(self, arms: Arms) -> bool:
        return decide(self._evidence.task, self.verdicts.counts, arms).is_over

    def standing(self, arms: Arms) -> list[Fact]:
        """Return the likely worst error, and the numbers of certified, open and likely wrong decisions at the last look."""
        evidence = self._evidence
        log = evidence.log[0].copy()
        is_sure = certified(log, evidence.task.decision.error_rate)
        waiting = int((~is_sure & (log >= evidence.needed)).sum())
        said = f" ({waiting:,} clear, asked no more)" if waiting else ""
        noun = "group" if evidence.task.group is not None else "pair"
        bars = self._certified.with_next(float(is_sure.mean()), 1.0)
        return [
            *self._errors.standing(arms),
            ("decided", f"{int(is_sure.sum()):,} of {number_of(len(log), noun)}{bars}"),
            ("open", f"{int((~is_sure).sum()):,}{said}"),
            *self._likely_wrong(arms),
        ]

    def _likely_wrong(self, arms: Arms) -> list[Fact]:
        """Return the estimated share of wrong leanings; empty if there are too many to compute it in time."""
        task = self._evidence.task
        if len(task.space) > _MANY_ARMS:
            return []
        sums = arms.copied_sums()
        means = score_means(task.space, *sums[:2])
        leaning = leanings(task, means)
        share = share_of(
            doubts(task, means, leaning, sums, arms.retired_mask)[first_rows(task, leaning)]
        )
        if math.isnan(share):
            return []
        return [
            ("likely wrong", f"{wrong_text(share)} of the leanings{self._wrong.with_next(share)}")
        ]
