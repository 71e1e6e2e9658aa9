"""What answers in lines have in common: the last line of a label speaks, reasoning is none of it, and why there may be none.

Every pattern starts at a fixed place in its line and repeats possessively (``*+``), so that no text takes more than
linear time. Possessive are single classes only: before Python 3.11.5, possessive groups could match wrongly.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from robin_cli.model.records import Rating

# Marks may surround a label, its colon and what it says without changing what they say: white space and invisible
# characters, emphasis, code and table marks, quotation marks, closing brackets.
MARKS = r"""\s*_`\\|"'´“”„‟‘’‚‛«»‹›「」『』＂＇\u00ad\u200b-\u200f\u2060\ufe0f\ufeff)\]}】）］｝》〉〕"""
OPEN = r"(\[{【（［｛《〈〔"
COLON = r":=：﹕∶＝"

_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)

# Struck-out lines (~~Rating: 2~~) and closing tags (</rating>) say nothing, hence the look behind.
LABEL = r"[\W_]*+(?:(?:\d{1,3}|[a-z])[.)][\W_]*+)?(?<![~/])"

_FEEDBACK = re.compile(rf"{LABEL}feedback[{MARKS}]*+(?:[{COLON}][*_`\"]*+|\Z)", re.IGNORECASE)

# Well-known openings only. A bare "I can't" goes on with a verb of refusing: "I can't find a flaw" is praise.
_CANNOT = r"I(?:['’]m|\s+am)?\s+(?:can['’]t|cannot|can\s+not|won['’]t|will\s+not|unable\s+to|not\s+able\s+to)\b"
_DECLINE = r"I\s+(?:must|have\s+to)\s+(?:respectfully\s+)?decline\b"
_SORRY = (
    r"(?:I['’]m|I\s+am)\s+(?:(?:very|so|really|truly)\s+)?(?:sorry|afraid)|sorry|(?:my\s+)?apologies|I\s+apologi[sz]e"
)
_REFUSAL = re.compile(
    rf"""\W*+(?:
    (?:{_SORRY}|unfortunately|as\s+an?\s+(?:AI|(?:large\s+)?language\s+model)\b[^.,\n]{{0,40}})
    [,.;:]?\s+(?:(?:but|that)\s+)?(?:{_CANNOT}|{_DECLINE})
    | {_DECLINE}
    | {_CANNOT}\s+(?:assist|help|comply|fulfill?|provide|rate|evaluate|judge|assess|engage|participate|discuss)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)


class Reading(NamedTuple):
    """What one line says; two lines differ if their readings do. ``said`` is empty where there is a value."""

    value: int | None
    reason: str | None
    said: str = ""


NOTHING = Reading(None, "missing")
_TRUNCATED = Reading(None, "truncated")


class Line(NamedTuple):
    """The lines that speak for an answer.

    Attributes:
        head: matches the label of one, up to what it says.
        read: what a line says, from the end of its label on.
        unsettled: matches from there to the line's end where what it says could have gone on otherwise.
    """

    head: re.Pattern[str]
    read: Callable[[re.Match[str]], Reading]
    unsettled: re.Pattern[str]


def parse_lines(text: str | None, line: Line, *, finish_reason: str | None, refusal: str | None) -> Rating:
    """Read one answer; any text gives a ``Rating``, none raises.

    ``finish_reason`` and ``refusal`` are the endpoint's. An answer that it cut (``length``) counts only if its last line was
    closed by a line break or an explanation. An empty answer that was cut is ``truncated``, as a larger ``--max-tokens`` helps.
    """
    answer = without_reasoning(text or "")
    lines = answer.splitlines()
    heads = {number: head for number, each in enumerate(lines) if (head := line.head.match(each))}
    last = max(heads, default=len(lines))
    if finish_reason == "content_filter":
        reading = Reading(None, "filtered")
    elif refusal:
        reading = Reading(None, "refused")
    elif not heads:
        reading = Reading(None, _why_no_line(text, answer, cut=finish_reason == "length"))
    elif finish_reason == "length" and _is_cut(heads[last], answer, line.unsettled, final=last == len(lines) - 1):
        reading = _TRUNCATED
    else:
        reading = _agreed([line.read(head) for head in heads.values()])
        if finish_reason == "length" and reading == NOTHING:
            reading = _TRUNCATED
    return Rating(reading.value, reading.reason, _feedback(lines, heads, last))


def last_place(text: str, head: re.Pattern[str], said: Callable[[re.Match[str]], tuple[int, int] | None]) -> int | None:
    """Where in ``text`` what its last such line says begins; None where it says nothing, or reasoning hides it.

    Args:
        head: matches the label of such a line.
        said: where in its line that begins, and how far it goes.
    """
    lines = without_reasoning(text).splitlines(keepends=True)
    for number in reversed(range(len(lines))):
        line = lines[number].splitlines()[0]
        if found := head.match(line):
            if (place := said(found)) is None:
                return None
            first, end = place
            # Reasoning is taken out before the line, if at all: from the end, both texts are the same.
            at = len(text) - len("".join(lines[number:])) + first
            return at if text.startswith(line[first:end], at) else None
    return None


def without_reasoning(text: str) -> str:
    """The text outside ``<think>…</think>``, with a space for each block: no digits run together, no line is made.

    A ``</think>`` without its opening (some servers put that into the prompt) ends reasoning that began with the text;
    a ``<think>`` that is never closed goes on to the end.
    """
    if "<" not in text:
        return text
    kept: list[str] = []
    start: int | None = 0
    for tag in _TAG.finditer(text):
        if not tag[1] and start is not None:
            kept.append(text[start : tag.start()])
            start = None
        elif tag[1]:
            if start is not None:
                kept.clear()
            start = tag.end()
    kept.append("" if start is None else text[start:])
    return " ".join(kept)


def _why_no_line(text: str | None, answer: str, *, cut: bool) -> str:
    if cut:
        return "truncated"
    if not text or text.isspace():
        return "empty"
    return "refused" if _REFUSAL.match(answer) else "missing"


def _is_cut(head: re.Match[str], answer: str, unsettled: re.Pattern[str], *, final: bool) -> bool:
    """Whether the end of the answer came before it was certain what its last such line says."""
    line = head.string
    return final and answer.endswith(line) and unsettled.match(line, head.end()) is not None


def _agreed(readings: list[Reading]) -> Reading:
    last = readings[-1]
    agree = last == NOTHING or all(reading in (last, NOTHING) for reading in readings)
    return last if agree else Reading(None, "ambiguous")


def _feedback(lines: list[str], heads: dict[int, re.Match[str]], last: int) -> str:
    """The text from the Feedback label that led to the last line that speaks up to the next one.

    That label is the first one after the one before, so that an echoed prompt is no feedback.
    """
    labels = {number: label for number, line in enumerate(lines) if (label := _FEEDBACK.match(line))}
    if not labels:
        return ""
    previous = max((number for number in heads if number != last), default=0)
    first = min((number for number in labels if number >= previous), default=max(labels))
    end = min((number for number in heads if number > first), default=len(lines))
    return "\n".join([lines[first][labels[first].end() :], *lines[first + 1 : end]]).strip()
