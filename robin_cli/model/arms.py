"""The arms of a run as columns of numbers, from which every next call is chosen."""

from __future__ import annotations

from array import array
from collections.abc import Callable
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


COLUMNS = (
    *("n", "pending", "total", "total_sq"),
    *("n_unparsed", "n_failed", "streak", "next_draw"),
)
_FLOATS = {"total", "total_sq"}
_COPIES = 5


class Arms:
    """The sums over the ratings of K arms, and their calls under way, as numpy arrays of shape (K,).

    The arrays show the memory of a `WritableArms`, and cannot be written except by its owner: a
    scheduler, or the fold of what is on disk. Nothing else can change a number that calls are
    chosen by.

    Ratings are kept as exact sums, not as a running mean. For integer ratings the sums are the same
    in every order, so a resumed run has bit for bit the state of a run that never stopped.

    Attributes:
        n: ratings.
        pending: calls reserved that have no outcome yet.
        total: the sum of the ratings.
        total_sq: the sum of their squares.
        n_unparsed: paid answers without a rating.
        n_failed: calls that brought no answer.
        streak: judgments without a rating since the last rating; a final one adds
            RETIRE_AFTER.
        next_draw: the number of the arm's next call.
    """

    __slots__ = COLUMNS

    n: IntArray
    pending: IntArray
    total: FloatArray
    total_sq: FloatArray
    n_unparsed: IntArray
    n_failed: IntArray
    streak: IntArray
    next_draw: IntArray

    def __init__(self, writable: WritableArms, *, is_read_only: bool = True) -> None:
        for name in COLUMNS:
            memory = memoryview(getattr(writable, name))
            kind = np.float64 if name in _FLOATS else np.int64
            column = np.frombuffer(memory.toreadonly() if is_read_only else memory, dtype=kind)
            setattr(self, name, column)

    def __len__(self) -> int:
        return len(self.n)

    @property
    def is_retired(self) -> NDArray[np.bool_]:
        """Whether each arm is given up, because its last judgments all came without a rating."""
        return self.streak >= RETIRE_AFTER

    @property
    def sums(self) -> Sums:
        """The counts of ratings, their sums and those of their squares."""
        return Sums(self.n.astype(np.float64), self.total, self.total_sq)

    def copied_sums(self) -> Sums:
        """Copy the sums while another thread may write them.

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
        return int(self.n.sum() + self.n_unparsed.sum())


class WritableArms:
    """The arms of a scheduler, or of the fold of what is on disk; the columns are those of `Arms`.

    The columns are ``array.array``: a scheduler reads and writes single entries several times a
    call, and numpy takes ten times as long for that.
    """

    __slots__ = COLUMNS

    n: array[int]
    pending: array[int]
    total: array[float]
    total_sq: array[float]
    n_unparsed: array[int]
    n_failed: array[int]
    streak: array[int]
    next_draw: array[int]

    def __init__(self, count: int) -> None:
        for name in COLUMNS:
            setattr(self, name, array("d" if name in _FLOATS else "q", bytes(8 * count)))

    def __len__(self) -> int:
        return len(self.n)

    def retired(self, arm: int) -> bool:
        """Return whether ``arm`` is given up."""
        return self.streak[arm] >= RETIRE_AFTER

    def read_only(self) -> Arms:
        """Return the columns as arrays over the same memory that cannot be written."""
        return Arms(self)

    @property
    def columns(self) -> Arms:
        """The columns as arrays over the same memory that write to it."""
        return Arms(self, is_read_only=False)

    def add(self, arm: int, outcome: Outcome) -> int:
        """Count the outcome of calls of ``arm``; return the units of the budget that they cost."""
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


def mean(n: IntArray | FloatArray, total: FloatArray) -> FloatArray:
    """Return the mean ratings, of any shape; nan without a rating."""
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
