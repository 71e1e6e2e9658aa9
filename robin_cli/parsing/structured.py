"""Answers in a structure that the endpoint enforces: JSON by a schema, or the two lines of the paper by a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from robin_cli.model.records import Rating, Scale
from robin_cli.parsing.ratings import parse_rating, rating_place, without_reasoning

ANSWER_FORMATS = ("text", "json_schema", "grammar")

JSON_REQUEST = (
    "\n\nIn place of the two lines, give one JSON object and nothing else: "
    '{"feedback": "Detailed feedback that assesses the quality of the response", "rating": Score of the response}'
)
"""What is added to the question where the answer is to be JSON: the question itself asks for two lines."""

STRUCTURES = frozenset({"response_format", "grammar", "structured_outputs"})
"""The names that :func:`request_of` uses."""

_MOST_OBJECTS = 1000
"""An answer of more is no judgment, and reading it would take its time."""

_FENCE = re.compile(r"```(?:json)?\s*", re.IGNORECASE)
_TWO_LINES = re.compile(r"\s*Feedback: [^\n]+\nRating: -?\d+\s*")
_RATING = re.compile(r'"rating"\s*:\s*"?(?=[-\d])')


@cache
def request_of(answer_format: str, scale: Scale) -> Mapping[str, Any]:
    """What is sent along so that an answer has ``answer_format``: names and values of the request's body.

    ``grammar`` is sent by both names there are, llama.cpp's server's and vLLM's: each lets the other's be.
    """
    if answer_format == "json_schema":
        schema = {
            "type": "object",
            "properties": {
                "feedback": {"type": "string"},
                "rating": {"type": "integer", "enum": list(range(scale.low, scale.high + 1))},
            },
            "required": ["feedback", "rating"],
            "additionalProperties": False,
        }
        judgment = {"name": "judgment", "strict": True, "schema": schema}
        return {"response_format": {"type": "json_schema", "json_schema": judgment}}
    if answer_format == "grammar":
        return {"grammar": grammar_of(scale), "structured_outputs": {"grammar": grammar_of(scale)}}
    return {}


def grammar_of(scale: Scale) -> str:
    """The two lines of the paper in GBNF: a Feedback line, then a Rating line with one of the scale's ratings."""
    ratings = " | ".join(f'"{level}"' for level in range(scale.low, scale.high + 1))
    return f'root ::= "Feedback: " [^\\n]+ "\\nRating: " rating\nrating ::= {ratings}\n'


def parse_answer(
    text: str, scale: Scale, *, answer_format: str, finish_reason: str | None = None, refusal: str | None = None
) -> Rating:
    """Read one answer of a judge that was asked for ``answer_format``; any text gives a ``Rating``.

    An answer that is no JSON although JSON was asked for is read as text: nothing is guessed by that either.
    """
    found = _object(text) if answer_format == "json_schema" else None
    if found is None or refusal or finish_reason == "content_filter":
        return parse_rating(text, scale, finish_reason=finish_reason, refusal=refusal)
    feedback = found.get("feedback")
    value, reason = _read(found.get("rating"), scale)
    return Rating(value, reason, feedback.strip() if isinstance(feedback, str) else "")


def follows(text: str, answer_format: str) -> bool:
    """Whether an answer has the structure that was asked for; if not, the endpoint takes the request and ignores it."""
    if answer_format == "json_schema":
        return _object(text) is not None
    return answer_format == "text" or _TWO_LINES.fullmatch(without_reasoning(text)) is not None


def place_of_rating(text: str, *, answer_format: str) -> int | None:
    """Where in an answer its rating's first digit (or sign) stands; None where that cannot be told."""
    if answer_format == "json_schema" and _object(text) is not None:
        found = [each.end() for each in _RATING.finditer(text)]
        return found[0] if len(found) == 1 else None
    return rating_place(text)


class _Twice(Exception):
    """An object that says two ratings."""


def _object(text: str) -> Mapping[str, Any] | None:
    answer = without_reasoning(text).strip()
    if answer.endswith("```") and (fence := _FENCE.match(answer)):
        answer = answer[fence.end() : -3]
    if answer.count("{") > _MOST_OBJECTS:
        return None
    try:
        found = json.loads(answer, object_pairs_hook=_once)
    except (ValueError, RecursionError):
        return None
    except _Twice:
        return {"rating": _Twice}
    return found if isinstance(found, dict) else None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({repr(value) for name, value in pairs if name == "rating"}) > 1:
        raise _Twice
    return dict(pairs)


def _read(value: object, scale: Scale) -> tuple[int | None, str | None]:
    if value is _Twice:
        return None, "ambiguous"
    if value is None:
        return None, "missing"
    if isinstance(value, str) and re.fullmatch(r"\s*-?\d{1,9}\s*", value, re.ASCII):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None, "not_an_integer"
    return (int(value), None) if scale.low <= value <= scale.high else (None, "out_of_range")
