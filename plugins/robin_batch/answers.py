"""Makes judgments of a batch's answers, in whatever order and however often a service wrote them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from robin_batch.lines import Line, read_lines
from robin_cli.judges.bodies import MOST_REPLY_BYTES
from robin_cli.judges.openai_http import OpenAIJudge
from robin_cli.judges.problems import Problem
from robin_cli.judges.replies import Completion
from robin_cli.model.errors import EndpointError, InputError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment, number_of
from robin_cli.session.ledger import Call, Ledger

_AT_A_TIME = 256

_LATE = "twice or too late, not counted"
_FOREIGN = "for no request of this run, not counted"
_BROKEN = "that cannot be read, not counted"
_DAMAGED = "with bytes that are not UTF-8, read as �"


class Intake:
    """One reading of a batch's files. The first completion of a call counts; a problem only if no completion comes.

    Args:
        waiting: the calls without an answer, by row. Those that are answered, or whose pair is to blame, are removed.

    Attributes:
        odd_lines: the number of odd lines, by what is odd.
        lessons: the number of things learnt about the endpoint, so that the next round may bring more.
    """

    def __init__(
        self, ledger: Ledger, judges: Sequence[OpenAIJudge], waiting: MutableMapping[int, Call]
    ) -> None:
        self._ledger, self._judges, self._waiting = ledger, judges, waiting
        self._problems: dict[int, Problem] = {}
        self._failures: list[tuple[int, Failure]] = []  # that may pass
        self._answered: set[int] = set()  # arms
        self._refused: set[str] = set()  # parameters that are not sent again
        self.odd_lines = Counter(dict.fromkeys((_LATE, _FOREIGN, _BROKEN, _DAMAGED), 0))
        self.lessons = 0

    async def take(self, files: Sequence[Path], rows: Mapping[str, int]) -> None:
        """Read all lines of ``files``; ``rows`` has the row of each request by its id."""
        lines = read_lines(files, MOST_REPLY_BYTES)
        try:
            while chunk := list(islice(lines, _AT_A_TIME)):
                await self._keep(self._completions(chunk, rows).items())
        except OSError as error:
            raise InputError(
                f"{error.filename}: cannot be read ({error.strerror}); make it readable, then robin resume"
            ) from error
        left = [pair for pair in self._problems.items() if pair[0] in self._waiting]
        self.odd_lines[_LATE] += len(self._problems) - len(left)
        await self._keep(left)
        if self._answered:  # a pair that never was, while others were, is to blame, not the service
            blamed = [
                (self._waiting.pop(row), failure)
                for row, failure in self._failures
                if self._waiting[row].ticket.arm not in self._answered
            ]
            await self._append(
                [(call, self._ledger.judgments(call, failure)) for call, failure in blamed]
            )

    @property
    def note(self) -> str:
        """The odd lines, as the end of a sentence."""
        counts = self.odd_lines.items()
        return "".join(f"; {number_of(count, 'line')} {what}" for what, count in counts if count)

    def _completions(self, lines: Sequence[Line], rows: Mapping[str, int]) -> dict[int, Completion]:
        """Return the first completions of waiting calls; problems are put by until all lines are read."""
        completions: dict[int, Completion] = {}
        for line in lines:
            row = rows.get(line.custom_id or "")
            self.odd_lines[_DAMAGED] += line.is_damaged
            if row is None:
                self.odd_lines[_BROKEN if line.custom_id is None else _FOREIGN] += 1
            elif row not in self._waiting or row in completions:
                self.odd_lines[_LATE] += 1
            elif isinstance(line.outcome, Completion):
                completions[row] = line.outcome
            else:
                self.odd_lines[_LATE] += row in self._problems
                if line.outcome is not None:  # else the request was not made
                    self._problems.setdefault(row, line.outcome)
        return completions

    async def _keep(self, came: Iterable[tuple[int, Completion | Problem]]) -> None:
        """Write the judgments of calls; those without any wait on."""
        judged = []
        for row, outcome in came:
            call = self._waiting[row]
            if judgments := self._judgments(row, call, outcome):
                judged.append((call, judgments))
                del self._waiting[row]
        await self._append(judged)

    def _judgments(self, row: int, call: Call, outcome: Completion | Problem) -> list[Judgment]:
        """Return the judgments of a call; none if it may be asked again."""
        if isinstance(outcome, Failure) and outcome.parameter in self._refused:
            return []
        judge, question = self._judges[call.judge], self._ledger.desk.question(call.ticket)
        try:
            read = judge.read(question, _body_sent(judge, question, outcome), outcome, 0.0)
        except EndpointError as error:  # every call would fail so, but the other lines are paid for
            self._ledger.end(error)
            return []
        if isinstance(read, Reply):
            self._answered.add(call.ticket.arm)
            return self._ledger.judgments(call, read)
        if read.parameter and read.adapted:
            self._refused.add(read.parameter)
            self.lessons += 1
            return []
        self._ledger.stats.last_failure = read.detail
        if read.permanent:
            return self._ledger.judgments(call, read)
        if read.refused and call.ticket.calls > 1 and not judge.dialect.gives_several:
            judge.dialect.never_send("n")
            self.lessons += 1  # the others go out one by one
        elif not read.throttled:
            self._failures.append((row, read))
        return []

    async def _append(self, judged: Sequence[tuple[Call, list[Judgment]]]) -> None:
        if judged:
            self._ledger.append(judged)
            await self._ledger.written()
        else:
            await asyncio.sleep(0)


def _body_sent(
    judge: OpenAIJudge, question: Question, outcome: Completion | Problem
) -> dict[str, Any]:
    """Return the body of the request with this ``outcome``: the limit on answers may have been raised since."""
    body, dialect = judge.body(question), judge.dialect
    if isinstance(outcome, Completion):
        tokens = (outcome.usage.completion_tokens or 0) // len(outcome.answers)
        if dialect.usual <= tokens < dialect.limit:
            body[dialect.limit_name] = dialect.usual
    return body
