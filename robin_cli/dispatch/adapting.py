"""How much an endpoint bears, found out by asking it: calls at a time, and calls a second. Pure: no clock, no await.

A server says "too many" for two different reasons: it has so many slots, or it takes so many requests a minute. The
remedy for one does nothing for the other, so each has a control of its own, and whichever of them was holding the calls
back when the server complained is the one that gives way. Many servers say nothing at all and let calls wait: that more
calls at a time bring no more answers is all there is to see.
"""

from __future__ import annotations

import math
from collections import deque

_PAYS = 0.2
"""More calls at a time pay if answers a second grow by this power of them: by 15 % for twice the calls."""

_HARDLY_PAYS = 0.36
"""It is clear enough that more do not pay once growth is likely below this: 28 % for twice the calls."""

_PAYS_AT_ONCE = 0.58
"""Growth by this, half as much again for twice the calls, needs no second look: hardly any call met a queue."""

_ROOM = 1.3
"""Calls at a time for each that the server works on: enough that no slot waits for us, and few calls wait for a slot."""

_LEAST = 2
"""It stays at no fewer, unless calls are refused: with one at a time the server waits for us between any two."""

_VERY_FIRST_LOOK = 16
_FIRST_LOOK = 8
_LONGEST_LOOK = 200
_IN_TURN = 0.3
"""If the latencies of the very first answers differ by more, they may have waited for one another."""

_LEAST_SPREAD = 0.25
"""Latencies differ by so much at least, whatever a few answers say: other things than the number of calls move them."""

_FAR_UP = 32
_FORGETS = 0.99
_BURSTS = 1.3
_QUIET = 200
"""Answers between two tries, at first: so no more than some 1 in 200 requests is refused for trying."""

_DEAR = 8
"""As many times the answers of a try with too few calls at a time come before the next: it costs little of the whole."""

_SELDOM = 64 * _QUIET
_HOLDS_APART = 20
"""The next try comes no sooner than this many times the wait that the last one cost."""

_SERVED_S = 3.0
_GIVE_WAY = 0.7
_SLOWEST = 0.2
_OUTAGE_S = 2.0

_CHANCE_LEAST = 0.06
_CHANCE_MOST = 0.6
_CHANCE_LEFT = 0.6
_CHANCE_GAIN = 1.25
"""An endpoint that takes fewer answers the larger a part the slower it is asked: by chance, as much is refused (this part is
left of it, at least) and as much is answered (it grows by no more than this)."""


class _Level:
    """What was seen with so many calls at a time: answers, how long each took, and how many were really under way."""

    def __init__(self, calls: int) -> None:
        self.calls = calls
        self.answers = 0
        self.looks = 0
        self._latency_s = 0.0
        self._squares = 0.0
        self._under_way_s = 0.0
        self._seconds = 0.0

    def answered(self, latency_s: float) -> None:
        self.answers += 1
        self._latency_s += latency_s
        self._squares += latency_s**2

    def looked(self, seconds: float, under_way_s: float) -> None:
        self.looks += 1
        self._seconds += seconds
        self._under_way_s += under_way_s

    @property
    def rate(self) -> float:
        """Answers a second by Little's law: under way, over the time each takes. A count would swing with answers in bursts.

        It bounds the rate all the same: where a server forgets some calls for others, those that come say nothing of them.
        """
        if not self._latency_s:
            return float("inf")
        under_way = self._under_way_s / self._seconds if self._seconds else self.calls
        rate = under_way * self.answers / self._latency_s
        return min(rate, _BURSTS * (self.answers - self.looks) / self._seconds) if self._seconds else rate

    @property
    def spread(self) -> float:
        """Standard deviation of the latencies over their mean."""
        if not self._latency_s:
            return 0.0
        mean = self._latency_s / self.answers
        return math.sqrt(max(0.0, self._squares / self.answers - mean**2)) / mean


