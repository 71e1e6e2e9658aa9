"""Shards of one data set made into one run: a run directory as any other, which appears whole or not at all.

It is put together in a folder of its own beside where it is to be, segment by segment, so that memory does not grow with the
answers, and takes its place in one step. The shards stay as they are.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import os
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.datasets.columns import MOST_COLUMNS
from robin_cli.datasets.pair_table import REFERENCE
from robin_cli.datasets.parquet_tables import read_table, written_table
from robin_cli.files.local import NAME_KEPT, is_temporary, reading, sync_folder, whole_file
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, RunError, StorageError, shown
from robin_cli.model.records import GROUP_COLUMN, OTHER_COLUMN, as_text, number_of
from robin_cli.model.space import ArmSpace
from robin_cli.storage.fold import COUNTED, Fold
from robin_cli.storage.journal import Journal
from robin_cli.storage.layout import COLUMNS, JOURNAL, PAIRS, RESCUED, SEGMENTS, VARIANCES
from robin_cli.storage.locking import RunLock, is_locked
from robin_cli.storage.lookup import ArmLookup
from robin_cli.storage.manifest import REACHED, Manifest, library_versions, new_run_id, now, read_manifest
from robin_cli.storage.pair_files import (
    PAIRS_AT_A_TIME,
    StoredPairs,
    read_columns,
    read_pair_batches,
    write_pair_batches,
    write_table,
)
from robin_cli.storage.reader import read_run, space_of
from robin_cli.storage.rescue import KNOWN_BY, checked, find_rescued
from robin_cli.storage.schema import judgments_table
from robin_cli.storage.segments import gathered, read_judgments
from robin_cli.storage.shards import Shard, check_apart, check_groups_named_once, check_together, opened
from robin_cli.storage.snapshot import write_snapshot
from robin_cli.storage.store import write_segment

_MOST_CALLS = 10**9
_MOST_ARMS = 10**8
_EXACT = 2**53
_INSIDE = "run"
_ARM = "arm"
_NAMED = 3

Complete = Callable[[Sequence[Shard], Manifest, ArmSpace, StoredPairs, list[str]], Manifest]
"""Completes the manifest of a run of shards by what is known once all pairs are together, and notes what a user should know.

It raises InputError where one run cannot be made of the shards.
"""


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of merging.

    Attributes:
        runs: that were merged.
        judgments: in it; ``spent``: those that were answered.
        notes: what a user should know, a line each.
    """

    path: Path
    runs: Sequence[Path]
    pairs: int
    judgments: int
    spent: int
    budget: int
    budget_usd: float | None
    notes: Sequence[str]


def merge(paths: Sequence[Path], output: Path, complete: Complete) -> Merged:
    """Make one run at ``output`` of the runs at ``paths``, which are on different pairs of one data set.

    Raises:
        InputError: runs that are no shards of one run, and what differs.
        RunError: one of them is no run, or is at work; something is at ``output``.
        StorageError: the files of one are damaged, or the disk refuses. Nothing is at ``output`` then.
    """
    with opened(paths) as shards:
        _check_output(output, shards)
        check_together(shards)
        check_apart(shards)
        check_groups_named_once(shards)
        notes: list[str] = []
        manifest = _manifest(shards, notes)
        try:
            with _appearing(output) as folder:
                return _written(shards, manifest, folder, output, complete, notes)
        except OSError as error:
            raise StorageError(
                f"{output}: could not be written ({error.strerror or error}); nothing was made, and the runs are as they were. "
                "Make room, or name another place with -o"
            ) from error


def _check_output(output: Path, shards: Sequence[Shard]) -> None:
    """RunError where the run cannot be made at ``output``."""
    if os.path.lexists(output) and (output.is_symlink() or not output.is_dir() or any(output.iterdir())):
        raise RunError(f"-o {output}: is there already, and nothing is written over; name another folder")
    above = next((each for each in output.parents if os.path.lexists(each)), output.parent)
    if not above.is_dir():
        raise RunError(f"-o {output}: {above} is no folder; name another place")
    if within := next((each.path for each in shards if each.path.resolve() in output.resolve().parents), None):
        raise RunError(f"-o {output}: lies in the run {within}; name a folder outside of it")


