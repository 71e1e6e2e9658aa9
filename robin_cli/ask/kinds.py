"""The kinds of question: how good one response is, or which of two is better; and how answers in two lines or JSON are read.

In an answer in lines, the last line with the label counts. Reasoning is not part of the answer. Every pattern starts at a fixed
place in its line and repeats possessively (``*+``), so that any text takes linear time. Only single classes are possessive:
before Python 3.11.5, possessive groups could match wrongly.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, ClassVar, NamedTuple

from robin_cli.ask.marks import COLON, INVISIBLE, MARKS, MINUS, OPEN, to_plain_letters
from robin_cli.ask.reasoning import has_unknown_marker, without_reasoning
from robin_cli.ask.rubrics import Rubric
from robin_cli.model.records import Pair, Rating, Scale

ANSWERS = ("text", "json", "logprobs")
"""How a judge that writes is asked to answer: in two lines, in JSON, or in two lines with log probabilities."""

RESPONSE_FORMAT = "response_format"
"""The field of a request's body that holds the schema of an answer in JSON."""

_MOST_PARTS = 1000
"""An answer with more objects, or more lines with a label that differ, is no judgment, and takes long to read."""

_COMPLETE = frozenset({"stop", "end_turn", "eos"})
_FILTERS = frozenset(
    {"content_filter", "safety", "recitation", "prohibited_content", "blocklist", "spii"}
)

_FENCE = re.compile(r"```(?:json)?\s*", re.IGNORECASE)

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


class LineReading(NamedTuple):
    """The content of one line. Lines differ if their readings do; ``text`` is that of a reading without a value."""

    value: int | None
    reason: str | None
    text: str = ""


NOTHING = LineReading(None, "missing")


