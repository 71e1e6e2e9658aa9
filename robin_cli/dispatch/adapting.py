"""How much an endpoint bears, found out by asking it: calls at a time, and calls a second. Pure: no clock, no await.

A server says "too many" for two reasons: it has so many slots, or it takes so many requests a minute. Each has a control of
its own. Many servers never refuse and let calls wait: there, answers a second stop growing and latency grows in their place.
So latency is compared with what it is at a third of the calls, as TCP Vegas compares it with the least round trip.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Generator

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
