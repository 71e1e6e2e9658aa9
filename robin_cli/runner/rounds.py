"""The loop of a run in rounds: choose a whole round, hand it over, wait, read what came; until the budget is spent."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from robin_cli.judges.batch_lines import Line, line_of, read_lines
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.replies import Completion, Problem, Unsupported
from robin_cli.model.errors import EndpointError, InputError, LimitReached, RunError
from robin_cli.model.exchange import Failure, Reply
from robin_cli.model.outcome import Outcome, Unanswered, outcome_of
from robin_cli.model.records import Judgment, number_of
from robin_cli.planning.budget import MoneyBudget
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.planning.rounds import round_ends
from robin_cli.runner.engine import Desk, Stats, Stop
from robin_cli.storage.batches import Ledger, Submission, calls_of

MOST_BYTES = 190 * 1000 * 1000
"""Of one file of requests: OpenAI's limit is 200 MB, and nobody's is lower."""

_AT_A_TIME = 256
_BARELY = 0.25
"""The part of a round that must be left of it to be made up for by itself; less goes out with the next."""

_WORTH = 0.05
"""The part of all calls that a round must have at least where it is what the money still pays for."""

UNANSWERED = "unanswered"
"""What calls are counted as that a batch brought nothing for: they cost nothing, and are asked again."""


@dataclass(frozen=True, slots=True)
class RoundJudge:
    """A judge that is asked in rounds.

    Attributes:
        name: what it is called.
        judge: makes requests of questions, and reads what comes of them.
    """

    name: str
    judge: OpenAIJudge


@dataclass(frozen=True, slots=True)
class Under:
    """What is under way, in words; for displays."""

    round: int = 0
    rounds: int = 0
    said: str = ""


class Carrier(ABC):
    """What takes the requests of a round to those who answer them, and brings the answers."""

    most_requests: int
    """Requests of one submission."""

    @abstractmethod
    def check(self, submissions: Sequence[Submission]) -> None:
        """RunError where what is under way is somewhere else, and this would not find it."""

    @abstractmethod
    def submission(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        """A new submission, to be written."""

    @abstractmethod
    async def carry(self, submissions: Sequence[Submission], rounds: Rounds) -> bool:
        """See ``submissions`` through, handing what comes to ``rounds``; False if that takes longer than this process.

        Raises:
            EndpointError: what is asked cannot be answered there.
        """

    @abstractmethod
    def said(self, submissions: Sequence[Submission]) -> str:
        """How they stand, in words."""

    def marked(self, outcome: Completion | Problem) -> Completion | Problem:
        """``outcome`` with the service tier at which it is paid."""
        return outcome

    def to_run(self, ledger: Ledger) -> Sequence[str]:  # noqa: ARG002  # for those who write files
        """Commands that answer what is under way; none where that happens by itself."""
        return ()

    async def aclose(self) -> None:
        """Close connections."""
        return


class Rounds:
    """One session of a run in rounds.

    Args:
        desk: what the calls are for.
        judges: by number, as the desk has them.
        planner: made for rounds, without calls under way.
        money: how much there is to spend.
        stop: asked to stop, it begins nothing more.
        ledger: of what is under way.
        carrier: takes requests away, and brings answers.
        calls: that the budget has; where it is of money, about so many.
        is_judged: whether a call, by arm and draw, is on disk already.
        rounds: in which the whole budget goes out; 0 to see through what is under way, and begin nothing.
        warm_up: ratings of each arm that make one round at least.
        samples: ratings wanted of one request.
        notify: is told, a line each, how it goes.
    """

    def __init__(
        self,
        desk: Desk,
        judges: Sequence[RoundJudge],
        planner: Planner,
        money: MoneyBudget,
        stop: Stop,
        ledger: Ledger,
        carrier: Carrier,
        *,
        calls: int,
        is_judged: Callable[[int, int], bool],
        rounds: int,
        warm_up: int,
        samples: int,
        notify: Callable[[str], None],
    ) -> None:
        self.stats = Stats(lambda: sum(submission.requests for submission in ledger.open))
        self.stop = stop
        self.ledger = ledger
        self.notify = notify
        self.to_run: Sequence[str] = ()
        self._desk = desk
        self._judges = judges
        self._number_of = {judge.name: number for number, judge in enumerate(judges)}
        self._planner = planner
        self._money = money
        self._carrier = carrier
        self._calls = calls
        self._is_judged = is_judged
        self._rounds = rounds
        self._warm_up = warm_up
        self._samples = samples
        self._waiting: dict[int, dict[int, Ticket]] = {}  # calls not answered yet, by submission and line
        self._reserved: dict[tuple[int, int], float] = {}
        self._told_of_money = False
        self._late_calls: dict[int, dict[int, Ticket]] = {}
        self._reading = asyncio.Lock()
        self._brought = 0  # answers, refusals for good, and what was learnt of the endpoint, in this round
        self._error: Exception | None = None

    @property
    def under(self) -> Under:
        """What is under way now."""
        open_ = self.ledger.open
        if not open_:
            return Under()
        number = max(each.round for each in open_)
        return Under(number, max(number, self._rounds), self._carrier.said(open_))

    async def run(self) -> None:
        """Work until the budget is spent, nothing is left to ask, answers are long in coming, or the run is asked to stop.

        Raises:
            EndpointError: what is asked cannot be answered; a whole round brought nothing.
            LimitReached: the money does not suffice for another call.
            StorageError: answers cannot be kept.
        """
        self._take_up()
        while not self.stop.requested.is_set():
            submissions: Sequence[Submission] = self.ledger.open
            if not submissions:
                # In a thread: to fit the ranking of a thousand systems takes seconds, and signals are heard meanwhile.
                submissions = await asyncio.to_thread(self._begin_round)
            if not submissions:
                return
            self._brought = 0
            is_over = await self._carrier.carry(submissions, self)
            if self._error is not None:
                raise self._error
            if not is_over:
                self.to_run = self._carrier.to_run(self.ledger)
                return
            if not self._brought and not self.stop.requested.is_set():
                why = self.stats.last_failure or "no line of it was answered"
                raise EndpointError(f"a whole round brought nothing ({why}); once that is mended, robin resume")

    def _take_up(self) -> None:
        """Count what an earlier session handed over as under way, but for what is answered and on disk."""
        self._planner.take_up((), self.ledger.next_draws())
        for submission in self.ledger.open:
            if submission.judge not in self._number_of:
                raise RunError(
                    f"batch {submission.number} of this run is of {submission.judge}, which is no judge of it; restore its "
                    "folder batches from a copy"
                )
            self._waiting[submission.number] = self._unanswered(submission)
        under_way = [ticket for tickets in self._waiting.values() for ticket in tickets.values()]
        if sum(ticket.calls for ticket in under_way) > self._planner.budget.available:
            raise RunError("more calls are under way than the run's budget has; restore its folder batches from a copy")
        self._count_again(under_way)

    def _count_again(self, tickets: Sequence[Ticket]) -> None:
        """Count calls as under way that were handed over before, and set their money aside."""
        self._planner.take_up(tickets)
        for ticket in tickets:
            number = self._desk.judge_of(ticket.arm)
            most = self._most_cost(ticket, number)
            self._money.hold(most, number)
            self._reserved[ticket.arm, ticket.draw] = most

    def _most_cost(self, ticket: Ticket, number: int) -> float:
        if self._money.limit is None:
            return 0.0
        return self._judges[number].judge.most_cost(self._desk.question(ticket))

    def _unanswered(self, submission: Submission) -> dict[int, Ticket]:
        calls = self.ledger.calls(submission)
        tickets = (Ticket(*each) for each in zip(*(column.tolist() for column in calls), strict=True))
        return {line: each for line, each in enumerate(tickets) if not self._is_judged(each.arm, each.draw)}

    # ── a round goes out ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> Sequence[Submission]:
        """Choose a round and write its requests; nothing if nothing is left to ask."""
        if not self._rounds:
            return ()
        ends = round_ends(self._calls, len(self._planner.arms), self._rounds, warm_up=self._warm_up)
        number = self._next_round(ends)
        is_last = number == len(ends)
        chosen = self._chosen(self._planner.budget.total if is_last else ends[number - 1])
        for judge, tickets in sorted(chosen.items()):
            self._write(self._judges[judge], number, sorted(tickets))
        open_ = self.ledger.open
        if open_:
            calls = sum(map(len, self._waiting.values()))
            again = ", again" if self._was_begun(number) else ""
            self.notify(f"round {number} of {len(ends)}{again}: {number_of(calls, 'request')} to go out")
        return open_

    def _was_begun(self, number: int) -> bool:
        return any(each.round == number and not each.is_open for each in self.ledger.batches.values())

    def _next_round(self, ends: Sequence[int]) -> int:
        """The round to begin, from 1 on: what a round left over goes out with the next, unless it is a good part of it."""
        spent = self._planner.budget.spent
        for number, (begin, end) in enumerate(zip((0, *ends), ends, strict=False), start=1):
            if end - spent >= max(1.0, _BARELY * (end - begin)):
                return number
        return len(ends)

    def _chosen(self, end: int) -> Mapping[int, list[Ticket]]:
        """The calls of a round that ends when ``end`` calls are spent, by judge."""
        chosen: dict[int, list[Ticket]] = defaultdict(list)
        budget, money = self._planner.budget, self._money
        while (room := end - budget.spent - budget.reserved) > 0:
            planned = self._planner.plan(1, min(self._samples, room))
            if not planned:
                break
            (ticket,) = planned
            number = self._desk.judge_of(ticket.arm)
            judge = self._judges[number].judge
            ticket = self._planner.shorten(ticket, judge.most_samples)
            most = self._most_cost(ticket, number)
            if not money.covers(most, number):
                self._say_once_of_money(most)
                self._planner.tell(ticket, Unanswered.WITHDRAWN)  # no money is set aside for it
                return self._worth_a_round(chosen, most)
            money.reserve(most, number)
            self._reserved[ticket.arm, ticket.draw] = most
            chosen[number].append(ticket)
        return chosen

    def _say_once_of_money(self, most: float) -> None:
        if not self._told_of_money:
            self._told_of_money = True
            self.notify(
                f"the most that a request may cost, about ${most:.3g}, is set aside for each, so the money goes out in more "
                "rounds than --rounds says; with a lower --max-tokens they are fewer"
            )

    def _worth_a_round(self, chosen: Mapping[int, list[Ticket]], most: float) -> Mapping[int, list[Ticket]]:
        """``chosen``, which the money cut short; nothing, and the money is spent, where it is too little to wait hours for.

        What a call may cost is set aside for it, and most cost far less: what is left pays for one more round, and another.
        """
        tickets = [ticket for of_one in chosen.values() for ticket in of_one]
        if tickets and (not self.ledger.batches or len(tickets) >= _WORTH * self._calls):
            return chosen
        for ticket in tickets:
            self._settle(ticket, Unanswered.WITHDRAWN)
        money = self._money
        if money.is_budget:
            money.end(most)
            return {}
        rest = f"what is left is sure to pay for {len(tickets):,} more, too few for a round" if tickets else ""
        raise LimitReached(
            f"--max-cost ${money.limit:g} is reached: ${money.spent:.4f} are spent, and "
            + (rest or f"the next call may cost up to ${most:.4f}")
        )

    def _write(self, judge: RoundJudge, of_round: int, tickets: Sequence[Ticket]) -> None:
        """Write the requests of ``tickets``, in as many submissions as they need; nothing of them was sent by then."""
        left = list(reversed(tickets))
        while left:
            number = self.ledger.next_number()
            mine: list[Ticket] = []
            lines: list[bytes] = []
            size = 0
            while left and len(mine) < self._carrier.most_requests:
                body = judge.judge.body(self._desk.question(left[-1]))
                line = line_of(self.ledger.custom_id(number, len(mine)), body)
                if mine and size + len(line) > MOST_BYTES:
                    break
                size += len(line)
                lines.append(line)
                mine.append(left.pop())
            submission = self._carrier.submission(number, judge.name, of_round, len(mine))
            self.ledger.add(submission, calls_of(mine), lines)
            self._waiting[number] = dict(enumerate(mine))
            self.stats.calls += len(mine)

    # ── answers come in ───────────────────────────────────────────────────────────────────────────────────────────────

    def withdraw(self, submission: Submission) -> None:
        """Give the calls of a submission back that nobody took."""
        for ticket in self._waiting.pop(submission.number, {}).values():
            self._settle(ticket, Unanswered.WITHDRAWN)
        self.ledger.set(submission.now("withdrawn"))
        self.ledger.tidy(submission)
        self._brought += 1  # another round of smaller ones may go out

    async def take_in(
        self, files: Iterable[Path], submissions: Sequence[Submission], *, in_any_state: bool = False
    ) -> bool:
        """Make judgments of the lines in ``files``; what of ``submissions`` is not in them brought nothing, and they are over.

        Args:
            in_any_state: nobody knows whether the files are all there is. Where none of their lines is of ``submissions``,
                these stay open; and an answer to a call of an earlier one is taken as far as the budget has room.

        Returns:
            Whether they are over.
        """
        async with self._reading:
            tally = _Tally({each.number for each in submissions})
            lines = _lines(files, self._judges[0].judge.most_reply_bytes)
            while chunk := list(islice(lines, _AT_A_TIME)):
                read = [(call, self._judged(call, tally)) for call in self._answered(chunk, tally, late=in_any_state)]
                await self._keep([(call.ticket, judgments) for call, judgments in read if judgments])
            if in_any_state and not tally.seen:
                return False
            unanswered = [
                _Call(number, row, self._waiting[number].pop(row), line)
                for (number, row), line in tally.unanswered.items()
                if row in self._waiting[number]
            ]
            tally.surplus += len(tally.unanswered) - len(unanswered)
            read = [(call, self._judged(call, tally)) for call in unanswered]
            await self._keep([(call.ticket, judgments) for call, judgments in read if judgments])
            against = []
            for call, why in tally.failed:
                # Where others were answered, and none of this pair's, it is something about it, and not the service.
                if tally.arms and call.ticket.arm not in tally.arms:
                    against.append((call.ticket, self._desk.judgments(call.ticket, why)))
                else:
                    self._leave(call)
            await self._keep(against)
            for submission in submissions:
                self._close(submission, tally)
            return True

    def _answered(self, lines: Sequence[Line], tally: _Tally, *, late: bool) -> list[_Call]:
        """The calls that ``lines`` answer and that are waited for, each once; other lines of them are put by."""
        mine: list[_Call] = []
        again: list[Ticket] = []
        room = self._planner.budget.available
        for line in lines:
            place = self.ledger.place_of(line.custom_id)
            if place is None:
                tally.broken += line.custom_id is None
                tally.foreign += line.custom_id is not None
                continue
            tally.damaged += line.is_damaged
            number, row = place
            is_of_these = number in tally.numbers
            waiting = self._waiting[number] if is_of_these else {}
            tally.seen += is_of_these  # also what a session that was killed had taken in
            if row in waiting and not isinstance(line.outcome, Completion):
                tally.put_by(place, line)
                continue
            ticket = waiting.pop(row, None)
            if ticket is None and late:
                ticket = self._late(number, row) if isinstance(line.outcome, Completion) else None
                if ticket is not None and ticket.calls <= room:
                    room -= ticket.calls
                    again.append(ticket)
                elif ticket is not None:
                    tally.surplus += 1
                    ticket = None
            elif ticket is None:
                tally.surplus += 1
            if ticket is not None:
                mine.append(_Call(number, row, ticket, line))
        if again:
            self._count_again(again)
        return mine

    def _late(self, number: int, row: int) -> Ticket | None:
        """A call of a submission that is over, which nothing had been brought for when it was closed."""
        submission = self.ledger.batches[number]
        if submission.is_open or submission.answered == submission.requests:
            return None
        if number not in self._late_calls:
            self._late_calls[number] = self._unanswered(submission)
        return self._late_calls[number].pop(row, None)

    def _judged(self, call: _Call, tally: _Tally) -> list[Judgment]:
        """What a line says of its call; nothing, and the call is left, where that is no answer."""
        ticket, outcome = call.ticket, call.line.outcome
        judge = self._judges[self._desk.judge_of(ticket.arm)].judge
        if outcome is None or (isinstance(outcome, Unsupported) and outcome.parameter in tally.learnt):
            self._leave(call)
            return []
        question = self._desk.question(ticket)
        try:
            read = judge.read(question, judge.body(question), self._carrier.marked(outcome), 0.0)
        except EndpointError as error:  # every call would fail so, but the other lines are paid for
            self._error = self._error or error
            self._leave(call)
            return []
        if isinstance(read, Reply):
            tally.arms.add(ticket.arm)
            self._brought += 1
            return self._judgments(ticket, read)
        if isinstance(outcome, Unsupported) and read.adapted:
            tally.learnt.add(outcome.parameter)
            self._brought += 1
            self._leave(call)
            return []
        self.stats.last_failure = read.detail
        if read.permanent:
            self._brought += 1
            return self._desk.judgments(ticket, read)
        if read.throttled:
            self._leave(call)
            return []
        tally.failed.append((call, read))
        return []

    def _judgments(self, ticket: Ticket, reply: Reply) -> list[Judgment]:
        try:
            return self._desk.judgments(ticket, reply)
        except Exception as error:  # noqa: BLE001  # it is robin's, and ends the run; this answer is paid for
            self._error = self._error or error
            return self._desk.unread(ticket, reply)

    def _leave(self, call: _Call) -> None:
        """Let a call go without an answer: at the end of its submission, if that is not over yet."""
        if call.number in self._waiting:
            self._waiting[call.number][call.row] = call.ticket
        else:
            self._settle(call.ticket, Unanswered.WITHDRAWN)

    async def _keep(self, came: Sequence[tuple[Ticket, Sequence[Judgment]]]) -> None:
        """Have judgments on disk, and only then tell of them: memory must not know more than the disk."""
        judgments = [each for _, of_one in came for each in of_one]
        if not judgments:
            await asyncio.sleep(0)
            return
        self._desk.write(judgments)
        await asyncio.to_thread(self._desk.sync)
        self.stats.count(judgments)
        for ticket, of_one in came:
            self._desk.took(ticket.arm, of_one)
            self._settle(ticket, outcome_of(of_one), sum(each.cost_usd or 0.0 for each in of_one))
            try:
                self._desk.told(ticket.arm, of_one)
            except EndpointError as error:  # all of the round is paid for: it is read first
                self._error = self._error or error

    def _settle(self, ticket: Ticket, outcome: Outcome, cost: float = 0.0) -> None:
        self._planner.tell(ticket, outcome)
        most = self._reserved.pop((ticket.arm, ticket.draw), 0.0)
        self._money.settle(most, None if isinstance(outcome, Unanswered) else cost, self._desk.judge_of(ticket.arm))

    def _close(self, submission: Submission, tally: _Tally) -> None:
        """Record that a submission is over; what is left of it brought nothing."""
        left = self._late_calls[submission.number] = self._waiting.pop(submission.number)
        for ticket in left.values():
            self.stats.failed[UNANSWERED] += 1
            self._settle(ticket, Unanswered.WITHDRAWN)
        answered = submission.requests - len(left)
        self._brought += answered  # a session that was killed may have kept them
        self.ledger.set(submission.now("done", answered=answered))
        self.ledger.tidy(submission, keep_answers=not tally.is_understood)
        of = f"batch {submission.batch_id}" if submission.batch_id else f"file {submission.number}"
        lost = f"; the other {len(left):,} brought nothing, and cost nothing" if left else ""
        self.notify(f"{of}: {answered:,} of {number_of(submission.requests, 'request')} answered{lost}{tally.said}")


class _Call(NamedTuple):
    """A line, and the call that it is about: of which submission, and which of its requests."""

    number: int
    row: int
    ticket: Ticket
    line: Line


def _lines(files: Iterable[Path], limit_bytes: int) -> Iterator[Line]:
    for path in files:
        try:
            yield from read_lines([path], limit_bytes)
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}); make it readable, then robin resume"
            ) from error


@dataclass(slots=True)
class _Tally:
    """What came of one reading: of the submissions of these ``numbers``.

    Attributes:
        seen: lines of these submissions. ``failed``: those whose failure may pass.
        arms: with a completion.
        surplus, foreign: lines of calls that were answered before, or too late for the budget, and of no call of this run.
        broken, damaged: lines of which it cannot be read whose they are, and those read but for some bytes.
        learnt: parameters that the endpoint refuses, and that are sent no more.
        unanswered: lines that say why a call has no answer, by its place; the first of each.
    """

    numbers: set[int]
    seen: int = 0
    arms: set[int] = field(default_factory=set)
    surplus: int = 0
    foreign: int = 0
    broken: int = 0
    damaged: int = 0
    failed: list[tuple[_Call, Failure]] = field(default_factory=list)
    learnt: set[str] = field(default_factory=set)
    unanswered: dict[tuple[int, int], Line] = field(default_factory=dict)

    def put_by(self, place: tuple[int, int], line: Line) -> None:
        """Keep why a call has no answer until all is read: another line may have its answer."""
        self.surplus += place in self.unanswered
        if line.outcome is not None:  # else nothing was done of it
            self.unanswered.setdefault(place, line)

    @property
    def is_understood(self) -> bool:
        """Whether every line was one that was waited for, and whole."""
        return not (self.surplus or self.foreign or self.broken or self.damaged)

    @property
    def said(self) -> str:
        """What else was in the files, in words, to go on with."""
        surplus = f"; {number_of(self.surplus, 'line')} twice or too late, not counted" if self.surplus else ""
        foreign = f"; {number_of(self.foreign, 'line')} of no request of this run, not counted" if self.foreign else ""
        broken = f"; {number_of(self.broken, 'line')} that cannot be read, not counted" if self.broken else ""
        damaged = f"; {number_of(self.damaged, 'line')} with bytes that are no UTF-8, read as �" if self.damaged else ""
        return surplus + foreign + broken + damaged
