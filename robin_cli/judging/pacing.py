"""How many calls may be under way at one endpoint, and when the next may start.

One pacer stands for one endpoint. It is told of every answer and every "too many requests", and it alone decides.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from robin_cli.judging.adapting import Rate, Slots

_START = 8
MAX_HOLD_S = 120.0
"""A longer Retry-After is cut to this: a run must not freeze for hours unseen."""

_SPARE = 1.5
_MINUTE_S = 60.0
_BEHIND_S = 1.0
"""A request that came late for its turn takes it still, unless it was later than this: else the rate would never be met."""


@dataclass(frozen=True, slots=True)
class Caps:
    """What the user allows an endpoint to be asked, a minute; None for no cap of one's own."""

    requests_a_minute: float | None = None
    tokens_a_minute: float | None = None


@dataclass(slots=True)
class Sent:
    """A request on its way: when it started, the tokens it was reckoned at, and how many were under way then, with it."""

    started_at: float
    tokens: int
    under_way: int


class Pacer:
    """Lets requests start: so many at a time, and so many a second, as the endpoint bears and the user allows.

    Every request, the first of a call and its retries alike, is made between :meth:`enter` and :meth:`leave`. With ``fixed``
    that many run at a time, whatever the endpoint says but for how long to wait. Without, both numbers are found out
    (:mod:`robin_cli.judging.adapting`).

    Args:
        fixed: requests at a time, at least 1; None to adapt.
        ceiling: the most at a time that an adaptive pacer allows.
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
        self._slots = Slots(start=fixed or _START, ceiling=fixed or ceiling)
        self._rate = Rate()
        self._caps = caps or Caps()
        self._clock = clock
        self._sleep = sleep
        self._last_cut = float("-inf")
        self._held_until = float("-inf")
        self._next_turn = float("-inf")
        self._latency_s = 0.0
        self._proven = 0.0  # requests under way with one that was answered, lately
        self._door = asyncio.Lock()
        self._room: asyncio.Future[None] | None = None
        self._under_way_s = 0.0  # the sum of all times that requests were under way, up to the last change
        self._changed_at = clock()
        self._full_at = float("-inf")
        self.under_way = 0

    @property
    def ceiling(self) -> int:
        """The most requests that can ever be under way."""
        return self._slots.ceiling

    @property
    def limit(self) -> int:
        """Requests that may be under way now."""
        if self._rate.limit is None:
            return self._slots.limit
        # More would only queue for their turns, with choices that grow old.
        return max(1, min(self._slots.limit, math.ceil(_SPARE * self._rate.limit * self._latency_s) + 1))

    async def enter(self, tokens: int = 0) -> Sent:
        """Wait until a request may start: its turn has come, and none of all is to wait. First come, first served.

        Args:
            tokens: what the request may cost in all, for the cap on tokens; estimated.
        """
        async with self._door:
            await self._wait_for_room()
            turn = self._turn(tokens)
            while (delay_s := max(self.hold_s(), turn - self._clock())) > 0:  # meanwhile all may be told to wait longer
                await self._sleep(delay_s)
            now = self._change_under_way(1)
            if self.under_way >= self._slots.limit:
                self._full_at = now
            self._rate.started(now)
            return Sent(now, tokens, self.under_way)

    def leave(self) -> None:
        """The request is over, however it ended; said before :meth:`succeeded` or :meth:`throttled`."""
        self._change_under_way(-1)
        self._tell_of_room()

    def succeeded(self, sent: Sent, tokens: int | None = None) -> None:
        """The request was answered, at the price of ``tokens`` if that is known: there may be room for more."""
        now = self._change_under_way(0)
        latency_s = now - sent.started_at
        self._latency_s += (latency_s - self._latency_s) * (0.1 if self._latency_s else 1.0)
        if tokens is not None and self._caps.tokens_a_minute:
            self._next_turn += (tokens - sent.tokens) * _MINUTE_S / self._caps.tokens_a_minute
        if self.adapts:
            # Both when it started and now: in between there may be some that are about to be refused.
            self._proven = max(0.99 * self._proven, float(min(sent.under_way, self.under_way + 1)))
            self._rate.succeeded(now)
            full = self._full_at >= sent.started_at
            self._slots.succeeded(now, full=full, latency_s=latency_s, under_way_s=self._under_way_s)
            self._tell_of_room()

    def throttled(self, sent: Sent, *, retry_after_s: float | None) -> None:
        """The request was told that it is one too many."""
        now = self._clock()
        hold_s = min(retry_after_s or 0.0, MAX_HOLD_S)
        self._held_until = max(self._held_until, now + hold_s)
        if not self.adapts or not self._proven:  # before the first answer there is nothing to compare with
            return
        self._rate.noticed()
        # Refused with far fewer under way than a moment ago, or than there are slots: their number is not the reason.
        too_fast = self._rate.limit is not None and self.under_way + 1 < self._slots.limit
        if not (too_fast or self.under_way < 0.7 * self._proven):
            self._slots.refused(now, under_way=self.under_way, hold_s=hold_s)
        elif sent.started_at > self._last_cut:  # what came of requests from before a cut says nothing about it
            self._last_cut = now
            self._slots.restore()
            self._rate.refused(now, hold_s=hold_s)
            self._next_turn = max(self._next_turn, now)

    def hold_s(self) -> float:
        """Seconds until the next request may start, because the endpoint asked every caller to wait; at least 0."""
        return max(0.0, self._held_until - self._clock())

    def _change_under_way(self, by: int) -> float:
        """Count a request in or out; the time."""
        now = self._clock()
        self._under_way_s += self.under_way * (now - self._changed_at)
        self._changed_at = now
        self.under_way += by
        return now

    def _turn(self, tokens: int) -> float:
        """Take the next turn; its time."""
        limits = [limit for limit in (self._rate.limit, _a_second(self._caps.requests_a_minute)) if limit is not None]
        cost_s = 1.0 / min(limits) if limits else 0.0
        if (tokens_a_second := _a_second(self._caps.tokens_a_minute)) is not None:
            cost_s = max(cost_s, tokens / tokens_a_second)
        turn = max(self._next_turn, self._clock() - min(_BEHIND_S, cost_s))
        self._next_turn = turn + cost_s
        return turn

    async def _wait_for_room(self) -> None:
        while self.under_way >= self.limit:
            self._room = asyncio.get_running_loop().create_future()
            await self._room

    def _tell_of_room(self) -> None:
        if self._room is not None and not self._room.done() and self.under_way < self.limit:
            self._room.set_result(None)


def _a_second(a_minute: float | None) -> float | None:
    return None if a_minute is None else a_minute / _MINUTE_S
