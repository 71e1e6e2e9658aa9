"""The loop of a run whose calls are made by workers elsewhere: as the engine's, with questions and answers in groups.

Who is asked, when, and what came of it is decided here, call by call, by the same parts as in one process. So the pace, the
caps, what an endpoint says of waiting, and the money hold for all workers together. A call that is answered at once, as nearly
all are, costs no task of its own; one that failed goes on as it would in one process, each of its requests made by a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from robin_cli.dispatch.limited import Dispatched
from robin_cli.dispatch.limiter import Permit
from robin_cli.model import errors
from robin_cli.model.errors import EndpointError, RunError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Unanswered, outcome_of
from robin_cli.model.records import Judgment, Usage
from robin_cli.planning.budget import MoneyBudget
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.runner.elsewhere import Workers
from robin_cli.runner.engine import GRACE_S, Call, Desk, Engine, Idle, Stop, end_all
from robin_cli.runner.health import STALL_S
from robin_ray.crew import Cluster, Crew
from robin_ray.remote import AskedOf, Targets, Told
from robin_ray.wire import Came, Posed, Run, Texts

_UNSENT = Failure("unsent", "", adapted=True)
"""A request that was not made, for the endpoint had just said to wait: it is made again once it may be."""


class Gone(Exception):
    """A request whose worker is gone: nobody knows whether it was made."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A request under way: the first of a call, or one that somebody waits for (``coming``)."""

    target: int
    call: Call | None = None
    permit: Permit | None = None
    started: float = 0.0
    coming: asyncio.Future[Reply | Failure] | None = None


@dataclass(frozen=True)
class OnCluster(Workers):
    """How a session has its calls made by workers: who is asked, where the workers are, and what they have to know.

    Attributes:
        place: of an arm: the position of its pair, and which of its pair's arms it is.
        texts: of a pair, by its position.
        notify: is told what a user should know, a line each.
    """

    judges: Sequence[Dispatched]
    targets: Targets
    cluster: Cluster
    run: Run
    place: Callable[[int], tuple[int, int]]
    texts: Callable[[int], Texts]
    notify: Callable[[str], None]

    def engine(
        self,
        desk: Desk,
        judges: Mapping[str, Dispatched],
        planner: Planner,
        money: MoneyBudget,
        stop: Stop,
        *,
        samples: int,
        at_endpoints: bool,
        stall_s: float,
    ) -> Groups:
        """Make the loop whose calls are made by these workers."""
        asked = (desk, judges, planner, money, stop, self)
        return Groups(*asked, samples=samples, at_endpoints=at_endpoints, stall_s=stall_s)


