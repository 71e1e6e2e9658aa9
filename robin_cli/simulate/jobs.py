"""Runs jobs on all cores, in processes of their own, which Ctrl-C ends at once."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

_FEW_CALLS = 200_000
"""This number is simulated here sooner than another process can import its modules."""

_Job = TypeVar("_Job")
_Row = TypeVar("_Row")


def rows_of_jobs(
    jobs: Sequence[_Job],
    do: Callable[[_Job], list[_Row]],
    progress: Callable[[int, int], None],
    *,
    calls: int,
) -> list[_Row]:
    """Return the rows of all jobs, in their order.

    Args:
        do: does a job; a function of a module, since other processes import it.
        progress: called with the number of jobs done and of all jobs.
        calls: simulated by all jobs together.
    """
    workers = 1 if calls < _FEW_CALLS else min(os.cpu_count() or 1, len(jobs))
    if workers == 1:
        rows = []
        for number, job in enumerate(jobs, 1):
            rows += do(job)
            progress(number, len(jobs))
        return rows
    # a forked child of a process with threads may hang
    executor = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    # A terminal sends Ctrl-C to all its processes. The workers inherit that they ignore it: this process ends them.
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        futures = [executor.submit(do, job) for job in jobs]
    finally:
        signal.signal(signal.SIGINT, handler)
    try:
        for number, future in enumerate(as_completed(futures), 1):
            future.result()
            progress(number, len(jobs))
    except BaseException as error:
        for process in multiprocessing.active_children():
            process.kill()
        if isinstance(error, BrokenProcessPool):
            why = "a simulation was ended from outside; is there too little memory?"
            raise ChildProcessError(why) from None
        raise
    finally:
        executor.shutdown(cancel_futures=True)
    return [row for future in futures for row in future.result()]
