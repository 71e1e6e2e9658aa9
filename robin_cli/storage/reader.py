"""The run directory, read: safe while another process goes on with it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import SEEK_END
from itertools import islice
from pathlib import Path
from typing import IO, Any, get_args, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robin_cli.datasets.columns import LONGEST_NAME, MOST_COLUMNS
from robin_cli.datasets.lines import check_unpacked
from robin_cli.datasets.parquet_tables import batches, check_table, opened_file, table_batches
from robin_cli.files.local import reading
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, StorageError, did_you_mean, shown
from robin_cli.model.groups import name_of, numbered
from robin_cli.model.matches import Matches, matches_by
from robin_cli.model.records import (
    GROUP_COLUMN,
    OTHER_COLUMN,
    SYSTEM_COLUMN,
    SYSTEM_COLUMNS,
    Pair,
    Status,
    Value,
    as_text,
)
from robin_cli.model.space import ArmSpace
from robin_cli.model.systems import Systems, systems_of
from robin_cli.model.task import Task, task_of
from robin_cli.storage.fold import Fold, arms_of
from robin_cli.storage.journal import JournalContent, read_journal
from robin_cli.storage.layout import COLUMNS, JOURNAL, PAIRS, SEGMENTS, segment_count, segment_path
from robin_cli.storage.manifest import FILE, Manifest, read_manifest
from robin_cli.storage.schema import JUDGMENTS, judgments_table

_EMPTY = JUDGMENTS.empty_table()
PAIRS_AT_A_TIME = 10_000
_MOST_ARMS = 10**8
_TEXTS = ("pair_id", "prompt", "response")
_MOST = {
    "draw": 2**31 - 1,
    **dict.fromkeys(("prompt_tokens", "completion_tokens", "cached_tokens"), 2**62),
    "cost_usd": sys.float_info.max,
}
"""Numbers of a judgment that are 0 at least, and so much at most: a negative cost would lift the limit on money."""

REFERENCE = "reference"
"""The column of pairs.parquet with reference answers, where there are any."""


_COLUMN_TYPES = (
    pa.types.is_int64,
    pa.types.is_float64,
    pa.types.is_boolean,
    pa.types.is_large_string,
    pa.types.is_string,
)
_NO_COLUMNS = pa.table({})


class StoredPairs(Sequence[Pair]):
    """Pairs in columns, as they are stored: a :class:`Pair` is made when it is asked for.

    ``columns`` reads their further columns, once one of them is looked at.
    """

    def __init__(self, table: pa.Table, columns: Callable[[], pa.Table] = lambda: _NO_COLUMNS) -> None:
        self.table = table
        self._read = columns

    @cached_property
    def columns(self) -> pa.Table:
        """The further columns, a row a pair. StorageError where they cannot be read."""
        return self._read()

    def __len__(self) -> int:
        return len(self.table)

    @overload
    def __getitem__(self, at: int) -> Pair: ...
    @overload
    def __getitem__(self, at: slice) -> list[Pair]: ...
    def __getitem__(self, at: int | slice) -> Pair | list[Pair]:
        if isinstance(at, slice):
            return [self[each] for each in range(*at.indices(len(self)))]
        row = {name: self.table[name][at].as_py() for name in self.table.column_names}
        pair_id, prompt, response = (row.pop(name) for name in _TEXTS)
        reference, group, other = (row.pop(name, None) for name in (REFERENCE, GROUP_COLUMN, OTHER_COLUMN))
        human = {name: value for name, value in row.items() if value is not None}
        return Pair(pair_id, prompt, response, human, reference, group, _StoredColumns(self, at), other)


class _StoredColumns(Mapping[str, Value]):
    """The further columns of a pair, read when they are looked at."""

    __slots__ = ("_at", "_pairs")

    def __init__(self, pairs: StoredPairs, at: int) -> None:
        self._pairs, self._at = pairs, at

    def _row(self) -> dict[str, Value]:
        table = self._pairs.columns
        row = {name: table[name][self._at].as_py() for name in table.column_names}
        return {name: value for name, value in row.items() if value is not None}

    def __getitem__(self, name: str) -> Value:
        return self._row()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._row())

    def __len__(self) -> int:
        return len(self._row())

    def __repr__(self) -> str:
        return repr(self._row())

    def __reduce__(self) -> tuple[type[dict[str, Value]], tuple[dict[str, Value]]]:
        return dict, (self._row(),)


@dataclass(frozen=True)
class RunData:
    """A run as it stands on disk: read only, and safe to read while another process goes on with it.

    Attributes:
        judgments: with the columns that were asked for.
        pair_ids: in the order of the data.
        human: human ratings by attribute, shape (pairs,) each; nan where there is none.
    """

    path: Path
    manifest: Manifest
    judgments: pa.Table
    pair_ids: Sequence[str]
    human: Mapping[str, FloatArray]

    @cached_property
    def space(self) -> ArmSpace:
        """Which arm is which pair, attribute and judge."""
        return space_of(self.manifest, self.pair_ids)

    @cached_property
    def task(self) -> Task | None:
        """What is to be decided of its pairs; None where nothing is, and in a pairwise run."""
        if self.manifest.is_pairwise:
            return None
        return task_of(self.manifest.decision, self.space, lambda: self.groups[0])

    @cached_property
    def matches(self) -> Matches | None:
        """What its comparisons are of; None where it is no pairwise run. StorageError where they cannot be read."""
        return read_matches(self.path, self.manifest, self.space) if self.manifest.is_pairwise else None

    @cached_property
    def arm(self) -> IntArray:
        """The arm of each judgment, shape (rows,). StorageError where there is no such arm."""
        return arms_of(self.space, self.judgments)

    @cached_property
    def fold(self) -> Fold:
        """The numbers after all judgments."""
        fold = Fold(self.space)
        fold.add(self.arm, self.judgments)
        return fold

    @cached_property
    def pairs(self) -> StoredPairs:
        """The pairs with their texts, which are read now."""
        return read_pairs(self.path)

    @cached_property
    def prompts(self) -> IntArray:
        """Which prompt each pair has, shape (pairs,): pairs of one number have the same one, to the letter."""
        return read_prompts(self.path)[0]

    @cached_property
    def responses(self) -> IntArray:
        """Which response each pair has, shape (pairs,), as :attr:`prompts`."""
        return _numbered(_read_pairs(self.path / PAIRS, lambda name: name == "response")["response"])[0]

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
    def groups(self) -> tuple[IntArray, list[str]]:
        """Which group each pair is of, and the groups' names, as :func:`robin_cli.model.groups.groups_of` has them."""
        return read_groups(self.path)


