"""Begins a session in rounds at batch services."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from robin_batch.folder import Batches
from robin_batch.rounds import Rounds
from robin_batch.sending import Sender
from robin_batch.service import OpenAIBatches
from robin_cli.goals.registry import goal_of_run
from robin_cli.judges.metering import Meter
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.model.errors import InputError
from robin_cli.run.writer import RunWriter
from robin_cli.session.carriers import Carrying
from robin_cli.session.connection import endpoint_of
from robin_cli.session.desk import judged_calls
from robin_cli.session.money import prices_of
from robin_cli.settings.resolve import Resolved


def check(resolved: Resolved) -> None:
    """Raise InputError for settings that do not go with a batch service."""
    if not resolved.at_endpoints:
        raise InputError(
            f"--batch: is for endpoints, and the judge {resolved.kind} is not one; leave it out"
        )
    if several := next((judge for judge in resolved.judges if len(judge.base_urls) > 1), None):
        raise InputError(
            f"--batch: {several.name} has {len(several.base_urls)} addresses; give only the one for the batches"
        )


def carrying(resolved: Resolved, store: RunWriter, notify: Callable[[str], None]) -> Carrying:
    """Return the way in which the judges of a session are asked in rounds; with no rounds, open batches are finished."""
    check(resolved)
    asked, services, prices = {}, {}, []
    for judge in resolved.judges:
        (url,), (price,) = judge.base_urls, prices_of(judge, resolved)
        endpoint = endpoint_of(resolved, judge, url, store.manifest)
        asked[judge.name] = OpenAIJudge(endpoint, meter=Meter(price), notify=notify)
        services[judge.name] = OpenAIBatches(endpoint, notify=notify)
        prices.append(price)
    batches = Batches(store.path, store.manifest.run_id, len(store.space))
    sender = Sender(services, store.manifest.run_id, notify)
    begin = partial(
        Rounds,
        judges=asked,
        batches=batches,
        sender=sender,
        is_judged=judged_calls(store, store.space) if batches.by_number else lambda *_: False,
        calls=store.manifest.budget,
        least=goal_of_run(store).least_calls,
        rounds=resolved.rounds,
        notify=notify,
    )
    return Carrying(begin, [sender, *asked.values()], prices, resolved.rounds)
