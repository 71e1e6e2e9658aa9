"""The files of a run directory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from robin_cli.model.errors import StorageError, typed

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
RESCUED = "rescued.jsonl"
REJECTED = "rescued-rejected.jsonl"
_NAMED = 5

CALLED: dict[Path, str] = {}
"""Temporary run folders that were made of a file of scores, and the names of these files."""


def name_of(run: Path) -> str:
    """Return the name of the run for users: its path, or the file of scores that it was made of."""
    return CALLED.get(run, str(run))


def segment_path(run: Path, number: int) -> Path:
    """Return the path of a segment of ``run``; segments are numbered from 1."""
    return run / SEGMENTS / f"{number:05}.parquet"


def lost_path(run: Path, number: int) -> Path:
    """Return the path of the file with which the owner of ``run`` gives up a lost segment, so that the run goes on without it.

    Tools that read the folder of segments as one table ignore names with a leading underscore.
    """
    return run / SEGMENTS / f"_{number:05}.lost"


def lost_segments(run: Path) -> frozenset[int]:
    """Return the numbers of the segments that were given up, except those that exist again."""
    numbers = (file.stem.removeprefix("_") for file in (run / SEGMENTS).glob("_*.lost"))
    found = map(int, filter(str.isdecimal, numbers))
    return frozenset(
        number for number in found if number and not segment_path(run, number).exists()
    )


def segment_count(run: Path) -> int:
    """Return the number of segments of ``run``, with lost ones. StorageError if one is missing."""
    folder = run / SEGMENTS
    numbers = {int(file.stem) for file in folder.glob("*.parquet") if file.stem.isdecimal()}
    if 0 in numbers:
        raise StorageError(
            f"{segment_path(run, 0)}: segments are numbered from 1; move this file away"
        )
    numbers |= lost_segments(run)
    last = max(numbers, default=0)
    if len(numbers) < last:
        missing = list(
            islice((number for number in range(1, last) if number not in numbers), _NAMED)
        )
        raise StorageError(
            f"{folder}: segments are missing ({len(numbers)} of {last} are there). {way_on(run, missing)}"
        )
    return last


def way_on(run: Path, missing: Sequence[int]) -> str:
    """Return the next step of an error about missing segments of ``run``; it names the first of them."""
    files = ", ".join(str(lost_path(run, number)) for number in missing[:_NAMED])
    some = "an empty file" if len(missing) == 1 else "empty files"
    return (
        f"Restore it from a copy. If there is none, go on without these answers: make {some} {files}, and "
        f"robin resume {typed(run)} asks for as many again"
    )
