"""Early stops of a run, and the cancelling of its tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from enum import Enum
from typing import Any

GRACE_S = 10.0
"""How long calls under way may take after the run was asked to stop."""

UNWILLING_S = 2.0
"""How long cancelled tasks may take to end. A package's judge may ignore the cancelling; the run ends all the same."""


class Left(Enum):
    """The fate of batches under way when a run is stopped."""

    RUNNING = "running"
    CANCELLED = "cancelled"
    FORGOTTEN = "forgotten"
    """Their answers are not expected any more, and their calls are made again: some services lose batches."""


class Stop:
    """The request to end a run early: asked once, it lets calls under way finish; asked twice, it drops them.

    Attributes:
        offer: asks the user about the fate of so many batches under way; None if nobody can be asked.
    """

    def __init__(self) -> None:
        self.offer: Callable[[int], Awaitable[Left]] | None = None
        self.requested = asyncio.Event()
        self.now = asyncio.Event()

    def request(self) -> None:
        """Ask to stop, or, asked again, to stop at once."""
        (self.now if self.requested.is_set() else self.requested).set()


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel ``tasks``; abandon, and return, those that do not end: the process does not wait for them either."""
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
