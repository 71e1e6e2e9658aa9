"""The limiter of one endpoint: how many requests may be under way, and when the next may start.

1. Begin with 16 at a time; allow four times as many until refusals keep the number taken from growing by half, or answers wait.
2. Then try a third more, or fewer if a twelfth are refused or answers take twice as long; keep fewer unless they lose a tenth.
3. A trial that fails is made again after 8 times as long as it took, then 16, then 32 times, at most two minutes.
4. Retry-After holds all new requests. After a refusal each answer lets two start, three after a hold; a back-off lets one.
5. ``--rpm`` and ``--tpm`` are a token bucket that holds one request.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

START, MAX_HOLD_S = 16, 120.0
"""The first number at a time; the longest Retry-After that is obeyed: a run must not stand still for hours."""

UNTIL_ONE_ENDS = math.inf
"""In place of the seconds to wait for a permit: none is free until a request ends."""

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Permit:
    """The right to make one request now.

    Attributes:
        cost_s: for how long it keeps others from starting.
        tokens: the estimated tokens of the request; None until it is made.
    """

    limiter: Limiter
    started_at: float
    cost_s: float
    tokens: int | None = None

    def release(self) -> None:
        self.limiter.release(self)


class PermitLine:
    """A line for permits, first come, first served.

    Args:
        take: returns a permit, or the seconds to wait; UNTIL_ONE_ENDS: wait for :meth:`look_again`.

    Attributes:
        waiting: the number of calls that wait.
    """

    def __init__(self, take: Callable[[], Permit | float], sleep: Sleep) -> None:
        self._take, self._sleep = take, sleep
        self._turn, self.waiting = asyncio.Lock(), 0
        self._news: asyncio.Future[None] | None = None

    async def acquire(self) -> Permit:
        self.waiting += 1
        try:
            async with self._turn:
                while not isinstance(permit := self._take(), Permit):
                    self._news = asyncio.get_running_loop().create_future()
                    if permit == UNTIL_ONE_ENDS:
                        await self._news
                        continue
                    sleeping = asyncio.ensure_future(self._sleep(permit))
                    try:
                        ends = {sleeping, self._news}
                        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                    finally:
                        sleeping.cancel()
                return permit
        finally:
            self.waiting -= 1

    def look_again(self) -> None:
        """Wake the first in line: there may be a permit."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


