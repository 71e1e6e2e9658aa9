"""Tokens and money: what a request cost, and the most that one can cost. The only file that knows genai-prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price

from robin_cli.model.errors import InputError
from robin_cli.model.exchange import Answer, Message
from robin_cli.model.records import Usage

CHARACTERS_PER_TOKEN = 4.0
"""Assumed until the endpoint has said otherwise."""

_PER_MESSAGE = 16
_PER_REQUEST = 64
_MILLION = 1e6


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for tokens, as the user gave them (a million tokens) or as genai-prices lists them for an address.

    Exactly one of ``given`` (input, output) and ``listed`` (model, base URL) is set.
    """

    given: tuple[float, float] | None = None
    listed: tuple[str, str] | None = None

    def cost(self, prompt: int, completion: int, *, cached: int = 0) -> float:
        """Dollars for so many tokens, of which ``cached`` (at most ``prompt``) were read from the endpoint's cache."""
        if self.given is not None:
            return (prompt * self.given[0] + completion * self.given[1]) / _MILLION
        if self.listed is None:
            raise ValueError("a price needs to be given or listed")
        usage = PricedUsage(input_tokens=prompt, cache_read_tokens=min(cached, prompt), output_tokens=completion)
        return float(calc_price(usage, self.listed[0], provider_api_url=self.listed[1]).total_price)

    def __str__(self) -> str:
        if self.given is not None:
            return f"${self.given[0]:g} a million tokens in, ${self.given[1]:g} out (--price-in, --price-out)"
        each = (self.cost(1_000_000, 0), self.cost(0, 1_000_000))
        return f"${each[0]:g} a million tokens in, ${each[1]:g} out (genai-prices)"


def price_of(model: str, base_url: str, *, price_in: float | None, price_out: float | None) -> Price | None:
    """What ``model`` costs at ``base_url``; None where neither the user nor genai-prices says.

    A listed price counts only at its provider's own address: a model of that name elsewhere has another price, or none.
    """
    if price_in is not None and price_out is not None:
        return Price(given=(price_in, price_out))
    price = Price(listed=(model, base_url))
    try:
        price.cost(1, 1)
    except LookupError:
        return None
    return price


def prices_of(
    model: str, base_urls: Sequence[str], *, price_in: float | None, price_out: float | None, max_cost: float | None
) -> list[Price | None]:
    """The price of ``model`` at each address.

    Raises:
        InputError: one of the two prices is missing, or money is limited and an address has no price.
    """
    if (price_in is None) != (price_out is None):
        raise InputError("--price-in and --price-out: give both, or neither to go by genai-prices")
    prices = [price_of(model, url, price_in=price_in, price_out=price_out) for url in base_urls]
    for url, price in zip(base_urls, prices, strict=True):
        if price is None and max_cost is not None:
            raise InputError(
                f'--max-cost: no price is known for "{model}" at {url}, so it could not be held; give --price-in and '
                "--price-out (US dollars for a million tokens), or leave --max-cost out"
            )
    return prices


class Meter:
    """Makes the usage of every reply complete: tokens that the endpoint left out are estimated, and money is counted.

    Estimates go by the characters a token that this endpoint's own counts had so far. The money of an estimate is an
    estimate too, and the usage says so.
    """

    def __init__(self, price: Price | None) -> None:
        self.price = price
        self._characters = 0
        self._tokens = 0

    def measured(self, messages: Sequence[Message], answers: Sequence[Answer], usage: Usage) -> Usage:
        """``usage`` with tokens and cost filled in.

        Args:
            messages: what was sent.
            answers: all choices that came back, whether they are kept or not: all were paid for.
            usage: what the endpoint said, any part of which may be None.
        """
        asked = sum(len(message["content"]) for message in messages)
        said = sum(len(answer.text) for answer in answers)
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt:
            self._characters += asked
            self._tokens += prompt
        if len(answers) > 1 and completion and usage.counts_one_choice:
            usage = replace(usage, completion_tokens=completion * len(answers), estimated=True)
        if not prompt and asked:
            usage = replace(usage, prompt_tokens=self.tokens(asked), estimated=True)
        if not completion and said:
            usage = replace(usage, completion_tokens=self.tokens(said), estimated=True)
        if usage.cost_usd is not None or self.price is None:
            return usage
        cost = self.price.cost(usage.prompt_tokens or 0, usage.completion_tokens or 0, cached=usage.cached_tokens)
        return replace(usage, cost_usd=cost)

    def tokens(self, characters: int) -> int:
        """About how many tokens so many characters are here; at least 1."""
        each = self._characters / self._tokens if self._tokens else CHARACTERS_PER_TOKEN
        return max(1, round(characters / each))

    def most(self, messages: Sequence[Message], max_tokens: int, samples: int) -> float:
        """No request for these messages costs more, in dollars; 0 where there is no price.

        A token is at least a byte of text; to it comes what a chat template puts around the messages.
        """
        if self.price is None:
            return 0.0
        prompt = sum(len(message["content"].encode()) + _PER_MESSAGE for message in messages) + _PER_REQUEST
        return self.price.cost(prompt, max_tokens * samples)


def most_tokens(extra_body: Mapping[str, Any], max_tokens: int) -> int:
    """The longest answer that a request may bring: ``max_tokens``, unless ``extra_body`` says otherwise."""
    stated = [extra_body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    return max([each for each in stated if isinstance(each, int)] or [max_tokens])
