"""Writing of a run's data and segments, and removal of temporary files that killed processes left."""

from __future__ import annotations

from fnmatch import fnmatch
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.local import TEMPORARY, whole_file
from robin_cli.data.pair_table import PairTable
from robin_cli.data.parquet_tables import read_table, written_table
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import StorageError
from robin_cli.run.damage import UNREADABLE, unreadable
from robin_cli.run.layout import (
    BATCHES,
    COLUMNS,
    JOURNAL,
    LOCK,
    PAIRS,
    SEGMENTS,
    VARIANCES,
    segment_path,
)
from robin_cli.run.pair_files import GROUP_BYTES, write_columns, write_pairs, write_table
from robin_cli.run.schema import NUMBER, RUN_ID

_OURS = frozenset({VARIANCES, JOURNAL, SEGMENTS, PAIRS, COLUMNS, BATCHES, LOCK})


def write_data(run: Path, pairs: PairTable, variances: FloatArray | None) -> None:
    """Write the pairs of a new run, and the ``variances`` that its scheduler starts with. OSError if the disk refuses."""
    (run / SEGMENTS).mkdir(mode=0o700, exist_ok=True)
    write_pairs(pairs, run / PAIRS)
    write_columns(pairs, run / COLUMNS)
    if variances is not None:
        write_table(pa.table({"variance": variances}), run / VARIANCES)


def read_variances(run: Path, arms: int) -> FloatArray | None:
    """Return the variances that the scheduler of ``run`` started with, shape (K,), or None. StorageError for damage."""
    path = run / VARIANCES
    try:
        with path.open("rb") as file:
            found: FloatArray = (
                read_table(file, str(path), ["variance"])["variance"].to_numpy().astype(np.float64)
            )
    except FileNotFoundError:
        return None
    except UNREADABLE as error:
        raise unreadable(path, error) from error
    if len(found) != arms or not (np.isfinite(found) & (found >= 0)).all():
        raise StorageError(
            f"{path}: does not hold a variance for each score of its run; restore it from a copy"
        )
    return found


def write_segment(judgments: pa.Table, run: Path, run_id: str, number: int) -> None:
    """Write segment ``number`` of ``run``, with both in the footer, in row groups of a bounded size."""
    table = judgments.replace_schema_metadata({NUMBER: b"%d" % number, RUN_ID: run_id.encode()})
    lengths = sum(
        pc.binary_length(table[name]).to_numpy().astype(np.int64) for name in ("text", "feedback")
    )
    ends = np.flatnonzero(np.diff(np.cumsum(lengths) // GROUP_BYTES)) + 1
    with whole_file(segment_path(run, number)) as file, written_table(file, table.schema) as writer:
        for start, end in pairwise([0, *ends.tolist(), len(table)]):
            writer.write_table(table.slice(start, end - start))


def foreign_in(run: Path) -> list[str]:
    """Return the sorted names in a folder that neither a run nor a killed robin left there. OSError if it cannot be listed."""
    names = sorted(each.name for each in run.iterdir())
    return [name for name in names if name not in _OURS and not fnmatch(name, TEMPORARY)]


def remove_remains(run: Path) -> None:
    """Remove the temporary files of killed processes. The caller must have the run's lock."""
    for folder in (run, run / SEGMENTS, run / BATCHES):
        for path in folder.glob(TEMPORARY):
            path.unlink()
