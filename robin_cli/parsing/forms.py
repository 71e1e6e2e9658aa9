"""The forms of an answer: a rating or a verdict in two lines, or in JSON by a schema.

In an answer in lines, the last line with the label counts. Reasoning is not part of the answer. Every pattern starts at a fixed
place in its line and repeats possessively (``*+``), so that any text takes linear time. Only single classes are possessive:
before Python 3.11.5, possessive groups could match wrongly.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

from robin_cli.model.records import Rating, Scale

ANSWERS = ("text", "json", "logprobs")
"""How a judge is asked to answer: in two lines, in JSON, or in two lines with log probabilities."""

RESPONSE_FORMAT = "response_format"
"""The field of a request's body that holds the schema of an answer in JSON."""

_MOST_OBJECTS = 1000
"""An answer with more is no judgment, and takes long to read."""

_FENCE = re.compile(r"```(?:json)?\s*", re.IGNORECASE)

# Marks around a label, its colon and its value that change nothing: white space and invisible characters, emphasis, code and
# table marks, quotation marks, closing brackets.
MARKS = r"""\s*_`\\|"'´“”„‟‘’‚‛«»‹›「」『』＂＇\u00ad\u200b-\u200f\u2060\ufe0f\ufeff)\]}】）］｝》〉〕"""
OPEN = r"(\[{【（［｛《〈〔"
COLON = r":=：﹕∶＝"
MINUS = r"\-‐‑‒–−－﹣"

_TAG = re.compile(r"<(/?)think>", re.IGNORECASE)

# Struck-out lines (~~Rating: 2~~) and closing tags (</rating>) do not count, hence the look behind.
LABEL = r"[\W_]*+(?:(?:\d{1,3}|[a-z])[.)][\W_]*+)?(?<![~/])"

_FEEDBACK = re.compile(rf"{LABEL}feedback[{MARKS}]*+(?:[{COLON}][*_`\"]*+|\Z)", re.IGNORECASE)

# Well-known openings only. A bare "I can't" goes on with a verb of refusing: "I can't find a flaw" is praise.
_CANNOT = r"I(?:['’]m|\s+am)?\s+(?:can['’]t|cannot|can\s+not|won['’]t|will\s+not|unable\s+to|not\s+able\s+to)\b"
_DECLINE = r"I\s+(?:must|have\s+to)\s+(?:respectfully\s+)?decline\b"
_SORRY = r"(?:I['’]m|I\s+am)\s+(?:(?:very|so|really|truly)\s+)?(?:sorry|afraid)|sorry|(?:my\s+)?apologies|I\s+apologi[sz]e"
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
    """The content of one line. Lines differ if their readings do; ``said`` is the text of a reading without a value."""

    value: int | None
    reason: str | None
    said: str = ""


NOTHING = Reading(None, "missing")
_TRUNCATED = Reading(None, "truncated")


