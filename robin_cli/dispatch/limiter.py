"""How many requests may be under way at one endpoint, and when the next may start.

One limiter stands for one endpoint. It is told of every answer and every "too many requests", and it alone decides. The
user's own caps and the rate that was learnt share one token bucket. aiolimiter's fills while it is idle and lets a minute's
requests through at once, has a waiting line of its own, and gives nothing back where a request was reckoned too dear.

What an endpoint bears is found out by asking it, by Slots and Rate, without a clock and an await. A server says "too many" for
two reasons: it has so many slots, or it takes so many requests a minute. Each has a control of its own. Many servers never
refuse and let calls wait: there, answers a second stop growing and latency grows in their place. So latency is compared with
what it is at a third of the calls, as TCP Vegas compares it with the least round trip.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass

_A_SLOT = 2.2
"""Calls at a time for each that the server works on: between one, where slots wait for us as soon as latencies mislead, and
three, where calls wait in vain. A batch server may become five times as slow as it fills, and is filled all the same."""

_APART = 3
_PAYS = 1.5
"""Calls at a time are doubled where latency says that so many times as many are of use."""

_FAR_TOO_MANY = 0.8
"""Where less than this part is of use, a third of the calls keeps all slots busy, too."""

_FEWEST = 32
"""Answers by which latency is told, at least; at start half of them."""

_HOLDS, _LONGEST_HOLD = 8, 32
"""A number is kept for so many times as many answers; twice as long each time that it stayed much the same."""

_LEAST = 2
"""It stays at no fewer, unless calls are refused: with one at a time the server waits for us between any two."""

_HOLDS_APART = 20
"""More is tried no sooner than this many times the wait that the last refusal cost."""

_SERVED_S = 3.0
_OUTAGE_S = 2.0
_GIVE_WAY = 0.7
_SLOWEST = 0.2
_QUIET = 200
"""Answers in which the calls a second grow by a tenth beyond where they were refused."""

_CHANCE_CUTS, _UNREFUSED, _TOO_OFTEN = 8, 100, 0.6
"""Refusals are chance once so many cuts brought no run of so many answers, until more than this part is refused."""


class Slots:
    """How many calls at a time pay, between 1 and ``ceiling``: doubled while that pays, then compared with a third of it."""

    def __init__(self, *, start: int, ceiling: int) -> None:
        self.ceiling = ceiling
        self._top = ceiling  # refusals lower it at once, and quiet raises it by 1, 2, 4 and so on
        self._step = 1
        self._held, self._holds = 0, _HOLDS
        self._not_before_s = -math.inf
        self._follow(self._levels(min(start, ceiling), climbs=True), -math.inf)

    def succeeded(self, now_s: float, *, started_s: float, under_way: int) -> None:
        """Take in an answer to a call that began at ``started_s`` as one of ``under_way``."""
        if under_way < self.limit or started_s < self._since_s:
            return  # it tells of another level
        self._answers += 1
        self._latency_s += now_s - started_s
        if self._answers >= self._enough and now_s >= self._not_before_s:
            self._look(self._course.send(self._latency_s / self._answers), now_s)

    def refused(self, now_s: float, *, under_way: int, hold_s: float) -> None:
        """Take in that the server had too much with ``under_way`` other calls, and what it asked to wait."""
        self._top, self._step = max(1, min(self.limit, under_way)), 1
        self._not_before_s = now_s + _HOLDS_APART * hold_s
        self._follow(self._levels(self._top, climbs=False), now_s)

    def restore(self, now_s: float) -> None:
        """Take it that refusals had nothing to do with the number of calls at a time."""
        self._top = self.ceiling
        self._follow(self._levels(self.limit, climbs=True), now_s)

    def _follow(self, course: Generator[tuple[int, float], float, None], now_s: float) -> None:
        self._course = course
        self._look(next(course), now_s)

    def _look(self, level: tuple[int, float], now_s: float) -> None:
        self.limit, self._enough = level
        self._since_s, self._answers, self._latency_s = now_s, 0, 0.0

    def _levels(self, calls: int, *, climbs: bool) -> Generator[tuple[int, float], float, None]:
        """Yield how many calls at a time come next, and for how many answers; the mean latency of these is sent."""
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
                    self._top, self._step = min(self.ceiling, self._top + self._step), 2 * self._step
                full_s = yield calls, max(2 * _FEWEST, calls)
            while True:
                few = max(1, calls // _APART)
                useful = _useful((yield few, max(_FEWEST, few)), full_s)
                if not (fails and useful < _FAR_TOO_MANY and calls > _LEAST):
                    break
                # All slots are busy at the lower level, too, so that latency follows the calls at a time down.
                calls, full_s = max(_LEAST, round(useful * calls)), useful * full_s
            climbs = useful >= _PAYS
            if not climbs:
                calls = min(self._top, max(_LEAST, round(useful * calls)))

    def _settle(self, calls: int) -> None:
        """Keep ``calls`` at a time for the longer, the less they change."""
        steady = 0.75 * self._held <= calls <= 1.3 * self._held
        self._holds = min(2 * self._holds, _LONGEST_HOLD) if steady else _HOLDS if calls == self._top else 1
        self._held = calls


def _useful(free_s: float, full_s: float) -> float:
    """Return how many times as many calls at a time the server has use for, by its latencies at few calls and at all."""
    return min(2.0, _A_SLOT * free_s / full_s) if full_s else 2.0


class Rate:
    """How many calls a second may start: without a limit until the server refuses at any number of calls at a time.

    Then it is what was served lately, a little less; after an outage (a window that was used up), what was served over the
    whole of the time since the last one. It comes back quickly to just below where it was refused, and then grows slowly.

    Attributes:
        limit: calls a second; None for no limit.
    """

    def __init__(self) -> None:
        self.limit: float | None = None
        self._refused_at = 0.0
        self._served: deque[float] = deque()
        self._began_s: float | None = None  # the time since the last outage
        self._answers = 0  # in it
        self._since_cut = self._unrefused = self._cuts = 0
        self._quiet = float(_QUIET)
        self._last_answer_s = -math.inf
        self._refused_lately = 0.0  # part of the latest requests

    def succeeded(self, now_s: float) -> None:
        """Take in an answer."""
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
        """Whether calls are refused however few there are."""
        return self._cuts > _CHANCE_CUTS

    def noticed(self) -> None:
        """Take in that a call was refused, whatever the reason."""
        if self._refused_lately > _TOO_OFTEN:
            self._cuts = 0
        self._unrefused = 0
        self._refused_lately += (1 - self._refused_lately) / 32

    def refused(self, now_s: float, *, hold_s: float) -> None:
        """Take in that there were too many calls in too short a time; ``hold_s``: what the server asked to wait."""
        self._cuts += 1
        while self._served and self._served[0] < now_s - _SERVED_S:
            self._served.popleft()
        over_s = min(_SERVED_S, now_s - (now_s if self._began_s is None else self._began_s))
        lately = len(self._served) / over_s if over_s > 0 else 0.0
        before = self.limit if self.limit is not None else max(lately, _SLOWEST)
        limit = min(before, max(_GIVE_WAY * before, 0.9 * lately, _SLOWEST))
        # Refused again at once: it was far too much, and not just a little.
        self._cut(limit, before if self._since_cut > _QUIET / 4 else limit, hold_s)

    def _cut(self, limit: float, refused_at: float, cost_s: float) -> None:
        self.limit, self._refused_at, self._since_cut = limit, refused_at, 0
        self._quiet = max(float(_QUIET), _HOLDS_APART * cost_s * limit)


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
    whatever the endpoint says but for how long to wait. Without, :class:`Slots` and :class:`Rate` find both out.

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
