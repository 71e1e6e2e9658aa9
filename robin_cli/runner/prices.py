"""What the judges of a session cost."""

from __future__ import annotations

from dataclasses import replace

from robin_cli.judges.metering import Price, half_or_twice, price_of, prices_of
from robin_cli.model.errors import InputError, typed
from robin_cli.settings.addresses import JudgeAddress
from robin_cli.settings.table import Settings


def prices_at(judge: JudgeAddress, settings: Settings) -> list[Price | None]:
    """The price of ``judge`` at each of its addresses; InputError if money is limited and one has none."""
    flag = "--max-cost" if settings.budget_usd is None else "--budget-usd"
    if not settings.sends and judge.price_in is None:  # an engine of one's own is no provider
        if settings.money_limit is not None:
            raise InputError(
                f"{flag}: no price is known of an engine of your own; give --price-in and --price-out, or leave {flag} out"
            )
        return [None for _ in judge.base_urls]
    prices = prices_of(
        judge.name,
        judge.base_urls,
        price_in=judge.price_in,
        price_out=judge.price_out,
        price_cached=judge.price_cached,
        max_cost=settings.money_limit,
        tier=settings.tier,
        flag=flag,
    )
    if settings.source.kind == "folder" and settings.money_limit is not None and (low := _below_list(judge, settings)):
        raise InputError(
            f"{settings.source}: {low}, and {flag} would go by it; give --price-in and --price-out yourself, or say that you "
            f"trust the file: --config {typed(settings.source.place)}"
        )
    return prices


def _below_list(judge: JudgeAddress, settings: Settings) -> str | None:
    """Say which prices, that the user did not give, are lower than the listed ones of ``judge``; None where none is."""
    prices = {"price_in": judge.price_in, "price_out": judge.price_out, "price_cached": judge.price_cached}
    if all(price is None or name in settings.source.named for name, price in prices.items()):
        return None
    for url in judge.base_urls:
        price = price_of(judge.name, url, **prices, tier=settings.tier)
        if price is not None and price.below_list():
            return f"{judge.name} costs less there, {price}, than genai-prices has it at {url}"
    return None


def with_prices_of(settings: Settings, given_for: str | None) -> Settings:
    """``settings``, whose prices were given for the service tier ``given_for``, with such for the tier that they ask for."""
    times = half_or_twice(given_for, settings.tier)
    price_in, price_out, cached = (
        tuple(times * each for each in given)
        for given in (settings.price_in, settings.price_out, settings.price_cached)
    )
    return replace(settings, price_in=price_in, price_out=price_out, price_cached=cached)
