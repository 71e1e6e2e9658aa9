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
from robin_cli.run.batches import Submission
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
    """

    def __init__(
        self, services: Mapping[str, OpenAIBatches], run_id: str, notify: Callable[[str], None]
    ) -> None:
        self.most_requests = MOST_REQUESTS
        self._services, self._run_id, self._notify = services, run_id, notify
        self._sending = {judge: asyncio.Lock() for judge in services}
        self._at_work: Counter[str] = Counter()  # by judge, batches that the service has accepted
        self._freed = asyncio.Event()  # set when one of them is over
        self._seen: dict[int, Batch] = {}
        self._refusals = 0
        self._ends = asyncio.Event()  # set when the session ends, and batches go on without it

    def check(self, batches: Sequence[Submission]) -> None:
        for batch in batches:
            service = self._services.get(batch.judge)
            is_sent = batch.state not in {"written", "answered"}
            if service is not None and batch.url != service.base_url and is_sent:
                raise RunError(
                    f"batch {batch.batch_id or batch.number} was sent to {batch.url}, and {batch.judge} is at "
                    f"{service.base_url} now; robin resume with --base-url {batch.url} takes in its answers"
                )

    def new(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        return Submission(number, judge, of_round, requests, url=self._services[judge].base_url)

    def describe(self, batches: Sequence[Submission]) -> str:
        return ", ".join(map(self._describe, batches))

    def _describe(self, submission: Submission) -> str:
        batch = self._seen.get(submission.number)
        if batch is None:
            return f"{number_of(submission.requests, 'request')} {submission.state}"
        done, total = batch.counts or (0, 0)
        counts = f" {done:,} of {total:,}" if total else ""
        return f"{batch.id} {batch.status.replace('_', ' ')}{counts}"

    async def carry(self, batches: Sequence[Submission], rounds: Rounds) -> None:
        """See ``batches`` through at their services, as many at a time as these accept."""
        stopping = asyncio.create_task(self._end_when(rounds.stop.requested))
        tasks = [asyncio.create_task(self._see_through(batch, rounds)) for batch in batches]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            self._ends.set()  # tasks that write to disk finish first
            came = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            stopping.cancel()
            self._ends.clear()
        if rounds.stop.requested.is_set():
            await self._leave(rounds)
        for error in came:
            if isinstance(error, BaseException) and not isinstance(error, _Stopped):
                raise error

    async def aclose(self) -> None:
        """Close connections."""
        for service in self._services.values():
            await service.aclose()

    async def _see_through(self, submission: Submission, rounds: Rounds) -> None:
        service = self._services[submission.judge]
        if submission.state == "written":  # it was not sent anywhere yet
            submission = submission.now("written", url=service.base_url)
        if submission.state in {"written", "uploaded", "creating"}:
            async with self._sending[submission.judge]:
                accepted = await self._send(submission, service, rounds)
            if accepted is None:
                return
            submission = accepted
        else:
            self._at_work[submission.judge] += 1
        if submission.state == "submitted":
            batch = await self._watch(submission, service, lambda each: each.is_over)
            if batch.status == "failed" and not (batch.output_file or batch.error_file):
                await self._refuse(submission, rounds, _why(batch), is_full=batch.is_full)
                return
            submission = await self._fetch(submission, batch, service, rounds)
        files = [path for path in rounds.batches.answers(submission) if path.exists()]
        await rounds.take_in(files, submission)
        self._end(submission)
        self._refusals = 0
        if (file := submission.file_id) is not None and submission.url == service.base_url:
            await self._answer(service.delete(file))

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _send(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Submission | None:
        """Send a batch, from any state, until it is accepted; return None, and its calls, if it is refused."""
        tries = 0
        while tries < _TRIES:
            if self._ends.is_set():
                raise _Stopped
            try:
                if submission.state == "written":
                    uploaded = await self._upload(submission, service, rounds)
                    if uploaded is None:
                        return None
                    submission = uploaded
                batch = await self._create(submission, service, rounds)
                if batch is not None:
                    return await self._accepted(submission, batch, service, rounds)
            except BatchRefused as refused:
                if not (refused.is_full and self._at_work[submission.judge]):
                    await self._refuse(submission, rounds, refused.detail, is_full=refused.is_full)
                    return None
                self._seen.pop(submission.number, None)
                self._freed.clear()
                await self._pause(_LONGEST_PAUSE_S, or_when=self._freed)
                if submission.file_id is not None:
                    submission = submission.now("uploaded", batch_id=None)
                    rounds.batches.set(submission)
                continue
            submission = await self._unmake(submission, service, rounds)
            tries += 1
        raise EndpointError(
            "the batch service does not report whether it made a batch; look again with robin resume"
        )

    async def _upload(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Submission | None:
        requests = rounds.batches.requests(submission)
        if not requests.exists():
            self._notify(f"{requests}: is gone; its calls were not made, and are chosen anew")
            rounds.withdraw(submission)
            return None
        file_id = await self._answer(service.upload(requests))
        submission = submission.now("uploaded", file_id=file_id)
        rounds.batches.set(submission)
        return submission

    async def _create(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Batch | None:
        """Return the batch of an uploaded file, created now if need be; None if it is unknown whether there is one."""
        metadata = {"robin_run": self._run_id, "robin_batch": str(submission.number)}
        file_id = submission.file_id
        assert file_id is not None  # noqa: S101  # it is uploaded
        if submission.state == "uploaded":
            rounds.batches.set(submission.now("creating"))
            with suppress(Unknown):
                creating = service.create(file_id, metadata)
                return await self._answer(creating, within_s=_TO_BE_MADE_S)
        for look in range(_LOOKS_FOR_IT):
            if (batch := await self._answer(service.find(metadata, file_id))) is not None:
                return batch
            await self._pause(FIRST_LOOK_S * 2**look)
        return None

    async def _accepted(
        self, submission: Submission, batch: Batch, service: OpenAIBatches, rounds: Rounds
    ) -> Submission:
        """Return the submission of a created batch, once it is validated: only that shows whether there is room for the next.

        Raises:
            BatchRefused: it was refused for want of room.
        """
        submission = submission.now("submitted", batch_id=batch.id, submitted_at=now())
        rounds.batches.set(submission)
        self._seen[submission.number] = batch
        batch = await self._watch(submission, service, lambda each: each.status != "validating")
        if batch.status == "failed" and batch.is_full:
            raise BatchRefused(_why(batch), is_full=True)
        self._at_work[submission.judge] += 1
        requests = number_of(submission.requests, "request")
        self._notify(f"batch {submission.batch_id}: {requests} submitted")
        return submission

    async def _unmake(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Submission:
        """Delete the uploaded file, so that a batch created late finds none; return the submission as before its upload."""
        assert submission.file_id is not None  # noqa: S101  # it is uploaded
        await self._answer(service.delete(submission.file_id))
        submission = submission.now("written", file_id=None)
        rounds.batches.set(submission)
        return submission

    async def _refuse(
        self, submission: Submission, rounds: Rounds, why: str, *, is_full: bool
    ) -> None:
        """Return the calls of a refused batch. EndpointError unless the service may accept smaller ones."""
        rounds.withdraw(submission)
        self._end(submission)
        requests = number_of(submission.requests, "request")
        if not is_full or submission.requests == 1:
            raise EndpointError(f"the batch service refused a batch of {requests}: {why}")
        self.most_requests = max(1, min(self.most_requests, submission.requests) // 2)
        self._notify(
            f"the batch service has no room for {requests} at once ({why}); sending "
            f"{self.most_requests:,} at a time"
        )
        self._refusals += 1
        await self._pause(min(_LONGEST_PAUSE_S, 2.0**self._refusals))

    def _end(self, submission: Submission) -> None:
        self._seen.pop(submission.number, None)
        if self._at_work[submission.judge]:
            self._at_work[submission.judge] -= 1
        self._freed.set()

    # ── waiting and fetching ──────────────────────────────────────────────────────────────────────────────────────────

    async def _watch(
        self, submission: Submission, service: OpenAIBatches, is_reached: Callable[[Batch], bool]
    ) -> Batch:
        """Wait until a batch ``is_reached``, looking less often the longer it takes; return it."""
        assert submission.batch_id is not None  # noqa: S101  # it is submitted
        wait_s, waited_s = FIRST_LOOK_S, 0.0
        while True:
            batch = await self._answer(service.get(submission.batch_id))
            self._seen[submission.number] = batch
            if is_reached(batch):
                return batch
            waited_s += wait_s
            if waited_s > _TOO_LONG_S:
                waited_s = 0.0
                self._notify(
                    f"batch {batch.id} is {batch.status} after {_TOO_LONG_S / 3600:g} h: if the service lost it, stop "
                    "robin on a terminal with Ctrl-C, which offers to forget it"
                )
            await self._pause(wait_s)
            wait_s = min(wait_s * _SLOWER, LONGEST_LOOK_S)

    async def _fetch(
        self, submission: Submission, batch: Batch, service: OpenAIBatches, rounds: Rounds
    ) -> Submission:
        """Download a batch's files, whatever its status: the answers in them are billed. Return its submission."""
        to = rounds.batches.answers(submission)
        for file_id, path in zip((batch.output_file, batch.error_file), to, strict=True):
            if file_id is not None:
                kept = "; the answers are at the service still: make room, then robin resume"
                with writing(path, kept):
                    await self._answer(service.download(file_id, path))
        submission = submission.now("answered")
        rounds.batches.set(submission)
        if batch.status != "completed":
            self._notify(f"batch {batch.id}: {batch.status}; its answers so far are taken in")
        return submission

    async def _answer(self, asking: Coroutine[Any, Any, Made], *, within_s: float = 0.0) -> Made:
        """Return a service's answer, which may take hours. Raises _Stopped if the session ends first.

        Args:
            within_s: how long to wait for it after that.
        """
        task, ends = asyncio.create_task(asking), asyncio.create_task(self._ends.wait())
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
        events = [self._ends] if or_when is None else [self._ends, or_when]
        waits = [asyncio.create_task(event.wait()) for event in events]
        await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()
        if self._ends.is_set():
            raise _Stopped

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _leave(self, rounds: Rounds) -> None:
        """Leave batches under way to the service, or cancel them and take in their answers, or forget them."""
        batches = rounds.batches.open
        at_work = [batch for batch in batches if batch.state == "submitted" and batch.batch_id]
        if any(batch.state == "creating" for batch in batches):
            self._notify(
                "the service may or may not have made the last batch: robin resume looks for it"
            )
        if not at_work:
            return
        named = ", ".join(str(batch.batch_id) for batch in at_work)
        left = Left.RUNNING if rounds.stop.offer is None else await rounds.stop.offer(len(at_work))
        if left is Left.RUNNING:
            self._notify(
                f"left at the service, which works on and bills it: {named}; robin resume takes in the answers"
            )
        elif left is Left.FORGOTTEN:
            for batch in at_work:
                rounds.withdraw(batch)
            self._notify(
                f"forgotten: {named}; its calls are made again, and it may still be billed"
            )
        else:
            await self._cancel(at_work, named, rounds)

    async def _cancel(self, at_work: Sequence[Submission], named: str, rounds: Rounds) -> None:
        """Cancel batches, and take in the answers that they have."""
        stopping = asyncio.create_task(self._end_when(rounds.stop.now))
        try:
            asked = [self._services[batch.judge].cancel(str(batch.batch_id)) for batch in at_work]
            cancelled = await asyncio.gather(*asked, return_exceptions=True)
            for error in cancelled:  # after all were asked to cancel
                if isinstance(error, BaseException):
                    raise error
            self._notify(f"cancelling {named}; its answers so far are billed, and taken in")
            for batch in at_work:
                await self._see_through(batch, rounds)
        except _Stopped:
            self._notify(f"not waited for: {named}; robin resume takes in the answers")
        finally:
            stopping.cancel()
            self._ends.clear()

    async def _end_when(self, event: asyncio.Event) -> None:
        await event.wait()
        self._ends.set()


def _why(batch: Batch) -> str:
    return "; ".join(batch.errors[:3]) or "it gives no reason"
