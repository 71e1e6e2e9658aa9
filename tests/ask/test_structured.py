"""Answers in JSON: what is read out of them, and what is asked for."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.ratings import RATING
from robin_cli.model.records import Scale

FIVE = Scale(0, 4)


def read(text: str, **told: Any) -> tuple[int | None, str | None, str]:
    found = RATING.parse(text, FIVE, answers="json", **told)
    return found.value, found.reason, found.feedback


def test_reads_the_rating_of_an_object() -> None:
    for text, value, reason in (
        ('{"feedback": "fine", "rating": 3}', 3, None),
        ('```json\n{"feedback": "fine", "rating": 3}\n```', 3, None),
        ('<think>{"rating": 1}</think>\n{"feedback": "fine", "rating": 3}', 3, None),
        ('{"feedback": "fine", "rating": 3.0}', 3, None),
        ('{"feedback": "fine", "rating": "3"}', 3, None),
        ('{"feedback": "fine", "rating": 3.5}', None, "not_an_integer"),
        ('{"feedback": "fine", "rating": true}', None, "missing"),
        ('{"feedback": "fine", "rating": NaN}', None, "missing"),
        ('{"feedback": "fine", "rating": [3]}', None, "missing"),
        ('{"feedback": "fine", "rating": 5}', None, "out_of_range"),
        ('{"feedback": "fine", "rating": Infinity}', None, "missing"),
        ('{"feedback": "fine", "rating": null}', None, "missing"),
        ('{"feedback": "the rating is 3"}', None, "missing"),
        ('{"rating": 3, "rating": 4}', None, "ambiguous"),
        ('{"rating": 3, "rating": 3}', 3, None),
        ('{"rating": 3, "parts": [{"rating": 1}, {"rating": 2}]}', 3, None),
        ('{"rating": 3, "part": {"rating": 1, "rating": 2}}', 3, None),
        ('```JSON\n{"rating": 3}```', 3, None),
        ('{"rating": 0}', 0, None),
        ('{"rating": 4}', 4, None),
        ('{"rating": -1}', None, "out_of_range"),
        ('{"rating": " -1 "}', None, "out_of_range"),
        ('{"rating": "three"}', None, "missing"),
        ('{"rating": "1234567890"}', None, "out_of_range"),
        ("[" * 100_000, None, "missing"),
        ("", None, "empty"),
        (
            "Feedback: fine\nRating: 2",
            2,
            None,
        ),  # the endpoint took the schema, and let the judge write as it likes
        ("I think 3", None, "missing"),
    ):
        assert read(text)[:2] == (value, reason), (text, value, reason)


def test_says_why_an_answer_that_is_no_object_has_no_rating() -> None:
    assert read('{"feedback": "it goes on and', finish_reason="length")[1] == "truncated"
    assert read('{"rating": 3}', finish_reason="content_filter")[1] == "filtered"
    assert read('{"rating": 3}', refusal="I will not")[1] == "refused"
    assert read('{"feedback": " fine ", "rating": 3}')[2] == "fine"


def test_tells_whether_an_answer_is_an_object() -> None:
    for text, is_object in (
        ('{"rating": 3}', True),
        ('<think>{}</think> {"feedback": "a"}', True),
        ("[3]", False),
        ("{" * 1_000_000, False),
        ('{"x": [' + "{}, " * 998 + "{}]}", True),
        ('{"x": [' + "{}, " * 999 + "{}]}", False),  # more than a thousand objects are not read
        ("Rating: 3", False),
    ):
        assert RATING.holds_json(text) is is_object, text


def test_asks_for_the_ratings_of_the_scale_and_nothing_else() -> None:
    schema = RATING.structure((("rating", FIVE),))["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["rating"]["enum"] == [0, 1, 2, 3, 4]


@given(st.text(), st.integers(0, 4))
def test_round_trips_any_feedback_and_finds_the_rating_in_it(feedback: str, rating: int) -> None:
    for text in (
        json.dumps({"feedback": feedback, "rating": rating}),
        f'{{"rating":{rating},"x":{json.dumps(feedback)}}}',
    ):
        assert read(text)[0] == rating


@given(st.text(alphabet="Rating: 3.04\n<think/>*`x-", max_size=60))
def test_finds_the_number_that_the_parser_read(text: str) -> None:
    found = RATING.parse(text, FIVE)
    at = RATING.place(text)
    if found.value is not None and at is not None:
        assert text[at:].lstrip("-0").startswith(str(found.value).lstrip("0"))


def test_finds_the_number_after_reasoning_and_marks() -> None:
    for text in (
        "Rating: 3",
        "<think>Rating: 1</think>Feedback: a\r\n**Rating:** 3/4",
        "Rating (0-4): 3\n\nBye",
    ):
        at = RATING.place(text)
        assert at is not None, text
        assert text[at] == "3", text
        assert RATING.place("no number. Rating: none") is None, text
