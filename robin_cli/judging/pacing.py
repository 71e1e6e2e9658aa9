"""How many calls may be under way, and when the next may start: additive increase, multiplicative decrease.

One pacer stands for one endpoint. It is told of every success and every "too many requests", and it alone decides.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

_START = 8.0
_CUT = 0.7
MAX_HOLD_S = 120.0
"""A longer Retry-After is cut to this: a run must not freeze for hours unseen."""


class Pacer:
    """Slots for calls under way.

    With ``fixed`` the number of slots is that. Without, it starts at 8, doubles with every round of successes until the
    first cut, then grows by one a round; a "too many requests" multiplies it by 0.7, once a round trip at most: answers to
    calls that started before the last cut say nothing about the new limit.

    Args:
        fixed: slots, at least 1; None to adapt.
        ceiling: the most slots that an adaptive pacer gives.
        clock: seconds, monotonic.
    """

    def __init__(self, fixed: int | None, *, ceiling: int, clock: Callable[[], float]) -> None:
        self._fixed = fixed
        self._ceiling = fixed or ceiling
        self._limit = float(fixed) if fixed else min(_START, ceiling)
        self._clock = clock
        self._slow_start = True
        self._last_cut = float("-inf")
        self._held_until = float("-inf")
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.in_use = 0

    @property
    def ceiling(self) -> int:
        """The most calls that can ever be under way."""
        return self._ceiling

    @property
    def limit(self) -> int:
        """Calls that may be under way now."""
        return int(self._limit)

    async def acquire(self) -> None:
        """Wait for a slot and take it. First come, first served."""
        if self.in_use < self.limit and not self._waiting:
            self.in_use += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a slot back."""
        self.in_use -= 1
        self._hand_out()

    def succeeded(self) -> None:
        """A call was answered: there may be room for more."""
        if self._fixed or self.in_use < self.limit:
            return  # growing while slots stand empty would say nothing about the endpoint
        self._limit = min(self._ceiling, self._limit + (1.0 if self._slow_start else 1.0 / self._limit))
        self._hand_out()

    def throttled(self, *, started_at: float, retry_after_s: float | None) -> None:
        """A call that started at ``started_at`` was told that it is one too many."""
        if retry_after_s is not None:
            self._held_until = max(self._held_until, self._clock() + min(retry_after_s, MAX_HOLD_S))
        if started_at <= self._last_cut:
            return
        self._last_cut = self._clock()
        self._slow_start = False
        if not self._fixed:
            self._limit = max(1.0, self._limit * _CUT)

    def hold_s(self) -> float:
        """Seconds until the next request may start, because the endpoint asked every caller to wait; at least 0."""
        return max(0.0, self._held_until - self._clock())

    def _hand_out(self) -> None:
        while self._waiting and self.in_use < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self.in_use += 1
                turn.set_result(None)
