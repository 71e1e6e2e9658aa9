"""A judge of the demo's responses by Bradley and Terry's model with ties: for `robin judge --pairwise`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tests.judges.wire import Answer, completion, serving

STRENGTHS = {"amber": 1.0, "birch": 0.7, "cedar": 0.2, "dune": 0.0, "ember": -0.6, "fjord": -1.3}
TIES = 0.35
"""Differences in log odds below it are ties, if the question allows them."""


def verdict_on(question: str, rng: np.random.Generator, order_effect: float = 0.0) -> str:
    """Draw A, B or tie for the two responses that a question shows.

    Args:
        order_effect: with twice this probability the first response is preferred, whatever it is.
    """
    first, second = re.findall(r"Simulated response of (\w+)", question)
    ahead = STRENGTHS[first] - STRENGTHS[second] + rng.logistic()
    if rng.random() < 2 * order_effect:
        return "A"
    if abs(ahead) < TIES and "tie" in question:
        return "tie"
    return "A" if ahead > 0 else "B"


@contextmanager
def comparing(*, order_effect: float = 0.0) -> Iterator[str]:
    """Start the judge; yield its base URL."""
    rng = np.random.default_rng(1)

    def answer(_: int, body: Mapping[str, Any]) -> Answer:
        verdict = verdict_on(json.dumps(body["messages"]), rng, order_effect)
        if "response_format" in body:
            return completion(json.dumps({"feedback": "Simulated.", "verdict": verdict}))
        return completion(f"Feedback: Simulated.\nVerdict: {verdict}")

    with serving(answer) as wire:
        yield wire.url
