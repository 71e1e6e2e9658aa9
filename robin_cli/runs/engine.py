"""The loop of a run: ask -> judge -> append -> tell, by a bounded number of workers, until the budget is spent."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.budget import Budget
from robin_cli.allocation.scheduler import Nothing, Scheduler
from robin_cli.errors import EndpointError
from robin_cli.judging.judge import Failure, Judge, Question, Reply
from robin_cli.judging.pacing import Pacer
from robin_cli.records import PERMANENT_FAILURES, Judgment
from robin_cli.runs.committer import Committer
from robin_cli.runs.fold import add_judgment

GRACE_S = 10.0
"""How long calls under way may still take after the run was asked to stop."""

STALL_S = 600.0
"""A run in which nothing succeeds for so long is stopped."""

_HOPELESS_FAILURES = 3
_HOPELESS_REFUSALS = 25
"""Failures (refusals of single pairs) in a row without a single answer, after which a session is stopped: then it is the
endpoint (the request) that is wrong, not the pairs."""


@dataclass(slots=True)
class Stats:
    """What this session did so far; read by the progress display."""

    started_at: float = field(default_factory=time.monotonic)
    calls: int = 0
    ratings: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    in_flight: int = 0
    dropped: int = 0
    last_failure: str = ""


class Stop:
    """How a run is asked to end early: once, it lets calls under way finish; twice, it drops them."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self.now = asyncio.Event()

    def request(self) -> None:
        """Ask to stop, or, asked again, to stop at once."""
        (self.now if self.requested.is_set() else self.requested).set()


