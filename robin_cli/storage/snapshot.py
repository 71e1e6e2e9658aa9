"""state.parquet: the fold of a run's segments, kept so that a run of many judgments goes on without reading them again.

It covers the segments 1 to m, as they were when it was written, and what came after is added to it: the same numbers, to the
last bit, as a fold of all. One that does not fit the run, for whatever reason, is passed over and the judgments are folded;
no error is ever made of it.

That it fits is told by the run's id, by a digest over size and end (where a Parquet file has its index: rows, places and
sizes of its columns) of each segment that it covers, by the run's own pairs, attributes and judges in their order, and by
checksums over its own pages. What it says must be numbers that a fold could have: of their types, finite, none negative,
sums that the scale allows, and as many judgments, answers and ratings as the segments hold. So damage, another run's and an old
one are noticed. Who sends a run could make one that passes, as they could make judgments: it would say where the run goes on.
Scores and reports are made of the judgments alone, never of this.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.datasets.parquet_tables import batches, opened_file, readable, written_table
from robin_cli.files.local import reading, whole_file
from robin_cli.model.arms import FloatArray, IntArray, mean
from robin_cli.model.errors import RobinError
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.refits import last_refit
from robin_cli.model.space import ArmSpace
from robin_cli.storage.fold import COUNTED, SPENT, Fold
from robin_cli.storage.layout import STATE, segment_count, segment_path
from robin_cli.storage.lookup import CALLS_OF_AN_ARM
from robin_cli.storage.named import Named
from robin_cli.storage.reader import count_answers, judgments_by_arm

_VERSION = 1
_KEY = b"robin"
_END_BYTES = 2**16
_MOST = 2**53
_ROWS = 2**18
_INTS = ("n", "n_unparsed", "n_failed", "streak", "next_draw")
_FLOATS = ("total", "total_sq")
_FITTED = ("fitted_n", "fitted_total", "fitted_total_sq")


class _Unfit(Exception):
    """The snapshot says what no fold of this run would."""


class Covered:
    """What is known of a run's first segments, kept so that none is read again for each snapshot of a run under way.

    Whoever holds the run open for writing keeps one. A segment that is changed behind its back is noticed when the run is
    opened next.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._digested, self._digest = 0, hashlib.sha256()
        self._counted, self._answers = 0, (0, 0)

    def digest(self, segments: int) -> str:
        """A digest over size and end of the first ``segments`` segments."""
        if segments < self._digested:
            self._digested, self._digest = 0, hashlib.sha256()
        for number in range(self._digested + 1, segments + 1):
            with reading(segment_path(self._run, number)) as file:
                size = os.fstat(file.fileno()).st_size
                file.seek(max(0, size - _END_BYTES))
                self._digest.update(b"%d\n" % size + file.read(_END_BYTES))
            self._digested = number
        return self._digest.hexdigest()

    def answers(self, segments: int) -> tuple[int, int]:
        """Units of the budget spent in the first ``segments`` segments, and ratings among them."""
        if segments != self._counted:
            self._counted, self._answers = segments, count_answers(self._run, segments)
        return self._answers

    def hold(self, segments: int, fold: Fold) -> None:
        """Take the answers of the first ``segments`` segments from their fold."""
        self._counted, self._answers = segments, _answers_of(fold)


def folded(
    run: Path, space: ArmSpace, run_id: str, *, journal: bool = True, known: Covered | None = None
) -> tuple[Fold, int]:
    """The fold of the judgments of ``run``, and how many of its segments it took from the snapshot.

    Args:
        journal: whether to add what is in no segment yet.
        known: what is known of the segments; None for nothing.

    Raises:
        StorageError: the judgments cannot be read, or are not of these arms.
    """
    fold, covered = read_snapshot(run, space, run_id, known) or (Fold(space), 0)
    for arm, judgments in judgments_by_arm(run, space, COUNTED, after=covered, journal=journal, draws=fold.draws):
        fold.add(arm, judgments)
    return fold, covered


