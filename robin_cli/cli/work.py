"""A session of work at the command line: signals, progress, and a summary."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer

from robin_cli.model.errors import (
    EndpointError,
    LimitReached,
    RobinError,
    RunError,
    StorageError,
    option,
    typed,
)
from robin_cli.model.records import number_of
from robin_cli.run.reader import count_answers
from robin_cli.run.writer import RunWriter
from robin_cli.session.session import Session
from robin_cli.session.stop import GRACE_S, Left, Stop
from robin_cli.session.working import check_rated, work
from robin_cli.settings.resolve import Resolved
from robin_cli.settings.table import Settings
from robin_cli.show.messages import Messages
from robin_cli.show.progress import conclusion, nothing_sent, shown

INTERRUPTED = 130


def spend(
    store: RunWriter, settings: Settings, resolved: Resolved, messages: Messages
) -> list[str]:
    """Work on the open run until its budget is spent; return the cost, in lines.

    Raises:
        RobinError: as the errors of the judge and of the disk; a line saying what is kept was printed.
        typer.Exit: it was interrupted.
    """
    before = {number: signal.getsignal(number) for number in _stopping_signals()}
    session = None
    try:
        session = asyncio.run(
            work(
                store,
                resolved,
                notify=messages.note,
                around=lambda session, stop: _around(session, stop, messages, quiet=settings.quiet),
            )
        )
    except RobinError as error:
        if isinstance(error, EndpointError) and store.never_reached:
            messages.note(
                "nothing was answered, and no run is kept; correct the command, or wait for the server, and run it again"
            )
        elif store.has_answers and not isinstance(error, StorageError | RunError | LimitReached):
            # the message of any other error names the place, or the scores and the next step follow
            if count_answers(store.path)[0]:
                lost = _not_waited_for(store.manifest.sessions[-1].get("in_flight", 0))
                messages.note(
                    f"everything received is kept in {store.path}{lost}; to go on: {again(store, settings)}"
                )
            else:
                elsewhere = " (--base-url for another address)" if settings.at_endpoints else ""
                messages.note(
                    f"nothing was answered; once it can be: {again(store, settings)}{elsewhere}"
                )
        raise
    finally:
        # after an interrupt, another one must not disturb the last writes
        interrupted = session is not None and session.interrupted
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)
    if not session.worked:
        return [nothing_sent(session, store.path)]
    return _concluded(store, session, settings, messages)


@contextmanager
def saying(what: str) -> Iterator[None]:
    """Print ``what`` about the state if a Ctrl-C ends the context."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(what) from None


@contextmanager
def _around(session: Session, stop: Stop, messages: Messages, *, quiet: bool) -> Iterator[None]:
    gc.freeze()  # after all imports: else large collections look through the modules again, and answers wait
    _stop_on_signals(stop, session, messages)
    if messages.console.is_terminal and sys.stdin is not None and sys.stdin.isatty():
        stop.offer = lambda batches: _left(batches, stop, messages)
    with shown(session, messages, quiet=quiet):
        yield


_LEFT = {"c": Left.CANCELLED, "f": Left.FORGOTTEN}


async def _left(batches: int, stop: Stop, messages: Messages) -> Left:
    """Ask the user on the terminal about ``batches``; a second interrupt lets them continue."""
    messages.pause()
    what, it = ("The batch", "it") if batches == 1 else (f"The {batches} batches", "them")
    print(
        f"\nrobin: {what} will go on at the service without robin, and be billed. What is to become of {it}?\n"
        f"  Enter  leave {it} running: robin resume takes {it} up\n"
        f"  c      cancel {it}: what is done by now is billed, and kept\n"
        f"  f      forget {it}, only where the service lost {it}: the calls are made, and paid, again\n"
        "[Enter/c/f] ",
        end="",
        file=sys.stderr,
        flush=True,
    )
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = sys.stdin.readline()
        while line.strip().lower()[:1] not in {"", *_LEFT}:
            print("[Enter/c/f] ", end="", file=sys.stderr, flush=True)
            line = sys.stdin.readline()
        with suppress(RuntimeError):  # nobody waited for it
            loop.call_soon_threadsafe(heard, line)

    def heard(line: str) -> None:
        if not answer.done():
            answer.set_result(line)

    threading.Thread(target=read, daemon=True).start()
    hurry = asyncio.ensure_future(stop.now.wait())
    ended: set[asyncio.Future[Any]] = {answer, hurry}
    await asyncio.wait(ended, return_when=asyncio.FIRST_COMPLETED)
    hurry.cancel()
    said = answer.result().strip().lower() if answer.done() else ""
    return _LEFT.get(said[:1], Left.RUNNING)


def _stop_on_signals(stop: Stop, session: Session, messages: Messages) -> None:
    """Let Ctrl-C, kill and a closing terminal stop the session. Signals ignored from the start stay ignored."""
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if not stop.requested.is_set() and session.under is None:
            messages.note(
                f"stopping: calls under way may finish, {GRACE_S:g} s at most; once more stops now"
            )
        stop.request()

    def on_signal(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: what was received is being put away
            loop.call_soon_threadsafe(asked)

    for number in _stopping_signals():
        signal.signal(number, on_signal)


def _stopping_signals() -> list[int]:
    """Return the signals that stop a run, without those ignored by nohup, or by a shell for its background jobs."""
    numbers = [
        getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
    ]
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


def again(store: RunWriter, settings: Settings) -> str:
    """Return the command that continues a run."""
    on_cluster = f" {option('--ray', settings.ray)}" if settings.ray else ""  # which no run keeps
    return f"robin resume {typed(store.path)}{on_cluster}" + (
        f" -o {typed(settings.output)}" if settings.output else ""
    )


def _not_waited_for(calls: int) -> str:
    return (
        f"; {number_of(calls, 'call')} under way not waited for, which may be on the bill"
        if calls
        else ""
    )


def _concluded(
    store: RunWriter, session: Session, settings: Settings, messages: Messages
) -> list[str]:
    lines = conclusion(session)
    if not session.interrupted and session.stats.ratings:
        return lines
    for line in lines:
        messages.note(line)
    if session.interrupted:
        lost = _not_waited_for(session.stats.dropped)
        print(
            f"robin: interrupted; everything received is kept{lost}. To go on: {again(store, settings)}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    check_rated(session, store.path)
    return []