class Form(ABC):
    """One kind of answer on a scale.

    Attributes:
        name: its name in JSON, and the label of its line.
        head: matches the label of its line, up to the value.
        unsettled: matches from there to the line's end if a longer line could have another value.
        feedback: what the feedback before it does, for the example of JSON.
    """

    name: ClassVar[str]
    head: ClassVar[re.Pattern[str]]
    unsettled: ClassVar[re.Pattern[str]]
    feedback: ClassVar[str]

    @abstractmethod
    def wanted(self, scale: Scale) -> str:
        """Return the placeholder of the value in the example of JSON."""

    @abstractmethod
    def choices(self, scale: Scale) -> Sequence[int | str]:
        """Return the possible values, as JSON values."""

    @abstractmethod
    def read(self, head: re.Match[str], scale: Scale) -> Reading:
        """Read a line from the end of its label."""

    @abstractmethod
    def read_json(self, value: object, scale: Scale) -> Reading:
        """Read a JSON value."""

    @abstractmethod
    def span(self, head: re.Match[str]) -> tuple[int, int] | None:
        """Return where the value begins and ends in its line; None if the line does not settle that."""

    @abstractmethod
    def decided(self, tokens: Mapping[str, float], scale: Scale) -> tuple[Mapping[int, float], str]:
        """Return the probability of each value, from those of the tokens, and the reason that other tokens count as none."""

    def request(self, answers: str, scale: Scale) -> str:
        """Return what is added to the question for ``answers``; the question itself asks for two lines."""
        if answers != "json":
            return ""
        return (
            '\n\nIn place of the two lines, give one JSON object and nothing else: {"feedback": "Detailed feedback that '
            f'{self.feedback}", "{self.name}": {self.wanted(scale)}}}'
        )

    @cache  # noqa: B019  # forms are made once
    def structure(self, answers: str, scale: Scale) -> Mapping[str, Any]:
        """Return the field of the request's body that holds an answer to JSON; empty for other ``answers``."""
        if answers != "json":
            return {}
        choices = list(self.choices(scale))
        kind = "integer" if isinstance(choices[0], int) else "string"
        schema = {
            "type": "object",
            "properties": {
                "feedback": {"type": "string"},
                self.name: {"type": kind, "enum": choices},
            },
            "required": ["feedback", self.name],
            "additionalProperties": False,
        }
        judgment = {"name": "judgment", "strict": True, "schema": schema}
        return {RESPONSE_FORMAT: {"type": "json_schema", "json_schema": judgment}}

    def parse(
        self,
        text: str | None,
        scale: Scale,
        *,
        answers: str = "text",
        finish_reason: str | None = None,
        refusal: str | None = None,
    ) -> Rating:
        """Read one answer of a judge that was asked for ``answers``; any text gives a ``Rating``, none raises.

        If JSON was requested and the answer is none, it is read as text.

        ``finish_reason`` and ``refusal`` are the endpoint's. An answer that was cut (``length``) counts only if a line break
        or an explanation closed its last line. An empty answer that was cut is ``truncated``: a larger ``--max-tokens``
        helps.
        """
        refused = "filtered" if finish_reason == "content_filter" else "refused" if refusal else ""
        if (
            answers == "json"
            and not refused
            and (found := _object(text or "", self.name)) is not None
        ):
            return self._parse_json(found, scale)
        answer = without_reasoning(text or "")
        lines = answer.splitlines()
        heads = {
            number: head for number, each in enumerate(lines) if (head := self.head.match(each))
        }
        last = max(heads, default=len(lines))
        is_cut = finish_reason == "length"
        if refused:
            reading = Reading(None, refused)
        elif not heads:
            reading = Reading(None, _why_no_line(text, answer, cut=is_cut))
        elif is_cut and last == len(lines) - 1 and self._is_unsettled(heads[last], answer):
            reading = _TRUNCATED
        else:
            reading = _agreed([self.read(head, scale) for head in heads.values()])
            if is_cut and reading == NOTHING:
                reading = _TRUNCATED
        return Rating(reading.value, reading.reason, _feedback(lines, heads, last))

    def holds_json(self, text: str) -> bool:
        """Return whether an answer is a JSON object; if not, the endpoint ignores the request for one."""
        return _object(text, self.name) is not None

    def place(self, text: str) -> int | None:
        """Return the position in an answer of its rating's first digit (or sign), or of its verdict.

        None if there is none, if reasoning hides it, or if words before it might have led to another value.
        """
        lines = without_reasoning(text).splitlines(keepends=True)
        for number in reversed(range(len(lines))):
            line = lines[number].splitlines()[0]
            if head := self.head.match(line):
                if (span := self.span(head)) is None:
                    return None
                # Both texts, with and without reasoning, are the same from here to the end.
                at = len(text) - len("".join(lines[number:])) + span[0]
                return at if text.startswith(line[slice(*span)], at) else None
        return None

    def _parse_json(self, found: Mapping[str, Any], scale: Scale) -> Rating:
        feedback, value = found.get("feedback"), found.get(self.name)
        reading = self.read_json(value, scale)
        if value is None or value is _Twice:
            reading = Reading(None, "missing" if value is None else "ambiguous")
        return Rating(
            reading.value, reading.reason, feedback.strip() if isinstance(feedback, str) else ""
        )

    def _is_unsettled(self, head: re.Match[str], answer: str) -> bool:
        """Return whether the answer was cut before its last line had one possible value."""
        return (
            answer.endswith(head.string)
            and self.unsettled.match(head.string, head.end()) is not None
        )


