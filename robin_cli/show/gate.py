"""``robin gate``: verdicts as lines, as JUnit XML for what shows a build's tests, as Markdown for its summary page, as JSON.

Names and ids in them come from models and data sets: in each they are text and nothing else.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from robin_cli.model.decision import RELATIONS
from robin_cli.model.errors import InputError, did_you_mean, option, shown, typed
from robin_cli.model.records import SYSTEM_COLUMN, first_text, number_of
from robin_cli.run.manifest import FILE
from robin_cli.run.reader import RunData, read_run
from robin_cli.show.columns import INTERVALS, REQUIREMENTS
from robin_cli.show.outputs import check_not_read, check_writable
from robin_cli.show.tables import Table
from robin_cli.show.text import one_line
from robin_cli.show.words import about, finite
from robin_cli.stats.gate import State, Verdict, judged, measured, measured_difference, together
from robin_cli.stats.requirement import Requirement, requirement_of
from robin_cli.stats.run_compare import Compared, compared
from robin_cli.stats.scores import score

EXIT_CODES: Mapping[State, int] = {"pass": 0, "fail": 5, "inconclusive": 6}

_SHOWN = 3
_SHOWN_SYSTEMS = 8
_MARKS: Mapping[State, str] = {"pass": "✅", "fail": "❌", "inconclusive": "❔"}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"[^\w\s-]|_", re.ASCII)

Quote = Callable[[str], str]
"""A function that makes a name, an id or a command harmless for its output."""


@dataclass(frozen=True, slots=True)
class Gated:
    """Verdicts on a run's requirements.

    Attributes:
        run: its path as the user named it.
        verdicts: one a requirement, in their order.
        pair_ids: those of the positions in the verdicts.
        spent: calls of the run.
        attributes: how many these are spread over.
        error_rate: δ of each requirement.
        notes: notes on omissions.
        has_judge: whether there is one to ask again: not for scores that were there already.
    """

    run: str
    verdicts: Sequence[Verdict]
    pair_ids: Sequence[str]
    spent: int
    attributes: int
    error_rate: float
    notes: Sequence[str] = ()
    has_judge: bool = True

    @property
    def state(self) -> State:
        """Return the verdict of all of them together."""
        return together([each.state for each in self.verdicts])


def gated(
    path: Path,
    required: Sequence[str],
    *,
    margin: float | None,
    error_rate: float,
    by: str | None = None,
) -> Gated:
    """Return the verdicts on the run at ``path``.

    Args:
        by: the column that names the systems of a comparison; None for that of systems.

    Raises:
        InputError: a requirement that is not understood, see :func:`~robin_cli.stats.requirement.requirement_of`, or systems
            that cannot be compared.
        RunError, StorageError: the run cannot be read.
    """
    run = read_run(path)
    manifest = run.manifest
    requirements = [
        requirement_of(text, manifest.attributes, manifest.known_ends, margin=margin)
        for text in dict.fromkeys(required)
    ]
    scores = score(run)
    verdicts, notes = [], list[str]()
    for each in requirements:
        if each.kind == "compare":
            two = _two_systems(run, each, by, notes.append)
            known = measured_difference(two, each.attribute)
        else:
            known = measured(run, scores, each.attribute, for_mean=each.kind == "mean")
        verdicts.append(judged(each, known, error_rate=error_rate, settle=True))
    spent = run.fold.arms.spent
    has_judge = run.name == str(path)
    return Gated(
        run.name,
        verdicts,
        run.pair_ids,
        spent,
        len(manifest.attributes),
        error_rate,
        notes,
        has_judge,
    )


def _two_systems(
    run: RunData, requirement: Requirement, by: str | None, notify: Callable[[str], None]
) -> Compared:
    """Return the two systems of a requirement: two values of a column of ``run``, or else two runs by their folders."""
    column, attribute = by or SYSTEM_COLUMN, requirement.attribute
    there = list(dict.fromkeys(run.column(column))) if by or column in run.column_names else []
    a, b = requirement.systems
    if a in there and b in there:
        return compared([run], notify, by=column, only=(a, b))
    folders = [Path(name) for name in (a, b)]
    if all((folder / FILE).is_file() for folder in folders):
        runs = [read_run(folder) for folder in folders]
        scale = dict(zip(run.manifest.attributes, run.manifest.scales, strict=True))[attribute]
        for each in runs:
            if (
                dict(zip(each.manifest.attributes, each.manifest.scales, strict=True)).get(
                    attribute
                )
                != scale
            ):
                raise InputError(
                    f'--require "{shown(requirement, 80)}": {each.name} does not rate {shown(attribute)} on the scale {scale}, '
                    f"as {run.name} does; name runs that do"
                )
        return compared(runs, notify)
    lacking = next((name for name in (a, b) if name not in there), a)
    named = [each for each in there if each is not None]
    known = (
        f"; there are {', '.join(shown(each) for each in named[:_SHOWN_SYSTEMS])}" if named else ""
    )
    where = (
        f'system "{shown(lacking)}" in its column "{shown(column)}"'
        if named
        else f'column "{shown(column)}" (name one with --by)'
    )
    raise InputError(
        f'--require "{shown(requirement, 80)}": {run.name} has no {where}{known}'
        f"{did_you_mean(lacking, named)}; two runs are compared by their folders, compare(runs/new,runs/old)"
    )


def lines_of(found: Gated) -> list[str]:
    """Return a line for each requirement, for people."""
    return [f"{each.state.upper()} {_line(found, each)}" for each in found.verdicts]


def _line(found: Gated, verdict: Verdict) -> str:
    return f"{one_line(verdict.requirement)}: {one_line(why(found, verdict, one_line))}"


def why(found: Gated, verdict: Verdict, quote: Quote) -> str:
    """Return estimate, interval, their subject and the verdict; if inconclusive, also what would settle it."""
    is_all = verdict.requirement.kind == "all"
    return "; ".join(
        [*([] if is_all else [_numbers(found, verdict)]), *reasons(found, verdict, quote)]
    )


def reasons(found: Gated, verdict: Verdict, quote: Quote) -> list[str]:
    """Return the reason for the verdict, and what would settle it, without the estimate."""
    parts = (
        [_of_all(found, verdict, quote)]
        if verdict.requirement.kind == "all"
        else [_MEETS[verdict.state]]
    )
    if verdict.unrated:
        parts.append(
            f"{number_of(verdict.unrated, 'pair')} without a rating {_UNRATED[verdict.requirement.kind]}"
        )
    if verdict.state == "inconclusive":
        parts.append(_settling(found, verdict, quote))
    return parts


_UNRATED = {
    "mean": "left out",
    "compare": "left out",
    "share": "counted as not known",
    "all": "shown to meet nothing",
}
_MEETS = {
    "pass": "all of the interval meets it",
    "fail": "none of the interval meets it",
    "inconclusive": "a part of the interval meets it",
}


def _numbers(found: Gated, verdict: Verdict) -> str:
    if not verdict.pairs:
        return "no pair has a rating yet"
    estimate, low, high = _told(verdict)
    why = ", for later calls depended on these" if verdict.first else ""
    return (
        f"{estimate}, {_confidence(found)} interval {low} to {high} ({_there(found, verdict)}{why})"
    )


def _there(found: Gated, verdict: Verdict) -> str:
    of_first = f", {first_text(verdict.first)} of each" if verdict.first else ""
    if verdict.requirement.kind == "compare":
        several = sum(each.requirement.kind == "compare" for each in found.verdicts)
        of = f"each of {several} comparisons alone" if several > 1 else "1 comparison"
        return f"for {of}: {number_of(verdict.prompts, 'prompt')} that both answered{of_first}"
    as_often = ", as this judge scores them" if verdict.requirement.kind == "share" else ""
    return f"{number_of(verdict.pairs, 'pair')} of {number_of(verdict.prompts, 'prompt')}{of_first}{as_often}"


def _confidence(found: Gated) -> str:
    return f"{100 * (1 - found.error_rate):.6g} %"


def _told(verdict: Verdict) -> tuple[str, str, str]:
    """Return estimate and interval with enough digits to show their side of the threshold."""
    requirement = verdict.requirement
    if requirement.kind in {"mean", "compare"}:
        relation, x = requirement.criterion.relation, requirement.criterion.threshold
    else:
        relation, x = requirement.relation, requirement.share
    meets = RELATIONS[relation]
    values = (verdict.estimate, verdict.low, verdict.high)
    digits = next(
        (
            d
            for d in range(2, 7)
            if all(meets(round(each, d), x) == meets(each, x) for each in values)
        ),
        7,
    )
    estimate, low, high = (f"{each:z.{digits}f}" for each in values)
    return estimate, low, high


def _of_all(found: Gated, verdict: Verdict, quote: Quote) -> str:
    pairs = len(found.pair_ids)
    sure = pairs - len(verdict.open) - len(verdict.against)
    there = f"{sure} of {number_of(pairs, 'pair')} shown to meet it"
    if verdict.against:
        return (
            f"{there}, {len(verdict.against)} shown not to: {_ids(found, verdict.against, quote)}"
        )
    if verdict.open:
        return f"{there}, {len(verdict.open)} open: {_ids(found, verdict.open, quote)}"
    return f"each of {number_of(pairs, 'pair')} is shown to meet it"


def _ids(found: Gated, places: Sequence[int], quote: Quote) -> str:
    shown = ", ".join(quote(found.pair_ids[place]) for place in places[:_SHOWN])
    return shown + (f" and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else "")


def _settling(found: Gated, verdict: Verdict, quote: Quote) -> str:
    needed, requirement = verdict.settling, verdict.requirement
    if needed is None or needed.calls is needed.prompts is None:
        why = "the estimate is too near what is required; require a little more or less"
        if requirement.kind == "all":
            why = "some of these pairs can be rated no more"
        elif math.isinf(verdict.low):
            why = "scores that are all alike have no interval without a scale; give it by --scale LOW-HIGH"
        return f"nothing that can be named would settle it: {why}"
    if needed.prompts is not None:
        effect = "do not narrow it" if requirement.kind == "share" else "would not"
        return (
            f"about {about(needed.prompts):,} more prompts like these would settle it "
            f"(more calls for these alone {effect})"
        )
    calls = about(needed.calls or 0.0)
    if not found.has_judge:
        return f"more samples would settle it, or about {number_of(calls, 'more score')} of these if scores of one vary"
    settle = f"about {number_of(calls, 'more call')} would settle it"
    if requirement.kind == "all":
        how = quote(option("--decide", requirement.criterion))
        more = number_of(calls, "more call")
        return f"about {more} where it is open would settle it (a new run of robin judge {how} asks there)"
    of = f", of {quote(requirement.attribute)} alone" * (found.attributes > 1)
    return f"{settle}{of} ({quote(_more_calls(found, verdict))})"


def _more_calls(found: Gated, verdict: Verdict) -> str:
    """Return the command for the calls that would settle it; "" if none would. Each attribute gets as many."""
    needed = verdict.settling
    if needed is None or needed.calls is None or needed.prompts is not None:
        return ""
    if verdict.requirement.kind == "all" or not found.has_judge:
        return ""
    budget = found.spent + found.attributes * about(needed.calls)
    return f"robin resume {typed(found.run)} --budget {budget}"


def ends_with(found: Gated) -> list[str]:
    """Return the last lines for people: the verdict of several requirements, and the command that is useful next."""
    several, counts = len(found.verdicts) > 1, Counter(each.state for each in found.verdicts)
    told = ", ".join(f"{counts[state]:,} {state}" for state in EXIT_CODES if counts[state])
    overall = [
        f"{found.state.upper()}: of {number_of(len(found.verdicts), 'requirement')} {told}"
    ] * several
    settling = filter(
        None, (_more_calls(found, each) for each in found.verdicts if each.state == "inconclusive")
    )
    return [
        *[INTERVALS] * any(each.requirement.kind != "all" for each in found.verdicts),
        *overall,
        one_line(f"next: {next(settling, f'robin report {typed(found.run)} -o report.html')}"),
    ]


def facts_of(found: Gated) -> dict[str, Any]:
    """Return the verdicts as JSON values."""
    return {
        "run": found.run,
        "verdict": found.state,
        "exit_code": EXIT_CODES[found.state],
        "error_rate": found.error_rate,
        "requirements": [_facts(found, each) for each in found.verdicts],
    }


def requirement_table(found: Gated) -> Table:
    """Return the verdicts as a table."""
    facts = [_facts(found, each) for each in found.verdicts]
    return REQUIREMENTS.of(
        {name: [each[name] for each in facts] for name in REQUIREMENTS.columns},
        noun="requirement",
        notes=[INTERVALS],
    )


def _facts(found: Gated, verdict: Verdict) -> dict[str, Any]:
    requirement, needed = verdict.requirement, verdict.settling
    calls, prompts = (None, None) if needed is None else (needed.calls, needed.prompts)
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
        "first_open": [found.pair_ids[place] for place in verdict.open[:_SHOWN]],
        "n_against": len(verdict.against),
        "first_against": [found.pair_ids[place] for place in verdict.against[:_SHOWN]],
        "calls_to_settle": None if calls is None else about(calls),
        "prompts_to_settle": None if prompts is None else about(prompts),
        "why": why(found, verdict, one_line),
    }


def junit_of(found: Gated) -> str:
    """Return JUnit XML: a test case for each requirement, failed, or skipped if it is inconclusive."""
    states = [each.state for each in found.verdicts]
    counts = {"tests": str(len(states)), "failures": str(states.count("fail")), "errors": "0"}
    root = ET.Element("testsuites", {"name": "robin gate", **counts})
    suite = ET.SubElement(
        root,
        "testsuite",
        {"name": "robin gate", **counts, "skipped": str(states.count("inconclusive"))},
    )
    for verdict in found.verdicts:
        named = {"classname": "robin.gate", "name": _xml(str(verdict.requirement))}
        case = ET.SubElement(suite, "testcase", named)
        told = _xml(why(found, verdict, one_line))
        tag = {"pass": "system-out", "inconclusive": "skipped"}.get(verdict.state, "failure")
        if verdict.state == "pass":
            ET.SubElement(case, tag).text = told
        else:
            ET.SubElement(case, tag, {"type": verdict.state, "message": told}).text = told
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", one_line(text))


def markdown_of(found: Gated) -> str:
    """Return a heading and a table with a row for each requirement, for a build's summary page."""
    lines = [
        f"### robin gate: {_MARKS[found.state]} {found.state}",
        "",
        f"| | requirement | estimate | {_confidence(found)} interval | of | why |",
        "|---|---|---|---|---|---|",
    ]
    for verdict in found.verdicts:
        is_sample = verdict.requirement.kind != "all" and verdict.pairs
        estimate, low, high = _told(verdict) if is_sample else ("–", "–", "–")
        interval = f"{low} to {high}" if is_sample else "–"
        name = _code(str(verdict.requirement))
        told = "; ".join(reasons(found, verdict, _code))
        cells = (
            f"{_MARKS[verdict.state]} {verdict.state}",
            name,
            estimate,
            interval,
            _there(found, verdict),
            told,
        )
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"{INTERVALS}. Run {_code(found.run)}, {found.spent:,} calls."]
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """Return ``text`` as code in Markdown, with every special character as an entity."""
    entities = _MARKDOWN.sub(lambda mark: f"&#{ord(mark.group())};", one_line(text))
    return f"<code>{entities}</code>" if entities else ""


def check_outputs(
    outputs: Mapping[str, str | None], reads: Sequence[str], *, as_json: bool
) -> None:
    """Refuse outputs that could not be written, before any computation.

    Args:
        outputs: files by flag.
        reads: files that are read, which none of them may replace.
        as_json: whether standard output is taken.

    Raises:
        InputError: two results in one place, or a place that cannot or must not be written.
    """
    given = {flag: name for flag, name in outputs.items() if name is not None}
    places = {flag: name if name == "-" else os.path.realpath(name) for flag, name in given.items()}
    if as_json:
        places["--json"] = "-"
    for flag, name in given.items():
        if len(alike := [each for each, place in places.items() if place == places[flag]]) > 1:
            flags = " and ".join(alike)
            raise InputError(
                f"{flags}: would both be written to {name}; give one of them another file"
            )
    for flag, name in given.items():
        if name != "-":
            check_not_read(flag, name, reads)
            check_writable(flag, name)
