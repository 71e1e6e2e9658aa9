"""The limiter of one endpoint: how many requests may be under way, and when the next may start.

1. Begin with 8 at a time. Add three for each quick answer; after the first cut, a fifth now and then.
2. If the server takes far fewer than allowed, or an increase brings refusals, cut to what it took. Undo a useless cut.
3. Retry-After holds all new requests. Without it, each answer lets two start after a refusal, or a back-off lets one.
4. Answers that take 2.5 times as long as the quickest wait in a queue: allow fewer. Measure the quickest anew at times.
5. ``--rpm`` and ``--tpm`` are a token bucket that holds one request.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable

from robin_cli.dispatch.permits import Permit, Permits, Sleep

START, MAX_HOLD_S = 8, 120.0
"""The first number at a time; the longest Retry-After that is obeyed: a run must not stand still for hours."""

_ADDED, _ENOUGH, _QUEUES, _FAR_FEWER = 3, 16, 2.5, 0.67
_REST, _HOLDS_APART = 30, 30
"""After a cut, no increase for so many rounds of answers, nor for so many of the waits that a refusal costs."""


class Limiter(Permits):
    """Limits the requests at a time, and per minute, to those that the endpoint can take and the user allows.

    Args:
        fixed: requests at a time, at least 1; None to adapt, up to ``ceiling``.
        rpm, tpm: the user's limits on requests and tokens per minute, which hold in any case.

    Attributes:
        ceiling: the most requests that can ever be under way.
        refusals: requests that were refused because there were too many.
        waited_s: the seconds without a request under way after a refusal.
    """

    def __init__(
        self,
        fixed: int | None,
        *,
        ceiling: int,
        clock: Callable[[], float],
        sleep: Sleep = asyncio.sleep,
        rpm: float | None = None,
        tpm: float | None = None,
    ) -> None:
        self.ceiling, self._adapts = fixed or ceiling, fixed is None
        self._limit, self._before = float(fixed or min(START, ceiling)), 0.0
        super().__init__(clock, sleep, rpm, tpm)
        self.refusals, self.waited_s, self._idle_since = 0, 0.0, math.inf
        self._held_until = self._probe_at = self._refused_at = self._quiet_until = -math.inf
        self._grants, self._row, self._hold_s = math.inf, 0, 0.0
        self._young: deque[float] = deque()  # begun so lately that they may yet be refused
        self._turnaround_s, self._is_refused, self._looked_at = 0.0, False, -math.inf
        self._seen: list[tuple[float, int]] = []
        self._asked = self._asked_before = self._refused = self._served = 0
        self._climbs, self._drains, self._rest, self._rest_drain = True, False, 0, 0
        self._quick_s, self._mean_s, self._share = math.inf, 0.0, 0.0
        self._trusts_until = -math.inf
        self._since, self._answers, self._latency_s = -math.inf, 0, 0.0

    @property
    def limit(self) -> int:
        few = 0.5 + self._limit * self._quick_s / self._mean_s / 2 if self._drains else self._limit
        return max(1, int(few))

    def _held_s(self, now: float) -> float:
        return max(self._held_until, now if self._grants >= 1 else self._probe_at) - now

    def _began(self, now: float) -> None:
        if self._grants < 1:
            self._back_off(now)
        self._grants = max(0.0, self._grants - 1)
        self.waited_s += max(0.0, now - self._idle_since)
        self._idle_since = math.inf
        self._young.append(now)

    def _back_off(self, now: float) -> None:
        self._probe_at = now + random.random() * min(4.0, 0.05 * 2.0**self._row)  # noqa: S311

    def refused(self, permit: Permit, retry_after_s: float | None) -> None:
        """Record a refused request: there are too many, or the server is overloaded (429, 503, 529)."""
        now, hold_s = self._clock(), min(retry_after_s or 0.0, MAX_HOLD_S)
        self.refusals += 1
        self._idle_since = self._idle_since if self.under_way else now
        self._held_until = max(self._held_until, now + hold_s)
        self._hold_s = max(self._hold_s, hold_s)
        if not hold_s:
            self._grants = 0.0
            if permit.started_at >= self._refused_at:
                self._row, self._refused_at = min(self._row + 1, 10), now
                self._back_off(now)
        self._turnaround_s = max(0.9 * self._turnaround_s, now - permit.started_at)
        self._forget_old(now)
        if self._young:
            self._young.popleft()
        self._is_refused = True
        self._refused += permit.started_at >= self._looked_at

    def _forget_old(self, now: float) -> None:
        while self._young and self._young[0] < now - self._turnaround_s:
            self._young.popleft()

    def succeeded(self, permit: Permit, tokens: int | None = None) -> None:
        """Record an answered request, with its ``tokens`` if they are known; its permit was released."""
        if tokens is not None:
            self.settle(permit, tokens)
        self._row, self._grants = 0, self._grants + 2
        self._forget_old(self._clock())
        if self._adapts:
            self._learn(permit, self._clock())
        self.look_again()

    def _learn(self, permit: Permit, now: float) -> None:
        latency_s, quick_s = now - permit.started_at, 1.5 * self._quick_s + self._hold_s
        if self._climbs and permit.fills > 0.25 and latency_s <= quick_s:
            self._limit = min(self.ceiling, self._limit + _ADDED)
        self._asked += 1
        self._served = max(self._served, self.under_way + 1 - len(self._young))
        if self._is_refused and permit.started_at >= self._looked_at and not self._drains:
            self._look(now)
        chance = self._share * (self._asked + self._refused)
        if self._before > self._limit:
            # A cut that does not help is taken back: it is chance.
            if self._share < 0.5 and self._rest < _REST and self._refused > max(3, 0.75 * chance):
                self._change(self._before, 0.0, _REST, now)
                self._trusts_until = now + max(_HOLDS_APART * self._hold_s, _REST * self._mean_s)
        elif self._before and self._refused > 3 + 2 * chance:
            self._cut(self._before, 0.0, now)
        if permit.started_at >= self._since:
            self._answers, self._latency_s = self._answers + 1, self._latency_s + latency_s
            if self._answers >= (_ENOUGH if self._mean_s else _ENOUGH / 2):
                self._end_round(self._latency_s / self._answers, now)

    def _look(self, now: float) -> None:
        """See how many are served at a time, once those that are too many were refused. Chance refuses few of many."""
        if self._asked - self._asked_before > self._limit:  # refusals are too rare
            self._seen.clear()
        self._is_refused, self._looked_at, self._asked_before = False, now, self._asked
        self._seen.append((self._limit, self._served))
        self._served = 0
        if len(self._seen) == 3:
            allowed, served = self._seen[0][0], sorted(each for _, each in self._seen)
            self._seen.clear()
            is_steady = served[0] >= _FAR_FEWER * served[-1]  # chance lets now few, now many in
            if (
                is_steady
                and now >= self._trusts_until
                and served[-1] <= min(_FAR_FEWER * allowed, allowed - 2)
            ):
                self._cut(served[1], self._limit, now)

    def _cut(self, limit: float, before: float, now: float) -> None:
        self._quiet_until = now + _HOLDS_APART * self._hold_s
        self._change(min(limit, self._limit), before, _REST, now)

    def _change(self, limit: float, before: float, rest: int, now: float) -> None:
        self._share = (self._refused + 0.5) / (self._asked + self._refused + 20)
        self._limit, self._before, self._rest, self._climbs = max(1.0, limit), before, rest, False
        self._asked = self._asked_before = self._refused = self._served = 0
        self._seen.clear()
        self._looked_at = now
        self._begin_round(now)

    def _begin_round(self, now: float) -> None:
        self._since, self._answers, self._latency_s = now, 0, 0.0

    def _end_round(self, mean_s: float, now: float) -> None:
        """Compare the mean latency of a round with the quickest: answers that take far longer wait in a queue."""
        self._begin_round(now)
        self._rest, self._rest_drain = self._rest - 1, self._rest_drain - 1
        if self._drains:
            is_lower = mean_s < 0.9 * self._quick_s
            self._quick_s = mean_s if is_lower else (mean_s + self._quick_s) / 2
            self._drains, self._rest_drain, self._looked_at = False, 1 if is_lower else _REST, now
            self._limit *= min(1.0, _QUEUES * self._quick_s / self._mean_s)
            self._mean_s = self._quick_s
            return
        mean_s = (mean_s + (self._mean_s or mean_s)) / 2
        self._quick_s, self._mean_s = min(self._quick_s, mean_s), mean_s
        queued = mean_s / (_QUEUES * self._quick_s + self._hold_s)
        self._hold_s *= 0.8
        self._climbs = self._climbs and queued <= 0.6
        if queued > 0.8 and (self._rest_drain <= 0 or queued > 1.5):
            self._drains = True
            self._seen.clear()
        elif queued > 1:
            self._limit /= queued
        elif not self._climbs and self._rest <= 0 and now >= self._quiet_until and queued < 0.8:
            more = min(self.ceiling, self._limit + max(2.0, self._limit / 5))
            self._change(more, self._limit, 2, now)
