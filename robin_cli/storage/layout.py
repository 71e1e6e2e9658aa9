"""What lies where in a run directory."""

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
LOCK = "lock"
RESCUED = "rescued.jsonl"
REJECTED = "rescued-rejected.jsonl"


def segment_path(run: Path, number: int) -> Path:
    """Where a segment of ``run`` lies; they are numbered from 1."""
    return run / SEGMENTS / f"{number:05}.parquet"


def segment_count(run: Path) -> int:
    """How many segments ``run`` has. StorageError where one of them is missing, or their folder is a link."""
    folder = run / SEGMENTS
    if folder.is_symlink():
        raise StorageError(f"{folder}: it is a link, and none is followed here; put the folder itself there")
    numbers = {int(file.stem) for file in folder.glob("*.parquet") if file.stem.isdecimal()}
    last = max(numbers, default=0)
    if len(numbers) < last or 0 in numbers:
        raise StorageError(f"{folder}: segments are missing ({len(numbers)} of {last}); restore a copy")
    return last
