"""Runs jobs on all cores, in processes of their own, which Ctrl-C ends at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import TypeVar

_FEW_CALLS = 200_000
"""This number is simulated here sooner than another process can import its modules."""

_Job = TypeVar("_Job")
_Found = TypeVar("_Found")


def jobs_done(
    jobs: Sequence[_Job],
    one: Callable[[_Job], list[_Found]],
    progress: Callable[[int, int], None],
    *,
    calls: int,
) -> list[_Found]:
    """Return the rows of all jobs, in their order, done on all cores.

    Args:
        one: does a job; a function of a module, since other processes import it.
        progress: called with the number of parts done and of all parts.
        calls: simulated by all jobs together.
    """
    parts: dict[int, list[_Found]] = {}
    workers = 1 if calls < _FEW_CALLS else min(os.cpu_count() or 1, len(jobs))
    for number, rows in _parts(jobs, one, workers):
        parts[number] = rows
        progress(len(parts), len(jobs))
    return [row for number in range(len(jobs)) for row in parts[number]]


def _parts(
    jobs: Sequence[_Job], one: Callable[[_Job], list[_Found]], workers: int
) -> Iterator[tuple[int, list[_Found]]]:
    """Yield each job's number and rows as they come.

    This process uses no thread and no lock, so that Ctrl-C never waits.
    """
    if workers == 1:
        yield from enumerate(map(one, jobs))
        return
    # a forked child of a process with threads may hang
    context = multiprocessing.get_context("spawn")
    waiting, processes, at_work = iter(enumerate(jobs)), [], {}
    try:
        with (
            interrupts_held()
        ):  # a terminal sends Ctrl-C to all its processes, and only this one may handle it
            idle = []
            for _ in range(workers):
                link, theirs = context.Pipe()
                process = context.Process(target=_work, args=(theirs, one), daemon=True)
                process.start()
                processes.append(process)
                theirs.close()
                idle.append(link)
        while True:
            for link, (number, job) in zip(idle, waiting, strict=False):
                link.send(job)
                at_work[link] = number
            if not at_work:
                return
            idle = [link for link in wait(list(at_work)) if isinstance(link, Connection)]
            for link in idle:
                yield at_work.pop(link), link.recv()
    except EOFError:
        raise ChildProcessError(
            "a simulation was ended from outside; is there too little memory?"
        ) from None
    finally:
        for process in processes:
            process.kill()
            process.join()


def _work(link: Connection, one: Callable[[_Job], list[_Found]]) -> None:
    """Answer each job with its rows, until the link closes."""
    with suppress(EOFError):
        while True:
            link.send(one(link.recv()))


@contextmanager
def interrupts_held() -> Iterator[None]:
    """Hold Ctrl-C back during the context; processes started in it never receive it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(
        signal, "pthread_sigmask"
    ):
        yield  # Ctrl-C is raised in the main thread only
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # the first process would start it, which unblocks Ctrl-C again
    held: list[int] = []
    # numpy's threads do not block it
    handler = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # the processes inherit this
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if held:
        signal.raise_signal(signal.SIGINT)