def write_snapshot(run: Path, fold: Fold, run_id: str, segments: int, known: Covered | None = None) -> None:
    """Put the fold of the first ``segments`` segments of ``run`` into its state.parquet. OSError if the disk refuses."""
    known = known or Covered(run)
    known.hold(segments, fold)
    covers = {
        "version": _VERSION,
        "run_id": run_id,
        "segments": segments,
        "digest": known.digest(segments),
        "judgments": fold.judgments,
        "fitted_at": fold.fitted_at,
        "missing": fold.draws.missing.tolist(),
        "spent": {name: values.tolist() for name, values in fold.spent.items()},
        "fitted_spent": {name: values.tolist() for name, values in fold.fitted_spent.items()},
    }
    text = orjson.dumps(covers)
    signed = hashlib.sha256(text).hexdigest().encode() + text
    parts = [slice(at, min(at + _ROWS, len(fold.space))) for at in range(0, len(fold.space), _ROWS)]
    schema = _state_table(fold, slice(0)).schema.with_metadata({_KEY: signed})
    with whole_file(run / STATE) as file, written_table(file, schema) as writer:
        for part in parts:
            writer.write_table(_state_table(fold, part))


def _state_table(fold: Fold, part: slice) -> pa.Table:
    """One row an arm of this part: the columns of the contract, and what else makes the fold whole."""
    arms = fold.arms
    n, totals, totals_sq = arms.counts[part], arms.totals[part], arms.totals_sq[part]
    means = mean(n, totals)
    rows = range(len(arms))[part]
    fitted = zip(_FITTED, fold.fitted, strict=True) if fold.fitted is not None else ()
    names = _names(fold.space, part)
    return pa.table(
        {
            "pair_id": names.pop("pair_id"),
            "attribute": names.pop("attribute"),
            "n": n,
            "mean": pa.array(means, from_pandas=True),
            "m2": totals_sq - n * (means**2),
            "n_unparsed": arms.unparsed[part],
            "retired": arms.retired_mask[part],
            **names,
            "reason": pa.array(list(map(fold.reasons.get, rows)) if fold.reasons else [None] * len(rows), pa.string()),
            **{name: np.frombuffer(getattr(arms, name))[part] for name in _FLOATS},
            **{
                name: np.frombuffer(getattr(arms, name), np.int64)[part] for name in ("n_failed", "streak", "next_draw")
            },
            **{name: values[part] for name, values in fitted},
        }
    )


def read_snapshot(run: Path, space: ArmSpace, run_id: str, known: Covered | None = None) -> tuple[Fold, int] | None:
    """The fold in the state.parquet of ``run`` and how many segments it covers; None where it does not fit the run."""
    path, known = run / STATE, known or Covered(run)
    try:
        with reading(path) as file, readable(str(path)):
            parquet, schema = opened_file(file, str(path))
            covers = _covers(schema.metadata or {})
            if parquet.metadata.num_rows != len(space) or covers["run_id"] != run_id:
                return None
            if not 0 < covers["segments"] <= segment_count(run) or covers["digest"] != known.digest(covers["segments"]):
                return None
            fold = _fold_in(batches(parquet, file, str(path), schema.names), covers, space)
        # Else one that takes answers for failures, which cost nothing, would have the budget spent twice.
        if known.answers(covers["segments"]) != _answers_of(fold):
            return None
    except (_Unfit, OSError, RobinError):
        return None
    return fold, covers["segments"]


def _covers(metadata: Mapping[bytes, bytes]) -> dict[str, Any]:
    signed = metadata[_KEY]
    if hashlib.sha256(signed[64:]).hexdigest().encode() != signed[:64]:
        raise _Unfit
    covers = orjson.loads(signed[64:])
    wanted = {
        "version": int,
        "run_id": str,
        "segments": int,
        "digest": str,
        "judgments": int,
        "fitted_at": int,
        "missing": list,
        "spent": dict,
        "fitted_spent": dict,
    }
    if any(type(covers[name]) is not kind for name, kind in wanted.items()) or covers["version"] != _VERSION:
        raise _Unfit
    return dict(covers)


def _fold_in(rows: Iterable[pa.RecordBatch], covers: Mapping[str, Any], space: ArmSpace) -> Fold:
    """The fold that ``rows`` and ``covers`` make. _Unfit, or any error of a table, where they make none."""
    fold = Fold(space)
    fold.judgments, fold.fitted_at = covers["judgments"], covers["fitted_at"]
    if fold.fitted_at:
        fold.fitted = np.empty(len(space)), np.empty(len(space)), np.empty(len(space))
    at = 0
    for batch in rows:
        _take_in(fold, batch, slice(at, at + len(batch)))
        at += len(batch)
    fold.draws.missing = _missing(covers["missing"], fold.draws.next)
    n = fold.arms.counts.sum()
    if at != len(space) or int(n + fold.arms.unparsed.sum() + fold.arms.failed.sum()) != fold.judgments:
        raise _Unfit
    if fold.fitted_at != last_refit(int(n), space.first_fit):
        raise _Unfit
    for name, kind in SPENT.items():
        fold.spent[name], fold.fitted_spent[name] = (
            _spent(covers[when][name], kind, len(space.judges)) for when in ("spent", "fitted_spent")
        )
    return fold


