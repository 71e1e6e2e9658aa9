"""The loop of a run with remote workers: like the engine's, with requests and replies in groups.

Who is asked, when, and what came of it is decided here, call by call, by the same parts as in one process. So the pace, the
caps, what an endpoint says of waiting, and the money hold for all workers together. A call that is answered at once, as nearly
all are, costs no task of its own; one that failed goes on as it would in one process, each of its requests made by a worker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from robin_cli.judges.failover import Failover
from robin_cli.judges.limiter import Permit
from robin_cli.model import errors
from robin_cli.model.errors import EndpointError, RunError
from robin_cli.model.exchange import Failure, Question, Reply
from robin_cli.model.records import Judgment, Usage
from robin_cli.session.engine import Engine
from robin_cli.session.ledger import Call, Ledger
from robin_cli.session.planner import Ticket
from robin_ray.crew import Cluster, Crew
from robin_ray.remote import AskedOf, Targets, Told
from robin_ray.wire import Came, Posed, RemoteRun, Texts

_UNSENT = Failure("unsent", "", adapted=True)
"""A request that was not made, because the endpoint had just asked for a wait; it is made after that."""


class Gone(Exception):
    """A request whose worker is lost; nobody knows whether it was made."""


@dataclass(slots=True, eq=False)
class _Sent:
    """A request under way: the first of a call, or one with a waiting task (``coming``)."""

    target: int
    call: Call | None = None
    permit: Permit | None = None
    started: float = 0.0
    coming: asyncio.Future[Reply | Failure] | None = None


class Groups(Engine):
    """Like :class:`Engine`, except that the workers of a :class:`Crew` make the calls.

    Args:
        run: the details of the run for the workers.
        place: returns an arm's pair by position, and the arm's index within the pair.
        texts: see :class:`Crew`.
        notify: called with each line for the user.
    """

    def __init__(
        self,
        ledger: Ledger,
        judges: Sequence[Failover],
        targets: Targets,
        cluster: Cluster,
        run: RemoteRun,
        place: Callable[[int], tuple[int, int]],
        texts: Callable[[int], Texts] | None,
        notify: Callable[[str], None],
    ) -> None:
        super().__init__(ledger, judges)
        self._place = place
        self._targets = targets
        self._notify = notify
        self._noted: set[str] = set()
        self._crew = Crew(
            cluster,
            run,
            targets.targets,
            targets.keys,
            texts=texts,
            bears=lambda: sum(judge.bears for judge in judges),
            came=self._take_in,
            lost=self._lose,
            notify=notify,
        )
        targets.reach_by(self._send)
        self._reckons = ledger.money.limit is not None or any(
            limiter.counts_tokens for limiter in targets.number_of
        )
        ledger.ask = self._question
        self._sent: dict[int, _Sent] = {}
        self._number = 0

    async def run(self) -> None:
        """Work like :meth:`Engine.run`, once there are workers.

        Raises:
            InputError, EndpointError: workers cannot be used, or none are left.
        """
        self._notify("--ray: workers are starting, which takes some seconds")
        starting = asyncio.create_task(self._crew.start())
        stopping = asyncio.create_task(self._ledger.stop.requested.wait())
        try:
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                starting.result()
                # what is said of the pace is of the calls
                self._ledger.stats.started_at = time.monotonic()
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
            self._ledger.end(error)

    # ── calls go out ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _question(self, ticket: Ticket) -> Question:
        arm, draw, samples = ticket
        if not self._reckons:
            return AskedOf((), samples, arm=arm, draw=draw)
        asked = self._ledger.desk.question(ticket)
        return AskedOf(asked.messages, samples, asked.seed, asked.structure, arm=arm, draw=draw)

    def _size(self, question: Question | None) -> int:  # noqa: ARG002  # prompts are where they are made
        return 0

    def _carry(self, call: Call) -> None:
        if call.permit is None:
            self._see_to(self._see_through(call, self._make(call)))
        else:
            self._pose(call, call.permit)

    async def _make(self, call: Call) -> None:
        if (permit := await self._permit(call)) is not None:
            self._count(call)  # once more: it goes on without the task that waited for the permit
            self._pose(call, permit)

    def _pose(self, call: Call, permit: Permit) -> None:
        """Send the first request of ``call`` to a worker."""
        assert call.question is not None  # noqa: S101  # it was just chosen
        target = self._targets.number_of[permit.limiter]
        permit.limiter.charge(permit, self._targets.judges[target].tokens(call.question))
        self._ledger.begin()
        self._health[call.judge].begins()
        self._post(call.question, _Sent(target, call, permit, time.monotonic()))

    async def _send(self, target: int, question: AskedOf) -> Reply | Failure:
        """Send one request to a worker, and wait for its result."""
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
        self._crew.pose(Posed(number, sent.target, pair, arm, question.draw, question.samples))
        return number

    # ── answers come in ───────────────────────────────────────────────────────────────────────────────────────────────

    def _take_in(self, came: Came) -> None:
        """Take a worker's results; those of requests that no task waits for any more are dropped."""
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
                self._withdraw([number])
                self._ledger.end(error)
        for bug in came.bugs:
            self._ledger.end(RunError(f"an answer could not be read ({bug}), and is kept as it is"))
        self._ledger.changed.set()

    def _keep_answers(self, came: Came) -> None:
        kept: list[tuple[Call, list[Judgment]]] = []
        for number, judgments, tokens in came.answered:
            sent = self._sent.pop(number, None)
            if sent is None:
                continue
            if sent.call is None or sent.permit is None:
                _tell(sent, _reply(judgments))
                continue
            call = sent.call
            if call.question is not None:
                self._targets.judges[sent.target].measured(call.question, judgments)
            self._judges[call.judge].answered(sent.permit, tokens)
            self._health[call.judge].answered()
            self._is_out(call)
            kept.append((call, judgments))
        if kept:
            self._ledger.append(kept)
        for call, judgments in kept:
            self._go_on(call, len(judgments))

    def _is_out(self, call: Call) -> None:
        """Finish a call that needed no more than its first request."""
        self._health[call.judge].ends()
        self._ledger.asked -= 1
        self._discount(call)

    def _not_answered(self, number: int, outcome: Failure | EndpointError) -> None:
        sent = self._sent.pop(number, None)
        if sent is None:
            return
        if sent.call is None or sent.permit is None:
            _tell(sent, outcome)
            return
        call, permit, judge = sent.call, sent.permit, self._judges[sent.call.judge]
        if outcome is _UNSENT:
            permit.release(is_made=False)
        else:
            judge.failed(permit, outcome)
        self._health[call.judge].ends()
        assert call.question is not None  # noqa: S101  # it was not answered
        following = self._follow(call, judge.after(call.question, permit, outcome, sent.started))
        self._see_to(self._see_through(call, self._unless_gone(call, following)))

    async def _unless_gone(self, call: Call, following: Awaitable[None]) -> None:
        try:
            await following
        except Gone:
            self._ledger.lose(call)

    def _judgments(self, call: Call, outcome: Reply | Failure) -> list[Judgment]:
        return (
            list(outcome.judgments)
            if isinstance(outcome, Told)
            else super()._judgments(call, outcome)
        )

    def _lose(self, numbers: Iterable[int]) -> None:
        """Repeat the calls of lost requests, as new calls; nobody knows whether the lost ones were paid for."""
        for call in filter(None, map(self._taken_back, numbers)):
            self._ledger.lose(call)

    def _withdraw(self, numbers: Iterable[int]) -> None:
        for call in filter(None, map(self._taken_back, numbers)):
            self._ledger.withdraw(call)

    def _taken_back(self, number: int) -> Call | None:
        """Return the call of a request without a result; a task that waits for a further request gets the error."""
        sent = self._sent.pop(number, None)
        if sent is None or sent.call is None or sent.permit is None:
            _tell(sent, Gone())
            return None
        sent.permit.release()
        self._is_out(sent.call)
        return sent.call

    def _is_under_way(self) -> bool:
        return bool(self._sent or self._calls) and self._crew.can_answer

    async def _drop(self) -> None:
        await super()._drop()
        self._withdraw(list(self._sent))


def _reply(judgments: Sequence[Judgment]) -> Told:
    """Rebuild, from a worker's ``judgments``, the parts of a reply that the retry code reads."""
    first = judgments[0]
    usage = Usage(first.prompt_tokens, first.completion_tokens)
    return Told((), first.model, usage, first.request_id, first.latency_s, judgments=judgments)


def _tell(sent: _Sent | None, outcome: Reply | Failure | BaseException) -> None:
    """Give a request's result to the task that waits for it."""
    if sent is None or sent.coming is None or sent.coming.done():
        return
    if isinstance(outcome, BaseException):
        sent.coming.set_exception(outcome)
    else:
        sent.coming.set_result(outcome)
