"""The run directory, read: safe while another process goes on with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import SEEK_END
from pathlib import Path
from typing import IO, Any, get_args
from warnings import warn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from robin_cli.datasets.columns import LONGEST_NAME, MOST_COLUMNS
from robin_cli.datasets.lines import check_unpacked
from robin_cli.datasets.pair_table import ALWAYS, REFERENCE, TEXTS, PairTable
from robin_cli.datasets.parquet_tables import batches, checked_file, opened_file, readable, table_batches
from robin_cli.datasets.spool import Spool
from robin_cli.datasets.texts import Texts, give_back, names_of, numbered_texts, numbers_of
from robin_cli.files.local import reading
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import (
    Damaged,
    InputError,
    LostJudgments,
    RepeatedJudgments,
    StorageError,
    did_you_mean,
    shown,
)
from robin_cli.model.groups import name_of, numbered
from robin_cli.model.matches import Matches, matches_by
from robin_cli.model.records import (
    GROUP_COLUMN,
    OTHER_COLUMN,
    SYSTEM_COLUMN,
    SYSTEM_COLUMNS,
    Status,
    as_text,
    number_of,
)
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems, systems_of
from robin_cli.model.task import Task, task_of
from robin_cli.storage.fold import COUNTED, RATED, Fold
from robin_cli.storage.journal import JournalContent, read_journal
from robin_cli.storage.layout import (
    COLUMNS,
    JOURNAL,
    PAIRS,
    SEGMENTS,
    lost_path,
    lost_segments,
    segment_count,
    segment_path,
    way_on,
)
from robin_cli.storage.lookup import ArmLookup, Draws
from robin_cli.storage.manifest import FILE, Manifest, read_manifest
from robin_cli.storage.schema import JUDGMENTS, NUMBER, judgments_table

_EMPTY = JUDGMENTS.empty_table()
PAIRS_AT_A_TIME = 10_000
_ROWS_AT_ONCE = 500_000
_MOST_ARMS = 10**8
_MOST = {
    "draw": 2**31 - 1,
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), 2**62),
    "cost_usd": sys.float_info.max,
}
"""Numbers of a judgment that are 0 at least, and so much at most: a negative cost would lift the limit on money."""


_COLUMN_TYPES = (
    pa.types.is_int64,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_large_string,
    pa.types.is_string,
)
_NO_COLUMNS = pa.table({})
_UNREADABLE = (OSError, InputError, KeyError, ValueError, pa.ArrowException)


@dataclass(frozen=True)
class RunData:
    """A run as it stands on disk: read only, and safe to read while another process goes on with it.

    Attributes:
        space: which arm is which pair, attribute and judge.
        human: human ratings by attribute, shape (pairs,) each; nan where there is none.
        arm: the arm of each judgment, shape (rows,).
        judgments: with the columns RATED, and those that were asked for.
        fold: the numbers after all judgments; it knows how many were set aside.
    """

    path: Path
    manifest: Manifest
    space: ArmSpace
    human: Mapping[str, FloatArray]
    arm: IntArray
    judgments: pa.Table
    fold: Fold

    @property
    def pair_ids(self) -> Sequence[str]:
        """The ids of its pairs, in the order of the data."""
        return self.space.pair_ids

    @cached_property
    def task(self) -> Task | None:
        """What is to be decided of its pairs; None where nothing is, and in a pairwise run."""
        if self.manifest.is_pairwise:
            return None
        return task_of(self.manifest.decision, self.space, lambda: self.groups)

    @cached_property
    def systems(self) -> Systems | None:
        """The systems that it compares; None where it compares none. StorageError where they cannot be read."""
        return read_systems(self.path, self.manifest, self.space) if self.manifest.compares else None

    @cached_property
    def matches(self) -> Matches | None:
        """What its comparisons are of; None where it is no pairwise run. StorageError where they cannot be read."""
        return read_matches(self.path, self.manifest, self.space) if self.manifest.is_pairwise else None

    @cached_property
    def pairs(self) -> PairTable:
        """The pairs with their texts, which are read now."""
        return read_pairs(self.path)

    def pairs_at(self, places: NDArray[np.integer[Any]]) -> PairTable:
        """The pairs at these places of the data, which rise, with their texts and without further columns."""
        spool, start = Spool(), 0
        for batch in read_pair_batches(self.path):
            mine = places[np.searchsorted(places, start) : np.searchsorted(places, start + len(batch))] - start
            start += len(batch)
            if len(mine):
                spool.add(batch.take(pa.array(mine)))
        give_back()
        return PairTable(spool)

    @cached_property
    def prompts(self) -> IntArray:
        """Which prompt each pair has, shape (pairs,): pairs of one number have the same one, to the letter."""
        return read_numbers([self.path], "prompt")

    @cached_property
    def responses(self) -> IntArray:
        """Which response each pair has, shape (pairs,), as :attr:`prompts`."""
        return read_numbers([self.path], "response")

    @cached_property
    def columns(self) -> pa.Table:
        """All further columns of the data, a row a pair, which are read now. StorageError where they cannot be."""
        return self._whole(read_columns(self.path))

    @cached_property
    def column_names(self) -> Sequence[str]:
        """The names of the further columns of the data, in its order. StorageError where they cannot be read."""
        return read_column_names(self.path)

    def column(self, name: str) -> list[str | None]:
        """What each pair has in a further column, as people write it: 3, 0.5, true; None where it has nothing.

        Raises:
            InputError: there is no such column. StorageError: it cannot be read.
        """
        values = self._whole(read_columns(self.path, [name]))[name].to_pylist()
        return [None if value is None else as_text(value) for value in values]

    def _whole(self, columns: pa.Table) -> pa.Table:
        if columns.num_columns and len(columns) != len(self.pair_ids):
            raise StorageError(f"{self.path}: {COLUMNS} and {PAIRS} do not go together; restore them from a copy")
        return columns

    @cached_property
    def groups(self) -> IntArray:
        """Which group each pair is of, as :attr:`~robin_cli.datasets.pair_table.PairTable.groups` has them."""
        return read_groups(self.path)

    @cached_property
    def group_names(self) -> Texts:
        """What the groups are called, in the order of their numbers; those by prompt as :func:`name_of` says."""
        by = _grouped_by(self.path)
        return names_of(_texts([self.path], by), self.groups, str if by == GROUP_COLUMN else name_of)


def read_groups(path: Path) -> IntArray:
    """Which group each pair of the run at ``path`` is of, shape (pairs,). StorageError where they cannot be read."""
    return read_numbers([path], _grouped_by(path))


def _grouped_by(path: Path) -> str:
    """The column of the pairs of the run at ``path`` that says which group each is of."""
    return GROUP_COLUMN if GROUP_COLUMN in read_pair_names(path) else "prompt"


def _texts(paths: Sequence[Path], name: str) -> Iterator[pa.Array]:
    """A column of texts of the pairs of runs, in parts. StorageError where they cannot be read."""
    return (batch.column(name) for path in paths for batch in read_pair_batches(path, lambda each: each == name))


def read_numbers(paths: Sequence[Path], name: str) -> IntArray:
    """The place of each pair's text in a column among the different ones of all runs, as they first appear there.

    Returns:
        Of the pairs of all runs, one run's behind the other's, shape (pairs,).

    Raises:
        StorageError: the pairs of a run cannot be read.
    """
    return numbers_of(_texts(paths, name))


def read_prompts(paths: Sequence[Path]) -> tuple[IntArray, Texts]:
    """The same of prompts, and their texts."""
    return numbered_texts(lambda: _texts(paths, "prompt"), str)


def read_systems(path: Path, manifest: Manifest, space: ArmSpace) -> Systems:
    """The systems that the run at ``path`` compares. StorageError where they cannot be read."""
    try:
        found = read_columns(path, [SYSTEM_COLUMN])[SYSTEM_COLUMN].to_pylist()
        if missing := found.count(None):
            raise InputError(f"{path}: {missing:,} of {len(found):,} pairs have no {SYSTEM_COLUMN}")
    except InputError as error:
        raise StorageError(f"{error}; the run was made to compare systems: restore {COLUMNS} from a copy") from None
    system, names = numbered(map(as_text, found))
    return systems_of(space, system, names, *numbered_texts(lambda: _texts([path], "prompt"), name_of), manifest.seed)


def read_matches(path: Path, manifest: Manifest, space: ArmSpace) -> Matches:
    """What the comparisons of the pairwise run at ``path`` are of. StorageError where they cannot be read."""
    if OTHER_COLUMN not in read_pair_names(path):
        raise StorageError(f"{path / PAIRS}: has no responses to compare with; restore it from a copy")
    both = numbers_of(part for name in ("response", OTHER_COLUMN) for part in _texts([path], name))
    known = read_column_names(path)
    columns = read_columns(path, [name for name in SYSTEM_COLUMNS if name in known])
    lacking = [None] * len(space.pair_ids)
    systems = [columns[name].to_pylist() if name in columns.column_names else lacking for name in SYSTEM_COLUMNS]
    found = matches_by(
        space,
        read_numbers([path], "prompt"),
        both.reshape(2, -1).T,
        list(zip(*systems, strict=True)),
        manifest.seed,
        wants_best=manifest.wants_best,
    )
    if (there := manifest.data.get("systems", len(found.names))) != len(found.names):
        raise StorageError(
            f"{path / COLUMNS}: names {len(found.names)} systems, and the run compares {there}; restore it from a copy"
        )
    return found


def space_of(manifest: Manifest, pair_ids: Sequence[str]) -> ArmSpace:
    """The arms of a run with these pairs. StorageError where they are more than a run has, and might not fit the memory."""
    space = ArmSpace(pair_ids, manifest.attributes, manifest.judges, manifest.scales, manifest.kind.variants)
    if len(space) > (_MOST_ARMS if manifest.compares or manifest.is_pairwise else min(manifest.budget, _MOST_ARMS)):
        raise StorageError(
            f"the run's {PAIRS} and {FILE} make {len(space):,} pairs × attributes × judges: more than its budget of "
            f"{manifest.budget:,} reaches, or than a run can have ({_MOST_ARMS:,}); restore these files from a copy"
        )
    return space


def read_run(path: Path, columns: Collection[str] = ()) -> RunData:
    """The run at ``path`` as it stands, whether or not a process is at work on it.

    Its judgments are folded as they are read, and of each no more is kept than what is asked for.

    Args:
        columns: those of its judgments to keep beside RATED; the texts among them can be larger than the memory.

    Raises:
        RunError: no run there, or made by a newer robin.
        StorageError: its files are damaged, or not of one run.
    """
    manifest = read_manifest(path)
    texts = {"prompt", "response", REFERENCE, GROUP_COLUMN, OTHER_COLUMN}
    table = _read_pairs(path, lambda name: name not in texts)
    human = {name: table[name].fill_null(np.nan).to_numpy() for name in table.column_names if name != "pair_id"}
    space = space_of(manifest, Texts(table["pair_id"]))
    kept = [name for name in JUDGMENTS.names if name in {*RATED, *columns}]
    fold, arms, parts, nothing = Fold(space), [], [_EMPTY.select(kept)], _Nothing()
    for arm, judgments in judgments_by_arm(path, space, {*COUNTED, *kept}, draws=fold.draws):
        fold.add(arm, judgments)
        arms.append(arm)
        parts.append(nothing.shared(judgments.select(kept)))
    fold.fitted = None  # which is for who goes on with the run
    give_back()
    return RunData(path, manifest, space, human, _joined(arms), pa.concat_tables(parts), fold)


def read_ratings(path: Path, space: ArmSpace) -> tuple[IntArray, pa.Table]:
    """The arm of each judgment of the run at ``path``, and its columns RATED. StorageError where they cannot be read."""
    found = list(judgments_by_arm(path, space, RATED))
    return _joined(arm for arm, _ in found), pa.concat_tables([_EMPTY.select(RATED), *(table for _, table in found)])


def judgments_by_arm(
    path: Path,
    space: ArmSpace,
    columns: Collection[str],
    *,
    after: int = 0,
    journal: bool = True,
    draws: Draws | None = None,
    join: Callable[[Iterable[pa.Table]], Iterator[pa.Table]] | None = None,
) -> Iterator[tuple[IntArray, pa.Table]]:
    """The judgments of the run at ``path`` in the order they came, half a million or so at a time, each with its arm.

    Of a call that has several the first one counts; a warning says how many others are set aside, and where.

    Args:
        columns: those of them to read.
        after, journal: as for :func:`read_judgments`.
        draws: the calls that were met before; None for none.
        join: how many to take at a time, instead.

    Raises:
        StorageError: its files are damaged, or the judgments are not of these arms.
    """
    lookup = ArmLookup(space)
    draws = draws or Draws(np.zeros(len(space), np.int64))
    named = {"pair_id", "attribute", "draw", *(["judge"] if len(space.judges) > 1 else [])}
    read = [name for name in JUDGMENTS.names if name in {*named, *columns}]
    place, rows, before = None, 0, draws.set_aside
    for table in (join or gathered)(read_judgments(path, read, after=after, journal=journal)):
        arm, judgments = lookup.arms_of(table), table.select([name for name in read if name in columns])
        first = draws.first(arm, table["draw"].to_numpy())
        if not first.all():
            place = place or _place_of(path, after, rows + int(np.argmin(first)))
            arm, judgments = arm[first], judgments.filter(pa.array(first))
        rows += len(first)
        yield arm, judgments
    if place:
        warn(repeated(draws.set_aside - before, place), RepeatedJudgments, stacklevel=1)


def distinct_judgments(path: Path, columns: Collection[str] = tuple(JUDGMENTS.names)) -> Iterator[pa.Table]:
    """The judgments of the run at ``path`` as :func:`judgments_by_arm` has them, a segment at a time."""
    space = space_of(read_manifest(path), read_pair_ids(path))
    return (table.select(list(columns)) for _, table in judgments_by_arm(path, space, columns, join=iter))


def repeated(count: int, place: str) -> str:
    """What is said of ``count`` judgments that were set aside, the first of which is at ``place``."""
    some = (
        f"{count:,} judgments are repeats and do not count"
        if count > 1
        else "1 judgment is a repeat and does not count"
    )
    return f"{some}; the first is in {place}. Files of this run were copied or changed. Compare it with a copy"


def _place_of(path: Path, after: int, row: int) -> str:
    """The file of a run that holds a row of its judgments, counted from behind the first ``after`` segments."""
    for number in range(after + 1, segment_count(path) + 1):
        row -= _rows_of_segment(path, number)
        if row < 0:
            return str(segment_path(path, number))
    return str(path / JOURNAL)


def gathered(tables: Iterable[pa.Table], *, nbytes: int | None = None) -> Iterator[pa.Table]:
    """``tables``, joined to some of so many rows that what is done to each of them counts for nothing.

    Args:
        nbytes: join no more once they are so large.
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