class _Comparison:
    """Whether ``high`` calls at a time bring enough more than ``low``.

    Each is looked at in turn, longer each time, until it is clear: whatever else changes meanwhile (caches fill, prompts
    grow longer) meets both alike.

    Args:
        climbing: it is to go up; in doubt, then, there are more, and else fewer: both are put right by what comes next.
        spread: of latencies, as seen lately at any level: one with a queue, or with a few answers, shows too little of it.
    """

    def __init__(self, low: _Level, high: _Level, *, climbing: bool) -> None:
        self.low, self.high = low, high
        self.spread = _LEAST_SPREAD
        self._climbing = climbing
        self._yes, self._no = (1.0, 2.0) if climbing else (2.0, 1.0)  # standard errors that must speak for an answer
        self._wide = math.log(high.calls / low.calls)

    def after(self, level: _Level) -> _Level:
        """The level to look at after ``level``: the other, unless it was seen as often: then this once more."""
        other = self.low if level is self.high else self.high
        return other if other.looks < level.looks else level

    @property
    def pays(self) -> bool | None:
        """None: it is not clear yet."""
        if not (self.low.looks and self.high.looks):
            return None
        gained = self._gained
        if gained - self._yes * self._error(self.spread) > _PAYS * self._wide:
            return True
        looked_long = min(self.low.answers, self.high.answers) >= _LONGEST_LOOK
        if (
            looked_long
            or gained + self._no * self._error(self.spread if self._climbing else 0.0) < _HARDLY_PAYS * self._wide
        ):
            return gained > _PAYS * self._wide
        return None

    @property
    def pays_at_once(self) -> bool:
        """Whether one look is enough to say that it pays."""
        return self._gained - self._error(self.spread) > _PAYS_AT_ONCE * self._wide

    @property
    def wanted(self) -> int:
        """Calls at a time that a server has use for which works on some at a pace of its own and lets others wait."""
        return round(_ROOM * self.low.calls * math.exp(self._gained))

    def _error(self, spread: float) -> float:
        spread = max(spread, self.low.spread, self.high.spread, _LEAST_SPREAD)
        return spread * math.sqrt(1 / self.low.answers + 1 / self.high.answers)

    @property
    def _gained(self) -> float:
        """Growth of answers a second, a logarithm: from 0, of a server that is full, to that of one that all find free."""
        low, high = self.low.rate, self.high.rate
        if not (0 < low < float("inf") and high > 0):
            return 0.0
        return min(self._wide, max(0.0, math.log(high / low)))


