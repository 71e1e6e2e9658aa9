"""Sends batches to their services and waits for them. Each step is on disk before the next, so that a crash loses none.

A batch goes through its states (:data:`robin_cli.run.batches.State`) from wherever an earlier session left it: its file is
uploaded, the batch is created and accepted, it is watched until it is over, its answers are downloaded and read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from robin_batch.rounds import Rounds, Sender
from robin_batch.service import MOST_REQUESTS, Batch, BatchRefused, OpenAIBatches, Unknown
from robin_cli.model.errors import EndpointError, RunError, writing
from robin_cli.model.records import number_of
from robin_cli.run.batches import State, Submission
from robin_cli.run.manifest import now
from robin_cli.session.stop import Left, end_all

FIRST_LOOK_S, LONGEST_LOOK_S = 0.25, 60.0
"""The time until the first look at a batch, and the longest between two looks."""

_SLOWER = 1.5
_LOOKS_FOR_IT = 4
"""How often to look for a batch that may have been created before it counts as missing: services' lists lag behind."""

_TRIES = 5
_LONGEST_PAUSE_S = 300.0
_TOO_LONG_S = 26 * 3600.0
"""Services promise to finish batches within 24 hours."""

_TO_BE_MADE_S = 10.0
"""How long a stopping session waits for a batch that is being created: once it is known, it can be cancelled."""

Made = TypeVar("Made")


class _Stopped(Exception):
    """The session ends; batches under way go on without it."""


