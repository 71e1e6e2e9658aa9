"""Which arm a judgment is of: names are looked up some judgments at a time, in a table that is made once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.datasets.seen import Seen
from robin_cli.datasets.texts import Texts
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError
from robin_cli.model.space import ArmSpace

_AT_A_TIME = 100_000


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
        places = [self._pairs_of(judgments["pair_id"]), _places(judgments["attribute"], self._space.attributes)]
        if len(self._space.judges) > 1:  # where there is one, judgments from before its name was recorded are its own
            places.append(_places(judgments["judge"], self._space.judges))
        return self._space.arm_at(*places)

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
