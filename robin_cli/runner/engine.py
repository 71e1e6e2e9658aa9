"""The loop of a run: plan -> judge -> append -> tell, as many calls at a time as the judges bear, until the budget is spent."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from robin_cli.datasets.texts import give_back
from robin_cli.dispatch.limited import Dispatched
from robin_cli.dispatch.limiter import Permit
from robin_cli.model.errors import EndpointError, LimitReached
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Outcome, Unanswered, outcome_of
from robin_cli.model.records import NORMAL_TIERS, Judgment
from robin_cli.planning.budget import MoneyBudget
from robin_cli.planning.planner import Found, Planner, Ticket
from robin_cli.runner.health import STALL_S, Health
from robin_cli.storage.group_commit import GroupCommit

_MOST_ASKED = 24 * 2**20
"""Bytes of prompts under way, above which no further call is begun: each takes several times its prompt in memory."""

_LONG = 2**22
"""Bytes of a prompt after which what is kept of its memory is given back: the next one may be another's."""

_UNDER_WAY_FOR_EACH, _ARMS_FOR_EACH = 8, 16
"""Calls under way, and arms, for each that is chosen together with others."""

GRACE_S = 10.0
"""How long calls under way may still take after the run was asked to stop."""

UNWILLING_S = 2.0
"""How long what was cancelled may take to end. A judge of somebody else's may swallow it; the run ends all the same."""


