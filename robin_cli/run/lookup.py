"""Lookup of the arms of judgments, and of calls that have a judgment already, for many judgments at a time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.texts import Texts
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError
from robin_cli.model.space import ArmSpace
from robin_cli.run.seen import Seen

_AT_A_TIME = 100_000

CALLS_OF_AN_ARM = 2**32
"""More calls than an arm has. Call d of arm a has the number a · CALLS_OF_AN_ARM + d."""


class ArmLookup:
    """Finds the arms of judgments by their pair_id, attribute and judge."""

    def __init__(self, space: ArmSpace) -> None:
        self._space = space
        self._ids = _column(space.pair_ids)
        self._seen: Seen | None = (
            None  # made when it is needed: it takes seconds for ten million ids
        )

    def arms_of(self, judgments: pa.Table) -> IntArray:
        """Return the arm of each judgment, shape (rows,).

        Args:
            judgments: with the columns ``pair_id``, ``attribute`` and ``judge`` at least.

        Raises:
            StorageError: the run does not have the pair, attribute or judge of a judgment.
        """
        if not len(judgments):
            return np.empty(0, dtype=np.int64)
        places = [
            self._pairs_of(judgments["pair_id"]),
            _places(judgments["attribute"], self._space.asked),
            _places(judgments["judge"], self._space.judges),
        ]
        pairs, asked, judge = places
        attribute, variant = (asked, 0) if len(self._space.variants) == 1 else (0, asked)
        return self._space.arm_at(pairs, attribute, judge, variant)

    def _pairs_of(self, ids: pa.ChunkedArray) -> IntArray:
        if self._seen is None:
            self._seen = Seen(len(self._ids))
            for start in range(0, len(self._ids), _AT_A_TIME):
                self._seen.add(self._ids.slice(start, _AT_A_TIME).to_pylist(), start)
        found = np.concatenate(
            [
                self._seen.find(ids.slice(start, _AT_A_TIME).to_pylist())
                for start in range(0, len(ids), _AT_A_TIME)
            ]
        )
        named = ids.cast(pa.large_string()).combine_chunks()
        is_it = pc.equal(self._ids.take(pa.array(np.maximum(found, 0))), named).to_numpy(
            zero_copy_only=False
        )
        others = np.flatnonzero((found < 0) | ~is_it)  # unknown ids, and collisions of hashes
        if len(others):
            found[others] = _places(named.take(pa.array(others)), self._ids)
        return found


class Draws:
    """The calls of a run that have a judgment. A call has one: a second judgment is set aside.

    Calls of an arm are numbered as they are made, and answered nearly in order. So it keeps, for each arm, the number after the
    highest one, and the gaps below it: calls that were lost, or are not answered yet.

    Attributes:
        next: the number after the highest call of each arm, shape (arms,).
        missing: the first call of each gap and the call after it, numbered over all arms, rising, shape (2, gaps).
        set_aside: the number of judgments that were set aside.
    """

    def __init__(self, next_draws: IntArray) -> None:
        self.next = next_draws
        self.missing: IntArray = np.empty((2, 0), np.int64)
        self.set_aside = 0

    def first(self, arm: IntArray, draw: IntArray) -> NDArray[np.bool_]:
        """Add calls, and return whether each had no judgment before, shape (rows,)."""
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
        # The gap from the arm's previous call to this one: most are empty.
        before = np.where(
            is_lowest, arm * CALLS_OF_AN_ARM + self.next[arm], np.r_[0, keys[:-1] + 1][: len(keys)]
        )
        is_gap = before < keys
        if len(late) or is_gap.any():  # a call inside a gap divides it
            begin = np.sort(np.concatenate([begin, late + 1, before[is_gap]]))
            end = np.sort(np.concatenate([end, late, keys[is_gap]]))
            self.missing = np.stack([begin, end])[:, begin < end]
        np.maximum.at(self.next, arm, draw[new] + 1)
        found = np.empty(len(order), bool)
        found[order] = first
        self.set_aside += int(len(first) - first.sum())
        return found


def _places(names: pa.ChunkedArray | pa.Array, known: Sequence[str] | pa.Array) -> IntArray:
    """Return the place of each name among the ``known`` ones. StorageError for an unknown name."""
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
    return (
        names.column.combine_chunks()
        if isinstance(names, Texts)
        else pa.array(names, pa.large_string())
    )
