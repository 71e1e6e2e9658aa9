"""The book-keeping of a session, written once around whatever carries its calls."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

from robin_cli.dispatch.limiter import Permit
from robin_cli.judges.judge import Judge
from robin_cli.model.errors import LimitReached
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.outcome import Outcome, Unanswered, outcome_of
from robin_cli.model.records import NORMAL_TIERS, Judgment
from robin_cli.planning.budget import MoneyBudget
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.runner.desk import RunDesk
from robin_cli.runner.health import Health
from robin_cli.runner.stop import Stop
from robin_cli.storage.group_commit import GroupCommit


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
    reasoning_tokens: int = 0
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
            self.reasoning_tokens += min(judgment.reasoning_tokens or 0, judgment.completion_tokens or 0)
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


class Idle(Enum):
    """Why no call is begun: nothing until something changes, or nothing ever again."""

    WAIT = "wait"
    EXHAUSTED = "exhausted"


@dataclass(frozen=True, slots=True)
class Unpaid:
    """The next call is not covered: it may cost ``most`` dollars."""

    most: float


@dataclass(slots=True, eq=False)
class Call:
    """A call that was chosen: who is asked, the money set aside for it, and what it says and by which permit, until it is made.

    Its prompt may be long, of ``size`` bytes: whoever has made the call sets ``question`` to None.
    """

    ticket: Ticket
    judge: int
    money: float = 0.0
    question: Question | None = None
    permit: Permit | None = None
    size: int = 0


class Books:
    """What a session may still ask and spend, what came of it, and what is on its way to the disk.

    A carrier gets calls by :meth:`choose`, and hands what came back to :meth:`append`. So these hold for all carriers: the
    units and the money of a call are reserved before it is made; and an answer is on disk before planner and goal learn of it,
    for memory must not know more than the disk.

    Args:
        desk: makes questions of tickets and judgments of what comes, and keeps these.
        planner, money: who chooses, within the calls there are, and how much money there is to spend.
        samples: ratings wanted of one request, at least 1.
        health: of each judge, by number.

    Attributes:
        calls: that the budget has; where it is of money, about so many.
        at_first: ratings of an arm that are asked before any are looked at.
        ask: makes the question of a ticket.
        asked: calls that are made and of which nothing came yet.
        unwritten: calls whose answers are on their way to the disk.
        changed: one of these, or what the planner knows.
        error: what ends the session. ``broken``: nothing more can be kept.
    """

    def __init__(
        self,
        desk: RunDesk,
        planner: Planner,
        money: MoneyBudget,
        stop: Stop,
        *,
        samples: int = 1,
        calls: int = 0,
        at_first: int = 1,
        health: Sequence[Health] = (),
    ) -> None:
        self.desk, self.planner, self.money, self.stop = desk, planner, money, stop
        self.samples, self.calls, self.at_first = samples, calls, at_first
        self.health = health or [Health(name) for name in desk.names]
        self.stats = Stats()
        self.ask: Callable[[Ticket], Question] = desk.question
        self.asked = self.unwritten = 0
        self.changed, self.ended = asyncio.Event(), asyncio.Event()
        self.error: Exception | None = None
        self.broken: BaseException | None = None
        self._commit = GroupCommit(desk.write, desk.sync, alone=lambda _: not self.asked)

    def choose(self, judges: Sequence[Judge], samples: int, *, keeps_question: bool = True) -> Call | Idle | Unpaid:
        """Choose a call of up to ``samples`` ratings, and set its money aside.

        Args:
            judges: by number, as the desk has them.
            keeps_question: the call is made soon.

        Raises:
            InputError: no question can be made of what was chosen; that ends the session, so nobody misses the call.
        """
        planned = self.planner.plan(1, samples)
        if not planned:
            return Idle.EXHAUSTED if self.planner.is_over else Idle.WAIT
        (ticket,) = planned
        number = self.desk.judge_of(ticket.arm)
        has_limit, most, question = self.money.limit is not None, 0.0, None
        ticket = self.planner.shorten(ticket, judges[number].most_samples)
        if keeps_question or has_limit:
            question = self.ask(ticket)
        if question is not None and has_limit:
            most = judges[number].most_cost(question)
            question = replace(question, most_usd=most)
        if not self.money.covers(most, number):
            # The next call is this one: a cheaper arm asked in its place would bend what the planner decides.
            self.planner.tell(ticket, Unanswered.WITHDRAWN)
            return Unpaid(most)
        self.money.reserve(most, number)
        return Call(ticket, number, most, question if keeps_question else None)

    def end_of_money(self, next_call: Unpaid, why: str = "") -> Idle:
        """The money does not pay for another call, and nothing is under way that may cost less than was set aside for it.

        Raises:
            LimitReached: it was a limit, and not the budget. InputError: it never paid for a call.
        """
        if self.money.is_budget:
            self.money.end(next_call.most)
            return Idle.EXHAUSTED
        why = why or f"the next call may cost up to ${next_call.most:.4f}"
        raise LimitReached(f"--max-cost ${self.money.limit:g} is reached: {self.money.in_words}, and {why}")

    def take_up(self, tickets: Sequence[Ticket], judges: Sequence[Judge]) -> list[Call]:
        """Count calls as under way that were handed over before, and set their money aside, whether there is so much or not."""
        self.planner.take_up(tickets)
        calls = [Call(ticket, self.desk.judge_of(ticket.arm)) for ticket in tickets]
        for call in calls:
            if self.money.limit is not None:
                call.money = judges[call.judge].most_cost(self.ask(call.ticket))
            self.money.hold(call.money, call.judge)
        return calls

    def begin(self) -> None:
        """Count a call that is made."""
        self.stats.calls += 1
        self.asked += 1

    def judgments(self, call: Call, outcome: Reply | Failure) -> list[Judgment]:
        """The judgments in a reply, or the one that records a failure."""
        try:
            return self.desk.judgments(call.ticket, outcome)
        except Exception as error:
            if isinstance(outcome, Failure):
                raise
            self.end(error)  # it is robin's, and may be every reply's; this one is paid for
            return self.desk.unread(call.ticket, outcome)

    def append(self, came: Sequence[tuple[Call, list[Judgment]]]) -> None:
        """Write judgments; once they are on disk, all who need to are told of them."""
        self.unwritten += len(came)
        written = came[0][1] if len(came) == 1 else [each for _, of_one in came for each in of_one]
        self._commit.commit(written, partial(self._appended, came))

    def _appended(self, came: Sequence[tuple[Call, list[Judgment]]], error: BaseException | None) -> None:
        self.unwritten -= len(came)
        if error is not None:
            self.broken = self.broken or error
            if isinstance(error, Exception):
                self.end(error)
        for call, judgments in came if error is None else ():
            try:
                self.stats.count(judgments)
                self.desk.took(call.ticket.arm, judgments)
                self.settle(call, outcome_of(judgments), sum(judgment.cost_usd or 0.0 for judgment in judgments))
                self.desk.told(call.ticket.arm, judgments)
            except Exception as failed:  # noqa: BLE001  # whatever it is, it ends the run, and the others must be told, too
                self.end(failed)
        self.changed.set()

    async def written(self) -> None:
        """Wait until all that was appended is on disk; raises what kept it from there."""
        while self.unwritten:
            self.changed.clear()
            await self.changed.wait()
        if self.broken is not None:
            raise self.broken

    async def close(self) -> None:
        """Wait until all that was appended is on disk, or cannot be."""
        await self._commit.drain()

    def settle(self, call: Call, outcome: Outcome, cost: float = 0.0) -> None:
        """Give back what was set aside for a call, but for what it took."""
        self.planner.tell(call.ticket, outcome)
        self.money.settle(call.money, None if isinstance(outcome, Unanswered) else cost, call.judge)

    def withdraw(self, call: Call) -> None:
        """Give a call back that nobody made."""
        self.settle(call, Unanswered.WITHDRAWN)

    def lose(self, call: Call) -> None:
        """Have a call made again of which nobody knows whether it was paid for."""
        self.stats.dropped += 1
        self.planner.tell(call.ticket, Unanswered.WITHDRAWN)
        self.money.lose(call.money, call.judge)

    def end(self, error: Exception) -> None:
        """End the session by ``error``, unless something else ends it already."""
        self.error = self.error or error
        self.ended.set()


@dataclass(frozen=True, slots=True)
class Under:
    """What is under way of a run in rounds, in words; for displays."""

    round: int = 0
    rounds: int = 0
    said: str = ""


class Carrier(ABC):
    """What takes the calls of a session away, and brings what comes of them to its books.

    Attributes:
        to_run: commands that answer what was written for an engine without a service; then robin resume goes on.
    """

    to_run: Sequence[str] = ()

    @property
    def under(self) -> Under | None:
        """What is under way, where calls go out in rounds."""
        return None

    @abstractmethod
    async def run(self) -> None:
        """Work until the budget is spent, nothing is left to ask, or the run is asked to stop. All that came is kept.

        Raises:
            EndpointError: what is asked cannot be answered.
            LimitReached: the money does not suffice for another call. InputError: the budget of money never did.
            StorageError: answers cannot be kept.
        """