def _missing(listed: Any, next_draws: IntArray) -> IntArray:
    """The calls below ``next_draws`` without a judgment, as :class:`Draws` has them. _Unfit where they are none."""
    found = np.array(listed)
    if found.shape != (2, 0) and (found.dtype != np.int64 or found.ndim != 2 or len(found) != 2):
        raise _Unfit
    (arm, begin), (same, end) = (np.divmod(each.astype(np.int64), CALLS_OF_AN_ARM) for each in found)
    flat = found.T.ravel()
    if (flat[1:] < flat[:-1]).any() or (arm != same).any() or (found < 0).any() or (arm >= len(next_draws)).any():
        raise _Unfit
    if (begin >= end).any() or (end >= next_draws[arm]).any():
        raise _Unfit
    return found.astype(np.int64)


def _take_in(fold: Fold, rows: pa.RecordBatch, part: slice) -> None:
    """Put ``rows`` into the arms of ``part``, and what was fitted to them."""
    named = _names(fold.space, part)
    if any(not pa.chunked_array([rows[name].cast(pa.string())]).equals(values) for name, values in named.items()):
        raise _Unfit
    arms = fold.arms
    for name in _INTS:
        np.frombuffer(getattr(arms, name), np.int64)[part] = _column(rows, name, pa.int64())
    for name in _FLOATS:
        np.frombuffer(getattr(arms, name))[part] = _column(rows, name, pa.float64())
    ends = fold.space.ends_of(part)
    _check_sums(ends, arms.counts[part], arms.totals[part], arms.totals_sq[part])
    if fold.fitted is not None:
        for name, values in zip(_FITTED, fold.fitted, strict=True):
            values[part] = _column(rows, name, pa.float64())
        _check_sums(ends, *(values[part] for values in fold.fitted))
    retired = np.flatnonzero(np.frombuffer(arms.streak, np.int64)[part] >= RETIRE_AFTER)
    reasons = rows["reason"].cast(pa.string()).take(pa.array(retired)).to_pylist()
    fold.reasons |= {part.start + arm: _text(reason) for arm, reason in zip(retired.tolist(), reasons, strict=True)}


def _spent(listed: Any, kind: type, judges: int) -> NDArray[Any]:
    """What each judge took, by one of the names of SPENT. _Unfit where a fold has no such numbers."""
    values = np.array(listed)
    if values.dtype != kind or values.shape != (judges,) or not np.isfinite(values).all() or values.min() < 0:
        raise _Unfit
    return values


def _column(rows: pa.RecordBatch, name: str, kind: pa.DataType) -> NDArray[Any]:
    """Numbers of a column: of its type, all there, finite, none negative but sums of ratings."""
    values: NDArray[Any] = rows[name].to_numpy(zero_copy_only=False)
    if rows[name].type != kind or rows[name].null_count or not (np.abs(values) <= _MOST).all():
        raise _Unfit
    if name in _INTS and values.min() < 0:
        raise _Unfit
    return values


def _check_sums(ends: tuple[FloatArray, FloatArray], n: Any, total: FloatArray, total_sq: FloatArray) -> None:
    """_Unfit where ``n`` ratings on scales of these ``ends`` have no such sum, or no such sum of squares."""
    low, high = ends
    slack = 1e-9 * (1.0 + n * np.maximum(low**2, high**2))
    within = (n * low - slack <= total) & (total <= n * high + slack) & (total**2 <= n * (total_sq + slack) + slack)
    if not (within & (n >= 0) & (total_sq <= n * np.maximum(low**2, high**2) + slack)).all():
        raise _Unfit


def _text(reason: str | None) -> str:
    if reason is None:
        raise _Unfit
    return reason


def _names(space: ArmSpace, part: slice) -> dict[str, pa.ChunkedArray]:
    """The columns that say which arm a row of ``part`` is of; the judge's only where there are several."""
    names = {"pair_id": (space.pair_ids, space.pair), "attribute": (space.attributes, space.attribute)}
    if len(space.judges) > 1:
        names["judge"] = (space.judges, space.judge)
    return {name: Named(known, at[part]).column.cast(pa.string()) for name, (known, at) in names.items()}


def _answers_of(fold: Fold) -> tuple[int, int]:
    return fold.arms.spent, int(fold.arms.counts.sum())
