"""Ratings and verdicts out of probabilities."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.answers import read_decision
from robin_cli.ask.ratings import RATING
from robin_cli.ask.verdicts import VERDICT
from robin_cli.model.exchange import Answer
from robin_cli.model.records import Scale

SCALE = Scale(-1, 2)


def scored(**change: Any) -> list[dict[str, Any]]:
    """Levels −1 to 2 with an expectation of 0.7, in another order than the scale's; ``change`` is of the one of 2."""
    shares = {"2": 0.3, "-1": 0.1, "1": 0.3, "0": 0.3}
    listed = [
        {"value": 3 - number, "label": label, "probability": share}
        for number, (label, share) in enumerate(shares.items())
    ]
    return [listed[0] | change, *listed[1:]]


def text(listed: object) -> str:
    return json.dumps({"type": "score", "name": None, "probabilities": listed})


@given(st.lists(st.floats(1e-6, 1), min_size=4, max_size=4), st.floats(0.96, 1.04))
def test_the_rating_is_the_mean_by_label_whatever_the_shares_add_up_to(
    weights: list[float], total: float
) -> None:
    shares = [weight / sum(weights) for weight in weights]
    listed = [
        {"value": 9, "label": str(level), "probability": total * share}
        for level, share in zip((2, 0, -1, 1), shares, strict=True)
    ]
    rating, expected, kept = read_decision(RATING, Answer(text(listed)), SCALE)
    mean = 2 * shares[0] - shares[2] + shares[3]
    assert expected.value == pytest.approx(mean, abs=1e-6)
    assert expected.value is not None
    assert expected.value * 2**20 % 1 == 0  # sums are exact in any order
    found = json.loads(kept or "")
    assert list(found) == ["-1", "0", "1", "2"]
    assert math.fsum(found.values()) == pytest.approx(1)
    assert found[str(rating.value)] == max(found.values())


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (text(scored(probability=0.28)), None),
        (text(scored(probability=0.2)), "ambiguous"),
        (text(scored(probability=0.5)), "ambiguous"),
        (text(scored(probability=-0.3)), "out_of_range"),
        (text(scored(probability="inf")), "out_of_range"),
        (text(scored(label="3")), "out_of_range"),
        (text(scored(probability="much")), "missing"),
        (text(scored(probability=None)), "missing"),
        (text(scored()[1:]), "missing"),
        (text(None), "missing"),
        (text([3]), "missing"),
        ('{"type": "predicate", "probability": 0.5}', "missing"),
        ("[]", "missing"),
        ("", "missing"),
    ],
)
def test_refuses_nonsense_and_says_why(content: str, reason: str | None) -> None:
    rating, expected, kept = read_decision(RATING, Answer(content), SCALE)
    assert rating.reason == reason
    assert (rating.value is None, expected.value is None, kept is None) == (bool(reason),) * 3


def test_a_refusal_is_one_whatever_comes_with_it() -> None:
    rating, _, _ = read_decision(RATING, Answer(text(scored()), refusal="declined"), SCALE)
    assert rating.reason == "refused"


@pytest.mark.parametrize(("high", "tie", "mean"), [(2, 0.2, 1.4), (1, 0.0, 0.75)])
def test_a_preference_is_the_mean_of_the_verdicts(high: int, tie: float, mean: float) -> None:
    shares = {"B": 0.2, "A": 0.6} if tie else {"B": 0.25, "A": 0.75}
    shares |= {"tie": tie} if tie else {}
    listed = [{"value": name, "probability": share} for name, share in shares.items()]
    rating, expected, _ = read_decision(VERDICT, Answer(text(listed)), Scale(0, high))
    assert (rating.value, rating.reason) == (high, None)
    assert expected.value == pytest.approx(mean, abs=1e-6)
