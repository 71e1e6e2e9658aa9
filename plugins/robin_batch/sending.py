"""Sends batches to their services and waits for them. Each step is on disk before the next, so that a crash loses none.

A batch goes through its states (:data:`robin_cli.run.batches.State`) from wherever an earlier session left it: it is created
of a file, watched until it is over, and its answers are downloaded and read.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from robin_batch.service import MOST_REQUESTS, Batch, BatchRefused, OpenAIBatches, Unknown
from robin_cli.model.errors import EndpointError, RunError, writing
from robin_cli.model.records import number_of
from robin_cli.run.batches import State, Submission
from robin_cli.run.manifest import now
from robin_cli.session.stop import Left, end_all

if TYPE_CHECKING:
    from robin_batch.rounds import Rounds

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


class Sender:
    """Sends batches. When the run is stopped, batches go on at the service unless the user cancels them.

    Args:
        services: the service of each judge.
        run_id: identifies the batches of this run at the service.
        notify: gets lines for the user.

    Attributes:
        most_requests: the most requests of a batch.
        rounds: the carrier whose batches it sends, which takes in their answers.
    """

    rounds: Rounds

    def __init__(
        self, services: Mapping[str, OpenAIBatches], run_id: str, notify: Callable[[str], None]
    ) -> None:
        self.most_requests = MOST_REQUESTS
        self._services, self._run_id, self._notify = services, run_id, notify
        self._freed = asyncio.Event()  # set when a batch is over
        self._ended = Counter[str]()  # batches that the service has answered, by judge
        self._missing = Counter[int]()  # how often a batch that may have been created was not found
        self._seen: dict[int, Batch] = {}  # batches as their services reported them last
        self._refusals = 0  # for want of room, in a row

    def check(self, batches: Sequence[Submission]) -> None:
        """Raise RunError if batches under way are at another service than this sender's."""
        for batch in batches:
            service = self._services.get(batch.judge)
            is_sent = batch.state not in {"written", "answered"}
            if service is not None and batch.url != service.base_url and is_sent:
                raise RunError(
                    f"batch {batch.batch_id or batch.number} was sent to {batch.url}, and {batch.judge} is at "
                    f"{service.base_url} now; robin resume with --base-url {batch.url} takes in its answers"
                )

    def describe(self, submission: Submission) -> str:
        """Return the state of a batch in words."""
        batch = self._seen.get(submission.number)
        if batch is None:
            return f"{number_of(submission.requests, 'request')} {submission.state}"
        done, total = batch.counts or (0, 0)
        counts = f" {done:,} of {total:,}" if total else ""
        return f"{batch.id} {batch.status.replace('_', ' ')}{counts}"

    async def aclose(self) -> None:
        """Close connections."""
        for service in self._services.values():
            await service.aclose()

    async def carry(self) -> None:
        """See all open batches through, as many at a time as services accept, or until the run is asked to stop.

        Raises:
            EndpointError: batches cannot be answered there.
        """
        stop = self.rounds.stop
        await self._see_all_through(self.rounds.batches.open, stop.requested)
        if not stop.requested.is_set():
            return
        batches = self.rounds.batches.open
        if any(batch.state == "creating" for batch in batches):
            self._notify(
                "the service may or may not have made the last batch: robin resume looks for it"
            )
        if at_work := [batch for batch in batches if batch.state == "submitted"]:
            await self._leave(at_work)

    async def _see_all_through(self, batches: Sequence[Submission], end: asyncio.Event) -> None:
        """See ``batches`` through until ``end`` is set. What is downloaded is read in any case."""
        tasks = {batch.number: asyncio.create_task(self._see_through(batch)) for batch in batches}
        working = asyncio.ensure_future(
            asyncio.wait(tasks.values(), return_when=asyncio.FIRST_EXCEPTION)
        )
        ending = asyncio.create_task(end.wait())
        try:
            await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            working.cancel()
            ending.cancel()
            for number, task in tasks.items():
                if self.rounds.batches.by_number[number].state != "answered":
                    task.cancel()
            came = await asyncio.gather(*tasks.values(), return_exceptions=True)
        for error in came:
            if isinstance(error, Exception):
                raise error

    async def _leave(self, batches: Sequence[Submission]) -> None:
        """Leave batches under way to the service, or cancel them and take in their answers, or forget them."""
        stop, named = self.rounds.stop, ", ".join(str(batch.batch_id) for batch in batches)
        left = Left.RUNNING if stop.offer is None else await stop.offer(len(batches))
        if left is Left.RUNNING:
            self._notify(
                f"left at the service, which works on and bills it: {named}; robin resume takes in the answers"
            )
            return
        if left is Left.FORGOTTEN:
            for batch in batches:
                self.rounds.withdraw(batch)
            self._notify(
                f"forgotten: {named}; its calls are made again, and it may still be billed"
            )
            return
        asked = [self._services[batch.judge].cancel(str(batch.batch_id)) for batch in batches]
        for error in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(error, BaseException):  # after all were asked to cancel
                raise error
        self._notify(f"cancelling {named}; its answers so far are billed, and taken in")
        await self._see_all_through(batches, stop.now)
        if stop.now.is_set():
            self._notify(f"not waited for: {named}; robin resume takes in the answers")

    # ── one batch ─────────────────────────────────────────────────────────────────────────────────

    async def _see_through(self, batch: Submission) -> None:
        """Move a batch on, from state to state, to its end. EndpointError if the service can answer none of it."""
        steps: dict[State, Callable[[Submission], Awaitable[Submission]]] = {
            "written": self._create,
            "creating": self._find,
            "submitted": self._fetch,
            "answered": self._read,
        }
        while batch.is_open:
            ended = self._ended[batch.judge]
            try:
                batch = await steps[batch.state](batch)
            except BatchRefused as refused:
                batch = self.rounds.batches.by_number[batch.number]
                has_room = self._ended[batch.judge] > ended  # that it had not before
                batch = await self._refuse(batch, refused, has_room=has_room)

    def _set(self, batch: Submission, state: State, **changed: Any) -> Submission:
        batch = batch.now(state, **changed)
        self.rounds.batches.set(batch)
        return batch

    async def _create(self, batch: Submission) -> Submission:
        """Upload and create a batch; return it "creating" if nobody knows whether the service made it."""
        requests, service = self.rounds.batches.requests(batch), self._services[batch.judge]
        if not requests.exists():
            self._notify(f"{requests}: is gone; its calls were not made, and are chosen anew")
            return self.rounds.withdraw(batch)
        if batch.file_id is None or batch.url != service.base_url:
            file_id = await service.upload(requests)
            batch = batch.now("written", file_id=file_id, url=service.base_url)
        batch = self._set(batch, "creating")
        creating = asyncio.ensure_future(service.create(str(batch.file_id), self._metadata(batch)))
        try:
            return self._accept(batch, await asyncio.shield(creating))
        except Unknown:
            return batch
        except asyncio.CancelledError:
            await asyncio.wait({creating}, timeout=_TO_BE_MADE_S)
            if creating.done() and creating.exception() is None:
                self._accept(batch, creating.result())
            await end_all([creating])
            raise

    async def _find(self, batch: Submission) -> Submission:
        """Look for a batch that may have been created; if there is none, it is to be sent again."""
        service = self._services[batch.judge]
        for look in range(_LOOKS_FOR_IT):
            found = await service.find(self._metadata(batch), batch.file_id)
            if found is not None:
                return self._accept(batch, found)
            await asyncio.sleep(FIRST_LOOK_S * 2**look)
        self._missing[batch.number] += 1
        if self._missing[batch.number] == _TRIES:
            raise EndpointError(
                "the batch service does not report whether it made a batch; look again with robin resume"
            )
        # Without its file, a batch that is created late finds nothing.
        await service.delete(str(batch.file_id))
        return self._set(batch, "written", file_id=None)

    def _metadata(self, batch: Submission) -> dict[str, str]:
        return {"robin_run": self._run_id, "robin_batch": str(batch.number)}

    def _accept(self, batch: Submission, made: Batch) -> Submission:
        self._seen[batch.number] = made
        batch = self._set(batch, "submitted", batch_id=made.id, submitted_at=now())
        self._notify(f"batch {made.id}: {number_of(batch.requests, 'request')} submitted")
        return batch

    async def _fetch(self, batch: Submission) -> Submission:
        """Wait until a batch is over, and download its answers, whatever its status: they are billed.

        Raises:
            BatchRefused: it failed at validation.
        """
        seen = await self._watch(batch)
        if seen.status == "failed" and not (seen.output_file or seen.error_file):
            why = "; ".join(seen.errors[:3]) or "it gives no reason"
            raise BatchRefused(why, is_full=seen.is_full)
        to = self.rounds.batches.answers(batch)
        for file_id, path in zip((seen.output_file, seen.error_file), to, strict=True):
            if file_id is not None:
                kept = "; the answers are at the service still: make room, then robin resume"
                with writing(path, kept):
                    await self._services[batch.judge].download(file_id, path)
        self._ended[batch.judge] += 1
        if seen.status != "completed":
            self._notify(f"batch {seen.id}: {seen.status}; its answers so far are taken in")
        return self._set(batch, "answered")

    async def _watch(self, batch: Submission) -> Batch:
        """Wait until a batch is over, looking less often the longer it takes; return it."""
        wait_s, waited_s = FIRST_LOOK_S, 0.0
        while True:
            seen = await self._services[batch.judge].get(str(batch.batch_id))
            self._seen[batch.number] = seen
            if seen.is_over:
                return seen
            waited_s += wait_s
            if waited_s > _TOO_LONG_S:
                waited_s = 0.0
                self._notify(
                    f"batch {seen.id} is {seen.status} after {_TOO_LONG_S / 3600:g} h: if the service lost it, stop "
                    "robin on a terminal with Ctrl-C, which offers to forget it"
                )
            await asyncio.sleep(wait_s)
            wait_s = min(wait_s * _SLOWER, LONGEST_LOOK_S)

    async def _read(self, batch: Submission) -> Submission:
        batch = await self.rounds.take_in(batch)
        self._refusals = 0
        self._freed.set()
        service = self._services[batch.judge]
        if batch.file_id is not None and batch.url == service.base_url:
            await service.delete(batch.file_id)
        return batch

    async def _refuse(
        self, batch: Submission, refused: BatchRefused, *, has_room: bool
    ) -> Submission:
        """Let a refused batch wait for another to end, or return its calls, which may go out in smaller ones.

        Args:
            has_room: whether another batch has ended since this one was sent.

        Raises:
            EndpointError: it is refused for another reason than want of room, or has one request.
        """
        self._seen.pop(batch.number, None)
        others = (other for other in self.rounds.batches.open if other.number != batch.number)
        is_at_work = any(
            (other.judge, other.state) == (batch.judge, "submitted") for other in others
        )
        is_stopping = self.rounds.stop.requested.is_set()
        if refused.is_full and (is_at_work or has_room) and not is_stopping:
            batch = self._set(batch, "written", batch_id=None)
            if not has_room:
                self._freed.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._freed.wait(), _LONGEST_PAUSE_S)
            return batch
        batch = self.rounds.withdraw(batch)
        self._freed.set()
        if is_stopping:
            return batch
        requests = number_of(batch.requests, "request")
        if not refused.is_full or batch.requests == 1:
            raise EndpointError(
                f"the batch service refused a batch of {requests}: {refused.detail}"
            )
        self.most_requests = max(1, min(self.most_requests, batch.requests) // 2)
        self._notify(
            f"the batch service has no room for {requests} at once ({refused.detail}); sending "
            f"{self.most_requests:,} at a time"
        )
        self._refusals += 1
        await asyncio.sleep(min(_LONGEST_PAUSE_S, 2.0**self._refusals))
        return batch
