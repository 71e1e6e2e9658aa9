"""How a run is asked to end before it is finished, and how its tasks are ended."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any

GRACE_S = 10.0
"""How long calls under way may still take after the run was asked to stop."""

UNWILLING_S = 2.0
"""How long what was cancelled may take to end. A judge of somebody else's may swallow it; the run ends all the same."""


class Left(Enum):
    """What is to become of batches that a run is stopped before the end of."""

    RUNNING = "running"
    CANCELLED = "cancelled"
    FORGOTTEN = "forgotten"
    """Nothing is expected of them any more, and their calls are made again: some services lose batches."""


class Stop:
    """How a run is asked to end early: once, it lets calls under way finish; twice, it drops them.

    Attributes:
        offer: asks whoever stopped it what is to become of so many batches that would go on without it; None where nobody can
            be asked.
    """

    def __init__(self) -> None:
        self.offer: Callable[[int], Awaitable[Left]] | None = None
        self.requested = asyncio.Event()
        self.now = asyncio.Event()

    def request(self) -> None:
        """Ask to stop, or, asked again, to stop at once."""
        (self.now if self.requested.is_set() else self.requested).set()


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel ``tasks``, and let go of those that do not end: nobody waits for them, nor does the process. Returns these."""
    asked = set(tasks)
    for task in asked:
        task.cancel()
    if not asked:
        return asked
    _, unwilling = await asyncio.wait(asked, timeout=UNWILLING_S)
    for task in unwilling:
        asyncio._unregister_task(task)  # noqa: SLF001  # in asyncio's documentation; asyncio.run() would wait for it
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # as gather() says that it is meant
    return unwilling