class Kind(ABC):
    """A kind of question, with the form of its answers on a scale.

    Attributes:
        name: ``rate`` or ``prefer``.
        noun: the name of an answer's value in JSON, and the label of its line.
        head: matches the label of its line, up to the value.
        alone: matches a line that holds a value and nothing else.
        feedback: what the feedback before it does, for the example of JSON.
        variants: names of the ways in which the same is asked; "" if there is one only.
        turned: for each variant, whether an answer rates the other of two responses, so that its value is turned round.
        score_scale: the scale of reported scores; None for that of the answers.
        template: the shipped template; ``input``: the one of what decision models read.
        responses: a template's names for the responses, each with the field of :class:`Pair` that holds it.
        values: all names that a template may use.
    """

    name: ClassVar[str]
    noun: ClassVar[str]
    head: ClassVar[re.Pattern[str]]
    alone: ClassVar[re.Pattern[str]]
    feedback: ClassVar[str]
    variants: ClassVar[tuple[str, ...]] = ("",)
    turned: ClassVar[tuple[bool, ...]] = (False,)
    score_scale: ClassVar[Scale | None] = None
    template: ClassVar[str]
    input: ClassVar[str]
    responses: ClassVar[Mapping[str, str]]
    values: ClassVar[tuple[str, ...]]

    @abstractmethod
    def fill(
        self, pair: Pair, rubric: Rubric, variant: int, criterion: Rubric | None
    ) -> Mapping[str, Any]:
        """Return the values of a template; ``criterion``: of the better response, if there is one."""

    @abstractmethod
    def decision(self, rubric: Rubric, criterion: Rubric | None) -> Mapping[str, Any]:
        """Return the question for decision models."""

    def in_words(self, points: float, scale: Scale) -> str:  # noqa: ARG002
        return f"{points:g}"

    @abstractmethod
    def wanted(self, scale: Scale) -> str:
        """Return the placeholder of the value in the example of JSON."""

    @abstractmethod
    def choices(self, scale: Scale) -> Mapping[int, int] | Mapping[str, int]:
        """Return the points of each value that an answer in JSON may have."""

    @abstractmethod
    def read(self, head: re.Match[str], scale: Scale) -> LineReading:
        """Read a line from the end of its label."""

    @abstractmethod
    def start(self, head: re.Match[str]) -> int | None:
        """Return where the value begins in its line; None if words before it might have led to another value."""

    @abstractmethod
    def decided(self, tokens: Mapping[str, float], scale: Scale) -> tuple[Mapping[int, float], str]:
        """Return the probability of each value, from those of the tokens, and the reason that other tokens count as none."""

    def request_json(self, scale: Scale) -> str:
        """Return the text that asks for JSON in place of two lines; it follows the question."""
        return (
            '\n\nIn place of the two lines, give one JSON object and nothing else: {"feedback": "Detailed feedback that '
            f'{self.feedback}", "{self.noun}": {self.wanted(scale)}}}'
        )

    @cache  # noqa: B019  # kinds are made once
    def structure(self, values: tuple[tuple[str, Scale], ...]) -> Mapping[str, Any]:
        """Return the field of the request's body that holds an answer to JSON: an object with these values by name."""
        properties: dict[str, Any] = {"feedback": {"type": "string"}}
        for name, scale in values:
            choices = list(self.choices(scale))
            kind = "integer" if isinstance(choices[0], int) else "string"
            properties[name] = {"type": kind, "enum": choices}
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
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
        key: str = "",
    ) -> Rating:
        """Read one answer of a judge that was asked for ``answers``; any text gives a ``Rating``, none raises.

        If JSON was requested and the answer is none, it is read as text. ``finish_reason`` and ``refusal`` are the
        endpoint's. In an answer that was cut, a line counts only if a line break closes it. An empty answer that was cut is
        ``truncated``: a larger ``--max-tokens`` helps. ``key``: the value's name in an object with several; then no line
        counts.
        """
        text, ending = text or "", ending_of(finish_reason)
        answer, name = without_reasoning(text), key.lower() or self.noun
        is_refused = bool(refusal) or ending == "filtered"
        fields = None if is_refused else _json_object((text, answer), name)
        if fields is not None and (answers == "json" or name in fields):
            return self._read_object(fields, name, scale)
        lines = to_plain_letters(answer).splitlines(keepends=True)
        heads = {} if key else self._heads(lines)
        last = heads[max(heads)] if heads else None
        reading = self.read(last, scale) if last else NOTHING
        is_whole = last is not None and len(f"{last.string}.".splitlines()) > 1
        why = None
        if is_refused:
            why = "filtered" if ending == "filtered" else "refused"
        elif ending == "cut" and not (is_whole and reading != NOTHING):
            why = "truncated"
        elif not last:
            why = "refused" if _REFUSAL.match(answer) else "missing" if text.strip() else "empty"
        elif has_unknown_marker(answer) or not self._agree(heads, reading, scale):
            why = "ambiguous"
        feedback = _feedback(answer, lines, list(heads))
        value, reason = (reading.value, reading.reason) if why is None else (None, why)
        return Rating(value, reason, feedback)

    def holds_json(self, text: str) -> bool:
        """Return whether an answer is a JSON object; if not, the endpoint ignores the request for one."""
        return _json_object((text, without_reasoning(text)), self.noun) is not None

    def place(self, text: str) -> int | None:
        """Return the position in an answer of its rating's first digit (or sign), or of its verdict.

        None if there is none, if it is in JSON, or if words before it might have led to another value.
        """
        lines = to_plain_letters(without_reasoning(text)).splitlines(keepends=True)
        heads = self._heads(lines)
        if not heads or self.holds_json(text):
            return None
        last = max(heads)
        start = self.start(heads[last])
        return None if start is None else len("".join(lines[:last])) + start

    def _heads(self, lines: Sequence[str]) -> dict[int, re.Match[str]]:
        """Return the labels at the beginning of lines, by the line's number.

        A value that stands alone on the next line joins the label's line. So do several such values, which are ambiguous.
        """
        heads: dict[int, re.Match[str]] = {}
        for number, line in enumerate(lines):
            head = self.head.match(line)
            if head is None:
                continue
            end = number + 1
            while head.end() == len(line) and end < len(lines):
                if not lines[end].isspace() and not self.alone.fullmatch(lines[end]):
                    break
                end += 1
            if end > number + 1:
                start = re.sub(r"\s", " ", "".join(lines[number : end - 1]))
                head = self.head.match(start + lines[end - 1]) or head
            heads[number] = head
        return heads

    def _agree(self, heads: Mapping[int, re.Match[str]], last: LineReading, scale: Scale) -> bool:
        """Return whether no line says another value than the last one; a last line without a value speaks for itself."""
        earlier = {head.string: head for head in heads.values()}
        del earlier[heads[max(heads)].string]
        if last == NOTHING or len(earlier) >= _MOST_PARTS:
            return last == NOTHING
        return all(self.read(head, scale) in (last, NOTHING) for head in earlier.values())

    def _read_object(self, fields: Mapping[str, Any], name: str, scale: Scale) -> Rating:
        value, feedback = fields.get(name), fields.get("feedback")
        is_scalar = isinstance(value, str | int | float) and not isinstance(value, bool)
        line = f"{self.noun}: {' '.join(str(value).split())}" if is_scalar else ""
        head = self.head.match(to_plain_letters(line))
        reading = self.read(head, scale) if head else NOTHING
        feedback = feedback.strip() if isinstance(feedback, str) else ""
        return Rating(reading.value, reading.reason, feedback)


