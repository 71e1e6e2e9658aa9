"""The arms of a run as columns of numbers, from which every next call is chosen."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.outcome import Final, Outcome, Unanswered
from robin_cli.model.records import RETIRE_AFTER

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


class Sums(NamedTuple):
    """Ratings of each arm, their sum and that of their squares, shape (…, K) each."""

    n: FloatArray
    total: FloatArray
    total_sq: FloatArray

    def by(self, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Sums:
        """Return them after the same change of each."""
        return Sums(change(self.n), change(self.total), change(self.total_sq))


_INTS = ("n", "pending", "n_unparsed", "n_failed", "streak", "next_draw")
_FLOATS = ("total", "total_sq")
_COPIES = 5


class Arms:
    """Read-only sums over the ratings of K arms, and their calls under way.

    These columns show the memory of a `WritableArms`. Only a scheduler, and the fold of what is on disk, have that: nothing
    else can change a number that calls are chosen by.

    Ratings are kept as exact sums (``total`` of x, ``total_sq`` of x²), not as a running mean. For integer ratings the sums
    are the same in every order, so a resumed run has bit for bit the state of a run that never stopped.

    Columns, each of length K:
        n            ratings received (parsed); int
        pending      calls reserved that have no outcome yet; int
        total        Σ x over the ratings; float
        total_sq     Σ x² over the ratings; float
        n_unparsed   paid answers without a rating; int
        n_failed     calls given up or refused; int
        streak       judgments without a rating since the last rating; a final one adds RETIRE_AFTER; int
        next_draw    number of the arm's next call; int
    """

    __slots__ = (*_INTS, *_FLOATS)

    n: Sequence[int]
    pending: Sequence[int]
    total: Sequence[float]
    total_sq: Sequence[float]
    n_unparsed: Sequence[int]
    n_failed: Sequence[int]
    streak: Sequence[int]
    next_draw: Sequence[int]

    def __init__(self, writable: WritableArms) -> None:
        for name in Arms.__slots__:
            setattr(self, name, memoryview(getattr(writable, name)).toreadonly())

    def __len__(self) -> int:
        return len(self.n)

    def retired(self, arm: int) -> bool:
        """Return whether ``arm`` is given up, because its last judgments all came without a rating."""
        return self.streak[arm] >= RETIRE_AFTER

    def column(self, name: str) -> NDArray[Any]:
        """Return the column ``name`` as a read-only numpy array over the same memory, shape (K,)."""
        return np.frombuffer(getattr(self, name), dtype=np.float64 if name in _FLOATS else np.int64)

    @property
    def counts(self) -> IntArray:
        """Ratings received, shape (K,)."""
        return self.column("n")

    @property
    def under_way(self) -> IntArray:
        """Calls reserved that have no outcome yet, shape (K,)."""
        return self.column("pending")

    @property
    def totals(self) -> FloatArray:
        """Sum of the ratings, shape (K,)."""
        return self.column("total")

    @property
    def totals_sq(self) -> FloatArray:
        """Sum of the squared ratings, shape (K,)."""
        return self.column("total_sq")

    @property
    def unparsed(self) -> IntArray:
        """Paid answers without a rating, shape (K,)."""
        return self.column("n_unparsed")

    @property
    def failed(self) -> IntArray:
        """Calls that brought no answer, shape (K,)."""
        return self.column("n_failed")

    @property
    def streaks(self) -> IntArray:
        """Judgments without a rating since the last rating, shape (K,)."""
        return self.column("streak")

    @property
    def retired_mask(self) -> NDArray[np.bool_]:
        """Which arms are given up, shape (K,)."""
        return self.streaks >= RETIRE_AFTER

    @property
    def sums(self) -> Sums:
        """Ratings received, their sum and that of their squares."""
        return Sums(self.counts.astype(np.float64), self.totals, self.totals_sq)

    def copied_sums(self) -> Sums:
        """Copy the counts of ratings, their sums and their sums of squares while another thread may write them.

        The three numbers of an arm belong together, unless the arms change in each of five tries.
        """
        sums = self.sums.by(np.copy)
        for _ in range(_COPIES):
            columns = list(zip(sums, self.sums, strict=True))
            changed = np.flatnonzero(np.any([copy != now for copy, now in columns], axis=0))
            if not len(changed):
                break
            for copy, now in columns:
                copy[changed] = now[changed]
        return sums

    @property
    def spent(self) -> int:
        """Units of the budget spent: one for each rating, and for each answer without one."""
        return int(self.counts.sum() + self.unparsed.sum())


class WritableArms(Arms):
    """The arms of a scheduler, or of the fold of what is on disk.

    The columns are ``array.array``: a scheduler reads and writes single entries several times a call, and numpy takes ten
    times as long for that.
    """

    __slots__ = ()

    n: array[int]
    pending: array[int]
    total: array[float]
    total_sq: array[float]
    n_unparsed: array[int]
    n_failed: array[int]
    streak: array[int]
    next_draw: array[int]

    def __init__(self, count: int) -> None:
        for name in Arms.__slots__:
            setattr(self, name, array("d" if name in _FLOATS else "q", bytes(8 * count)))

    def read_only(self) -> Arms:
        """Return a read-only view of the same memory."""
        return Arms(self)

    def add(self, arm: int, outcome: Outcome) -> int:
        """Count the outcome of calls of ``arm``; return the units of the budget that they cost, one for each answer."""
        if not isinstance(outcome, Unanswered):
            for rating in outcome:
                if rating is None:
                    self.add_unparsed(arm, final=isinstance(outcome, Final))
                else:
                    self.add_rating(arm, rating)
            return len(outcome)
        if outcome in {Unanswered.PERMANENT, Unanswered.TRANSIENT}:
            self.add_failure(arm, permanent=outcome is Unanswered.PERMANENT)
        return 0

    def add_rating(self, arm: int, rating: float) -> None:
        """Count one rating of ``arm``; it ends the arm's streak of answers without one."""
        self.n[arm] += 1
        self.total[arm] += rating
        self.total_sq[arm] += rating * rating
        self.streak[arm] = 0

    def add_unparsed(self, arm: int, *, final: bool = False) -> None:
        """Count one paid answer of ``arm`` that carries no rating; a final one retires the arm."""
        self.n_unparsed[arm] += 1
        self.streak[arm] += RETIRE_AFTER if final else 1

    def add_failure(self, arm: int, *, permanent: bool) -> None:
        """Count one call of ``arm`` without an answer; a permanent failure retires the arm."""
        self.n_failed[arm] += 1
        self.streak[arm] += RETIRE_AFTER if permanent else 1


def mean(n: IntArray, total: FloatArray) -> FloatArray:
    """Return the mean ratings, shape (K,); nan without a rating."""
    with np.errstate(invalid="ignore"):
        return total / n


def sample_variance(
    n: IntArray | FloatArray, total: FloatArray, total_sq: FloatArray
) -> FloatArray:
    """Return the unbiased variances s² = (Σx² − (Σx)²/n) / (n − 1), shape (K,); nan below two ratings."""
    counts = n.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = (counts * total_sq - total * total) / (counts * (counts - 1))
    # If ratings are not integers, rounding may leave a value just below zero.
    return np.where(counts >= 2, np.maximum(variance, 0.0), np.nan)
