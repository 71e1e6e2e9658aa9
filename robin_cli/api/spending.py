"""Spend a budget from Python: in a thread with its own event loop, which Ctrl-C stops gently."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Mapping, Set
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from robin_cli.data.remote import scheme_of
from robin_cli.goals.making import goal_of_run
from robin_cli.judges.functions import Function, naming
from robin_cli.model.errors import InputError, did_you_mean, typed
from robin_cli.run.manifest import FILE, read_manifest
from robin_cli.run.reader import count_answers, read_run
from robin_cli.run.writer import RunWriter
from robin_cli.session.session import Session
from robin_cli.session.stop import Stop
from robin_cli.session.working import check_rated, work
from robin_cli.settings.reading import checked, from_home
from robin_cli.settings.resolve import Resolved
from robin_cli.settings.table import IN_PYTHON, TABLE
from robin_cli.show.messages import Messages
from robin_cli.show.progress import conclusion, nothing_sent, shown


def check_names(names: Set[str], known: Set[str]) -> None:
    """Raise InputError for the first of ``names`` that is not a setting."""
    if unknown := sorted(names - known):
        raise InputError(f'no setting "{unknown[0]}"{did_you_mean(unknown[0], known)}')


def checked_keywords(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return keywords as settings; files may be paths, from the home folder too."""
    files = {name for name in settings.keys() & TABLE.keys() if TABLE[name].file}
    named = {name: str(settings[name]) for name in files if isinstance(settings[name], (str, Path))}
    paths = {
        name: value if scheme_of(value) else str(from_home(value)) for name, value in named.items()
    }
    return checked({**settings, **paths})


class _Stopper:
    """Pass a Ctrl-C from the waiting thread to the working loop."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: Stop | None = None
        self._times = 0
        self._lock = threading.Lock()

    @contextmanager
    def around(self, stop: Stop) -> Iterator[None]:
        with self._lock:
            self._loop, self._stop = asyncio.get_running_loop(), stop
            for _ in range(self._times):  # asked before there was anything to stop
                stop.request()
        try:
            yield
        finally:
            with self._lock:
                self._loop = None

    def wait_for(self, future: Future[Session], messages: Messages) -> tuple[Session, bool]:
        """Return the work's result, and whether it was interrupted."""
        interrupted = False
        while True:
            try:
                return future.result(), interrupted
            except KeyboardInterrupt:
                interrupted = True
                messages.note("stopping: calls under way may finish; once more stops now")
                self.request()

    def request(self) -> None:
        with self._lock:
            self._times += 1
            if self._loop is not None and self._stop is not None:
                self._loop.call_soon_threadsafe(self._stop.request)


def handed_over(
    judge: str | Function | None, settings: dict[str, Any]
) -> tuple[Function | None, dict[str, Any]]:
    """Return the function that is the judge, if any, and the settings with its name."""
    if judge is None:
        return None, settings
    if isinstance(judge, str):
        return None, {**settings, "judge": judge}
    if not callable(judge):
        raise InputError(
            f"judge: is {type(judge).__name__}; give a function from messages to text, or a judge's name"
        )
    return judge, {**settings, "judge": IN_PYTHON + naming(judge)[0]}


def check_same(function: Function | None, judge: str, run: Path, messages: Messages) -> None:
    """Raise InputError if nothing shows whether ``function`` is the judge of the answers in ``run``."""
    if function is None or naming(function)[1]:
        return
    name = judge.removeprefix(IN_PYTHON)
    unnamed = f"the judge {name} has no name of its own (a lambda, a closure or an object)"
    if not (run / FILE).exists():
        messages.note(
            f"note: {unnamed}: to go on with its run later, give it one: its attribute name, a text"
        )
    elif read_manifest(run).own_settings["judge"] == judge and count_answers(run)[0]:
        raise InputError(
            f"{run}: {unnamed}, so nothing tells whether it is the one that answered here before. If it is, say so, "
            f'judge.name = "{name}", and go on; for another, start a new run'
        )


def spend(
    store: RunWriter,
    resolved: Resolved,
    messages: Messages,
    function: Function | None,
    *,
    quiet: bool,
) -> None:
    """Work until the budget is spent, in a thread with its own event loop, because a notebook's is already running."""
    stopper = _Stopper()

    @contextmanager
    def around(session: Session, stop: Stop) -> Iterator[None]:
        with stopper.around(stop), shown(session, messages, quiet=quiet):
            yield

    working = work(store, resolved, notify=messages.note, around=around, function=function)
    with ThreadPoolExecutor(1, thread_name_prefix="robin") as pool:
        session, interrupted = stopper.wait_for(pool.submit(asyncio.run, working), messages)
    if session.worked:
        for line in conclusion(session):
            messages.note(line)
    if interrupted:
        messages.note(f"everything received is kept; to go on: robin resume {typed(store.path)}")
        raise KeyboardInterrupt
    if session.worked:
        check_rated(session, store.path)
    else:
        messages.note(nothing_sent(session, store.path))
    found = goal_of_run(run := read_run(store.path)).found(run)
    for line in (*found.asides, *found.ends_with()):
        messages.note(line)
