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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from robin_cli.files.local import NAME_KEPT, is_temporary, sync_folder
from robin_cli.model.errors import InputError, RunError, StorageError
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.files_of_run import write_data
from robin_cli.storage.journal import Journal
from robin_cli.storage.labels import merge_labels
from robin_cli.storage.layout import JOURNAL
from robin_cli.storage.locking import RunLock, is_locked
from robin_cli.storage.manifest import REACHED, Manifest, library_versions, new_run_id, now, read_manifest
from robin_cli.storage.merged_data import pairs_of, variances_of, write_judgments
from robin_cli.storage.reader import inquiry_of, space_of
from robin_cli.storage.shards import Shard, check_apart, check_groups_named_once, check_together, opened
from robin_cli.storage.snapshot import folded, write_snapshot

_INSIDE = "run"
_MOST_CALLS = 10**9
_MOST_ARMS = 10**8
_NAMED = 3

Complete = Callable[[Sequence[Shard], Manifest, Inquiry, list[str]], Manifest]
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
        manifest = manifest_of(shards, notes)
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
    pairs = pairs_of(shards, notes)
    space = space_of(manifest, pairs.ids)
    write_data(folder, pairs, variances_of(shards))
    manifest = complete(shards, manifest, inquiry_of(manifest, space, pairs), notes)
    segments, rescued = write_judgments(shards, folder, notes)
    manifest = manifest.with_data(run_id=new_run_id(), rescued=manifest.rescued + rescued, kept=(segments, 0))
    Journal.create(folder / JOURNAL, segments + 1).close()
    notes.extend(merge_labels([shard.path for shard in shards], folder))
    manifest.write(folder)
    read_manifest(folder)  # what could not be read again must not take its place
    fold, _ = folded(folder, space, manifest.run_id)
    if segments:
        write_snapshot(folder, fold, manifest.run_id, segments)
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


def manifest_of(shards: Sequence[Shard], notes: list[str]) -> Manifest:
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
