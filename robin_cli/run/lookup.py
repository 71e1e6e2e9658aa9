"""Lookup of the arms of judgments, many judgments at a time."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.texts import Texts
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError
from robin_cli.model.space import ArmSpace

_AT_A_TIME = 100_000


class ArmLookup:
    """Finds the arms of judgments by their pair_id, attribute and judge."""

    def __init__(self, space: ArmSpace) -> None:
        self._space = space
        self._ids = Texts.from_texts(space.pair_ids).column.combine_chunks()

    def arms_of(self, judgments: pa.Table) -> IntArray:
        """Return the arm of each judgment, shape (rows,).

        Raises:
            StorageError: the run does not have the pair, attribute or judge of a judgment.
        """
        if not len(judgments):
            return np.empty(0, dtype=np.int64)
        space = self._space
        pairs = self._pairs_of(judgments["pair_id"].cast(pa.large_string()).combine_chunks())
        asked = _places(judgments["attribute"], pa.array(space.asked, pa.large_string()))
        judge = _places(judgments["judge"], pa.array(space.judges, pa.large_string()))
        attribute, variant = (asked, 0) if len(space.variants) == 1 else (0, asked)
        return space.arm_at(pairs, attribute, judge, variant)

    def _pairs_of(self, ids: pa.Array) -> IntArray:
        hashes, order = self._sorted
        places = np.searchsorted(hashes, _hashed(ids))
        pairs: IntArray = order[np.minimum(places, len(order) - 1)]
        is_it = pc.equal(self._ids.take(pa.array(pairs)), ids).to_numpy(zero_copy_only=False)
        others = np.flatnonzero(~is_it)  # unknown ids, and collisions of hashes
        if len(others):
            pairs[others] = _places(ids.take(pa.array(others)), self._ids)
        return pairs

    @cached_property
    def _sorted(self) -> tuple[IntArray, IntArray]:
        """The hashes of the pairs' ids in rising order, and their pairs: 16 bytes a pair, where texts take 70."""
        hashes = _hashed(self._ids)
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order


def _hashed(ids: pa.Array) -> IntArray:
    parts = (ids.slice(start, _AT_A_TIME).to_pylist() for start in range(0, len(ids), _AT_A_TIME))
    return np.fromiter((hash(text) for part in parts for text in part), np.int64, len(ids))


def _places(names: pa.ChunkedArray | pa.Array, known: pa.Array) -> IntArray:
    """Return the place of each name among the ``known`` ones. StorageError for an unknown name."""
    places = pc.index_in(names.cast(pa.large_string()), value_set=known)
    if places.null_count:
        raise StorageError(
            "the run's judgments name a pair, an attribute or a judge that its pairs.parquet and manifest.json do not "
            "have; these files are not of one run"
        )
    return np.asarray(places.to_numpy(), dtype=np.int64)
