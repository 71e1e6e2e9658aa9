"""state.parquet: a snapshot of the fold after the first segments of a run, so that resuming need not read them again.

It is used if its run id and the number and size of its segments match the run; else the judgments are folded. Both give the
same numbers, to the last bit. Scores and reports are computed from the judgments alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.data.local import whole_file
from robin_cli.data.parquet_tables import batches, opened_file, readable, written_table
from robin_cli.model.arms import mean
from robin_cli.model.errors import RobinError
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import COUNTED, SPENT, Fold
from robin_cli.run.layout import STATE, segment_path
from robin_cli.run.named import Named
from robin_cli.run.segments import judgments_by_arm

_KEY, _VERSION = b"robin", 2
_ROWS = 2**18
_MOST_CALLS = 2**31
"""The most calls of an arm. Readers do not accept higher numbers."""
_SUMS = ("n", "n_unparsed", "n_failed", "streak", "next_draw", "total", "total_sq")
_FITTED = ("fitted_n", "fitted_total", "fitted_total_sq")


def folded(run: Path, space: ArmSpace, run_id: str, *, journal: bool = True) -> tuple[Fold, int]:
    """Return the fold of the judgments of ``run``, and the number of segments in its snapshot. StorageError for damage."""
    fold, covered = read_snapshot(run, space, run_id) or (Fold(space), 0)
    for arm, judgments in judgments_by_arm(
        run, space, COUNTED, after=covered, journal=journal, draws=fold.draws
    ):
        fold.add(arm, judgments)
    return fold, covered


def write_snapshot(run: Path, fold: Fold, run_id: str, segments: int) -> None:
    """Write the fold of the first ``segments`` segments of ``run`` to its state.parquet. OSError if the disk refuses."""
    covers = {
        "of": _position(run, run_id, segments),
        "judgments": fold.judgments,
        "fitted_at": fold.fitted_at,
    }
    covers |= {"missing": fold.draws.missing.tolist(), "spent": fold.spent}
    text = orjson.dumps(covers, option=orjson.OPT_SERIALIZE_NUMPY)
    schema = _table(fold, slice(0)).schema.with_metadata({_KEY: text})
    with whole_file(run / STATE) as file, written_table(file, schema) as writer:
        for at in range(0, len(fold.space), _ROWS):
            writer.write_table(_table(fold, slice(at, min(at + _ROWS, len(fold.space)))))


def read_snapshot(run: Path, space: ArmSpace, run_id: str) -> tuple[Fold, int] | None:
    """Return the fold in the state.parquet of ``run`` and how many segments it covers; None if it does not fit the run."""
    fold, at = Fold(space), 0
    try:
        with (run / STATE).open("rb") as file, readable(STATE):
            parquet, schema = opened_file(file, STATE)
            covers = orjson.loads((schema.metadata or {})[_KEY])
            segments: int = covers["of"]["segments"]
            if covers["of"] != _position(run, run_id, segments) or parquet.metadata.num_rows != len(
                space
            ):
                return None
            fold.judgments, fold.fitted_at = covers["judgments"], covers["fitted_at"]
            if fold.fitted_at:
                fold.fitted = np.empty(len(space)), np.empty(len(space)), np.empty(len(space))
            for rows in batches(parquet, STATE, schema.names):
                _take_in(fold, rows, at)
                at += len(rows)
        fold.draws.missing = np.array(covers["missing"], np.int64).reshape(2, -1)
        for name in SPENT:
            fold.spent[name][:] = covers["spent"][name]
    except (OSError, RobinError, LookupError, TypeError, ValueError):
        return None
    # a negative cost would lift the limit on money
    is_paid = all((values >= 0).all() for values in fold.spent.values())
    return (fold, segments) if is_paid else None


def _position(run: Path, run_id: str, segments: int) -> dict[str, Any]:
    """Return the facts that identify a snapshot's place in a run. OSError if a segment is missing."""
    size = sum(segment_path(run, number).stat().st_size for number in range(1, segments + 1))
    return {"version": _VERSION, "run_id": run_id, "segments": segments, "bytes": size}


def _table(fold: Fold, part: slice) -> pa.Table:
    """Return a row per arm of this part: the columns of the contract, and the rest of the fold."""
    arms, space = fold.arms, fold.space
    n, totals, totals_sq = arms.n[part], arms.total[part], arms.total_sq[part]
    means = mean(n, totals)
    names = {
        "pair_id": (space.pair_ids, space.pair),
        "attribute": (space.asked, space.attribute if len(space.variants) == 1 else space.variant),
    }
    if len(space.judges) > 1:
        names["judge"] = (space.judges, space.judge)
    retired = arms.is_retired[part]
    columns = {
        name: Named(known, at[part]).column.cast(pa.string()) for name, (known, at) in names.items()
    }
    columns |= {"n": n, "mean": pa.array(means, from_pandas=True), "m2": totals_sq - n * means**2}
    columns |= {"n_unparsed": arms.n_unparsed[part], "retired": retired}
    columns["reason"] = pa.array(
        [fold.reasons.get(arm) for arm in range(len(arms))[part]], pa.string()
    )
    columns |= {name: _column(fold, name)[part] for name in _SUMS}
    return pa.table(
        columns
        | {name: values[part] for name, values in zip(_FITTED, fold.fitted or (), strict=False)}
    )


def _take_in(fold: Fold, rows: pa.RecordBatch, at: int) -> None:
    """Copy ``rows`` into the arms from ``at`` on. ValueError for impossible numbers."""
    part = slice(at, at + len(rows))
    for name in _SUMS:
        values, column = rows[name].to_numpy(), _column(fold, name)
        is_within = (
            np.isfinite(values) if column.dtype == float else (values >= 0) & (values < _MOST_CALLS)
        )
        if column.dtype != values.dtype or not is_within.all():
            raise ValueError(name)
        column[part] = values
    for name, fitted in zip(_FITTED, fold.fitted or (), strict=False):
        fitted[part] = rows[name].to_numpy()
    retired = np.flatnonzero(fold.arms.is_retired[part]).tolist()
    fold.reasons |= {at + place: rows["reason"][place].as_py() for place in retired}


def _column(fold: Fold, name: str) -> NDArray[Any]:
    column: NDArray[Any] = getattr(fold.writable.columns, name)
    return column
