"""Wiring for a session of work: endpoint, pacer, judge, signals, progress, and what is said at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

import typer
from rich.console import Console

from robin_cli.config import RunConfig, api_key, endpoint_of
from robin_cli.errors import EndpointError, LimitReached, RobinError, StorageError
from robin_cli.judging.endpoints import Endpoints, Member
from robin_cli.judging.metering import Meter, Price, prices_of
from robin_cli.judging.openai_judge import Endpoint, OpenAIJudge
from robin_cli.judging.pacing import Caps, Pacer
from robin_cli.output.progress import Messages, duration, shown, spent_line
from robin_cli.runs.engine import GRACE_S, Stop
from robin_cli.runs.manifest import Manifest
from robin_cli.runs.opening import cautions
from robin_cli.runs.session import AUTO_CEILING, Limits, Outcome, Session
from robin_cli.runs.store import RunStore

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Connection:
    """How a session reaches its judge, and what it may cost; may differ between the sessions of a run, recorded with each."""

    base_url: tuple[str, ...]
    api_key_env: str
    concurrency: str
    samples_per_request: int
    rpm: float | None
    tpm: float | None
    max_cost: float | None
    price_in: float | None
    price_out: float | None
    timeout: float
    max_retries: int
    debug_http: str | None = None


def connection_of(config: RunConfig) -> Connection:
    """The part of ``config`` that says how to reach the judge.

    Raises:
        InputError: no model is named, or money is limited that has no price.
    """
    values = {each.name: getattr(config, each.name) for each in fields(Connection)}
    base_urls, model = endpoint_of(config)
    connection = Connection(**{**values, "base_url": base_urls})
    _prices(connection, model)
    return connection


def last_connection(manifest: Manifest) -> dict[str, Any]:
    """How the last session of a run reached its judge, and which model that was, by names of RunConfig."""
    session: Mapping[str, Any] = manifest.sessions[-1] if manifest.sessions else {}
    known = {each.name for each in fields(Connection)} - {"debug_http"}
    recorded = {name: value for name, value in session.items() if name in known}
    urls = recorded.pop("base_url", manifest.settings["base_url"])
    return {
        **recorded,
        "base_url": (urls,) if isinstance(urls, str) else tuple(urls),
        "model": manifest.settings["model"],
    }


def messages_for(config: RunConfig) -> Messages:
    """Messages on stderr, as ``config`` wants them."""
    return Messages(Console(stderr=True, highlight=False), quiet=config.quiet)


def spend(store: RunStore, connection: Connection, config: RunConfig, messages: Messages) -> None:
    """Work on the open run until its budget is spent; say how it ended and what to do next.

    Raises:
        RobinError: as the errors of the judge and of the disk; a line saying what is kept was printed.
        typer.Exit: it was interrupted.
    """
    key = api_key(config)
    try:
        outcome = asyncio.run(_work(store, connection, key, messages, quiet=config.quiet))
    except RobinError as error:
        if store.has_answers and not isinstance(error, StorageError):  # which says itself what is where
            more = " --max-cost MORE" if isinstance(error, LimitReached) else ""
            messages.note(f"everything received is kept in {store.path}; to go on: {_again(store, config)}{more}")
        raise
    if outcome is None:
        messages.note(
            f"all {store.manifest.budget:,} calls are spent already; for more: robin resume {store.path} --budget N"
        )
        return
    _conclude(store, outcome, config, messages)


async def _work(
    store: RunStore, connection: Connection, key: str, messages: Messages, *, quiet: bool
) -> Outcome | None:
    """One session; None if there is nothing left to spend."""

    def notify(line: str) -> None:
        messages.note(f"note: {line}".replace("export RUN", f"export {store.path}"))

    stop = Stop()
    endpoints, price = _endpoints(store.manifest, connection, key, notify)
    limits = Limits(connection.max_cost, connection.samples_per_request)
    session = Session(store, endpoints, stop, limits=limits, price=price, notify=notify)
    if session.budget.exhausted:
        await endpoints.aclose()
        return None
    for caution in cautions(store.manifest, len(session.arms), store.variances, has_key=key != "none"):
        messages.note(f"note: {caution}")
    store.set_manifest(
        store.manifest.with_session(**{each.name: getattr(connection, each.name) for each in fields(connection)})
    )
    _stop_on_signals(stop, session, messages)
    try:
        with shown(session, messages, quiet=quiet):
            outcome = await session.work()
    except BaseException:
        with suppress(StorageError):  # what went wrong first says more
            store.set_manifest(store.manifest.with_session_end(in_flight=session.dropped))
        raise
    store.set_manifest(store.manifest.with_session_end(in_flight=session.dropped))
    return outcome


def _endpoints(
    manifest: Manifest, connection: Connection, key: str, notify: Callable[[str], None]
) -> tuple[Endpoints, Price | None]:
    settings = manifest.settings
    workers = None if connection.concurrency == "auto" else int(connection.concurrency)
    several = len(connection.base_url) > 1
    prices = _prices(connection, settings["model"])
    members = []
    for base_url, price in zip(connection.base_url, prices, strict=True):
        endpoint = Endpoint(
            base_url=base_url,
            model=settings["model"],
            api_key=key,
            temperature=settings["temperature"],
            top_p=settings["top_p"],
            max_tokens=settings["max_tokens"],
            extra_body=settings["extra_body"],
            timeout_s=connection.timeout,
            # Where there are others, a call that fails goes to them rather than waiting here.
            max_retries=min(1, connection.max_retries) if several else connection.max_retries,
            bounded=connection.max_cost is not None,
            debug_http=connection.debug_http,
        )
        pacer = Pacer(workers, ceiling=AUTO_CEILING, clock=time.monotonic, caps=Caps(connection.rpm, connection.tpm))
        members.append(Member(base_url, OpenAIJudge(endpoint, pacer, meter=Meter(price), notify=notify), pacer))
    return Endpoints(members, clock=time.monotonic, notify=notify), prices[0]


def _prices(connection: Connection, model: str) -> list[Price | None]:
    return prices_of(
        model,
        connection.base_url,
        price_in=connection.price_in,
        price_out=connection.price_out,
        max_cost=connection.max_cost,
    )


def _stop_on_signals(stop: Stop, session: Session, messages: Messages) -> None:
    def asked() -> None:
        if not stop.requested.is_set():
            messages.note(
                f"stopping: {session.stats.in_flight} calls under way may finish, {GRACE_S:g} s at most; once more stops now"
            )
        stop.request()

    loop = asyncio.get_running_loop()
    names = ["SIGINT", "SIGTERM", "SIGHUP"]
    for number in [getattr(signal, name) for name in names if hasattr(signal, name)]:
        if os.name == "nt":
            signal.signal(number, lambda *_: loop.call_soon_threadsafe(asked))
        else:
            loop.add_signal_handler(number, asked)


def _again(store: RunStore, config: RunConfig) -> str:
    return f"robin resume {store.path}" + (f" -o {config.output}" if config.output else "")


def _conclude(store: RunStore, outcome: Outcome, config: RunConfig, messages: Messages) -> None:
    stats = outcome.stats
    took = duration(time.monotonic() - stats.started_at)
    messages.note(
        f"{outcome.spent:,} of {outcome.budget:,} calls spent, {stats.ratings:,} ratings in this session ({took})"
    )
    for kind, counts in (
        ("answers without a rating", stats.unparsed),
        ("calls that failed", stats.failed),
        ("arms given up, because they cannot be rated", outcome.retired),
    ):
        if counts:
            listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
            messages.note(f"{kind}: {listed}")
    messages.note(spent_line(stats, outcome.cost_usd))
    if outcome.interrupted:
        print(f"robin: interrupted; everything received is kept. To go on: {_again(store, config)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if outcome.spent < outcome.budget and not stats.ratings:
        reason = stats.last_failure or ", ".join(sorted(stats.unparsed))
        raise EndpointError(
            f"no call was answered with a rating ({reason}); robin export {store.path} --what judgments has all"
        )
    messages.note(f"run: {store.path}")
