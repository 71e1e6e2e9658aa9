"""Reading of runs, also while a process is at work on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.pair_table import OPTIONAL_TEXTS, PairTable
from robin_cli.data.texts import Texts, give_back
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import RunError, StorageError
from robin_cli.model.matches import Matches
from robin_cli.model.records import as_text
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.run.fold import COUNTED, RATED, Fold
from robin_cli.run.inquiry import Inquiry, asks_all
from robin_cli.run.layout import PAIRS, name_of
from robin_cli.run.manifest import FILE, Manifest, read_manifest
from robin_cli.run.pair_files import (
    StoredPairs,
    read_column_names,
    read_columns,
    read_numbers,
    read_pair_ids,
    read_table_of_pairs,
)
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import judgments_by_arm

_EMPTY = JUDGMENTS.empty_table()
_MOST_ARMS = 10**8


class StoredRun:
    """A run in the folder ``path``: its manifest and its files, each read when it is first needed.

    Attributes raise StorageError if their file cannot be read.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest

    @property
    def name(self) -> str:
        """The run's name for users."""
        return name_of(self.path)

    @cached_property
    def pairs(self) -> StoredPairs:
        """The run's pairs, whose texts are read when they are needed."""
        return StoredPairs(self.path)

    @cached_property
    def space(self) -> ArmSpace:
        """The run's arms by pair, attribute and judge."""
        return space_of(self.manifest, self.pairs.ids)

    @cached_property
    def inquiry(self) -> Inquiry:
        """The run's inquiry about its pairs."""
        return inquiry_of(self.manifest, self.space, self.pairs)


class RunData(StoredRun):
    """A run as it is on disk, read-only, also while another process works on it.

    Attributes:
        human: human ratings by attribute, shape (pairs,) each; nan if there is none.
        arm: the arm of each judgment, shape (rows,).
        judgments: the judgments' columns RATED, and those that were asked for.
        fold: the fold of all judgments.
    """

    def __init__(
        self,
        path: Path,
        manifest: Manifest,
        space: ArmSpace,
        human: Mapping[str, FloatArray],
        arm: IntArray,
        judgments: pa.Table,
        fold: Fold,
    ) -> None:
        super().__init__(path, manifest)
        self.space, self.human = space, human
        self.arm, self.judgments, self.fold = arm, judgments, fold

    @property
    def pair_ids(self) -> Sequence[str]:
        """The ids of the pairs, in the order of the data."""
        return self.space.pair_ids

    @property
    def task(self) -> Task | None:
        """The decision to make about the pairs; None without one, and in a pairwise run."""
        return self.inquiry.task

    @property
    def matches(self) -> Matches:
        """The prompts and systems of a pairwise run's comparisons. StorageError if they cannot be read."""
        return self.inquiry.matches

    @cached_property
    def prompts(self) -> IntArray:
        """The number of each pair's prompt, shape (pairs,): pairs with the same number have the same text."""
        return read_numbers([self.path], "prompt")

    @cached_property
    def responses(self) -> IntArray:
        """The number of each pair's response, shape (pairs,), as :attr:`prompts`."""
        return read_numbers([self.path], "response")

    @cached_property
    def columns(self) -> pa.Table:
        """All further columns of the data, a row per pair. StorageError if they cannot be read."""
        return self.pairs.columns

    @cached_property
    def column_names(self) -> Sequence[str]:
        """The names of the further columns of the data, in order. StorageError if they cannot be read."""
        return read_column_names(self.path)

    def column(self, name: str) -> list[str | None]:
        """Return each pair's value in a further column, as people write it: 3, 0.5, true; None if there is none.

        Raises:
            InputError: there is no such column. StorageError: it cannot be read.
        """
        values = read_columns(self.path, [name])[name].to_pylist()
        return [None if value is None else as_text(value) for value in values]


def inquiry_of(manifest: Manifest, space: ArmSpace, pairs: PairTable) -> Inquiry:
    """Return the inquiry of a run about its pairs."""
    return Inquiry(manifest.own_settings, space, pairs, manifest.seed, manifest.data.get("systems"))


