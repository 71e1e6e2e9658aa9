"""Answers are written as they come, synced together, and told in their order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from robin_cli.model.errors import DiskFull
from robin_cli.model.records import Judgment
from robin_cli.run import group_commit
from robin_cli.run.group_commit import GroupCommit
from tests.run.test_store import judgment


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
        group = GroupCommit(
            disk.write,
            disk.sync,
            alone=lambda: True,
            stop=asyncio.Event(),
            notify=disk.events.append,
        )
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
        group = GroupCommit(
            disk.write, disk.sync, alone=lambda: False, stop=asyncio.Event(), notify=print
        )
        for number in (1, 2, 3):
            told = asyncio.Event()
            group.commit([judgment(number)], lambda _, told=told: told.set())  # type: ignore[misc]
            await told.wait()
        await group.drain()

    asyncio.run(asyncio.wait_for(scene(), 60))  # a wait that is reckoned wrong has no end
    assert disk.events[-1] == "synced 3"


def test_waits_for_room_on_a_full_disk_and_gives_up_when_it_is_asked_to_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(group_commit, "RETRY_S", 0.001)
    events: list[str] = []
    refusals, refused_often = 2, threading.Event()

    def sync() -> None:
        nonlocal refusals
        refusals -= 1
        if refusals < -9:
            refused_often.set()
        if refusals != -1:
            raise DiskFull("the journal could not be written", "; go on later")

    async def scene() -> None:
        stop, first = asyncio.Event(), asyncio.Event()

        def told(error: BaseException | None) -> None:
            events.append(f"told {error}")
            first.set()

        group = GroupCommit(
            lambda _: None, sync, alone=lambda: True, stop=stop, notify=events.append
        )
        group.commit([judgment(1)], told)
        await first.wait()
        group.commit([judgment(2)], told)
        await asyncio.to_thread(refused_often.wait, 10)
        stop.set()
        await group.drain()

    asyncio.run(scene())
    assert [event.partition(".")[0] for event in events] == [
        "the journal could not be written",
        "there is room again: the run goes on",
        "told None",
        "the journal could not be written",
        "told the journal could not be written; go on later",
    ]
