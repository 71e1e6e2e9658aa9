"""Which arm is asked next: ask() and tell() over a heap of priorities."""

from __future__ import annotations

import heapq
import math
from enum import Enum
from typing import Protocol

import numpy as np

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.policies import GROWTH, SPREAD, Policy, PooledPolicy
from robin_cli.records import RETIRE_AFTER

# Keys of arms in warm-up: this plus the number of their calls. Exact in a float64, and below (so: before) the key of any
# arm after its warm-up, whose priority is a variance of ratings over a count.
_WARM_UP = -(2.0**52)
_NEVER = math.inf
_UNLIMITED = 2**62
_KNOWN_FOR_EACH_PENDING = 4


class Nothing(Enum):
    """Why ask() names no arm: nothing until some call under way is told, or nothing ever again."""

    NOW = "now"
    LEFT = "left"


class Scheduler(Protocol):
    """The interface between a run and the choice of its next call."""

    def ask(self) -> int | Nothing:
        """The arm to call next, its call counted as pending; or why there is none."""

    def ask_several(self, at_most: int) -> tuple[int, int] | Nothing:
        """The arm to call next and how often at once, 1 to ``at_most``, all counted as pending; or why there is none."""

    def tell(self, arm: int, calls: int = 1) -> None:
        """So many pending calls of ``arm`` are over and what came of them stands in the arms' numbers."""

    def defer(self, arm: int, calls: int = 1) -> None:
        """So many pending calls of ``arm`` failed for now: ask others first, until one of them succeeds."""

    def withdraw(self, arm: int, calls: int = 1) -> None:
        """So many pending calls of ``arm`` are not made after all."""


def next_refit(rated: int, arms: int) -> float:
    """How many ratings there are when a pooled policy is fitted next, after ``rated`` of them.

    A fixed ladder, K · GROWTH^k: a run that goes on after an interruption is fitted at the same numbers as one that was
    not interrupted.
    """
    at = float(arms)
    while at <= rated:
        at = math.ceil(at * GROWTH)
    return at


def last_refit(rated: int, arms: int) -> int:
    """How many ratings there were when a pooled policy was fitted last; 0 if it never was."""
    last, at = 0, arms
    while at <= rated:
        last, at = at, math.ceil(at * GROWTH)
    return last


