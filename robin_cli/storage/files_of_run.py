"""Writing of a run's data and segments, and removal of temporary files that killed processes left."""

from __future__ import annotations

from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.datasets.pair_table import PairTable
from robin_cli.datasets.parquet_tables import read_table, written_table
from robin_cli.files.local import (
    is_temporary,
    others_may_write,
    reading,
    remove_leftovers,
    whole_file,
)
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import StorageError, typed
from robin_cli.storage.damage import UNREADABLE, unreadable
from robin_cli.storage.layout import (
    BATCHES,
    COLUMNS,
    JOURNAL,
    LOCK,
    MANIFEST,
    PAIRS,
    SEGMENTS,
    STATE,
    VARIANCES,
    segment_path,
)
from robin_cli.storage.pair_files import (
    GROUP_BYTES,
    write_columns,
    write_pairs,
    write_table,
)
from robin_cli.storage.schema import NUMBER

_OURS = frozenset({VARIANCES, JOURNAL, SEGMENTS, PAIRS, COLUMNS, BATCHES, LOCK})
_WRITTEN_HERE = frozenset({VARIANCES, STATE, JOURNAL, PAIRS, COLUMNS, MANIFEST})
_LEFT_BY_OTHERS = {
    f"{name}.tmp" for name in (*_WRITTEN_HERE, "report.html")
}  # temporary files of robin 0.1.0


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
        with reading(path) as file:
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


def write_segment(judgments: pa.Table, run: Path, number: int) -> None:
    """Write segment ``number`` of ``run``, with its number in the footer, in row groups of a bounded size."""
    table = judgments.replace_schema_metadata({NUMBER: b"%d" % number})
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
    return [
        name for name in names if name not in _OURS | _LEFT_BY_OTHERS and not is_temporary(name)
    ]


def remove_remains(run: Path) -> None:
    """Remove the temporary files of killed processes. The caller must have the run's lock."""
    remove_leftovers(run, of=lambda name: name in _WRITTEN_HERE)
    remove_leftovers(run / SEGMENTS, of=lambda name: name.endswith(".parquet"))
    for path in (
        *(run / name for name in _LEFT_BY_OTHERS),
        *(run / SEGMENTS).glob("*.parquet.tmp"),
    ):
        with suppress(OSError):
            path.unlink()


def exposure_of(run: Path) -> list[str]:
    """Return a line for the user if others may write to ``run``."""
    folders = [
        folder for folder in (run, run / SEGMENTS) if folder.exists() and others_may_write(folder)
    ]
    return [
        f"{folder}: others may write here, and change answers and where calls go; chmod 700 {typed(folder)} keeps it to you"
        for folder in folders[:1]
    ]