def space_of(manifest: Manifest, pair_ids: Sequence[str]) -> ArmSpace:
    """Return the arms of a run with these pairs. StorageError if they are too many: they might not fit into memory."""
    space = ArmSpace(
        pair_ids, manifest.attributes, manifest.judges, manifest.scales, manifest.kind.variants
    )
    reached = manifest.budget * len(space.judges)  # a second opinion is not asked of all pairs
    if len(space) > (min(reached, _MOST_ARMS) if asks_all(manifest.own_settings) else _MOST_ARMS):
        raise StorageError(
            f"the run's {PAIRS} and {FILE} make {len(space):,} pairs × attributes × judges: more than its budget of "
            f"{manifest.budget:,} reaches, or than a run can have ({_MOST_ARMS:,}); restore these files from a copy"
        )
    return space


def read_run(path: Path, columns: Collection[str] = ()) -> RunData:
    """Read the run at ``path``, also while a process is at work on it. Judgments are folded as they are read.

    Args:
        columns: columns of judgments to keep beside RATED; their texts can be larger than the memory.

    Raises:
        RunError: there is no run, or a newer robin made it.
        StorageError: its files are damaged, or not of one run.
    """
    manifest = read_manifest(path)
    texts = {"prompt", "response", *OPTIONAL_TEXTS}
    table = read_table_of_pairs(path, lambda name: name not in texts)
    human = {
        name: table[name].fill_null(np.nan).to_numpy()
        for name in table.column_names
        if name != "pair_id"
    }
    space = space_of(manifest, Texts(table["pair_id"]))
    kept = [name for name in JUDGMENTS.names if name in {*RATED, *columns}]
    fold, arms, parts, empty = Fold(space), [], [_EMPTY.select(kept)], _EmptyColumns()
    for arm, judgments in judgments_by_arm(path, space, {*COUNTED, *kept}, draws=fold.draws):
        fold.add(arm, judgments)
        arms.append(arm)
        parts.append(empty.shared(judgments.select(kept)))
    check_spent(path, manifest, fold.arms.spent)
    fold.fitted = None  # only needed to go on with the run
    give_back()
    return RunData(path, manifest, space, human, _joined(arms), pa.concat_tables(parts), fold)


def check_spent(path: Path, manifest: Manifest, spent: int) -> None:
    """Raise RunError if more calls are spent than the budget: answers that robin did not ask for are in the run."""
    if manifest.budget_usd is None and spent > manifest.budget:
        raise RunError(
            f"{path}: {spent:,} calls are spent, but its budget in {FILE} is {manifest.budget:,}; restore the run from a "
            f"copy, or go on with robin resume --budget {spent} or more"
        )


def read_ratings(path: Path, space: ArmSpace) -> tuple[IntArray, pa.Table]:
    """Return the arm of each judgment of the run at ``path``, and the columns RATED. StorageError if they cannot be read."""
    found = list(judgments_by_arm(path, space, RATED))
    return _joined(arm for arm, _ in found), pa.concat_tables(
        [_EMPTY.select(RATED), *(table for _, table in found)]
    )


def distinct_judgments(
    path: Path, columns: Collection[str] = tuple(JUDGMENTS.names)
) -> Iterator[pa.Table]:
    """Yield the judgments of the run at ``path``, as :func:`judgments_by_arm`, a segment at a time."""
    space = space_of(read_manifest(path), read_pair_ids(path))
    return (
        table.select(list(columns))
        for _, table in judgments_by_arm(path, space, columns, gather=False)
    )


class _EmptyColumns:
    """Lets columns without a value share memory: for a hundred million judgments they would take gigabytes."""

    def __init__(self) -> None:
        self._known: dict[pa.DataType, pa.Array] = {}

    def shared(self, table: pa.Table) -> pa.Table:
        """Return ``table`` with its empty columns in shared memory."""
        return pa.table([self._shared(column) for column in table.columns], schema=table.schema)

    def _shared(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if column.null_count < len(column):
            return column
        known = self._known.get(column.type)
        if known is None or len(known) < len(column):
            known = self._known[column.type] = pa.nulls(len(column), column.type)
        return pa.chunked_array([known.slice(0, len(column))])


def _joined(arms: Iterable[IntArray]) -> IntArray:
    return np.concatenate([np.empty(0, dtype=np.int64), *arms])


def count_answers(path: Path) -> tuple[int, int]:
    """Return how many calls the run at ``path`` spent, and how many of them gave ratings. StorageError for damage."""
    spent = ratings = 0
    for table in distinct_judgments(path, ["status", "rating"]):
        spent += int(pc.sum(pc.not_equal(table["status"], "failed")).as_py() or 0)
        ratings += len(table) - table["rating"].null_count
    return spent, ratings
