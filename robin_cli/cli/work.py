"""A session of work at the command line: signals, progress, and a summary."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

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
    store: RunWriter, settings: Settings, resolved: Resolved, messages: Messages, repeat: str = ""
) -> list[str]:
    """Work on the open run until its budget is spent; return the cost, in lines.

    Args:
        repeat: what to do after an interruption; "" to resume the run.

    Raises:
        RobinError: as the errors of the judge and of the disk; a line saying what is kept was printed.
        typer.Exit: it was interrupted.
    """
    before = {number: signal.getsignal(number) for number in _stopping_signals()}
    session, stop, step = None, Stop(), repeat or again(store, settings)
    try:
        session = asyncio.run(
            work(
                store,
                resolved,
                stop=stop,
                notify=messages.note,
                around=lambda session: _around(session, stop, messages),
            )
        )
    except RobinError as error:
        _note_what_is_kept(error, store, messages, repeat, step)
        raise
    finally:
        # after an interrupt, another one must not disturb the last writes
        interrupted = session is not None and session.interrupted
        for number, handler in before.items():
            signal.signal(number, signal.SIG_IGN if interrupted else handler)
    if not session.worked:
        return [nothing_sent(session, store.path)]
    lines = conclusion(session)
    if not session.interrupted and session.stats.ratings:
        return lines
    for line in lines:
        messages.note(line)
    if session.interrupted:
        lost = _not_waited_for(session.stats.dropped)
        print(
            f"robin: interrupted; everything received is kept{lost}. To go on: {step}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    check_rated(session, store.path)
    return []


def _note_what_is_kept(
    error: RobinError, store: RunWriter, messages: Messages, repeat: str, step: str
) -> None:
    if isinstance(error, EndpointError) and store.never_reached:
        messages.note(
            f"nothing was answered; correct the command, or wait for the server, and {repeat or 'run it again'}"
        )
    elif not store.has_answers or isinstance(error, StorageError | RunError | LimitReached):
        pass  # the message names the place, or the scores and the next step follow
    elif count_answers(store.path)[0]:
        lost = _not_waited_for(store.manifest.sessions[-1].get("in_flight", 0))
        messages.note(f"everything received is kept in {store.path}{lost}; to go on: {step}")
    else:
        elsewhere = ""
        if store.manifest.settings["base_url"]:
            elsewhere = " (--base-url for another address)"
        messages.note(f"nothing was answered; once it can be: {step}{elsewhere}")


@contextmanager
def saying(what: str) -> Iterator[None]:
    """Print ``what`` about the state if a Ctrl-C ends the context."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(what) from None


@contextmanager
def _around(session: Session, stop: Stop, messages: Messages) -> Iterator[None]:
    """Let Ctrl-C, kill and a closing terminal stop the session, and show its progress."""
    gc.freeze()  # after all imports: else large collections look through the modules again, and answers wait
    loop = asyncio.get_running_loop()

    def request() -> None:
        if not stop.requested.is_set() and session.under is None:
            messages.note(
                f"stopping: calls under way may finish, {GRACE_S:g} s at most; once more stops now"
            )
        stop.request()

    def on_signal(*_: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: what was received is being put away
            loop.call_soon_threadsafe(request)

    for number in _stopping_signals():
        signal.signal(number, on_signal)
    if messages.console.is_terminal and sys.stdin is not None and sys.stdin.isatty():
        stop.offer = lambda batches: _fate_of(batches, stop, messages)
    with shown(session, messages, quiet=messages.quiet):
        yield


def _stopping_signals() -> list[int]:
    """Return the signals that stop a run, without those ignored by nohup, or by a shell for its background jobs."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]


async def _fate_of(batches: int, stop: Stop, messages: Messages) -> Left:
    """Ask the user on the terminal about ``batches``; a second interrupt lets them continue."""
    messages.pause()
    what, it = ("The batch", "it") if batches == 1 else (f"The {batches} batches", "them")
    print(
        f"\nrobin: {what} will go on at the service without robin, and be billed. What is to become of {it}?\n"
        f"  Enter  leave {it} running: robin resume takes {it} up\n"
        f"  c      cancel {it}: what is done by now is billed, and kept\n"
        f"  f      forget {it}, only where the service lost {it}: the calls are made, and paid, again",
        file=sys.stderr,
    )
    loop, typed_line = asyncio.get_running_loop(), asyncio.Event()
    hurry = asyncio.ensure_future(stop.now.wait())
    loop.add_reader(0, typed_line.set)
    fates = {"": Left.RUNNING, "c": Left.CANCELLED, "f": Left.FORGOTTEN}
    try:
        while not stop.now.is_set():
            print("[Enter/c/f] ", end="", file=sys.stderr, flush=True)
            line = asyncio.ensure_future(typed_line.wait())
            await asyncio.wait({line, hurry}, return_when=asyncio.FIRST_COMPLETED)
            line.cancel()
            if typed_line.is_set():
                typed_line.clear()
                fate = fates.get(sys.stdin.readline().strip().lower()[:1])
                if fate is not None:
                    return fate
    finally:
        loop.remove_reader(0)
        hurry.cancel()
    return Left.RUNNING


def again(store: RunWriter, settings: Settings) -> str:
    """Return the command that continues a run."""
    on_cluster = f" {option('--ray', settings.ray)}" if settings.ray else ""  # which no run keeps
    output = f" -o {typed(settings.output)}" if settings.output else ""
    return f"robin resume {typed(store.path)}{on_cluster}{output}"


def _not_waited_for(calls: int) -> str:
    if not calls:
        return ""
    return f"; {number_of(calls, 'call')} under way not waited for, which may be on the bill"
