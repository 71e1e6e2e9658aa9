"""Reading of a run's judgments: its segments, then its journal, in the order they came."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, get_args
from warnings import warn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.parquet_tables import read_table
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import RepeatedJudgments, StorageError, shown
from robin_cli.model.records import Judgment, Status
from robin_cli.model.space import ArmSpace
from robin_cli.run.damage import UNREADABLE, rows_in, unreadable
from robin_cli.run.journal import JournalContent, read_journal
from robin_cli.run.layout import JOURNAL, RESTORE, segment_count, segment_path
from robin_cli.run.lookup import ArmLookup, Draws
from robin_cli.run.manifest import Manifest, read_manifest
from robin_cli.run.schema import JUDGMENTS, NUMBER, RUN_ID, judgments_table

_ROWS_AT_ONCE = 500_000
_SEGMENT_ROWS = 2**14
_MOST = {
    "draw": 2**31 - 1,
    **dict.fromkeys(
        ("prompt_tokens", "completion_tokens", "cached_tokens", "reasoning_tokens"), 2**62
    ),
    "cost_usd": sys.float_info.max,
}
"""The largest values of a judgment's numbers, which are at least 0: a negative cost would lift the limit on money."""

NO_JUDGMENT = (
    ValueError,
    TypeError,
    OverflowError,
    NotImplementedError,
    pa.ArrowException,
    StorageError,
)
"""The errors for rows that are not judgments of a run."""


def judgments_by_arm(
    path: Path,
    space: ArmSpace,
    columns: Collection[str],
    *,
    after: int = 0,
    journal: bool = True,
    draws: Draws | None = None,
    gather: bool = True,
) -> Iterator[tuple[IntArray, pa.Table]]:
    """Yield the arms and the judgments of the run at ``path`` in the order they came, in parts.

    If a call has several judgments, the first one counts; a warning reports how many others are set aside, and where.

    Args:
        columns: the columns to read.
        after, journal: as for :func:`read_judgments`.
        draws: the calls that have a judgment already; None for none.
        gather: whether to join segments to larger tables.

    Raises:
        StorageError: files are damaged, or the judgments are not of these arms.
    """
    lookup = ArmLookup(space)
    draws = draws or Draws(np.zeros(len(space), np.int64))
    named = {"pair_id", "attribute", "judge", "draw"}
    read = [name for name in JUDGMENTS.names if name in {*named, *columns}]
    place, rows, before = None, 0, draws.set_aside
    tables = read_judgments(path, read, after=after, journal=journal)
    for table in gathered(tables) if gather else tables:
        arm, judgments = (
            lookup.arms_of(table),
            table.select([name for name in read if name in columns]),
        )
        first = draws.first(arm, table["draw"].to_numpy())
        if not first.all():
            place = place or _place_of(path, after, rows + int(np.argmin(first)))
            arm, judgments = arm[first], judgments.filter(pa.array(first))
        rows += len(first)
        yield arm, judgments
    if place:
        warn(repeated(draws.set_aside - before, place), RepeatedJudgments, stacklevel=1)


def repeated(count: int, place: str) -> str:
    """Return the warning about ``count`` judgments that were set aside, the first of which is in ``place``."""
    some = (
        f"{count:,} judgments are repeats and do not count"
        if count > 1
        else "1 judgment is a repeat and does not count"
    )
    return f"{some}; the first is in {place}. Files of this run were copied or changed. Compare it with a copy"


def _place_of(path: Path, after: int, row: int) -> str:
    """Return the file that holds a row of a run's judgments, counted after the first ``after`` segments."""
    for number in range(after + 1, segment_count(path) + 1):
        row -= rows_in(segment_path(path, number))
        if row < 0:
            return str(segment_path(path, number))
    return str(path / JOURNAL)


def gathered(tables: Iterable[pa.Table], *, nbytes: int | None = None) -> Iterator[pa.Table]:
    """Yield ``tables`` joined to larger ones, so that the work per table does not matter.

    Args:
        nbytes: the size after which a joined table ends, in bytes.
    """
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        is_large = nbytes is not None and sum(each.nbytes for each in waiting) >= nbytes
        if is_large or sum(map(len, waiting)) >= _ROWS_AT_ONCE:
            yield pa.concat_tables(waiting)
            waiting = []
    if waiting:
        yield pa.concat_tables(waiting)


