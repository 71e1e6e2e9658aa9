"""Which arm is asked next: ask() and tell() over a heap of priorities."""

from __future__ import annotations

import heapq
import math
from enum import Enum
from typing import Protocol

from robin_cli.allocation.arms import Arms
from robin_cli.allocation.policies import SPREAD, Policy
from robin_cli.records import RETIRE_AFTER

# Keys of arms in warm-up: this plus the number of their calls. Exact in a float64, and below (so: before) the key of any
# arm after its warm-up, whose priority is a variance of ratings over a count.
_WARM_UP = -(2.0**52)
_NEVER = math.inf


class Nothing(Enum):
    """Why ask() names no arm: nothing until some call under way is told, or nothing ever again."""

    NOW = "now"
    LEFT = "left"


class Scheduler(Protocol):
    """The interface between a run and the choice of its next call."""

    def ask(self) -> int | Nothing:
        """The arm to call next, its call counted as pending; or why there is none."""

    def tell(self, arm: int) -> None:
        """One pending call of ``arm`` is over and its outcome stands in the arms' numbers."""

    def defer(self, arm: int) -> None:
        """One pending call of ``arm`` failed for now: ask others first, until one of them succeeds."""


class HeapScheduler:
    """Keeps one current entry an arm in a heap, so that a choice costs O(log K) where the paper's scan costs O(K).

    An entry is stale, and dropped when met, once its key is no longer the arm's: nothing is searched for or removed.

    An arm may not be asked now when
    - it is retired (:meth:`Arms.retired`);
    - its warm-up calls are all under way: its priority needs their answers;
    - its calls under way could already retire it: an arm that nobody can rate must not eat the budget meanwhile;
    - it was deferred.
    """

    def __init__(self, arms: Arms, policy: Policy) -> None:
        self.arms = arms
        self._policy = policy
        self._key = [self._key_of(arm) for arm in range(len(arms))]
        self._heap = [(key, arm) for arm, key in enumerate(self._key) if key != _NEVER]
        heapq.heapify(self._heap)
        self._deferred: set[int] = set()
        self._pending = 0
        self.warming_up = False  # whether the last call asked for was one of a warm-up

    def ask(self) -> int | Nothing:
        """The arm of highest priority, ties to the lower index; its call is counted as pending.

        Returns:
            The arm's index; ``Nothing.NOW`` if every arm must wait for calls under way; ``Nothing.LEFT`` if none is left
            that may ever be asked.
        """
        self._drop_stale()
        if not self._heap and self._deferred and not self._pending:
            self._readmit()
        if not self._heap:
            return Nothing.NOW if self._pending else Nothing.LEFT
        key, arm = self._heap[0]
        self.warming_up = key < 0.5 * _WARM_UP
        self.arms.pending[arm] += 1
        self._pending += 1
        key = self._key[arm] = self._key_of(arm)
        if key == _NEVER:
            heapq.heappop(self._heap)
        else:
            heapq.heapreplace(self._heap, (key, arm))
        return arm

    def tell(self, arm: int) -> None:
        """One pending call of ``arm`` is over; its outcome stands in the arms' numbers already."""
        self._settle(arm)
        self._deferred.discard(arm)
        self._refresh(arm)
        if self._deferred and not self.arms.streak[arm]:
            self._readmit()

    def defer(self, arm: int) -> None:
        """One pending call of ``arm`` failed: it is asked again after another arm was rated, or if no other is left."""
        self._settle(arm)
        self._deferred.add(arm)
        self._key[arm] = _NEVER

    def _settle(self, arm: int) -> None:
        if not self.arms.pending[arm]:
            raise ValueError(f"arm {arm} has no call under way")
        self.arms.pending[arm] -= 1
        self._pending -= 1

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in sorted(deferred):
            self._refresh(arm)

    def _refresh(self, arm: int) -> None:
        key = self._key_of(arm)
        if key == self._key[arm]:
            return
        self._key[arm] = key
        if key == _NEVER:
            return
        heapq.heappush(self._heap, (key, arm))
        if len(self._heap) > 4 * len(self._key) + 64:
            self._heap = [(key, arm) for arm, key in enumerate(self._key) if key != _NEVER]
            heapq.heapify(self._heap)

    def _drop_stale(self) -> None:
        heap, key = self._heap, self._key
        while heap and heap[0][0] != key[heap[0][1]]:
            heapq.heappop(heap)

    def _key_of(self, arm: int) -> float:
        arms = self.arms
        n, pending, streak = arms.n[arm], arms.pending[arm], arms.streak[arm]
        if (streak or not n) and streak + pending >= RETIRE_AFTER:
            return _NEVER
        if n < self._policy.warm_up:
            calls = n + pending
            return _WARM_UP + calls if calls < self._policy.warm_up else _NEVER
        priority = self._policy.priority(float(n), float(pending), arms.total[arm], arms.total_sq[arm], arm)
        return -(priority + SPREAD / (n + pending))