class Slots:
    """How many calls at a time pay, between 1 and ``ceiling``.

    It doubles from ``start`` as long as a doubling pays, then looks whether half as many bring as much, and again now and
    then: so what was kept by mistake, or paid only while caches filled, is not kept for long. When the server refuses
    calls, it goes down to what the server was working on just then, and from there tries for one more, then two, then
    four, once in 200 answers.
    """

    def __init__(self, *, start: int, ceiling: int) -> None:
        self.ceiling = ceiling
        self.limit = min(start, ceiling)
        self._looking_at = _Level(self.limit)
        self._comparison: _Comparison | None = None
        self._spread = _LEAST_SPREAD
        self._at_start = True
        self._climbing = False  # whether the comparison is for going up
        self._hasty = False  # whether its upper level is only glanced at
        self._climbed = False  # whether it is known where going up ends
        self._part = 2  # how far down a check looks; further each time that it went down
        self._refused = False
        self._step = 1
        self._quiet = _QUIET
        self._held = self._checked = self._before_cuts = self.limit
        self._not_before_s = float("-inf")
        self._left = self._settle = 0  # answers to the end of this look, and before it begins
        self._since: tuple[float, float] | None = None
        self._climb_from(self._looking_at)
        self._left = max(_VERY_FIRST_LOOK, self.limit)

    def succeeded(self, now_s: float, *, full: bool, latency_s: float, under_way_s: float) -> None:
        """An answer came.

        Args:
            now_s: the time.
            full: every slot was taken, so that more slots might have brought more answers.
            latency_s: how long it took.
            under_way_s: the sum of all times that calls were under way so far.
        """
        if not full:
            return
        if self._settle:
            self._settle -= 1
            return
        if self._since is None:
            self._since = (now_s, under_way_s)
        self._looking_at.answered(latency_s)
        self._left -= 1
        if self._left > 0 or now_s < self._not_before_s:
            return
        if self._comparison is None:
            self._try()
        else:
            self._looking_at.looked(now_s - self._since[0], under_way_s - self._since[1])
            self._judge(self._comparison)

    def refused(self, now_s: float, *, under_way: int, hold_s: float) -> None:
        """The server had too much with ``under_way`` other calls, so it can work on that many.

        ``hold_s`` is what it asked to wait: what this try cost.
        """
        if not self._refused or self._step > 1:
            self._before_cuts = self.limit
        self._refused, self._step = True, 1
        self._not_before_s = now_s + _HOLDS_APART * hold_s
        self._hold(max(1, min(self.limit, under_way)))
        self._settle = 0

    def restore(self) -> None:
        """The last refusals had nothing to do with the number of calls at a time."""
        if self._before_cuts > self.limit:
            self._hold(self._before_cuts)

    def _try(self) -> None:
        """It has been quiet for long enough to look for something better."""
        if self._refused and self.limit < 1.5 * self._checked:  # it was not refused at this level: then it pays
            self._before_cuts = self.limit
            self._set_limit(min(self.ceiling, self.limit + self._step))
            self._step *= 2
            self._left = _QUIET
        else:
            self._check(self.limit)

    def _judge(self, comparison: _Comparison) -> None:
        self._spread = max(_LEAST_SPREAD, _FORGETS * self._spread, self._looking_at.spread)
        comparison.spread = self._spread
        at_start, self._at_start = self._at_start, False
        if at_start and self._spread > _IN_TURN:
            self._check(self.limit)
        elif self._hasty and comparison.high.looks:
            self._glanced(comparison)
        elif (pays := comparison.pays) is None:
            self._look_at(comparison.after(self._looking_at))
        elif self._climbing:
            self._climbed_to(comparison, pays=pays)
        else:
            self._checked_down_to(comparison, pays=pays)

    def _glanced(self, comparison: _Comparison) -> None:
        self._hasty = False
        if comparison.pays_at_once:
            self._climb_from(comparison.high)
        else:  # some of the calls met no queue yet, and what was seen below may be out of date
            self._compare(_Level(comparison.low.calls), _Level(comparison.high.calls))

    def _climbed_to(self, comparison: _Comparison, *, pays: bool) -> None:
        if pays:
            self._climb_from(comparison.high)
        else:
            self._climbed = True
            self._check(min(comparison.high.calls, max(comparison.low.calls, comparison.wanted)))

    def _checked_down_to(self, comparison: _Comparison, *, pays: bool) -> None:
        low, high, wanted = comparison.low, comparison.high, comparison.wanted
        if not pays and high.calls > _LEAST:
            far = high.calls >= _FAR_UP  # a step that is too long costs more than it saves where there are few
            self._check(
                max(_LEAST, min(high.calls - 1, max(low.calls, wanted))), part=min(2 * self._part, 8) if far else 2
            )
        elif self._part > 2:
            self._check(high.calls)
        elif not pays or self._refused or high.calls == self.ceiling:
            self._hold(high.calls, cost=low.answers)
        elif not self._climbed:
            self._climb_from(high)
        elif wanted > 1.1 * high.calls:
            self._check(min(self.ceiling, wanted))
        else:
            self._hold(high.calls, cost=low.answers)

    def _climb_from(self, low: _Level) -> None:
        if low.calls == self.ceiling:
            self._check(low.calls)
            return
        self._climbing = self._hasty = True
        self._compare(low, _Level(min(2 * low.calls, self.ceiling)))

    def _check(self, calls: int, *, part: int = 2) -> None:
        """Look whether half as many calls at a time bring as much, or another part of them."""
        if calls == 1:
            self._hold(1)
            return
        self._climbing = self._hasty = False
        self._part = part
        self._compare(_Level(max(1, calls // part)), _Level(calls))

    def _compare(self, low: _Level, high: _Level) -> None:
        self._comparison = _Comparison(low, high, climbing=self._climbing)
        self._look_at(low if self._hasty and not low.looks else high)

    def _look_at(self, level: _Level) -> None:
        self._looking_at = level
        self._set_limit(level.calls)
        self._left = max(_FIRST_LOOK, level.calls, level.answers)  # as long as all before together

    def _hold(self, calls: int, cost: int = 0) -> None:
        """Leave it at so many for a while; for longer, the longer nothing better was found."""
        changed = self._refused or abs(calls - self._held) > 0.1 * calls
        self._quiet = _QUIET if changed else min(2 * self._quiet, _SELDOM)
        self._held = self._checked = calls
        self._climbing, self._hasty, self._comparison = False, False, None
        self._looking_at = _Level(calls)
        self._set_limit(calls)
        self._left = max(self._quiet, _DEAR * cost)

    def _set_limit(self, calls: int) -> None:
        before, self.limit = self.limit, calls
        if before != calls:
            # Answers to calls made at the level before say nothing of this one, nor do, where more are let in, the first
            # of those: they met a shorter queue.
            self._settle = before + (calls if calls > before and not self._hasty else 0)
        self._since = None


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


class Coincidence:
    """Whether "too many requests" is said by chance: as often at two thirds of the pace as before.

    Some endpoints and gateways refuse a part of all requests, however few they are. To ask more slowly then costs time and
    brings nothing; without end, it is a run that stands still. So outcomes are looked at some at a time, and where a slower
    pace made no difference, refusals are only waited out, until they become clearly more.

    Attributes:
        deaf: refusals say nothing of how much the endpoint bears.
    """

    def __init__(self) -> None:
        self.deaf = False
        self._size = 24
        self._seen = self._refused = 0
        self._since: float | None = None
        self._first: tuple[float, float] | None = None  # share refused, and requests a second, when refusals began

    def saw(self, now_s: float, *, refused: bool) -> bool:
        """A request was answered or refused; whether it became clear with it that refusals are chance."""
        if self._since is None:
            self._since = now_s
        self._seen += 1
        self._refused += refused
        if self._seen < self._size or now_s <= self._since:
            return False
        share, pace = self._refused / self._seen, self._seen / (now_s - self._since)
        self._seen, self._refused, self._since = 0, 0, now_s
        if self.deaf:
            self._listen_if_more(share)
            return False
        if not _CHANCE_LEAST < share < _CHANCE_MOST:
            self._first = None
        elif self._first is None:
            self._first = share, pace
        elif pace <= _GIVE_WAY * self._first[1]:
            before = self._first[0]
            self.deaf = share >= _CHANCE_LEFT * before and 1 - share <= _CHANCE_GAIN * (1 - before)
            if not self.deaf:
                self._first = share, pace
        return self.deaf

    def _listen_if_more(self, share: float) -> None:
        assert self._first is not None  # noqa: S101  # it is what made it deaf
        if share > min(_CHANCE_MOST, self._first[0] + 0.25):
            self.deaf, self._first = False, None
            self._size *= 2  # it was not chance: look longer the next time
