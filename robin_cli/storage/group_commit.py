"""Group commit: an answer is written the moment it comes, and many of them share one sync."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from robin_cli.model.records import Judgment

_MIN_INTERVAL_S = 0.005
"""Answers that arrive this close together share one sync; none waits longer for company."""


Then = Callable[[BaseException | None], None]


class GroupCommit:
    """Writes answers as they come, syncs them in groups, in a thread, and says when they are on disk.

    Args:
        write: hands judgments to the operating system or raises; called on the event loop.
        sync: waits until all that was written is on disk or raises; called by one thread, one call at a time.
        alone: whether no answer can arrive before so many that wait are committed: then there is no use in waiting.
    """

    def __init__(
        self, write: Callable[[Sequence[Judgment]], None], sync: Callable[[], None], *, alone: Callable[[int], bool]
    ) -> None:
        self._write = write
        self._sync = sync
        self._alone = alone
        self._waiting: list[Then] = []
        self._syncing: asyncio.Task[None] | None = None
        self._last = float("-inf")
        # Its thread is started now: what was paid for must not be lost for want of one, or of a file to load it from.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="robin-journal")
        self._thread.submit(time.monotonic)

    def commit(self, judgments: Sequence[Judgment], then: Then) -> None:
        """Write ``judgments``; ``then`` is called, on the event loop, with None once they are on disk, or with what failed."""
        try:
            self._write(judgments)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is for those who wait
            asyncio.get_running_loop().call_soon(then, error)
            return
        self._waiting.append(then)
        if self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync_all())

    async def drain(self) -> None:
        """Wait until everything handed in is on disk or has failed, and all who wait were told; then it is over."""
        await asyncio.sleep(0)  # those whose answer was not taken
        while self._syncing is not None:
            await asyncio.shield(self._syncing)
        self._thread.shutdown(wait=False)

    async def _sync_all(self) -> None:
        try:
            while self._waiting:
                wait_s = self._last + _MIN_INTERVAL_S - time.monotonic()
                if wait_s > 0 and not self._alone(len(self._waiting)):
                    await asyncio.sleep(wait_s)
                await self._sync_group()
                self._last = time.monotonic()
        finally:
            self._syncing = None

    async def _sync_group(self) -> None:
        group, self._waiting = self._waiting, []
        failed: BaseException | None = None
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._sync)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is for those who wait
            failed = error
            # What was written since may have been taken back with these.
            group, self._waiting = group + self._waiting, []
        for then in group:
            then(failed)