def read_judgments(
    path: Path,
    columns: Sequence[str] = tuple(JUDGMENTS.names),
    *,
    after: int = 0,
    journal: bool = True,
) -> Iterator[pa.Table]:
    """Yield the judgments of the run at ``path`` in the order they came, a segment at a time.

    The journal is read before the segments are listed. If it becomes a segment in between, that segment is read in its place,
    so every answer is read exactly once.

    Args:
        columns: the columns to read.
        after: the number of segments to skip.
        journal: whether to read the journal.

    Raises:
        RunError: there is no run.
        StorageError: files are damaged or missing.
    """
    # This order is safe beside a writer: whatever is read first promises no more than is found later.
    manifest, before = read_manifest(path), segment_count(path)
    content = read_journal(path / JOURNAL) if journal else None
    count = segment_count(path)
    if journal:
        check_whole(path, manifest, before, content, count)
    for number in range(after + 1, count + 1):
        name = segment_path(path, number)
        try:
            with name.open("rb") as segment:
                table = _read_segment(segment, str(name), columns, number, manifest.run_id)
                check_rows(table)
        except UNREADABLE as error:
            raise unreadable(name, error) from error
        yield table
    if content is not None:
        yield journal_table(path / JOURNAL, unsealed_rows(path, content, count)).select(columns)


def check_whole(
    path: Path, manifest: Manifest, before: int, content: JournalContent | None, segments: int
) -> None:
    """Raise StorageError if manifest, journal and segments of a run show that one of them lost data.

    Args:
        manifest: as it was before anything else was read.
        before: the number of segments before the journal was read.
        segments: the number of segments after it. A writer makes a segment first, and then the next journal.
    """
    sealed, behind = manifest.kept
    journal = path / JOURNAL
    needed = max(sealed, content.segment - 1 if content else 0)
    if needed > segments:
        raise StorageError(f"{segment_path(path, needed)} is missing. {RESTORE}")
    if content is None:
        raise StorageError(f"{journal} is missing, or has no first line. {RESTORE}")
    if content.run_id != manifest.run_id:
        raise StorageError(f"{journal} is of another run. {RESTORE}")
    if content.segment < before:
        raise StorageError(
            f"{journal} is older than the segments beside it: it is from an older copy, or the run was copied while robin was "
            f"at work. {RESTORE}"
        )
    if not behind:
        return
    # A segment holds the judgments of the journal after the segment before, and those that came until it was written.
    place, found = journal, len(unsealed_rows(path, content, segments))
    if segments > sealed:
        place = segment_path(path, sealed + 1)
        found = rows_in(place)
    if found < behind:
        raise StorageError(
            f"{place} holds {found:,} judgments, but {behind:,} were there when the last session ended: it was cut, or "
            f"replaced by an older copy. {RESTORE}"
        )


def unsealed_rows(path: Path, content: JournalContent, segments: int) -> list[dict[str, Any]]:
    """Return the rows of a run's journal that are not in its ``segments``.

    If the journal's own segment exists, its rows are the journal's first ones; the others came while it was written.
    """
    if content.segment == segments:
        return content.rows[rows_in(segment_path(path, segments)) :]
    return content.rows if content.segment > segments else []


def _read_segment(
    stream: IO[bytes], name: str, columns: Sequence[str], number: int, run_id: str
) -> pa.Table:
    """Return columns of a segment with the types of JUDGMENTS."""
    # Read in this thread alone: a thread of pyarrow that has the file open when the interpreter ends aborts the process.
    table = read_table(stream, name, columns, rows=_SEGMENT_ROWS)
    footer = table.schema.metadata or {}
    if footer.get(RUN_ID, b"") != run_id.encode():
        raise ValueError("it is a segment of another run")
    if (copied := footer.get(NUMBER, b"none")) != b"%d" % number:
        raise ValueError(
            f"it is segment {shown(copied.decode(errors='replace'), 20)}, copied over this one"
        )
    fields = [JUDGMENTS.field(name) for name in columns]
    return pa.table(
        [table[field.name].cast(field.type) for field in fields], schema=pa.schema(fields)
    )


def check_rows(table: pa.Table) -> None:
    """Raise ValueError if rows cannot be judgments: texts that are not UTF-8, impossible outcomes or numbers."""
    table.validate(full=True)
    for field in table.schema:
        if not field.nullable and table[field.name].null_count:
            raise ValueError(f"a judgment has no {field.name}")
    for name in _MOST.keys() & set(table.column_names):
        values = table[name]
        # nan is not
        within = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, _MOST[name]))
        if not pc.all(within, min_count=0).as_py():
            raise ValueError(f"a judgment's {name} is negative or too large")
    if {"status", "rating"} <= set(table.column_names):
        is_ok = pc.equal(table["status"], "ok")
        known = pc.is_in(table["status"], value_set=pa.array(get_args(Status)))
        if not pc.all(
            pc.and_(known, pc.equal(is_ok, pc.is_valid(table["rating"]))), min_count=0
        ).as_py():
            raise ValueError("a judgment's status and rating do not go together")


def journal_table(path: Path, rows: Iterable[Judgment | Mapping[str, Any]]) -> pa.Table:
    """Return the rows of the journal at ``path`` as judgments. StorageError if one is not a judgment."""
    try:
        table = judgments_table(rows)
        check_rows(table)
    except NO_JUDGMENT as error:
        raise StorageError(
            f"{path}: holds a line that is not a judgment ({error}); restore a copy"
        ) from error
    return table
