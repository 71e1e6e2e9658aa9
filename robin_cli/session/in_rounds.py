"""The carrier of a session in rounds at a batch service, made from its settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from robin_cli.judges.metering import Meter
from robin_cli.judges.openai_batches import OpenAIBatches
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.run.batches import Ledger
from robin_cli.run.store import RunStore
from robin_cli.session.at_service import AtService
from robin_cli.session.carrying import Carrying
from robin_cli.session.checking import check_rounds
from robin_cli.session.connection import as_raised, endpoint_at
from robin_cli.session.desk import judged_calls
from robin_cli.session.money import prices_at, with_prices_of
from robin_cli.session.rounds import Rounds
from robin_cli.settings.addresses import judges_of
from robin_cli.settings.table import Settings


def rounds_of(
    store: RunStore,
    settings: Settings,
    keys: Mapping[str, str],
    notify: Callable[[str], None],
    ledger: Ledger,
    rounds: int,
) -> Carrying:
    """Return the way in which the judges of ``settings`` are asked in rounds.

    Args:
        ledger: the run's batches.
        rounds: the number of rounds for the whole budget; 0 to begin none.
    """
    check_rounds(settings)
    asked, services, prices = {}, {}, []
    for judge in judges_of(settings):
        (url,), (price,) = judge.base_urls, prices_at(judge, settings)
        endpoint = replace(
            endpoint_at(url, judge.name, keys[judge.api_key_env], settings),
            bounded=settings.max_cost is not None,
            logprobs=judge.answers == "logprobs",
        )
        endpoint = as_raised(endpoint, store.manifest)
        asked[judge.name] = OpenAIJudge(endpoint, meter=Meter(price), notify=notify)
        prices.append(price)
        services[judge.name] = OpenAIBatches(endpoint, notify=notify)
    courier = AtService(services, store.manifest.run_id, notify)
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


def as_submitted(settings: Settings) -> Settings:
    """Return ``settings`` for the batches under way, as they were submitted."""
    return with_prices_of(replace(settings, batch=True), was_batch=settings.batch)
