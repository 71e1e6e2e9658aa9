"""Reading of runs, also while a process is at work on them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.pair_table import OPTIONAL_TEXTS
from robin_cli.data.texts import Texts, give_back
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, did_you_mean, shown
from robin_cli.model.records import as_text
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import COUNTED, RATED, Fold
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.layout import PAIRS
from robin_cli.run.manifest import Manifest, read_manifest
from robin_cli.run.pair_files import (
    StoredPairs,
    read_column_names,
    read_columns,
    read_numbers,
)
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import judgments_by_arm, read_judgments
from robin_cli.run.tables import column_names, read_table

_TEXTS = {"prompt", "response", *OPTIONAL_TEXTS}


class StoredRun(Inquiry):
    """A run in the folder ``path``: its manifest and its files, each read when it is first needed.

    Attributes raise StorageError if their file cannot be read.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.run_settings, self.seed = manifest.own_settings, manifest.seed

    @property
    def name(self) -> str:
        """The run's name for users."""
        return self.manifest.file_of_scores or str(self.path)

    @cached_property
    def pairs(self) -> StoredPairs:  # type: ignore[override]  # read on first use
        """The run's pairs, whose texts are read when they are needed."""
        return StoredPairs(self.path)

    @cached_property
    def space(self) -> ArmSpace:  # type: ignore[override]  # likewise
        """The run's arms by pair, attribute and judge."""
        return space_of(self.manifest, self.pairs.ids)


class RunReader(StoredRun):
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
        human: Mapping[str, FloatArray],
        arm: IntArray,
        judgments: pa.Table,
        fold: Fold,
    ) -> None:
        super().__init__(path, manifest)
        self.space, self.human = fold.space, human
        self.arm, self.judgments, self.fold = arm, judgments, fold

    @property
    def pair_ids(self) -> Sequence[str]:
        """The ids of the pairs, in the order of the data."""
        return self.space.pair_ids

    @cached_property
    def prompts(self) -> IntArray:
        """The number of each pair's prompt, shape (pairs,): pairs with the same number have the same text."""
        return read_numbers([self.path], "prompt")

    @cached_property
    def column_names(self) -> Sequence[str]:
        """The names of the further columns of the data, in order. StorageError if they cannot be read."""
        return read_column_names(self.path)

    def column(self, name: str) -> list[str | None]:
        """Return each pair's value in a further column, as people write it: 3, 0.5, true; None if there is none.

        Raises:
            InputError: there is no such column. StorageError: it cannot be read.
        """
        if name not in self.column_names:
            raise InputError(f"{self.name}: {_no_column(name, self.column_names)}")
        values = read_columns(self.path, [name])[name].to_pylist()
        return [None if value is None else as_text(value) for value in values]


def space_of(manifest: Manifest, pair_ids: Sequence[str]) -> ArmSpace:
    """Return the arms of a run with these pairs."""
    variants = manifest.kind.variants
    return ArmSpace(pair_ids, manifest.attributes, manifest.judges, manifest.scales, variants)


def read_run(path: Path, columns: Collection[str] = ()) -> RunReader:
    """Read the run at ``path``, also while a process is at work on it. Judgments are folded as they are read.

    Args:
        columns: columns of judgments to keep beside RATED; their texts can be larger than the memory.

    Raises:
        RunError: there is no run, or a newer robin made it.
        StorageError: its files are damaged, or not of one run.
    """
    manifest = read_manifest(path)
    names = [name for name in column_names(path / PAIRS) if name not in _TEXTS]
    table = read_table(path / PAIRS, names).combine_chunks()
    space = space_of(manifest, Texts(table["pair_id"]))
    human = {name: table[name].fill_null(np.nan).to_numpy() for name in names if name != "pair_id"}
    kept = [name for name in JUDGMENTS.names if name in {*RATED, *columns}]
    fold, arms, parts = Fold(space), [np.empty(0, np.int64)], [_no_judgments(kept)]
    for arm, judgments in judgments_by_arm(path, space, {*COUNTED, *kept}):
        fold.add(arm, judgments)
        arms.append(arm)
        parts.append(judgments.select(kept))
    fold.fitted = None  # only needed to go on with the run
    give_back()
    return RunReader(path, manifest, human, np.concatenate(arms), pa.concat_tables(parts), fold)


def read_ratings(path: Path, space: ArmSpace) -> tuple[IntArray, pa.Table]:
    """Return the arm of each judgment of the run at ``path``, and the columns RATED. StorageError if they cannot be read."""
    parts = [
        (np.empty(0, np.int64), _no_judgments(RATED)),
        *judgments_by_arm(path, space, RATED),
    ]
    arms, tables = zip(*parts, strict=True)
    return np.concatenate(arms), pa.concat_tables(tables)


def _no_judgments(columns: Sequence[str]) -> pa.Table:
    return JUDGMENTS.empty_table().select(columns)


def count_answers(path: Path) -> tuple[int, int]:
    """Return how many calls the run at ``path`` spent, and how many of them gave ratings. StorageError for damage."""
    spent = ratings = 0
    for table in read_judgments(path, ["status", "rating"]):
        spent += int(pc.sum(pc.not_equal(table["status"], "failed")).as_py() or 0)
        ratings += len(table) - table["rating"].null_count
    return spent, ratings


def _no_column(name: str, known: Sequence[str]) -> str:
    if not known:
        return (
            f'no column "{shown(name)}": its data had only prompts, responses and human ratings; make a new run from data '
            "that have the column"
        )
    listed = ", ".join(map(shown, known[:12])) + (", …" if len(known) > 12 else "")
    return f'no column "{shown(name)}" in its data, which have {listed}{did_you_mean(name, known)}'
