"""The expected rating out of log probabilities, on distributions of every kind of tokenizer."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.expectation import MOST_OFF_SCALE, TOP_LOGPROBS, Expectation, expectation_of
from robin_cli.ask.ratings import RATING
from robin_cli.model.records import Scale

FIVE = Scale(0, 4)
TEN = Scale(1, 10)
HUNDRED = Scale(0, 100)


def token(text: str, likely: dict[str, float] | None = None, *, raw: bool = True) -> dict[str, Any]:
    """A token as endpoints send it, with those that could have stood in its place."""

    def one(each: str, probability: float) -> dict[str, Any]:
        return {
            "token": each,
            "logprob": math.log(probability),
            "bytes": list(each.encode()) if raw else None,
        }

    likely = likely or {text: 1.0}
    return {
        **one(text, likely.get(text, 1e-9)),
        "top_logprobs": [one(each, p) for each, p in likely.items()],
    }


def rated(likely: dict[str, float], drawn: str, scale: Scale, *after: str) -> Expectation:
    text = "Feedback: é good.\nRating: " + drawn.lstrip() + "".join(after)
    before = [
        "<think>", "no", "</think>", "Feedback", ": ", "é", " good", ".\n", "Rating",
        ": " if drawn[:1] != " " else ":",
    ]  # fmt: skip
    tokens = [token(each) for each in before] + [token(drawn, likely), *map(token, after)]
    return expectation_of(RATING, tokens, text, text.index("Rating: ") + 8, scale)


def test_is_the_mean_over_the_ratings_that_could_have_been_drawn() -> None:
    found = rated({"3": 0.5, "4": 0.3, "2": 0.2}, "4", FIVE)
    assert found.value == pytest.approx(3 * 0.5 + 4 * 0.3 + 2 * 0.2, abs=2**-13)
    assert found.off_scale == pytest.approx(0, abs=1e-9)
    assert found.why is None


def test_does_not_depend_on_the_rating_that_was_drawn() -> None:
    for drawn in ("2", "3", "4"):
        likely = {"3": 0.5, "4": 0.3, "2": 0.19}
        assert rated(likely, drawn, FIVE) == rated(likely, "3", FIVE), drawn


def test_adds_up_tokens_that_say_the_same() -> None:
    found = rated({" 3": 0.4, "3": 0.2, " 1": 0.3, "1\n": 0.1}, " 3", FIVE)
    assert found.value == pytest.approx(3 * 0.6 + 1 * 0.4, abs=2**-13)


def test_reports_what_is_off_the_scale_and_leaves_much_of_it_to_the_text() -> None:
    little = rated({"3": 0.96, "7": 0.02, "high": 0.01}, "3", FIVE)
    assert little.value == 3
    assert little.off_scale == pytest.approx(0.04)
    much = rated({"3": 0.9, "7": 0.02, "high": 0.06}, "3", FIVE)
    assert (much.value, much.why) == (None, "off_scale")
    assert much.off_scale == pytest.approx(0.1)


def test_counts_what_was_not_listed_as_off_the_scale() -> None:
    found = rated({str(k): 0.009 for k in range(40, 60)} | {"50": 0.3}, "50", HUNDRED)
    assert (found.value, found.why) == (None, "off_scale")
    assert found.off_scale == pytest.approx(1 - 19 * 0.009 - 0.3)


def test_takes_numbers_of_several_digits_that_are_one_token() -> None:
    found = rated({"10": 0.5, "9": 0.3, "1": 0.2}, "10", TEN)
    assert found.value == pytest.approx(10 * 0.5 + 9 * 0.3 + 1 * 0.2, abs=2**-12)
    assert rated({"85": 0.6, "90": 0.4}, "85", HUNDRED).value == pytest.approx(87, abs=2**-12)


def test_refuses_numbers_that_take_several_tokens_whichever_was_drawn() -> None:
    for drawn, after in (("1", ("0",)), ("8", ()), ("1", ())):
        found = rated({"8": 0.6, "1": 0.4}, drawn, TEN, *after)
        assert (found.value, found.why) == (None, "split_numbers"), (drawn, after)
        assert found.off_scale == pytest.approx(0.4), (drawn, after)


def test_takes_a_split_tokenizer_where_no_rating_begins_another() -> None:
    assert rated({"8": 0.97, "1": 0.02, "7": 0.01}, "8", TEN).value == pytest.approx(
        8 - 0.01 / 0.98, abs=2**-12
    )
    assert rated({"0": 0.5, "3": 0.5}, "0", FIVE).value == 1.5
    assert rated({"7": 0.5, "8": 0.5}, "7", HUNDRED, "5").why == "split_numbers"


def test_leaves_to_the_text_what_may_begin_a_longer_rating() -> None:
    for likely, scale, why in (
        # 1 is a rating of its own, and begins 10: with 1 to 10 it is undecided, with 2 to 10 or -1 to 9 as well or not
        ({"1": 1.0}, Scale(1, 9), None),
        ({"1": 1.0}, Scale(1, 10), "split_numbers"),
        ({"1": 1.0}, Scale(0, 19), "split_numbers"),
        ({"3": 1.0}, Scale(0, 29), None),
        ({"3": 1.0}, Scale(0, 30), "split_numbers"),
        ({"3": 1.0}, Scale(3, 39), "split_numbers"),
        ({"2": 1.0}, Scale(2, 19), None),
        ({"2": 1.0}, Scale(2, 20), "split_numbers"),
        ({"9": 1.0}, Scale(40, 99), "split_numbers"),
        ({"1": 1.0}, Scale(100, 101), "split_numbers"),
        ({"1": 1.0}, Scale(150, 160), "split_numbers"),
        ({"2": 1.0}, Scale(150, 160), "off_scale"),
        ({"-1": 1.0}, Scale(-10, 10), "split_numbers"),
        ({"-1": 1.0}, Scale(-9, 19), None),
        ({"-1": 1.0}, Scale(-19, -15), "split_numbers"),
        ({"-2": 1.0}, Scale(-9, 20), None),
        ({"0": 1.0}, HUNDRED, None),
        ({"1": 0.5, "100": 0.5}, HUNDRED, None),
        ({"1": 0.5, "-10": 0.5}, Scale(-10, 10), None),
        ({"1": 0.04, "x": 0.5, "2": 0.46}, Scale(0, 19), "off_scale"),
        ({"1": 0.06, "x": 0.5, "2": 0.44}, Scale(0, 19), "split_numbers"),
    ):
        assert rated(likely, next(iter(likely)), scale).why == why, (likely, scale, why)


def test_adds_up_numbers_written_in_several_ways() -> None:
    found = rated({"3": 0.4, "03": 0.3, "−1": 0.2, "-1": 0.1}, "3", Scale(-4, 4))
    assert found.value == pytest.approx(3 * 0.7 - 0.3, abs=2**-13)


def test_finds_the_place_where_more_than_the_text_was_written() -> None:
    # before it reasoning that says the same, behind it white space and an end mark, which servers leave out
    text = "Rating: 3"
    before = [token("Rating: "), token("3"), token("\n")]
    tokens = [
        *before,
        token("Rating"),
        token(": "),
        token("3", {"3": 0.5, "1": 0.5}),
        token("\n\n"),
        token("<|end|>"),
    ]
    assert expectation_of(RATING, tokens, text, 8, FIVE).value == 2


def test_reads_probabilities_that_are_none_as_not_there() -> None:
    def told(logprob: object) -> float | None:
        return expectation_of(RATING, [{"token": "3", "logprob": logprob}], "3", 0, FIVE).off_scale

    assert told(0) == told(0.0) == told(1e-3) == 0  # rounded up on its way here
    assert (
        told(1.5e-3)
        == told(True)
        == told(False)
        == told("0")
        == told(None)
        == told(float("nan"))
        == 1
    )
    assert told(math.log(0.96)) == pytest.approx(0.04)


def test_counts_too_much_probability_as_all_of_it() -> None:
    many = [{"token": str(k), "logprob": 0.0} for k in range(5)]
    found = expectation_of(
        RATING, [{"token": "2", "logprob": 0.0, "top_logprobs": many}], "2", 0, FIVE
    )
    assert (found.value, found.off_scale) == (2.0, 0.0)


def test_asks_for_as_many_tokens_as_endpoints_give() -> None:
    assert TOP_LOGPROBS == 20  # OpenAI refuses more: "must be at most 20"


def test_reads_the_text_of_a_token_whose_bytes_are_none() -> None:
    for raw in ([300], [256], [-1], [True], ["3"], "3", [], None):
        assert (
            expectation_of(
                RATING, [{"token": "3", "bytes": raw, "logprob": 0.0}], "3", 0, FIVE
            ).value
            == 3
        ), raw


def test_takes_negative_ratings_of_one_token_and_refuses_a_sign_alone() -> None:
    scale = Scale(-2, 2)
    assert rated({"-1": 0.5, "2": 0.5}, "-1", scale).value == 0.5
    assert rated({"-": 0.6, "2": 0.4}, "-", scale, "1").why == "off_scale"


def test_leaves_numbers_with_leading_zeros_to_the_text() -> None:
    assert rated({"0": 0.99, "3": 0.01}, "0", FIVE, "3").why == "unaligned"


def test_says_where_there_are_no_log_probabilities_or_tokens_of_another_text() -> None:
    assert expectation_of(RATING, None, "Rating: 3", 8, FIVE).why == "no_logprobs"
    assert expectation_of(RATING, [], "Rating: 3", 8, FIVE).why == "no_logprobs"
    assert (
        expectation_of(RATING, [token("Rating"), token(": 4")], "Rating: 3", 8, FIVE).why
        == "unaligned"
    )


def test_finds_the_place_by_bytes_where_a_character_takes_several_tokens() -> None:
    text = "Feedback: 😀\nRating: 3"
    emoji = "😀".encode()
    parts = [{"token": "�", "bytes": list(part), "logprob": 0.0} for part in (emoji[:2], emoji[2:])]
    tokens = [token("Feedback: "), *parts, token("\nRating: "), token("3", {"3": 0.5, "1": 0.5})]
    assert expectation_of(RATING, tokens, text, len(text) - 1, FIVE).value == 2


@given(
    st.dictionaries(
        st.sampled_from(["0", "1", "2", "3", "4", " 2", "x", "9"]), st.floats(1e-6, 1), min_size=1
    ),
    st.randoms(use_true_random=False),
)
def test_keeps_the_mean_of_the_text_and_never_leaves_the_scale(
    weights: dict[str, float], rng: random.Random
) -> None:
    total = sum(weights.values())
    likely = {text: weight / total for text, weight in weights.items()}
    drawn = rng.choice(sorted(likely))
    found = rated(likely, drawn, FIVE)
    on_scale = {text: p for text, p in likely.items() if text.strip() in set("01234")}
    mass = sum(on_scale.values())
    assert found.off_scale is not None
    assert found.off_scale == pytest.approx(1 - mass, abs=1e-6)
    assert (found.value is None) == (found.off_scale > MOST_OFF_SCALE)
    if found.value is not None:
        assert found.value == pytest.approx(
            sum(int(text) * p for text, p in on_scale.items()) / mass, abs=2**-12
        )
        assert FIVE.low <= found.value <= FIVE.high
        assert (found.value * 4096).is_integer()


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["token", "logprob", "bytes", "top_logprobs"]), inner, max_size=4
        )
    ),
    max_leaves=6,
)


@given(
    st.lists(
        st.dictionaries(st.sampled_from(["token", "logprob", "bytes", "top_logprobs"]), JUNK),
        max_size=5,
    )
)
def test_never_stumbles_over_what_an_endpoint_sends(tokens: list[dict[str, Any]]) -> None:
    for text in ("", "Rating: 3", "".join(str(each.get("token")) for each in tokens)):
        found = expectation_of(RATING, tokens, text, max(0, len(text) - 1), FIVE)
        assert found.value is None or FIVE.low <= found.value <= FIVE.high
