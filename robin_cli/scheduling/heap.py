"""A priority queue over all arms, by keys that change with every call; and fairness between judges.

The arm with the smallest key is asked next, ties going to the lower arm. A key has one formula for a number and for a column.
"""

from __future__ import annotations

import heapq
import math
from array import array
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.space import Coordinates
from robin_cli.policies.base import Arm, Number, Policy, exited
from robin_cli.scheduling.eligibility import KNOWN_FOR_EACH_PENDING

NEVER = math.inf
"""The key of an arm that may not be asked."""

_WARM_UP = -(2.0**52)  # plus a number of calls: exact in a float64, and below any variance over a count

FIRST = 0.25 * _WARM_UP
"""The key of an arm past its warm-up, or without one, that is to be asked before all others."""

SPREAD = 1e-300
"""Times 1/n added to every priority: lost in rounding unless the priority is 0, where it orders arms that never vary by
their calls, so that a budget with nothing better to do is spread and does not pile up on the first arm."""


def warm_up_key(calls: Number, turn: Number | None = None, arms: int = 1) -> Number:
    """In its warm-up the arm with the fewest ``calls`` comes first, and before every arm past its own.

    Args:
        turn: which of those with as many calls comes first, of as many ``arms`` as there are; None for the lower arm.
    """
    return _WARM_UP + calls if turn is None else _WARM_UP + (calls * arms + turn)


def windowed_key(calls: Number, unread: Number, window: Number, windows: int, share: int) -> Number:
    """The same where the first round goes over all arms, and each window of arms then gets its ``share`` before the next does.

    Calls of one arm follow closely then, and endpoints still have its prompt in their cache. What is beyond the share goes
    over all arms again.

    Args:
        unread: answers of the arm that held no rating. They count for its share: the last windows would else have to do without
            what the others took to make up for theirs.
        window: in which window the arm is, of as many ``windows`` as there are.
        share: calls of each arm that it gets within its window.
    """
    window = window + (calls + unread >= share) * (windows - window)
    return _WARM_UP + calls + (calls > 0) * (window * share)