class Groups(Engine):
    """One session of a run whose calls are made by the workers of a :class:`Crew`; else as :class:`Engine`."""

    def __init__(
        self,
        desk: Desk,
        judges: Mapping[str, Dispatched],
        planner: Planner,
        money: MoneyBudget,
        stop: Stop,
        on: OnCluster,
        *,
        samples: int = 1,
        at_endpoints: bool = True,
        stall_s: float = STALL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            desk,
            judges,
            planner,
            money,
            stop,
            samples=samples,
            at_endpoints=at_endpoints,
            stall_s=stall_s,
            clock=clock,
        )
        self._place = on.place
        self._clock = clock
        self._targets = on.targets
        self._notify = on.notify
        self._noted: set[str] = set()
        self._crew = Crew(
            on.cluster,
            on.run,
            on.targets.targets,
            on.targets.keys,
            texts=on.texts,
            bears=lambda: sum(judge.bears for judge in self._judges),
            came=self._take_in,
            lost=self._lose,
            notify=on.notify,
        )
        on.targets.reach_by(self._send)
        self._reckons = [
            money.limit is not None or any(limiter.counts_tokens for limiter in on.targets.number_of)
        ] * len(self._judges)
        self._sent: dict[int, _Sent] = {}
        self._number = 0
        self._chosen: list[deque[Call]] = [deque() for _ in self._judges]  # calls that wait for a permit of their judge
        self._has_chosen = [asyncio.Event() for _ in self._judges]
        self._lost_calls = 0

    async def run(self) -> None:
        """Work as :meth:`Engine.run` does, once there are workers.

        Raises:
            InputError, EndpointError: workers cannot be used, or there are none any more.
        """
        self._notify("--ray: workers are starting, which takes some seconds")
        starting = asyncio.create_task(self._crew.start())
        stopping = asyncio.create_task(self._stop.requested.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                self.stats.started_at = time.monotonic()  # what is said of the pace is of the calls
                looking = asyncio.create_task(self._look_after())
                try:
                    await super().run()
                finally:
                    looking.cancel()
        finally:
            starting.cancel()
            stopping.cancel()
            await asyncio.gather(starting, stopping, return_exceptions=True)
            await self._crew.close()

    async def _look_after(self) -> None:
        try:
            await self._crew.look_after()
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run
            self._end(error)

    # ── calls go out ──────────────────────────────────────────────────────────────────────────────────────────────────

    async def _begin_calls(self) -> None:
        """Choose calls as :meth:`Engine._begin_calls` does, as many at once as may be begun."""
        pumps = [] if self._alone else [asyncio.create_task(self._hand_out(each)) for each in range(len(self._judges))]
        try:
            while not self._over:
                if self._must_wait():
                    await self._change()
                    continue
                permit = await self._judges[0].acquire() if self._alone else None
                if permit is not None and self._must_wait():  # answers came meanwhile that are not on disk
                    permit.release()
                    continue
                idle = self._choose_all(permit)
                if idle is Idle.EXHAUSTED:
                    return
                if idle is not None:
                    await self._change()
        finally:
            for pump in pumps:
                pump.cancel()

    def _choose_all(self, permit: Permit | None) -> Idle | None:
        """Choose calls as long as they may be begun; None where the planner has more."""
        while True:
            call = self._next(permit)
            if not isinstance(call, Call):
                return call
            if permit is None:
                self._chosen[call.judge].append(call)
                self._has_chosen[call.judge].set()
            else:
                self._pose(call, permit)
            if self._over or self._must_wait():
                return None
            if permit is not None:
                taken = self._judges[0].take()
                if not isinstance(taken, Permit):
                    return None
                permit = taken

    async def _hand_out(self, number: int) -> None:
        """Give the calls that are chosen of one judge their permits, first come, first served."""
        judge, chosen = self._judges[number], self._chosen[number]
        while True:
            if not chosen:
                self._has_chosen[number].clear()
                await self._has_chosen[number].wait()
            taken: Permit | float = await judge.acquire()
            while isinstance(taken, Permit):
                if not chosen:
                    taken.release()
                    break
                self._pose(chosen.popleft(), taken)
                taken = judge.take() if chosen else 0.0

    def _shortened(self, ticket: Ticket, judge: Dispatched) -> Ticket:
        return ticket if ticket.calls == 1 else super()._shortened(ticket, judge)

    def _question(self, ticket: Ticket) -> Question:
        arm, draw, samples = ticket
        if not self._reckons[self._desk.judge_of(arm)]:
            return AskedOf((), samples, arm=arm, draw=draw)
        asked = self._desk.question(ticket)
        return AskedOf(asked.messages, samples, asked.seed, asked.structure, arm=arm, draw=draw)

    def _pose(self, call: Call, permit: Permit) -> None:
        """Have a worker make the first request of ``call``."""
        target = self._targets.number_of[permit.limiter]
        permit.limiter.charge(permit, self._targets.judges[target].tokens(call.question))
        self.stats.calls += 1
        self._open += 1
        self._health[call.judge].begins()
        self._post(call.question, _Sent(target, call, permit, self._clock()))

    async def _send(self, target: int, question: AskedOf) -> Reply | Failure:
        """Have a worker make one request, and wait for what comes of it."""
        sent = _Sent(target, coming=asyncio.get_running_loop().create_future())
        number = self._post(question, sent)
        assert sent.coming is not None  # noqa: S101  # made above
        try:
            return await sent.coming
        finally:
            self._sent.pop(number, None)

    def _post(self, question: Question, sent: _Sent) -> int:
        assert isinstance(question, AskedOf)  # noqa: S101  # no other is made here
        self._number = number = self._number + 1
        self._sent[number] = sent
        pair, arm = self._place(question.arm)
        self._crew.pose(Posed(number, sent.target, pair, arm, question.draw, question.samples, question.at_normal_tier))
        return number

    # ── answers come in ───────────────────────────────────────────────────────────────────────────────────────────────

    def _take_in(self, came: Came) -> None:
        """What a worker gave: what it says of requests that nobody waits for any more is let go."""
        for line in came.notes:
            if line not in self._noted:
                self._noted.add(line)
                self._notify(line)
        for target, most in came.most_samples.items():
            self._targets.judges[target].learn(most)
        self._keep_answers(came)
        for number, failure in came.failed:
            self._not_answered(number, failure)
        for number in came.unsent:
            self._not_answered(number, _UNSENT)
        for number, kind, why in came.unusable:
            error = getattr(errors, kind, RunError)(why)
            if isinstance(error, EndpointError):
                self._not_answered(number, error)
            else:
                self._withdraw(number)
                self._end(error)
        for bug in came.bugs:
            self._end(RunError(f"an answer could not be read ({bug}), and is kept as it is"))
        self._changed.set()

    def _keep_answers(self, came: Came) -> None:
        kept: list[tuple[Call, list[Judgment]]] = []
        written: list[Judgment] = []
        for number, judgments, tokens in came.answered:
            sent = self._sent.pop(number, None)
            if sent is None:
                continue
            if sent.call is None or sent.permit is None:
                _tell(sent, _reply(judgments))
                continue
            call = sent.call
            self._targets.judges[sent.target].measured(call.question, judgments)
            self._judges[call.judge].answered(sent.permit, tokens)
            health = self._health[call.judge]
            health.ends()
            health.answered()
            kept.append((call, judgments))
            written += judgments
        if kept:
            self._begun -= len(kept)
            self._unwritten += len(kept)
            self._commit.commit(written, lambda error: self._keep_all(kept, written, error))

    def _keep_all(
        self,
        kept: Sequence[tuple[Call, list[Judgment]]],
        written: Sequence[Judgment],
        error: BaseException | None,
    ) -> None:
        """As :meth:`Engine._keep`, of many."""
        self._unwritten -= len(kept)
        self._open -= len(kept)
        if isinstance(error, Exception):
            self._end(error)
        if error is None:
            self.stats.count(written)
            for call, judgments in kept:
                try:
                    self._desk.took(call.ticket.arm, judgments)
                    self._settle(call, outcome_of(judgments), sum(each.cost_usd or 0.0 for each in judgments))
                    self._desk.told(call.ticket.arm, judgments)
                except Exception as failed:  # noqa: BLE001  # it ends the run, and the others must be told, too
                    self._end(failed)
        self._changed.set()

    def _not_answered(self, number: int, outcome: Failure | EndpointError) -> None:
        sent = self._sent.pop(number, None)
        if sent is None:
            return
        if sent.call is None or sent.permit is None:
            _tell(sent, outcome)
            return
        call, permit, judge = sent.call, sent.permit, self._judges[sent.call.judge]
        if outcome is _UNSENT:
            permit.unused()
        else:
            judge.failed(permit, outcome)
        self._health[call.judge].ends()
        following = self._follow(call, judge.after(call.question, permit, outcome, sent.started))
        task = asyncio.get_running_loop().create_task(self._see_through(call, following))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)

    async def _see_through(self, call: Call, following: Awaitable[None]) -> None:
        """See a call to its end that was not answered at once; what goes wrong beyond a failure ends the run."""
        try:
            await following
        except Gone:
            self._settle_lost(call)
        except asyncio.CancelledError:
            self._settle(call, Unanswered.WITHDRAWN)
            raise
        except Exception as error:  # noqa: BLE001  # whatever it is, it ends the run
            self._settle(call, Unanswered.WITHDRAWN)
            self._end(error)
        finally:
            self._begun -= 1
            self._changed.set()

    def _judgments(self, ticket: Ticket, outcome: Reply | Failure) -> list[Judgment]:
        if isinstance(outcome, Told):
            return list(outcome.judgments)
        return super()._judgments(ticket, outcome)

    def _lose(self, numbers: Iterable[int]) -> None:
        """Requests whose worker is gone: their calls are made again, as others; nobody knows whether they were paid for."""
        for number in numbers:
            sent = self._sent.pop(number, None)
            if sent is None:
                continue
            if sent.call is None or sent.permit is None:
                _tell(sent, Gone())
                continue
            sent.permit.release()
            self._forget(sent.call)
            self._settle_lost(sent.call)
        self._changed.set()

    def _withdraw(self, number: int) -> None:
        sent = self._sent.pop(number, None)
        if sent is None:
            return
        if sent.call is None or sent.permit is None:
            _tell(sent, Gone())
            return
        sent.permit.release()
        self._forget(sent.call)
        self._settle(sent.call, Unanswered.WITHDRAWN)

    def _forget(self, call: Call) -> None:
        self._health[call.judge].ends()
        self._begun -= 1
        self._open -= 1

    def _settle_lost(self, call: Call) -> None:
        self._lost_calls += 1
        self._planner.tell(call.ticket, Unanswered.WITHDRAWN)
        self._money.lose(call.money, call.judge)

    async def _let_finish(self) -> None:
        """As :meth:`Engine._let_finish`."""
        for chosen in self._chosen:
            while chosen:
                self._begun -= 1
                self._settle(chosen.popleft(), Unanswered.WITHDRAWN)
        hurry = asyncio.ensure_future(self._stop.now.wait())
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while (self._sent or self._calls) and self._crew.can_answer and not hurry.done():
                    self._changed.clear()
                    change = asyncio.ensure_future(self._changed.wait())
                    await asyncio.wait({change, hurry}, return_when=asyncio.FIRST_COMPLETED)
                    change.cancel()
        hurry.cancel()
        self.stats.dropped = self.stats.in_flight + self._lost_calls
        await end_all(self._calls)
        for number in list(self._sent):
            self._withdraw(number)
        self._closed = True
        await self._commit.drain()


def _reply(judgments: Sequence[Judgment]) -> Told:
    """The reply that workers made ``judgments`` of, as far as those that retry it look at it."""
    first = judgments[0]
    usage = Usage(first.prompt_tokens, first.completion_tokens)
    return Told((), first.model, usage, first.request_id, first.latency_s, judgments)


def _tell(sent: _Sent, outcome: Reply | Failure | BaseException) -> None:
    """Tell whoever waits for a request what came of it."""
    if sent.coming is None or sent.coming.done():
        return
    if isinstance(outcome, BaseException):
        sent.coming.set_exception(outcome)
    else:
        sent.coming.set_result(outcome)
