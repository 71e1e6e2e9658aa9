"""The ledger of a session: which calls may be made, and when their answers count.

One order never changes. The calls and the money of a request are reserved before it is made. Its answers are appended to the
journal and synced. Only then do they count: for the budget, for the money, for the planner and for the goal. After a crash,
memory never knew more than the disk does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from itertools import chain, starmap
from typing import Any

from robin_cli.judges.judge import Judge
from robin_cli.judges.limiter import Limiter, Permit
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Unanswered, outcome_of
from robin_cli.model.records import Judgment
from robin_cli.run.group_commit import GroupCommit
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.counters import Stats
from robin_cli.session.desk import RunDesk
from robin_cli.session.health import Health
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.stop import Stop


class Idle(Enum):
    """The reason why no call begins: wait for a change, or nothing is left to ask."""

    WAIT = "wait"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class Unpaid:
    """The money does not cover the next call, which may cost ``most`` dollars."""

    most: float


@dataclass(slots=True, eq=False)
class Call:
    """A request: its tickets, one for each attribute that it asks about, its judge, and the dollars reserved for it.

    Attributes:
        rest: calls of the visit that do not fit into the request. Others make them ``at`` the same address, which then has
            the prompt in its cache.
        question: its prompt, of ``size`` bytes, may be long: set it to None once the call is made.
    """

    tickets: Sequence[Ticket]
    judge: int
    rest: Sequence[Ticket] = ()
    at: Limiter | None = None
    money: float = 0.0
    question: Question | None = None
    permit: Permit | None = None
    size: int = 0

    @property
    def ticket(self) -> Ticket:
        """The ticket; the first of several."""
        return self.tickets[0]


class Ledger:
    """Reserves calls, records their answers, and only then tells the planner.

    Args:
        desk: makes questions of tickets and judgments of answers, and stores these.
        planner: chooses calls.
        money: the money to spend.
        longest: calls of a visit at most.
        health: the health of each judge, by number.
        notify: gets lines about a full disk for the user.

    Attributes:
        judges: by number, as the desk has them; a carrier sets them.
        keeps_questions: whether a call keeps its question, because it is made soon.
        along: returns the arms that a request for an arm may ask too, itself included.
        asked: the number of calls made and not answered yet.
        unwritten: the number of calls whose answers are on their way to the disk.
        changed: set when one of these changes, or the planner learns something.
        error: ends the session. ``broken``: answers cannot be stored any more.
    """

    def __init__(
        self,
        desk: RunDesk,
        planner: Planner,
        money: MoneyBudget,
        stop: Stop,
        *,
        longest: int = 1,
        health: Sequence[Health] = (),
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.desk, self.planner, self.money, self.stop = desk, planner, money, stop
        self.longest = longest
        self.health = health or [Health(name) for name in desk.names]
        self.stats = Stats()
        self.judges: Sequence[Judge] = ()
        self.keeps_questions = True
        self.along: Callable[[int], Sequence[int]] = lambda arm: (arm,)
        self.asked = self.unwritten = self._may_be_lost = 0
        self.changed, self.ended = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None
        self.broken: BaseException | None = None
        self._commit = GroupCommit(
            desk.write,
            desk.sync,
            alone=lambda: not self.asked,
            stop=stop.requested,
            notify=notify,
        )

    # ── calls are reserved ────────────────────────────────────────────────────────────────────────────────────────────

    def choose(self, longest: int, held: Collection[int] = ()) -> Call | Idle | Unpaid:
        """Reserve the first request of a visit of up to ``longest`` calls; ``held``: see :meth:`Planner.plan`."""
        ticket = self.planner.plan(longest, held)
        if ticket is None:
            return Idle.EXHAUSTED if self.planner.is_over else Idle.WAIT
        call = Call([ticket], self.desk.judge_of(ticket.arm))
        try:
            tickets = self.planner.along(ticket, self.along(ticket.arm))
            most = self._reserve(call, tickets)
        except Exception:
            self._unplan(call)  # answers under way are still counted, and the sums hold
            raise
        if most is not None and call.ticket.calls > 1:  # a single call may fit
            return self.choose(1, held)
        # A cheaper arm must not take its place: that would override the planner's choice.
        return call if most is None else Unpaid(most)

    def others(self, call: Call) -> list[Call]:
        """Reserve requests for the rest of the visit of ``call``; the money may suffice for some only."""
        calls: list[Call] = []
        at = None if call.permit is None else call.permit.limiter
        rest, call.rest = call.rest, ()
        while rest:
            other = Call((), call.judge, at=at)
            if self._reserve(other, rest) is not None:
                break  # its rest is given back with it
            rest, other.rest = other.rest, ()
            calls.append(other)
        return calls

    def _reserve(self, call: Call, tickets: Sequence[Ticket]) -> float | None:
        """Make ``call`` ask for as many calls of ``tickets`` as one request may, and reserve its money.

        Returns:
            None; or its largest cost, if that is too much, with all tickets given back.
        """
        judge, most = self.judges[call.judge], 0.0
        samples = 1 if len(tickets) > 1 else judge.most_samples
        call.tickets = [ticket._replace(calls=min(ticket.calls, samples)) for ticket in tickets]
        call.rest = [
            Ticket(arm, draw + samples, calls - samples)
            for arm, draw, calls in tickets
            if calls > samples
        ]
        has_limit = self.money.limit is not None
        if self.keeps_questions or has_limit:
            question = self.desk.question(*call.tickets)
            if has_limit:
                most = judge.most_cost(question)
                question = replace(question, most_usd=most)
            call.question = question if self.keeps_questions else None
        if not self.money.covers(most, call.judge):
            self._unplan(call)
            return most
        self.money.hold(most, call.judge)
        call.money = most
        return None

    def join(self, call: Call, other: Call) -> None:
        """Make ``other``, the next calls of the same arm, a part of the request of ``call``."""
        call.tickets = [call.ticket._replace(calls=call.ticket.calls + other.ticket.calls)]
        for part in (call, other):
            self.money.settle(part.money, None, part.judge)
        call.money += other.money
        self.money.hold(call.money, call.judge)

    def take_up(self, tickets: Sequence[Ticket]) -> list[Call]:
        """Reserve calls of an earlier session that are under way, even beyond the limit of money."""
        self.planner.take_up(tickets)
        calls = [Call([ticket], self.desk.judge_of(ticket.arm)) for ticket in tickets]
        for call in calls:
            if self.money.limit is not None:
                call.money = self.judges[call.judge].most_cost(self.desk.question(call.ticket))
            self.money.hold(call.money, call.judge)
        return calls

    def begin(self) -> None:
        """Count a call that is made now. A kill loses those under way, so the run knows how many there may be."""
        self.stats.calls += 1
        self.asked += 1
        if self.asked > self._may_be_lost:  # doubled, because each change is a write
            self._may_be_lost = 2 * self._may_be_lost or 1
            self.desk.record_under_way(self._may_be_lost)

    # ── answers are recorded ──────────────────────────────────────────────────────────────────────────────────────────

    def judgments(self, call: Call, outcome: Reply | Failure) -> list[Judgment]:
        """Return the judgments in a reply, or those that record a failure; of several tickets one for each."""
        parts: Sequence[Any] = [outcome] * len(call.tickets)
        if isinstance(outcome, Reply):
            parts = outcome.split(len(call.tickets))
        of_tickets = list(zip(call.tickets, parts, strict=True))
        try:
            return list(chain.from_iterable(starmap(self.desk.judgments, of_tickets)))
        except Exception as error:
            if isinstance(outcome, Failure):
                raise
            # A bug of robin's may hit every reply; keep this one, which is paid for.
            self.end(error)
            return list(chain.from_iterable(starmap(self.desk.unread, of_tickets)))

    def append(self, came: Sequence[tuple[Call, list[Judgment]]]) -> None:
        """Write judgments; once they are on disk, planner, money and goal learn of them."""
        self.unwritten += len(came)
        written = [judgment for _, judgments in came for judgment in judgments]
        self._commit.commit(written, partial(self._count, came))

    def _count(
        self, came: Sequence[tuple[Call, list[Judgment]]], error: BaseException | None
    ) -> None:
        """Count judgments that are on disk, or end the session if the disk refused them."""
        self.unwritten -= len(came)
        if error is not None:
            self.broken = self.broken or error
            if isinstance(error, Exception):
                self.end(error)
        for call, judgments in came if error is None else ():
            of_tickets = [judgments]
            if len(call.tickets) > 1:
                of_tickets = [[judgment] for judgment in judgments]
            try:
                self.stats.count(judgments)
                cost = sum(judgment.cost_usd or 0.0 for judgment in judgments)
                for ticket, rated in zip(call.tickets, of_tickets, strict=True):
                    self.planner.tell(ticket, outcome_of(rated))
                # An answer that was cut off before its text is asked for again, and paid for all the same.
                is_free = not cost and not judgments[0].counts
                self.money.settle(call.money, None if is_free else cost, call.judge)
                for ticket, rated in zip(call.tickets, of_tickets, strict=True):
                    self.desk.look(ticket.arm, rated)
            except Exception as failed:  # noqa: BLE001  # it ends the run, but the other calls must be settled too
                self.end(failed)
        self.changed.set()

    async def written(self) -> None:
        """Wait until all that was appended is on disk. Raises the error that prevents it."""
        while self.unwritten:
            self.changed.clear()
            await self.changed.wait()
        if self.broken is not None:
            raise self.broken

    async def close(self) -> None:
        """Wait until all that was appended is on disk or has failed."""
        await self._commit.drain()

    # ── calls are given back ──────────────────────────────────────────────────────────────────────────────────────────

    def withdraw(self, call: Call, outcome: Unanswered = Unanswered.WITHDRAWN) -> None:
        """Give back a call that was not made, or that says nothing about its arms, with the rest of its visit."""
        self._unplan(call, outcome)
        self.money.settle(call.money, None, call.judge)

    def lose(self, call: Call) -> None:
        """Give back a call to be made again that may already have been paid for."""
        self.stats.dropped += 1
        self._unplan(call)
        self.money.lose(call.money, call.judge)

    def _unplan(self, call: Call, outcome: Unanswered = Unanswered.WITHDRAWN) -> None:
        self.drop_rest(call)
        for ticket in call.tickets:
            self.planner.tell(ticket, outcome)

    def drop_rest(self, call: Call) -> None:
        """Give back the rest of the visit of a call."""
        for ticket in call.rest:
            self.planner.tell(ticket, Unanswered.WITHDRAWN)
        call.rest = ()

    # ── the session ends ──────────────────────────────────────────────────────────────────────────────────────────────

    def end_of_money(self, next_call: Unpaid, why: str = "") -> Idle:
        """End the session because the money does not cover another call, and no call under way may return some.

        Raises:
            LimitReached, InputError: see :meth:`MoneyBudget.end`.
        """
        self.money.end(next_call.most, why)
        return Idle.EXHAUSTED

    def end(self, error: Exception) -> None:
        """End the session with ``error``, unless another error ends it already."""
        self.error = self.error or error
        self.ended.set()