def read_groups(path: Path) -> tuple[IntArray, list[str]]:
    """Which group each pair of the run at ``path`` is of, and the groups' names. StorageError where they cannot be read."""
    named = _read_pairs(path / PAIRS, lambda name: name == GROUP_COLUMN)
    if GROUP_COLUMN in named.column_names:
        return _numbered(named[GROUP_COLUMN])
    numbers, prompts = read_prompts(path)
    return numbers, list(map(name_of, prompts))


def read_prompts(path: Path) -> tuple[IntArray, list[str]]:
    """Which prompt each pair of the run at ``path`` has, and the prompts' texts. StorageError where they cannot be read."""
    return _numbered(_read_pairs(path / PAIRS, lambda name: name == "prompt")["prompt"])


def read_systems(path: Path, manifest: Manifest, space: ArmSpace) -> Systems:
    """The systems that the run at ``path`` compares. StorageError where they cannot be read."""
    try:
        found = read_columns(path, [SYSTEM_COLUMN])[SYSTEM_COLUMN].to_pylist()
        if missing := found.count(None):
            raise InputError(f"{path}: {missing:,} of {len(found):,} pairs have no {SYSTEM_COLUMN}")
    except InputError as error:
        raise StorageError(f"{error}; the run was made to compare systems: restore {COLUMNS} from a copy") from None
    system, names = numbered(map(as_text, found))
    prompt, prompts = read_prompts(path)
    return systems_of(space, system, names, prompt, prompts, manifest.seed)


