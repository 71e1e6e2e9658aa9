"""Tokens and money: what is counted, what is estimated, and the most that a call can cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.judges.metering import Meter, Price, price_of
from robin_cli.model.errors import InputError
from robin_cli.model.exchange import Answer
from robin_cli.model.records import Usage
from robin_cli.runner.money import prices_at
from robin_cli.settings.addresses import JudgeAddress
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
    own, limited = JudgeAddress("our-own-model", (OPENAI,), "KEY"), Settings(max_cost=1.0)
    refuses(InputError, "--price-in", prices_at, own, limited)
    assert prices_at(own, Settings()) == [None]
    assert prices_at(replace(own, price_in=0.0, price_out=0.0), limited) != [None]
    for one, other in ((1.0, None), (None, 1.0)):
        refuses(
            InputError, "both", prices_at, replace(own, price_in=one, price_out=other), Settings()
        )


def test_counts_what_the_endpoint_says_of_tokens_and_of_the_cost() -> None:
    priced = Meter(Price(given=(1.0, 2.0)))
    usage = priced.measured(MESSAGES, [ANSWER], Usage(100, 20))
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (100, 20, False)
    assert usage.cost_usd == pytest.approx(140e-6)
    assert priced.measured(MESSAGES, [ANSWER], Usage(100, 20, cost_usd=0.5)).cost_usd == 0.5
    usage = Meter(None).measured(MESSAGES, [ANSWER] * 3, Usage(100, 20, counts_one_choice=True))
    assert (usage.completion_tokens, usage.estimated, usage.cost_usd) == (60, True, None)


def test_estimates_what_is_missing_by_what_was_counted_before_and_says_so() -> None:
    meter = Meter(Price(given=(1.0, 1.0)))
    first = meter.measured(MESSAGES, [ANSWER], Usage())
    assert (first.prompt_tokens, first.completion_tokens, first.estimated) == (100, 10, True)
    meter.measured(MESSAGES, [ANSWER], Usage(200, 20))  # two characters a token, it turns out
    usage = meter.measured(MESSAGES, [ANSWER], Usage())
    assert (usage.prompt_tokens, usage.completion_tokens, usage.estimated) == (200, 20, True)


@given(st.text(max_size=200), st.integers(1, 100), st.integers(1, 8))
def test_never_reckons_a_call_below_what_it_can_cost(
    text: str, max_tokens: int, samples: int
) -> None:
    meter = Meter(Price(given=(1.0, 2.0)))
    at_most = meter.most([{"role": "user", "content": text}], max_tokens, samples)
    assert at_most >= (len(text.encode()) + 2.0 * max_tokens * samples) / 1e6


GEMINI = "https://generativelanguage.googleapis.com/v1beta/openai"
AZURE = "https://ours.openai.azure.com/openai/v1"
GROQ = "https://api.groq.com/openai/v1"
NO_PRICE: dict[str, Any] = {"price_in": None, "price_out": None}


def test_prices_tokens_by_the_service_tier() -> None:
    for model, url, tier, share in (
        ("gpt-5-mini", OPENAI, "flex", 0.5),
        ("gpt-5-mini", OPENAI, "batch", 0.5),
        ("gpt-5-mini", OPENAI, "default", 1.0),
        ("gemini-2.5-flash", GEMINI, "batch", 0.5),
        ("gpt-5-mini", AZURE, "flex", 0.5),
        ("gpt-4.1-mini", AZURE, "batch", 0.5),
        ("llama-3.3-70b-versatile", GROQ, "flex", 1.0),
        ("llama-3.3-70b-versatile", GROQ, "on_demand", 1.0),
    ):
        price = price_of(model, url, **NO_PRICE)
        assert price is not None, (model, url, tier)
        whole = price.cost(1_000_000, 1_000_000)
        assert price.cost(1_000_000, 1_000_000, tier=tier) == pytest.approx(share * whole), (
            model,
            url,
            tier,
        )


def test_knows_no_price_of_a_model_that_its_provider_does_not_sell_at_the_tier() -> None:
    price = price_of("gpt-4.1-nano", OPENAI, **NO_PRICE)
    assert price is not None
    assert not price.knows("flex")
    refuses(LookupError, "flex", price.cost, 1, 1, tier="flex")
    judge, settings = JudgeAddress("gpt-4.1-nano", (OPENAI,), "KEY"), Settings(service_tier="flex")
    assert prices_at(judge, settings) == [None]
    with pytest.raises(InputError, match=r"at the service tier flex.*--price-in"):
        prices_at(judge, replace(settings, max_cost=1.0))


def test_takes_given_prices_for_the_tier_asked_for_and_twice_them_at_the_normal_one() -> None:
    price = price_of("our-own-model", OPENAI, price_in=1.0, price_out=3.0, tier="flex")
    assert price is not None
    assert price.cost(1_000_000, 1_000_000, tier="flex") == pytest.approx(4.0)
    assert price.cost(1_000_000, 1_000_000) == pytest.approx(8.0)
    listed = price_of("gpt-5-mini", OPENAI, price_in=0.1, price_out=0.9, tier="flex")
    assert listed is not None
    assert listed.cost(1_000_000, 0) == pytest.approx(0.25), (
        "where the normal price is listed, that one counts"
    )


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


def test_prices_an_answer_by_the_tier_that_it_came_at() -> None:
    meter = Meter(price_of("gpt-5-mini", OPENAI, **NO_PRICE, tier="flex"), tier="flex")
    full = Usage(1_000_000, 0)

    def cost(tier: str | None) -> float:
        return (
            meter.measured(MESSAGES, [Answer("")], replace(full, service_tier=tier)).cost_usd or 0.0
        )

    assert [cost("flex"), cost(None), cost("default"), cost("priority")] == pytest.approx(
        [0.125, 0.125, 0.25, 0.45]
    )
    odd = meter.measured(MESSAGES, [Answer("")], replace(full, service_tier="turbo"))
    assert odd.cost_usd == pytest.approx(0.25), "an unknown tier counts as the normal one"
    assert odd.estimated


def test_sets_aside_what_a_call_costs_at_the_dearest_tier_that_it_may_end_at() -> None:
    price = price_of("gpt-5-mini", OPENAI, **NO_PRICE, tier="flex")
    flex, falls_back = Meter(price, tier="flex"), Meter(price, tier="flex", falls_back=True)
    assert falls_back.most(MESSAGES, 100, 1) == pytest.approx(2 * flex.most(MESSAGES, 100, 1))
    flex.measured(MESSAGES, [ANSWER], Usage(100, 20, service_tier="default"))
    assert flex.most(MESSAGES, 100, 1) == falls_back.most(MESSAGES, 100, 1), (
        "an endpoint that does not heed the tier"
    )
