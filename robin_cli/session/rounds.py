"""Calls in rounds, as files of requests."""

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
from robin_cli.judges.bodies import MOST_REPLY_BYTES
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.replies import Completion, Unsupported
from robin_cli.model.errors import EndpointError, InputError, RunError
from robin_cli.model.exchange import Failure, Reply
from robin_cli.model.records import Judgment, number_of
from robin_cli.run.batches import Ledger, Submission, calls_of
from robin_cli.session.books import Books, Call, Carrier, Under, Unpaid
from robin_cli.session.planner import Ticket
from robin_cli.session.round_sizes import round_ends

MOST_BYTES = 190 * 1000 * 1000
"""The most bytes of a file of requests: OpenAI's limit, the lowest known, is 200 MB."""

_AT_A_TIME = 256
_BARELY = 0.25
"""If at least this share of a round is unanswered, it is asked again in a round of its own; less goes out with the next."""

_WORTH = 0.05
"""The least share of all calls that a round must have when the money ends it early."""

UNANSWERED = "unanswered"
"""The reason of calls without an answer in their batch: they cost nothing, and are asked again."""


class Courier(ABC):
    """Takes the requests of a round to a service, and brings the answers."""

    most_requests: int
    """The most requests of a submission."""

    @abstractmethod
    def check(self, submissions: Sequence[Submission]) -> None:
        """Raise RunError if submissions under way are at another place than this courier's."""

    @abstractmethod
    def submission(self, number: int, judge: str, of_round: int, requests: int) -> Submission:
        """Return a new submission, to be written."""

    @abstractmethod
    async def carry(self, submissions: Sequence[Submission], rounds: Rounds) -> None:
        """See ``submissions`` through, and hand answers to ``rounds``.

        Raises:
            EndpointError: the requests cannot be answered there.
        """

    @abstractmethod
    def said(self, submissions: Sequence[Submission]) -> str:
        """Return the state of ``submissions`` in words."""

    async def aclose(self) -> None:
        """Close connections."""
        return