class ToServices(Sender):
    """Sends batches. When the run is stopped, batches go on at the service unless the user cancels them.

    Args:
        services: the service of each judge.
        run_id: identifies the batches of this run at the service.
        notify: gets lines for the user.

    Attributes:
        at_work: by judge, batches that the service has accepted.
        freed: set when one of them is over.
        seen: batches as their services reported them last, by number.
        ends: set when the session ends, and batches go on without it.
    """

    def __init__(
        self, services: Mapping[str, OpenAIBatches], run_id: str, notify: Callable[[str], None]
    ) -> None:
        self.most_requests = MOST_REQUESTS
        self.services, self.run_id, self.notify = services, run_id, notify
        self.sending = {judge: asyncio.Lock() for judge in services}
        self.at_work = Counter[str]()
        self.seen: dict[int, Batch] = {}
        self.freed, self.ends = asyncio.Event(), asyncio.Event()
        self.refusals = 0

    def check(self, batches: Sequence[Submission]) -> None:
        for batch in batches:
            service = self.services.get(batch.judge)
            is_sent = batch.state not in {"written", "answered"}
            if service is not None and batch.url != service.base_url and is_sent:
                raise RunError(
                    f"batch {batch.batch_id or batch.number} was sent to {batch.url}, and {batch.judge} is at "
                    f"{service.base_url} now; robin resume with --base-url {batch.url} takes in its answers"
                )

    def new(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        return Submission(number, judge, of_round, requests, url=self.services[judge].base_url)

    def describe(self, batches: Sequence[Submission]) -> str:
        return ", ".join(map(self._describe, batches))

    def _describe(self, submission: Submission) -> str:
        batch = self.seen.get(submission.number)
        if batch is None:
            return f"{number_of(submission.requests, 'request')} {submission.state}"
        done, total = batch.counts or (0, 0)
        counts = f" {done:,} of {total:,}" if total else ""
        return f"{batch.id} {batch.status.replace('_', ' ')}{counts}"

    async def carry(self, batches: Sequence[Submission], rounds: Rounds) -> None:
        """See ``batches`` through at their services, as many at a time as these accept."""
        stopping = asyncio.create_task(self._end_when(rounds.stop.requested))
        tasks = [
            asyncio.create_task(_SentBatch(self, rounds, batch).see_through()) for batch in batches
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            self.ends.set()  # tasks that write to disk finish first
            came = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            stopping.cancel()
            self.ends.clear()
        if rounds.stop.requested.is_set():
            await self._leave(rounds)
        for error in came:
            if isinstance(error, BaseException) and not isinstance(error, _Stopped):
                raise error

    async def aclose(self) -> None:
        """Close connections."""
        for service in self.services.values():
            await service.aclose()

    async def _end_when(self, event: asyncio.Event) -> None:
        await event.wait()
        self.ends.set()

    async def _leave(self, rounds: Rounds) -> None:
        """Leave batches under way to the service, or cancel them and take in their answers, or forget them."""
        batches = rounds.batches.open
        at_work = [batch for batch in batches if batch.state == "submitted" and batch.batch_id]
        if any(batch.state == "creating" for batch in batches):
            self.notify(
                "the service may or may not have made the last batch: robin resume looks for it"
            )
        if not at_work:
            return
        named = ", ".join(str(batch.batch_id) for batch in at_work)
        left = Left.RUNNING if rounds.stop.offer is None else await rounds.stop.offer(len(at_work))
        if left is Left.RUNNING:
            self.notify(
                f"left at the service, which works on and bills it: {named}; robin resume takes in the answers"
            )
        elif left is Left.FORGOTTEN:
            for batch in at_work:
                rounds.withdraw(batch)
            self.notify(f"forgotten: {named}; its calls are made again, and it may still be billed")
        else:
            await self._cancel(at_work, named, rounds)

    async def _cancel(self, at_work: Sequence[Submission], named: str, rounds: Rounds) -> None:
        """Cancel batches, and take in the answers that they have."""
        stopping = asyncio.create_task(self._end_when(rounds.stop.now))
        try:
            asked = [self.services[batch.judge].cancel(str(batch.batch_id)) for batch in at_work]
            cancelled = await asyncio.gather(*asked, return_exceptions=True)
            for error in cancelled:  # after all were asked to cancel
                if isinstance(error, BaseException):
                    raise error
            self.notify(f"cancelling {named}; its answers so far are billed, and taken in")
            for batch in at_work:
                await _SentBatch(self, rounds, batch).see_through()
        except _Stopped:
            self.notify(f"not waited for: {named}; robin resume takes in the answers")
        finally:
            stopping.cancel()
            self.ends.clear()


class _SentBatch:
    """A batch on its way: ``submission`` is what is on disk of it."""

    def __init__(self, sender: ToServices, rounds: Rounds, submission: Submission) -> None:
        self._sender, self._rounds, self.submission = sender, rounds, submission
        self._service = sender.services[submission.judge]

    async def see_through(self) -> None:
        """Bring the batch from its state to the end."""
        sender = self._sender
        if self.submission.state == "written":  # it was not sent anywhere yet
            self.submission = self.submission.now("written", url=self._service.base_url)
        if self.submission.state in {"written", "uploaded", "creating"}:
            async with sender.sending[self.submission.judge]:
                if not await self._send():
                    return
        else:
            sender.at_work[self.submission.judge] += 1
        if self.submission.state == "submitted":
            batch = await self._watch(lambda batch: batch.is_over)
            if batch.status == "failed" and not (batch.output_file or batch.error_file):
                await self._refuse(_why(batch), is_full=batch.is_full)
                return
            await self._fetch(batch)
        files = [path for path in self._rounds.batches.answers(self.submission) if path.exists()]
        await self._rounds.take_in(files, self.submission)
        self._end()
        sender.refusals = 0
        if self.submission.file_id is not None and self.submission.url == self._service.base_url:
            await self._answer(self._service.delete(self.submission.file_id))

    def _set(self, state: State, **changed: Any) -> None:
        self.submission = self.submission.now(state, **changed)
        self._rounds.batches.set(self.submission)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _send(self) -> bool:
        """Send the batch until it is accepted; return False, and its calls, if it is refused."""
        sender, tries = self._sender, 0
        while tries < _TRIES:
            if sender.ends.is_set():
                raise _Stopped
            try:
                if self.submission.state == "written" and not await self._upload():
                    return False
                batch = await self._create()
                if batch is not None:
                    await self._accept(batch)
                    return True
            except BatchRefused as refused:
                if not (refused.is_full and sender.at_work[self.submission.judge]):
                    await self._refuse(refused.detail, is_full=refused.is_full)
                    return False
                sender.seen.pop(self.submission.number, None)
                sender.freed.clear()
                await self._pause(_LONGEST_PAUSE_S, or_when=sender.freed)
                if self.submission.file_id is not None:
                    self._set("uploaded", batch_id=None)
                continue
            # Without its file, a batch that is created late finds nothing.
            await self._answer(self._service.delete(str(self.submission.file_id)))
            self._set("written", file_id=None)
            tries += 1
        raise EndpointError(
            "the batch service does not report whether it made a batch; look again with robin resume"
        )

    async def _upload(self) -> bool:
        requests = self._rounds.batches.requests(self.submission)
        if not requests.exists():
            self._sender.notify(
                f"{requests}: is gone; its calls were not made, and are chosen anew"
            )
            self._rounds.withdraw(self.submission)
            return False
        self._set("uploaded", file_id=await self._answer(self._service.upload(requests)))
        return True

    async def _create(self) -> Batch | None:
        """Return the batch of the uploaded file, created now if need be; None if it is unknown whether there is one."""
        metadata = {"robin_run": self._sender.run_id, "robin_batch": str(self.submission.number)}
        file_id = self.submission.file_id
        assert file_id is not None  # noqa: S101  # it is uploaded
        if self.submission.state == "uploaded":
            self._set("creating")
            with suppress(Unknown):
                creating = self._service.create(file_id, metadata)
                return await self._answer(creating, within_s=_TO_BE_MADE_S)
        for look in range(_LOOKS_FOR_IT):
            if (batch := await self._answer(self._service.find(metadata, file_id))) is not None:
                return batch
            await self._pause(FIRST_LOOK_S * 2**look)
        return None

    async def _accept(self, batch: Batch) -> None:
        """Wait until a created batch is validated: only that shows whether there is room for the next.

        Raises:
            BatchRefused: it was refused for want of room.
        """
        self._set("submitted", batch_id=batch.id, submitted_at=now())
        self._sender.seen[self.submission.number] = batch
        batch = await self._watch(lambda batch: batch.status != "validating")
        if batch.status == "failed" and batch.is_full:
            raise BatchRefused(_why(batch), is_full=True)
        self._sender.at_work[self.submission.judge] += 1
        requests = number_of(self.submission.requests, "request")
        self._sender.notify(f"batch {self.submission.batch_id}: {requests} submitted")

    async def _refuse(self, why: str, *, is_full: bool) -> None:
        """Return the calls of the refused batch. EndpointError unless the service may accept smaller ones."""
        sender, size = self._sender, self.submission.requests
        self._rounds.withdraw(self.submission)
        self._end()
        requests = number_of(size, "request")
        if not is_full or size == 1:
            raise EndpointError(f"the batch service refused a batch of {requests}: {why}")
        sender.most_requests = max(1, min(sender.most_requests, size) // 2)
        sender.notify(
            f"the batch service has no room for {requests} at once ({why}); sending "
            f"{sender.most_requests:,} at a time"
        )
        sender.refusals += 1
        await self._pause(min(_LONGEST_PAUSE_S, 2.0**sender.refusals))

    def _end(self) -> None:
        self._sender.seen.pop(self.submission.number, None)
        if self._sender.at_work[self.submission.judge]:
            self._sender.at_work[self.submission.judge] -= 1
        self._sender.freed.set()

    # ── waiting and fetching ──────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(self, is_reached: Callable[[Batch], bool]) -> Batch:
        """Wait until the batch ``is_reached``, looking less often the longer it takes; return it."""
        wait_s, waited_s = FIRST_LOOK_S, 0.0
        while True:
            batch = await self._answer(self._service.get(str(self.submission.batch_id)))
            self._sender.seen[self.submission.number] = batch
            if is_reached(batch):
                return batch
            waited_s += wait_s
            if waited_s > _TOO_LONG_S:
                waited_s = 0.0
                self._sender.notify(
                    f"batch {batch.id} is {batch.status} after {_TOO_LONG_S / 3600:g} h: if the service lost it, stop "
                    "robin on a terminal with Ctrl-C, which offers to forget it"
                )
            await self._pause(wait_s)
            wait_s = min(wait_s * _SLOWER, LONGEST_LOOK_S)

    async def _fetch(self, batch: Batch) -> None:
        """Download the batch's files, whatever its status: the answers in them are billed."""
        to = self._rounds.batches.answers(self.submission)
        for file_id, path in zip((batch.output_file, batch.error_file), to, strict=True):
            if file_id is not None:
                kept = "; the answers are at the service still: make room, then robin resume"
                with writing(path, kept):
                    await self._answer(self._service.download(file_id, path))
        self._set("answered")
        if batch.status != "completed":
            self._sender.notify(
                f"batch {batch.id}: {batch.status}; its answers so far are taken in"
            )

    async def _answer(self, asking: Coroutine[Any, Any, Made], *, within_s: float = 0.0) -> Made:
        """Return a service's answer, which may take hours. Raises _Stopped if the session ends first.

        Args:
            within_s: how long to wait for it after that.
        """
        task = asyncio.create_task(asking)
        ends = asyncio.create_task(self._sender.ends.wait())
        try:
            await asyncio.wait({task, ends}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and within_s:
                await asyncio.wait({task}, timeout=within_s)
            if task.done():
                return task.result()
        finally:
            ends.cancel()
            await end_all([task])
        raise _Stopped

    async def _pause(self, seconds: float, *, or_when: asyncio.Event | None = None) -> None:
        """Wait so long, or until ``or_when``. Raises _Stopped if the session ends."""
        events = [self._sender.ends] if or_when is None else [self._sender.ends, or_when]
        waits = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self._sender.ends.is_set():
            raise _Stopped


def _why(batch: Batch) -> str:
    return "; ".join(batch.errors[:3]) or "it gives no reason"
