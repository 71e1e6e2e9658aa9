"""The carrier in rounds: it chooses a whole round, has it sent, and waits for its answers, until the budget is spent."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from robin_batch.answers import Intake
from robin_batch.folder import Batches
from robin_batch.lines import line_of
from robin_batch.sending import Sender
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.model.errors import EndpointError, RunError
from robin_cli.model.records import number_of
from robin_cli.run.batches import Submission
from robin_cli.session.carriers import Carrier, Under
from robin_cli.session.ledger import Call, Ledger, Unpaid
from robin_cli.session.round_sizes import round_ends

MOST_BYTES = 190 * 1000 * 1000
"""The most bytes of a file of requests: OpenAI's limit, the lowest known, is 200 MB."""

_BARELY = 0.25
"""If at least this share of a round is unanswered, it is asked again in a round of its own; less goes out with the next."""

_WORTH = 0.05
"""The least share of all calls that a round must have when the money ends it early."""

UNANSWERED = "unanswered"
"""The reason of calls without an answer in their batch: they cost nothing, and are asked again."""


class Rounds(Carrier):
    """Makes the calls of a session in rounds.

    Args:
        ledger: with a planner made for rounds, without calls under way.
        judges: the judges by name, which make requests of questions and read answers.
        batches: the run's batches.
        sender: takes requests away, and brings answers.
        is_judged: returns whether a call, by arm and draw, has a judgment on disk.
        calls: the calls in the budget; for a budget of money, about as many as it pays for.
        least: calls before there is a result.
        rounds: the number of rounds for the whole budget; 0 to begin none, and only see through batches under way.
        notify: gets lines for the user.
    """

    def __init__(
        self,
        ledger: Ledger,
        judges: Mapping[str, OpenAIJudge],
        batches: Batches,
        sender: Sender,
        *,
        is_judged: Callable[[int, int], bool],
        calls: int,
        least: int,
        rounds: int,
        notify: Callable[[str], None],
    ) -> None:
        sender.check(batches.open)
        sender.rounds = self
        ledger.stats.under_way = lambda: sum(batch.requests for batch in batches.open)
        self.ledger, self.stop, self.batches, self.notify = ledger, ledger.stop, batches, notify
        self._names, self._judges = list(judges), list(judges.values())
        ledger.judges, ledger.keeps_questions = self._judges, False  # a round is large
        self._calls, self._least = calls, least
        self._sender, self._is_judged, self._rounds = sender, is_judged, rounds
        self._waiting: dict[int, dict[int, Call]] = {}  # calls without an answer, by batch and row
        self._reading = asyncio.Lock()
        self._brought = 0  # answers, refusals for good, and lessons about the endpoint, this round
        self._has_noted_money = False

    @property
    def under(self) -> Under:
        """The round and the batches under way."""
        batches = self.batches.open
        if not batches:
            return Under()
        number = max(batch.round for batch in batches)
        states = ", ".join(map(self._sender.describe, batches))
        return Under(number, max(number, self._rounds), states)

    async def run(self) -> None:
        """See :meth:`Carrier.run`. EndpointError: a round brought nothing."""
        try:
            self._take_up()
            while not self.stop.requested.is_set():
                # In a thread: fitting a ranking of a thousand systems takes seconds, and signals must be heard meanwhile.
                if not self.batches.open:
                    await asyncio.to_thread(self._begin_round)
                if not self.batches.open:
                    return
                await self._see_through()
        finally:
            await self.ledger.close()

    async def _see_through(self) -> None:
        self._brought = 0
        await self._sender.carry()
        if self.ledger.error is not None:  # after the whole round was read: it is paid for
            raise self.ledger.error
        if not self._brought and not self.stop.requested.is_set():
            why = self.ledger.stats.last_failure or "no line of it was answered"
            raise EndpointError(
                f"a whole round brought nothing ({why}); once that is mended, robin resume"
            )

    def _take_up(self) -> None:
        """Count the batches of earlier sessions as under way, except calls with a judgment on disk."""
        planner = self.ledger.planner
        planner.take_up((), self.batches.next_draws())
        for batch in self.batches.open:
            if batch.judge not in self._names:
                raise RunError(
                    f"batch {batch.number} of this run is for {batch.judge}, which is not its judge; restore its "
                    "folder batches from a copy"
                )
            tickets = {
                row: ticket
                for row, ticket in enumerate(self.batches.tickets(batch))
                if not self._is_judged(ticket.arm, ticket.draw)
            }
            if sum(ticket.calls for ticket in tickets.values()) > planner.budget.available:
                raise RunError(
                    "more calls are under way than the run's budget has; restore its folder batches from a copy"
                )
            calls = self.ledger.take_up(list(tickets.values()))
            self._waiting[batch.number] = dict(zip(tickets, calls, strict=True))

    # ── a round goes out ──────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> None:
        """Choose a round and write its batches, none if nothing is left to ask."""
        if not self._rounds:
            return
        ledger = self.ledger
        arms, depth = len(ledger.planner.arms), ledger.planner.round_depth
        ends = round_ends(self._calls, arms, self._rounds, depth=depth, least=self._least)
        number = self._next_round(ends)
        is_last = number == len(ends)
        chosen = self._choose(ledger.planner.budget.total if is_last else ends[number - 1])
        is_again = any(batch.round == number for batch in self.batches.by_number.values())
        for judge, calls in sorted(chosen.items()):
            self._write(judge, number, sorted(calls, key=lambda call: call.ticket))
        if batches := self.batches.open:
            requests = number_of(sum(batch.requests for batch in batches), "request")
            again = ", again" if is_again else ""
            self.notify(f"round {number} of {len(ends)}{again}: {requests} to go out")

    def _next_round(self, ends: Sequence[int]) -> int:
        """Return the number of the round to begin, from 1: see _BARELY for calls that a round left over."""
        spent = self.ledger.planner.budget.spent
        for number, (begin, end) in enumerate(zip((0, *ends), ends, strict=False), start=1):
            if end - spent >= max(1.0, _BARELY * (end - begin)):
                return number
        return len(ends)

    def _choose(self, end: int) -> Mapping[int, list[Call]]:
        """Return the calls of a round that ends when ``end`` calls are spent, by judge."""
        chosen: dict[int, list[Call]] = defaultdict(list)
        last: dict[int, Call] = {}  # of each arm
        ledger = self.ledger
        budget = ledger.planner.budget
        while (room := end - budget.spent - budget.reserved) > 0:
            call = ledger.choose(min(ledger.longest, room))
            if isinstance(call, Unpaid):
                return self._choose_by_money(chosen, call)
            if not isinstance(call, Call):
                break
            for part in (call, *ledger.others(call)):
                arm, _, calls = part.ticket
                before = last.get(arm)
                most = min(ledger.longest, self._judges[part.judge].most_samples)
                # the calls of an arm are one request: they all wait as long for their answers
                if before is not None and calls <= most - before.ticket.calls:
                    ledger.join(before, part)
                else:
                    chosen[part.judge].append(part)
                    last[arm] = part
        return chosen

    def _choose_by_money(
        self, chosen: Mapping[int, list[Call]], unpaid: Unpaid
    ) -> Mapping[int, list[Call]]:
        """Return ``chosen``, which the money cut short; nothing, and end the money, if it is too little to wait hours for.

        The most that a call may cost is set aside, and most calls cost far less: the rest pays for one more round, and another.
        """
        if not self._has_noted_money:
            self._has_noted_money = True
            self.notify(
                f"the most that a request may cost, about ${unpaid.most:.3g}, is set aside for each, so the money goes out in "
                "more rounds than --rounds says; with a lower --max-tokens they are fewer"
            )
        requests = [call for of_judge in chosen.values() for call in of_judge]
        calls = sum(call.ticket.calls for call in requests)
        if calls and (not self.batches.by_number or calls >= _WORTH * self._calls):
            return chosen
        for call in requests:
            self.ledger.withdraw(call)
        rest = f"what is left is sure to pay for {calls:,} more, too few for a round"
        self.ledger.end_of_money(unpaid, rest if calls else "")
        return {}

    def _write(self, judge: int, of_round: int, calls: Sequence[Call]) -> None:
        """Write the requests of ``calls`` in as many batches as they need, before anything is sent."""
        left = list(reversed(calls))
        while left:
            number = max(self.batches.by_number, default=0) + 1
            of_batch: list[Call] = []
            lines: list[bytes] = []
            size = 0
            while left and len(of_batch) < self._sender.most_requests:
                body = self._judges[judge].body(self.ledger.desk.question(left[-1].ticket))
                line = line_of(self.batches.custom_id(number, len(of_batch)), body)
                size += len(line)
                if of_batch and size > MOST_BYTES:
                    break
                lines.append(line)
                of_batch.append(left.pop())
            batch = Submission(number, self._names[judge], of_round, len(of_batch))
            self.batches.add(batch, [call.ticket for call in of_batch], lines)
            self._waiting[number] = dict(enumerate(of_batch))
            self.ledger.stats.calls += len(of_batch)

    # ── answers come in ───────────────────────────────────────────────────────────────────────────────────────────────

    def withdraw(self, batch: Submission) -> Submission:
        """Return the calls of a batch that the service did not take; return the batch."""
        for call in self._waiting.pop(batch.number, {}).values():
            self.ledger.withdraw(call)
        batch = batch.now("withdrawn")
        self.batches.set(batch)
        self.batches.tidy(batch)
        self._brought += 1  # another round of smaller ones may go out
        return batch

    async def take_in(self, batch: Submission) -> Submission:
        """Make judgments of the answers to ``batch``, and close it: its other calls have no answer; return it."""
        files = [path for path in self.batches.answers(batch) if path.exists()]
        async with self._reading:
            waiting = self._waiting[batch.number]
            reading = Intake(self.ledger, self._judges, waiting)
            ids = (self.batches.custom_id(batch.number, row) for row in range(batch.requests))
            await reading.take(files, {custom_id: row for row, custom_id in enumerate(ids)})
            del self._waiting[batch.number]
            for call in waiting.values():
                self.ledger.stats.failed[UNANSWERED] += 1
                self.ledger.withdraw(call)
            answered = batch.requests - len(waiting)
            self._brought += answered + reading.lessons  # a killed session may have stored some
            batch = batch.now("done", answered=answered)
            self.batches.set(batch)
            self.batches.tidy(batch, keep_answers=reading.odd_lines.total() > 0)
        requests = number_of(batch.requests, "request")
        lost = f"; the other {len(waiting):,} brought nothing, and cost nothing" if waiting else ""
        self.notify(
            f"batch {batch.batch_id}: {answered:,} of {requests} answered{lost}{reading.note}"
        )
        return batch