class Engine:
    """One session of a run.

    Args:
        arms, scheduler, budget: what is chosen from, who chooses, and how much there is to spend.
        judge, pacer: who is asked, and how many at a time.
        question: what to ask of an arm, from its number and its draw.
        read: the judgments in a reply, or the one that records a failure; from the arm, its first draw and the outcome.
        write: keeps judgments durably; called in a thread.
        samples: answers wanted of one request.
        stop: see :class:`Stop`.
    """

    def __init__(
        self,
        *,
        arms: Arms,
        scheduler: Scheduler,
        budget: Budget,
        judge: Judge,
        pacer: Pacer,
        question: Callable[[int, int, int], Question],
        read: Callable[[int, int, Reply | Failure], list[Judgment]],
        write: Callable[[Sequence[Judgment]], None],
        stop: Stop,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = Stats()
        self._arms = arms
        self._scheduler = scheduler
        self._budget = budget
        self._judge = judge
        self._pacer = pacer
        self._question = question
        self._read = read
        self._stop = stop
        self._clock = clock
        self._committer = Committer(write, alone=lambda waiting: waiting >= self.stats.in_flight)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._over = False
        self._last_success = clock()
        self._failures_in_a_row = 0

    async def run(self) -> None:
        """Work until the budget is spent, no arm is left to ask, or the run is asked to stop.

        Whatever ends it, everything received by then is kept.

        Raises:
            EndpointError: the endpoint cannot be used.
            StorageError: answers cannot be kept.
        """
        count = min(self._pacer.ceiling, max(1, self._budget.available))
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        watch = asyncio.create_task(self._stop.requested.wait())
        try:
            error = await self._until_over(workers, watch)
        finally:
            self._end()
            watch.cancel()
            await self._let_finish(workers)
        if error is None:
            error = next((failed for worker in workers if (failed := _error_of(worker))), None)
        if error is not None:
            raise error

    async def _until_over(self, workers: list[asyncio.Task[None]], watch: asyncio.Task[bool]) -> BaseException | None:
        running: set[asyncio.Task[None]] = set(workers)
        while running:
            done, _ = await asyncio.wait({*running, watch}, return_when=asyncio.FIRST_COMPLETED)
            if watch in done:
                return None
            for worker in running & done:
                if error := _error_of(worker):
                    return error
            running -= done
        return None

    async def _let_finish(self, workers: list[asyncio.Task[None]]) -> None:
        hurry = asyncio.create_task(self._stop.now.wait())
        deadline = self._clock() + GRACE_S
        running: set[asyncio.Task[None]] = {worker for worker in workers if not worker.done()}
        while running and not hurry.done() and (left := deadline - self._clock()) > 0:
            await asyncio.wait({*running, hurry}, timeout=left, return_when=asyncio.FIRST_COMPLETED)
            running = {worker for worker in running if not worker.done()}
        hurry.cancel()
        for worker in running:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        await self._committer.drain()

    async def _work(self) -> None:
        while (arm := await self._next_arm()) is not None:
            try:
                await self._call(arm)
            finally:
                self._pacer.release()
                self._wake_one()

    async def _next_arm(self) -> int | None:
        """The next arm, with a slot of the pacer taken and a unit of the budget reserved; None at the end."""
        while True:
            await self._pacer.acquire()
            arm = self._ask()
            if isinstance(arm, int):
                self._wake_one()  # there may be one more for the next in line
                return arm
            self._pacer.release()
            if arm is Nothing.LEFT:
                self._end()
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(turn)
            await turn

    def _ask(self) -> int | Nothing:
        if self._over or self._budget.exhausted:
            return Nothing.LEFT
        if not self._budget.available:
            return Nothing.NOW
        arm = self._scheduler.ask()
        if isinstance(arm, int):
            self._budget.reserve(1)
        return arm

    async def _call(self, arm: int) -> None:
        draw = self._arms.next_draw[arm]
        self._arms.next_draw[arm] = draw + 1
        self.stats.in_flight += 1
        self.stats.calls += 1
        settled = 0
        try:
            outcome = await self._judge.ask(self._question(arm, draw, 1))
            if isinstance(outcome, Failure) and not self._blames_the_arm(outcome):
                self.stats.failed[outcome.reason] += 1
                self._scheduler.defer(arm)
                return
            judgments = self._read(arm, draw, outcome)
            # Append before tell: after a crash, memory must not have known more than the disk.
            await self._committer.commit(judgments)
            settled = self._take_in(arm, judgments)
            if isinstance(outcome, Failure) and outcome.reason not in PERMANENT_FAILURES:
                self._scheduler.defer(arm)
            else:
                self._scheduler.tell(arm)
        except asyncio.CancelledError:
            self.stats.dropped += 1
            raise
        finally:
            self.stats.in_flight -= 1
            self._budget.settle(1, settled)

    def _take_in(self, arm: int, judgments: Sequence[Judgment]) -> int:
        """Count what is on disk now; the units of the budget it cost."""
        for judgment in judgments:
            add_judgment(self._arms, arm, judgment)
            self.stats.ratings += judgment.rating is not None
            if judgment.reason is not None:
                (self.stats.unparsed if judgment.counts else self.stats.failed)[judgment.reason] += 1
            self.stats.prompt_tokens += judgment.prompt_tokens or 0
            self.stats.completion_tokens += judgment.completion_tokens or 0
        units = sum(judgment.counts for judgment in judgments)
        if units:
            self._last_success = self._clock()
            self._failures_in_a_row = 0
        return units

    def _blames_the_arm(self, failure: Failure) -> bool:
        """Whether a failure says something of its arm, rather than of an endpoint that is away for everyone.

        Raises:
            EndpointError: nothing has succeeded, so far or for too long.
        """
        self.stats.last_failure = f"{failure.reason}: {failure.detail}"
        answered = self.stats.ratings or self.stats.unparsed
        self._failures_in_a_row += 1
        if failure.reason in PERMANENT_FAILURES:
            if not answered and self._failures_in_a_row >= _HOPELESS_REFUSALS:
                raise EndpointError(f"every request was refused; the last time: {failure.detail}")
            return True
        if not answered and self._failures_in_a_row >= _HOPELESS_FAILURES:
            raise EndpointError(
                f"the endpoint has not answered a single call ({failure.reason}: {failure.detail}); "
                "is the server running, and --base-url right?"
            )
        if (silent_s := self._clock() - self._last_success) > STALL_S:
            raise EndpointError(
                f"nothing was answered for {silent_s:.0f} s; the last failure was {failure.reason}: {failure.detail}"
            )
        return self._failures_in_a_row == 1

    def _wake_one(self) -> None:
        while self._idle:
            turn = self._idle.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _end(self) -> None:
        self._over = True
        while self._idle:
            self._wake_one()


def _error_of(worker: asyncio.Task[None]) -> BaseException | None:
    return worker.exception() if worker.done() and not worker.cancelled() else None
