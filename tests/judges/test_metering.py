"""Tokens and money: what is counted, what is estimated, and the most that a call can cost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judges.metering import Meter, Price, price_of, prices_of
from robin_cli.model.errors import InputError
from robin_cli.model.exchange import Answer
from robin_cli.model.records import Usage

OPENAI = "https://api.openai.com/v1"
MESSAGES = [{"role": "user", "content": "x" * 400}]
ANSWER = Answer("y" * 40)


def test_reads_the_price_of_a_known_model_at_its_own_address_only() -> None:
    price = price_of("gpt-4.1-nano", OPENAI, price_in=None, price_out=None)
    assert price is not None
    assert price.cost(1_000_000, 0) == pytest.approx(0.1)
    assert price.cost(0, 1_000_000) == pytest.approx(0.4)
    assert price.cost(1_000_000, 0, cached=1_000_000) == pytest.approx(0.025)
    assert price_of("gpt-4.1-nano", "http://localhost:8000/v1", price_in=None, price_out=None) is None
    assert price_of("our-own-model", OPENAI, price_in=None, price_out=None) is None


def test_takes_the_users_word_for_a_price() -> None:
    price = price_of("gpt-4.1-nano", OPENAI, price_in=1.0, price_out=3.0)
    assert price is not None
    assert price.cost(2_000_000, 1_000_000) == pytest.approx(5.0)


def test_refuses_to_limit_money_without_a_price() -> None:
    with pytest.raises(InputError, match="--price-in"):
        prices_of("our-own-model", [OPENAI], price_in=None, price_out=None, max_cost=1.0)
    assert prices_of("our-own-model", [OPENAI], price_in=None, price_out=None, max_cost=None) == [None]
    assert prices_of("our-own-model", [OPENAI], price_in=0.0, price_out=0.0, max_cost=1.0) != [None]


@pytest.mark.parametrize("given_price", [{"price_in": 1.0, "price_out": None}, {"price_in": None, "price_out": 1.0}])
def test_wants_both_prices_or_neither(given_price: dict[str, float | None]) -> None:
    with pytest.raises(InputError, match="both"):
        prices_of("m", [OPENAI], max_cost=None, price_in=given_price["price_in"], price_out=given_price["price_out"])


def test_counts_what_the_endpoint_says() -> None:
    usage = Meter(Price(given=(1.0, 2.0))).measured(MESSAGES, [ANSWER], Usage(100, 20))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (100, 20, False)
    assert usage.cost_usd == pytest.approx(140e-6)


def test_takes_the_endpoints_own_word_for_the_cost() -> None:
    assert Meter(Price(given=(1.0, 2.0))).measured(MESSAGES, [ANSWER], Usage(100, 20, cost_usd=0.5)).cost_usd == 0.5


def test_estimates_what_is_missing_by_what_was_counted_before_and_says_so() -> None:
    meter = Meter(Price(given=(1.0, 1.0)))
    first = meter.measured(MESSAGES, [ANSWER], Usage())
    assert (first.prompt_tokens, first.completion_tokens, first.estimated) == (100, 10, True)
    meter.measured(MESSAGES, [ANSWER], Usage(200, 20))  # two characters a token, it turns out
    usage = meter.measured(MESSAGES, [ANSWER], Usage())
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (200, 20, True)


def test_counts_every_choice_of_a_server_that_counts_one() -> None:
    usage = Meter(None).measured(MESSAGES, [ANSWER] * 3, Usage(100, 20, counts_one_choice=True))
    assert (usage.completion_tokens, usage.estimated, usage.cost_usd) == (60, True, None)


@given(st.text(max_size=200), st.integers(1, 100), st.integers(1, 8))
def test_never_reckons_a_call_below_what_it_can_cost(text: str, max_tokens: int, samples: int) -> None:
    meter = Meter(Price(given=(1.0, 2.0)))
    at_most = meter.most([{"role": "user", "content": text}], max_tokens, samples)
    assert at_most >= (len(text.encode()) + 2.0 * max_tokens * samples) / 1e6