class _Nothing:
    """Columns without a value, as most are that say why: of a hundred million judgments they would take gigabytes."""

    def __init__(self) -> None:
        self._known: dict[pa.DataType, pa.Array] = {}

    def shared(self, table: pa.Table) -> pa.Table:
        """``table``, with all of its columns that hold nothing in the same memory."""
        return pa.table([self._instead(column) for column in table.columns], schema=table.schema)

    def _instead(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if column.null_count < len(column):
            return column
        known = self._known.get(column.type)
        if known is None or len(known) < len(column):
            known = self._known[column.type] = pa.nulls(len(column), column.type)
        return pa.chunked_array([known.slice(0, len(column))])


def _joined(arms: Iterable[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arms])


def read_pairs(path: Path) -> PairTable:
    """The pairs of the run at ``path``, with their texts. StorageError where they cannot be read."""
    spool = Spool()
    spool.extend(read_pair_batches(path, lambda _name: True))
    give_back()
    return PairTable(spool, lambda: read_columns(path))


def read_column_names(path: Path) -> list[str]:
    """The names of the further columns of the run at ``path``. StorageError where they cannot be read."""
    return _read_columns(path, lambda _known: ())[1]


def read_columns(path: Path, names: Collection[str] | None = None) -> pa.Table:
    """Further columns of the data of the run at ``path``, a row a pair: int64, double, bool or large_string.

    Args:
        names: those to read; all, if None.

    Raises:
        InputError: one of ``names`` is none of them. StorageError: they cannot be read.
    """
    table, known = _read_columns(path, lambda known: [name for name in known if names is None or name in names])
    for name in names or ():
        if name not in known:
            raise InputError(f"{path}: {_no_column(name, known)}")
    return table


def _no_column(name: str, known: Sequence[str]) -> str:
    if not known:
        return (
            f'no column "{shown(name)}": it keeps nothing of its data beside prompts, responses and human ratings. The data '
            "had no more, or an earlier robin made the run; make a new one of data that have the column"
        )
    listed = ", ".join(map(shown, known[:12])) + (", …" if len(known) > 12 else "")
    return f'no column "{shown(name)}" in its data, which have {listed}{did_you_mean(name, known)}'


def _read_columns(path: Path, wanted: Callable[[list[str]], Collection[str]]) -> tuple[pa.Table, list[str]]:
    """Those of a run's further columns that are wanted of the names there are, and these; none where there is no such file."""
    place = path / COLUMNS
    count = _rows_in(path / PAIRS)
    try:
        with reading(place) as stream:
            beside = (path / PAIRS).stat().st_size
            file, schema = opened_file(stream, str(place))
            known = _checked_columns(file, schema, count)
            # One by one: all columns' pages together may be more than is taken for a bomb. And few systems' names are
            # packed far smaller than any text, so what the pairs take counts, too.
            packed, unpacked, found = beside + stream.seek(0, SEEK_END), 0, {}
            for name in wanted(known):
                found[name] = _column(
                    batches(file, stream, str(place), [name], beside=beside), schema.field(name), count
                )
                unpacked += found[name].nbytes
                check_unpacked(unpacked, packed, str(place))
    except FileNotFoundError:
        return _NO_COLUMNS, []
    except _UNREADABLE as error:
        raise _unreadable(place, error) from error
    return pa.table(found), known


def _checked_columns(file: pq.ParquetFile, schema: pa.Schema, pairs: int) -> list[str]:
    """The names of the columns of a file. ValueError where it cannot be that of so many pairs."""
    if file.metadata.num_rows != pairs:
        raise ValueError(f"{COLUMNS} has {file.metadata.num_rows:,} rows, and {PAIRS} {pairs:,}")
    if len(set(schema.names)) < len(schema):
        raise ValueError(f"two columns of {COLUMNS} are called the same")
    if len(schema) > MOST_COLUMNS or max(map(len, schema.names), default=0) > LONGEST_NAME:
        raise ValueError(f"{COLUMNS} has more columns, or longer names, than robin writes")
    for field in schema:
        if not any(is_one(field.type) for is_one in _COLUMN_TYPES):
            raise ValueError(f'the column "{shown(field.name)}" of {COLUMNS} is {shown(field.type)}, which none is')
    return list(schema.names)


def _column(found: Iterable[pa.RecordBatch], field: pa.Field[Any], pairs: int) -> pa.ChunkedArray:
    """A column with a value, or none, for each pair. ValueError where it is not that."""
    typed = pa.large_string() if pa.types.is_string(field.type) else field.type
    column = pa.chunked_array([batch.column(field.name).cast(typed) for batch in found], typed)
    column.validate(full=True)
    if len(column) != pairs:
        raise ValueError(
            f'the column "{shown(field.name)}" of {COLUMNS} has {len(column):,} rows, and {PAIRS} {pairs:,}'
        )
    return column


def read_pair_ids(path: Path) -> Texts:
    """The ids of the pairs of the run at ``path``. StorageError where they cannot be read."""
    return Texts(_read_pairs(path, lambda name: name == "pair_id")["pair_id"])


def count_empty_responses(path: Path) -> int:
    """How many pairs of the run at ``path`` have an empty response. StorageError where they cannot be read."""
    return sum(
        int(pc.sum(pc.equal(pc.binary_length(batch.column("response")), 0)).as_py() or 0)
        for batch in read_pair_batches(path, lambda name: name == "response")
    )


def count_answers(path: Path) -> tuple[int, int]:
    """Return the units of the budget that the run at ``path`` spent, and the ratings among them. StorageError for damage."""
    spent = ratings = 0
    for table in distinct_judgments(path, ["status", "rating"]):
        spent += int(pc.sum(pc.not_equal(table["status"], "failed")).as_py() or 0)
        ratings += len(table) - table["rating"].null_count
    return spent, ratings


def read_judgments(
    path: Path, columns: Sequence[str] = tuple(JUDGMENTS.names), *, after: int = 0, journal: bool = True
) -> Iterator[pa.Table]:
    """The judgments of the run at ``path`` in the order they came, a segment at a time.

    The journal is read before the segments are listed: should it be sealed in between, its segment is there and is taken
    in its place, so every answer is met exactly once. Segments that the owner of the run gave up are left out, with a warning.

    Args:
        columns: those to read.
        after: how many segments to leave out.
        journal: whether to read what is in no segment yet.

    Raises:
        RunError: no run there.
        StorageError: its files are damaged, or some that must be there are not.
    """
    # The order makes this safe beside a writer: what was read first promises no more than what is read later holds.
    kept, before = (read_manifest(path).kept, segment_count(path)) if journal else ((0, 0), 0)
    content = read_journal(path / JOURNAL) if journal else None
    count, lost = segment_count(path), lost_segments(path)
    if journal:
        check_whole(path, kept, before, content, count)
    unpacked = packed = 0
    for number in range(after + 1, count + 1):
        if number in lost:
            continue
        name = segment_path(path, number)
        try:
            with reading(name) as segment:
                table = _read_segment(segment, str(name), columns, number)
                _check_rows(table)
                unpacked, packed = unpacked + table.nbytes, packed + name.stat().st_size
            check_unpacked(unpacked, packed, str(path / SEGMENTS))
        except _UNREADABLE as error:  # files of a run that somebody sent may be made to fill the memory, too
            raise _unreadable(name, error, lost_path(path, number)) from error
        yield table
    if lost and journal:
        warn(_left_out(path, lost), LostJudgments, stacklevel=1)
    if content is not None:
        yield journal_table(path / JOURNAL, unsealed_rows(path, content, count)).select(columns)


def check_whole(path: Path, kept: tuple[int, int], before: int, content: JournalContent | None, segments: int) -> None:
    """StorageError where a run lacks what its manifest, its journal and its segments say of each other must be there.

    Args:
        kept: as the manifest has it, which was read first.
        before: how many segments were there then, before the journal was read.
        segments: how many were there after it. A writer makes a segment first, and then the next journal.
    """
    sealed, behind = kept
    lost, journal = lost_segments(path), path / JOURNAL
    needed = max(sealed, content.segment - 1 if content else 0)
    if needed > segments:
        missing = range(segments + 1, needed + 1)
        raise StorageError(f"{segment_path(path, missing[-1])} is missing. {way_on(path, missing)}")
    next_one = way_on(path, [segments + 1])
    if content is None and segments not in lost:
        raise StorageError(f"{journal} is missing, or has no first line. {next_one}")
    if content is not None and content.segment < before and before not in lost:
        raise StorageError(
            f"{journal} is older than the segments beside it: it is from an older copy, or robin was at work as the run was "
            f"copied. {next_one}"
        )
    # A segment holds what the journal held behind the one before, and what came until it was written.
    if not behind or sealed + 1 in lost:
        return
    place, found = journal, len(unsealed_rows(path, content, segments)) if content else 0
    next_one = way_on(path, [sealed + 1])
    if segments > sealed:
        place, found = segment_path(path, sealed + 1), _rows_of_segment(path, sealed + 1)
        next_one = f"Restore it from a copy{_otherwise(lost_path(path, sealed + 1))}"
    if found < behind:
        raise StorageError(
            f"{place} holds {found:,} judgments, and {behind:,} were there as the last session ended: it was cut, or put back "
            f"from an older copy. {next_one}"
        )


def unsealed_rows(path: Path, content: JournalContent, segments: int) -> list[dict[str, Any]]:
    """The rows of a run's journal that are in none of its ``segments``.

    Where the journal's own segment is there, what came while that was written stands behind as many rows as it has.
    """
    if content.segment == segments:
        return content.rows[_rows_of_segment(path, segments) :]
    return content.rows if content.segment > segments else []


def _rows_of_segment(path: Path, number: int) -> int:
    """How many rows a segment has; none if it is lost. StorageError where it cannot be read."""
    if number in lost_segments(path):
        return 0
    return _rows_in(segment_path(path, number), lost_path(path, number))


def _left_out(path: Path, lost: Collection[int]) -> str:
    return (
        f"{number_of(len(lost), 'segment')} of {path / SEGMENTS} left out, as {lost_path(path, min(lost)).name} says: the "
        "answers in it are lost"
    )


def _read_segment(stream: IO[bytes], name: str, columns: Sequence[str], number: int) -> pa.Table:
    """Columns of a segment as JUDGMENTS has them; null where the robin that wrote it did not know them."""
    # In this thread alone: one of pyarrow's own that still held the file as the interpreter ends would abort the process.
    parquet = checked_file(stream, name, columns)
    own = (parquet.schema_arrow.metadata or {}).get(NUMBER, b"%d" % number)  # earlier robins did not say
    if own != b"%d" % number:
        raise ValueError(f"it is segment {shown(own.decode(errors='replace'), 20)}, copied over this one")
    known = [name for name in columns if name in parquet.schema_arrow.names]
    with readable(name):
        table = parquet.read(columns=known, use_threads=False)
        if len(table) != (rows := parquet.metadata.num_rows):
            raise ValueError(f"{len(table):,} of its {rows:,} rows are there")
    fields = [JUDGMENTS.field(name) for name in columns]
    values = [
        table[field.name].cast(field.type) if field.name in known else pa.nulls(len(table), field.type)
        for field in fields
    ]
    return pa.table(values, schema=pa.schema(fields))


def _check_rows(table: pa.Table) -> None:
    """ValueError where rows cannot be those of a run: texts that are not UTF-8, outcomes and numbers that are none."""
    table.validate(full=True)
    for field in table.schema:
        if not field.nullable and table[field.name].null_count:
            raise ValueError(f"a judgment has no {field.name}")
    for name in _MOST.keys() & set(table.column_names):
        values = table[name]
        within = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, _MOST[name]))  # which nan is not
        if not pc.all(within, min_count=0).as_py():
            raise ValueError(f"a judgment's {name} is negative, or none that there can be")
    if {"status", "rating"} <= set(table.column_names):
        is_ok = pc.equal(table["status"], "ok")
        known = pc.is_in(table["status"], value_set=pa.array(get_args(Status)))
        if not pc.all(pc.and_(known, pc.equal(is_ok, pc.is_valid(table["rating"]))), min_count=0).as_py():
            raise ValueError("a judgment's status and rating do not go together")


