"""The judgments of a run on disk: sealed segments and then the journal, in the order they came."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.model.arms import IntArray
from robin_cli.model.errors import StorageError, shown
from robin_cli.model.records import Judgment
from robin_cli.model.space import ArmSpace
from robin_cli.run.journal import JournalContent, read_journal
from robin_cli.run.layout import COLUMNS, JOURNAL, RESTORE, segment_count, segment_path
from robin_cli.run.lookup import ArmLookup
from robin_cli.run.manifest import Manifest, read_manifest
from robin_cli.run.schema import JUDGMENTS, judgments_table
from robin_cli.run.tables import count_rows, read_table, table_writer

GROUP_BYTES = 2**25
"""A row group ends after this many bytes of texts: its pages, which are decoded whole, are then no longer."""
_ROWS_AT_ONCE = 500_000
_NUMBER, _RUN_ID = b"robin_segment", b"robin_run"
"""Metadata with the number and the run of a segment, so that no copy of another can replace it."""


def write_segment(judgments: pa.Table, run: Path, run_id: str, number: int) -> None:
    """Write segment ``number`` of ``run``. OSError if the disk refuses."""
    metadata = {_NUMBER: b"%d" % number, _RUN_ID: run_id.encode()}
    lengths = sum(
        pc.binary_length(judgments[name]).to_numpy().astype(np.int64)
        for name in ("text", "feedback")
    )
    ends = np.flatnonzero(np.diff(np.cumsum(lengths) // GROUP_BYTES)) + 1
    schema = judgments.schema.with_metadata(metadata)
    with table_writer(segment_path(run, number), schema) as writer:
        for start, end in pairwise([0, *ends.tolist(), len(judgments)]):
            writer.write_table(judgments.slice(start, end - start))


def read_judgments(
    path: Path,
    columns: Sequence[str] = tuple(JUDGMENTS.names),
    *,
    after: int = 0,
    journal: bool = True,
) -> Iterator[pa.Table]:
    """Return the judgments of the run at ``path``, which are read a segment at a time.

    Args:
        columns: the columns to read.
        after: the number of segments to skip.
        journal: whether to read the journal.

    Raises:
        RunError: there is no run.
        StorageError: files are damaged or missing, also as the judgments are read.
    """
    manifest = read_manifest(path)
    if not journal:
        return _read_segments(path, manifest, columns, range(after + 1, segment_count(path) + 1))
    segments, _, rows = read_whole(path, manifest)
    last = [journal_table(path / JOURNAL, rows).select(columns)] if rows else []
    return chain(_read_segments(path, manifest, columns, range(after + 1, segments + 1)), last)


def _read_segments(
    path: Path, manifest: Manifest, columns: Sequence[str], numbers: Iterable[int]
) -> Iterator[pa.Table]:
    schema = pa.schema([JUDGMENTS.field(name) for name in columns])
    for number in numbers:
        name = segment_path(path, number)
        table = read_table(name, columns)
        metadata = table.schema.metadata or {}
        if metadata.get(_RUN_ID) != manifest.run_id.encode():
            raise StorageError(f"{name}: is a segment of another run. {RESTORE}")
        if (copied := metadata.get(_NUMBER, b"?")) != b"%d" % number:
            raise StorageError(f"{name}: is a copy of segment {shown(copied.decode())}. {RESTORE}")
        if not table.schema.equals(schema):
            raise StorageError(f"{name}: has other columns than robin writes. {RESTORE}")
        yield table


def read_whole(path: Path, manifest: Manifest) -> tuple[int, JournalContent, list[dict[str, Any]]]:
    """Return a run's number of segments, its journal, and the journal's rows that no segment holds.

    This is safe beside a writer, which makes a segment first and then the next journal: what is read first never
    mentions data that a later read could miss.

    Args:
        manifest: as it was before anything else was read.

    Raises:
        StorageError: manifest, journal and segments show that one of them lost data.
    """
    before, journal = segment_count(path), path / JOURNAL
    content = read_journal(journal)
    segments, (sealed, behind) = segment_count(path), manifest.kept
    needed = max(sealed, content.segment - 1 if content else 0)
    if needed > segments:
        raise StorageError(f"{segment_path(path, needed)} is missing. {RESTORE}")
    if manifest.data.get("has_columns") and not (path / COLUMNS).exists():
        raise StorageError(f"{path / COLUMNS} is missing; restore it from a copy")
    if content is None:
        raise StorageError(f"{journal} is missing, or has no first line. {RESTORE}")
    if content.run_id != manifest.run_id:
        raise StorageError(f"{journal} is of another run. {RESTORE}")
    if content.segment < before:
        raise StorageError(
            f"{journal} is older than the segments beside it: it is from an older copy, or the run was copied while robin was "
            f"at work. {RESTORE}"
        )
    rows = content.rows if content.segment > segments else []
    if content.segment == segments:  # the journal became a segment; its further rows came meanwhile
        rows = content.rows[count_rows(segment_path(path, segments)) :]
    # The rows behind the last session's segments are in the journal, or in the first segment since.
    place = journal if segments == sealed else segment_path(path, sealed + 1)
    if behind and (held := len(rows) if place == journal else count_rows(place)) < behind:
        raise StorageError(
            f"{place} holds {held:,} judgments, but {behind:,} were there when the last session ended: it was cut, or "
            f"replaced by an older copy. {RESTORE}"
        )
    return segments, content, rows


def judgments_by_arm(
    path: Path,
    space: ArmSpace,
    columns: Collection[str],
    *,
    after: int = 0,
    journal: bool = True,
) -> Iterator[tuple[IntArray, pa.Table]]:
    """Yield the arms and the judgments of the run at ``path`` in the order they came, in parts.

    Args:
        columns: the columns to read.
        after, journal: as for :func:`read_judgments`.

    Raises:
        StorageError: files are damaged, or the judgments are not of these arms.
    """
    lookup = ArmLookup(space)
    read = [name for name in JUDGMENTS.names if name in {"pair_id", "attribute", "judge", *columns}]
    wanted = [name for name in read if name in columns]
    for table in gathered(read_judgments(path, read, after=after, journal=journal)):
        yield lookup.arms_of(table), table.select(wanted)


def gathered(tables: Iterable[pa.Table], *, nbytes: int | None = None) -> Iterator[pa.Table]:
    """Yield ``tables`` joined to larger ones, so that the work per table does not matter.

    Args:
        nbytes: the size after which a joined table ends, in bytes.
    """
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        is_large = nbytes is not None and sum(part.nbytes for part in waiting) >= nbytes
        if is_large or sum(map(len, waiting)) >= _ROWS_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def journal_table(path: Path, rows: Iterable[Judgment | Mapping[str, Any]]) -> pa.Table:
    """Return the rows of the journal at ``path`` as judgments. StorageError if one is not a judgment."""
    try:
        return judgments_table(rows)
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException) as error:
        raise StorageError(
            f"{path}: holds a line that is not a judgment ({error}); restore a copy"
        ) from error