@contextmanager
def _appearing(output: Path) -> Iterator[Path]:
    """A folder that takes its place at ``output`` when the context ends well, in one step, and is gone when it does not."""
    output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_leftovers(output)
    # One folder deeper than where runs are looked for: what a killed robin leaves is none.
    temporary = output.with_name(f".{output.name[:NAME_KEPT]}.{secrets.token_hex(8)}.tmp")
    folder = temporary / _INSIDE
    folder.mkdir(mode=0o700, parents=True)
    try:
        lock = RunLock(folder)
        try:
            yield folder
            if sys.platform == "win32":  # which moves no folder with an open file in it
                lock.release()
            os.rename(folder, output)  # noqa: PTH104  # as os.replace: the tests of crashes put a step around it
        finally:
            lock.release()
        sync_folder(output.parent)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR} and os.path.lexists(output):
            raise RunError(f"-o {output}: is there by now, and nothing is written over; name another folder") from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_leftovers(output: Path) -> None:
    """Remove what killed processes left that were making a run at ``output``."""
    for path in output.parent.glob(f".{glob.escape(output.name[:NAME_KEPT])}.*.tmp"):
        if not is_temporary(path.name) or path.is_symlink() or not path.is_dir():
            continue
        if not (path / _INSIDE).is_dir():
            with suppress(OSError):  # it was to be removed last
                path.rmdir()
        elif not is_locked(path / _INSIDE):
            shutil.rmtree(path, ignore_errors=True)


def _written(
    shards: Sequence[Shard], manifest: Manifest, folder: Path, output: Path, complete: Complete, notes: list[str]
) -> Merged:
    """Write the run into ``folder``, its manifest last."""
    (folder / SEGMENTS).mkdir(mode=0o700)
    _write_pairs(shards, folder / PAIRS)
    _write_columns(shards, folder / COLUMNS, notes)
    pairs = StoredPairs(folder)
    space = space_of(manifest, pairs.ids)
    _write_variances(shards, space, folder)
    manifest = complete(shards, manifest, space, pairs, notes)
    fold, segments, rescued = _write_judgments(shards, space, folder, notes)
    manifest = manifest.with_data(run_id=new_run_id(), rescued=manifest.rescued + rescued, kept=(segments, 0))
    Journal.create(folder / JOURNAL, segments + 1).close()
    if segments:
        write_snapshot(folder, fold, manifest.run_id, segments)
    manifest.write(folder)
    read_manifest(folder)  # what could not be read again must not take its place
    return Merged(
        output,
        [shard.path for shard in shards],
        len(space.pair_ids),
        fold.judgments,
        fold.arms.spent,
        manifest.budget,
        manifest.budget_usd,
        notes,
    )


def _write_pairs(shards: Sequence[Shard], path: Path) -> None:
    """Write the pairs of all shards, in order."""
    known = {name for shard in shards for name in shard.names}
    texts = [
        "pair_id",
        "prompt",
        "response",
        *(name for name in (REFERENCE, GROUP_COLUMN, OTHER_COLUMN) if name in known),
    ]
    fields = [pa.field(name, pa.large_string()) for name in texts]
    schema = pa.schema([*fields, *(pa.field(name, pa.float64()) for name in sorted(known - set(texts)))])

    def batches() -> Iterator[pa.RecordBatch]:
        for shard in shards:
            rows = 0
            for batch in read_pair_batches(shard.path):
                rows += len(batch)
                yield _with_all(batch, schema)
            if rows != len(shard.pair_ids):
                raise StorageError(f"{shard.path / PAIRS}: changed while it was read; try again")

    write_pair_batches(path, schema, batches)


