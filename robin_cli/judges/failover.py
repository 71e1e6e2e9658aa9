"""One judge at one or several addresses. Calls go to the address with the most room, and away from one that fails."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from robin_cli.judges.judge import Judge
from robin_cli.judges.permits import UNTIL_ONE_ENDS, Clock, Line, Permit, Permits, Sleep
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

    def __init__(self, clock: Clock) -> None:
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
    chain: Retrying
    breaker: CircuitBreaker

    @property
    def bears(self) -> int:
        return self.chain.limiter.limit if self.breaker.closed else 1

    @property
    def load(self) -> float:
        """Requests under way as a share of those allowed; at 1 there is no room."""
        return self.chain.limiter.under_way / self.bears


class Failover(Judge):
    """Asks the endpoint with the most room, and another one if it fails. It is what the loop of a run asks.

    It is asked with a permit, which is taken before a call is chosen, so that the choice uses new answers. The circuit of an
    endpoint opens if calls fail there, or it cannot be used (a key is refused, a model unknown); its calls move to the others.
    If all are open, or there is one endpoint alone, the last call returns, or raises, its failure.

    Args:
        chains: at least one, each with the name of its endpoint.
        clock: seconds, monotonic.
        notify: gets a line when a circuit opens, and when it closes again.

    Attributes:
        limiters: of the endpoints, in order.
    """

    def __init__(
        self,
        chains: Sequence[tuple[str, Retrying]],
        *,
        notify: Callable[[str], None],
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._endpoints = [_Endpoint(name, chain, CircuitBreaker(clock)) for name, chain in chains]
        self._judges = [chain.judge for _, chain in chains]
        self.limiters = [chain.limiter for _, chain in chains]
        self._at: dict[Permits, _Endpoint] = dict(zip(self.limiters, self._endpoints, strict=True))
        self._notify = notify
        self._line = Line(self.take, sleep)
        for limiter in self.limiters:
            limiter.watch(self._line.look_again)

    @property
    def bears(self) -> int:
        """The most requests that may be under way now, at endpoints whose circuit is not open; at least 1."""
        bears = (endpoint.bears for endpoint in self._endpoints if not endpoint.breaker.open_s)
        return max(1, sum(bears))

    @property
    def under_way(self) -> int:
        """The number of requests under way."""
        return sum(limiter.under_way for limiter in self.limiters)

    def take(self) -> Permit | float:
        """Return a permit to begin a call, or how long to wait, see :class:`Line`."""
        wait_s = UNTIL_ONE_ENDS
        for endpoint in sorted(self._endpoints, key=lambda endpoint: endpoint.load):
            if endpoint.breaker.open_s:
                wait_s = min(wait_s, endpoint.breaker.open_s)
            elif endpoint.load < 1:
                taken = endpoint.chain.take()
                if isinstance(taken, Permit):
                    return taken
                wait_s = min(wait_s, taken)
        return wait_s

    async def acquire(self, at: Permits | None = None) -> Permit:
        """Wait for a permit to begin a call, first come, first served, at the address of limiter ``at`` if that works."""
        if at is not None and self._at[at].breaker.closed:
            return await at.acquire()
        return await self._line.acquire()

    async def ask(self, question: Question, permit: Permit | None = None) -> Reply | Failure:
        """Ask with ``permit``, which is released, or wait for one. EndpointError if no endpoint can be used."""
        permit = permit or await self.acquire()
        return await self._follow(question, permit, self._of(permit).chain.ask(question, permit))

    def answered(self, permit: Permit, tokens: int) -> None:
        """Release ``permit`` after a request made elsewhere was answered, with ``tokens`` in all."""
        endpoint = self._of(permit)
        endpoint.chain.answered(permit, tokens)
        self._succeeded(endpoint)

    def failed(self, permit: Permit, outcome: Failure | EndpointError) -> None:
        """Release ``permit`` after a request made elsewhere failed; call :meth:`after` next."""
        self._of(permit).chain.failed(permit, outcome)

    async def after(
        self, question: Question, permit: Permit, outcome: Failure | EndpointError, started: float
    ) -> Reply | Failure:
        """Go on as :meth:`ask` would with a call, begun at ``started``, whose first request :meth:`failed`."""
        coming = self._of(permit).chain.after(question, outcome, started)
        return await self._follow(question, permit, coming)

    def _of(self, permit: Permit) -> _Endpoint:
        return self._at[permit.limiter]

    async def _follow(
        self, question: Question, permit: Permit, coming: Awaitable[Reply | Failure]
    ) -> Reply | Failure:
        """Return the outcome of a call whose first request, with ``permit``, is under way; ask other endpoints if it fails."""
        while True:
            endpoint = self._of(permit)
            try:
                outcome = await coming
            except EndpointError as error:
                if not self._has_other(endpoint):
                    raise
                self._failed(endpoint, str(error), for_good=True)
            else:
                if isinstance(outcome, Reply) or outcome.permanent:
                    self._succeeded(endpoint)
                    return outcome
                if not self._has_other(endpoint):
                    return outcome
                self._failed(endpoint, outcome.detail, for_good=False)  # tried long enough there
            permit = await self.acquire()
            coming = self._of(permit).chain.ask(question, permit)

    def _succeeded(self, endpoint: _Endpoint) -> None:
        if endpoint.breaker.succeeded():
            self._notify(f"{endpoint.name}: answers again")

    def _failed(self, endpoint: _Endpoint, why: str, *, for_good: bool) -> None:
        if endpoint.breaker.failed(for_good=for_good):
            self._notify(f"{endpoint.name}: circuit open, tried again now and then ({why})")

    def _has_other(self, endpoint: _Endpoint) -> bool:
        return any(other is not endpoint and not other.breaker.open_s for other in self._endpoints)

    @property
    def most_samples(self) -> int:
        """The most ratings of one request, whichever endpoint it goes to."""
        return min(judge.most_samples for judge in self._judges)

    def tokens(self, question: Question) -> int:
        """Return about how many tokens asking takes."""
        return max(judge.tokens(question) for judge in self._judges)

    def most_cost(self, question: Question) -> float:
        """Return the most that asking may cost, in US dollars, whichever endpoint answers."""
        return max(judge.most_cost(question) for judge in self._judges)

    async def aclose(self) -> None:
        """Close all connections."""
        for judge in self._judges:
            await judge.aclose()
