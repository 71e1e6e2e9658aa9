"""Work on a run from Python: in the caller's event loop, or in a thread that Ctrl-C stops gently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from robin_cli.goals.registry import goal_of_run
from robin_cli.judges.functions import Function, naming
from robin_cli.model.errors import InputError, typed
from robin_cli.run.manifest import FILE, read_manifest
from robin_cli.run.reader import count_answers, read_run
from robin_cli.run.writer import RunWriter
from robin_cli.session.checking import check_judges
from robin_cli.session.session import Session
from robin_cli.session.stop import Stop
from robin_cli.session.working import check_rated, work
from robin_cli.settings.resolve import Resolved, resolve
from robin_cli.settings.table import IN_PYTHON, Settings
from robin_cli.show.messages import Messages, messages_for
from robin_cli.show.progress import conclusion, nothing_sent, shown

Judge = str | Function | None


def with_judge(settings: dict[str, Any], judge: Judge) -> dict[str, Any]:
    """Return ``settings`` with the name of the judge, if there is one."""
    if judge is None:
        return settings
    if isinstance(judge, str):
        return {**settings, "judge": judge}
    if not callable(judge):
        raise InputError(
            f"judge: is {type(judge).__name__}; give a function from messages to text, or a judge's "
            "name"
        )
    return {**settings, "judge": IN_PYTHON + naming(judge)[0]}


@dataclass(frozen=True)
class Work:
    """The work on an open run, until its budget is spent."""

    store: RunWriter
    resolved: Resolved
    messages: Messages
    function: Function | None

    async def run_here(self) -> None:
        """Work in the running event loop.

        Raises:
            CancelledError: after calls under way have finished, in 10 s at most; after a second one, at once.
        """
        stop, interrupted = Stop(), None
        working = asyncio.ensure_future(self._work(stop))
        while not working.done():
            try:
                await asyncio.shield(working)
            except asyncio.CancelledError:
                interrupted = asyncio.CancelledError
                stop.request()
        self._conclude(working.result(), interrupted)

    def run(self) -> None:
        """Work in a thread with its own event loop, because a notebook's is already running.

        Raises:
            KeyboardInterrupt: after calls under way have finished; after a second one, at once.
        """
        stop, session, interrupted = Stop(), None, None
        runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
        loop = runner.get_loop()

        def run_in_thread() -> Session:
            with runner:
                return runner.run(self._work(stop))

        with ThreadPoolExecutor(1, thread_name_prefix="robin") as pool:
            ended = pool.submit(run_in_thread)
            while session is None:
                try:
                    session = ended.result()
                except KeyboardInterrupt:
                    interrupted = KeyboardInterrupt
                    self.messages.note("stopping: calls under way may finish; once more stops now")
                    with suppress(RuntimeError):  # the loop is closed: the work has ended
                        loop.call_soon_threadsafe(stop.request)
        self._conclude(session, interrupted)

    async def _work(self, stop: Stop) -> Session:
        return await work(
            self.store,
            self.resolved,
            stop=stop,
            notify=self.messages.note,
            around=lambda session: shown(session, self.messages, quiet=self.messages.quiet),
            function=self.function,
        )

    def _conclude(self, session: Session, interrupted: type[BaseException] | None) -> None:
        """Print the end of the session, then the answer, or raise ``interrupted``. EndpointError if no call gave a rating."""
        note, path = self.messages.note, self.store.path
        for line in conclusion(session) if session.worked else [nothing_sent(session, path)]:
            note(line)
        if interrupted is not None:
            note(f"everything received is kept; to go on: robin resume {typed(path)}")
            raise interrupted
        if session.worked:
            check_rated(session, path)
        results = goal_of_run(run := read_run(path)).result(run)
        for line in (*results.asides, *results.ends_with()):
            note(line)


@contextmanager
def opened(
    settings: Settings,
    judge: Judge,
    run: Path,
    open_store: Callable[[Resolved, Messages], RunWriter],
) -> Iterator[Work]:
    """Open a run for work by ``judge``.

    Args:
        run: its folder, where it may be already.
        open_store: opens it, once its judges can be asked.

    Raises:
        InputError: the judges cannot be asked, or may not be those that answered before.
    """
    function = judge if callable(judge) else None
    resolved = resolve(settings)
    check_judges(resolved, is_function=function is not None)
    messages = messages_for(quiet=settings.quiet, notebook=True)
    for line in settings.source.notes:
        messages.note(line)
    if function is not None and not naming(function)[1]:
        _check_same(settings.judge, run, messages)
    with open_store(resolved, messages) as store:
        yield Work(store, resolved, messages, function)


def _check_same(judge: str, run: Path, messages: Messages) -> None:
    """Raise InputError if nothing shows whether the function ``judge`` gave the answers in ``run``."""
    name = judge.removeprefix(IN_PYTHON)
    unnamed = f"the judge {name} has no name of its own (a lambda, a closure or an object)"
    if not (run / FILE).exists():
        messages.note(
            f"note: {unnamed}: to go on with its run later, give it one: its attribute name, a text"
        )
    elif read_manifest(run).own_settings["judge"] == judge and count_answers(run)[0]:
        raise InputError(
            f"{run}: {unnamed}, so nothing tells whether it is the one that answered here before. "
            f'If it is, say so, judge.name = "{name}", and go on; for another, start a new run'
        )