def journal_table(path: Path, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The judgments in ``rows`` of the journal at ``path``. StorageError where one is none."""
    try:
        table = judgments_table(rows)
        _check_rows(table)
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException) as error:
        raise StorageError(f"{path}: holds a line that is no judgment ({error}); restore a copy") from error
    return table


def _rows_in(path: Path, lost: Path | None = None) -> int:
    """How many rows a Parquet file of a run has. StorageError where it cannot be read; ``lost`` as for :func:`_unreadable`."""
    try:
        with reading(path) as file:
            return int(opened_file(file, str(path))[0].metadata.num_rows)
    except _UNREADABLE as error:
        raise _unreadable(path, error, lost) from error


def _otherwise(lost: Path) -> str:
    """The next step of an error about a segment of which there is no copy."""
    return f", or name it {lost} to go on without it; robin resume asks for as many answers again"


def _unreadable(path: Path, error: Exception, lost: Path | None = None) -> StorageError:
    """What is wrong with a file of a run, and the next step; ``lost``: what to call it to go on without it."""
    otherwise = _otherwise(lost) if lost else ""
    if isinstance(error, Damaged):
        return StorageError(f"{error.fact}. Restore it from a copy{otherwise}")
    if isinstance(error, InputError):
        return StorageError(str(error))
    if isinstance(error, OSError) and error.filename and error.strerror:
        return StorageError(f"{error.filename}: cannot be read ({error.strerror}); restore it from a copy{otherwise}")
    return StorageError(f"{path}: cannot be read ({error}); restore it from a copy{otherwise}")


def read_pair_names(path: Path) -> list[str]:
    """The names of the columns of the pairs of the run at ``path``. StorageError where they cannot be read."""
    place = path / PAIRS
    try:
        with reading(place) as file:
            names = list(opened_file(file, str(place))[1].names)
    except _UNREADABLE as error:
        raise _unreadable(place, error) from error
    if len(set(names)) < len(names) or not set(ALWAYS) <= set(names):
        raise StorageError(f"{place}: its columns are none of a run; restore it from a copy")
    return names


def read_pair_batches(path: Path, wanted: Callable[[str], bool] = lambda _: True) -> Iterator[pa.RecordBatch]:
    """The pairs of the run at ``path``, in the wanted columns, some rows at a time. StorageError where they cannot be read."""
    place = path / PAIRS
    try:
        with reading(place) as file:
            for batch in table_batches(file, str(place), wanted):
                for name in filter(wanted, ALWAYS):
                    batch.column(name)  # a KeyError where it is not there
                yield _typed(batch)
    except _UNREADABLE as error:
        raise _unreadable(place, error) from error


def _read_pairs(path: Path, wanted: Callable[[str], bool]) -> pa.Table:
    batches = list(read_pair_batches(path, wanted))
    try:
        return pa.Table.from_batches(batches).combine_chunks()
    except ValueError as error:  # not one row
        raise _unreadable(path / PAIRS, error) from error


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Pairs with columns of the types that they are written with. ValueError where they are of others."""
    wanted = []
    if len(set(batch.schema.names)) < batch.num_columns:
        raise ValueError("two of its columns are called the same")
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        is_text = name in TEXTS
        fits = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_text != fits or (is_text and name != REFERENCE and column.null_count):
            raise ValueError(f'the column "{name}" is not what belongs there')
        wanted.append(pa.field(name, pa.large_string() if is_text else pa.float64()))
    typed = batch.cast(pa.schema(wanted))
    typed.validate(full=True)  # that texts are UTF-8, which pyarrow takes a file's word for
    return typed
