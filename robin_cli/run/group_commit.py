"""Group commit: answers are written the moment they come, and share syncs. While the disk is full, they wait in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from robin_cli.model.errors import DiskFull
from robin_cli.model.records import Judgment

_MIN_INTERVAL_S = 0.005
"""Answers that arrive within this time share one sync; none waits longer for others."""
RETRY_S = 5.0
"""The time between two attempts to write to a full disk."""

_WAITS = (
    f"No more is asked, answers wait in memory, and robin tries again every {RETRY_S:g} s: make room. Ctrl-C ends the run "
    "without them"
)

Then = Callable[[BaseException | None], None]


class GroupCommit:
    """Writes answers as they come, syncs them in groups in a thread, and reports when they are on disk.

    Args:
        write: hands judgments to the operating system or raises; called on the event loop.
        sync: waits until all that was written is on disk or raises; called by one thread, one call at a time. After DiskFull,
            the next call writes what is missing.
        alone: returns whether no other answer can arrive before those that wait are committed: then waiting is of no use.
        stop: ends the attempts to write to a full disk.
        notify: gets a line when the disk is full, and one when there is room again.
    """

    def __init__(
        self,
        write: Callable[[Sequence[Judgment]], None],
        sync: Callable[[], None],
        *,
        alone: Callable[[], bool],
        stop: asyncio.Event,
        notify: Callable[[str], None],
    ) -> None:
        self._write = write
        self._sync = sync
        self._alone = alone
        self._stop, self._notify = stop, notify
        self._waiting: list[Then] = []
        self._syncing: asyncio.Task[None] | None = None
        self._last = float("-inf")
        # The thread starts now: when answers wait, the process may be out of threads or file descriptors.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="robin-journal")
        self._thread.submit(time.monotonic)

    def commit(self, judgments: Sequence[Judgment], then: Then) -> None:
        """Write ``judgments``; call ``then`` on the event loop with None once they are on disk, or with the error."""
        try:
            self._write(judgments)
        except Exception as error:  # noqa: BLE001  # the caller's callback gets it
            asyncio.get_running_loop().call_soon(then, error)
            return
        self._waiting.append(then)
        if self._syncing is None:
            self._syncing = asyncio.get_running_loop().create_task(self._sync_all())

    async def drain(self) -> None:
        """Wait until all answers are on disk or have failed, and every callback was called; then end the thread."""
        await asyncio.sleep(0)  # for the callbacks of failed writes
        while self._syncing is not None:
            await asyncio.shield(self._syncing)
        self._thread.shutdown(wait=False)

    async def _sync_all(self) -> None:
        try:
            while self._waiting:
                wait_s = self._last + _MIN_INTERVAL_S - time.monotonic()
                if wait_s > 0 and not self._alone():
                    await asyncio.sleep(wait_s)
                group, self._waiting, failed = self._waiting, [], None
                try:
                    await self._sync_when_there_is_room()
                except Exception as error:  # noqa: BLE001  # the callers' callbacks get it
                    group, self._waiting, failed = group + self._waiting, [], error
                for then in group:
                    then(failed)
                self._last = time.monotonic()
        finally:
            self._syncing = None

    async def _sync_when_there_is_room(self) -> None:
        """Sync. While the disk is full, try again every RETRY_S, until the run is asked to stop."""
        is_full = False
        while True:
            try:
                await asyncio.get_running_loop().run_in_executor(self._thread, self._sync)
            except DiskFull as error:
                if self._stop.is_set():
                    raise
                if not is_full:
                    self._notify(f"{error.fact}. {_WAITS}")
                is_full = True
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._stop.wait(), RETRY_S)
                continue
            if is_full:
                self._notify("there is room again: the run goes on")
            return
