"""Failover: one judge at several addresses. Calls go to the address with the most room, and away from one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from robin_cli.judges.dispatched import Dispatched
from robin_cli.judges.permits import UNTIL_ONE_ENDS, Line, Permit, Permits
from robin_cli.judges.retrying import Retrying
from robin_cli.model.errors import EndpointError
from robin_cli.model.exchange import Failure, Question, Reply

_FAILURES = 3
_OPEN_S = 5.0
_LONGEST_OPEN_S = 120.0


class CircuitBreaker:
    """The circuit breaker of an endpoint: closed, it is asked; open, it is not; half-open, one call at a time tests it.

    It opens after three failures in a row, for 5 s, then 10, up to two minutes, and closes with the first success.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._failures = 0
        self._open_until = float("-inf")

    @property
    def closed(self) -> bool:
        """Whether the endpoint is asked without limits."""
        return self._failures < _FAILURES

    @property
    def open_s(self) -> float:
        """The seconds until one call may test the endpoint; 0 if closed or half-open."""
        return max(0.0, self._open_until - self._clock())

    def failed(self, *, for_good: bool = False) -> bool:
        """Record a failed call, or that the endpoint cannot be used (``for_good``); return whether this opened the circuit."""
        if self.open_s:
            return False  # a call that was under way when it opened: nothing new
        was_closed = self.closed
        self._failures = max(self._failures + 1, _FAILURES if for_good else 0)
        if not self.closed:
            open_s = min(_LONGEST_OPEN_S, _OPEN_S * 2.0 ** min(10, self._failures - _FAILURES))
            self._open_until = self._clock() + open_s
        return was_closed and not self.closed

    def succeeded(self) -> bool:
        """Record an answered call; return whether this closed the circuit."""
        was_open = not self.closed
        self._failures, self._open_until = 0, float("-inf")
        return was_open


@dataclass(frozen=True, slots=True, eq=False)
class _Endpoint:
    name: str
    judge: Retrying
    breaker: CircuitBreaker

    @property
    def bears(self) -> int:
        return self.judge.bears if self.breaker.closed else 1

    @property
    def load(self) -> float:
        """Requests under way as a share of those allowed; at 1 there is no room."""
        limiter = self.judge.limiter
        return limiter.under_way / (limiter.limit if self.breaker.closed else 1)


class Failover(Dispatched):
    """Asks the one of ``judges`` with the most room, and another one if it fails.

    The circuit of an endpoint opens if calls fail there, or it cannot be used (a key is refused, a model unknown); its calls
    move to the others. If all are open, the last call returns, or raises, its failure.

    Args:
        judges: at least two, each with the name of its endpoint.
        clock: seconds, monotonic.
        notify: gets a line when a circuit opens, and when it closes again.
    """

    def __init__(
        self,
        judges: Sequence[tuple[str, Retrying]],
        *,
        clock: Callable[[], float],
        notify: Callable[[str], None],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.judges = [judge for _, judge in judges]
        self.limiters = [judge.limiter for _, judge in judges]
        self._endpoints = [_Endpoint(name, judge, CircuitBreaker(clock)) for name, judge in judges]
        self._clock = clock
        self._notify = notify
        self.line = Line(self.take, sleep)
        for endpoint in self._endpoints:
            endpoint.judge.limiter.watch(self.line.look_again)

    @property
    def bears(self) -> int:
        """The most requests that may be under way now, at endpoints whose circuit is not open; at least 1."""
        return max(
            1, sum(endpoint.bears for endpoint in self._endpoints if not endpoint.breaker.open_s)
        )

    async def acquire(self, at: Permits | None = None) -> Permit:
        works = any(each.judge.limiter is at and each.breaker.closed for each in self._endpoints)
        return await super().acquire(at if works else None)

    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask an endpoint, and another one if that fails. EndpointError if none can be used."""
        permit = permit or await self.acquire()
        return await self._follow(question, permit, self._of(permit).judge.ask(question, permit))

    def answered(self, permit: Permit, tokens: int) -> None:
        endpoint = self._of(permit)
        endpoint.judge.answered(permit, tokens)
        self._succeeded(endpoint)

    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        self._of(permit).judge.failed(permit, outcome)

    async def after(
        self, question: Question, permit: Permit, outcome: Failure | EndpointError, started: float
    ) -> Reply | Failure:
        coming = self._of(permit).judge.after(question, permit, outcome, started)
        return await self._follow(question, permit, coming)

    def _of(self, permit: Permit) -> _Endpoint:
        return next(each for each in self._endpoints if each.judge.limiter is permit.limiter)

    async def _follow(
        self, question: Question, permit: Permit, coming: Awaitable[Reply | Failure]
    ) -> Reply | Failure:
        """Return the outcome of a call whose first request, with ``permit``, is under way; ask other endpoints if it fails."""
        while True:
            endpoint = self._of(permit)
            try:
                outcome = await coming
            except EndpointError as error:
                if not self._others(endpoint):
                    raise
                self._failed(endpoint, str(error), for_good=True)
            else:
                if isinstance(outcome, Reply) or outcome.permanent:
                    self._succeeded(endpoint)
                    return outcome
                if not self._others(endpoint):
                    return outcome
                self._failed(endpoint, outcome.detail, for_good=False)  # tried long enough there
            permit = await self.acquire()
            coming = self._of(permit).judge.ask(question, permit)

    def _succeeded(self, endpoint: _Endpoint) -> None:
        if endpoint.breaker.succeeded():
            self._notify(f"{endpoint.name}: answers again")

    def _failed(self, endpoint: _Endpoint, why: str, *, for_good: bool) -> None:
        if endpoint.breaker.failed(for_good=for_good):
            self._notify(f"{endpoint.name}: circuit open, tried again now and then ({why})")

    def _others(self, endpoint: _Endpoint) -> bool:
        return any(each is not endpoint and not each.breaker.open_s for each in self._endpoints)

    def take(self) -> Permit | float:
        wait_s = UNTIL_ONE_ENDS
        for endpoint in sorted(self._endpoints, key=lambda each: each.load):
            if endpoint.breaker.open_s:
                wait_s = min(wait_s, endpoint.breaker.open_s)
            elif endpoint.load < 1:
                taken = endpoint.judge.take()
                if isinstance(taken, Permit):
                    return taken
                wait_s = min(wait_s, taken)
        return wait_s
