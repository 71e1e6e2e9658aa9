"""How much an endpoint bears, found out by asking it: calls at a time, and calls a second. Pure: no clock, no await.

A server says "too many" for two different reasons: it has so many slots, or it takes so many requests a minute. The
remedy for one does nothing for the other, so each has a control of its own, and whichever of them was holding the calls
back when the server complained is the one that gives way.
"""

from __future__ import annotations

from collections import deque

_MORE_PAYS = 0.15
"""More calls at a time are kept if answers a second grow by this part of what they could: 15 % for twice the calls."""

_MEASURED = 16
_QUIET = 200
"""Answers between two tries for more, once a limit was met: so no more than some 1 in 200 requests is refused for trying."""

_HOLDS_APART = 20
"""The next try comes no sooner than this many times the wait that the last one cost."""

_SERVED_S = 3.0
_GIVE_WAY = 0.7
_SLOWEST = 0.2
_OUTAGE_S = 2.0


class Slots:
    """How many calls at a time pay, between 1 and ``ceiling``.

    It doubles from ``start`` as long as a doubling pays, measured over a whole round at each level. When the server refuses
    calls, it goes down to what the server was working on just then, and from there tries for one more, then two, then four,
    once in 200 answers. Where doubling stopped paying, it tries a quarter more now and then.
    """

    def __init__(self, *, start: int, ceiling: int) -> None:
        self.ceiling = ceiling
        self.limit = min(start, ceiling)
        self._doubling = True
        self._refused = False
        self._kept: tuple[int, float] | None = None  # the level that pays so far, and its answers a second
        self._step = 1
        self._quiet = _QUIET
        self._not_before_s = float("-inf")
        self._before_cuts = self.limit
        self._begin_level(settle=0)

    def succeeded(self, now_s: float, *, full: bool) -> None:
        """An answer came; ``full``: every slot was taken, so that more slots might have brought more answers."""
        if not full:
            return
        if self._settle:
            self._settle -= 1
            return
        if not self._answers:
            self._since_s = now_s
        self._answers += 1
        if self._answers > self._enough and now_s >= self._not_before_s:
            took_s = now_s - self._since_s
            self._judge_level((self._answers - 1) / took_s if took_s > 0 else float("inf"))

    def refused(self, now_s: float, *, under_way: int, hold_s: float) -> None:
        """The server had too much with ``under_way`` other calls, so it can work on that many.

        ``hold_s`` is what it asked to wait: what this try cost.
        """
        if not self._refused or self._step > 1:
            self._before_cuts = self.limit
        self._doubling, self._refused, self._step = False, True, 1
        self._not_before_s = now_s + _HOLDS_APART * hold_s
        self.limit = max(1, min(self.limit, under_way))
        self._begin_level(settle=0)

    def restore(self) -> None:
        """The last refusals had nothing to do with the number of calls at a time."""
        self.limit = max(self.limit, self._before_cuts)

    @property
    def _enough(self) -> int:
        trying = self._kept is not None and self.limit > self._kept[0]
        return max(_MEASURED, self.limit) if self._doubling else _QUIET if trying or self._refused else self._quiet

    def _judge_level(self, rate: float) -> None:
        level = self.limit
        if self._refused:  # it was not refused at this level: then it pays
            self._before_cuts = level
            self._grow_to(level + self._step)
            self._step *= 2
        elif self._kept is None or level <= self._kept[0] or self._pays(level, rate):
            if not self._doubling and self._kept is not None and level > self._kept[0]:
                self._quiet = _QUIET
            self._kept = (level, rate)
            self._grow_to(2 * level if self._doubling else level + max(1, level // 4))
        else:  # asked again later: it may have been a bad moment
            self._doubling = False
            self._quiet *= 2
            self._grow_to(self._kept[0])

    def _pays(self, level: int, rate: float) -> bool:
        before, rate_before = self._kept or (level, rate)
        return rate > rate_before * (1 + _MORE_PAYS * (level - before) / before)

    def _grow_to(self, level: int) -> None:
        before, self.limit = self.limit, max(1, min(level, self.ceiling))
        self._begin_level(settle=min(before, self.limit))

    def _begin_level(self, *, settle: int) -> None:
        self._settle = settle  # answers to calls made at the level before: they say nothing of this one
        self._answers = 0
        self._since_s = float("nan")


class Rate:
    """How many calls a second may start: without a limit until the server complains at any number of calls at a time.

    Then it is what was served lately, a little less; after an outage (a window that was used up), what was served over the
    whole of the time since the last one. It comes back quickly to just below where it was refused, and tries for more
    slowly: a tenth in 200 answers, faster the longer nothing is refused.
    """

    def __init__(self) -> None:
        self.limit: float | None = None
        self._refused_at = 0.0
        self._served: deque[float] = deque()
        self._started_s: float | None = None
        self._cycle_s = 0.0
        self._in_cycle = 0
        self._since_cut = 0
        self._quiet = float(_QUIET)
        self._last_answer_s = float("-inf")
        self._refused_since_answer = False

    def started(self, now_s: float) -> None:
        """A call is made."""
        if self._started_s is None:
            self._started_s = self._cycle_s = now_s

    def succeeded(self, now_s: float) -> None:
        """An answer came."""
        if self._refused_since_answer and now_s - self._last_answer_s > _OUTAGE_S:
            self._recover(now_s)
        self._refused_since_answer = False
        self._last_answer_s = now_s
        self._served.append(now_s)
        self._in_cycle += 1
        self._since_cut += 1
        if self.limit is None:
            return
        tries = 0.1 * self._refused_at / self._quiet * 2 ** min(8, self._since_cut // self._quiet)
        self.limit += max(tries, (0.95 * self._refused_at - self.limit) / 20)

    def noticed(self) -> None:
        """A call was refused, whatever the reason."""
        self._refused_since_answer = True

    def refused(self, now_s: float, *, hold_s: float) -> None:
        """The server had too many calls in too short a time; ``hold_s``: what it asked to wait."""
        while self._served and self._served[0] < now_s - _SERVED_S:
            self._served.popleft()
        over_s = min(_SERVED_S, now_s - (self._started_s or 0.0))
        lately = len(self._served) / over_s if over_s > 0 else 0.0
        before = self.limit if self.limit is not None else max(lately, _SLOWEST)
        limit = min(before, max(_GIVE_WAY * before, 0.9 * lately, _SLOWEST))
        # Refused again at once: it was far too much, and not just a little.
        self._cut(limit, before if self._since_cut > _QUIET / 4 else limit, hold_s)

    def _recover(self, now_s: float) -> None:
        if self.limit is not None and now_s > self._cycle_s:
            sustained = max(self.limit, self._in_cycle / (now_s - self._cycle_s))
            self._cut(0.95 * sustained, sustained, now_s - self._last_answer_s)
        self._cycle_s, self._in_cycle = now_s, 0

    def _cut(self, limit: float, refused_at: float, cost_s: float) -> None:
        self.limit, self._refused_at, self._since_cut = limit, refused_at, 0
        self._quiet = max(float(_QUIET), _HOLDS_APART * cost_s * limit)
