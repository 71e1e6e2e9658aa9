"""What judges answer with, a rating or a verdict: in two lines, in JSON by a schema, or in these lines by a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from robin_cli.model.records import Rating, Scale
from robin_cli.parsing.answer_lines import without_reasoning
from robin_cli.parsing.expectation import Expectation, expected_rating, expected_verdict
from robin_cli.parsing.ratings import parse_rating, rating_place
from robin_cli.parsing.verdicts import parse_verdict, read_verdict, said_of, verdict_place

ANSWER_FORMATS = ("text", "json_schema", "grammar")

STRUCTURES = frozenset({"response_format", "grammar", "structured_outputs"})
"""The names that :func:`request_of` uses."""

_MOST_OBJECTS = 1000
"""An answer of more is no judgment, and reading it would take its time."""

_FENCE = re.compile(r"```(?:json)?\s*", re.IGNORECASE)

_JSON_REQUEST = "\n\nIn place of the two lines, give one JSON object and nothing else: "
"""What is added to the question where the answer is to be JSON: the question itself asks for two lines."""


class Form(NamedTuple):
    """One kind of thing that judges answer with, on a scale.

    Attributes:
        name: its name in JSON, and in grammars.
        request: what is added to the question where the answer is to be JSON.
        choices: what an answer may say, as JSON values.
        parse: reads lines, see :func:`parse_answer`.
        read: a value in JSON, as a number of the scale, or why it is none.
        place: where in an answer of lines it begins.
        in_json: matches up to where it begins in an answer in JSON.
        lines: matches the whole of an answer that was held to the grammar.
        expected: from log probabilities at its place, see :func:`expected_rating`.
    """

    name: str
    request: Callable[[Scale], str]
    choices: Callable[[Scale], Sequence[int | str]]
    parse: Callable[..., Rating]
    read: Callable[[object, Scale], tuple[int | None, str | None]]
    place: Callable[[str], int | None]
    in_json: re.Pattern[str]
    lines: re.Pattern[str]
    expected: Callable[[Sequence[Mapping[str, Any]] | None, str, int, Scale], Expectation]


@cache
def request_of(answer_format: str, scale: Scale, form: Form | None = None) -> Mapping[str, Any]:
    """What is sent along so that an answer has ``answer_format``: names and values of the request's body.

    ``grammar`` is sent by both names there are, llama.cpp's server's and vLLM's: each lets the other's be.
    """
    form = form or RATING
    if answer_format == "json_schema":
        choices = list(form.choices(scale))
        kind = "integer" if isinstance(choices[0], int) else "string"
        schema = {
            "type": "object",
            "properties": {"feedback": {"type": "string"}, form.name: {"type": kind, "enum": choices}},
            "required": ["feedback", form.name],
            "additionalProperties": False,
        }
        judgment = {"name": "judgment", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": judgment}}
    if answer_format == "grammar":
        grammar = grammar_of(scale, form)
        return {"grammar": grammar, "structured_outputs": {"grammar": grammar}}
    return {}


def grammar_of(scale: Scale, form: Form | None = None) -> str:
    """The two lines in GBNF: a Feedback line, then a line with one of the ratings of the scale, or of the verdicts."""
    form = form or RATING
    choices = " | ".join(f'"{each}"' for each in form.choices(scale))
    return f'root ::= "Feedback: " [^\\n]+ "\\n{form.name.capitalize()}: " {form.name}\n{form.name} ::= {choices}\n'


def parse_answer(
    text: str,
    scale: Scale,
    *,
    answer_format: str,
    finish_reason: str | None = None,
    refusal: str | None = None,
    form: Form | None = None,
) -> Rating:
    """Read one answer of a judge that was asked for ``answer_format``; any text gives a ``Rating``.

    An answer that is no JSON although JSON was asked for is read as text: nothing is guessed by that either.
    """
    form = form or RATING
    found = _object(text, form.name) if answer_format == "json_schema" else None
    if found is None or refusal or finish_reason == "content_filter":
        return form.parse(text, scale, finish_reason=finish_reason, refusal=refusal)
    feedback, said = found.get("feedback"), found.get(form.name)
    value, reason = (
        (None, "ambiguous") if said is _Twice else (None, "missing") if said is None else form.read(said, scale)
    )
    return Rating(value, reason, feedback.strip() if isinstance(feedback, str) else "")


def follows(text: str, answer_format: str, form: Form | None = None) -> bool:
    """Whether an answer has the structure that was asked for; if not, the endpoint takes the request and ignores it."""
    form = form or RATING
    if answer_format == "json_schema":
        return _object(text, form.name) is not None
    return answer_format == "text" or form.lines.fullmatch(without_reasoning(text)) is not None


def place_of_rating(text: str, *, answer_format: str, form: Form | None = None) -> int | None:
    """Where in an answer its rating's first digit (or sign) stands, or its verdict; None where that cannot be told."""
    form = form or RATING
    if answer_format == "json_schema" and _object(text, form.name) is not None:
        found = [each.end() for each in form.in_json.finditer(text)]
        return found[0] if len(found) == 1 else None
    return form.place(text)


class _Twice(Exception):
    """An object that says two things."""


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


def _read_rating(value: object, scale: Scale) -> tuple[int | None, str | None]:
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}\s*", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None, "not_an_integer"
    return (int(value), None) if scale.low <= value <= scale.high else (None, "out_of_range")


def _read_verdict(value: object, scale: Scale) -> tuple[int | None, str | None]:
    return read_verdict(value, scale) if isinstance(value, str) else (None, "out_of_range")


def _verdict_request(scale: Scale) -> str:
    *some, last = (f'"{each}"' for each in said_of(scale))
    said = f"{', '.join(some)} or {last}"
    return f'{_JSON_REQUEST}{{"feedback": "Detailed feedback that compares the two responses", "verdict": {said}}}'


RATING = Form(
    "rating",
    lambda _: (
        f'{_JSON_REQUEST}{{"feedback": "Detailed feedback that assesses the quality of the response", "rating": Score of the '
        "response}"
    ),
    lambda scale: range(scale.low, scale.high + 1),
    parse_rating,
    _read_rating,
    rating_place,
    re.compile(r'"rating"\s*:\s*"?(?=[-\d])'),
    re.compile(r"\s*Feedback: [^\n]+\nRating: -?\d+\s*"),
    expected_rating,
)

VERDICT = Form(
    "verdict",
    _verdict_request,
    said_of,
    parse_verdict,
    _read_verdict,
    verdict_place,
    re.compile(r'"verdict"\s*:\s*"(?=(?:[AB]|tie)")', re.IGNORECASE),
    re.compile(r"\s*Feedback: [^\n]+\nVerdict: (?:A|B|tie)\s*"),
    expected_verdict,
)
