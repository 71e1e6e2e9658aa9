"""The pairs and the judgments of all shards, concatenated for a merged run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from warnings import catch_warnings, simplefilter

import numpy as np
import pyarrow as pa

from robin_cli.datasets.columns import MOST_COLUMNS
from robin_cli.datasets.pair_table import GrowingTable, PairTable
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import RepeatedJudgments, StorageError, shown
from robin_cli.model.records import number_of
from robin_cli.storage.files_of_run import read_variances, write_segment
from robin_cli.storage.fold import Fold
from robin_cli.storage.layout import RESCUED
from robin_cli.storage.lookup import ArmLookup
from robin_cli.storage.pair_files import read_columns, read_pair_batches
from robin_cli.storage.rescue import rescued
from robin_cli.storage.schema import JUDGMENTS, judgments_table
from robin_cli.storage.segments import gathered, judgments_by_arm
from robin_cli.storage.shards import Shard
from robin_cli.storage.store import SEGMENT_CHARACTERS


def pairs_of(shards: Sequence[Shard], notes: list[str]) -> PairTable:
    """Return the pairs of all shards, in order. Each further column has one type, as in a single run."""
    growing = GrowingTable()
    names: dict[str, None] = {}
    for shard in shards:
        further, start = read_columns(shard.path), 0
        names |= dict.fromkeys(further.column_names)
        for batch in read_pair_batches(shard.path):
            mine = further.slice(start, len(batch)).combine_chunks()
            start += len(batch)
            columns = {name: pa.concat_arrays(mine[name].chunks) for name in mine.column_names}
            growing.extend_columns(
                dict(zip(batch.schema.names, batch.columns, strict=True)), columns
            )
    left_out = list(names)[MOST_COLUMNS:]
    most = f"a run keeps at most {MOST_COLUMNS} further columns"
    notes.extend(f'the column "{shown(name)}" was left out: {most}' for name in left_out)
    return growing.table(left_out)


def variances_of(shards: Sequence[Shard]) -> FloatArray | None:
    """Return the variances that the schedulers of all shards started with; None without any: all shards have them, or none."""
    found = [read_variances(shard.path, len(shard.space)) for shard in shards]
    return (
        np.concatenate([each for each in found if each is not None])
        if found[0] is not None
        else None
    )


def write_judgments(shards: Sequence[Shard], folder: Path, notes: list[str]) -> tuple[int, int]:
    """Write the judgments of all shards, in order; return the number of segments, and of rescued judgments."""
    segments = rescued = 0
    for shard in shards:
        fold, taken = Fold(shard.space), _rescued(shard, notes)
        rescued += len(taken)
        try:
            for arm, table in _judgments(shard, fold, taken):
                fold.add(arm, table)
                segments += 1
                write_segment(table, folder, segments)
        except StorageError as error:
            raise StorageError(
                f"{shard.path}: {error}".replace(f"{shard.path}: {shard.path}", str(shard.path))
            ) from error
        except (ValueError, pa.ArrowException) as error:
            raise StorageError(
                f"{shard.path}: holds a bad judgment ({error}); restore it from a copy"
            ) from error
        if again := fold.draws.set_aside:
            notes.append(
                f"{shard.path}: {number_of(again, 'judgment')} left out: repeats of others"
            )
        _note_unfinished(shard, fold.arms.spent, notes)
    return segments, rescued


def _judgments(shard: Shard, fold: Fold, rescued: pa.Table) -> Iterator[tuple[IntArray, pa.Table]]:
    """Yield the arms and judgments of a shard, then the ``rescued`` ones, at most a segment at a time."""
    with catch_warnings():
        simplefilter("ignore", RepeatedJudgments)  # a note reports them
        join = partial(gathered, nbytes=SEGMENT_CHARACTERS)
        yield from judgments_by_arm(
            shard.path, shard.space, JUDGMENTS.names, draws=fold.draws, join=join
        )
    if len(rescued):
        yield ArmLookup(shard.space).arms_of(rescued), rescued


def _rescued(shard: Shard, notes: list[str]) -> pa.Table:
    """Return the rescued answers of a shard that wait to be taken back: they were paid for."""
    new, rejected = rescued(shard.path)
    place = shard.path / RESCUED
    if new:
        notes.append(
            f"{shard.path}: {number_of(len(new), 'rescued answer')} taken in from {place}, which stays there"
        )
    if rejected:
        notes.append(
            f"{shard.path}: {len(rejected):,} of the rescued answers in {place} left out; {rejected[0][2]}"
        )
    return judgments_table(new)


def _note_unfinished(shard: Shard, spent: int, notes: list[str]) -> None:
    """Add a note if a shard's budget is not spent, unless its goal may end it earlier."""
    manifest = shard.manifest
    if (
        manifest.is_spent(spent)
        or manifest.decision is not None
        or manifest.last_session.get("target_error") is not None
    ):
        return
    of = (
        f"of {manifest.budget:,} calls"
        if manifest.budget_usd is None
        else f"calls, and not all of ${manifest.budget_usd:g}"
    )
    notes.append(
        f"{shard.path}: is not finished, {spent:,} {of} are spent; robin resume of the merged run goes on"
    )