async def end_all(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel ``tasks``, and let go of those that do not end: nobody waits for them, nor does the process. Returns these."""
    asked = set(tasks)
    for task in asked:
        task.cancel()
    if not asked:
        return asked
    _, unwilling = await asyncio.wait(asked, timeout=UNWILLING_S)
    for task in unwilling:
        asyncio._unregister_task(task)  # noqa: SLF001  # in asyncio's documentation; asyncio.run() would wait for it
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # as gather() says that it is meant
    return unwilling


class Idle(Enum):
    """Why no call is begun: nothing until something changes, or nothing ever again."""

    WAIT = "wait"
    EXHAUSTED = "exhausted"


@dataclass(slots=True)
class Stats:
    """What this session did so far; read by the progress display.

    ``calls`` are those begun, and ``in_flight`` the requests under way; ``by_text`` counts, by reason, ratings that were to go
    by log probabilities and went by the text; ``estimated`` counts judgments whose tokens are estimates, ``priced`` and
    ``unpriced`` answers whose cost is known and those whose cost is not, ``dropped`` requests that were not waited for. Cached
    tokens and service tiers are counted as :class:`~robin_cli.storage.fold.Spending` says.
    """

    under_way: Callable[[], int] = int
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
    cached_tokens: int = 0
    prompt_tokens_told: int = 0
    at_tier: int = 0
    at_normal_tier: int = 0
    dropped: int = 0
    last_failure: str = ""

    @property
    def in_flight(self) -> int:
        """Requests under way now: a call that waits to be made again is none."""
        return self.under_way()

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Count what is on disk now."""
        for judgment in judgments:
            self.ratings += judgment.rating is not None
            if judgment.text_because is not None:
                self.by_text[judgment.text_because] += 1
            if judgment.reason is not None:
                (self.unparsed if judgment.counts else self.failed)[judgment.reason] += 1
            self.prompt_tokens += judgment.prompt_tokens or 0
            self.completion_tokens += judgment.completion_tokens or 0
            self.cost_usd += judgment.cost_usd or 0.0
            if judgment.cached_tokens is not None:
                self.cached_tokens += min(judgment.cached_tokens, judgment.prompt_tokens or 0)
                self.prompt_tokens_told += judgment.prompt_tokens or 0
            if judgment.service_tier is not None:
                self.at_tier += judgment.service_tier not in NORMAL_TIERS
                self.at_normal_tier += judgment.service_tier in NORMAL_TIERS
            if judgment.counts:
                self.priced += judgment.cost_usd is not None
                self.unpriced += judgment.cost_usd is None
            self.estimated += judgment.usage_estimated


class Left(Enum):
    """What is to become of batches that a run is stopped before the end of."""

    RUNNING = "running"
    CANCELLED = "cancelled"
    FORGOTTEN = "forgotten"
    """Nothing is expected of them any more, and their calls are made again: some services lose batches."""


class Stop:
    """How a run is asked to end early: once, it lets calls under way finish; twice, it drops them.

    Attributes:
        offer: asks whoever stopped it what is to become of so many batches that would go on without it; None where nobody can
            be asked.
    """

    def __init__(self) -> None:
        self.offer: Callable[[int], Awaitable[Left]] | None = None
        self.requested = asyncio.Event()
        self.now = asyncio.Event()

    def request(self) -> None:
        """Ask to stop, or, asked again, to stop at once."""
        (self.now if self.requested.is_set() else self.requested).set()


class Desk(Protocol):
    """The run that an engine works for: it makes questions of tickets, judgments of replies, and keeps them."""

    def judge_of(self, arm: int) -> int:
        """Which of the judges an arm is asked of."""

    def question(self, ticket: Ticket) -> Question:
        """What to ask."""

    def judgments(self, ticket: Ticket, outcome: Reply | Failure) -> list[Judgment]:
        """Those in a reply, or the one that records a failure."""

    def unread(self, ticket: Ticket, reply: Reply) -> list[Judgment]:
        """Those in a reply that :meth:`judgments` cannot read: its texts, without ratings."""

    def write(self, judgments: Sequence[Judgment]) -> None:
        """Hand judgments to the operating system."""

    def sync(self) -> None:
        """Wait until all that was written is on disk; called in a thread."""

    def took(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Count what judgments on disk took, before the planner is told of them."""

    def told(self, arm: int, judgments: Sequence[Judgment]) -> None:
        """Look at the judgments of one request, on disk by now; what it raises ends the run."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call about to be made, what is reserved for it, and the permit, where it has one by now."""

    ticket: Ticket
    judge: int
    question: Question
    money: float
    permit: Permit | None

    @property
    def size(self) -> int:
        """Bytes that its prompt takes in memory, about: a character may take four."""
        texts = (message["content"] for message in self.question.messages)
        return sum(len(text) if text.isascii() else 4 * len(text) for text in texts)


_NO_QUESTION = Question([])


class Engine:
    """One session of a run.

    With one judge a permit comes first, and then the choice, so that no choice grows old. Of several, who is asked is the
    planner's choice and not that of who is free: a quick judge would else take what belongs to a slow one's arms. So a call
    is chosen first and then waits for a permit of its judge, and no more are chosen than all judges together bear. The slowest
    is never idle then, and sets the pace.

    Args:
        desk: what the calls are for.
        judges: at least one, by the name that messages give it: empty where there is one.
        planner, money: who chooses, within the calls there are, and how much money there is to spend.
        stop: see :class:`Stop`.
        samples: ratings wanted of one request, at least 1.
        at_endpoints: False where the judges are at no addresses.
        stall_s: how long a judge may answer nothing.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        desk: Desk,
        judges: Mapping[str, Dispatched],
        planner: Planner,
        money: MoneyBudget,
        stop: Stop,
        *,
        samples: int = 1,
        at_endpoints: bool = True,
        stall_s: float = STALL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stats = Stats(lambda: sum(judge.under_way for judge in self._judges))
        self._desk = desk
        self._names = list(judges)
        self._judges = list(judges.values())
        self._health = [Health(name, clock, at_endpoint=at_endpoints, stall_s=stall_s) for name in judges]
        self._planner = planner
        self._money = money
        self._stop = stop
        self._samples = samples
        self._commit = GroupCommit(desk.write, desk.sync, alone=lambda _: self._unwritten >= self._open)
        ceiling = sum(judge.ceiling for judge in self._judges)
        self._alone = len(self._judges) == 1
        # One call at a time: the answer to each is known when the next is chosen. Else the next does not wait for the disk, as
        # long as no more answers do than a quarter of the calls at a time: a power cut loses those and what is under way.
        self._in_turn = min(ceiling, planner.budget.available) <= 1
        # As many calls as this are chosen on old knowledge anyway, where so many are under way.
        together = min(ceiling // _UNDER_WAY_FOR_EACH, len(planner.arms) // _ARMS_FOR_EACH)
        planner.block = 1 if self._in_turn else max(planner.block, together)
        self._most_unwritten = ceiling // 4
        self._calls: set[asyncio.Task[None]] = set()
        self._begun = 0  # calls whose outcome is not known yet
        self._asked = 0  # characters of their prompts
        self._open = 0  # calls that were asked and are not on disk
        self._unwritten = 0  # answers on their way to the disk
        self._thinking: set[asyncio.Task[None]] = set()  # work of the planner that goes on in threads
        planner.elsewhere = self._elsewhere
        self._changed = asyncio.Event()  # one of these, or what the planner knows
        self._over = False
        self._closed = False
        self._error: Exception | None = None
        self._working: asyncio.Task[None]

    async def run(self) -> None:
        """Work until the budget is spent, no arm is left to ask, or the run is asked to stop.

        Whatever ends it, everything received by then is kept.

        Raises:
            EndpointError: the endpoint cannot be used.
            LimitReached: the money does not suffice for another call. InputError: the budget of money never did.
            StorageError: answers cannot be kept.
        """
        self._working = working = asyncio.create_task(self._begin_calls())
        stopping = asyncio.create_task(self._stop.requested.wait())
        try:
            await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._over = True
            working.cancel()
            stopping.cancel()
            await asyncio.gather(working, stopping, return_exceptions=True)
            await self._let_finish()
        error = self._error or (None if working.cancelled() else working.exception())
        if error is not None:
            raise error

    async def _begin_calls(self) -> None:
        """Choose calls and begin them, as soon as they may be: the one place where a run waits for leave to ask."""
        while not self._over:
            if self._must_wait():
                await self._change()
                continue
            call = self._next(await self._judges[0].acquire() if self._alone else None)
            if isinstance(call, Call):
                self._asked += call.size
                task = asyncio.create_task(self._make_calls(call))
                self._calls.add(task)
                task.add_done_callback(self._calls.discard)
                del call  # its prompt may be long, and this may wait for a while
            elif call is Idle.EXHAUSTED:
                return
            else:
                await self._change()

    def _must_wait(self) -> bool:
        room = self._alone or self._begun < sum(judge.bears for judge in self._judges)
        return (
            self._unwritten > self._most_unwritten
            or self._asked > _MOST_ASKED
            or (self._in_turn and bool(self._begun or self._unwritten or self._thinking))
            or not room
        )

    def _elsewhere(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work`` in a thread: a fit to a thousand systems, or a look at a million arms, would hold up the answers."""

        async def think() -> None:
            try:
                then(await asyncio.to_thread(work))
            except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run
                self._end(error)
            finally:
                self._thinking.discard(task)
                self._changed.set()

        task = asyncio.create_task(think())
        self._thinking.add(task)

    def _next(self, permit: Permit | None) -> Call | Idle:
        """Choose a call, to be made with ``permit``, or give that back; what goes wrong ends the run."""
        call: Call | Idle = Idle.WAIT
        try:
            call = self._choose(permit)
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run
            self._end(error)
        finally:
            if isinstance(call, Call):
                self._begun += 1
            elif permit is not None:
                permit.release()
        return call

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _choose(self, permit: Permit | None) -> Call | Idle:
        most = 1 if self._samples == 1 else min(self._samples, max(judge.most_samples for judge in self._judges))
        planned = self._planner.plan(1, most)
        if not planned:
            return Idle.EXHAUSTED if self._planner.is_over else Idle.WAIT
        (ticket,) = planned
        number = self._desk.judge_of(ticket.arm)
        judge = self._judges[number]
        try:
            ticket = self._shortened(ticket, judge)
            question = self._question(ticket)
            money = 0.0 if self._money.limit is None else judge.most_cost(question)
        except Exception:
            self._planner.tell(ticket, Unanswered.WITHDRAWN)
            raise
        if not self._money.covers(money, number):
            # The next call is this one: a cheaper arm asked in its place would bend what the planner decides.
            self._planner.tell(ticket, Unanswered.WITHDRAWN)
            if self._planner.budget.reserved:  # a call under way may cost less than what is reserved for it
                return Idle.WAIT
            if self._money.is_budget:
                self._money.end(money)
                return Idle.EXHAUSTED
            raise LimitReached(
                f"--max-cost ${self._money.limit:g} is reached: {self._money.told}, and the next call may "
                f"cost up to ${money:.4f}"
            )
        self._money.reserve(money, number)
        return Call(ticket, number, question, money, permit)

    def _shortened(self, ticket: Ticket, judge: Dispatched) -> Ticket:
        return self._planner.shorten(ticket, judge.most_samples)

    def _question(self, ticket: Ticket) -> Question:
        return self._desk.question(ticket)

    async def _make_calls(self, call: Call) -> None:
        """Make ``call``, and then others, as long as one may be begun at once.

        Left to :meth:`_begin_calls`, they would wait until all answers that came together were looked at, and then go out
        together again.
        """
        while True:
            is_long = call.size >= _LONG
            await self._make(call)
            del call  # its prompt may be long
            if is_long:
                give_back()
            if not self._alone or self._over or self._stop.requested.is_set() or self._must_wait():
                return
            permit = self._judges[0].take()
            following = self._next(permit) if isinstance(permit, Permit) else Idle.WAIT
            if not isinstance(following, Call):
                return
            call = following
            del following
            self._asked += call.size

    async def _make(self, call: Call) -> None:
        """Make the call, and hand on what came of it; what goes wrong beyond a failure ends the run."""
        try:
            permit = call.permit or await self._judges[call.judge].acquire()
            if self._over and call.permit is None:
                permit.release()
                self._settle(call, Unanswered.WITHDRAWN)
                return
            await self._ask(call, permit)
        except asyncio.CancelledError:
            self._settle(call, Unanswered.WITHDRAWN)
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run
            self._settle(call, Unanswered.WITHDRAWN)
            self._end(error)
        finally:
            self._begun -= 1
            self._asked -= call.size
            self._changed.set()

    async def _ask(self, call: Call, permit: Permit) -> None:
        self.stats.calls += 1
        self._open += 1
        await self._follow(call, self._judges[call.judge].ask(call.question, permit))

    async def _follow(self, call: Call, coming: Awaitable[Reply | Failure]) -> None:
        """Wait for what comes of an open call, and have it kept."""
        try:
            outcome = await self._outcome(call, coming)
            if outcome is None:
                self._open -= 1
                self._settle(call, Unanswered.UNREACHED)
                return
            if self._closed:  # it was not waited for, and the books are made up
                raise asyncio.CancelledError
            judgments = self._judgments(call.ticket, outcome)
        except BaseException:
            self._open -= 1
            raise
        self._unwritten += 1
        answered = Call(
            call.ticket, call.judge, _NO_QUESTION, call.money, None
        )  # its prompt may be long, and the next goes out
        self._commit.commit(judgments, lambda error: self._keep(answered, judgments, error))

    def _judgments(self, ticket: Ticket, outcome: Reply | Failure) -> list[Judgment]:
        try:
            return self._desk.judgments(ticket, outcome)
        except Exception as error:
            if isinstance(outcome, Failure):
                raise
            self._end(error)  # it is robin's, and may be every reply's; this one is paid for
            return self._desk.unread(ticket, outcome)

    async def _outcome(self, call: Call, coming: Awaitable[Reply | Failure]) -> Reply | Failure | None:
        """What came of the call; None where it says nothing of its arm."""
        health = self._health[call.judge]
        health.begins()
        try:
            outcome = await coming
        except EndpointError as error:
            if name := self._names[call.judge]:
                raise EndpointError(f"{name}: {error}") from error
            raise
        finally:
            health.ends()
        if isinstance(outcome, Reply):
            health.answered()
            return outcome
        self.stats.last_failure = outcome.detail
        if health.blames_the_arm(outcome, self._judges[call.judge].no_room_at):
            return outcome
        self.stats.failed[outcome.reason] += 1
        if len(self._judges) > 1 and not self._over:
            # Others of this judge's arms are asked next, and no other judge runs ahead: then there is nothing to hurry for.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stop.requested.wait(), health.pause_s())
        return None

    def _keep(self, call: Call, judgments: Sequence[Judgment], error: BaseException | None) -> None:
        """The answer is on disk, or could not be written. Append before tell: memory must not know more than the disk."""
        self._unwritten -= 1
        self._open -= 1
        try:
            if error is not None:
                raise error
            self.stats.count(judgments)
            self._desk.took(call.ticket.arm, judgments)
            self._settle(call, outcome_of(judgments), sum(judgment.cost_usd or 0.0 for judgment in judgments))
            self._desk.told(call.ticket.arm, judgments)
        except Exception as failed:  # noqa: BLE001  # whatever it is, it ends the run, and the others must be told, too
            self._end(failed)
        finally:
            self._changed.set()

    def _settle(self, call: Call, outcome: Outcome, cost: float = 0.0) -> None:
        self._planner.tell(call.ticket, outcome)
        self._money.settle(call.money, None if isinstance(outcome, Unanswered) else cost, call.judge)

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        self._over = True
        self._working.cancel()

    async def _let_finish(self) -> None:
        """Wait for the calls under way, as long as they may take, and until all that came is on disk."""
        calls: asyncio.Future[list[BaseException | None]] = asyncio.gather(*self._calls, return_exceptions=True)
        hurry = asyncio.ensure_future(self._stop.now.wait())
        ended: set[asyncio.Future[Any]] = {calls, hurry}
        await asyncio.wait(ended, timeout=GRACE_S, return_when=asyncio.FIRST_COMPLETED)
        hurry.cancel()
        self.stats.dropped = self.stats.in_flight
        await end_all([*self._calls, *self._thinking])
        self._closed = True
        await self._commit.drain()
