"""The book-keeping of a session, the same for all carriers of calls."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

from robin_cli.judges.judge import Judge
from robin_cli.judges.limiter import Limiter, Permit
from robin_cli.model.errors import LimitReached
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Outcome, Unanswered, outcome_of
from robin_cli.model.records import Judgment
from robin_cli.run.group_commit import GroupCommit
from robin_cli.session.budget import MoneyBudget
from robin_cli.session.desk import RunDesk
from robin_cli.session.health import Health
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.stop import Stop


@dataclass(slots=True)
class Stats:
    """The counters of this session, which progress displays read.

    Attributes:
        calls: calls begun; ``in_flight``: requests under way.
        limiters: of the endpoints. They count ``refused`` requests, and the seconds ``waited_s`` without any under way.
        by_text: ratings read from the text although log probabilities were wanted, by reason.
        estimated: judgments with estimated tokens.
        priced, unpriced: answers with a known cost, and without.
        dropped: requests that were not waited for.
        cached_tokens and the like: see :class:`~robin_cli.run.fold.Spending`.
    """

    under_way: Callable[[], int] = int
    limiters: Sequence[Limiter] = ()
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
    reasoning_tokens: int = 0
    prompt_tokens_told: int = 0
    dropped: int = 0
    last_failure: str = ""

    @property
    def in_flight(self) -> int:
        """The number of requests under way; a call that waits for a retry is not."""
        return self.under_way()

    @property
    def refused(self) -> int:
        """The number of requests that endpoints refused because there were too many."""
        return sum(limiter.refusals for limiter in self.limiters)

    @property
    def waited_s(self) -> float:
        """The seconds without a request under way after a refusal, at the endpoint with most of them."""
        return max((limiter.waited_s for limiter in self.limiters), default=0.0)

    def count(self, judgments: Sequence[Judgment]) -> None:
        """Count judgments that are on disk."""
        for judgment in judgments:
            self.ratings += judgment.rating is not None
            if judgment.text_because is not None:
                self.by_text[judgment.text_because] += 1
            if judgment.reason is not None:
                (self.unparsed if judgment.counts else self.failed)[judgment.reason] += 1
            self.prompt_tokens += judgment.prompt_tokens or 0
            self.completion_tokens += judgment.completion_tokens or 0
            self.cost_usd += judgment.cost_usd or 0.0
            self.reasoning_tokens += min(
                judgment.reasoning_tokens or 0, judgment.completion_tokens or 0
            )
            if judgment.cached_tokens is not None:
                self.cached_tokens += min(judgment.cached_tokens, judgment.prompt_tokens or 0)
                self.prompt_tokens_told += judgment.prompt_tokens or 0
            if judgment.counts:
                self.priced += judgment.cost_usd is not None
                self.unpriced += judgment.cost_usd is None
            self.estimated += judgment.usage_estimated


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
    """A chosen call: its judge, the dollars set aside for it and, until it is made, its question and permit.

    Its prompt, of ``size`` bytes, may be long: set ``question`` to None once the call is made. A request about several
    attributes has a ticket for each. ``rest`` are the calls of the visit that do not fit into the request. They are made by
    others ``at`` the same address, which then has the prompt in its cache.
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

    def hold(self, tickets: Sequence[Ticket], most: int) -> None:
        """Make this a request for up to ``most`` calls of each of ``tickets``, and the others the rest."""
        self.tickets = [each._replace(calls=min(each.calls, most)) for each in tickets]
        self.rest = [
            Ticket(arm, draw + most, calls - most) for arm, draw, calls in tickets if calls > most
        ]


