"""From a session's settings to what takes its requests away in rounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from robin_cli.judges.metering import Meter
from robin_cli.judges.openai_batches import OpenAIBatches
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.runner.at_service import At, AtService
from robin_cli.runner.carrying import Carrying
from robin_cli.runner.checking import check_rounds
from robin_cli.runner.connection import endpoint_at
from robin_cli.runner.desk import judged_calls
from robin_cli.runner.in_files import InFiles
from robin_cli.runner.prices import prices_at, with_prices_of
from robin_cli.runner.rounds import Courier, Rounds
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings
from robin_cli.storage.batches import Ledger
from robin_cli.storage.store import RunStore


def rounds_of(
    store: RunStore,
    settings: Settings,
    keys: Mapping[str, str],
    notify: Callable[[str], None],
    ledger: Ledger,
    rounds: int,
) -> Carrying:
    """Each judge that ``settings`` name, to be asked in rounds, what takes its requests away, and its price there.

    Args:
        ledger: of what is under way.
        rounds: in which the whole budget goes out; 0: none is begun.
    """
    check_rounds(settings)
    asked, services, prices = {}, {}, []
    for judge in judges_of(settings):
        (url,), (price,) = judge.base_urls, prices_at(judge, settings)
        endpoint = replace(
            endpoint_at(url, judge.name, keys[judge.api_key_env], settings),
            bounded=settings.money_limit is not None,
            logprobs=settings.scoring == "logprobs",
        )
        asked[judge.name] = OpenAIJudge(endpoint, meter=Meter(price, tier=settings.tier), notify=notify)
        prices.append(price)
        if settings.batch:
            services[judge.name] = At(OpenAIBatches(endpoint, notify=notify), url)
    courier: Courier = AtService(services, store.manifest.run_id, notify)
    if settings.batch_files is not None:
        courier = InFiles(Path(settings.batch_files))
    begin = partial(
        Rounds,
        judges=asked,
        ledger=ledger,
        courier=courier,
        is_judged=judged_calls(store, store.space) if ledger.batches else lambda *_: False,
        rounds=rounds,
        notify=notify,
    )
    return Carrying(begin, [courier, *asked.values()], prices, rounds)


def as_submitted(settings: Settings, ledger: Ledger) -> Settings:
    """``settings`` for seeing through what is under way: at a service, or in files."""
    folder = ledger.open[0].folder
    asked = replace(settings, batch=not folder, batch_files=folder or None, service_tier=None, tier_fallback=False)
    return with_prices_of(asked, settings.tier)
