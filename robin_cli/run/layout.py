"""The files of a run directory."""

from __future__ import annotations

from pathlib import Path

from robin_cli.model.errors import StorageError

MANIFEST = "manifest.json"
PAIRS = "pairs.parquet"
COLUMNS = "columns.parquet"
VARIANCES = "variances.parquet"
JOURNAL = "journal.jsonl"
SEGMENTS = "judgments"
STATE = "state.parquet"
BATCHES = "batches"
LABELS = "labels.csv"
LOCK = "lock"

RESTORE = "Restore it from a copy"


def segment_path(run: Path, number: int) -> Path:
    """Return the path of a segment of ``run``; segments are numbered from 1."""
    return run / SEGMENTS / f"{number:05}.parquet"


def segment_count(run: Path) -> int:
    """Return the number of segments of ``run``. StorageError if one is missing."""
    files = (run / SEGMENTS).glob("*.parquet")
    numbers = {int(file.stem) for file in files if file.stem.isdecimal()}
    last = max(numbers, default=0)
    if missing := set(range(1, last)) - numbers:
        raise StorageError(
            f"{segment_path(run, min(missing))} is missing ({last - len(missing)} of {last} segments are there). {RESTORE}"
        )
    return last