def read_matches(path: Path, manifest: Manifest, space: ArmSpace) -> Matches:
    """What the comparisons of the pairwise run at ``path`` are of. StorageError where they cannot be read."""
    wanted = ("prompt", "response", OTHER_COLUMN)
    texts = _read_pairs(path / PAIRS, lambda name: name in wanted)
    if OTHER_COLUMN not in texts.column_names:
        raise StorageError(f"{path / PAIRS}: has no responses to compare with; restore it from a copy")
    both = pa.chunked_array([*texts["response"].chunks, *texts[OTHER_COLUMN].chunks])
    known = read_column_names(path)
    columns = read_columns(path, [name for name in SYSTEM_COLUMNS if name in known])
    lacking = [None] * len(texts)
    systems = [columns[name].to_pylist() if name in columns.column_names else lacking for name in SYSTEM_COLUMNS]
    found = matches_by(
        space,
        _numbered(texts["prompt"])[0],
        _numbered(both)[0].reshape(2, -1).T,
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
    space = ArmSpace(pair_ids, manifest.attributes, manifest.judges, manifest.scales, manifest.is_pairwise)
    if len(space) > (_MOST_ARMS if manifest.compares or manifest.is_pairwise else min(manifest.budget, _MOST_ARMS)):
        raise StorageError(
            f"the run's {PAIRS} and {FILE} make {len(space):,} pairs × attributes × judges: more than its budget of "
            f"{manifest.budget:,} reaches, or than a run can have ({_MOST_ARMS:,}); restore these files from a copy"
        )
    return space


def read_run(path: Path, columns: Sequence[str] = tuple(JUDGMENTS.names)) -> RunData:
    """The run at ``path`` as it stands, whether or not a process is at work on it.

    The journal is read before the segments are listed: should it be sealed in between, its segment is there and is taken
    in its place, so every answer is met exactly once.

    Args:
        columns: those of its judgments to read; the texts among them can be larger than the memory.

    Raises:
        RunError: no run there, or made by a newer robin.
        StorageError: its files are damaged.
    """
    manifest = read_manifest(path)
    judgments = pa.concat_tables([_EMPTY.select(columns), *read_judgments(path, columns)])
    texts = {"prompt", "response", REFERENCE, GROUP_COLUMN, OTHER_COLUMN}
    table = _read_pairs(path / PAIRS, lambda name: name not in texts)
    human = {name: table[name].fill_null(np.nan).to_numpy() for name in table.column_names if name != "pair_id"}
    return RunData(path, manifest, judgments, table["pair_id"].to_pylist(), human)


def read_pairs(path: Path) -> StoredPairs:
    """The pairs of the run at ``path``, with their texts. StorageError where they cannot be read."""
    return StoredPairs(_read_pairs(path / PAIRS, lambda _name: True), lambda: read_columns(path))


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
    try:
        with reading(path / PAIRS) as pairs:
            count, beside = int(pq.ParquetFile(pairs, pre_buffer=False).metadata.num_rows), pairs.seek(0, SEEK_END)
        with reading(place) as stream:
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
    except FileNotFoundError as error:
        if error.filename != str(place):
            raise _unreadable(path, error) from error
        return _NO_COLUMNS, []
    except InputError as error:
        raise StorageError(str(error)) from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
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


def read_pair_ids(path: Path) -> list[str]:
    """The ids of the pairs of the run at ``path``. StorageError where they cannot be read."""
    ids: list[str] = _read_pairs(path / PAIRS, lambda name: name == "pair_id")["pair_id"].to_pylist()
    return ids


def count_empty_responses(path: Path) -> int:
    """How many pairs of the run at ``path`` have an empty response. StorageError where they cannot be read."""
    responses = _read_pairs(path / PAIRS, lambda name: name == "response")["response"]
    return int(pc.sum(pc.equal(pc.binary_length(responses), 0)).as_py() or 0)


def count_answers(path: Path, segments: int | None = None) -> tuple[int, int]:
    """Units of the budget spent by the run at ``path``, and ratings among them; reads two columns of its judgments.

    Args:
        segments: of how many, from the first on; None for all, and the journal.

    Raises:
        StorageError: its files are damaged.
    """
    spent = ratings = 0
    for table in islice(read_judgments(path, ["status", "rating"], journal=segments is None), segments):
        spent += int(pc.sum(pc.not_equal(table["status"], "failed")).as_py() or 0)
        ratings += len(table) - table["rating"].null_count
    return spent, ratings


def read_judgments(
    path: Path, columns: Sequence[str] = tuple(JUDGMENTS.names), *, after: int = 0, journal: bool = True
) -> Iterator[pa.Table]:
    """The judgments of the run at ``path`` in the order they came, a segment at a time; as :func:`read_run` reads them.

    Args:
        columns: those to read.
        after: how many segments to leave out.
        journal: whether to read what is in no segment yet.

    Raises:
        StorageError: its files are damaged.
    """
    content = read_journal(path / JOURNAL) if journal else None
    count = segment_count(path)
    unpacked = packed = 0
    for number in range(after + 1, count + 1):
        try:
            name = segment_path(path, number)
            with reading(name) as segment:
                check_table(segment, str(name), columns)
                table = _read_segment(segment, columns)
                _check_rows(table)
                unpacked, packed = unpacked + table.nbytes, packed + name.stat().st_size
            check_unpacked(unpacked, packed, str(path / SEGMENTS))
        except InputError as error:  # files of a run that somebody sent may be made to fill the memory
            raise StorageError(str(error)) from None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        yield table
    if content is not None:
        yield journal_table(path / JOURNAL, unsealed_rows(path, content, count)).select(columns)


def unsealed_rows(path: Path, content: JournalContent, segments: int) -> list[dict[str, Any]]:
    """The rows of a run's journal that are in none of its ``segments``.

    Where the journal's own segment is there, what came while that was written stands behind as many rows as it has.
    """
    if content.segment == segments:
        return content.rows[_rows_in(path, segments) :]
    return content.rows if content.segment > segments else []


def _read_segment(file: IO[bytes], columns: Sequence[str]) -> pa.Table:
    """Columns of a segment as JUDGMENTS has them; null where the robin that wrote it did not know them."""
    # In this thread alone: one of pyarrow's own that still held the file as the interpreter ends would abort the process.
    parquet = pq.ParquetFile(file, pre_buffer=False)
    known = [name for name in columns if name in parquet.schema_arrow.names]
    table = parquet.read(columns=known, use_threads=False)
    fields = [JUDGMENTS.field(name) for name in columns]
    values = [
        table[field.name].cast(field.type) if field.name in known else pa.nulls(len(table), field.type)
        for field in fields
    ]
    return pa.table(values, schema=pa.schema(fields))


def _check_rows(table: pa.Table) -> None:
    """ValueError where rows cannot be those of a run: texts that are not UTF-8, outcomes and numbers that are none."""
    table.validate(full=True)
    for name in _MOST.keys() & set(table.column_names):
        values, field = table[name], JUDGMENTS.field(name)
        within = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, _MOST[name]))  # which nan is not
        if not pc.all(within, min_count=0).as_py() or (values.null_count and not field.nullable):
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


