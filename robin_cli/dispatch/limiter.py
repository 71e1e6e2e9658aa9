"""How many requests may be under way at one endpoint, and when the next may start.

One limiter stands for one endpoint. It is told of every answer and every "too many requests", and it alone decides. The
user's own caps and the rate that was learnt share one token bucket. aiolimiter's fills while it is idle and lets a minute's
requests through at once, has a waiting line of its own, and gives nothing back where a request was reckoned too dear.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from robin_cli.dispatch.adapting import Rate, Slots

_START = 8
MAX_HOLD_S = 120.0
"""A longer Retry-After is cut to this: a run must not freeze for hours unseen."""

_SPARE = 1.5
_MINUTE_S = 60.0
_BEHIND_S = 1.0
"""A request that came late for its turn takes it still, unless it was later than this: else the rate would never be met."""

UNTIL_ONE_ENDS = math.inf
"""No permit is free, and none will be before a request ends."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What the user allows an endpoint to be asked, a minute; None for no cap of one's own."""

    requests_a_minute: float | None = None
    tokens_a_minute: float | None = None

    @property
    def request_s(self) -> float:
        """Seconds that a request keeps others from starting."""
        return _MINUTE_S / self.requests_a_minute if self.requests_a_minute else 0.0

    @property
    def token_s(self) -> float:
        """Seconds that each of its tokens does."""
        return _MINUTE_S / self.tokens_a_minute if self.tokens_a_minute else 0.0


@dataclass(slots=True, eq=False)
class Permit:
    """The right to make one request now.

    Attributes:
        limiter: whose it is.
        started_at: when it was given.
        under_way: requests under way then, with this one.
        cost_s: for how long it keeps others from starting.
        tokens: what the request was reckoned at; None while it was not made.
    """

    limiter: Limiter
    started_at: float
    under_way: int
    cost_s: float
    tokens: int | None = None

    def release(self) -> None:
        """Give it back: the request is over, or is not made after all."""
        self.limiter.release(self)

    def unused(self) -> None:
        """Give it back with what it was charged: the request is not made after all."""
        self.limiter.unused(self)


