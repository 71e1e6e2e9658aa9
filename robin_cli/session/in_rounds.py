"""The carrier of a session in rounds at a batch service, made from its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from robin_cli.judges.metering import Meter, batch_share
from robin_cli.judges.openai_batches import OpenAIBatches
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.run.batches import Ledger
from robin_cli.run.store import RunStore
from robin_cli.session.at_service import AtService
from robin_cli.session.carrying import Carrying
from robin_cli.session.checking import check_rounds
from robin_cli.session.connection import as_raised, endpoint_at
from robin_cli.session.desk import judged_calls
from robin_cli.session.money import prices_of
from robin_cli.session.rounds import Rounds
from robin_cli.settings.resolve import Resolved


def rounds_of(
    store: RunStore,
    resolved: Resolved,
    notify: Callable[[str], None],
    ledger: Ledger,
    rounds: int,
) -> Carrying:
    """Return the way in which the judges of a session are asked in rounds.

    Args:
        ledger: the run's batches.
        rounds: the number of rounds for the whole budget; 0 to begin none.
    """
    check_rounds(resolved)
    asked, services, prices = {}, {}, []
    for judge in resolved.judges:
        (url,), (price,) = judge.base_urls, prices_of(judge, resolved)
        endpoint = replace(
            endpoint_at(url, judge, resolved),
            bounded=resolved.max_cost is not None,
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


def as_submitted(resolved: Resolved) -> Resolved:
    """Return the values for the batches under way, as they were submitted: at the batch price."""
    share = batch_share(was_batch=resolved.batch, batch=True)
    judges = tuple(
        replace(judge, prices={name: share * price for name, price in judge.prices.items()})
        for judge in resolved.judges
    )
    return replace(resolved, batch=True, judges=judges)
