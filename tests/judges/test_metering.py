"""Tokens and money: what is counted, what is estimated, and the most that a call can cost."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judges.metering import Meter, Price, price_of
from robin_cli.model.errors import InputError
from robin_cli.model.exchange import Answer
from robin_cli.model.judge_spec import JudgeSpec
from robin_cli.model.records import Usage
from robin_cli.session.money import prices_at
from robin_cli.settings.resolve import judges_of
from robin_cli.settings.table import Settings
from tests.conftest import refuses

OPENAI = "https://api.openai.com/v1"
MESSAGES = [{"role": "user", "content": "x" * 400}]
ANSWER = Answer("y" * 40)


def test_reads_the_price_of_a_known_model_at_its_own_address_only() -> None:
    price = price_of("gpt-4.1-nano", OPENAI, price_in=None, price_out=None)
    assert price is not None
    assert price.cost(1_000_000, 0) == pytest.approx(0.1)
    assert price.cost(0, 1_000_000) == pytest.approx(0.4)
    assert price.cost(1_000_000, 0, cached=1_000_000) == pytest.approx(0.025)
    assert (
        price_of("gpt-4.1-nano", "http://localhost:8000/v1", price_in=None, price_out=None) is None
    )
    assert price_of("our-own-model", OPENAI, price_in=None, price_out=None) is None
    given_one = price_of("gpt-4.1-nano", OPENAI, price_in=1.0, price_out=3.0)
    assert given_one is not None
    assert given_one.cost(2_000_000, 1_000_000) == pytest.approx(5.0)


def test_refuses_to_limit_money_without_a_price_and_wants_both_prices_or_neither() -> None:
    own = JudgeSpec("our-own-model", (OPENAI,), "KEY")
    refuses(InputError, "--price-in", partial(prices_at, own, is_limited=True))
    assert prices_at(own) == [None]
    free = replace(own, prices={"price_in": 0.0, "price_out": 0.0})
    assert prices_at(free, is_limited=True) != [None]
    for one, other in (((1.0,), ()), ((), (1.0,))):
        refuses(
            InputError, "both", judges_of, Settings(model=("m",), price_in=one, price_out=other)
        )


def test_counts_what_the_endpoint_says_of_tokens_and_of_the_cost() -> None:
    priced = Meter(Price(rates=(1.0, 2.0)))
    usage = priced.measured(MESSAGES, [ANSWER], Usage(100, 20))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (100, 20, False)
    assert usage.cost_usd == pytest.approx(140e-6)
    assert priced.measured(MESSAGES, [ANSWER], Usage(100, 20, cost_usd=0.5)).cost_usd == 0.5
    usage = Meter(None).measured(MESSAGES, [ANSWER] * 3, Usage(100, 20, counts_one_choice=True))
    assert (usage.completion_tokens, usage.estimated, usage.cost_usd) == (60, True, None)


def test_estimates_what_is_missing_by_what_was_counted_before_and_says_so() -> None:
    meter = Meter(Price(rates=(1.0, 1.0)))
    first = meter.measured(MESSAGES, [ANSWER], Usage())
    assert (first.prompt_tokens, first.completion_tokens, first.estimated) == (100, 10, True)
    meter.measured(MESSAGES, [ANSWER], Usage(200, 20))  # two characters a token, it turns out
    usage = meter.measured(MESSAGES, [ANSWER], Usage())
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (200, 20, True)


@given(st.text(max_size=200), st.integers(1, 100), st.integers(1, 8))
def test_never_reckons_a_call_below_what_it_can_cost(
    text: str, max_tokens: int, samples: int
) -> None:
    meter = Meter(Price(rates=(1.0, 2.0)))
    at_most = meter.most([{"role": "user", "content": text}], max_tokens, samples)
    assert at_most >= (len(text.encode()) + 2.0 * max_tokens * samples) / 1e6


GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
AZURE = "https://ours.openai.azure.com/openai/v1"
GROQ = "https://api.groq.com/openai/v1"
NO_PRICE: dict[str, Any] = {"price_in": None, "price_out": None}


def test_prices_batches_as_the_list_does_or_at_half() -> None:
    for model, url in (
        ("gpt-5-mini", OPENAI),
        ("gemini-2.5-flash", GEMINI),
        ("gpt-5-mini", AZURE),
        ("llama-3.3-70b-versatile", GROQ),
    ):
        alone, batch = (price_of(model, url, **NO_PRICE, batch=each) for each in (False, True))
        assert alone is not None, (model, url)
        if url == GROQ:
            assert batch is None
            continue
        assert batch is not None, (model, url)
        assert batch.cost(10**6, 10**6) == pytest.approx(alone.cost(10**6, 10**6) / 2), (model, url)


def test_knows_no_price_of_a_model_that_its_provider_does_not_sell_by_batch() -> None:
    judge = JudgeSpec("llama-3.3-70b-versatile", (GROQ,), "KEY")
    assert prices_at(judge, batch=True) == [None]
    with pytest.raises(InputError, match=r"at its batch service.*--price-in"):
        prices_at(judge, batch=True, is_limited=True)


def test_takes_given_prices_as_those_of_the_calls() -> None:
    price = price_of("our-own-model", OPENAI, price_in=1.0, price_out=3.0, batch=True)
    assert price is not None
    assert price.cost(10**6, 10**6) == pytest.approx(4.0)


def test_prices_cached_tokens_apart_where_their_price_is_given() -> None:
    apart = price_of("m", OPENAI, price_in=1.0, price_out=3.0, price_cached=0.1)
    alike = price_of("m", OPENAI, price_in=1.0, price_out=3.0)
    assert apart is not None
    assert alike is not None
    assert apart.cost(1_000_000, 0, cached=500_000) == pytest.approx(0.55)
    assert apart.cost(1_000_000, 0, cached=3_000_000) == pytest.approx(0.1), (
        "no more are cached than were sent"
    )
    assert alike.cost(1_000_000, 0, cached=500_000) == pytest.approx(1.0)
