"""Permits to make one request, the lines in which calls wait for them, and the token bucket of the user's own limits."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

UNTIL_ONE_ENDS = math.inf
"""No permit is free until a request ends."""

Clock = Callable[[], float]
Sleep = Callable[[float], Awaitable[None]]


@dataclass(slots=True, eq=False)
class Permit:
    """The right to make one request now.

    Attributes:
        cost_s: for how long it keeps others from starting.
        tokens: the estimated tokens of the request; None until it is made.
    """

    limiter: Permits
    started_at: float
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
    """

    def __init__(self, take: Callable[[], Permit | float], sleep: Sleep) -> None:
        self._take, self._sleep = take, sleep
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._news: asyncio.Future[None] | None = None

    @property
    def is_waited_in(self) -> bool:
        """Whether a call waits."""
        return self._waiting > 0

    async def acquire(self) -> Permit:
        """Wait for a permit."""
        self._waiting += 1
        try:
            async with self._turn:
                while not isinstance(permit := self._take(), Permit):
                    self._news = asyncio.get_running_loop().create_future()
                    await wait(permit, self._news, self._sleep)
                return permit
        finally:
            self._waiting -= 1

    def look_again(self) -> None:
        """Wake the first in line: there may be a permit."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)


async def wait(seconds: float, news: asyncio.Future[None], sleep: Sleep) -> None:
    """Wait for so many seconds, or for ``news`` if they come sooner."""
    if seconds == UNTIL_ONE_ENDS:
        await news
        return
    sleeping = asyncio.ensure_future(sleep(seconds))
    try:
        await asyncio.wait({sleeping, news}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleeping.cancel()


class Permits(ABC):
    """Gives permits for so many requests at a time, and for so many requests and tokens a minute.

    Attributes:
        under_way: the requests under way.
        together: this one and others, whose requests under way count together.
        counts_tokens: whether tokens must be estimated before a request is made.
        slots: the requests that the endpoint works on at a time, if it says so.
    """

    def __init__(self, clock: Clock, sleep: Sleep, rpm: float | None, tpm: float | None) -> None:
        self.line = Line(self.take, sleep)
        self.under_way = 0
        self.together: Sequence[Permits] = [self]
        self.counts_tokens, self.slots = tpm is not None, math.inf
        self._clock, self._watchers = clock, [self.line.look_again]
        self._request_s, self._token_s = (60.0 / cap if cap else 0.0 for cap in (rpm, tpm))
        self._next_turn, self._is_uncharged = -math.inf, False

    @property
    @abstractmethod
    def limit(self) -> int:
        """The most requests that may be under way now."""

    @abstractmethod
    def _held_s(self, now: float) -> float:
        """Return for how long no request may begin."""

    @abstractmethod
    def _began(self, now: float) -> None:
        """Learn that a request begins."""

    def watch(self, look_again: Callable[[], None]) -> None:
        """Call ``look_again`` whenever there may be a new permit."""
        self._watchers.append(look_again)

    async def acquire(self) -> Permit:
        """Wait for a permit, first come, first served."""
        permit = await self.line.acquire()
        self.look_again()  # those in other lines let this one go first
        return permit

    def take(self) -> Permit | float:
        """Return a permit if one is free and its turn has come, else the seconds to wait, see :class:`Line`."""
        now = self._clock()
        under_way = sum(permits.under_way for permits in self.together)
        if self._is_uncharged or under_way >= min(self.limit, self.slots):
            return UNTIL_ONE_ENDS
        # A request may take its turn late, up to a second: otherwise the rate would never be reached.
        turn = max(self._next_turn, now - min(1.0, self._request_s))
        if (wait_s := max(turn - now, self._held_s(now))) > 0:
            return wait_s
        self._next_turn = turn + self._request_s
        self._is_uncharged = self.counts_tokens  # the next turn is known once its tokens are
        self.under_way += 1
        self._began(now)
        return Permit(self, now, self._request_s)

    def charge(self, permit: Permit, tokens: int) -> None:
        """Charge the estimated tokens of a request that is made now."""
        permit.tokens = tokens
        self._next_turn += max(0.0, tokens * self._token_s - permit.cost_s)
        self._is_uncharged = False
        self.look_again()

    def settle(self, permit: Permit, tokens: int) -> None:
        """Charge the difference to the tokens that a request took."""
        self._next_turn += (tokens - (permit.tokens or 0)) * self._token_s

    def release(self, permit: Permit) -> None:
        """Release a permit: its request is over, or is not made."""
        self.under_way -= 1
        if permit.tokens is None:
            self._next_turn -= permit.cost_s
            self._is_uncharged = False
        for other in self.together:
            if other is not self:  # they go first, so that no judge keeps all the room
                other.look_again()
        self.look_again()

    def unused(self, permit: Permit) -> None:
        """Release a permit that was charged for a request that is not made."""
        if permit.tokens is not None:
            self._next_turn -= max(0.0, permit.tokens * self._token_s - permit.cost_s)
            permit.tokens = None
        self.release(permit)

    def look_again(self) -> None:
        """Wake the waiting lines if there is room."""
        if self.under_way < self.limit:
            for look_again in self._watchers:
                look_again()