def ending_of(finish_reason: str | None) -> str:
    """Return how an answer ended, as the endpoint says: ``complete``, ``cut`` or ``filtered``."""
    reason = (finish_reason or "stop").lower()
    return "complete" if reason in _COMPLETE else "filtered" if reason in _FILTERS else "cut"


def head_of(label: str, *, about: str, leads: str, bracketed: str, behind: str) -> re.Pattern[str]:
    """Return the pattern of a label, up to the value of its line.

    Args:
        label: the first word of the line.
        about: words that begin the subject of the answer, before the colon.
        leads: words that may stand without a colon; any other word makes it another label.
        bracketed: the content of a bracket that is read without a colon.
        behind: what may stand between the colon and the value.
    """
    word = f"[{INVISIBLE}]*+".join(label)
    return re.compile(
        rf"""{LABEL}{word}(?![^\W_])>?[{MARKS}]*+
        (?:
            # "Rating (0-4):", "Rating (0 = bad (really), 4 = good):": what stands in brackets before a colon is the scale
            (?P<note>
                (?:[(\[](?:[^()\[\]]++|[(][^()]*+[)])*[)\]][{MARKS}]*+)+
                | (?:{about})\b[^{COLON}]*+  # "Rating for style:", "Rating on a scale of 0 to 4:"
            )(?=[{COLON}])
            | (?!(?!is\b|{leads})[^\W\d_])  # "Rating scale:" is another label
        )
        [{MARKS}]*+(?:is\b|[{MINUS}](?=\s)|[—→])?[{MARKS}]*+
        (?:
            [{COLON}][{COLON}{MARKS}{OPEN}]*+
            | [{OPEN}]++(?=\s*+{bracketed}[{MARKS}])
        )?
        (?:(?<=\\)(?:boxed|fbox|math\w*+|text\w*+)[{MARKS}{OPEN}]++)*  # \boxed{{\text{{4}}}}
        (?:{behind})?
        """,
        re.IGNORECASE | re.VERBOSE,
    )


def _feedback(answer: str, plain: Sequence[str], heads: Sequence[int]) -> str:
    """Return the text between the Feedback label and the line with the value, from the first label after the previous value.

    An echoed prompt stands before that, so it is not taken for feedback.

    Args:
        plain: the answer's lines in plain letters.
        heads: the numbers of lines with a value.
    """
    labels = {n: label for n, line in enumerate(plain) if (label := _FEEDBACK.match(line))}
    if not labels:
        return ""
    lines = answer.splitlines()
    previous = heads[-2] if len(heads) > 1 else 0
    first = min((number for number in labels if number >= previous), default=max(labels))
    end = min((number for number in heads if number > first), default=len(lines))
    return "\n".join([lines[first][labels[first].end() :], *lines[first + 1 : end]]).strip()


def _json_object(answers: Sequence[str], name: str) -> Mapping[str, Any] | None:
    """Return the first of ``answers`` that is a JSON object, its names in lower case; None if none is."""
    for answer in map(str.strip, answers):
        fence = _FENCE.match(answer) if answer.endswith("```") else None
        content = answer[fence.end() : -3].strip() if fence else answer
        if content.startswith("{") and content.count("{") <= _MOST_PARTS:
            with suppress(ValueError, RecursionError):
                return dict(json.loads(content, object_pairs_hook=partial(_join_repeats, name)))
    return None


def _join_repeats(key: str, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object; several values of ``key`` are joined, and are ambiguous."""
    fields = {name.lower(): value for name, value in pairs}
    values = {str(value): None for name, value in pairs if name.lower() == key}
    return fields | {key: " ".join(values)} if len(values) > 1 else fields
