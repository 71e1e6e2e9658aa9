"""Calls at a time by the queue at the server, where that says how long it is. Pure: no clock, no await.

A server that works on some requests and lets others wait is as busy with a short queue as with a long one, and what waits
there cannot be chosen again by what was learnt meanwhile. What answers a second tell of it (see
:mod:`robin_cli.dispatch.adapting`) takes many of them; the server's own count takes two looks. It is only ever a cap: how many
calls pay is found out as ever, below it.

A count can mislead: where each request waits for a moment before it is worked on, or where a count is stuck, fewer calls
shorten nothing and leave slots empty. So each cut is looked at again: where the server works on fewer by it, it is taken back,
and what waited then counts as what always waits.
"""

from __future__ import annotations

import math

_SHARE = 0.1
"""Waiting requests for each that is worked on: enough that no slot waits for us while an answer is on its way and a call."""

_GROWS = 1.25
"""The cap grows by so much a look while less than half of that waits, by one call at least."""

_LEAST = 2
_PART, _PART_WITH_OTHERS = 8, 2
"""It stays at this part, at least, of the calls that were found to pay: a queue that is all others' must not end the work.
Calls are doubled only as long as it pays, so a queue of ours alone needs no fewer."""

_FORGETS = 0.995
"""What always waits is forgotten by so much a look: it may have been a server that lost room just then."""

_OTHERS = 1.2
"""More requests at the server than this for each of ours: others ask it, too."""


class ShortQueue:
    """How many calls at a time keep the queue at the server short; None while nothing is to be capped."""

    def __init__(self) -> None:
        self.cap: int | None = None
        self._waited = 0.0  # at the look before
        self._always = 0.0  # the part of all requests there that waits however few they are
        self._before: tuple[float, float] | None = (
            None  # worked on, and calls of ours, before a cut not looked at again yet
        )

    def saw(self, running: float, waiting: float, *, under_way: int, limit: int) -> None:
        """The server says how many requests it works on, and how many wait there, ours and others'.

        Args:
            under_way: of ours, now.
            limit: of calls at a time without the cap.
        """
        if not running:  # one that works on nothing just now tells nothing
            return
        there = running + waiting
        self._always *= _FORGETS
        queued = waiting - self._always * there
        stays = min(queued, self._waited)  # what waits at one look alone has just come, and will be worked on at once
        self._waited = queued
        spare = max(1.0, _SHARE * running)
        if self._before is not None:
            if self.cap is not None and under_way <= self.cap:
                self._check(*self._before, running, waiting)
        elif stays > spare:
            ours = min(1.0, under_way / there)
            least = limit // (_PART if there <= _OTHERS * under_way + 1 else _PART_WITH_OTHERS)
            self._before = running, under_way
            self._set(max(least, math.ceil(under_way - ours * (stays - spare))), limit)
        elif self.cap is not None and queued < spare / 2 and under_way >= self.cap:
            self._set(max(self.cap + 1, round(_GROWS * self.cap)), limit)

    def _check(self, running_before: float, calls_before: float, running: float, waiting: float) -> None:
        """Look what came of a cut: the calls that it let through are all there are now."""
        self._before = None
        taken_away = calls_before - (self.cap or 0)
        if running_before - running > taken_away / 2:
            self.cap, self._waited = None, 0.0
            self._always = max(self._always, waiting / (running + waiting))

    def _set(self, cap: int, limit: int) -> None:
        self.cap = max(_LEAST, cap) if cap < limit else None
        if self.cap is None:
            self._before = None
