"""Reads one answer of a judge, in the way that it was asked to answer: ``READERS``."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

import orjson

from robin_cli.ask.expectation import MOST_OFF_SCALE, NO_EXPECTATION, Expectation, expectation_of
from robin_cli.ask.kinds import Kind
from robin_cli.model.exchange import Answer
from robin_cli.model.records import Rating, Scale

_STEP = 2.0**-20
"""Expectations of decisions are rounded to multiples of it, so that their sums, and those of their squares, are exact."""


class Parsed(NamedTuple):
    """What one answer says: its rating, the expected one if it counts instead, and all probabilities by label, as JSON."""

    rating: Rating
    expected: Expectation = NO_EXPECTATION
    probabilities: str | None = None


def read_text(
    kind: Kind, answer: Answer, scale: Scale, key: str = "", answers: str = "text"
) -> Parsed:
    """Return the rating in the text of an answer."""
    ending, refusal = answer.finish_reason, answer.refusal
    return Parsed(
        kind.parse(
            answer.text, scale, answers=answers, finish_reason=ending, refusal=refusal, key=key
        )
    )


def read_tokens(kind: Kind, answer: Answer, scale: Scale, key: str = "") -> Parsed:
    """Return the rating in the text of an answer, and the expected one by the log probabilities of its tokens."""
    reading = read_text(kind, answer, scale, key)
    if reading.rating.value is None:
        return reading
    at = kind.place(answer.text)
    return reading._replace(expected=expectation_of(kind, answer.tokens, answer.text, at, scale))


def read_decision(kind: Kind, answer: Answer, scale: Scale, key: str = "") -> Parsed:  # noqa: ARG001
    """Return the likeliest value in the answer of a decision model to one question, the expected one, and the probabilities.

    The text is a JSON object as the endpoint sent it, which is not trusted. The endpoint numbers levels by their place, so only
    their labels count.
    """
    points = {str(choice): value for choice, value in kind.choices(scale).items()}
    shares: defaultdict[str, float] = defaultdict(float)
    with suppress(ValueError, TypeError, KeyError):
        for entry in orjson.loads(answer.text)["probabilities"]:
            label = str(entry["label"] if "label" in entry else entry["value"])
            share = float(entry["probability"])
            shares[label] += share
    total = sum(shares.values())
    reason = None
    if answer.refusal:
        reason = "refused"
    elif shares.keys() - points or not all(0 <= share < math.inf for share in shares.values()):
        reason = "out_of_range"
    elif len(shares) < len(points):
        reason = "missing"
    elif abs(total - 1) > MOST_OFF_SCALE:
        reason = "ambiguous"
    if reason is not None:
        return Parsed(Rating(None, reason))
    normalised = {label: shares[label] / total for label in points}
    likeliest = max(normalised, key=normalised.__getitem__)
    mean = sum(share * points[label] for label, share in normalised.items())
    expected = Expectation(round(mean / _STEP) * _STEP, None, None)
    return Parsed(Rating(points[likeliest], None), expected, orjson.dumps(normalised).decode())


READERS: Mapping[str, Callable[[Kind, Answer, Scale, str], Parsed]] = {
    "text": read_text,
    "json": partial(read_text, answers="json"),
    "logprobs": read_tokens,
    "decisions": read_decision,
}
"""How an answer is read, by what --answers has. The kind reads ratings, or verdicts.

The last argument is the value's name in an object with several; "" if there is one.
"""
