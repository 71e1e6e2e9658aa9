"""What a run decided, as facts and in words: for the end of a session, the live view, the status, the table and the report."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from robin_cli.analysis.decisions import SETTLED, Decided
from robin_cli.model.decision import DROP, KEEP, UNDECIDED
from robin_cli.model.records import number_of

OPEN = "?"
"""Behind a leaning that is not certified; alone where there is none."""

_LEAST_SHARE = 0.00095
"""What is below has no digit left that is told."""
_FEW = 0.0995
"""Of shares below it tenths of a percent are told."""


def decision_facts(decided: Decided) -> dict[str, Any]:
    """How the decisions of a run stand, by name; every value is JSON."""
    first, asked = decided.first, decided.task.decision
    is_open, wrong = ~decided.held, decided.likely_wrong
    return {
        "of": decided.decisions,
        "each": "group" if asked.is_best else "pair",
        "certified": int((~is_open).sum()),
        "open": int(is_open.sum()),
        **decided.tally(decided.decision),
        "within_margin": int((decided.certified & (decided.decision != decided.leaning))[first].sum()),
        "settled": int(decided.settled[first].sum()),
        "given_up": int((is_open & decided.stuck).sum()),
        "leaning": decided.tally(decided.leaning),
        "open_leaning": decided.tally(decided.leaning, is_open),
        "likely_wrong_share": None if math.isnan(wrong) else wrong,
        "likely_wrong_of": int((~np.isnan(decided.doubt[first])).sum()),
        "error_rate": asked.error_rate,
        "margins": dict(zip(decided.task.space.attributes, asked.margins, strict=True)),
    }


def decided_text(facts: Mapping[str, Any]) -> str:
    """The facts of :func:`decision_facts` in a sentence: what is certified, what is open and how it leans, how sure that is."""
    certified, is_open, settled = facts["certified"], facts["open"], facts["settled"]
    if not is_open:
        return f"all {things(facts)} are decided{_counts(facts)} ({promise(facts)}){_either(facts)}{_wrong(facts, 'these')}"
    by_means = _counts(facts["open_leaning"]).replace(": ", "by their means ", 1)
    if unknown := facts["open_leaning"][UNDECIDED]:
        by_means = f"{by_means}, {unknown:,} not rated".removeprefix(", ")
    enough = math.ceil(facts["of"] / SETTLED)
    have = "has" if settled == 1 else "have"
    together = (
        f"{settled:,} {have} the evidence that one alone needs; once about {enough:,} have, they are certified together"
    )
    if certified:
        parts = [
            f"{certified:,} of {things(facts)} are decided{_counts(facts)} ({promise(facts)}){_either(facts)}",
            f"{is_open:,} {'is' if is_open == 1 else 'are'} open{f' ({by_means})' if by_means else ''}",
            together if settled > certified else "",
        ]
    else:
        soon = together if settled else "most are certified at about the same time, near the end"
        parts = [by_means, f"none of {things(facts)} is certified yet: {soon}"]
    if facts["given_up"]:
        parts.append(f"{facts['given_up']:,} of those open cannot be decided: given up, asked no more")
    return "; ".join(filter(None, parts)) + _wrong(facts, number_of(facts["likely_wrong_of"], "leaning"))


def things(facts: Mapping[str, Any]) -> str:
    """What is decided, counted: "60 pairs"."""
    return number_of(facts["of"], facts["each"]) + " × attributes" * (
        facts["each"] == "group" and len(facts["margins"]) > 1
    )


def promise(facts: Mapping[str, Any], of: str = "these") -> str:
    """What holds of the certified decisions, as ``of`` calls them."""
    margins = facts["margins"]
    each = {f"{margin:g}" for margin in margins.values()}
    said = (
        f"margin {each.pop()}" if len(each) == 1 else "margins " + ", ".join(f"{m:g} {n}" for n, m in margins.items())
    )
    return f"at most {100 * facts['error_rate']:g} % of {of} wrong on average; {said}"


def wrong_text(share: float) -> str:
    """The share of leanings that is likely wrong, in words."""
    if math.isnan(share):
        return "not known how many"
    if share < _LEAST_SHARE:
        return "less than 0.1 %"
    return f"about {100 * share:.1f} %" if share < _FEW else f"about {100 * share:.0f} %"


def _wrong(facts: Mapping[str, Any], of: str) -> str:
    share = facts["likely_wrong_share"]
    return "" if share is None else f"; {wrong_text(share)} of {of} are likely wrong"


def _either(facts: Mapping[str, Any]) -> str:
    """How many decisions are not what their means say."""
    count = facts["within_margin"]
    return f", {count:,} of them against their means: within the margin either side will do" if count else ""


def _counts(tally: Mapping[str, Any]) -> str:
    """How many are kept and dropped; nothing of groups, of which each has one best."""
    told = {KEEP: tally.get(KEEP, 0), DROP: tally.get(DROP, 0)}
    if not any(told.values()):
        return ""
    return ": " + ", ".join(f"{count:,} {name}" for name, count in told.items())


def cells_of(decided: Decided) -> list[str]:
    """Each row's decision as a table has it: ``keep``; ``keep?`` where it is the leaning, not certified; ``?`` without one."""
    lean = np.where(decided.leaning == UNDECIDED, "", decided.leaning) + OPEN
    told = np.where(decided.certified, decided.decision, lean)
    cells: list[str] = np.where(decided.number < 0, "", told).tolist()  # a group of one response has nothing to decide
    return cells
