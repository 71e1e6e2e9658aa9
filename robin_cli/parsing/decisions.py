"""Reads the answers of decision models: a probability for each level of a scale, or for each verdict, and no text.

The rating is the expectation. The endpoint numbers levels by their place, so only their labels count.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import orjson

from robin_cli.model.records import Scale
from robin_cli.parsing.expectation import MOST_OFF_SCALE
from robin_cli.parsing.forms import Form
from robin_cli.parsing.verdicts import points_of

_STEP = 2.0**-20
"""Expectations are rounded to multiples of it, so that their sums, and those of their squares, are exact in any order."""


class Decided(NamedTuple):
    """The reading of one answer; with a ``reason``, the rest is None.

    Attributes:
        rating: the likeliest value.
        expected: the expected value.
        probabilities: by label, normalized, as JSON.
    """

    reason: str | None
    rating: int | None = None
    expected: float | None = None
    probabilities: str | None = None


def read_decision(form: Form, text: str, scale: Scale, refusal: str | None = None) -> Decided:
    """Read the answer to one question, a JSON object as the endpoint sent it, which is not trusted."""
    if refusal:
        return Decided("refused")
    points = {
        str(choice): choice if isinstance(choice, int) else points_of(choice, scale) or 0
        for choice in form.choices(scale)
    }
    try:
        listed = orjson.loads(text)["probabilities"]
        found = [
            (str(each["label"] if "label" in each else each["value"]), float(each["probability"]))
            for each in listed
        ]
    except (ValueError, TypeError, KeyError):
        return Decided("missing")
    shares, total = dict(found), sum(share for _, share in found)
    if shares.keys() - points or not all(0 <= share < math.inf for share in shares.values()):
        return Decided("out_of_range")
    if len(shares) < len(points):
        return Decided("missing")
    if len(found) > len(shares) or abs(total - 1) > MOST_OFF_SCALE:
        return Decided("ambiguous")
    shares = {label: shares[label] / total for label in points}
    expected = sum(share * points[label] for label, share in shares.items())
    likeliest = max(shares, key=shares.__getitem__)
    kept = orjson.dumps(shares).decode()
    return Decided(None, points[likeliest], round(expected / _STEP) * _STEP, kept)
