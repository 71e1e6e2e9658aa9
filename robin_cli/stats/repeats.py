"""Judges that repeat themselves: once enough repeats agree, further ratings of the same pairs say nothing new."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import Arms, IntArray
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.space import ArmSpace

FEWEST = 59
"""Repeats that must agree. If 5 % of all differed, they would all agree less than 1 time in 20: 0.95^59 < 0.05."""

_MOST = 60
"""Repeats of expectations, made or under way; one more than needed, as an answer may have no rating."""

_LEAST_UNDER_WAY, _PAIRS_FOR_EACH = 8, 25
"""Of second ratings that agree, one for so many pairs is under way if the run may end meanwhile: those are wasted then."""

_SAME = 0.005
"""Expectations of a pair agree within this share of the scale: servers compute equal requests a little differently."""

_ENDLESS = 2**62


class Repeated(NamedTuple):
    """The repeats of each judge's ratings of an attribute, shape (attributes, judges) each.

    A repeat is a rating of a pair beyond the first, of the same variant of the question. Pairs that were given up do not count.

    Attributes:
        agree: whether each repeat agrees with the other ratings of its pair.
        waits: whether a pair still lacks the ratings that every pair gets first.
        made, sent: the repeats that came, and those with the ones under way; of several variants, the fewest.
    """

    agree: NDArray[np.bool_]
    waits: NDArray[np.bool_]
    made: IntArray
    sent: IntArray

    @property
    def is_certain(self) -> NDArray[np.bool_]:
        """Whether the judge repeats itself."""
        return self.agree & ~self.waits & (self.made >= FEWEST)


class Limits:
    """The limits of calls at one time, each by :attr:`ArmSpace.kind`.

    Args:
        calls: the most calls of each arm.
        room: the repeats that may still begin.
    """

    def __init__(self, calls: IntArray, room: IntArray) -> None:
        self._calls, self._most, self._room = calls, calls.tolist(), room.tolist()

    def may_be_asked(self, made: IntArray) -> NDArray[np.bool_]:
        """Return whether each arm may get another call after ``made``, shape (K,)."""
        return (made.reshape(-1, len(self._calls)) < self._calls).ravel()

    def at_once(self, arm: int, made: int) -> int:
        """Return the most calls of a request of ``arm`` after ``made`` calls; below 1 for none."""
        kind = arm % len(self._room)
        most = 1 if self._room[kind] < _ENDLESS else self._most[kind] - made
        return min(most, self._room[kind], self._most[kind] - made) if made else most

    def count(self, arm: int, made: int, calls: int) -> None:
        """Count a request of ``calls`` calls of ``arm`` after ``made``."""
        if made and self._room[arm % len(self._room)] < _ENDLESS:
            self._room[arm % len(self._room)] -= calls


class Repeats:
    """Finds judges that repeat themselves, and limits their calls, by the ratings and calls under way alone.

    While all repeats agree, no pair gets a third rating before every pair has two. Expectations show their noise at once: every
    pair gets one rating, then some get a second. A judge that repeats itself is only asked about pairs that it has not rated.

    Args:
        expected: whether the ratings of each judge are expectations.
        asks_all: whether every pair is to be rated, not only those that a policy asks about.
        ends: whether the run may end meanwhile, once few decisions are likely wrong.
    """

    def __init__(
        self, space: ArmSpace, expected: Sequence[bool], *, asks_all: bool, ends: bool = False
    ) -> None:
        low, high = space.ends
        of_judge = np.array(expected)[space.judge]
        self._space, self._asks_all, self._ends = space, asks_all, ends
        # By attribute, variant and judge. n Σx² − (Σx)² of two ratings is their squared distance.
        self._is_expected = space.by_axis(of_judge)[0]
        self._apart = space.by_axis(np.where(of_judge, _SAME * (high - low), 0.0) ** 2 / 2.0)[0]

    @property
    def first(self) -> int:
        """The ratings that every pair gets first, by the judge that needs most."""
        return 1 if self._is_expected.all() else 2

    def repeated(self, arms: Arms) -> Repeated:
        """Return the repeats of each judge and attribute."""
        columns = (arms.n, arms.pending, arms.total, arms.total_sq)
        n, under_way, total, total_sq = map(self._space.by_axis, columns)
        is_kept, calls = self._kept(arms), n + under_way
        differs = is_kept & (n * total_sq - total**2 > self._apart * (n * (n - 1)))
        waits = is_kept & (n < np.where(self._is_expected, 1, 2))
        if not self._asks_all:
            waits &= calls > 0
        made, sent = ((np.maximum(column - 1, 0) * is_kept).sum(axis=0) for column in (n, calls))
        return Repeated(
            np.asarray(~differs.any(axis=(0, 2))),
            np.asarray(waits.any(axis=(0, 2))),
            made.min(axis=1),
            sent.min(axis=1),
        )

    def limits(self, arms: Arms) -> Limits | None:
        """Return the limits of calls as things stand; None if the repeats of every judge differ."""
        repeated = self.repeated(arms)
        if not repeated.agree.any():
            return None
        agree, waits, certain = (
            column[:, None] for column in (repeated.agree, repeated.waits, repeated.is_certain)
        )
        made, sent = (column[:, None] for column in (repeated.made, repeated.sent))
        is_second = waits & ~self._is_expected
        counted = np.where(is_second, sent - made, sent)
        is_limited = agree & (~is_second | self._ends)
        under_way = max(_LEAST_UNDER_WAY, len(self._space.pair_ids) // _PAIRS_FOR_EACH)
        most = np.where(is_second, under_way, _MOST)
        room = np.where(is_limited, np.maximum(0, most - counted), _ENDLESS)
        once = agree & (certain | (room == 0) | (waits & self._is_expected))
        calls = np.where(once, 1, np.where(agree & is_second, 2, _ENDLESS))
        return Limits(calls.ravel(), room.ravel())

    def _kept(self, arms: Arms) -> NDArray[np.bool_]:
        """Return which arms are not given up, by axis: a comparison is given up with either of its orders."""
        is_kept = self._space.by_axis(arms.streak) < RETIRE_AFTER
        if len(self._space.variants) > 1:
            is_kept = is_kept & is_kept.all(axis=(2, 3), keepdims=True)
        return is_kept

    def end_the_run(self, arms: Arms) -> bool:
        """Return whether every judge repeats itself that has a pair to rate, and has rated every one."""
        is_kept = self._kept(arms)
        is_certain = self.repeated(arms).is_certain
        is_over = is_certain | ~is_kept.any(axis=(0, 2))
        is_rated = self._space.by_axis(arms.n) > 0
        return bool(is_certain.any() and is_over.all() and (is_rated | ~is_kept).all())
