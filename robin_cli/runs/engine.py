"""The loop of a run: ask -> judge -> append -> tell, by a bounded number of workers, until the budget is spent."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.budget import Budget, Purse
from robin_cli.allocation.scheduler import Nothing, Scheduler
from robin_cli.errors import LimitReached
from robin_cli.judging.judge import Failure, Question, Reply
from robin_cli.judging.panel import Panel, Place
from robin_cli.records import PERMANENT_FAILURES, Judgment
from robin_cli.runs.committer import Committer
from robin_cli.runs.fold import add_judgment
from robin_cli.runs.health import Health

GRACE_S = 10.0
"""How long calls under way may still take after the run was asked to stop."""


@dataclass(slots=True)
class Stats:
    """What this session did so far; read by the progress display.

    ``calls`` are requests begun and ``in_flight`` those under way; ``by_text`` counts, by reason, ratings that were to go by
    log probabilities and went by the text; ``estimated`` counts judgments whose tokens are
    estimates, ``priced`` and ``unpriced`` answers whose cost is known and those whose cost is not, ``dropped`` requests that
    were not waited for.
    """

    started_at: float = field(default_factory=time.monotonic)
    calls: int = 0
    ratings: int = 0
    unparsed: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    priced: int = 0
    unpriced: int = 0
    estimated: int = 0
    by_text: Counter[str] = field(default_factory=Counter)
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


@dataclass(frozen=True, slots=True)
class _Call:
    """One request about to be made, and what is reserved for it."""

    place: Place
    judge: int
    arm: int
    draw: int
    units: int
    money: float
    question: Question


class Engine:
    """One session of a run.

    Args:
        arms, scheduler, budget, purse: what is chosen from, who chooses, and how much there is to spend.
        panel: who is asked, and how many at a time.
        judge_of, judges: which of the panel's judges an arm is asked of, and their names for messages.
        question: what to ask of an arm, from its number and its draw.
        read: the judgments in a reply, or the one that records a failure; from the arm, its first draw and the outcome.
        write: keeps judgments durably; called in a thread.
        samples: ratings wanted of one request, at least 1.
        watch: is shown the arm and the judgments of every request, once they are kept; what it raises ends the run.
        stop: see :class:`Stop`.
    """

    def __init__(
        self,
        *,
        arms: Arms,
        scheduler: Scheduler,
        budget: Budget,
        purse: Purse,
        panel: Panel,
        question: Callable[[int, int, int], Question],
        read: Callable[[int, int, Reply | Failure], list[Judgment]],
        write: Callable[[Sequence[Judgment]], None],
        stop: Stop,
        judge_of: Callable[[int], int] = lambda _arm: 0,
        judges: Sequence[str] = ("",),
        samples: int = 1,
        watch: Callable[[int, Sequence[Judgment]], None] = lambda _arm, _judgments: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = Stats()
        self._arms = arms
        self._scheduler = scheduler
        self._budget = budget
        self._purse = purse
        self._panel = panel
        self._judge_of = judge_of
        self._health = [Health(name, clock) for name in judges]
        self._samples = samples
        self._watch = watch
        self._question = question
        self._read = read
        self._stop = stop
        self._clock = clock
        self._committer = Committer(write, alone=lambda waiting: waiting >= self.stats.in_flight)
        self._idle: deque[asyncio.Future[None]] = deque()
        self._over = False
        self._in_turn = False
        self._unwritten = 0
        self._failed: asyncio.Future[None]

    async def run(self) -> None:
        """Work until the budget is spent, no arm is left to ask, or the run is asked to stop.

        Whatever ends it, everything received by then is kept.

        Raises:
            EndpointError: the endpoint cannot be used.
            LimitReached: the money does not suffice for another call.
            StorageError: answers cannot be kept.
        """
        count = min(self._panel.ceiling, max(1, self._budget.available))
        # One call at a time: the answer to each is known when the next is chosen. Else the next does not wait for the disk, as
        # long as no more answers do than a quarter of the calls at a time: a crash loses those and what is under way.
        self._in_turn = count == 1
        workers = [asyncio.create_task(self._work()) for _ in range(count)]
        watch = asyncio.create_task(self._stop.requested.wait())
        self._failed = asyncio.get_running_loop().create_future()
        try:
            error = await self._until_over(workers, watch)
        finally:
            self._end()
            watch.cancel()
            await self._let_finish(workers)
        errors = [_error_of(each) for each in (self._failed, *workers)]
        error = error or next((each for each in errors if each is not None), None)
        if error is not None:
            raise error

    async def _until_over(self, workers: list[asyncio.Task[None]], watch: asyncio.Task[bool]) -> BaseException | None:
        running: set[asyncio.Task[None]] = set(workers)
        while running:
            events: set[asyncio.Future[Any]] = {*running, watch, self._failed}
            done, _ = await asyncio.wait(events, return_when=asyncio.FIRST_COMPLETED)
            if watch in done or self._failed in done:
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
        while (call := await self._next_call()) is not None:
            await self._make(call)

    async def _next_call(self) -> _Call | None:
        """The next call, with a place taken, and the budget and the money reserved; None at the end."""
        while True:
            place = await self._panel.enter()
            try:
                call = self._choose(place)
            except BaseException:
                self._panel.leave(place)
                raise
            if isinstance(call, _Call):
                self._wake_one()  # there may be one more for the next in line
                return call
            self._panel.leave(place)
            if call is Nothing.LEFT:
                self._end()
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._idle.append(turn)
            await turn

    def _choose(self, place: Place) -> _Call | Nothing:
        if self._over or self._budget.exhausted:
            return Nothing.LEFT
        if not self._budget.available:
            return Nothing.NOW
        chosen = self._scheduler.ask_several(
            min(self._samples, self._panel.most_samples(place), self._budget.available)
        )
        if isinstance(chosen, Nothing):
            return chosen
        arm, units = chosen
        judge = self._judge_of(arm)
        if (too_many := units - self._panel.most_samples(place, judge)) > 0:
            self._scheduler.withdraw(arm, too_many)
            units -= too_many
        draw = self._arms.next_draw[arm]
        question = self._question(arm, draw, units)
        money = 0.0 if self._purse.limit is None else self._panel.most_cost(judge, question)
        if not self._purse.covers(money):
            # The next call is this one: a cheaper arm asked in its place would bend what the scheduler decides.
            self._scheduler.withdraw(arm, units)
            if self._budget.reserved:  # a call under way may cost less than what is set aside for it
                return Nothing.NOW
            raise LimitReached(
                f"--max-cost ${self._purse.limit:g} is reached: ${self._purse.spent:.4f} are spent, and the next call may "
                f"cost up to ${money:.4f}"
            )
        self._arms.next_draw[arm] = draw + units
        self._budget.reserve(units)
        self._purse.reserve(money)
        return _Call(place, judge, arm, draw, units, money, question)

    async def _make(self, call: _Call) -> None:
        try:
            outcome = await self._outcome(call)
        finally:
            self._panel.leave(call.place)
        if outcome is None:
            return
        try:
            judgments = self._read(call.arm, call.draw, outcome)
        except BaseException:
            self._settle(call, 0, 0.0)
            raise
        kept: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._committer.commit(judgments, lambda error: self._keep(call, outcome, judgments, kept, error))
        self._unwritten += 1
        if self._in_turn or self._unwritten > self._panel.ceiling // 4:
            await asyncio.shield(kept)

    async def _outcome(self, call: _Call) -> Reply | Failure | None:
        """What came of the call, which is under way until it is settled; None where it was settled and says nothing."""
        if call.place.seat is None and not await self._seated(call):
            return None
        health = self._health[call.judge]
        self.stats.in_flight += 1
        self.stats.calls += 1
        try:
            health.begins()
            try:
                outcome = await self._panel.ask(call.place, call.judge, call.question)
            finally:
                health.ends()
            if not isinstance(outcome, Failure):
                health.answered()
                return outcome
            self.stats.last_failure = outcome.detail
            if health.blames_the_arm(outcome):
                return outcome
            self.stats.failed[outcome.reason] += 1
            if self._panel.several and not self._over:
                # Others of this judge's arms are asked next, and no other judge runs ahead: then there is nothing to hurry for.
                await self._pause(health.pause_s())
        except BaseException as error:
            self.stats.dropped += isinstance(error, asyncio.CancelledError)
            self._settle(call, 0, 0.0)
            raise
        self._scheduler.defer(call.arm, call.units)
        self._settle(call, 0, 0.0)
        return None

    async def _seated(self, call: _Call) -> bool:
        """Wait for a seat at the call's judge; False if the call is not made after all, and was given back."""
        seated = False
        try:
            await self._panel.be_seated(call.place, call.judge)
            seated = not self._over
        finally:
            if not seated:
                self._scheduler.withdraw(call.arm, call.units)
                self._give_back(call, 0, 0.0)
        return seated

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stop.requested.wait(), seconds)

    def _keep(
        self,
        call: _Call,
        outcome: Reply | Failure,
        judgments: Sequence[Judgment],
        kept: asyncio.Future[None],
        error: BaseException | None,
    ) -> None:
        """The answer is on disk, or could not be written. Append before tell: memory must not know more than the disk."""
        self._unwritten -= 1
        try:
            if error is not None:
                raise error
            units = self._take_in(call.arm, judgments)
            if isinstance(outcome, Failure) and outcome.reason not in PERMANENT_FAILURES:
                self._scheduler.defer(call.arm, call.units)
            else:
                self._scheduler.tell(call.arm, call.units)
            self._settle(call, units, sum(judgment.cost_usd or 0.0 for judgment in judgments))
            self._watch(call.arm, judgments)
        except Exception as failed:  # noqa: BLE001  # whatever it is, it ends the run, and the committer must go on
            self._fail(failed)
        finally:
            kept.set_result(None)

    def _settle(self, call: _Call, units: int, cost: float) -> None:
        self.stats.in_flight -= 1
        self._give_back(call, units, cost)

    def _give_back(self, call: _Call, units: int, cost: float) -> None:
        self._budget.settle(call.units, units)
        self._purse.settle(call.money, cost)
        self._wake_one()

    def _fail(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_exception(error)
        self._end()

    def _take_in(self, arm: int, judgments: Sequence[Judgment]) -> int:
        """Count what is on disk now; the units of the budget it cost."""
        for judgment in judgments:
            add_judgment(self._arms, arm, judgment)
            self.stats.ratings += judgment.rating is not None
            if judgment.text_because is not None:
                self.stats.by_text[judgment.text_because] += 1
            if judgment.reason is not None:
                (self.stats.unparsed if judgment.counts else self.stats.failed)[judgment.reason] += 1
            self.stats.prompt_tokens += judgment.prompt_tokens or 0
            self.stats.completion_tokens += judgment.completion_tokens or 0
            self.stats.cost_usd += judgment.cost_usd or 0.0
            if judgment.counts:
                self.stats.priced += judgment.cost_usd is not None
                self.stats.unpriced += judgment.cost_usd is None
            self.stats.estimated += judgment.usage_estimated
        return sum(judgment.counts for judgment in judgments)

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


def _error_of(ended: asyncio.Future[None]) -> BaseException | None:
    return ended.exception() if ended.done() and not ended.cancelled() else None
