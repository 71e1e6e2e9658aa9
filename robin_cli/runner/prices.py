"""What the judges of a session cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from robin_cli.judges.metering import Price, half_or_twice, price_of
from robin_cli.model.errors import InputError, typed
from robin_cli.settings.addresses import JudgeAddress
from robin_cli.settings.table import Settings


def prices_at(judge: JudgeAddress, settings: Settings) -> list[Price | None]:
    """The price of ``judge`` at each of its addresses; None if none is known at the service tier that calls ask for.

    Raises:
        InputError: one of the two prices is missing, or money is limited and an address has no price.
    """
    flag = "--max-cost" if settings.budget_usd is None else "--budget-usd"
    if not settings.sends and judge.price_in is None:  # an engine of one's own is no provider
        if settings.money_limit is not None:
            raise InputError(
                f"{flag}: no price is known of an engine of your own; give --price-in and --price-out, or leave {flag} out"
            )
        return [None for _ in judge.base_urls]
    given = {"price_in": judge.price_in, "price_out": judge.price_out, "price_cached": judge.price_cached}
    if (judge.price_in is None) != (judge.price_out is None) or (
        judge.price_in is None and judge.price_cached is not None
    ):
        raise InputError("--price-in and --price-out: give both, or neither to go by genai-prices")
    prices = []
    for url in judge.base_urls:
        price = price_of(judge.name, url, **given, tier=settings.tier)
        if price is None or not price.knows(price.tier):
            if settings.money_limit is not None:
                at, there = ("", "") if settings.tier is None else (f" at the service tier {settings.tier}", " there")
                raise InputError(
                    f'{flag}: no price is known for "{judge.name}" at {url}{at}, so it could not be held; give --price-in and '
                    f"--price-out (US dollars for a million tokens{there}), or leave {flag} out"
                )
            price = None
        elif _is_of_a_found_file(settings, given) and settings.money_limit is not None and price.below_list():
            raise InputError(
                f"{settings.source}: {judge.name} costs less there, {price}, than genai-prices has it at {url}, and {flag} "
                "would go by it; give --price-in and --price-out yourself, or say that you trust the file: --config "
                f"{typed(settings.source.place)}"
            )
        prices.append(price)
    return prices


def _is_of_a_found_file(settings: Settings, prices: Mapping[str, float | None]) -> bool:
    """Return whether one of ``prices`` stands in a file of the folder, and not in the command."""
    given = {name for name, price in prices.items() if price is not None}
    return settings.source.kind == "folder" and not given <= set(settings.source.named)


def with_prices_of(settings: Settings, given_for: str | None) -> Settings:
    """``settings``, whose prices were given for the service tier ``given_for``, with such for the tier that they ask for."""
    times = half_or_twice(given_for, settings.tier)
    price_in, price_out, cached = (
        tuple(times * each for each in given)
        for given in (settings.price_in, settings.price_out, settings.price_cached)
    )
    return replace(settings, price_in=price_in, price_out=price_out, price_cached=cached)