class Line:
    """Waits for permits; first come, first served.

    Args:
        take: a permit, or the seconds until it is worth asking for one again: UNTIL_ONE_ENDS, until :meth:`look_again`.
        sleep: waits so many seconds.
    """

    def __init__(self, take: Callable[[], Permit | float], sleep: Callable[[float], Awaitable[None]]) -> None:
        self._take = take
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._news: asyncio.Future[None] | None = None

    @property
    def is_waited_in(self) -> bool:
        """Whether somebody waits."""
        return self._turn.locked()

    async def acquire(self) -> Permit:
        """Wait for a permit; FIFO."""
        async with self._turn:
            while not isinstance(permit := self._take(), Permit):
                await self._wait(permit)
            return permit

    def look_again(self) -> None:
        """There may be a permit for the first in line."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _wait(self, seconds: float) -> None:
        self._news = asyncio.get_running_loop().create_future()
        if seconds == UNTIL_ONE_ENDS:
            await self._news
            return
        sleeping = asyncio.ensure_future(self._sleep(seconds))
        try:
            await asyncio.wait({sleeping, self._news}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sleeping.cancel()


class Limiter:
    """Lets requests start: so many at a time, and so many a second, as the endpoint bears and the user allows.

    Every request, the first of a call and its retries alike, is made with a permit. With ``fixed`` that many run at a time,
    whatever the endpoint says but for how long to wait. Without, both numbers are found out, see
    :mod:`robin_cli.dispatch.adapting`.

    Args:
        fixed: requests at a time, at least 1; None to adapt.
        ceiling: the most at a time that an adaptive limiter allows.
        clock: seconds, monotonic.
        sleep: waits so many seconds.
        caps: the user's own limits, held whatever the endpoint would bear.
    """

    def __init__(
        self,
        fixed: int | None,
        *,
        ceiling: int,
        clock: Callable[[], float],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        caps: Caps | None = None,
    ) -> None:
        self.adapts = fixed is None
        self.ceiling = fixed or ceiling  # the most requests that can ever be under way
        self._slots = Slots(start=fixed or _START, ceiling=self.ceiling)
        self._rate = Rate()
        self._caps = caps or Caps()
        self._clock = clock
        self.line = Line(self.take, sleep)
        self._watchers = [self.line.look_again]
        self._last_cut = float("-inf")
        self._held_until = float("-inf")
        self._next_turn = float("-inf")
        self._latency_s = 0.0
        self._proven = 0.0  # requests under way with one that was answered, lately
        self.under_way = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether requests have to be reckoned in tokens before they are made."""
        return self._caps.tokens_a_minute is not None

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        if self._rate.limit is None:
            return self._slots.limit
        return max(1, min(self._slots.limit, math.ceil(_SPARE * self._rate.limit * self._latency_s) + 1))

    def watch(self, look_again: Callable[[], None]) -> None:
        """Call ``look_again`` whenever there may be a permit that was not there before."""
        self._watchers.append(look_again)

    async def acquire(self) -> Permit:
        """Wait for a permit; FIFO."""
        return await self.line.acquire()

    def take(self) -> Permit | float:
        """A permit if one is free and its turn has come, else the seconds to wait, see :class:`Line`."""
        if self.under_way >= self.limit:
            return UNTIL_ONE_ENDS
        now = self._clock()
        cost_s = max(self._caps.request_s, 1.0 / self._rate.limit if self._rate.limit else 0.0)
        turn = max(self._next_turn, now - min(_BEHIND_S, cost_s))
        if (delay_s := max(self._held_until, turn) - now) > 0:
            return delay_s
        self._next_turn = turn + cost_s
        self.under_way += 1
        return Permit(self, now, self.under_way, cost_s)

    def charge(self, permit: Permit, tokens: int) -> None:
        """The request is made; it may take so many tokens in all, which is estimated."""
        permit.tokens = tokens
        self._next_turn += max(0.0, tokens * self._caps.token_s - permit.cost_s)

    def release(self, permit: Permit) -> None:
        """Take a permit back, said before :meth:`succeeded` or :meth:`refused`."""
        self.under_way -= 1
        if permit.tokens is None:
            self._next_turn -= permit.cost_s
        self.look_again()

    def unused(self, permit: Permit) -> None:
        """Take a permit back that was charged for a request which is not made after all."""
        if permit.tokens is not None:
            self._next_turn -= max(0.0, permit.tokens * self._caps.token_s - permit.cost_s)
            permit.tokens = None
        self.release(permit)

    def succeeded(self, permit: Permit, tokens: int | None = None) -> None:
        """The request was answered, at the price of ``tokens`` if that is known: there may be room for more."""
        now = self._clock()
        latency_s = now - permit.started_at
        self._latency_s += (latency_s - self._latency_s) * (0.1 if self._latency_s else 1.0)
        if tokens is not None:
            self._next_turn += (tokens - (permit.tokens or 0)) * self._caps.token_s
        if self.adapts:
            # Both when it started and now: in between there may be some that are about to be refused.
            self._proven = max(0.99 * self._proven, float(min(permit.under_way, self.under_way + 1)))
            self._rate.succeeded(now)
            self._slots.succeeded(now, started_s=permit.started_at, under_way=permit.under_way)
            self.look_again()

    def refused(self, permit: Permit, *, retry_after_s: float | None) -> None:
        """The request was told that there are too many, or that the server is overloaded (429, 503, 529)."""
        now = self._clock()
        hold_s = self.hold(retry_after_s or 0.0)
        if not self.adapts or not self._proven:  # before the first answer there is nothing to compare with
            return
        self._rate.noticed()
        if self._rate.by_chance and not hold_s:  # one that says how long to wait knows what it bears
            if self._rate.limit is not None:
                self._rate.limit = None
                self._slots.restore(now)
            return
        # Refused with fewer under way than others were answered with, or than there are slots: their number is not the reason.
        too_fast = self._rate.limit is not None and self.under_way + 1 < self._slots.limit
        if not too_fast and self.under_way >= self._proven:
            self._slots.refused(now, under_way=self.under_way, hold_s=hold_s)
        elif permit.started_at > self._last_cut:  # what came of requests from before a cut says nothing about it
            self._last_cut = now
            self._rate.refused(now, hold_s=hold_s)
            self._next_turn = max(self._next_turn, now)

    def hold(self, seconds: float) -> float:
        """Let nothing start for so long, at most MAX_HOLD_S; what it came to."""
        hold_s = min(seconds, MAX_HOLD_S)
        self._held_until = max(self._held_until, self._clock() + hold_s)
        return hold_s

    def look_again(self) -> None:
        """Tell who watches, if there is room."""
        if self.under_way < self.limit:
            for look_again in self._watchers:
                look_again()
