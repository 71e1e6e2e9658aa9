"""Tokens and money: the cost of a request, and the most it can be. Only this file uses genai-prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from typing import Any

from genai_prices import Usage as PricedUsage
from genai_prices import calc_price

from robin_cli.model.exchange import Answer, Message
from robin_cli.model.records import Usage

CHARACTERS_PER_TOKEN = 4.0
"""Assumed until the endpoint has counted tokens."""

_PER_MESSAGE, _PER_REQUEST = 16, 64
_MILLION = 1_000_000

_HALF = 0.5
"""The price of batches as a share of the normal one, at OpenAI, Azure, Google and Mistral: for prices that the user gives, and
at Azure, where genai-prices does not list it."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of tokens, by the user (US dollars per million) or by genai-prices.

    Attributes:
        rates: the user's prices of input and output.
        cached: the user's price of cached input; None: as other input.
        listed: model and base URL, if the user gives no price.
        batch: whether it is the price at the batch service.
        is_output_free: whether only input is paid, as of decision models.
    """

    rates: tuple[float, float] | None = None
    listed: tuple[str, str] | None = None
    cached: float | None = None
    batch: bool = False
    is_output_free: bool = False

    def cost(self, prompt: int, completion: int, *, cached: int = 0) -> float:
        """Return the US dollars for so many tokens; ``cached`` of the ``prompt`` tokens were cached by the endpoint."""
        cached, completion = min(cached, prompt), 0 if self.is_output_free else completion
        if self.rates is not None:
            price_in, price_out = self.rates
            price_cached = price_in if self.cached is None else self.cached
            sums = (prompt - cached) * price_in, cached * price_cached, completion * price_out
            return sum(sums) / _MILLION
        model, url = self.listed or ("", "")
        share, context = _share_and_context(model, url, batch=self.batch)
        usage = PricedUsage(input_tokens=prompt, cache_read_tokens=cached, output_tokens=completion)
        price = calc_price(usage, model, provider_api_url=url, price_context=context).total_price
        return share * float(price)

    def text(self, source: str = "--price-in, --price-out") -> str:
        """Return the price for people; ``source``: where the user's own comes from."""
        if self.listed is not None:
            source = f"list price of {self.listed[0]}, genai-prices"
        at = ", batch" if self.batch else ""
        price_in, price_out = self.cost(_MILLION, 0), self.cost(0, _MILLION)
        return f"${price_in:g} a million tokens in, ${price_out:g} out ({source}{at})"


def price_of(
    model: str,
    base_url: str,
    *,
    price_in: float | None = None,
    price_out: float | None = None,
    price_cached: float | None = None,
    batch: bool = False,
) -> Price | None:
    """Return the price of ``model`` at ``base_url``; None if neither the user nor genai-prices has one.

    A listed price counts only at its provider's own address: a model of the same name elsewhere has another price, or none.

    Args:
        batch: whether the calls, and the user's prices, are those of the batch service.
    """
    if price_in is not None and price_out is not None:
        return Price((price_in, price_out), cached=price_cached, batch=batch)
    try:
        _share_and_context(model, base_url, batch=batch)
    except LookupError:
        return None
    return Price(listed=(model, base_url), batch=batch)


@cache
def _share_and_context(model: str, url: str, *, batch: bool) -> tuple[float, dict[str, str]]:
    """Return the share that is paid of a listed price, and which one. LookupError if it is not listed."""
    listed = calc_price(PricedUsage(), model, provider_api_url=url)
    if not batch:
        return 1.0, {}
    context, now = {"processing": "batch"}, datetime.now(UTC)
    # genai-prices lists OpenAI's models for Azure, but OpenAI's variants are not Azure's.
    is_own = any(listed.model is other for other in listed.provider.models)
    for variant in (listed.model.price_variants or ()) if is_own else ():
        is_active = variant.constraint is None or variant.constraint.active(now)
        if is_active and dict(variant.when) == context:
            return 1.0, context
    if listed.provider.id != "azure":
        raise LookupError(model)
    return _HALF, {}


def batch_share(*, was_batch: bool, batch: bool) -> float:
    """Return the price with ``batch`` as a share of the price with ``was_batch``: 1, a half or twice."""
    return _HALF ** (batch - was_batch)


class Meter:
    """Completes the usage of replies: missing token counts are estimated, and costs computed.

    Estimates use the characters per token of this endpoint's counts so far. The cost of an estimate is marked as estimated too.

    Args:
        price: None if unknown.
    """

    def __init__(self, price: Price | None) -> None:
        self.price = price
        self._characters = 0
        self._tokens = 0

    def measured(
        self, messages: Sequence[Message], answers: Sequence[Answer], usage: Usage
    ) -> Usage:
        """Return ``usage`` with tokens and cost filled in.

        Args:
            messages: the messages sent.
            answers: all answers received, also those that are not kept: all were paid for.
            usage: the endpoint's report, any part of which may be None.
        """
        characters_in = sum(len(message["content"]) for message in messages)
        characters_out = sum(len(answer.text) for answer in answers)
        prompt, completion, is_estimated = usage.prompt_tokens, usage.completion_tokens, False
        if prompt:
            self._characters += characters_in
            self._tokens += prompt
        elif characters_in:
            prompt, is_estimated = self.tokens(characters_in), True
        if completion and len(answers) > 1 and usage.counts_one_choice:
            completion, is_estimated = completion * len(answers), True
        elif not completion and characters_out:
            completion, is_estimated = self.tokens(characters_out), True
        cost = usage.cost_usd
        if cost is None and self.price is not None:
            cost = self.price.cost(prompt or 0, completion or 0, cached=usage.cached_tokens or 0)
        return replace(
            usage,
            prompt_tokens=prompt,
            completion_tokens=completion,
            cost_usd=cost,
            estimated=usage.estimated or is_estimated,
        )

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        return self.tokens(sum(len(message["content"]) for message in messages))

    def tokens(self, characters: int) -> int:
        """Return about how many tokens so many characters are at this endpoint; at least 1."""
        length = self._characters / self._tokens if self._tokens else CHARACTERS_PER_TOKEN
        return max(1, round(characters / length))

    def most(self, messages: Sequence[Message], max_tokens: int, samples: int) -> float:
        """Return the most US dollars that a request for these messages can cost; 0 without a price.

        A token is at least a byte of text; the chat template adds some per message.
        """
        if self.price is None:
            return 0.0
        prompt = (
            sum(len(message["content"].encode()) + _PER_MESSAGE for message in messages)
            + _PER_REQUEST
        )
        return self.price.cost(prompt, max_tokens * samples)


def most_tokens(extra_body: Mapping[str, Any], max_tokens: int) -> int:
    """Return the most tokens of an answer: ``max_tokens``, unless ``extra_body`` sets another limit."""
    limits = [extra_body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    return max([limit for limit in limits if isinstance(limit, int)] or [max_tokens])