class Limiter:
    """Gives permits for as many requests at a time, and per minute, as the endpoint can take and the user allows.

    Args:
        fixed: requests at a time, at least 1; None to adapt, up to ``ceiling``.

    Attributes:
        limit: the most requests that may be under way now.
        slots: the requests that the endpoint works on at a time, if it says so.
        together: this one and others, whose requests under way count together.
        counts_tokens: whether tokens must be estimated before a request is made.
        watchers: called whenever there may be a new permit.
        refusals: requests that were refused because there were too many.
        waited_s: the seconds without a request under way after a refusal.
    """

    limit = 0

    def __init__(
        self,
        fixed: int | None,
        *,
        ceiling: int,
        clock: Clock,
        sleep: Sleep = asyncio.sleep,
        rpm: float | None = None,
        tpm: float | None = None,
    ) -> None:
        self.line, self._clock = PermitLine(self.take, sleep), clock
        self.watchers = [self.line.look_again]
        self.together: Sequence[Limiter] = [self]
        self.ceiling, self.fixed = fixed or ceiling, fixed
        self.under_way, self.slots, self.counts_tokens = 0, math.inf, tpm is not None
        self._request_s, self._token_s = (60.0 / cap if cap else 0.0 for cap in (rpm, tpm))
        self._is_uncharged = False
        self._next_turn = self._held_until = self._probe_at = self._refused_at = -math.inf
        self._grants = self._quick_s = self._idle_since = math.inf
        self.refusals, self.waited_s, self._row, self._climbs, self._pace = 0, 0.0, 0, True, 0.0
        self._rest, self._due = [8, 8], [-math.inf] * 2  # of trials with fewer, and with more
        self._kept = fixed or min(START, ceiling)
        self._allow(self._kept, clock())

    def _allow(self, limit: int, now: float) -> None:
        self.limit = max(1, min(self.ceiling, limit))
        self._set_at = self._counts_from = now
        self._answers, self._latency_s = 0, 0.0
        self._refused = self._holds = self._served = self._taken = 0

    def _back_off(self, now: float) -> None:
        self._probe_at = now + random.random() * min(4.0, 0.05 * 2.0 ** min(self._row, 10))  # noqa: S311

    async def acquire(self) -> Permit:
        """Wait for a permit, first come, first served."""
        permit = await self.line.acquire()
        self.look_again()  # those in other lines let this one go first
        return permit

    def take(self) -> Permit | float:
        """Return a permit if one is free and its turn has come, else the seconds to wait, see :class:`PermitLine`."""
        now = self._clock()
        under_way = sum(limiter.under_way for limiter in self.together)
        if self._is_uncharged or under_way >= min(self.limit, self.slots):
            return UNTIL_ONE_ENDS
        # A request may take its turn late, up to a second: otherwise the rate would never be reached.
        turn = max(self._next_turn, now - min(1.0, self._request_s))
        starts_at = max(turn, self._held_until, now if self._grants >= 1 else self._probe_at)
        if starts_at > now:
            return starts_at - now
        self._next_turn = turn + self._request_s
        self._is_uncharged = self.counts_tokens  # the next turn is known once its tokens are
        self.under_way += 1
        if self._grants < 1:
            self._back_off(now)
        self._grants = max(0.0, self._grants - 1)
        self.waited_s += max(0.0, now - self._idle_since)
        self._idle_since = math.inf
        return Permit(self, now, self._request_s)

    def charge(self, permit: Permit, tokens: int) -> None:
        """Charge the estimated tokens of a request that is made now."""
        permit.tokens = tokens
        self._next_turn += max(0.0, tokens * self._token_s - permit.cost_s)
        self._is_uncharged = False
        self.look_again()

    def release(self, permit: Permit) -> None:
        """Release a permit: its request is over, or was not made."""
        self.under_way -= 1
        if permit.tokens is None:
            self._next_turn -= permit.cost_s
            self._is_uncharged = False
        for other in self.together:
            if other is not self:  # they go first, so that no judge keeps all the room
                other.look_again()
        self.look_again()

    def look_again(self) -> None:
        """Wake the waiting lines if there is room."""
        if self.under_way < self.limit:
            for look_again in self.watchers:
                look_again()

    def refused(self, permit: Permit, retry_after_s: float | None) -> None:
        """Record a refused request: there are too many, or the server is overloaded (429, 503, 529)."""
        now, hold_s = self._clock(), min(retry_after_s or 0.0, MAX_HOLD_S)
        self._idle_since = self._idle_since if self.under_way else now
        self.refusals += 1
        self._refused += permit.started_at >= self._set_at
        if not hold_s or now >= self._held_until:  # the first of a round
            self._grants = hold_s  # at least some start together after a long wait
            self._holds, self._served = self._holds + bool(hold_s), 0
        self._held_until = max(self._held_until, now + hold_s)
        self._row, self._refused_at = self._row + (permit.started_at > self._refused_at), now
        self._back_off(now)

    def succeeded(self, permit: Permit, tokens: int | None = None) -> None:
        """Record an answered request, with its ``tokens`` if they are known; its permit was released."""
        if tokens is not None:
            self._next_turn += (tokens - (permit.tokens or 0)) * self._token_s
        self._row, self._served = 0, self._served + 1
        self._grants += 2 + (self._refused_at < self._held_until)
        if self.fixed is None:
            self._learn(permit, self._clock(), self.under_way + 1)
        self.look_again()

    def _learn(self, permit: Permit, now: float, busy: int) -> None:
        if self._answers or permit.started_at >= self._set_at:
            self._counts_from = self._counts_from if self._answers else now
            self._answers += 1
            self._latency_s += now - permit.started_at
            self._taken += busy + (self._served - 1 if now < self._held_until else 0)
        answers, limit = self._answers, self.limit
        mean_s = self._latency_s / answers if answers else self._quick_s
        took_s = max(now, self._held_until) - self._counts_from + 1e-9
        many = max(12, limit) if self._holds >= 6 else max(64, 2 * limit, 50 * self._holds)
        is_lost = limit != self._kept and answers + busy < took_s * 0.7 * self._pace
        if not self._climbs:
            if answers and (is_lost or answers > many):
                self._compare((answers - 1) / took_s, mean_s, now)
        elif answers**2 > 0.6 * self._taken:
            self._climb(mean_s, round(self._taken / answers), now)

    def _climb(self, mean_s: float, taken: int, now: float) -> None:
        is_quick = mean_s <= 3 * self._quick_s
        if is_quick or self._kept <= START:  # when slow, even the first may have waited
            self._quick_s = min(self._quick_s, mean_s) if is_quick else 0.0
        self._climbs = is_quick and (not self._refused or taken >= 1.5 * self._pace)
        self._kept = self.limit if self._climbs else taken if is_quick else self._kept
        self._climbs &= self._kept < self.ceiling
        self._pace = taken if self._climbs else 0.0
        self._allow(self._kept * (4 if self._climbs else 1), now)
        self._grants = max(self._grants, self.limit)

    def _compare(self, pace: float, mean_s: float, now: float) -> None:
        is_more, limit = self.limit > self._kept, self.limit
        if limit == self._kept and pace >= self._pace / 2:
            self._pace = (pace + (self._pace or pace)) / 2
        elif limit != self._kept and pace > (1.1 if is_more else 0.9) * self._pace:
            self._rest[is_more], self._due[is_more] = max(8, self._rest[is_more] // 2), now
            self._kept, self._pace = limit, max(pace, self._pace)
        else:
            if limit == self._kept:  # the server has changed: measure anew
                self._pace, self._rest, self._due[False], is_more = 0.0, [8, 8], now, True
            self._quick_s = self._quick_s if is_more else mean_s
            took_s = max(now, self._held_until) - self._set_at
            self._due[is_more] = now + min(120.0, self._rest[is_more] * took_s)
            self._rest[is_more] = min(32, 2 * self._rest[is_more])
            self._allow(self._kept, now)
            return
        fewer = mean_s > 2 * self._quick_s or 12 * self._refused > self._answers
        self._quick_s = min(self._quick_s, mean_s)
        is_more = not fewer or limit == 1 or now < self._due[False]
        if now >= self._due[is_more]:
            part = 6 if self._rest[is_more] > 8 else 2 if 3 * self._holds > self._answers else 3
            step = max(1, int(limit / part + 0.5))
            limit += step if is_more else -step
        self._allow(limit, now)