class HeapScheduler:
    """Keeps the arms in a heap, so that a choice costs O(log K) where the paper's scan costs O(K).

    The heap is lazy. ``key`` is an arm's true place, ``entry`` the foremost place that the heap holds for it, never behind
    the true one. An arm that became less urgent (each call makes it so) is moved back only when it comes to the front; one
    that became more urgent gets a second entry, and the first is dropped when met. So most calls move one entry once.

    An arm may not be asked now when
    - it is retired (:meth:`Arms.retired`);
    - its warm-up calls are all under way: its priority needs their answers;
    - its warm-up is to be cut short, because the budget does not suffice for all, and it has its even share;
    - in its warm-up, as many calls are under way as it has ratings, or RETIRE_AFTER: the first arm to be answered would else
      take what belongs to those whose answers are still to come;
    - after its warm-up, a quarter as many calls are under way as it has ratings: more would be asked on old knowledge, and
      the first arm to end its warm-up would take what belongs to those whose answers are still to come;
    - it is past its warm-up, and what is left of the budget is owed to the warm-ups of others;
    - its calls under way could already retire it: an arm that nobody can rate must not eat the budget meanwhile;
    - it was deferred.

    Several judges are not equally quick. An arm of a quick one may run ahead of an arm that is more urgent and waits for the
    answers of a slow one, by a quarter of its calls at most, and none may begin the adaptive part while arms of another judge
    wait in their warm-up: else the quick judges would spend what belongs to the slow.

    Args:
        arms: the numbers to choose by; read at every call, so whoever tells must have written them before.
        policy: fitted already, if it is a pooled one and there are ratings.
        budget: calls there are for all arms together: a warm-up that it does not suffice for is cut short evenly.
        judges: how many there are; arm k is asked of judge k mod ``judges``.
    """

    def __init__(self, arms: Arms, policy: Policy, *, budget: int | None = None, judges: int = 1) -> None:
        self.arms = arms
        self._policy = policy
        self._even_share = policy.warm_up if budget is None else budget // max(1, len(arms))
        share = -(-(budget or 0) // max(1, len(arms)))
        self._warm_up_at_most = policy.warm_up if budget is None else min(policy.warm_up, share)
        self._known_unparsed = arms.n_unparsed[:]
        self._given_up = set(np.flatnonzero(arms.retired_mask).tolist())
        self._left = _UNLIMITED if budget is None else budget - arms.spent - sum(arms.pending)
        self._owed = self._owed_now()
        self._deferred: set[int] = set()
        self._judges = judges
        self._held: dict[
            int, float
        ] = {}  # of several judges: arms that wait for answers, and their places if they did not
        self._known = arms.n[:]  # ratings that were told of; those since the last tell are new
        self._rated = int(arms.counts.sum())
        self._refit_at = next_refit(self._rated, len(arms)) if isinstance(policy, PooledPolicy) else _NEVER
        self._pending = 0
        self.warming_up = False  # whether the last call asked for was one of a warm-up
        self._build()

    def ask(self) -> int | Nothing:
        """The arm of highest priority, ties to the lower index; its call is counted as pending.

        Returns:
            The arm's index; ``Nothing.NOW`` if every arm must wait for calls under way; ``Nothing.LEFT`` if none is left
            that may ever be asked.
        """
        arm = self._foremost()
        if arm is None and self._deferred and not self._pending:
            self._readmit()
            arm = self._foremost()
        if arm is None and self._raise_shares():  # those of arms given up are left
            arm = self._foremost()
        if arm is None:
            return Nothing.NOW if self._pending else Nothing.LEFT
        if self._held and not self._pending and self._overtakes(arm):
            arm = self._instead_of_failed(arm)
        warming_up = self._key[arm] < 0.5 * _WARM_UP
        if self._pending and self._must_wait(arm, warming_up=warming_up):
            return Nothing.NOW
        self.warming_up = warming_up
        self._owed -= warming_up
        self._left -= 1
        self.arms.pending[arm] += 1
        self._pending += 1
        self._place(arm)
        return arm

    def ask_several(self, at_most: int) -> tuple[int, int] | Nothing:
        """The arm of highest priority and how many calls of it to make at once, 1 to ``at_most``; all are pending.

        They are as many as may be under way for the arm: in its warm-up not beyond the warm-up's end, after it no more than
        a quarter of the ratings it has.
        """
        arm = self.ask()
        if isinstance(arm, Nothing):
            return arm
        more = min(at_most - 1, self._room(arm))
        if more > 0:
            self._owed -= more * self.warming_up
            self._left -= more
            self.arms.pending[arm] += more
            self._pending += more
            self._place(arm)
            return arm, 1 + more
        return arm, 1

    def tell(self, arm: int, calls: int = 1) -> None:
        """So many pending calls of ``arm`` are over; what came of them stands in the arms' numbers already."""
        rated = self.arms.n[arm] - self._known[arm]
        owed = 0 if rated == calls else self._owed_to(arm, self._known[arm])
        self._settle(arm, calls)
        if rated == calls:  # as nearly always: its warm-up has what was under way
            self._left -= calls
            if arm in self._given_up and not self.arms.retired(arm):  # a late answer: it is asked again
                self._given_up.discard(arm)
                self._owed += self._owed_to(arm, self.arms.n[arm])
        else:
            unparsed = self.arms.n_unparsed[arm] - self._known_unparsed[arm]
            self._known_unparsed[arm] += unparsed
            self._left -= rated + unparsed
            (self._given_up.add if self.arms.retired(arm) else self._given_up.discard)(arm)
            self._owed += self._owed_to(arm, self.arms.n[arm]) - owed
        self._deferred.discard(arm)
        self._known[arm] += rated
        self._rated += rated
        if self._rated >= self._refit_at:
            self._refit()
        else:
            self._refresh(arm)
        if self._deferred and not self.arms.streak[arm]:
            self._readmit()

    def withdraw(self, arm: int, calls: int = 1) -> None:
        """So many pending calls of ``arm`` are not made after all."""
        self._take_back(arm, calls)
        if arm not in self._deferred:
            self._refresh(arm)

    def defer(self, arm: int, calls: int = 1) -> None:
        """So many calls of ``arm`` failed: it is asked again after another arm was rated, or if no other is left."""
        self._take_back(arm, calls)
        self._deferred.add(arm)
        self._key[arm] = _NEVER
        self._held.pop(arm, None)
        if self._judges > 1 and not self.arms.retired(arm):
            self._held[arm] = self._open_key_of(arm)

    def _settle(self, arm: int, calls: int) -> None:
        if not 0 < calls <= self.arms.pending[arm]:
            raise ValueError(f"arm {arm} has {self.arms.pending[arm]} calls under way, not {calls}")
        self.arms.pending[arm] -= calls
        self._pending -= calls
        self._left += calls

    def _take_back(self, arm: int, calls: int) -> None:
        owed = self._owed_to(arm, self.arms.n[arm])
        self._settle(arm, calls)
        if self.arms.retired(arm):
            self._given_up.add(arm)
        self._owed += self._owed_to(arm, self.arms.n[arm]) - owed

    def _owed_to(self, arm: int, n: int) -> int:
        """Calls that the arm's warm-up still wants, if it has ``n`` ratings."""
        return 0 if arm in self._given_up else max(0, self._warm_up_at_most - n - self.arms.pending[arm])

    def _owed_now(self) -> int:
        """The same of all arms, where there is a budget."""
        if self._left >= _UNLIMITED // 2:
            return 0
        calls = self.arms.counts + np.frombuffer(self.arms.pending, dtype=np.int64)
        owed = np.maximum(0, self._warm_up_at_most - calls)
        owed[list(self._given_up)] = 0
        return int(owed.sum())

    def _room(self, arm: int) -> int:
        """Calls that may still go under way for an arm that may be asked."""
        arms = self.arms
        n, pending, streak = arms.n[arm], arms.pending[arm], arms.streak[arm]
        if n < self._policy.warm_up:
            calls = n + pending
            room = max(0, min(self._policy.warm_up, self._even_share) - calls)
        else:
            room = max(1, n // _KNOWN_FOR_EACH_PENDING) - pending
        return min(room, RETIRE_AFTER - streak - pending) if streak or not n else room

    def _raise_shares(self) -> bool:
        """Divide what is left of the budget among the arms that are not given up; whether that gives them more."""
        kept = ~self.arms.retired_mask
        if self._warm_up_at_most >= self._policy.warm_up or self._left <= 0 or not kept.any():
            return False
        calls = (self.arms.counts + np.frombuffer(self.arms.pending, dtype=np.int64))[kept]
        share = min(self._policy.warm_up, -(-(self._left + int(calls.sum())) // len(calls)))
        if not self._pending:
            share = max(share, int(calls.min()) + 1)  # nothing is to come that could change it
        if share <= self._warm_up_at_most:
            return False
        self._warm_up_at_most = share
        self._owed = self._owed_now()
        self._build()
        return True

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in sorted(deferred):
            self._refresh(arm)

    def _place(self, arm: int) -> float:
        key = self._key[arm] = self._key_of(arm)
        if self._judges > 1:
            self._held.pop(arm, None)
            if key == _NEVER and self.arms.pending[arm] and not self.arms.retired(arm):
                self._held[arm] = self._open_key_of(arm)
        return key

    def _instead_of_failed(self, arm: int) -> int:
        """An arm to ask where ``arm`` would overtake one that failed, and nothing under way could tell more of it.

        Another arm of the same judge, the most urgent: whether that one is answered tells whose fault it was. If there is
        none, those that failed are asked again.
        """
        failed = (other for other in self._held if (other - arm) % self._judges)
        judge = min(failed, key=self._held.__getitem__) % self._judges
        others = self._key[judge :: self._judges]
        best = min(range(len(others)), key=others.__getitem__)
        if others[best] != _NEVER:
            return best * self._judges + judge
        self._readmit()
        first = self._foremost()
        return arm if first is None else first

    def _must_wait(self, arm: int, *, warming_up: bool) -> bool:
        """Whether the calls that are left belong to others, whose calls under way are to be waited for."""
        return (not warming_up and 0 < self._left <= self._owed) or (bool(self._held) and self._overtakes(arm))

    def _overtakes(self, arm: int) -> bool:
        """Whether asking ``arm`` now would take calls from arms that wait for another judge."""
        key, judge = self._key[arm], arm % self._judges
        foremost = min((held for other, held in self._held.items() if other % self._judges != judge), default=_NEVER)
        if key < 0.5 * _WARM_UP or foremost >= key:
            return False
        calls = self.arms.n[arm] + self.arms.pending[arm]
        lead = max(1, calls // _KNOWN_FOR_EACH_PENDING)
        return foremost < 0.5 * _WARM_UP or key * calls > foremost * (calls - lead)

    def _refresh(self, arm: int) -> None:
        key = self._place(arm)
        if key < self._entry[arm]:
            self._entry[arm] = key
            heapq.heappush(self._heap, (key, arm))
            if len(self._heap) > 4 * len(self._key) + 64:
                self._heapify()

    def _foremost(self) -> int | None:
        heap, keys, entries = self._heap, self._key, self._entry
        while heap:
            entry, arm = heap[0]
            key = keys[arm]
            if entry == key:
                return arm
            if entry == entries[arm] and key != _NEVER:
                entries[arm] = key
                heapq.heapreplace(heap, (key, arm))
                continue
            if entry == entries[arm]:
                entries[arm] = _NEVER
            heapq.heappop(heap)
        return None

    def _refit(self) -> None:
        arms = self.arms
        if isinstance(self._policy, PooledPolicy):
            self._policy = self._policy.fitted(arms.counts.astype(np.float64), arms.totals, arms.totals_sq)
        self._refit_at = next_refit(self._rated, len(arms))
        self._build()

    def _build(self) -> None:
        """All keys at once: the same numbers as :meth:`_key_of`, fifty times faster for a million arms."""
        arms, warm_up = self.arms, self._policy.warm_up
        n, pending = arms.counts.astype(np.float64), np.frombuffer(arms.pending, dtype=np.int64).astype(np.float64)
        streak, calls = np.frombuffer(arms.streak, dtype=np.int64), n + pending
        rated = np.maximum(n, 1.0)  # any number will do for arms in their warm-up: they are masked below
        with np.errstate(invalid="ignore", divide="ignore"):
            ready = np.arange(len(arms))
            priority = self._policy.priority(rated, pending, arms.totals, arms.totals_sq, ready) + SPREAD / (
                rated + pending
            )
        full = pending >= np.maximum(1.0, n // _KNOWN_FOR_EACH_PENDING)
        adaptive = np.where(full, _NEVER, -priority)
        waits = (calls >= self._warm_up_at_most) | (pending >= np.maximum(RETIRE_AFTER, n))
        key = np.where(n < warm_up, np.where(waits, _NEVER, _WARM_UP + calls), adaptive)
        key[((streak > 0) | (n == 0)) & (streak + pending >= RETIRE_AFTER)] = _NEVER
        key[list(self._deferred)] = _NEVER
        self._key: list[float] = key.tolist()
        self._held = {}
        if self._judges > 1:
            for arm in np.flatnonzero(pending > 0).tolist():
                self._place(arm)
            for arm in self._deferred:
                self._key[arm] = _NEVER
                if not self.arms.retired(arm):
                    self._held[arm] = self._open_key_of(arm)
        self._heapify()

    def _heapify(self) -> None:
        self._entry = list(self._key)
        self._heap = [(key, arm) for arm, key in enumerate(self._key) if key != _NEVER]
        heapq.heapify(self._heap)

    def _key_of(self, arm: int) -> float:
        arms = self.arms
        n, pending, streak = arms.n[arm], arms.pending[arm], arms.streak[arm]
        if (streak or not n) and streak + pending >= RETIRE_AFTER:
            return _NEVER
        if n < self._policy.warm_up:
            full = n + pending >= self._warm_up_at_most or pending >= max(RETIRE_AFTER, n)
        else:
            full = pending >= max(1, n // _KNOWN_FOR_EACH_PENDING)
        return _NEVER if full else self._open_key_of(arm)

    def _open_key_of(self, arm: int) -> float:
        """The place of an arm that need not wait for its calls under way."""
        arms = self.arms
        n, pending = arms.n[arm], arms.pending[arm]
        if n < self._policy.warm_up:
            return _WARM_UP + n + pending
        priority = self._policy.priority(float(n), float(pending), arms.total[arm], arms.total_sq[arm], arm)
        return -(priority + SPREAD / (n + pending))