def head_of(label: str, *, about: str, leads: str, alone: str, behind: str) -> re.Pattern[str]:
    """Return the pattern of a label, up to the value of its line.

    Args:
        label: the first word of the line.
        about: words that begin the subject of the answer, before the colon.
        leads: words that may stand without a colon; any other word makes it another label.
        alone: the content of a bracket that is read without a colon.
        behind: what may stand between the colon and the value.
    """
    return re.compile(
        rf"""{LABEL}{label}(?![^\W_])>?[{MARKS}]*+
        (?:
            # "Rating (0-4):", "Rating (0 = bad (really), 4 = good):": what stands in brackets before a colon is the scale
            (?P<note>
                (?:[(\[（［](?:[^()\[\]（）［］]++|[(（][^()（）]*+[)）])*[)\]）］][{MARKS}]*+)+
                | (?:{about})\b[^{COLON}]*+  # "Rating for style:", "Rating on a scale of 0 to 4:"
            )(?=[{COLON}])
            | (?!(?!is\b|{leads})[^\W\d_])  # "Rating scale:" is another label
        )
        [{MARKS}]*+(?:is\b|[{MINUS}](?=\s)|[—→])?[{MARKS}]*+
        (?:
            [{COLON}][{COLON}{MARKS}{OPEN}]*+
            | [{OPEN}]++(?=\s*+{alone}[{MARKS}])
        )?
        (?:{behind})?
        """,
        re.IGNORECASE | re.VERBOSE,
    )


def without_reasoning(text: str) -> str:
    """Return the text outside ``<think>…</think>``, with a space for each block so that digits do not run together.

    Some servers put the opening tag into the prompt. So a lone ``</think>`` ends reasoning that began with the text. A
    ``<think>`` without an end goes on to the end.
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


def _agreed(readings: list[Reading]) -> Reading:
    last = readings[-1]
    agree = last == NOTHING or all(reading in (last, NOTHING) for reading in readings)
    return last if agree else Reading(None, "ambiguous")


def _feedback(lines: list[str], heads: dict[int, re.Match[str]], last: int) -> str:
    """Return the text between the Feedback label and the line with the value, from the first label after the previous value.

    An echoed prompt stands before that, so it is not taken for feedback.
    """
    labels = {
        number: label for number, line in enumerate(lines) if (label := _FEEDBACK.match(line))
    }
    if not labels:
        return ""
    previous = max((number for number in heads if number != last), default=0)
    first = min((number for number in labels if number >= previous), default=max(labels))
    end = min((number for number in heads if number > first), default=len(lines))
    return "\n".join([lines[first][labels[first].end() :], *lines[first + 1 : end]]).strip()


class _Twice(Exception):
    """A JSON object has two different values for one name."""


def _object(text: str, name: str) -> Mapping[str, Any] | None:
    answer = without_reasoning(text).strip()
    if answer.endswith("```") and (fence := _FENCE.match(answer)):
        answer = answer[fence.end() : -3]
    if answer.count("{") > _MOST_OBJECTS:
        return None
    try:
        found = json.loads(answer, object_pairs_hook=partial(_once, name))
    except (ValueError, RecursionError):
        return None
    except _Twice:
        return {name: _Twice}
    return found if isinstance(found, dict) else None


def _once(key: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({repr(value) for name, value in pairs if name == key}) > 1:
        raise _Twice
    return dict(pairs)
