"""Answers are written as they come, synced together, and told in their order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from robin_cli.model.records import Judgment
from robin_cli.storage.group_commit import GroupCommit
from tests.storage.test_store import judgment


@dataclass
class Disk:
    """Notes what happens; a sync waits for leave where there is to be one."""

    events: list[str] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    leave: threading.Event = field(default_factory=threading.Event)
    written: int = 0
    fails: bool = False

    def write(self, judgments: Sequence[Judgment]) -> None:
        if judgments[0].request_id == "r13":
            raise OSError("no room")
        self.written += len(judgments)
        self.events.append(f"wrote {judgments[0].request_id}")

    def sync(self) -> None:
        self.begun.set()
        self.leave.wait(10)
        self.events.append(f"synced {self.written}")
        if self.fails:
            raise OSError("disk full")

    def told(self, number: int, error: BaseException | None) -> None:
        self.events.append(f"told r{number}" + (f" {error}" if error else ""))


def played(disk: Disk, first: Sequence[int], meanwhile: Sequence[int]) -> list[str]:
    """``first`` are committed at once, ``meanwhile`` while these are synced."""

    async def scene() -> None:
        group = GroupCommit(disk.write, disk.sync, alone=lambda _: True)
        for number in first:
            group.commit([judgment(number)], lambda error, number=number: disk.told(number, error))  # type: ignore[misc]
        await asyncio.to_thread(disk.begun.wait, 10)
        for number in meanwhile:
            group.commit([judgment(number)], lambda error, number=number: disk.told(number, error))  # type: ignore[misc]
        disk.leave.set()
        await group.drain()

    asyncio.run(scene())
    return disk.events


def test_writes_at_once_and_tells_once_it_is_synced() -> None:
    assert played(Disk(), [1, 2], []) == ["wrote r1", "wrote r2", "synced 2", "told r1", "told r2"]


def test_what_comes_while_one_group_is_synced_shares_the_next_sync() -> None:
    assert played(Disk(), [1], [2, 3]) == [
        *("wrote r1", "wrote r2", "wrote r3"),
        *("synced 3", "told r1", "synced 3", "told r2", "told r3"),
    ]


def test_tells_all_who_wait_that_the_disk_took_nothing_also_those_that_were_written_since() -> None:
    assert played(Disk(fails=True), [1], [2]) == [
        *("wrote r1", "wrote r2", "synced 2", "told r1 disk full", "told r2 disk full")
    ]


def test_an_answer_that_is_not_written_holds_up_no_other() -> None:
    assert played(Disk(), [13, 1], []) == ["wrote r1", "told r13 no room", "synced 1", "told r1"]


def test_groups_that_follow_soon_are_synced_soon() -> None:
    disk = Disk()
    disk.leave.set()

    async def scene() -> None:
        group = GroupCommit(disk.write, disk.sync, alone=lambda _: False)
        for number in (1, 2, 3):
            told = asyncio.Event()
            group.commit([judgment(number)], lambda _, told=told: told.set())  # type: ignore[misc]
            await told.wait()
        await group.drain()

    asyncio.run(asyncio.wait_for(scene(), 60))  # a wait that is reckoned wrong has no end
    assert disk.events[-1] == "synced 3"
