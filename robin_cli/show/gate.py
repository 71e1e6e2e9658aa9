"""``robin gate``: verdicts as lines, as JUnit XML for what shows a build's tests, as Markdown for its summary page, as JSON.

Names and ids in them come from models and data sets: in each they are text and nothing else.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any
from xml.etree import ElementTree as ET

from robin_cli.goals.gate import GateResult
from robin_cli.model.decision import RELATIONS
from robin_cli.model.errors import option, typed
from robin_cli.model.records import first_text, number_of
from robin_cli.show.columns import INTERVALS, REQUIREMENTS
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line
from robin_cli.show.words import about, finite
from robin_cli.stats.gate import Settling, State, Verdict

EXIT_CODES: Mapping[State, int] = {"pass": 0, "fail": 5, "inconclusive": 6}

_SHOWN = 3
_MARKS: Mapping[State, str] = {"pass": "✅", "fail": "❌", "inconclusive": "❔"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"(?<!\d)\.|\.(?!\d)|[^\w\s.,;()%-]|_", re.ASCII)


_UNRATED = {
    "mean": "left out",
    "compare": "left out",
    "share": "counted as not known",
    "all": "shown to meet nothing",
}
_MEETS: Mapping[State, str] = {
    "pass": "all of the interval meets it",
    "fail": "none of the interval meets it",
    "inconclusive": "a part of the interval meets it",
}


def why(gate: GateResult, verdict: Verdict) -> str:
    """Return a verdict in a sentence; that of an inconclusive one says also what would settle it."""
    kind = verdict.requirement.kind
    reasons = [_of_all(gate, verdict) if kind == "all" else _MEETS[verdict.state]]
    if verdict.unrated:
        reasons.append(f"{number_of(verdict.unrated, 'pair')} without a rating {_UNRATED[kind]}")
    if verdict.state == "inconclusive":
        reasons.append(_settling(gate, verdict))
    if kind == "all":
        return "; ".join(reasons)
    if not verdict.pairs:
        return "; ".join(["no pair has a rating yet", *reasons])
    first = f", {first_text(verdict.first)} of each" if verdict.first else ""
    prompts = number_of(verdict.prompts, "prompt")
    if kind == "compare":
        several = sum(each.requirement.kind == "compare" for each in gate.verdicts)
        alone = f"each of {several} comparisons alone" if several > 1 else "1 comparison"
        of = f"for {alone}: {prompts} that both answered{first}"
    else:
        scored = ", as this judge scores them" * (kind == "share")
        of = f"{number_of(verdict.pairs, 'pair')} of {prompts}{first}{scored}"
    depended = ", for later calls depended on these" if verdict.first else ""
    estimate, low, high = _figures(verdict)
    interval = f"{100 * (1 - gate.error_rate):.6g} % interval {low} to {high}"
    return f"{estimate}, {interval} ({of}{depended}); {'; '.join(reasons)}"


def _figures(verdict: Verdict) -> list[str]:
    """Return estimate and interval with enough digits to show their side of the threshold."""
    requirement, criterion = verdict.requirement, verdict.requirement.criterion
    relation, x = requirement.relation, requirement.share
    if requirement.kind in {"mean", "compare"}:
        relation, x = criterion.relation, criterion.threshold
    meets, values = RELATIONS[relation], (verdict.estimate, verdict.low, verdict.high)
    digits = 2
    while digits < 7 and any(meets(round(each, digits), x) != meets(each, x) for each in values):
        digits += 1
    return [f"{each:z.{digits}f}" for each in values]


def _of_all(gate: GateResult, verdict: Verdict) -> str:
    against, left, pairs = verdict.against, verdict.open, number_of(len(gate.pair_ids), "pair")
    if not against and not left:
        return f"each of {pairs} is shown to meet it"
    sure = len(gate.pair_ids) - len(left) - len(against)
    places, how = (against, "shown not to") if against else (left, "open")
    ids = ", ".join(gate.pair_ids[place] for place in places[:_SHOWN])
    more = f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
    return f"{sure:,} of {pairs} shown to meet it, {len(places):,} {how}: {ids}{more}"


def _settling(gate: GateResult, verdict: Verdict) -> str:
    """Return what would settle an inconclusive verdict."""
    needed, requirement = verdict.settling or Settling(), verdict.requirement
    if needed.is_open:
        if not gate.has_judge:
            return "more samples would settle it, or more scores of these if scores of one vary"
        how = option("--decide", requirement.criterion)
        return f"more calls where it is open would settle it (a new run of robin judge {how} asks there)"
    if needed.prompts is not None:
        effect = "do not narrow it" if requirement.kind == "share" else "would not"
        return (
            f"about {about(needed.prompts):,} more prompts like these would settle it "
            f"(more calls for these alone {effect})"
        )
    if needed.calls is None:
        why = "the estimate is too near what is required; require a little more or less"
        if requirement.kind == "all":
            why = "some of these pairs get no more calls"
        elif math.isinf(verdict.low):
            why = "scores that are all alike have no interval without a scale; give it by "
            why += "--scale LOW-HIGH"
        return f"it cannot be said what would settle it: {why}"
    calls = about(needed.calls)
    if not gate.has_judge:
        scores = number_of(calls, "more score")
        return f"more samples would settle it, or about {scores} of these if scores of one vary"
    more = f"about {number_of(calls, 'more call')}"
    of = f", of {requirement.attribute} alone" * (gate.attributes > 1)
    return f"{more} would settle it{of} ({_more_calls(gate, calls)})"


def _more_calls(gate: GateResult, calls: int) -> str:
    """Return the command for so many more calls of one attribute; each attribute gets as many."""
    budget = gate.spent + gate.attributes * calls
    return f"robin resume {typed(gate.run)} --budget {budget}"


def lines_of(gate: GateResult) -> list[str]:
    """Return a line for each requirement, for people."""
    return [
        one_line(f"{each.state.upper()} {each.requirement}: {why(gate, each)}")
        for each in gate.verdicts
    ]


def ends_with(gate: GateResult) -> list[str]:
    """Return the last lines for people: all requirements together, and the next command."""
    verdicts, counts = gate.verdicts, Counter(each.state for each in gate.verdicts)
    lines = [INTERVALS] if any(each.requirement.kind != "all" for each in verdicts) else []
    if len(verdicts) > 1:
        states = ", ".join(f"{counts[state]:,} {state}" for state in EXIT_CODES if counts[state])
        lines.append(f"{gate.state.upper()}: of {number_of(len(verdicts), 'requirement')} {states}")
    calls = [
        about(each.settling.calls)
        for each in verdicts
        if each.state == "inconclusive" and each.requirement.kind != "all" and gate.has_judge
        if each.settling is not None and each.settling.calls is not None
    ]
    report = f"robin report {typed(gate.run)} -o report.html"
    step = _more_calls(gate, calls[0]) if calls else report
    return [*lines, one_line(f"next: {step}")]


def facts_of(gate: GateResult) -> dict[str, Any]:
    """Return the verdicts as JSON values."""
    return {
        "run": gate.run,
        "verdict": gate.state,
        "exit_code": EXIT_CODES[gate.state],
        "error_rate": gate.error_rate,
        "requirements": [_facts(gate, each) for each in gate.verdicts],
    }


def requirement_table(gate: GateResult) -> Table:
    """Return the verdicts as a table."""
    rows = [_facts(gate, each) for each in gate.verdicts]
    return REQUIREMENTS.with_values(
        {name: [row[name] for row in rows] for name in REQUIREMENTS.columns},
        noun="requirement",
        notes=[INTERVALS],
    )


def _facts(gate: GateResult, verdict: Verdict) -> dict[str, Any]:
    requirement, needed = verdict.requirement, verdict.settling or Settling()
    return {
        "requirement": str(requirement),
        "verdict": verdict.state,
        "estimate": finite(verdict.estimate),
        "ci_low": finite(verdict.low),
        "ci_high": finite(verdict.high),
        "n_pairs": verdict.pairs,
        "n_prompts": verdict.prompts,
        "n_unrated": verdict.unrated,
        "first_ratings": verdict.first,
        "margin": requirement.margin if requirement.kind == "all" else None,
        "n_open": len(verdict.open),
        "first_open": [gate.pair_ids[place] for place in verdict.open[:_SHOWN]],
        "n_against": len(verdict.against),
        "first_against": [gate.pair_ids[place] for place in verdict.against[:_SHOWN]],
        "calls_to_settle": None if needed.calls is None else about(needed.calls),
        "prompts_to_settle": None if needed.prompts is None else about(needed.prompts),
        "why": one_line(why(gate, verdict)),
    }


def junit_of(gate: GateResult) -> str:
    """Return JUnit XML: a test for each requirement, failed, or skipped if it is inconclusive."""
    states = [each.state for each in gate.verdicts]
    counts = {"tests": str(len(states)), "failures": str(states.count("fail")), "errors": "0"}
    root = ET.Element("testsuites", {"name": "robin gate", **counts})
    skipped = str(states.count("inconclusive"))
    suite = ET.SubElement(root, "testsuite", {"name": "robin gate", **counts, "skipped": skipped})
    for verdict in gate.verdicts:
        named = {"classname": "robin.gate", "name": _xml(verdict.requirement)}
        case, text = ET.SubElement(suite, "testcase", named), _xml(why(gate, verdict))
        about = {} if verdict.state == "pass" else {"type": verdict.state, "message": text}
        ET.SubElement(case, _TAGS[verdict.state], about).text = text
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}\n'


_TAGS: Mapping[State, str] = {"pass": "system-out", "inconclusive": "skipped", "fail": "failure"}


def _xml(value: object) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", one_line(value))


def markdown_of(gate: GateResult) -> str:
    """Return a heading and a table of the requirements, for a build's summary page."""
    lines = [f"### robin gate: {_MARKS[gate.state]} {gate.state}", ""]
    lines += ["| | requirement | why |", "|---|---|---|"]
    for verdict in gate.verdicts:
        name = f"<code>{_markdown(verdict.requirement)}</code>"
        mark, words = f"{_MARKS[verdict.state]} {verdict.state}", _markdown(why(gate, verdict))
        lines.append(f"| {mark} | {name} | {words} |")
    run = f"Run <code>{_markdown(gate.run)}</code>, {number_of(gate.spent, 'call')}."
    notes = [f"\n{_markdown(note)}" for note in gate.notes]
    return "\n".join([*lines, *notes, "", f"{INTERVALS}. {run}", ""])


def _markdown(value: object) -> str:
    """Return ``value`` as text in Markdown: every mark that could mean something is an entity."""
    return _MARKDOWN.sub(lambda mark: f"&#{ord(mark.group())};", one_line(value))