class Rounds(Carrier):
    """Chooses a whole round, hands it over, waits and reads the answers, until the budget is spent.

    Args:
        books: with a planner made for rounds, without calls under way.
        judges: the judges by name, which make requests of questions and read answers.
        ledger: the run's batches.
        courier: takes requests away, and brings answers.
        is_judged: returns whether a call, by arm and draw, has a judgment on disk.
        rounds: the number of rounds for the whole budget; 0 to begin none, and only see through batches under way.
        notify: gets lines for the user.
    """

    def __init__(
        self,
        books: Books,
        judges: Mapping[str, OpenAIJudge],
        ledger: Ledger,
        courier: Courier,
        *,
        is_judged: Callable[[int, int], bool],
        rounds: int,
        notify: Callable[[str], None],
    ) -> None:
        courier.check(ledger.open)
        books.stats.under_way = lambda: sum(submission.requests for submission in ledger.open)
        self.books, self.stop = books, books.stop
        self.ledger = ledger
        self.notify = notify
        self._names, self._judges = list(judges), list(judges.values())
        self._courier = courier
        self._is_judged = is_judged
        self._rounds = rounds
        self._waiting: dict[
            int, dict[int, Call]
        ] = {}  # calls without an answer, by submission and line
        self._told_of_money = False
        self._reading = asyncio.Lock()
        self._brought = (
            0  # answers, permanent refusals, and lessons about the endpoint in this round
        )

    @property
    def under(self) -> Under:
        """The round and the batches under way."""
        open_ = self.ledger.open
        if not open_:
            return Under()
        number = max(each.round for each in open_)
        return Under(number, max(number, self._rounds), self._courier.said(open_))

    async def run(self) -> None:
        """See :meth:`Carrier.run`. EndpointError: a round brought nothing."""
        try:
            await self._work()
        finally:
            await self.books.close()

    async def _work(self) -> None:
        self._take_up()
        while not self.stop.requested.is_set():
            submissions: Sequence[Submission] = self.ledger.open
            if not submissions:
                # In a thread: fitting a ranking of a thousand systems takes seconds, and signals must be heard meanwhile.
                submissions = await asyncio.to_thread(self._begin_round)
            if not submissions:
                return
            self._brought = 0
            await self._courier.carry(submissions, self)
            if self.books.error is not None:  # after the whole round was read: it is paid for
                raise self.books.error
            if not self._brought and not self.stop.requested.is_set():
                why = self.books.stats.last_failure or "no line of it was answered"
                raise EndpointError(
                    f"a whole round brought nothing ({why}); once that is mended, robin resume"
                )

    def _take_up(self) -> None:
        """Count the batches of earlier sessions as under way, except calls with a judgment on disk."""
        planner = self.books.planner
        planner.take_up((), self.ledger.next_draws())
        under_way = {}
        for submission in self.ledger.open:
            if submission.judge not in self._names:
                raise RunError(
                    f"batch {submission.number} of this run is for {submission.judge}, which is not its judge; restore its "
                    "folder batches from a copy"
                )
            under_way[submission.number] = self._unanswered(submission)
        if (
            sum(ticket.calls for tickets in under_way.values() for ticket in tickets.values())
            > planner.budget.available
        ):
            raise RunError(
                "more calls are under way than the run's budget has; restore its folder batches from a copy"
            )
        for number, tickets in under_way.items():
            calls = self.books.take_up(list(tickets.values()), self._judges)
            self._waiting[number] = dict(zip(tickets, calls, strict=True))

    def _unanswered(self, submission: Submission) -> dict[int, Ticket]:
        calls = self.ledger.calls(submission)
        tickets = (
            Ticket(*each) for each in zip(*(column.tolist() for column in calls), strict=True)
        )
        return {
            line: each
            for line, each in enumerate(tickets)
            if not self._is_judged(each.arm, each.draw)
        }

    # ── a round goes out ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> Sequence[Submission]:
        """Choose a round and write its requests; return its submissions, none if nothing is left to ask."""
        if not self._rounds:
            return ()
        books = self.books
        arms, depth, least = len(books.planner.arms), books.at_first, books.least
        ends = round_ends(books.calls, arms, self._rounds, depth=depth, least=least)
        number = self._next_round(ends)
        is_last = number == len(ends)
        chosen = self._chosen(books.planner.budget.total if is_last else ends[number - 1])
        for judge, calls in sorted(chosen.items()):
            self._write(judge, number, sorted(calls, key=lambda each: each.ticket))
        open_ = self.ledger.open
        if open_:
            requests = number_of(sum(map(len, self._waiting.values())), "request")
            again = ", again" if self._was_begun(number) else ""
            self.notify(f"round {number} of {len(ends)}{again}: {requests} to go out")
        return open_

    def _was_begun(self, number: int) -> bool:
        return any(
            each.round == number and not each.is_open for each in self.ledger.batches.values()
        )

    def _next_round(self, ends: Sequence[int]) -> int:
        """Return the number of the round to begin, from 1: see _BARELY for calls that a round left over."""
        spent = self.books.planner.budget.spent
        for number, (begin, end) in enumerate(zip((0, *ends), ends, strict=False), start=1):
            if end - spent >= max(1.0, _BARELY * (end - begin)):
                return number
        return len(ends)

    def _chosen(self, end: int) -> Mapping[int, list[Call]]:
        """Return the calls of a round that ends when ``end`` calls are spent, by judge."""
        chosen: dict[int, list[Call]] = defaultdict(list)
        last: dict[int, Call] = {}  # of each arm
        books = self.books
        budget = books.planner.budget
        while (room := end - budget.spent - budget.reserved) > 0:
            call = books.choose(self._judges, min(books.longest, room), keeps_question=False)
            if isinstance(call, Unpaid):
                self._say_once_of_money(call.most)
                return self._worth_a_round(chosen, call)
            if not isinstance(call, Call):
                break
            for each in (call, *books.others(call, self._judges, keeps_question=False)):
                arm, _, calls = each.ticket
                before = last.get(arm)
                most = min(books.longest, self._judges[each.judge].most_samples)
                # the calls of an arm are one request: they all wait as long for their answers
                if before is not None and calls <= most - before.ticket.calls:
                    books.join(before, each)
                else:
                    chosen[each.judge].append(each)
                    last[arm] = each
        return chosen

    def _say_once_of_money(self, most: float) -> None:
        if not self._told_of_money:
            self._told_of_money = True
            self.notify(
                f"the most that a request may cost, about ${most:.3g}, is set aside for each, so the money goes out in more "
                "rounds than --rounds says; with a lower --max-tokens they are fewer"
            )

    def _worth_a_round(
        self, chosen: Mapping[int, list[Call]], unpaid: Unpaid
    ) -> Mapping[int, list[Call]]:
        """Return ``chosen``, which the money cut short; nothing, and end the money, if it is too little to wait hours for.

        The most that a call may cost is set aside, and most calls cost far less: the rest pays for one more round, and another.
        """
        requests = [call for of_one in chosen.values() for call in of_one]
        calls = sum(each.ticket.calls for each in requests)
        if calls and (not self.ledger.batches or calls >= _WORTH * self.books.calls):
            return chosen
        for each in requests:
            self.books.withdraw(each)
        rest = f"what is left is sure to pay for {calls:,} more, too few for a round"
        rest = rest if calls else ""
        self.books.end_of_money(unpaid, rest)
        return {}

    def _write(self, judge: int, of_round: int, calls: Sequence[Call]) -> None:
        """Write the requests of ``calls`` in as many submissions as they need, before anything is sent."""
        left = list(reversed(calls))
        while left:
            number = self.ledger.next_number()
            mine: list[Call] = []
            lines: list[bytes] = []
            size = 0
            while left and len(mine) < self._courier.most_requests:
                body = self._judges[judge].body(self.books.ask(left[-1].ticket))
                line = line_of(self.ledger.custom_id(number, len(mine)), body)
                if mine and size + len(line) > MOST_BYTES:
                    break
                size += len(line)
                lines.append(line)
                mine.append(left.pop())
            submission = self._courier.submission(number, self._names[judge], of_round, len(mine))
            self.ledger.add(submission, calls_of([call.ticket for call in mine]), lines)
            self._waiting[number] = dict(enumerate(mine))
            self.books.stats.calls += len(mine)

    # ── answers come in ───────────────────────────────────────────────────────────────────────────────────────────────

    def withdraw(self, submission: Submission) -> None:
        """Return the calls of a submission that the service did not take."""
        for call in self._waiting.pop(submission.number, {}).values():
            self.books.withdraw(call)
        self.ledger.set(submission.now("withdrawn"))
        self.ledger.tidy(submission)
        self._brought += 1  # another round of smaller ones may go out

    async def take_in(self, files: Iterable[Path], submission: Submission) -> None:
        """Make judgments of the lines in ``files``, and close ``submission``: its other calls have no answer."""
        async with self._reading:
            tally = _Tally(submission.number)
            lines = _lines(files, MOST_REPLY_BYTES)
            while chunk := list(islice(lines, _AT_A_TIME)):
                await self._keep(self._answered(chunk, tally), tally)
            unanswered = [
                _Answered(number, row, self._waiting[number].pop(row), line)
                for (number, row), line in tally.unanswered.items()
                if row in self._waiting[number]
            ]
            tally.surplus += len(tally.unanswered) - len(unanswered)
            await self._keep(unanswered, tally)
            against = []
            for answered, why in tally.failed:
                # If other pairs were answered and this one never, the pair is to blame, and not the service.
                if tally.arms and answered.call.ticket.arm not in tally.arms:
                    against.append((answered.call, self.books.judgments(answered.call, why)))
                else:
                    self._leave(answered)
            await self._append(against)
            self._close(submission, tally)

    def _answered(self, lines: Sequence[Line], tally: _Tally) -> list[_Answered]:
        """Return the waiting calls that ``lines`` answer, each once; lines without a completion are put by."""
        mine: list[_Answered] = []
        for line in lines:
            place = self.ledger.place_of(line.custom_id)
            if place is None:
                tally.broken += line.custom_id is None
                tally.foreign += line.custom_id is not None
                continue
            tally.damaged += line.is_damaged
            number, row = place
            waiting = self._waiting[number] if number == tally.number else {}
            if row in waiting and not isinstance(line.outcome, Completion):
                tally.put_by(place, line)
                continue
            call = waiting.pop(row, None)
            if call is None:
                tally.surplus += 1
            else:
                mine.append(_Answered(number, row, call, line))
        return mine

    def _judged(self, answered: _Answered, tally: _Tally) -> list[Judgment]:
        """Return the judgments of a line; none, and leave the call, if it is not an answer."""
        call, outcome = answered.call, answered.line.outcome
        judge = self._judges[call.judge]
        if outcome is None or (
            isinstance(outcome, Unsupported) and outcome.parameter in tally.learnt
        ):
            self._leave(answered)
            return []
        question = self.books.ask(call.ticket)
        try:
            read = judge.read(question, judge.body_then(question, outcome), outcome, 0.0)
        except (
            EndpointError
        ) as error:  # every call would fail like this, but the other lines are paid for
            self.books.end(error)
            self._leave(answered)
            return []
        if isinstance(read, Reply):
            tally.arms.add(call.ticket.arm)
        elif isinstance(outcome, Unsupported) and read.adapted:
            tally.learnt.add(outcome.parameter)
            self._brought += 1
            self._leave(answered)
            return []
        else:
            self.books.stats.last_failure = read.detail
            if not read.permanent:
                is_several = read.refused and call.ticket.calls > 1 and judge.refuses_several()
                self._brought += is_several  # the others go out one by one
                if read.throttled or is_several:
                    self._leave(answered)
                else:
                    tally.failed.append((answered, read))
                return []
        self._brought += 1
        return self.books.judgments(call, read)

    def _leave(self, answered: _Answered) -> None:
        """Leave a call without an answer until its submission is closed."""
        self._waiting[answered.number][answered.row] = answered.call

    async def _keep(self, answered: Sequence[_Answered], tally: _Tally) -> None:
        read = [(each.call, self._judged(each, tally)) for each in answered]
        await self._append([(call, judgments) for call, judgments in read if judgments])

    async def _append(self, came: Sequence[tuple[Call, list[Judgment]]]) -> None:
        if came:
            self.books.append(came)
            await self.books.written()
        else:
            await asyncio.sleep(0)

    def _close(self, submission: Submission, tally: _Tally) -> None:
        """Record that a submission is over; its waiting calls have no answer."""
        left = self._waiting.pop(submission.number)
        for call in left.values():
            self.books.stats.failed[UNANSWERED] += 1
            self.books.withdraw(call)
        answered = submission.requests - len(left)
        self._brought += answered  # a killed session may have stored them
        self.ledger.set(submission.now("done", answered=answered))
        self.ledger.tidy(submission, keep_answers=not tally.is_understood)
        lost = f"; the other {len(left):,} brought nothing, and cost nothing" if left else ""
        requests = number_of(submission.requests, "request")
        self.notify(
            f"batch {submission.batch_id}: {answered:,} of {requests} answered{lost}{tally.said}"
        )


