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
from robin_cli.model.records import BATCH, Usage, tier_of

CHARACTERS_PER_TOKEN = 4.0
"""Assumed until the endpoint has counted tokens."""

_PER_MESSAGE = 16
_PER_REQUEST = 64
_MILLION = 1e6
_MANY = 1_000_000

_OF_NORMAL = {("azure", "flex"): 0.5, ("azure", BATCH): 0.5, ("groq", "flex"): 1.0}
"""Prices as a share of the normal ones, by provider and service tier, if genai-prices does not list them by model. Azure:
learn.microsoft.com/azure/foundry/openai/how-to/flex-processing and …/batch; Groq: console.groq.com/docs/flex-processing (higher
limits, the same price)."""

_HALF = 0.5
"""The price of flex and batches as a share of the normal one, when the user gave one of the two: at OpenAI, Azure, Google and
Mistral."""


@dataclass(frozen=True, slots=True)
class Price:
    """The price of tokens, given by the user (US dollars per million) or listed by genai-prices.

    Attributes:
        given: the user's prices of input and output, for ``tier``.
        cached: the user's price of cached input; None: as other input.
        listed: model and base URL; None if genai-prices does not list them. One of ``given`` and ``listed`` is set.
        tier: the service tier of calls; None for the normal one.
    """

    given: tuple[float, float] | None = None
    listed: tuple[str, str] | None = None
    cached: float | None = None
    tier: str | None = None

    def below_list(self) -> bool:
        """Return whether the user's price is lower than the listed one, for input, cached input or output."""
        for prompt, completion, cached in ((_MANY, 0, 0), (0, _MANY, 0), (_MANY, 0, _MANY)):
            listed = self._listed_cost(prompt, completion, cached, self.tier)
            if self.given is None or listed is None:
                return False
            if self.cost(prompt, completion, cached=cached, tier=self.tier) < listed * (1 - 1e-9):
                return True
        return False

    def knows(self, tier: str | None) -> bool:
        """Return whether the price at the service tier ``tier`` is known; at the normal one (None) it is."""
        return self.given is not None or self._of_listed(tier) is not None

    def cost(
        self, prompt: int, completion: int, *, cached: int = 0, tier: str | None = None
    ) -> float:
        """Return the US dollars for so many tokens; ``cached`` of the ``prompt`` tokens were cached by the endpoint.

        Args:
            tier: the service tier of the call; None for the normal one.

        Raises:
            LookupError: the price at that tier is unknown, see :meth:`knows`.
        """
        tier, cached = tier_of(tier), min(cached, prompt)
        if self.given is None or (tier != self.tier and tier is None and self.listed is not None):
            cost = self._listed_cost(prompt, completion, cached, tier)
            if cost is None:
                raise LookupError(f"no price is known at the service tier {tier}")
            return cost
        each_in, each_out = self.given
        each_cached = each_in if self.cached is None else self.cached
        whole = (
            (prompt - cached) * each_in + cached * each_cached + completion * each_out
        ) / _MILLION
        return whole * half_or_twice(self.tier, tier)

    def __str__(self) -> str:
        source = "genai-prices" if self.given is None else "--price-in, --price-out"
        at = "" if self.tier is None else f", {self.tier}"
        return f"{self._each(self.tier, ' a million tokens')} ({source}{at})"

    @property
    def beside(self) -> str:
        """The price at the normal tier, or, if calls use that, the price of flex, in words; "" if unknown."""
        if self.tier is not None:
            return f"{self._each(None)} at the normal tier"
        return (
            f"{self._each('flex')} by --service-tier flex"
            if self.given is None and self.knows("flex")
            else ""
        )

    def _each(self, tier: str | None, unit: str = "") -> str:
        return f"${self.cost(1_000_000, 0, tier=tier):g}{unit} in, ${self.cost(0, 1_000_000, tier=tier):g} out"

    def _listed_cost(
        self, prompt: int, completion: int, cached: int, tier: str | None
    ) -> float | None:
        found = self._of_listed(tier)
        if found is None or self.listed is None:
            return None
        usage = PricedUsage(input_tokens=prompt, cache_read_tokens=cached, output_tokens=completion)
        model, url = self.listed
        return found[0] * float(
            calc_price(usage, model, provider_api_url=url, price_context=found[1]).total_price
        )

    def _of_listed(self, tier: str | None) -> tuple[float, dict[str, str]] | None:
        """Return the share that ``tier`` costs of a listed price, and which one; None if unknown."""
        return self.listed and _share_and_context(*self.listed, tier_of(tier))


def half_or_twice(given_for: str | None, tier: str | None) -> float:
    """Return the price at ``tier`` as a share of the price at the tier ``given_for``: 1, a half or twice."""
    halves = {"flex", BATCH}
    return _HALF ** (
        (tier in halves and given_for is None) - (given_for in halves and tier is None)
    )