class Books:
    """Chooses calls within the budget, and writes their answers.

    A carrier gets calls from :meth:`choose`, and hands their judgments to :meth:`append`. So this holds for all carriers: the
    calls and the money of the budget are reserved before a call is made, and an answer is on disk before planner and goal learn
    of it: memory must not know more than the disk.

    Args:
        desk: makes questions of tickets and judgments of answers, and stores these.
        planner: chooses calls.
        money: the money to spend.
        longest: calls of a visit at most.
        health: the health of each judge, by number.
        notify: gets lines about a full disk for the user.

    Attributes:
        calls: the calls in the budget; for a budget of money, about as many as it pays for.
        at_first: ratings per arm that are asked before any are looked at; ``least``: calls before there is a result.
        ask: makes the question of a ticket.
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
        calls: int = 0,
        at_first: int = 1,
        least: int = 1,
        health: Sequence[Health] = (),
        notify: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.desk, self.planner, self.money, self.stop = desk, planner, money, stop
        self.longest, self.calls, self.at_first, self.least = longest, calls, at_first, least
        self.health = health or [Health(name) for name in desk.names]
        self.stats = Stats()
        self.ask: Callable[[Ticket], Question] = desk.question
        self.along: Callable[[int], Sequence[int]] = lambda arm: (arm,)
        self.asked = self.unwritten = self._may_be_lost = 0
        self.changed, self.ended = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None
        self.broken: BaseException | None = None
        self._commit = GroupCommit(
            desk.write,
            desk.sync,
            alone=lambda _: not self.asked,
            stop=stop.requested,
            notify=notify,
        )

    def choose(
        self,
        judges: Sequence[Judge],
        longest: int,
        *,
        keeps_question: bool = True,
        held: Collection[int] = (),
    ) -> Call | Idle | Unpaid:
        """Choose the first call of a visit of up to ``longest``, and set its money aside.

        Args:
            judges: by number, as the desk has them.
            keeps_question: keep the question in the call, which is made soon.
            held: judges that take no more calls now.
        """
        planned = self.planner.plan(1, longest, held)
        if not planned:
            return Idle.EXHAUSTED if self.planner.is_over else Idle.WAIT
        call = Call(planned, self.desk.judge_of(planned[0].arm))
        arms, judge = self.along(call.ticket.arm), judges[call.judge]
        try:
            tickets = self.planner.along(call.ticket, arms)
            call.hold(tickets, 1 if len(arms) > 1 else judge.most_samples)
            most = self._prepare(call, judge, keeps_question=keeps_question)
        except Exception:
            self._unplan(call)  # answers under way are still counted, and the sums hold
            raise
        if most is not None and call.ticket.calls > 1:  # a single call may fit
            return self.choose(judges, 1, keeps_question=keeps_question, held=held)
        # A cheaper arm must not take its place: that would override the planner's choice.
        return call if most is None else Unpaid(most)

    def others(
        self, call: Call, judges: Sequence[Judge], *, keeps_question: bool = True
    ) -> list[Call]:
        """Return calls for the rest of the visit of ``call``; the money may suffice for some only."""
        found: list[Call] = []
        judge, at = judges[call.judge], None if call.permit is None else call.permit.limiter
        rest, call.rest = call.rest, ()
        while rest:
            other = Call((), call.judge, at=at)
            other.hold(rest, 1 if len(rest) > 1 else judge.most_samples)
            if self._prepare(other, judge, keeps_question=keeps_question) is not None:
                break  # its rest is given back with it
            rest, other.rest = other.rest, ()
            found.append(other)
        return found

    def _prepare(self, call: Call, judge: Judge, *, keeps_question: bool) -> float | None:
        """Make the question of a call and set its money aside; if that is too much, unplan the call and return it."""
        has_limit = self.money.limit is not None
        if keeps_question or has_limit:
            several = len(call.tickets) > 1
            call.question = (
                self.desk.question_about(call.tickets) if several else self.ask(call.ticket)
            )
        most = 0.0
        if call.question is not None and has_limit:
            most = judge.most_cost(call.question)
            call.question = replace(call.question, most_usd=most) if keeps_question else None
        if not self.money.covers(most, call.judge):
            self._unplan(call)
            return most
        self.money.reserve(most, call.judge)
        call.money = most
        return None

    def join(self, call: Call, other: Call) -> None:
        """Make ``other``, the next calls of the same arm, a part of the request of ``call``."""
        call.tickets = [call.ticket._replace(calls=call.ticket.calls + other.ticket.calls)]
        for each in (call, other):
            self.money.settle(each.money, None, each.judge)
        call.money += other.money
        self.money.hold(call.money, call.judge)

    def end_of_money(self, next_call: Unpaid, why: str = "") -> Idle:
        """End the session because the money does not cover another call, and no call under way may return some.

        Raises:
            LimitReached: the money was a limit, not the budget. InputError: it never covered a call.
        """
        if self.money.is_budget:
            self.money.end(next_call.most)
            return Idle.EXHAUSTED
        self.money.reached = True
        why = why or f"the next call may cost up to ${next_call.most:.4f}"
        raise LimitReached(
            f"--max-cost ${self.money.limit:g} is reached: {self.money.in_words}, and {why}"
        )

    def take_up(self, tickets: Sequence[Ticket], judges: Sequence[Judge]) -> list[Call]:
        """Count calls of an earlier session as under way, and set their money aside, even beyond the limit."""
        self.planner.take_up(tickets)
        calls = [Call([ticket], self.desk.judge_of(ticket.arm)) for ticket in tickets]
        for call in calls:
            if self.money.limit is not None:
                call.money = judges[call.judge].most_cost(self.ask(call.ticket))
            self.money.hold(call.money, call.judge)
        return calls

    def begin(self) -> None:
        """Count a call that is made now. A kill loses those under way, so the run knows how many there may be."""
        self.stats.calls += 1
        self.asked += 1
        if self.asked > self._may_be_lost:  # doubled, because each change is a write
            self._may_be_lost = 2 * self._may_be_lost or 1
            self.desk.record_under_way(self._may_be_lost)

    def judgments(self, call: Call, outcome: Reply | Failure) -> list[Judgment]:
        """Return the judgments in a reply, or those that record a failure; of several tickets one for each."""
        try:
            return self._of_each(self.desk.judgments, call, outcome)
        except Exception as error:
            if isinstance(outcome, Failure):
                raise
            # a bug of robin's may hit every reply; keep this one, which is paid for
            self.end(error)
            return self._of_each(self.desk.unread, call, outcome)

    def _of_each(
        self,
        read: Callable[[Ticket, Any], list[Judgment]],
        call: Call,
        outcome: Reply | Failure,
    ) -> list[Judgment]:
        count = len(call.tickets)
        parts = outcome.split(count) if isinstance(outcome, Reply) else [outcome] * count
        return [
            judgment
            for ticket, part in zip(call.tickets, parts, strict=True)
            for judgment in read(ticket, part)
        ]

    def append(self, came: Sequence[tuple[Call, list[Judgment]]]) -> None:
        """Write judgments; once they are on disk, planner, money and goal learn of them."""
        self.unwritten += len(came)
        written = came[0][1] if len(came) == 1 else [each for _, of_one in came for each in of_one]
        self._commit.commit(written, partial(self._appended, came))

    def _appended(
        self, came: Sequence[tuple[Call, list[Judgment]]], error: BaseException | None
    ) -> None:
        self.unwritten -= len(came)
        if error is not None:
            self.broken = self.broken or error
            if isinstance(error, Exception):
                self.end(error)
        for call, judgments in came if error is None else ():
            several = len(call.tickets) > 1
            by_ticket = [[judgment] for judgment in judgments] if several else [judgments]
            try:
                self.stats.count(judgments)
                cost = sum(judgment.cost_usd or 0.0 for judgment in judgments)
                self.settle(call, list(map(outcome_of, by_ticket)), cost)
                for ticket, rated in zip(call.tickets, by_ticket, strict=True):
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

    def settle(self, call: Call, outcomes: Sequence[Outcome], cost: float | None) -> None:
        """Return the calls and the money set aside for a call, except those that it used.

        Args:
            outcomes: one for each ticket.
            cost: in dollars; ignored if nothing was answered.
        """
        for ticket, outcome in zip(call.tickets, outcomes, strict=True):
            self.planner.tell(ticket, outcome)
        is_unanswered = isinstance(outcomes[0], Unanswered)
        self.money.settle(call.money, None if is_unanswered else cost, call.judge)

    def withdraw(self, call: Call, outcome: Unanswered = Unanswered.WITHDRAWN) -> None:
        """Return a call that was not made, or that says nothing about its arms, with the rest of its visit."""
        self.drop_rest(call)
        self.settle(call, [outcome] * len(call.tickets), None)

    def lose(self, call: Call) -> None:
        """Return a call to be made again that may already have been paid for."""
        self.stats.dropped += 1
        self._unplan(call)
        self.money.lose(call.money, call.judge)

    def drop_rest(self, call: Call) -> None:
        """Return the rest of the visit of a call."""
        for ticket in call.rest:
            self.planner.tell(ticket, Unanswered.WITHDRAWN)
        call.rest = ()

    def _unplan(self, call: Call) -> None:
        self.drop_rest(call)
        for ticket in call.tickets:
            self.planner.tell(ticket, Unanswered.WITHDRAWN)

    def end(self, error: Exception) -> None:
        """End the session with ``error``, unless another error ends it already."""
        self.error = self.error or error
        self.ended.set()


@dataclass(frozen=True, slots=True)
class Under:
    """The state of a run in rounds, for displays; ``said`` describes the batches under way."""

    round: int = 0
    rounds: int = 0
    said: str = ""


class Carrier(ABC):
    """Makes the calls of a session, and brings the answers to its books."""

    @property
    def under(self) -> Under | None:
        """The state of a run in rounds; None if calls are made one by one."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Work until the budget is spent, nothing is left to ask, or the run is asked to stop. All answers are kept.

        Raises:
            EndpointError: the judge cannot answer.
            LimitReached: the money does not cover another call. InputError: the budget of money never did.
            StorageError: answers cannot be stored.
        """