def adaptive_key(policy: Policy, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:
    """After its warm-up the arm with the largest priority comes first."""
    try:
        return -(policy.priority(n, pending, total, total_sq, arm) + SPREAD / _counted(n + pending))
    except SystemExit as error:
        raise exited(policy, error) from error


def contest_keys(
    policy: Policy, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
) -> FloatArray:
    """The same of arms that have their priorities together, see :meth:`Policy.contests`; without a rating: any number."""
    try:
        priorities = policy.priorities(n, pending, total, total_sq, arm)
    except SystemExit as error:
        raise exited(policy, error) from error
    return -(priorities + SPREAD / _counted(n + pending))


def _counted(calls: Number) -> Number:
    """``calls``, but half a call where there is none: a policy without a warm-up is asked for arms without any."""
    counted: Any = calls
    return cast("Number", max(counted, 0.5) if isinstance(counted, float) else np.maximum(counted, 0.5))


def is_warm_up(key: float) -> bool:
    """Whether the arm of this key is in its warm-up."""
    return key < 0.5 * _WARM_UP


_STALE = math.nan
_FEWEST = 1024
_PART = 8
"""In the heap itself are at most so many arms, and this part of all, before all are sorted anew: a column of numbers takes a
twelfth of the memory."""


class LazyHeap:
    """Finds the arm of the smallest key, ties going to the lower arm, in O(log K).

    ``key`` is an arm's true place, ``entry`` the foremost place that the queue holds for it, never behind the true one. An arm
    that became less urgent (each call makes it so) is moved back only when it comes to the front, and its key is not even
    computed before; one that became more urgent gets a second entry, and the first is dropped when met.

    Most entries stand in columns, sorted; those of arms that were moved since are in a heap.

    Args:
        keys: of all arms.
        key_of: the key of an arm now; never nan, which is this queue's mark for a key to be asked for.
    """

    def __init__(self, keys: Sequence[float] | FloatArray, key_of: Callable[[int], float]) -> None:
        self.key = array("d", np.asarray(keys, dtype=np.float64).tobytes())
        self._key_of = key_of
        self._entry = self.key[:]
        self._most = _FEWEST + len(self.key) // _PART
        self._sort()

    def place(self, arm: int, key: float) -> None:
        """Give ``arm`` a new key; NEVER takes it out."""
        self.key[arm] = key
        if key < self._entry[arm]:
            self._entry[arm] = key
            self._push(key, arm)

    def move_back(self, arm: int) -> None:
        """Note that ``arm`` became less urgent, or may not be asked any more."""
        self.key[arm] = _STALE

    def first(self) -> int | None:
        """The arm of the smallest key; None if there is none that may be asked."""
        keys, entries = self.key, self._entry
        while (front := self._front()) is not None:
            entry, arm, is_sorted = front
            key = keys[arm]
            if entry == key:
                return arm
            if key != key:  # stale
                keys[arm] = self._key_of(arm)
                continue
            is_moved = entry == entries[arm] and key != NEVER
            if entry == entries[arm]:
                entries[arm] = key
            if is_sorted:
                self._at += 1
                if is_moved:
                    self._push(key, arm)
            elif is_moved:
                heapq.heapreplace(self._heap, (key, arm))
            else:
                heapq.heappop(self._heap)
        return None

    def __len__(self) -> int:
        return len(self._order) - self._at + len(self._heap)

    def _front(self) -> tuple[float, int, bool] | None:
        """The foremost entry, its arm, and whether it stands among those that were sorted."""
        heap, at = self._heap, self._at
        if at == len(self._order):
            return (*heap[0], False) if heap else None
        entry, arm = self._sorted[at], self._order[at]
        if heap:
            first, moved = heap[0]
            if first < entry or (first == entry and moved < arm):
                return first, moved, False
        return entry, arm, True

    def _push(self, key: float, arm: int) -> None:
        heapq.heappush(self._heap, (key, arm))
        if len(self._heap) > self._most:
            keys = np.frombuffer(self.key)
            np.copyto(np.frombuffer(self._entry), keys, where=~np.isnan(keys))
            self._sort()

    def _sort(self) -> None:
        entries = np.frombuffer(self._entry)
        arms = np.flatnonzero(entries != NEVER)
        arms = arms[np.argsort(entries[arms], kind="stable")]
        self._order, self._sorted = array("q", arms.tobytes()), array("d", entries[arms].tobytes())
        self._at = 0
        self._heap: list[tuple[float, int]] = []


class Fairness:
    """Remembers which arms wait for answers, and who would overtake them: quick judges must not spend what is for slow ones.

    Args:
        judge: which judge each arm is asked of, shape (K,).
    """

    def __init__(self, judge: Coordinates) -> None:
        self._judge_of_all = judge
        self._judge = judge.data  # single entries of it are read several times faster
        self.waiting: dict[int, float] = {}
        """Arms that wait for calls under way or failed, and the keys they would have otherwise."""

    def overtakes(self, arm: int, key: float, calls: int) -> bool:
        """Whether asking ``arm``, of which there are ``calls``, would take calls from arms that wait for another judge.

        It may run ahead of a more urgent arm by a quarter of its calls; none may begin to adapt while an arm of another judge
        waits in its warm-up.
        """
        if is_warm_up(key):
            return False
        judge = self._judge[arm]
        foremost = min((at for other, at in self.waiting.items() if self._judge[other] != judge), default=NEVER)
        if not calls:  # without a warm-up: not while one of another judge is twice as urgent
            return is_warm_up(foremost) or key > foremost / 2
        lead = max(1, calls // KNOWN_FOR_EACH_PENDING)
        return is_warm_up(foremost) or key * calls > foremost * (calls - lead)

    def most_urgent_beside_failed(self, arm: int, keys: Sequence[float]) -> int:
        """The most urgent arm of the judge that ``arm`` would overtake: whether it is answered tells whose fault it was."""
        failed = (other for other in self.waiting if self._judge[other] != self._judge[arm])
        judge = self._judge[min(failed, key=self.waiting.__getitem__)]
        return min(np.flatnonzero(self._judge_of_all == judge).tolist(), key=keys.__getitem__)
