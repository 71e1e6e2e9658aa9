"""state.parquet: the fold after the first segments of a run, so that resuming need not read them again.

It is used if its run id and the number and size of its segments match the run; else the judgments are folded. Both give the
same numbers, to the last bit. Scores and reports are computed from the judgments alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.parquet_tables import batches
from robin_cli.data.texts import Texts
from robin_cli.model.arms import mean
from robin_cli.model.errors import StorageError
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import COUNTED, SPENT, Fold
from robin_cli.run.layout import STATE, segment_path
from robin_cli.run.segments import judgments_by_arm
from robin_cli.run.tables import opened_table, table_writer

_KEY, _VERSION = b"robin", 3
_ROWS = 2**18
_SUMS = ("n", "n_unparsed", "n_failed", "streak", "next_draw", "total", "total_sq")
_FITTED = ("fitted_n", "fitted_total", "fitted_total_sq")


def fold_run(run: Path, space: ArmSpace, run_id: str, *, journal: bool = True) -> tuple[Fold, int]:
    """Return the fold of the judgments of ``run``, and how many segments its snapshot covers. StorageError for damage."""
    fold, covered = read_state(run, space, run_id) or (Fold(space), 0)
    for arm, judgments in judgments_by_arm(run, space, COUNTED, after=covered, journal=journal):
        fold.add(arm, judgments)
    return fold, covered


def write_state(run: Path, fold: Fold, run_id: str, segments: int) -> None:
    """Write the fold of the first ``segments`` segments of ``run`` to its state.parquet. OSError if the disk refuses."""
    facts = {
        "of": _position(run, run_id, segments),
        "judgments": fold.judgments,
        "fitted_at": fold.fitted_at,
        "spent": fold.spent,
    }
    text = orjson.dumps(facts, option=orjson.OPT_SERIALIZE_NUMPY)
    schema = _table(fold, slice(0)).schema.with_metadata({_KEY: text})
    with table_writer(run / STATE, schema) as writer:
        for start in range(0, len(fold.space), _ROWS):
            writer.write_table(_table(fold, slice(start, min(start + _ROWS, len(fold.space)))))


def read_state(run: Path, space: ArmSpace, run_id: str) -> tuple[Fold, int] | None:
    """Return the fold in the state.parquet of ``run`` and how many segments it covers; None if it does not fit the run."""
    fold, start = Fold(space), 0
    try:
        with opened_table(run / STATE) as (file, schema):
            facts = orjson.loads(schema.metadata[_KEY])
            segments: int = facts["of"]["segments"]
            if facts["of"] != _position(run, run_id, segments):
                return None
            fold.judgments, fold.fitted_at = facts["judgments"], facts["fitted_at"]
            for name in SPENT:
                fold.spent[name][:] = facts["spent"][name]
            if fold.fitted_at:
                fold.fitted = np.empty(len(space)), np.empty(len(space)), np.empty(len(space))
            arms = _columns(fold)
            for rows in batches(file, STATE, [*arms, "reason"]):
                part = slice(start, start + len(rows))
                for name, column in arms.items():
                    column[part] = rows[name].to_numpy()
                retired = np.flatnonzero(fold.arms.is_retired[part]).tolist()
                fold.reasons |= {start + row: rows["reason"][row].as_py() for row in retired}
                start += len(rows)
    except StorageError:
        return None
    return (fold, segments) if start == len(space) else None


def _position(run: Path, run_id: str, segments: int) -> dict[str, Any]:
    """Return the facts that identify a snapshot's place in a run. OSError if a segment is missing."""
    size = sum(segment_path(run, number).stat().st_size for number in range(1, segments + 1))
    return {"version": _VERSION, "run_id": run_id, "segments": segments, "bytes": size}


def _columns(fold: Fold) -> dict[str, NDArray[Any]]:
    """Return the columns of numbers that a fold goes on from, writable, shape (K,) each."""
    sums = {name: getattr(fold.writable.columns, name) for name in _SUMS}
    return sums | dict(zip(_FITTED, fold.fitted or (), strict=False))


def _table(fold: Fold, part: slice) -> pa.Table:
    """Return a row per arm of this part: the columns for people, and those that a fold goes on from."""
    arms, space = fold.arms, fold.space
    asked = space.attribute if len(space.variants) == 1 else space.variant
    columns: dict[str, Any] = {
        "pair_id": _names(space.pair_ids, space.pair[part]),
        "attribute": _names(space.asked, asked[part]),
    }
    if len(space.judges) > 1:
        columns["judge"] = _names(space.judges, space.judge[part])
    n, means = arms.n[part], mean(arms.n[part], arms.total[part])
    columns |= {"n": n, "mean": pa.array(means, from_pandas=True)}
    columns |= {"m2": arms.total_sq[part] - n * means**2, "n_unparsed": arms.n_unparsed[part]}
    columns |= {"retired": arms.is_retired[part]}
    reasons = [fold.reasons.get(arm) for arm in range(len(arms))[part]]
    columns["reason"] = pa.array(reasons, pa.string())
    return pa.table(columns | {name: column[part] for name, column in _columns(fold).items()})


def _names(known: Sequence[str], places: NDArray[Any]) -> pa.ChunkedArray:
    first, last = (int(places.min()), int(places.max())) if len(places) else (0, -1)
    near = Texts.from_texts(known).column.slice(
        first, last + 1 - first
    )  # a take costs its whole length
    return near.take(pa.array(places - first)).cast(pa.string())