@cache
def _share_and_context(
    model: str, url: str, tier: str | None
) -> tuple[float, dict[str, str]] | None:
    if tier is None:
        return 1.0, {}
    found = calc_price(PricedUsage(), model, provider_api_url=url)
    context = {"processing": BATCH} if tier == BATCH else {"service_tier": tier}
    now = datetime.now(UTC)
    # genai-prices lists OpenAI's models for Azure, but OpenAI's variants are not Azure's.
    variants = (
        found.model.price_variants
        if any(found.model is each for each in found.provider.models)
        else None
    )
    if any(
        dict(each.when) == context and (each.constraint is None or each.constraint.active(now))
        for each in variants or ()
    ):
        return 1.0, context
    share = _OF_NORMAL.get((found.provider.id, tier))
    return None if share is None else (share, {})


def price_of(
    model: str,
    base_url: str,
    *,
    price_in: float | None,
    price_out: float | None,
    price_cached: float | None = None,
    tier: str | None = None,
) -> Price | None:
    """Return the price of ``model`` at ``base_url``; None if neither the user nor genai-prices has one.

    A listed price counts only at its provider's own address: a model of the same name elsewhere has another price, or none.

    Args:
        tier: the service tier of calls and of given prices. If the price at it is unknown, the price returned does not
            :meth:`~Price.knows` it.
    """
    listed: tuple[str, str] | None = (model, base_url)
    try:
        calc_price(PricedUsage(), model, provider_api_url=base_url)
    except LookupError:
        listed = None
    if price_in is not None and price_out is not None:
        return Price((price_in, price_out), listed, price_cached, tier_of(tier))
    return listed and Price(listed=listed, tier=tier_of(tier))


class Meter:
    """Completes the usage of replies: missing token counts are estimated, and costs computed.

    Estimates use the characters per token of this endpoint's counts so far. The cost of an estimate is marked as estimated too.

    Args:
        price: None if unknown.
        tier: the service tier of calls; None for the normal one.
        falls_back: whether a call may end at the normal tier.
    """

    def __init__(
        self, price: Price | None, *, tier: str | None = None, falls_back: bool = False
    ) -> None:
        self.price = price
        self._tier = tier_of(tier)
        self._tiers = {self._tier, None} if falls_back else {self._tier}  # where calls may end
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
        asked = sum(len(message["content"]) for message in messages)
        answered = sum(len(answer.text) for answer in answers)
        prompt, completion = usage.prompt_tokens, usage.completion_tokens
        if prompt:
            self._characters += asked
            self._tokens += prompt
        if len(answers) > 1 and completion and usage.counts_one_choice:
            usage = replace(usage, completion_tokens=completion * len(answers), estimated=True)
        if not prompt and asked:
            usage = replace(usage, prompt_tokens=self.tokens(asked), estimated=True)
        if not completion and answered:
            usage = replace(usage, completion_tokens=self.tokens(answered), estimated=True)
        if usage.cost_usd is not None or self.price is None:
            return usage
        tier, is_known = self._priced_tier(self.price, usage.service_tier)
        if not self.price.knows(tier):
            return usage
        prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
        cost = self.price.cost(prompt, completion, cached=usage.cached_tokens or 0, tier=tier)
        return replace(usage, cost_usd=cost, estimated=usage.estimated or not is_known)

    def _priced_tier(self, price: Price, reported: str | None) -> tuple[str | None, bool]:
        """Return the tier at which an answer is priced, and whether that price is known; if not, it is the normal one."""
        tier = self._tier if reported is None else tier_of(reported)
        if tier == self._tier or (price.given is not None and self._tier is None):
            return self._tier, True  # given prices are for the tier that was asked for
        is_known = price.knows(tier)
        tier = tier if is_known else None
        self._tiers.add(tier)  # later calls reserve money for this tier too
        return tier, is_known

    def tokens(self, characters: int) -> int:
        """Return about how many tokens so many characters are at this endpoint; at least 1."""
        each = self._characters / self._tokens if self._tokens else CHARACTERS_PER_TOKEN
        return max(1, round(characters / each))

    def most(self, messages: Sequence[Message], max_tokens: int, samples: int) -> float:
        """Return the most US dollars that a request for these messages can cost, at any tier it may end at; 0 without a price.

        A token is at least a byte of text; the chat template adds some per message.
        """
        if self.price is None:
            return 0.0
        prompt = (
            sum(len(message["content"].encode()) + _PER_MESSAGE for message in messages)
            + _PER_REQUEST
        )
        price = self.price
        return max(
            (
                price.cost(prompt, max_tokens * samples, tier=each)
                for each in self._tiers
                if price.knows(each)
            ),
            default=0.0,
        )


def most_tokens(extra_body: Mapping[str, Any], max_tokens: int) -> int:
    """Return the most tokens of an answer: ``max_tokens``, unless ``extra_body`` sets another limit."""
    stated = [extra_body.get(name) for name in ("max_tokens", "max_completion_tokens")]
    return max([each for each in stated if isinstance(each, int)] or [max_tokens])
