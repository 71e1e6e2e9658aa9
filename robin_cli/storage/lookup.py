"""Which arm a judgment is of, and whether its call has one already: looked up some judgments at a time, in tables made once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.datasets.seen import Seen
from robin_cli.datasets.texts import Texts
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError
from robin_cli.model.space import ArmSpace

_AT_A_TIME = 100_000

CALLS_OF_AN_ARM = 2**32
"""More than an arm has: what numbers of arms are multiplied by, that calls of all have numbers of their own."""


class ArmLookup:
    """Finds the arms of a run by the names that its judgments have for them."""

    def __init__(self, space: ArmSpace) -> None:
        self._space = space
        self._ids = _column(space.pair_ids)
        self._seen: Seen | None = None  # ten million ids are not looked up for nothing

    def arms_of(self, judgments: pa.Table) -> IntArray:
        """The arm of each judgment, shape (rows,).

        Args:
            judgments: with the columns ``pair_id``, ``attribute`` and ``judge`` at least.

        Raises:
            StorageError: a judgment of a pair, an attribute or a judge that the run does not have.
        """
        if not len(judgments):
            return np.empty(0, dtype=np.int64)
        places = [self._pairs_of(judgments["pair_id"]), _places(judgments["attribute"], self._space.asked)]
        judge: IntArray | int = 0  # where there is one, judgments from before its name was recorded are its own
        if len(self._space.judges) > 1:
            judge = _places(judgments["judge"], self._space.judges)
        pairs, asked = places
        attribute, variant = (asked, 0) if len(self._space.variants) == 1 else (0, asked)
        return self._space.arm_at(pairs, attribute, judge, variant)

    def _pairs_of(self, ids: pa.ChunkedArray) -> IntArray:
        if self._seen is None:
            self._seen = Seen(len(self._ids))
            for start in range(0, len(self._ids), _AT_A_TIME):
                self._seen.add(self._ids.slice(start, _AT_A_TIME).to_pylist(), start)
        found = np.concatenate(
            [self._seen.find(ids.slice(start, _AT_A_TIME).to_pylist()) for start in range(0, len(ids), _AT_A_TIME)]
        )
        named = ids.cast(pa.large_string()).combine_chunks()
        is_it = pc.equal(self._ids.take(pa.array(np.maximum(found, 0))), named).to_numpy(zero_copy_only=False)
        others = np.flatnonzero((found < 0) | ~is_it)  # not there, or of an id with another's hash
        if len(others):
            found[others] = _places(named.take(pa.array(others)), self._ids)
        return found


class Draws:
    """Which calls of a run have a judgment, for a call has one: who reads a second one sets it aside.

    The calls of an arm are numbered as they are made, and answered nearly in this order. So the number behind the highest one
    is kept for each arm, and of those below just the ones that are missing: calls that were lost, or are answered yet.

    Attributes:
        next: the number behind the highest one of each arm, shape (arms,).
        missing: where stretches of missing calls begin and end, numbered over all arms, rising, shape (2, stretches).
        set_aside: how many judgments came again.
    """

    def __init__(self, next_draws: IntArray) -> None:
        self.next = next_draws
        self.missing: IntArray = np.empty((2, 0), np.int64)
        self.set_aside = 0

    def first(self, arm: IntArray, draw: IntArray) -> NDArray[np.bool_]:
        """Take in calls, and return which of them had no judgment so far, shape (rows,)."""
        keys = arm * CALLS_OF_AN_ARM + draw
        order = np.argsort(keys, kind="stable")
        keys, arm, draw = keys[order], arm[order], draw[order]
        first = np.r_[True, keys[1:] != keys[:-1]][: len(keys)]
        is_late = draw < self.next[arm]
        begin, end = self.missing
        if is_late.any():
            at = np.searchsorted(begin, keys[is_late], side="right") - 1
            first[is_late] &= (at >= 0) & (keys[is_late] < np.r_[end, 0][at])
        late, new = keys[first & is_late], first & ~is_late
        keys, arm = keys[new], arm[new]
        is_lowest = np.r_[True, arm[1:] != arm[:-1]][: len(arm)]
        # A stretch from behind the call before, of this arm, to this one: most are empty.
        before = np.where(is_lowest, arm * CALLS_OF_AN_ARM + self.next[arm], np.r_[0, keys[:-1] + 1][: len(keys)])
        is_gap = before < keys
        if len(late) or is_gap.any():  # a call within a stretch divides it
            begin = np.sort(np.concatenate([begin, late + 1, before[is_gap]]))
            end = np.sort(np.concatenate([end, late, keys[is_gap]]))
            self.missing = np.stack([begin, end])[:, begin < end]
        np.maximum.at(self.next, arm, draw[new] + 1)
        found = np.empty(len(order), bool)
        found[order] = first
        self.set_aside += int(len(first) - first.sum())
        return found


def _places(names: pa.ChunkedArray | pa.Array, known: Sequence[str] | pa.Array) -> IntArray:
    """Where each of ``names`` stands among those that are ``known``. StorageError for one that is not."""
    places = pc.index_in(names.cast(pa.large_string()), value_set=_column(known))
    if places.null_count:
        raise StorageError(
            "the run's judgments name a pair, an attribute or a judge that its pairs.parquet and manifest.json do not "
            "have; these files are not of one run"
        )
    return np.asarray(places.to_numpy(), dtype=np.int64)


def _column(names: Sequence[str] | pa.Array) -> pa.Array:
    if isinstance(names, pa.Array):
        return names
    return names.column.combine_chunks() if isinstance(names, Texts) else pa.array(names, pa.large_string())
