"""A session of work at the command line: signals, progress, and what is said at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from robin_cli.config import RunConfig
from robin_cli.errors import LimitReached, RobinError, StorageError
from robin_cli.judges import api_keys
from robin_cli.output.messages import Messages
from robin_cli.output.progress import conclusion, shown
from robin_cli.runs.connection import Connection
from robin_cli.runs.engine import GRACE_S, Stop
from robin_cli.runs.session import Outcome, Session
from robin_cli.runs.store import RunStore
from robin_cli.runs.work import check_rated, work

INTERRUPTED = 130


def spend(
    store: RunStore, connection: Connection, config: RunConfig, messages: Messages, *, pilot: bool = False
) -> None:
    """Work on the open run until its budget is spent; say how it ended and what to do next.

    Args:
        pilot: more budget is to come.

    Raises:
        RobinError: as the errors of the judge and of the disk; a line saying what is kept was printed.
        typer.Exit: it was interrupted.
    """
    keys = api_keys(config)
    try:
        outcome = asyncio.run(
            work(
                store,
                connection,
                keys,
                notify=messages.note,
                around=lambda session, stop: _around(session, stop, messages, quiet=config.quiet),
                cautious=not pilot,
            )
        )
    except RobinError as error:
        if store.has_answers and not isinstance(error, StorageError):  # which says itself what is where
            more = " --max-cost MORE" if isinstance(error, LimitReached) else ""
            messages.note(f"everything received is kept in {store.path}; to go on: {_again(store, config)}{more}")
        raise
    if outcome is None and pilot:
        messages.note(f"the pilot {store.path} is made already: nothing was sent")
        return
    if outcome is None:
        messages.note(
            f"all {store.manifest.budget:,} calls are spent already; for more: robin resume {store.path} --budget N"
        )
        return
    _conclude(store, outcome, config, messages)


@contextmanager
def _around(session: Session, stop: Stop, messages: Messages, *, quiet: bool) -> Iterator[None]:
    _stop_on_signals(stop, session, messages)
    with shown(session, messages, quiet=quiet):
        yield


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
    for line in conclusion(outcome):
        messages.note(line)
    if outcome.interrupted:
        print(f"robin: interrupted; everything received is kept. To go on: {_again(store, config)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    check_rated(outcome, store.path)
    messages.note(f"run: {store.path}")
