"""Group commit: many answers, one write to disk."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from robin_cli.records import Judgment

_MIN_INTERVAL_S = 0.005
"""Answers that arrive this close together share one write; none waits longer for company."""


Then = Callable[[BaseException | None], None]


class Committer:
    """Hands answers to ``write`` in batches, one at a time, in a thread, and says when they are on disk.

    Args:
        write: keeps judgments durably or raises; called by one thread at a time.
        alone: whether no answer can arrive before those waiting are committed: then there is no use in waiting.
    """

    def __init__(self, write: Callable[[Sequence[Judgment]], None], *, alone: Callable[[int], bool]) -> None:
        self._write = write
        self._alone = alone
        self._queue: list[tuple[Sequence[Judgment], Then]] = []
        self._writer: asyncio.Task[None] | None = None
        self._last = float("-inf")
        # Its thread is started now: what was paid for must not be lost for want of one, or of a file to load it from.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="robin-journal")
        self._thread.submit(time.monotonic)

    def commit(self, judgments: Sequence[Judgment], then: Then) -> None:
        """Write ``judgments``; ``then`` is called, on the event loop, with None once they are on disk, or with what failed."""
        self._queue.append((judgments, then))
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all())

    async def drain(self) -> None:
        """Wait until everything handed in has been written or has failed, and all who wait were told; then it is over."""
        while self._writer is not None:
            await asyncio.shield(self._writer)
        self._thread.shutdown(wait=False)

    async def _write_all(self) -> None:
        try:
            while self._queue:
                wait_s = self._last + _MIN_INTERVAL_S - time.monotonic()
                if wait_s > 0 and not self._alone(len(self._queue)):
                    await asyncio.sleep(wait_s)
                batch, self._queue = self._queue, []
                await self._write_batch(batch)
                self._last = time.monotonic()
        finally:
            self._writer = None

    async def _write_batch(self, batch: Sequence[tuple[Sequence[Judgment], Then]]) -> None:
        failed: BaseException | None = None
        try:
            judgments = [judgment for judgments, _ in batch for judgment in judgments]
            await asyncio.get_running_loop().run_in_executor(self._thread, self._write, judgments)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is for those who wait
            failed = error
        for _, then in batch:
            then(failed)