def _with_all(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with the columns of ``schema``, of nulls where it has none of a name."""
    names = batch.schema.names
    columns = [
        batch.column(field.name) if field.name in names else pa.nulls(len(batch), field.type) for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _write_columns(shards: Sequence[Shard], path: Path, notes: list[str]) -> None:
    """Write the further columns of all shards, each with one type for all, as one run would have it; no file for none."""
    kinds: dict[str, set[pa.DataType]] = {}
    exact: dict[str, bool] = {}
    for shard in shards:
        table = read_columns(shard.path)
        for field in table.schema:
            kinds.setdefault(field.name, set()).add(field.type)
            exact[field.name] = exact.get(field.name, True) and _is_exact(table[field.name])
    for name in list(kinds)[MOST_COLUMNS:]:
        notes.append(f'the column "{shown(name)}" was left out: a run keeps at most {MOST_COLUMNS} further columns')
        del kinds[name]
    if not kinds:
        return
    schema = pa.schema([(name, _type(found, exact[name])) for name, found in kinds.items()])
    with whole_file(path) as file, written_table(file, schema) as writer:
        for shard in shards:
            table = read_columns(shard.path)
            for start in range(0, len(shard.pair_ids), PAIRS_AT_A_TIME):
                count = min(PAIRS_AT_A_TIME, len(shard.pair_ids) - start)
                columns = [
                    _as_type(table[field.name].slice(start, count), field.type)
                    if field.name in table.column_names
                    else pa.nulls(count, field.type)
                    for field in schema
                ]
                writer.write_table(pa.table(columns, schema=schema))


def _type(kinds: set[pa.DataType], exact: bool) -> pa.DataType:  # noqa: FBT001  # one of two that belong together
    if len(kinds) == 1:
        return next(iter(kinds))
    return pa.float64() if kinds == {pa.int64(), pa.float64()} and exact else pa.large_string()


def _is_exact(values: pa.ChunkedArray) -> bool:
    """Whether whole numbers are themselves as floating-point numbers; other values are not asked."""
    if not pa.types.is_int64(values.type):
        return True
    ends = pc.min_max(values).as_py()
    return all(end is None or abs(end) <= _EXACT for end in ends.values())


def _as_type(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if values.type == wanted or not pa.types.is_large_string(wanted):
        return values.cast(wanted)
    texts = [None if value is None else as_text(value) for value in values.to_pylist()]
    return pa.chunked_array([pa.array(texts, wanted)], wanted)


def _write_variances(shards: Sequence[Shard], space: ArmSpace, folder: Path) -> None:
    """Write what the scheduler began with, where it began with something: of all shards, for all have it or none."""
    if not (shards[0].path / VARIANCES).exists():
        return
    found = [_variances(shard.path / VARIANCES, len(shard.pair_ids) * space.arms_per_pair) for shard in shards]
    write_table(pa.table({"variance": np.concatenate(found)}), folder / VARIANCES)


def _variances(path: Path, arms: int) -> FloatArray:
    try:
        with reading(path) as file:
            found: FloatArray = read_table(file, str(path), ["variance"])["variance"].to_numpy().astype(np.float64)
    except (OSError, InputError, KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise StorageError(f"{path}: cannot be read ({error}); restore it from a copy") from error
    if len(found) != arms or not (np.isfinite(found) & (found >= 0)).all():
        raise StorageError(f"{path}: holds no variance of each score of its run; restore it from a copy")
    return found


def _write_judgments(shards: Sequence[Shard], space: ArmSpace, folder: Path, notes: list[str]) -> tuple[Fold, int, int]:
    """Write the judgments of all shards, in order; what they come to, in how many segments, and how many were rescued ones."""
    fold, lookup, segments, rescued, first = Fold(space), ArmLookup(space), 0, 0, 0

    def written(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        nonlocal segments
        for table in filter(len, tables):
            arm = lookup.arms_of(table)
            is_first = fold.draws.first(arm, table["draw"].to_numpy())
            segments += 1
            write_segment(table.filter(pa.array(is_first)), folder, segments)
            yield table.select(COUNTED).append_column(_ARM, pa.array(arm)).filter(pa.array(is_first))

    for shard in shards:
        after, spent = first + len(shard.pair_ids) * space.arms_per_pair, fold.arms.spent
        taken, before = _rescued(shard, notes), fold.draws.set_aside
        rescued += len(taken)
        try:
            for judgments in gathered(written(chain(read_judgments(shard.path), [taken]))):
                _add(fold, judgments[_ARM].to_numpy(), judgments, range(first, after))
        except StorageError as error:
            raise StorageError(
                f"{shard.path}: {error}".replace(f"{shard.path}: {shard.path}", str(shard.path))
            ) from error
        except (ValueError, pa.ArrowException) as error:
            raise StorageError(f"{shard.path}: a judgment in it is none ({error}); restore it from a copy") from error
        first = after
        if again := fold.draws.set_aside - before:
            notes.append(f"{shard.path}: {number_of(again, 'judgment')} left out: repeats of others")
        _note_unfinished(shard, fold.arms.spent - spent, notes)
    return fold, segments, rescued


def _add(fold: Fold, found: IntArray, judgments: pa.Table, arms: range) -> None:
    """Add judgments of the ``arms`` of one shard. StorageError where they are of another's."""
    if not ((arms.start <= found) & (found < arms.stop)).all():
        raise StorageError(
            "the run's judgments name a pair that its pairs.parquet does not have; these files are not of one run"
        )
    fold.add(found, judgments)


def _rescued(shard: Shard, notes: list[str]) -> pa.Table:
    """Answers of a shard that its disk would not take and that wait to be taken back: they were paid for."""
    lines = find_rescued(shard.path)
    if not lines:
        return judgments_table([])
    new, rejected = checked(lines, read_run(shard.path, KNOWN_BY))
    place = shard.path / RESCUED
    if new:
        notes.append(f"{shard.path}: {number_of(len(new), 'rescued answer')} taken in from {place}, which stays there")
    if rejected:
        notes.append(f"{shard.path}: {len(rejected):,} of the rescued answers in {place} left out; {rejected[0][2]}")
    return judgments_table(new)


def _note_unfinished(shard: Shard, spent: int, notes: list[str]) -> None:
    """Say of a shard that its budget is not spent, unless it may end before."""
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
    notes.append(f"{shard.path}: is not finished, {spent:,} {of} are spent; robin resume of the merged run goes on")


def _manifest(shards: Sequence[Shard], notes: list[str]) -> Manifest:
    """The manifest of the run that ``shards`` make together; InputError where they are more than a run can be."""
    each = [shard.manifest for shard in shards]
    first = each[0]
    pairs = sum(len(shard.pair_ids) for shard in shards)
    if (arms := pairs * len(first.attributes) * len(first.judges)) > _MOST_ARMS:
        raise InputError(
            f"these runs make {arms:,} pairs × attributes × judges together, and a run has at most {_MOST_ARMS:,}"
        )
    budget = sum(manifest.budget for manifest in each)
    if first.budget_usd is None and budget > _MOST_CALLS:
        raise InputError(
            f"these runs have a budget of {budget:,} calls together, and a run has at most {_MOST_CALLS:,}"
        )
    budget_usd = sum(manifest.budget_usd or 0.0 for manifest in each) if first.budget_usd is not None else None
    variances = list(dict.fromkeys(str(manifest.settings.get("variances")) for manifest in each))
    settings = {**first.settings, "limit": None}
    if first.settings.get("variances") is not None:
        settings["variances"] = ", ".join(variances)
    merged = replace(
        first,
        settings=settings,
        budget=min(budget, _MOST_CALLS),
        budget_usd=budget_usd,
        data=_data(shards),
        sessions=tuple(
            sorted(
                (session for manifest in each for session in manifest.sessions),
                key=lambda each: str(each["started_at"]),
            )
        ),
        created_at=now(),
        versions=library_versions(),
        format=max(manifest.format for manifest in each),
    )
    return merged.with_last_session(**_last_session(each, budget_usd, notes))


def _last_session(each: Sequence[Manifest], budget_usd: float | None, notes: list[str]) -> dict[str, Any]:
    """What the last session of all is to say of where the runs were left, and of what holds of all when they go on."""
    last = [manifest.sessions[-1] if manifest.sessions else {} for manifest in each]
    in_flight = [session.get("in_flight") for session in last if session]
    said: dict[str, Any] = {"in_flight": None if None in in_flight else sum(filter(None, in_flight))}
    reached = all(manifest.money_reached for manifest in each)
    if budget_usd is not None:
        said[REACHED] = budget_usd if reached else 0.0
    limits = [session.get("max_cost") for session in last]
    said["max_cost"] = None if None in limits else sum(filter(None, limits))
    if said["max_cost"] is None and any(limits):
        notes.append(
            "--max-cost: some of the runs had one and others had none, so the merged run has none; robin resume takes one"
        )
    aims = [(session.get("target_error"), bool(session.get("guaranteed"))) for session in last]
    if any(aim != aims[0] for aim in aims):
        notes.append(
            "--target-error: the runs were to stop at different errors, so the merged run has none; robin resume takes one"
        )
        said |= {"target_error": None, "guaranteed": False}
    return said


def _data(shards: Sequence[Shard]) -> dict[str, Any]:
    """What is said of the data of all shards, as of one data set of all their files."""
    each = [shard.manifest.data for shard in shards]
    of_files = [(shard, str(name), str(digest)) for shard in shards for name, digest in _files(shard.manifest)]
    digests = Counter(name for name, _ in {(name, digest) for _, name, digest in of_files})
    # On two machines two files may have one name, which says nothing of either here.
    files = [[name if digests[name] == 1 else f"{shard.path}: {name}", digest] for shard, name, digest in of_files]
    names = [name for name, _ in files]
    left_out: Counter[str] = Counter()
    for data in each:
        left_out.update(data.get("left_out", {}))
    hashes = [_whole(shard.manifest, digest) for shard, _, digest in of_files]
    skipped = sum(data.get("skipped", 0) for data in each)
    columns = each[0].get("columns", {})
    found: dict[str, Any] = {
        "source": ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""),
        "sha256": hashes[0] if len(hashes) == 1 else hashlib.sha256("\n".join(hashes).encode()).hexdigest(),
        "pairs": sum(len(shard.pair_ids) for shard in shards),
        "skipped": skipped,
        "files": files,
        "rescued": sum(shard.manifest.rescued for shard in shards),
        "shards": [_shard_entry(shard) for shard in shards],
    }
    if skipped:
        found["left_out"] = dict(left_out.most_common())
        found["first_left_out"] = [said for data in each for said in data.get("first_left_out", ())][:_NAMED]
    if all(data.get("columns", {}) == columns for data in each):
        found["columns"] = dict(columns)
    if all(data.get("scheduler_asked") for data in each):
        found["scheduler_asked"] = each[0]["scheduler_asked"]
    return found


def _files(manifest: Manifest) -> Sequence[tuple[str, str]]:
    return manifest.data.get("files") or [(manifest.data["source"], manifest.data["sha256"])]


def _whole(manifest: Manifest, digest: str) -> str:
    """The digest of a file; another where not all of it was taken, so that all of it is not taken for the same data."""
    limit = manifest.settings.get("limit")
    return digest if limit is None else hashlib.sha256(f"{digest} {limit}".encode()).hexdigest()


def _shard_entry(shard: Shard) -> dict[str, Any]:
    """What stays known of a shard."""
    manifest, data = shard.manifest, shard.manifest.data
    return {
        "run": str(shard.path),
        "run_id": manifest.run_id,
        "source": data["source"],
        "sha256": data["sha256"],
        "pairs": len(shard.pair_ids),
        "budget": manifest.budget,
        "budget_usd": manifest.budget_usd,
        "created_at": manifest.created_at,
        "versions": dict(manifest.versions),
    }
