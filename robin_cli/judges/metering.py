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

_PER_MESSAGE = 16
_PER_REQUEST = 64
_MILLION = 1_000_000

_HALF = 0.5
"""The price of batches as a share of the normal one, at OpenAI, Azure, Google and Mistral: for prices that the user gives, and
at Azure, where genai-prices does not list it."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of tokens, given by the user (US dollars per million) or listed by genai-prices.

    Attributes:
        given: the user's prices of input and output.
        cached: the user's price of cached input; None: as other input.
        listed: model and base URL; None if genai-prices does not list them. One of ``given`` and ``listed`` is set.
        batch: whether it is the price at the batch service.
        is_output_free: whether only input is paid, as of decision models.
    """

    given: tuple[float, float] | None = None
    listed: tuple[str, str] | None = None
    cached: float | None = None
    batch: bool = False
    is_output_free: bool = False

    def cost(self, prompt: int, completion: int, *, cached: int = 0) -> float:
        """Return the US dollars for so many tokens; ``cached`` of the ``prompt`` tokens were cached by the endpoint."""
        cached, completion = min(cached, prompt), 0 if self.is_output_free else completion
        if self.given is not None:
            price_in, price_out = self.given
            price_cached = price_in if self.cached is None else self.cached
            sums = (prompt - cached) * price_in, cached * price_cached, completion * price_out
            return sum(sums) / _MILLION
        terms = self._terms()
        if terms is None or self.listed is None:
            raise LookupError("no price is known")
        usage = PricedUsage(input_tokens=prompt, cache_read_tokens=cached, output_tokens=completion)
        (model, url), (share, context) = self.listed, terms
        price = calc_price(usage, model, provider_api_url=url, price_context=context).total_price
        return share * float(price)

    def at(self, *, batch: bool) -> Price | None:
        """Return the price of the same judge at the batch service, or without it; None if that is unknown."""
        times = batch_share(was_batch=self.batch, batch=batch)
        given = self.given and (times * self.given[0], times * self.given[1])
        cached = None if self.cached is None else times * self.cached
        return replace(self, given=given, cached=cached, batch=batch).if_known()

    def if_known(self) -> Price | None:
        """Return this price; None if genai-prices lists the model, but not at the batch service."""
        return None if self.given is None and self._terms() is None else self

    def text(self, source: str = "--price-in, --price-out") -> str:
        """Return the price for people; ``source``: where the user's own comes from."""
        if self.listed is not None and self.given is None:
            source = f"list price of {self.listed[0]}, genai-prices"
        at = ", batch" if self.batch else ""
        price_in, price_out = self.cost(_MILLION, 0), self.cost(0, _MILLION)
        return f"${price_in:g} a million tokens in, ${price_out:g} out ({source}{at})"

    def _terms(self) -> tuple[float, dict[str, str]] | None:
        """Return the share that is paid of a listed price, and which one; None if unknown."""
        return self.listed and _share_and_context(*self.listed, batch=self.batch)


def batch_share(*, was_batch: bool, batch: bool) -> float:
    """Return the price with ``batch`` as a share of the price with ``was_batch``: 1, a half or twice."""
    return _HALF ** (batch - was_batch)


@cache
def _share_and_context(model: str, url: str, *, batch: bool) -> tuple[float, dict[str, str]] | None:
    if not batch:
        return 1.0, {}
    listed = calc_price(PricedUsage(), model, provider_api_url=url)
    context, now = {"processing": "batch"}, datetime.now(UTC)
    # genai-prices lists OpenAI's models for Azure, but OpenAI's variants are not Azure's.
    is_own = any(listed.model is other for other in listed.provider.models)
    for variant in (listed.model.price_variants or ()) if is_own else ():
        is_active = variant.constraint is None or variant.constraint.active(now)
        if is_active and dict(variant.when) == context:
            return 1.0, context
    return (_HALF, {}) if listed.provider.id == "azure" else None


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
        batch: whether the calls, and given prices, are those of the batch service.
    """
    listed: tuple[str, str] | None = (model, base_url)
    try:
        calc_price(PricedUsage(), model, provider_api_url=base_url)
    except LookupError:
        listed = None
    if price_in is not None and price_out is not None:
        return Price((price_in, price_out), listed, price_cached, batch)
    return listed and Price(listed=listed, batch=batch).if_known()


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
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt:
            self._characters += characters_in
            self._tokens += prompt
        if len(answers) > 1 and completion and usage.counts_one_choice:
            usage = replace(usage, completion_tokens=completion * len(answers), estimated=True)
        if not prompt and characters_in:
            usage = replace(usage, prompt_tokens=self.tokens(characters_in), estimated=True)
        if not completion and characters_out:
            usage = replace(usage, completion_tokens=self.tokens(characters_out), estimated=True)
        if usage.cost_usd is not None or self.price is None:
            return usage
        prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
        cost = self.price.cost(prompt, completion, cached=usage.cached_tokens or 0)
        return replace(usage, cost_usd=cost)

    def prompt_tokens(self, messages: Sequence[Message]) -> int:
        """Return about how many tokens these messages are."""
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
