"""The run directory, read: safe while another process goes on with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, get_args

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from robin_cli.allocation.arms import Arms
from robin_cli.data.collector import no_collector
from robin_cli.data.lines import check_unpacked
from robin_cli.data.parquet_rows import check_table, table_batches
from robin_cli.errors import InputError, StorageError
from robin_cli.files import reading
from robin_cli.records import Pair, Status
from robin_cli.runs.fold import ArmIndex, fold_judgments
from robin_cli.runs.journal import JournalContent, read_journal
from robin_cli.runs.manifest import Manifest, read_manifest
from robin_cli.runs.schema import JUDGMENTS, judgments_table

JOURNAL = "journal.jsonl"
FOLDER = "judgments"
PAIRS = "pairs.parquet"
PAIRS_AT_A_TIME = 10_000
_TEXTS = ("pair_id", "prompt", "response")
REFERENCE = "reference"
"""The column of pairs.parquet with reference answers, where there are any."""


@dataclass(frozen=True, slots=True)
class RunData:
    """A run as it stands on disk: read only, and safe to read while another process goes on with it."""

    path: Path
    manifest: Manifest
    pairs: list[Pair]
    judgments: pa.Table

    @property
    def index(self) -> ArmIndex:
        """Which arm is which pair, attribute and judge."""
        return ArmIndex(
            [pair.pair_id for pair in self.pairs], self.manifest.attributes, self.manifest.judges, self.manifest.scales
        )

    def fold(self) -> Arms:
        """The arms after all judgments."""
        index = self.index
        return fold_judgments(index.arms_of(self.judgments), self.judgments, len(index))


def read_run(path: Path, pairs: list[Pair] | None = None, *, texts: bool = True) -> RunData:
    """The run at ``path`` as it stands, whether or not a process is at work on it; its ``pairs``, where they are known.

    Without ``texts`` the judgments have no columns text and feedback, which can be larger than the memory.

    The journal is read before the segments are listed: should it be sealed in between, its segment is there and is taken
    in its place, so every answer is met exactly once.

    Raises:
        RunError: no run there, or made by a newer robin.
        StorageError: its files are damaged.
    """
    manifest = read_manifest(path)
    columns = [name for name in JUDGMENTS.names if texts or name not in {"text", "feedback"}]
    tables = list(read_judgments(path, columns=columns))
    try:
        pairs = _read_pairs(path / PAIRS) if pairs is None else pairs
    except InputError as error:
        raise StorageError(str(error)) from None
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise _unreadable(path, error) from error
    return RunData(path, manifest, pairs, pa.concat_tables([JUDGMENTS.empty_table().select(columns), *tables]))


def count_answers(path: Path) -> tuple[int, int]:
    """Units of the budget spent by the run at ``path``, and ratings among them; reads two columns of its judgments.

    Raises:
        StorageError: its files are damaged.
    """
    spent = ratings = 0
    for table in read_judgments(path, columns=["status", "rating"]):
        spent += int(pc.sum(pc.not_equal(table["status"], "failed")).as_py() or 0)
        ratings += len(table) - table["rating"].null_count
    return spent, ratings


def read_judgments(path: Path, *, columns: list[str] | None = None) -> Iterator[pa.Table]:
    """The judgments of the run at ``path`` in the order they came, a segment at a time; as :func:`read_run` reads them.

    Args:
        columns: those to read; None for all.

    Raises:
        StorageError: its files are damaged.
    """
    content = read_journal(path / JOURNAL)
    numbers = sorted(segment_numbers(path))
    if numbers != list(range(1, len(numbers) + 1)):
        raise StorageError(f"{path / FOLDER}: segments are missing ({len(numbers)} of {numbers[-1]}); restore a copy")
    unpacked = packed = 0
    for number in numbers:
        try:
            name = path / FOLDER / f"{number:05}.parquet"
            with reading(name) as segment:
                check_table(segment, str(name), columns or JUDGMENTS.names)
                table = _read_segment(segment, columns or JUDGMENTS.names)
                _check_rows(table)
                unpacked, packed = unpacked + table.nbytes, packed + name.stat().st_size
            check_unpacked(unpacked, packed, str(path / FOLDER))
        except InputError as error:  # files of a run that somebody sent may be made to fill the memory
            raise StorageError(str(error)) from None
        except (OSError, ValueError, pa.ArrowException) as error:
            raise _unreadable(path, error) from error
        yield table
    if content is not None and content.segment > len(numbers):
        table = journal_table(path / JOURNAL, content)
        yield table.select(columns) if columns else table


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
    """ValueError where rows cannot be those of a run: texts that are not UTF-8, or outcomes that are none."""
    table.validate(full=True)
    if {"status", "rating"} <= set(table.column_names):
        is_ok = pc.equal(table["status"], "ok")
        known = pc.is_in(table["status"], value_set=pa.array(get_args(Status)))
        if not pc.all(pc.and_(known, pc.equal(is_ok, pc.is_valid(table["rating"]))), min_count=0).as_py():
            raise ValueError("a judgment's status and rating do not go together")


def journal_table(path: Path, content: JournalContent) -> pa.Table:
    """The judgments that the journal at ``path`` holds. StorageError where a line is none."""
    try:
        table = judgments_table(content.rows)
        _check_rows(table)
    except (ValueError, TypeError, OverflowError, NotImplementedError, pa.ArrowException) as error:
        raise StorageError(f"{path}: holds a line that is no judgment ({error}); restore a copy") from error
    return table


def segment_numbers(path: Path) -> set[int]:
    """The numbers of the segments of the run at ``path``; StorageError if their folder is a link."""
    folder = path / FOLDER
    if folder.is_symlink():
        raise StorageError(f"{folder}: it is a link, and none is followed here; put the folder itself there")
    return {int(file.stem) for file in folder.glob("*.parquet") if file.stem.isdecimal()}


def _unreadable(run: Path, error: Exception) -> StorageError:
    if isinstance(error, OSError) and error.filename and error.strerror:
        return StorageError(f"{error.filename}: cannot be read ({error.strerror}); restore it from a copy")
    return StorageError(f"{run}: a file of the run cannot be read ({error}); restore it from a copy")


def _read_pairs(path: Path) -> list[Pair]:
    pairs: list[Pair] = []
    with no_collector(), reading(path) as file:
        for batch in table_batches(file, str(path)):
            columns = _typed(batch).to_pydict()
            ids, prompts, responses = (columns.pop(name) for name in ("pair_id", "prompt", "response"))
            references = columns.pop(REFERENCE, [None] * len(ids))
            human: list[dict[str, float]] = [{} for _ in ids]
            for attribute, values in columns.items():
                for ratings, value in zip(human, values, strict=True):
                    if value is not None:
                        ratings[attribute] = value
            pairs.extend(Pair(*row) for row in zip(ids, prompts, responses, human, references, strict=True))
    return pairs


def _typed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Pairs with columns of the types that they are written with. ValueError where they are of others."""
    wanted = []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        is_text = name in _TEXTS or name == REFERENCE
        fits = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
        if is_text != fits or (name in _TEXTS and column.null_count):
            raise ValueError(f'the column "{name}" is not what belongs there')
        wanted.append(pa.field(name, pa.large_string() if is_text else pa.float64()))
    typed = batch.cast(pa.schema(wanted))
    typed.validate(full=True)  # that texts are UTF-8, which pyarrow takes a file's word for
    return typed
