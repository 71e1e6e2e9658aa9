"""The carrier that makes calls in this process, as many at a time as the judges allow."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from robin_cli.data.texts import give_back
from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import CallLost
from robin_cli.judges.limiter import Permit
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Unanswered
from robin_cli.session.asking import NO_END
from robin_cli.session.carriers import Carrier
from robin_cli.session.ledger import Call, Idle, Ledger, Unpaid
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
    judges the planner chooses the judge too. So a call is chosen first, and no other of its judge before it has a permit.
    """

    def __init__(self, ledger: Ledger, judges: Sequence[Failover]) -> None:
        self._ledger, self._judges = ledger, judges
        self._calls: set[asyncio.Task[None]] = set()
        self._thinking: set[asyncio.Task[None]] = set()  # the planner's work in threads
        self._held: list[int] = []  # the judge of each chosen call that waits for its permit
        self._prompts = 0  # bytes of the prompts of calls without an outcome
        self._is_stopping = self._is_closed = False
        limiters = [limiter for judge in judges for limiter in judge.limiters]
        ledger.judges, ledger.stats.limiters = judges, limiters
        ledger.stats.under_way = lambda: sum(judge.under_way for judge in judges)
        self._is_at_one = len(limiters) == 1
        places = {limiter.together[0]: limiter for limiter in limiters}.values()
        ceiling = sum(limiter.ceiling for limiter in places)
        planner = ledger.planner
        planner.elsewhere = self._think
        # With one call at a time, each answer is on disk before the next call is chosen. Else the next call waits for the disk
        # only if more answers do than a quarter of the calls at a time: a power cut loses those, and the calls under way.
        self._is_in_turn = min(ceiling, planner.budget.available) <= 1
        self._most_unwritten = min(ceiling, _MOST_AHEAD) // 4
        # With this many calls under way, as many are chosen without the newest answers anyway.
        under_way = min(ceiling, _MOST_AHEAD) // _UNDER_WAY_FOR_EACH
        together = min(under_way, len(planner.arms) // _ARMS_FOR_EACH)
        planner.block = 1 if self._is_in_turn else max(planner.block, together)
        self._enough = max(planner.enough, sum(limiter.fixed or 0 for limiter in places))

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
        ledger = self._ledger
        return self._is_stopping or ledger.ended.is_set() or ledger.stop.requested.is_set()

    def _think(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work`` in a thread: a fit of a thousand systems, or a look at a million arms, would delay the answers."""

        async def think() -> None:
            try:
                then(await asyncio.to_thread(work))
            except Exception as error:  # noqa: BLE001  # it ends the run
                self._ledger.end(error)

        self._spawn(think(), self._thinking)

    def _spawn(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        def is_done(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._ledger.changed.set()

        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(is_done)

    # ── calls begin ───────────────────────────────────────────────────────────────────────────────

    async def _begin_calls(self) -> None:
        """Choose and begin calls, as soon as possible. Only here a run waits until it may ask."""
        changed, budget = self._ledger.changed, self._ledger.planner.budget
        while not self._is_over and not budget.exhausted:
            call: Call | Idle = Idle.WAIT
            if not self._must_wait():
                is_alone = len(self._judges) == 1
                call = self._choose(await self._judges[0].acquire() if is_alone else None)
            if isinstance(call, Call):
                self._spawn(self._make_calls(call), self._calls)
                del call  # its prompt may be long, and waiting may take a while
            elif call is Idle.EXHAUSTED:
                return
            else:
                changed.clear()
                with suppress(TimeoutError):
                    pauses = [health.left_s for health in self._ledger.health if health.left_s]
                    await asyncio.wait_for(changed.wait(), min(pauses, default=None))

    @property
    def _closed(self) -> set[int]:
        """The judges that take no more calls now: a call waits for its permit, or they failed and pause."""
        health = enumerate(self._ledger.health)
        return {*self._held, *(judge for judge, each in health if each.left_s)}

    def _must_wait(self) -> bool:
        unwritten = self._ledger.unwritten
        return (
            not self._ledger.planner.budget.available
            or unwritten > self._most_unwritten
            or self._prompts > _MOST_ASKED
            or len(self._closed) == len(self._judges)
            or (self._is_in_turn and bool(self._calls or unwritten or self._thinking))
        )

    def _choose(self, permit: Permit | None) -> Call | Idle:
        """Choose a call for ``permit``, which is released if there is none. Errors end the run."""
        ledger = self._ledger
        try:
            # With one call a request, permits limit the calls under way; the rest of a visit waits for its first.
            takes_several = any(judge.most_samples > 1 for judge in self._judges)
            ledger.planner.enough = self._enough if takes_several else NO_END
            call = ledger.choose(ledger.longest, self._closed)
            if isinstance(call, Call):
                call.permit, permit = permit or self._take(call.judge), None
                self._line_up(call)
            elif isinstance(call, Unpaid):
                # A call under way may cost less than the money set aside for it.
                is_open = ledger.planner.budget.reserved > 0
                call = Idle.WAIT if is_open else ledger.end_of_money(call)
        except Exception as error:  # noqa: BLE001  # it ends the run
            ledger.end(error)
            call = Idle.WAIT
        finally:
            if permit is not None:
                permit.release()
        return call

    def _line_up(self, call: Call) -> None:
        """Count a call that begins. While it waits for a permit, no other call of its judge is chosen."""
        self._prompts += _count_bytes(call)
        if call.permit is None and self._holds(call):
            self._held.append(call.judge)

    def _holds(self, call: Call) -> bool:
        """Return whether others wait for a call. The rest of a visit may leave new calls to other addresses."""
        return call.at is None or self._is_at_one

    def _take(self, judge: int) -> Permit | None:
        taken = self._judges[judge].take()
        return taken if isinstance(taken, Permit) else None

    async def _make_calls(self, call: Call) -> None:
        """Make ``call``, and then others, as long as one may begin at once.

        :meth:`_begin_calls` alone would begin them only after all answers that came together were handled, and so send calls in
        bursts.
        """
        following: Call | Idle = call
        while isinstance(following, Call):
            await self._make(following)
            if self._is_over or self._must_wait():
                return
            permit = None
            if len(self._judges) == 1 and (permit := self._take(0)) is None:
                return
            following = self._choose(permit)

    # ── a call is made ────────────────────────────────────────────────────────────────────────────

    async def _make(self, call: Call) -> None:
        """Make a chosen call, and store its outcome. An error other than a failed call ends the run."""
        ledger, size = self._ledger, call.size
        try:
            await self._wait_for_permit(call)
            outcome = await self._ask(call)
            judgments = [] if outcome is None else ledger.judgments(call, outcome)
        except CallLost:
            ledger.lose(call)
        except asyncio.CancelledError:
            ledger.withdraw(call)
            raise
        except Exception as error:  # noqa: BLE001  # it ends the run
            ledger.withdraw(call)
            ledger.end(error)
        else:
            call.question = None  # it may be long, and the next goes out
            if outcome is None:
                ledger.withdraw(call, Unanswered.UNREACHED)
            else:
                ledger.append([(call, judgments)])
                self._go_on(call, len(judgments) if isinstance(outcome, Reply) else 0)
        finally:
            self._prompts -= size
            ledger.changed.set()
            if size >= _LONG:
                give_back()

    async def _wait_for_permit(self, call: Call) -> None:
        """Wait for a call's permit. CancelledError if the run is over by then."""
        if call.permit is not None:
            return
        try:
            call.permit = await self._judges[call.judge].acquire(call.at)
        finally:
            if self._holds(call):
                self._held.remove(call.judge)
                self._ledger.changed.set()
        if self._is_over:
            call.permit.release()
            raise asyncio.CancelledError

    async def _ask(self, call: Call) -> Reply | Failure | None:
        """Return the outcome of a call; None if it says nothing about its arm."""
        ledger, health = self._ledger, self._ledger.health[call.judge]
        assert call.question is not None  # noqa: S101  # it was just chosen
        ledger.begin()
        health.begins()
        try:
            outcome = await self._judges[call.judge].ask(call.question, call.permit)
        except EndpointError as error:
            if name := ledger.desk.names[call.judge]:
                raise EndpointError(f"{name}: {error}") from error
            raise
        finally:
            ledger.asked -= 1
            health.ends()
        if self._is_closed:  # the session did not wait for it
            raise asyncio.CancelledError
        stats = ledger.stats
        if isinstance(outcome, Reply):
            health.answered()
            if outcome.unread:
                stats.last_failure = outcome.answers[0].text
            return outcome
        stats.last_failure = outcome.detail
        if health.blames_the_arm(outcome, ledger.desk.pair_of(call.ticket.arm)):
            return outcome
        stats.failed[outcome.reason] += 1
        health.pause()
        return None

    def _go_on(self, call: Call, came: int) -> None:
        """Begin the other calls of the visit of ``call``, which brought so many answers. Errors end the run."""
        ledger, answered = self._ledger, came // len(call.tickets)
        try:
            if answered and not self._is_over:
                if answered < call.ticket.calls:  # the request was for more
                    (ticket,) = call.tickets
                    left = sum(part.calls for part in (ticket, *call.rest)) - answered
                    call.tickets = [ticket._replace(calls=answered)]
                    call.rest = [ticket._replace(draw=ticket.draw + answered, calls=left)]
                for other in ledger.others(call):
                    self._line_up(other)
                    self._spawn(self._make_calls(other), self._calls)
            ledger.drop_rest(call)
        except Exception as error:  # noqa: BLE001  # it ends the run; the answer is kept
            ledger.end(error)

    # ── the session ends ──────────────────────────────────────────────────────────────────────────

    async def _let_finish(self) -> None:
        """Wait for the calls under way, at most GRACE_S, and until all answers are on disk."""
        ledger = self._ledger
        if self._calls:
            finished = asyncio.ensure_future(asyncio.wait(set(self._calls)))
            hurry = asyncio.ensure_future(ledger.stop.now.wait())
            ends = {finished, hurry}
            await asyncio.wait(ends, timeout=GRACE_S, return_when=asyncio.FIRST_COMPLETED)
            finished.cancel()
            hurry.cancel()
        ledger.stats.dropped += ledger.stats.in_flight
        await end_all([*self._calls, *self._thinking])
        self._is_closed = True
        await ledger.close()


def _count_bytes(call: Call) -> int:
    """Set the size of a call, about how many bytes its question takes in memory; return it."""
    question: Question | None = call.question
    messages = () if question is None else question.messages
    texts = (message["content"] for message in messages)
    images: int = sum(image.size for message in messages for image in message.get("images", ()))
    # a character may take four bytes
    call.size = images + sum(len(text) if text.isascii() else 4 * len(text) for text in texts)
    return call.size
