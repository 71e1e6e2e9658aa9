"""The limiter of one endpoint: how many requests may be under way, and when the next may start.

1. Begin with 8 at a time. Allow four times as many after each round, until half are refused, or answers wait in a queue.
2. Then compare paces, in answers a second. Try a third more now and then; where an eighth are refused or answers take twice
   as long as the quickest, try fewer. Keep more if they bring a tenth more, and fewer unless they lose a tenth.
3. A trial that fails is made again after 4 times as long as it took, then 8 times, up to 64.
4. Retry-After holds all new requests. Without it, each answer lets two start after a refusal, or a back-off lets one.
5. ``--rpm`` and ``--tpm`` are a token bucket that holds one request.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from robin_cli.dispatch.permits import Permit, Permits, Sleep

START, MAX_HOLD_S = 8, 120.0
"""The first number at a time; the longest Retry-After that is obeyed: a run must not stand still for hours."""


@dataclass(slots=True)
class _Trial:
    """What came of a number of requests at a time, in the time since the first began."""

    limit: int
    set_at: float
    began_at: float = math.inf
    seen_at: float = math.inf
    answers: int = 0
    latency_s: float = 1e-9  # of all answers together
    busy_s: float = 0.0  # of all requests that were not refused
    refused: int = 0
    holds: int = 0
    most: int = 0  # served at a time

    @property
    def served(self) -> int:
        return self.most if self.refused else self.limit

    @property
    def is_over(self) -> bool:
        """Whether there are two rounds of answers, and no or enough holds to compare."""
        settles = self.holds >= 6 or (self.answers >= 32 and self.holds < self.answers / 50)
        return settles and self.answers >= 2 * self.served

    def pace(self) -> float:
        """Return the answers a second: those under way by the time each takes. Refusals count a little against it."""
        taken = self.answers / (self.answers + self.refused / 8)
        return taken * self.busy_s / (self.seen_at - self.began_at) * self.answers / self.latency_s


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
        super().__init__(clock, sleep, rpm, tpm)
        self.ceiling, self._adapts = fixed or ceiling, fixed is None
        self.refusals, self.waited_s, self._idle_since = 0, 0.0, math.inf
        self._held_until = self._probe_at = self._refused_at = -math.inf
        self._grants, self._row = math.inf, 0
        # Requests begun so lately that they may yet be refused.
        self._young, self._turnaround_s = deque[float](maxlen=self.ceiling), 0.0
        self._climbs, self._kept, self._quick_s = True, 0, math.inf
        self._pace, self._pause, self._due = 0.0, [1, 1], [-math.inf] * 2  # to try fewer, and more
        self._trial = _Trial(fixed or min(START, ceiling), clock())

    @property
    def limit(self) -> int:
        return self._trial.limit

    def _held_s(self, now: float) -> float:
        return max(self._held_until, now if self._grants >= 1 else self._probe_at) - now

    def _began(self, now: float) -> None:
        if self._grants < 1:
            self._back_off(now)
        self._grants = max(0.0, self._grants - 1)
        self.waited_s += max(0.0, now - self._idle_since)
        self._idle_since = math.inf
        if self._trial.began_at == math.inf:
            self._trial.began_at = self._trial.seen_at = now
        self._young.append(now)
        self._look(now, self.under_way - 1)

    def _back_off(self, now: float) -> None:
        self._probe_at = now + random.random() * min(4.0, 0.05 * 2.0**self._row)  # noqa: S311

    def _look(self, now: float, busy: int) -> None:
        """Learn that so many were under way until now."""
        while self._young and 0.0 < self._turnaround_s < now - self._young[0]:
            self._young.popleft()
        trial = self._trial
        trial.most = max(trial.most, busy - len(self._young))
        if trial.began_at <= now:
            trial.busy_s += busy * (now - trial.seen_at)
            trial.seen_at = now

    def refused(self, permit: Permit, retry_after_s: float | None) -> None:
        """Record a refused request: there are too many, or the server is overloaded (429, 503, 529)."""
        now, hold_s, trial = self._clock(), min(retry_after_s or 0.0, MAX_HOLD_S), self._trial
        took_s = now - permit.started_at
        self.refusals += 1
        self._idle_since = self._idle_since if self.under_way else now
        self._turnaround_s = max(0.9 * self._turnaround_s, 2 * took_s)
        self._look(now, self.under_way + 1)
        if self._young:
            self._young.popleft()
        if permit.started_at >= trial.began_at:
            trial.refused += 1
            trial.busy_s -= took_s
        trial.holds += bool(hold_s) and now >= self._held_until
        self._held_until = max(self._held_until, now + hold_s)
        if not hold_s or not self.under_way:
            self._grants = 0.0
            if permit.started_at >= self._refused_at:
                self._row, self._refused_at = min(self._row + 1, 10), now
                self._back_off(now)

    def succeeded(self, permit: Permit, tokens: int | None = None) -> None:
        """Record an answered request, with its ``tokens`` if they are known; its permit was released."""
        if tokens is not None:
            self.settle(permit, tokens)
        now = self._clock()
        self._row, self._grants = 0, self._grants + 2
        self._look(now, self.under_way + 1)
        if self._adapts and permit.started_at >= self._trial.began_at:
            self._learn(now - permit.started_at, now)
        self.look_again()

    def _learn(self, latency_s: float, now: float) -> None:
        trial = self._trial
        trial.answers += 1
        trial.latency_s += latency_s
        fastest = (trial.answers + self.under_way) / (now - trial.began_at + 1e-9)
        if self._climbs:
            if trial.answers >= 0.6 * trial.served:
                self._climb(trial, trial.latency_s / trial.answers, now)
        elif (trial.limit != self._kept or trial.holds >= 3) and fastest < self._pace / 2:
            self._compare(trial, fastest, now)
        elif trial.is_over:
            self._compare(trial, trial.pace(), now)

    def _climb(self, trial: _Trial, mean_s: float, now: float) -> None:
        self._quick_s = min(self._quick_s, mean_s)
        most = int(2.5 * trial.limit * self._quick_s / mean_s)
        if most < trial.limit:
            self._quick_s = 0.0
        if 2 * trial.refused >= trial.served and 2 * trial.served <= trial.limit:
            most = min(most, trial.served)
        if most >= trial.limit < self.ceiling:
            self._allow(4 * trial.limit, now)
            return
        self._climbs = False
        self._kept = max(1, min(most, trial.limit))
        self._allow(self._kept, now)

    def _allow(self, limit: int, now: float) -> None:
        self._trial = _Trial(max(1, min(self.ceiling, limit)), now)

    def _compare(self, trial: _Trial, pace: float, now: float) -> None:
        mean_s = trial.latency_s / trial.answers
        is_more = trial.limit > self._kept
        if trial.limit == self._kept:
            if (
                pace < self._pace / 2
            ):  # the server has changed, or an increase was too large after all
                self._pace, self._due[False] = 0.0, now
                self._put_off(trial, now, is_more=True)
                if trial.served >= 0.9 * trial.limit:
                    self._allow(self._kept, now)
                    return
            self._pace = (pace + (self._pace or pace)) / 2
            fewer = 8 * trial.refused > trial.answers or mean_s > 2 * self._quick_s
            self._quick_s = min(self._quick_s, mean_s)
            self._try_another(trial, now, fewer=fewer)
        elif pace > (1.1 if is_more else 0.9) * self._pace:
            self._kept, self._pace = trial.limit, max(pace, self._pace)
            self._pause[is_more], self._due[is_more] = max(1, self._pause[is_more] // 2), now
            self._try_another(trial, now, fewer=not is_more)
        else:
            if not is_more:
                self._quick_s = mean_s
            self._put_off(trial, now, is_more=is_more)
            self._allow(self._kept, now)

    def _put_off(self, trial: _Trial, now: float, *, is_more: bool) -> None:
        took_s = max(now, self._held_until) - trial.set_at
        self._due[is_more] = now + 4 * self._pause[is_more] * took_s
        self._pause[is_more] = min(16, 2 * self._pause[is_more])

    def _try_another(self, trial: _Trial, now: float, *, fewer: bool) -> None:
        limit = trial.limit
        if fewer and limit > 1 and now >= self._due[False]:
            limit = trial.served if trial.served < 0.9 * limit else limit - max(1, round(limit / 3))
        elif limit < self.ceiling and now >= self._due[True]:
            step = (limit if trial.refused else limit / 3) / min(2, self._pause[True])
            limit += max(1, round(step))
        self._allow(limit, now)
