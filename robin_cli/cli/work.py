"""Wiring for a session of work: endpoint, pacer, judge, signals, progress, and what is said at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import typer
from rich.console import Console

from robin_cli.config import RunConfig, api_key, endpoint_of
from robin_cli.errors import EndpointError, RobinError
from robin_cli.judging.openai_judge import Endpoint, OpenAIJudge
from robin_cli.judging.pacing import Pacer
from robin_cli.output.progress import Messages, duration, shown
from robin_cli.runs.engine import GRACE_S, Stop
from robin_cli.runs.manifest import Manifest
from robin_cli.runs.opening import cautions
from robin_cli.runs.session import AUTO_CEILING, Outcome, Session
from robin_cli.runs.store import RunStore

INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Connection:
    """How a session reaches its judge; may differ between the sessions of a run, and is recorded with each."""

    base_url: str
    api_key_env: str
    concurrency: str
    timeout: float
    max_retries: int


def connection_of(config: RunConfig) -> Connection:
    """The part of ``config`` that says how to reach the judge."""
    values = {each.name: getattr(config, each.name) for each in fields(Connection)}
    return Connection(**{**values, "base_url": endpoint_of(config)[0]})


def last_connection(manifest: Manifest) -> dict[str, Any]:
    """How the last session of a run reached its judge, and which model that was, by names of RunConfig."""
    session: Mapping[str, Any] = manifest.sessions[-1] if manifest.sessions else {}
    known = {each.name for each in fields(Connection)}
    recorded = {name: value for name, value in session.items() if name in known}
    return {"base_url": manifest.settings["base_url"], **recorded, "model": manifest.settings["model"]}


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
    arms = store.manifest.data["pairs"] * len(store.manifest.attributes)
    for caution in cautions(store.manifest, arms, store.variances, has_key=key != "none"):
        messages.note(f"note: {caution}")
    store.set_manifest(
        store.manifest.with_session(**{each.name: getattr(connection, each.name) for each in fields(connection)})
    )
    try:
        outcome = asyncio.run(_work(store, connection, key, messages, quiet=config.quiet))
    except RobinError:
        if store.has_answers:
            messages.note(f"everything received is kept in {store.path}; to go on: {_again(store, config)}")
        raise
    _conclude(store, outcome, config, messages)


async def _work(store: RunStore, connection: Connection, key: str, messages: Messages, *, quiet: bool) -> Outcome:
    stop = Stop()
    workers = None if connection.concurrency == "auto" else int(connection.concurrency)
    pacer = Pacer(workers, ceiling=AUTO_CEILING, clock=time.monotonic)
    judge = OpenAIJudge(
        _endpoint(store.manifest, connection, key), pacer, notify=lambda line: messages.note(f"note: {line}")
    )
    session = Session(store, judge, pacer, stop)
    if session.budget.exhausted:
        await judge.aclose()
        messages.note(
            f"all {session.budget.total:,} calls are spent already; for more: robin resume {store.path} --budget N"
        )
        return Outcome(session.budget.spent, session.budget.total, 0, interrupted=False, stats=session.stats)
    _stop_on_signals(stop, session, messages)
    try:
        with shown(session, messages, quiet=quiet):
            return await session.work()
    finally:
        store.set_manifest(store.manifest.with_session_end(in_flight=session.dropped))


def _endpoint(manifest: Manifest, connection: Connection, key: str) -> Endpoint:
    settings = manifest.settings
    return Endpoint(
        base_url=connection.base_url,
        model=settings["model"],
        api_key=key,
        temperature=settings["temperature"],
        top_p=settings["top_p"],
        max_tokens=settings["max_tokens"],
        extra_body=settings["extra_body"],
        timeout_s=connection.timeout,
        max_retries=connection.max_retries,
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
    for kind, counts in (("answers without a rating", stats.unparsed), ("calls that failed", stats.failed)):
        if counts:
            listed = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
            messages.note(f"{kind}: {listed}")
    if stats.unparsed["truncated"] > 0.05 * (stats.ratings + sum(stats.unparsed.values())):
        messages.note(
            "many answers were cut off before the rating: raise --max-tokens (in a new run), above all for models that think"
        )
    if outcome.retired:
        messages.note(f"{outcome.retired} arms could not be rated and were given up: see robin status {store.path}")
    if outcome.interrupted:
        print(f"robin: interrupted; everything received is kept. To go on: {_again(store, config)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if outcome.spent < outcome.budget and not stats.ratings:
        reason = stats.last_failure or ", ".join(sorted(stats.unparsed))
        raise EndpointError(
            f"no call was answered with a rating ({reason}); robin export {store.path} --what judgments has all"
        )
    messages.note(f"run: {store.path}")
