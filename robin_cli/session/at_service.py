"""The courier for batch services. A submission is in the ledger first, and goes on from any state after a crash."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from robin_cli.judges.openai_batches import (
    MOST_REQUESTS,
    Batch,
    BatchRefused,
    OpenAIBatches,
    Unknown,
)
from robin_cli.model.errors import EndpointError, RunError, writing
from robin_cli.model.records import number_of
from robin_cli.run.batches import Submission
from robin_cli.run.manifest import now
from robin_cli.session.rounds import Courier, Rounds
from robin_cli.session.stop import Left, end_all

FIRST_LOOK_S = 0.25
LONGEST_LOOK_S = 60.0
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

_VALIDATING = "validating"

T = TypeVar("T")


class _Stopped(Exception):
    """The session ends; batches under way go on without it."""


class AtService(Courier):
    """Takes requests to batch services. When the run is stopped, batches go on at the service unless the user cancels them.

    Args:
        services: the service of each judge.
        run_id: identifies the batches of this run at the service.
        notify: gets lines for the user.
    """

    def __init__(
        self, services: Mapping[str, OpenAIBatches], run_id: str, notify: Callable[[str], None]
    ) -> None:
        self.most_requests = MOST_REQUESTS
        self._services = services
        self._run_id = run_id
        self._notify = notify
        self._sending = {judge: asyncio.Lock() for judge in services}
        self._at_work: Counter[str] = Counter()  # by judge, batches that the service has accepted
        self._freed = asyncio.Event()  # set when one of them is over
        self._seen: dict[int, Batch] = {}
        self._refusals = 0
        self._ends = asyncio.Event()  # set when the session ends, and batches go on without it

    def check(self, submissions: Sequence[Submission]) -> None:
        for each in submissions:
            service = self._services.get(each.judge)
            if (
                service is not None
                and each.url != service.base_url
                and each.state not in {"written", "answered"}
            ):
                raise RunError(
                    f"batch {each.batch_id or each.number} was sent to {each.url}, and {each.judge} is at {service.base_url} "
                    f"now; robin resume with --base-url {each.url} takes in its answers"
                )

    def submission(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        return Submission(number, judge, of_round, requests, url=self._services[judge].base_url)

    def said(self, submissions: Sequence[Submission]) -> str:
        return ", ".join(self._said(each) for each in submissions)

    def _said(self, submission: Submission) -> str:
        batch = self._seen.get(submission.number)
        if batch is None:
            return f"{number_of(submission.requests, 'request')} {submission.state}"
        done, total = batch.counts or (0, 0)
        return f"{batch.id} {batch.status.replace('_', ' ')}{f' {done:,} of {total:,}' if total else ''}"

    async def carry(self, submissions: Sequence[Submission], rounds: Rounds) -> None:
        """See ``submissions`` through at their services, as many at a time as these accept."""
        stopping = asyncio.create_task(self._end_when(rounds.stop.requested))
        tasks = [asyncio.create_task(self._see_through(each, rounds)) for each in submissions]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            self._ends.set()  # tasks that write to disk finish first
            came = await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            stopping.cancel()
            self._ends.clear()
        if rounds.stop.requested.is_set():
            await self._left(rounds)
        for error in came:
            if isinstance(error, BaseException) and not isinstance(error, _Stopped):
                raise error

    async def aclose(self) -> None:
        for service in self._services.values():
            await service.aclose()

    async def _see_through(self, submission: Submission, rounds: Rounds) -> None:
        service = self._services[submission.judge]
        if submission.state == "written":  # it was not sent anywhere yet
            submission = submission.now("written", url=service.base_url)
        is_there = submission.url == service.base_url
        if submission.state in {"written", "uploaded", "creating"}:
            async with self._sending[submission.judge]:
                taken = await self._submitted(submission, service, rounds)
            if taken is None:
                return
            submission = taken
        else:
            self._at_work[submission.judge] += 1
        if submission.state == "submitted":
            batch = await self._watched(submission, service, lambda each: each.is_over)
            if batch.status == "failed" and not (batch.output_file or batch.error_file):
                await self._refused(submission, rounds, _why(batch), is_full=batch.is_full)
                return
            submission = await self._fetched(submission, batch, service, rounds)
        await rounds.take_in(
            [path for path in rounds.ledger.answers(submission) if path.exists()], submission
        )
        self._over(submission)
        self._refusals = 0
        if (file := submission.file_id) is not None and is_there:
            await self._answer(service.delete(file))

    # ── sending ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _submitted(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Submission | None:
        """Send a submission, from any state; return None, and its calls, if the service has no room for it."""
        tries = 0
        while True:
            if self._ends.is_set():
                raise _Stopped
            if submission.state == "written":
                requests = rounds.ledger.requests(submission)
                if not requests.exists():
                    self._notify(
                        f"{requests}: is gone; its calls were not made, and are chosen anew"
                    )
                    rounds.withdraw(submission)
                    return None
                submission = submission.now(
                    "uploaded", file_id=await self._answer(service.upload(requests))
                )
                rounds.ledger.set(submission)
            try:
                batch = await self._created(submission, service, rounds)
                if batch is not None:
                    submission = submission.now("submitted", batch_id=batch.id, submitted_at=now())
                    rounds.ledger.set(submission)
                    self._seen[submission.number] = batch
                    # Only a validated batch shows whether there is room for the next one.
                    batch = await self._watched(
                        submission, service, lambda each: each.status != _VALIDATING
                    )
                    if batch.status != "failed" or not batch.is_full:
                        break
                    raise BatchRefused(_why(batch), is_full=True)
                submission = await self._unmade(submission, service, rounds)
                tries += 1
                if tries >= _TRIES:
                    raise EndpointError(
                        "the batch service does not report whether it made a batch; look again with robin resume"
                    )
            except BatchRefused as refused:
                if refused.is_full and self._at_work[submission.judge]:
                    self._freed.clear()
                    await self._pause(_LONGEST_PAUSE_S, or_when=self._freed)
                    submission = submission.now("uploaded", batch_id=None)
                    rounds.ledger.set(submission)
                    continue
                await self._refused(submission, rounds, refused.detail, is_full=refused.is_full)
                return None
        self._at_work[submission.judge] += 1
        self._notify(
            f"batch {submission.batch_id}: {number_of(submission.requests, 'request')} submitted"
        )
        return submission

    async def _created(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Batch | None:
        """Return the batch of an uploaded file, created now if need be; None if it is unknown whether there is one."""
        metadata = {"robin_run": self._run_id, "robin_batch": str(submission.number)}
        if submission.state == "uploaded":
            rounds.ledger.set(submission.now("creating"))
            assert submission.file_id is not None  # noqa: S101  # it is uploaded
            with suppress(Unknown):
                return await self._answer(
                    service.create(submission.file_id, metadata), within_s=_TO_BE_MADE_S
                )
        for look in range(_LOOKS_FOR_IT):
            if (
                batch := await self._answer(service.find(metadata, submission.file_id))
            ) is not None:
                return batch
            await self._pause(FIRST_LOOK_S * 2**look)
        return None

    async def _unmade(
        self, submission: Submission, service: OpenAIBatches, rounds: Rounds
    ) -> Submission:
        """Delete the uploaded file, so that a batch created late finds none; return the submission as before its upload."""
        assert submission.file_id is not None  # noqa: S101  # it is uploaded
        await self._answer(service.delete(submission.file_id))
        submission = submission.now("written", file_id=None)
        rounds.ledger.set(submission)
        return submission

    async def _refused(
        self, submission: Submission, rounds: Rounds, why: str, *, is_full: bool
    ) -> None:
        """Return the calls of a refused batch. EndpointError unless the service may accept smaller ones."""
        rounds.withdraw(submission)
        self._over(submission)
        if not is_full or submission.requests == 1:
            raise EndpointError(
                f"the batch service refused a batch of {number_of(submission.requests, 'request')}: {why}"
            )
        self.most_requests = max(1, min(self.most_requests, submission.requests) // 2)
        self._notify(
            f"the batch service has no room for {number_of(submission.requests, 'request')} at once ({why}); sending "
            f"{self.most_requests:,} at a time"
        )
        self._refusals += 1
        await self._pause(min(_LONGEST_PAUSE_S, 2.0**self._refusals))

    def _over(self, submission: Submission) -> None:
        self._seen.pop(submission.number, None)
        if self._at_work[submission.judge]:
            self._at_work[submission.judge] -= 1
        self._freed.set()

    # ── waiting ───────────────────────────────────────────────────────────────────────────────────────────────────────

    async def _watched(
        self, submission: Submission, service: OpenAIBatches, is_so: Callable[[Batch], bool]
    ) -> Batch:
        """Wait until a batch ``is_so``, looking less often the longer it takes; return it."""
        assert submission.batch_id is not None  # noqa: S101  # it is submitted
        wait_s, waited_s = FIRST_LOOK_S, 0.0
        while True:
            batch = self._seen[submission.number] = await self._answer(
                service.get(submission.batch_id)
            )
            if is_so(batch):
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

    async def _answer(self, asking: Coroutine[Any, Any, T], *, within_s: float = 0.0) -> T:
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

    # ── reading, and leaving ──────────────────────────────────────────────────────────────────────────────────────────

    async def _fetched(
        self, submission: Submission, batch: Batch, service: OpenAIBatches, rounds: Rounds
    ) -> Submission:
        """Download a batch's files, whatever its status: the answers in them are billed. Return its submission."""
        for file_id, path in zip(
            (batch.output_file, batch.error_file), rounds.ledger.answers(submission), strict=True
        ):
            if file_id is not None:
                with writing(
                    path, "; the answers are at the service still: make room, then robin resume"
                ):
                    await self._answer(service.download(file_id, path))
        submission = submission.now("answered")
        rounds.ledger.set(submission)
        if batch.status != "completed":
            self._notify(f"batch {batch.id}: {batch.status}; its answers so far are taken in")
        return submission

    async def _left(self, rounds: Rounds) -> None:
        """Leave batches under way to the service, or cancel them and take in their answers, or forget them."""
        at_work = {
            each.batch_id: each
            for each in rounds.ledger.open
            if each.state == "submitted" and each.batch_id
        }
        named = ", ".join(map(str, at_work))
        if any(each.state == "creating" for each in rounds.ledger.open):
            self._notify(
                "the service may or may not have made the last batch: robin resume looks for it"
            )
        if not at_work:
            return
        left = Left.RUNNING if rounds.stop.offer is None else await rounds.stop.offer(len(at_work))
        if left is Left.RUNNING:
            self._notify(
                f"left at the service, which works on and bills it: {named}; robin resume takes in the answers"
            )
            return
        if left is Left.FORGOTTEN:
            for submission in at_work.values():
                rounds.withdraw(submission)
            self._notify(
                f"forgotten: {named}; its calls are made again, and it may still be billed"
            )
            return
        stopping = asyncio.create_task(self._end_when(rounds.stop.now))
        try:
            cancelled = await asyncio.gather(
                *(
                    self._services[each.judge].cancel(str(batch_id))
                    for batch_id, each in at_work.items()
                ),
                return_exceptions=True,
            )
            for error in cancelled:  # after all were asked to cancel
                if isinstance(error, BaseException):
                    raise error
            self._notify(f"cancelling {named}; its answers so far are billed, and taken in")
            for submission in at_work.values():
                await self._see_through(submission, rounds)
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
