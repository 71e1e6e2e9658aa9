"""The carrier that makes calls in this process, as many at a time as the judges allow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from robin_cli.data.texts import give_back
from robin_cli.judges.failover import Failover
from robin_cli.judges.limiter import Permit
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import Judgment
from robin_cli.session.asking import NO_END
from robin_cli.session.carriers import Carrier
from robin_cli.session.ledger import Call, Idle, Ledger
from robin_cli.session.planner import Found
from robin_cli.session.stop import GRACE_S, end_all

_MOST_ASKED = 24 * 2**20
"""The most bytes of prompts under way: a call takes several times its prompt in memory."""

_LONG = 2**22
"""After a prompt of this many bytes, unused memory is returned to the system."""

_UNDER_WAY_FOR_EACH, _ARMS_FOR_EACH = 8, 16
"""Calls are chosen in blocks: one call per so many under way, and per so many arms."""

_MOST_AHEAD = 256
"""More calls under way make blocks no larger, and let no more answers wait for the disk."""


class Engine(Carrier):
    """Asks ``judges``, at least one, call by call.

    With one judge, a call is chosen once there is a permit for it, so that the choice uses the newest answers. With several
    judges the planner chooses the judge too. So a call is chosen first, and its judge is held until it has a permit.
    """

    def __init__(self, ledger: Ledger, judges: Sequence[Failover]) -> None:
        self._ledger = ledger
        self._judges = ledger.judges = judges
        self._health = ledger.health
        ledger.stats.under_way = lambda: sum(judge.under_way for judge in judges)
        ledger.stats.limiters = [limiter for judge in judges for limiter in judge.limiters]
        limiters = ledger.stats.limiters
        ceiling = sum({each.together[0]: each.ceiling for each in limiters}.values())
        self._alone = len(judges) == 1
        planner = ledger.planner
        # With one call at a time, each answer is on disk before the next call is chosen. Else the next call waits for the disk
        # only if more answers do than a quarter of the calls at a time: a power cut loses those, and the calls under way.
        self._in_turn = min(ceiling, planner.budget.available) <= 1
        # With this many calls under way, as many are chosen without the newest answers anyway.
        together = min(
            min(ceiling, _MOST_AHEAD) // _UNDER_WAY_FOR_EACH, len(planner.arms) // _ARMS_FOR_EACH
        )
        planner.block = 1 if self._in_turn else max(planner.block, together)
        self._most_unwritten = min(ceiling, _MOST_AHEAD) // 4
        fixed = sum({each.together[0]: each.fixed or 0 for each in limiters}.values())
        self._enough = max(planner.enough, fixed)
        self._calls: set[asyncio.Task[None]] = set()
        self._begun = 0  # calls without an outcome
        self._prompts = 0  # bytes of the prompts of calls without an outcome
        self._in_line = Counter[int]()  # calls that wait for a permit of each judge
        self._is_at_one = len(limiters) == 1
        self._thinking: set[asyncio.Task[None]] = set()  # the planner's work in threads
        planner.elsewhere = self._elsewhere
        self._is_stopping = self._is_closed = False

    async def run(self) -> None:
        """See :meth:`Carrier.run`."""
        ledger = self._ledger
        working = asyncio.create_task(self._begin_calls())
        ends = [
            asyncio.create_task(event.wait()) for event in (ledger.stop.requested, ledger.ended)
        ]
        try:
            await asyncio.wait({working, *ends}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._is_stopping = True
            for task in (working, *ends):
                task.cancel()
            came = await asyncio.gather(working, *ends, return_exceptions=True)
            await self._let_finish()
        for error in (ledger.error, came[0]):
            if isinstance(error, Exception):
                raise error

    @property
    def _is_over(self) -> bool:
        return self._is_stopping or self._ledger.error is not None

    async def _begin_calls(self) -> None:
        """Choose and begin calls, as soon as possible. Only here a run waits until it may ask."""
        while not self._is_over:
            if self._must_wait():
                await self._change()
                continue
            idle = self._begin_all(await self._judges[0].acquire() if self._alone else None)
            if idle is Idle.EXHAUSTED:
                return
            if idle is not None:
                await self._change()

    def _begin_all(self, permit: Permit | None) -> Idle | None:
        """Begin calls as long as possible; return why there are none, or None if the planner has more."""
        while True:
            call = self._next(permit)
            if isinstance(call, Idle):
                return call
            self._carry(call)
            del call  # its prompt may be long, and waiting may take a while
            if self._is_over or self._must_wait():
                return None
            if permit is not None:
                taken = self._judges[0].take()
                if not isinstance(taken, Permit):
                    return None
                permit = taken

    def _must_wait(self) -> bool:
        unwritten = self._ledger.unwritten
        return (
            unwritten > self._most_unwritten
            or self._prompts > _MOST_ASKED
            or len(self._held) == len(self._judges)
            or (self._in_turn and bool(self._begun or unwritten or self._thinking))
        )

    def _elsewhere(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work`` in a thread: a fit of a thousand systems, or a look at a million arms, would delay the answers."""

        async def think() -> None:
            try:
                then(await asyncio.to_thread(work))
            except Exception as error:  # noqa: BLE001  # it ends the run
                self._ledger.end(error)
            finally:
                self._thinking.discard(task)
                self._ledger.changed.set()

        task = asyncio.create_task(think())
        self._thinking.add(task)

    def _next(self, permit: Permit | None) -> Call | Idle:
        """Choose a call for ``permit``, which is released if there is none. Errors end the run."""
        ledger, idle = self._ledger, Idle.WAIT
        try:
            # With one call a request, permits limit the calls under way; the rest of a visit waits for its first.
            takes_several = any(judge.most_samples > 1 for judge in self._judges)
            ledger.planner.enough = self._enough if takes_several else NO_END
            call = ledger.choose(ledger.longest, self._held)
            if isinstance(call, Call):
                taken = permit or self._judges[call.judge].take()
                call.permit, permit = taken if isinstance(taken, Permit) else None, None
                self._count(call)
                return call
            if isinstance(call, Idle):
                idle = call
            elif (
                not ledger.planner.budget.reserved
            ):  # else a call under way may cost less than the money set aside for it
                idle = ledger.end_of_money(call)
        except Exception as error:  # noqa: BLE001  # it ends the run
            ledger.end(error)
        finally:
            if permit is not None:
                permit.release()
        return idle

    def _count(self, call: Call) -> None:
        call.size = self._size(call.question)
        self._begun += 1
        self._prompts += call.size
        self._in_line[call.judge] += self._holds(call)

    def _holds(self, call: Call) -> bool:
        """Return whether no other call of its judge is chosen before this one has a permit.

        The rest of a visit goes first too, as its prompt is in the cache, unless there are other addresses to go on at.
        """
        return call.permit is None and (call.at is None or self._is_at_one)

    @property
    def _held(self) -> Collection[int]:
        return [judge for judge, calls in self._in_line.items() if calls]

    def _discount(self, call: Call) -> None:
        self._begun -= 1
        self._prompts -= call.size
        self._ledger.changed.set()

    def _size(self, question: Question | None) -> int:
        """Return about how many bytes a question takes in memory: a character may take four."""
        messages = () if question is None else question.messages
        texts = (message["content"] for message in messages)
        images: int = sum(image.size for message in messages for image in message.get("images", ()))
        return images + sum(len(text) if text.isascii() else 4 * len(text) for text in texts)

    async def _change(self) -> None:
        self._ledger.changed.clear()
        await self._ledger.changed.wait()

    def _carry(self, call: Call) -> None:
        """Make a chosen call in a task."""
        self._see_to(self._make_calls(call))

    def _see_to(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._calls.add(task)
        task.add_done_callback(self._is_done)

    def _is_done(self, task: asyncio.Task[None]) -> None:
        self._calls.discard(task)
        self._ledger.changed.set()

    async def _make_calls(self, call: Call) -> None:
        """Make ``call``, and then others, as long as one may begin at once.

        :meth:`_begin_calls` alone would begin them only after all answers that came together were handled, and so send calls in
        bursts.
        """
        while True:
            is_long = call.size >= _LONG
            await self._see_through(call, self._make(call))
            if is_long:
                give_back()
            if self._is_over or self._ledger.stop.requested.is_set() or self._must_wait():
                return
            permit = self._judges[0].take() if self._alone else None
            following = Idle.WAIT if isinstance(permit, float) else self._next(permit)
            if isinstance(following, Idle):
                return
            call = following

    async def _see_through(self, call: Call, making: Awaitable[None]) -> None:
        """Wait for a call's end. An error other than a failed call ends the run."""
        try:
            await making
        except asyncio.CancelledError:
            self._ledger.withdraw(call)
            raise
        except Exception as error:  # noqa: BLE001  # it ends the run
            self._ledger.withdraw(call)
            self._ledger.end(error)
        finally:
            self._discount(call)

    async def _make(self, call: Call) -> None:
        if (permit := await self._permit(call)) is not None:
            self._ledger.begin()
            assert call.question is not None  # noqa: S101  # it was just chosen
            await self._follow(call, self._judges[call.judge].ask(call.question, permit))

    async def _permit(self, call: Call) -> Permit | None:
        """Wait for a call's permit; return None, and the call, if the run is over by then."""
        if call.permit is None:
            permit = await self._judges[call.judge].acquire(call.at)
            self._in_line[call.judge] -= self._holds(call)
            call.permit = permit
            self._ledger.changed.set()
            if self._is_over:
                call.permit.release()
                self._ledger.withdraw(call)
                return None
        return call.permit

    async def _follow(self, call: Call, coming: Awaitable[Reply | Failure]) -> None:
        """Wait for the outcome of a call, and store it."""
        ledger = self._ledger
        try:
            outcome = await self._outcome(call, coming)
            if self._is_closed:  # the session did not wait for it
                raise asyncio.CancelledError
            judgments = [] if outcome is None else self._judgments(call, outcome)
        finally:
            ledger.asked -= 1
        call.question = None  # it may be long, and the next goes out
        if outcome is None:
            ledger.withdraw(call, Unanswered.UNREACHED)
        else:
            ledger.append([(call, judgments)])
            self._go_on(call, len(judgments) if isinstance(outcome, Reply) else 0)

    def _go_on(self, call: Call, came: int) -> None:
        """Begin the other calls of the visit of ``call``, which brought so many answers."""
        answered = came // len(call.tickets)
        if answered and not self._is_over and not self._ledger.stop.requested.is_set():
            if answered < call.ticket.calls:  # the request was for more
                (ticket,) = call.tickets
                left = sum(part.calls for part in (ticket, *call.rest)) - answered
                call.tickets = [ticket._replace(calls=answered)]
                call.rest = [ticket._replace(draw=ticket.draw + answered, calls=left)]
            for other in self._ledger.others(call):
                self._count(other)
                self._carry(other)
        self._ledger.drop_rest(call)

    def _judgments(self, call: Call, outcome: Reply | Failure) -> list[Judgment]:
        return self._ledger.judgments(call, outcome)

    async def _outcome(
        self, call: Call, coming: Awaitable[Reply | Failure]
    ) -> Reply | Failure | None:
        """Return the outcome of a call; None if it says nothing about its arm."""
        health = self._health[call.judge]
        health.begins()
        try:
            outcome = await coming
        except EndpointError as error:
            if name := self._ledger.desk.names[call.judge]:
                raise EndpointError(f"{name}: {error}") from error
            raise
        finally:
            health.ends()
        if isinstance(outcome, Reply):
            health.answered()
            if outcome.unread:
                self._ledger.stats.last_failure = outcome.answers[0].text
            return outcome
        stats = self._ledger.stats
        stats.last_failure = outcome.detail
        if health.blames_the_arm(outcome, self._ledger.desk.pair_of(call.ticket.arm)):
            return outcome
        stats.failed[outcome.reason] += 1
        if len(self._judges) > 1 and not self._is_over:
            # No other judge runs ahead: without this wait the planner would choose more of this judge's arms.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._ledger.stop.requested.wait(), health.pause_s())
        return None

    def _is_under_way(self) -> bool:
        """Return whether answers may still come."""
        return bool(self._calls)

    async def _let_finish(self) -> None:
        """Wait for the calls under way, at most GRACE_S, and until all answers are on disk."""
        ledger = self._ledger
        hurry = asyncio.ensure_future(ledger.stop.now.wait())
        with suppress(TimeoutError):
            async with asyncio.timeout(GRACE_S):
                while self._is_under_way() and not hurry.done():
                    ledger.changed.clear()
                    change = asyncio.ensure_future(ledger.changed.wait())
                    await asyncio.wait({change, hurry}, return_when=asyncio.FIRST_COMPLETED)
                    change.cancel()
        hurry.cancel()
        ledger.stats.dropped += ledger.stats.in_flight
        await self._drop()
        self._is_closed = True
        await ledger.close()

    async def _drop(self) -> None:
        """Cancel the calls that the session does not wait for."""
        await end_all([*self._calls, *self._thinking])