def _rows_in(path: Path, number: int) -> int:
    try:
        with reading(segment_path(path, number)) as segment:
            return int(pq.ParquetFile(segment, pre_buffer=False).metadata.num_rows)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error


def _unreadable(run: Path, error: Exception) -> StorageError:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return StorageError(f"{error.filename}: cannot be read ({error.strerror}); restore it from a copy")
    return StorageError(f"{run}: a file of the run cannot be read ({error}); restore it from a copy")


def _read_pairs(path: Path, wanted: Callable[[str], bool]) -> pa.Table:
    try:
        with reading(path) as file:
            parts = [_typed(batch) for batch in table_batches(file, str(path), wanted)]
        table = pa.Table.from_batches(parts).combine_chunks()
        for name in filter(wanted, _TEXTS):
            table[name]  # a KeyError where it is not there
    except InputError as error:
        raise StorageError(str(error)) from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path.parent, error) from error
    return table


def _numbered(texts: pa.ChunkedArray) -> tuple[IntArray, list[str]]:
    """The place of each text among the different ones, as they first appear, and these."""
    encoded = texts.combine_chunks().dictionary_encode()
    return np.asarray(encoded.indices, dtype=np.int64), encoded.dictionary.to_pylist()


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Pairs with columns of the types that they are written with. ValueError where they are of others."""
    wanted = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        is_text = name in {*_TEXTS, REFERENCE, GROUP_COLUMN, OTHER_COLUMN}
        fits = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_text != fits or (is_text and name != REFERENCE and column.null_count):
            raise ValueError(f'the column "{name}" is not what belongs there')
        wanted.append(pa.field(name, pa.large_string() if is_text else pa.float64()))
    typed = batch.cast(pa.schema(wanted))
    typed.validate(full=True)  # that texts are UTF-8, which pyarrow takes a file's word for
    return typed
