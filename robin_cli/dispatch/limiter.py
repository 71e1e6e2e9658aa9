"""The limiter of one endpoint: how many requests may be under way, and when the next may start.

A limiter learns of every answer and every "too many requests" of its endpoint. The user's caps and the learnt rate share one
token bucket. aiolimiter does not fit: its bucket fills while idle and then lets a minute's requests through at once, it has a
waiting line of its own, and it returns nothing if a request took fewer tokens than estimated.

Slots and Rate learn what an endpoint can do; they use no clock and no await. A server answers "too many" for two reasons: it
has so many slots, or it takes so many requests per minute. Each has its own control. Many servers never refuse, and let calls
wait: then answers per second stop growing, and latency grows instead. So latency is compared with its value at a third of the
calls, as TCP Vegas compares it with the least round trip.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass

_A_SLOT = 2.2
"""Calls at a time per slot of the server: with one, slots would be idle whenever latencies mislead; with three, calls would
wait in vain. A batching server may become five times as slow as it fills, and is filled nevertheless."""

_APART = 3
_PAYS = 1.5
"""Calls at a time are doubled if, by latency, this many times as many are of use."""

_FAR_TOO_MANY = 0.8
"""If less than this share of the calls is of use, a third of them also keeps all slots busy."""

_FEWEST = 32
"""The least number of answers to measure latency; half of it at the start."""

_HOLDS, _LONGEST_HOLD = 8, 32
"""A level is kept for so many times its number of answers; twice as long each time that it stays much the same."""

_LEAST = 2
"""The fewest calls at a time unless calls are refused: with one, the server would be idle between calls."""

_HOLDS_APART = 20
"""More calls are tried no sooner than after this many times the wait that the last refusal cost."""

_SERVED_S = 3.0
_OUTAGE_S = 2.0
_GIVE_WAY = 0.7
_SLOWEST = 0.2
_QUIET = 200
"""The number of answers in which the rate grows by a tenth beyond the rate that was refused."""

_CHANCE_CUTS, _UNREFUSED, _TOO_OFTEN = 8, 100, 0.6
"""Refusals count as chance after so many cuts without so many answers in a row, until more than this share is refused."""


class Slots:
    """Finds how many calls at a time pay, from 1 to ``ceiling``: doubles them while that pays, then compares with a third."""

    def __init__(self, *, start: int, ceiling: int) -> None:
        self.ceiling = ceiling
        self._top = ceiling  # refusals lower it at once; without them it rises by 1, 2, 4 and so on
        self._step = 1
        self._held, self._holds = 0, _HOLDS
        self._not_before_s = -math.inf
        self._follow(self._levels(min(start, ceiling), climbs=True), -math.inf)

    def succeeded(self, now_s: float, *, started_s: float, under_way: int) -> None:
        """Record an answer to a call that began at ``started_s`` as one of ``under_way``."""
        if under_way < self.limit or started_s < self._since_s:
            return  # it belongs to another level
        self._answers += 1
        self._latency_s += now_s - started_s
        if self._answers >= self._enough and now_s >= self._not_before_s:
            self._look(self._course.send(self._latency_s / self._answers), now_s)

    def refused(self, now_s: float, *, under_way: int, hold_s: float) -> None:
        """Record a refusal with ``under_way`` other calls; ``hold_s``: the wait that the server asked for."""
        self._top, self._step = max(1, min(self.limit, under_way)), 1
        self._not_before_s = now_s + _HOLDS_APART * hold_s
        self._follow(self._levels(self._top, climbs=False), now_s)

    def restore(self, now_s: float) -> None:
        """Forget refusals that did not depend on the number of calls at a time."""
        self._top = self.ceiling
        self._follow(self._levels(self.limit, climbs=True), now_s)

    def _follow(self, course: Generator[tuple[int, float], float, None], now_s: float) -> None:
        self._course = course
        self._look(next(course), now_s)

    def _look(self, level: tuple[int, float], now_s: float) -> None:
        self.limit, self._enough = level
        self._since_s, self._answers, self._latency_s = now_s, 0, 0.0

    def _levels(self, calls: int, *, climbs: bool) -> Generator[tuple[int, float], float, None]:
        """Yield the next number of calls at a time, and for how many answers; receive the mean latency of these."""
        full_s = (yield calls, max(_FEWEST / 2, calls)) if climbs else 0.0
        while True:
            fails = False
            while climbs and calls < self._top:
                before_s, calls = full_s, min(2 * calls, self._top)
                full_s = yield calls, max(_FEWEST / 2, calls)
                climbs = _useful(before_s, full_s) >= _PAYS
                fails = not climbs
            if not fails:
                self._settle(calls)
                yield calls, self._holds * max(_FEWEST, calls)
                if self._top < self.ceiling:
                    self._top, self._step = (
                        min(self.ceiling, self._top + self._step),
                        2 * self._step,
                    )
                full_s = yield calls, max(2 * _FEWEST, calls)
            while True:
                few = max(1, calls // _APART)
                useful = _useful((yield few, max(_FEWEST, few)), full_s)
                if not (fails and useful < _FAR_TOO_MANY and calls > _LEAST):
                    break
                # All slots are busy at the lower level too, so latency falls with the calls at a time.
                calls, full_s = max(_LEAST, round(useful * calls)), useful * full_s
            climbs = useful >= _PAYS
            if not climbs:
                calls = min(self._top, max(_LEAST, round(useful * calls)))

    def _settle(self, calls: int) -> None:
        """Set how long to keep ``calls`` at a time: the longer, the less they change."""
        steady = 0.75 * self._held <= calls <= 1.3 * self._held
        self._holds = (
            min(2 * self._holds, _LONGEST_HOLD) if steady else _HOLDS if calls == self._top else 1
        )
        self._held = calls


def _useful(free_s: float, full_s: float) -> float:
    """Return by which factor calls at a time may change, from the latencies at few calls and at all; at most 2."""
    return min(2.0, _A_SLOT * free_s / full_s) if full_s else 2.0


class Rate:
    """Finds how many calls per second may start: no limit until the server refuses calls at any number at a time.

    The limit is then a little less than the rate of recent answers; after an outage (a quota that was used up), the rate since
    the last outage. It returns quickly to just below the refused rate, and then grows slowly.

    Attributes:
        limit: calls per second; None for no limit.
    """

    def __init__(self) -> None:
        self.limit: float | None = None
        self._refused_at = 0.0
        self._served: deque[float] = deque()
        self._began_s: float | None = None  # the end of the last outage
        self._answers = 0  # since then
        self._since_cut = self._unrefused = self._cuts = 0
        self._quiet = float(_QUIET)
        self._last_answer_s = -math.inf
        self._refused_lately = 0.0  # as a share of recent requests

    def succeeded(self, now_s: float) -> None:
        """Record an answer."""
        if self._began_s is None:
            self._began_s = now_s
        if not self._unrefused and now_s - self._last_answer_s > _OUTAGE_S:
            if self.limit is not None and now_s > self._began_s:
                sustained = max(self.limit, self._answers / (now_s - self._began_s))
                self._cut(0.95 * sustained, sustained, now_s - self._last_answer_s)
            self._began_s, self._answers = now_s, 0
        self._last_answer_s = now_s
        self._served.append(now_s)
        self._answers += 1
        self._since_cut += 1
        self._unrefused += 1
        self._refused_lately -= self._refused_lately / 32
        if self._unrefused >= _UNREFUSED:
            self._cuts = 0
        if self.limit is not None:
            tries = 0.1 * self._refused_at / self._quiet * max(1.0, self._since_cut / self._quiet)
            self.limit += max(tries, (0.95 * self._refused_at - self.limit) / 20)

    @property
    def by_chance(self) -> bool:
        """Whether calls are refused by chance, however few there are."""
        return self._cuts > _CHANCE_CUTS

    def noticed(self) -> None:
        """Record a refused call, whatever the reason."""
        if self._refused_lately > _TOO_OFTEN:
            self._cuts = 0
        self._unrefused = 0
        self._refused_lately += (1 - self._refused_lately) / 32

    def refused(self, now_s: float, *, hold_s: float) -> None:
        """Record that calls came too fast; ``hold_s``: the wait that the server asked for."""
        self._cuts += 1
        while self._served and self._served[0] < now_s - _SERVED_S:
            self._served.popleft()
        over_s = min(_SERVED_S, now_s - (now_s if self._began_s is None else self._began_s))
        lately = len(self._served) / over_s if over_s > 0 else 0.0
        before = self.limit if self.limit is not None else max(lately, _SLOWEST)
        limit = min(before, max(_GIVE_WAY * before, 0.9 * lately, _SLOWEST))
        # If refused again soon, the rate was far too high.
        self._cut(limit, before if self._since_cut > _QUIET / 4 else limit, hold_s)

    def _cut(self, limit: float, refused_at: float, cost_s: float) -> None:
        self.limit, self._refused_at, self._since_cut = limit, refused_at, 0
        self._quiet = max(float(_QUIET), _HOLDS_APART * cost_s * limit)


_START = 8
MAX_HOLD_S = 120.0
"""A longer Retry-After is cut to this: a run must not stand still for hours."""

_SPARE = 1.5
_MINUTE_S = 60.0
_BEHIND_S = 1.0
"""A request may take its turn late, up to this: otherwise the rate would never be reached."""

UNTIL_ONE_ENDS = math.inf
"""No permit is free until a request ends."""


@dataclass(frozen=True, slots=True)
class Caps:
    """The user's caps for an endpoint, per minute; None for no cap."""

    requests_a_minute: float | None = None
    tokens_a_minute: float | None = None

    @property
    def request_s(self) -> float:
        """The seconds for which a request keeps others from starting."""
        return _MINUTE_S / self.requests_a_minute if self.requests_a_minute else 0.0

    @property
    def token_s(self) -> float:
        """The seconds for which each token does."""
        return _MINUTE_S / self.tokens_a_minute if self.tokens_a_minute else 0.0


