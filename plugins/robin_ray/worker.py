"""The worker, an actor on any machine: it makes requests as they come, and returns their outcomes in groups."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from robin_cli import __version__
from robin_cli.judges.descriptors import most_connections
from robin_cli.judges.judge import Judge
from robin_cli.model.errors import RobinError, RunError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.session.targets import Target, asked_here

HEARTBEAT_S = 3.0
"""The longest time between a worker's messages."""

GROUP, GATHERING_S = 64, 0.03
"""A message costs as much CPU as several calls: outcomes wait so long for each other, unless there are so many."""


class RemoteRequest(NamedTuple):
    """A request to the target of this number; ``number`` is unique in a session."""

    number: int
    target: int
    question: Question


class RemoteResult(NamedTuple):
    """The outcome of the request ``number``; an error if every other request would fail like it.

    Attributes:
        most_samples: the most ratings in one reply of its target, as far as is known.
    """

    number: int
    outcome: Reply | Failure | RobinError
    most_samples: int


class Worker:
    """Make requests. All methods run in one event loop.

    Args:
        folder: the new working folder of its process; "" keeps the old one.
    """

    def __init__(self, folder: str = "") -> None:
        if folder:
            os.chdir(folder)
        self.judges: list[Judge] = []
        self._results: list[RemoteResult] = []
        self._notes: list[str] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._running = 0
        self._any, self._enough = asyncio.Event(), asyncio.Event()

    async def version(self) -> str:
        """Return the version of robin on this machine."""
        return __version__

    async def set_up(self, targets: Sequence[Target], keys: Sequence[str]) -> None:
        """Make the judges at ``targets``, each with its key."""
        at_a_time = max(target.options.at_a_time for target in targets)
        most = most_connections(at_a_time * len(targets), self._notes.append)
        self._room = asyncio.Semaphore(most)
        self.judges = [asked_here(*pair, self._note) for pair in zip(targets, keys, strict=True)]

    async def take(self, requests: Sequence[RemoteRequest]) -> None:
        """Begin ``requests``; :meth:`results` returns what comes of them."""
        self._running += len(requests)
        for request in requests:
            task = asyncio.create_task(self._make(*request))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def results(self) -> tuple[list[RemoteResult], list[str]]:
        """Return results, and lines for the user, once there are some; after HEARTBEAT_S also none."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HEARTBEAT_S):
                await self._any.wait()
        if self._results and self._running:
            with suppress(TimeoutError):
                async with asyncio.timeout(GATHERING_S):
                    await self._enough.wait()
        results, self._results = self._results, []
        notes, self._notes = self._notes, []
        self._any.clear()
        self._enough.clear()
        return results, notes

    async def _make(self, number: int, target: int, question: Question) -> None:
        judge, most = self.judges[target], 1
        outcome: Reply | Failure | RobinError
        try:
            async with self._room:
                outcome = await judge.ask(question)
            most = judge.most_samples
        except RobinError as error:
            outcome = error
        except Exception as error:  # noqa: BLE001  # no error may be lost
            # Its class may be unknown where the calls are chosen.
            why = f"{type(error).__name__}: {error}"
            outcome = RunError(f"a worker failed in making a call ({why})")
        self._results.append(RemoteResult(number, outcome, most))
        self._running -= 1
        self._any.set()
        if not self._running or len(self._results) >= GROUP:
            self._enough.set()

    def _note(self, line: str) -> None:
        self._notes.append(line)
        self._any.set()