class _Answered(NamedTuple):
    """A line and its call, with the number of the submission and the row of the request."""

    number: int
    row: int
    call: Call
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
    """The counts of one reading of files for the submission with this ``number``.

    Attributes:
        failed: calls with a failure that may pass.
        arms: arms with a completion.
        surplus: lines for calls that were answered before, or too late for the budget.
        foreign: lines for other runs.
        broken: lines whose call cannot be read. ``damaged``: lines read except for some bytes.
        learnt: parameters that the endpoint refuses, and that are not sent again.
        unanswered: by call, the first line with a reason why it has no answer.
    """

    number: int
    arms: set[int] = field(default_factory=set)
    surplus: int = 0
    foreign: int = 0
    broken: int = 0
    damaged: int = 0
    failed: list[tuple[_Answered, Failure]] = field(default_factory=list)
    learnt: set[str] = field(default_factory=set)
    unanswered: dict[tuple[int, int], Line] = field(default_factory=dict)

    def put_by(self, place: tuple[int, int], line: Line) -> None:
        """Keep the reason why a call has no answer until all is read: another line may have its answer."""
        self.surplus += place in self.unanswered
        if line.outcome is not None:  # else the request was not processed
            self.unanswered.setdefault(place, line)

    @property
    def is_understood(self) -> bool:
        """Whether every line was whole, and for a waiting call."""
        return not (self.surplus or self.foreign or self.broken or self.damaged)

    @property
    def said(self) -> str:
        """The other lines in the files, as the end of a sentence."""
        others = {
            "twice or too late, not counted": self.surplus,
            "for no request of this run, not counted": self.foreign,
            "that cannot be read, not counted": self.broken,
            "with bytes that are not UTF-8, read as �": self.damaged,
        }
        return "".join(
            f"; {number_of(count, 'line')} {what}" for what, count in others.items() if count
        )