@dataclass(slots=True, eq=False)
class Permit:
    """The right to make one request now.

    Attributes:
        limiter: the limiter that gave it.
        started_at: when it was given.
        under_way: the requests under way then, with this one.
        cost_s: for how long it keeps others from starting.
        tokens: the estimated tokens of the request; None until it is made.
    """

    limiter: Limiter
    started_at: float
    under_way: int
    cost_s: float
    tokens: int | None = None

    def release(self) -> None:
        """Release it: the request is over, or is not made."""
        self.limiter.release(self)

    def unused(self) -> None:
        """Release it with its charged tokens: the request is not made."""
        self.limiter.unused(self)


class Line:
    """A line for permits, first come, first served.

    Args:
        take: returns a permit, or the seconds to wait; UNTIL_ONE_ENDS: wait for :meth:`look_again`.
        sleep: waits so many seconds.
    """

    def __init__(
        self, take: Callable[[], Permit | float], sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._take = take
        self._sleep = sleep
        self._turn = asyncio.Lock()
        self._news: asyncio.Future[None] | None = None

    @property
    def is_waited_in(self) -> bool:
        """Whether a call waits."""
        return self._turn.locked()

    async def acquire(self) -> Permit:
        """Wait for a permit, first come, first served."""
        async with self._turn:
            while not isinstance(permit := self._take(), Permit):
                await self._wait(permit)
            return permit

    def look_again(self) -> None:
        """Wake the first in line: there may be a permit."""
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
    """Limits the requests at a time, and per second, to those that the endpoint can take and the user allows.

    Every request, also a retry, needs a permit. With ``fixed``, that many run at a time, and the endpoint's answers only change
    the waits. Without, :class:`Slots` and :class:`Rate` adapt both numbers.

    Args:
        fixed: requests at a time, at least 1; None to adapt.
        ceiling: the most at a time if it adapts.
        clock: seconds, monotonic.
        sleep: waits so many seconds.
        caps: the user's limits, which hold in any case.
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
        self._proven = 0.0  # requests under way beside a recent one that was answered
        self.under_way = 0

    @property
    def counts_tokens(self) -> bool:
        """Whether the tokens of requests must be estimated before they are made."""
        return self._caps.tokens_a_minute is not None

    @property
    def limit(self) -> int:
        """The most requests that may be under way now."""
        if self._rate.limit is None:
            return self._slots.limit
        return max(
            1, min(self._slots.limit, math.ceil(_SPARE * self._rate.limit * self._latency_s) + 1)
        )

    def watch(self, look_again: Callable[[], None]) -> None:
        """Call ``look_again`` whenever there may be a new permit."""
        self._watchers.append(look_again)

    async def acquire(self) -> Permit:
        """Wait for a permit, first come, first served."""
        return await self.line.acquire()

    def take(self) -> Permit | float:
        """Return a permit if one is free and its turn has come, else the seconds to wait, see :class:`Line`."""
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
        """Charge the estimated tokens of a request that is made now."""
        permit.tokens = tokens
        self._next_turn += max(0.0, tokens * self._caps.token_s - permit.cost_s)

    def release(self, permit: Permit) -> None:
        """Release a permit; call it before :meth:`succeeded` or :meth:`refused`."""
        self.under_way -= 1
        if permit.tokens is None:
            self._next_turn -= permit.cost_s
        self.look_again()

    def unused(self, permit: Permit) -> None:
        """Release a permit that was charged for a request that is not made."""
        if permit.tokens is not None:
            self._next_turn -= max(0.0, permit.tokens * self._caps.token_s - permit.cost_s)
            permit.tokens = None
        self.release(permit)

    def succeeded(self, permit: Permit, tokens: int | None = None) -> None:
        """Record an answered request, with its ``tokens`` if they are known."""
        now = self._clock()
        latency_s = now - permit.started_at
        self._latency_s += (latency_s - self._latency_s) * (0.1 if self._latency_s else 1.0)
        if tokens is not None:
            self._next_turn += (tokens - (permit.tokens or 0)) * self._caps.token_s
        if self.adapts:
            # The lower of the numbers then and now: some of the requests under way may yet be refused.
            self._proven = max(
                0.99 * self._proven, float(min(permit.under_way, self.under_way + 1))
            )
            self._rate.succeeded(now)
            self._slots.succeeded(now, started_s=permit.started_at, under_way=permit.under_way)
            self.look_again()

    def refused(self, permit: Permit, *, retry_after_s: float | None) -> None:
        """Record a refused request: there are too many, or the server is overloaded (429, 503, 529)."""
        now = self._clock()
        hold_s = self.hold(retry_after_s or 0.0)
        if (
            not self.adapts or not self._proven
        ):  # before the first answer there is nothing to compare with
            return
        self._rate.noticed()
        if (
            self._rate.by_chance and not hold_s
        ):  # a server that asks to wait does not refuse by chance
            if self._rate.limit is not None:
                self._rate.limit = None
                self._slots.restore(now)
            return
        # If others were answered with as many under way, or there are more slots, the number at a time is not the reason.
        too_fast = self._rate.limit is not None and self.under_way + 1 < self._slots.limit
        if not too_fast and self.under_way >= self._proven:
            self._slots.refused(now, under_way=self.under_way, hold_s=hold_s)
        elif (
            permit.started_at > self._last_cut
        ):  # a request from before a cut says nothing about it
            self._last_cut = now
            self._rate.refused(now, hold_s=hold_s)
            self._next_turn = max(self._next_turn, now)

    def hold(self, seconds: float) -> float:
        """Let no request start for so long, at most MAX_HOLD_S; return that time."""
        hold_s = min(seconds, MAX_HOLD_S)
        self._held_until = max(self._held_until, self._clock() + hold_s)
        return hold_s

    def look_again(self) -> None:
        """Wake the waiting lines if there is room."""
        if self.under_way < self.limit:
            for look_again in self._watchers:
                look_again()
