"""Reads the answers of decision models: a probability for each level of a scale, or for each verdict, and no text.

The rating is the expectation. The endpoint numbers levels by their place, so only their labels count.
"""

from __future__ import annotations

import math
from collections import defaultdict
from contextlib import suppress

import orjson

from robin_cli.ask.expectation import MOST_OFF_SCALE, Expectation, Reading
from robin_cli.ask.forms import Form
from robin_cli.model.exchange import Answer
from robin_cli.model.records import Rating, Scale

_STEP = 2.0**-20
"""Expectations are rounded to multiples of it, so that their sums, and those of their squares, are exact in any order."""


def read_decision(form: Form, answer: Answer, scale: Scale) -> Reading:
    """Return the likeliest value in the answer to one question, the expected one, and the probabilities.

    The text is a JSON object as the endpoint sent it, which is not trusted.
    """
    points = {str(choice): value for choice, value in form.choices(scale).items()}
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
        return Reading(Rating(None, reason))
    normalised = {label: shares[label] / total for label in points}
    likeliest = max(normalised, key=normalised.__getitem__)
    mean = sum(share * points[label] for label, share in normalised.items())
    expected = Expectation(round(mean / _STEP) * _STEP, None, None)
    return Reading(Rating(points[likeliest], None), expected, orjson.dumps(normalised).decode())
