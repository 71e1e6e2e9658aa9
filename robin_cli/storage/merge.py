"""Merging of shards into one run, a run directory as any other, which appears whole or not at all.

The run is written to a temporary folder beside its place, segment by segment, so that memory does not grow with the answers,
and then renamed. The shards are not changed.
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
from robin_cli.storage.manifest import (
    REACHED,
    Manifest,
    library_versions,
    new_run_id,
    now,
    read_manifest,
)
from robin_cli.storage.merged_data import pairs_of, variances_of, write_judgments
from robin_cli.storage.reader import inquiry_of, space_of
from robin_cli.storage.shards import (
    Shard,
    check_apart,
    check_groups_named_once,
    check_together,
    opened,
)
from robin_cli.storage.snapshot import folded, write_snapshot

_INSIDE = "run"
_MOST_CALLS = 10**9
_MOST_ARMS = 10**8
_NAMED = 3

Complete = Callable[[Sequence[Shard], Manifest, Inquiry, list[str]], Manifest]
"""Completes the manifest of a merged run once all pairs are known, and adds notes for the user.

Raises InputError if the shards cannot become one run.
"""


@dataclass(frozen=True, slots=True)
class Merged:
    """The result of merging.

    Attributes:
        runs: the shards.
        judgments: the number of judgments in the run; ``spent``: the answered ones.
        notes: lines for the user.
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
    """Make one run at ``output`` of the runs at ``paths``, which have different pairs of one data set.

    Raises:
        InputError: the runs are not shards of one run; the message lists what differs.
        RunError: one is not a run, or a process is at work on it; or ``output`` exists.
        StorageError: files are damaged, or the disk refuses. Nothing is at ``output`` then.
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
                f"{output}: could not be written ({error.strerror or error}); nothing was made, and the runs are unchanged. "
                "Make room, or name another place with -o"
            ) from error


def _check_output(output: Path, shards: Sequence[Shard]) -> None:
    """Raise RunError if the run cannot be made at ``output``."""
    if os.path.lexists(output) and (
        output.is_symlink() or not output.is_dir() or any(output.iterdir())
    ):
        raise RunError(f"-o {output}: exists, and is not overwritten; name another folder")
    above = next((each for each in output.parents if os.path.lexists(each)), output.parent)
    if not above.is_dir():
        raise RunError(f"-o {output}: {above} is not a folder; name another place")
    if within := next(
        (each.path for each in shards if each.path.resolve() in output.resolve().parents), None
    ):
        raise RunError(f"-o {output}: lies in the run {within}; name a folder outside of it")


@contextmanager
def _appearing(output: Path) -> Iterator[Path]:
    """Yield a temporary folder that is renamed to ``output`` if the context succeeds, and removed if it fails."""
    output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    _remove_leftovers(output)
    # One level deeper than runs are looked for: a folder that a killed robin leaves is not taken for a run.
    temporary = output.with_name(f".{output.name[:NAME_KEPT]}.{secrets.token_hex(8)}.tmp")
    folder = temporary / _INSIDE
    folder.mkdir(mode=0o700, parents=True)
    try:
        lock = RunLock(folder)
        try:
            yield folder
            if sys.platform == "win32":  # it cannot move a folder with an open file
                lock.release()
            os.rename(folder, output)  # noqa: PTH104  # as os.replace: the tests of crashes put a step around it
        finally:
            lock.release()
        sync_folder(output.parent)
    except OSError as error:
        if error.errno in {errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR} and os.path.lexists(
            output
        ):
            raise RunError(
                f"-o {output}: exists by now, and is not overwritten; name another folder"
            ) from error
        raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _remove_leftovers(output: Path) -> None:
    """Remove the folders of killed processes that were making a run at ``output``."""
    for path in output.parent.glob(f".{glob.escape(output.name[:NAME_KEPT])}.*.tmp"):
        if not is_temporary(path.name) or path.is_symlink() or not path.is_dir():
            continue
        if not (path / _INSIDE).is_dir():
            with suppress(OSError):
                path.rmdir()
        elif not is_locked(path / _INSIDE):
            shutil.rmtree(path, ignore_errors=True)


def _written(
    shards: Sequence[Shard],
    manifest: Manifest,
    folder: Path,
    output: Path,
    complete: Complete,
    notes: list[str],
) -> Merged:
    """Write the run into ``folder``, its manifest last."""
    pairs = pairs_of(shards, notes)
    space = space_of(manifest, pairs.ids)
    write_data(folder, pairs, variances_of(shards))
    manifest = complete(shards, manifest, inquiry_of(manifest, space, pairs), notes)
    segments, rescued = write_judgments(shards, folder, notes)
    manifest = manifest.with_data(
        run_id=new_run_id(), rescued=manifest.rescued + rescued, kept=(segments, 0)
    )
    Journal.create(folder / JOURNAL, segments + 1).close()
    notes.extend(merge_labels([shard.path for shard in shards], folder))
    manifest.write(folder)
    read_manifest(folder)  # a run that cannot be read must not appear
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
    """Return the manifest of the merged run. InputError if it would be larger than a run can be."""
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
    budget_usd = (
        sum(manifest.budget_usd or 0.0 for manifest in each)
        if first.budget_usd is not None
        else None
    )
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


def _last_session(
    each: Sequence[Manifest], budget_usd: float | None, notes: list[str]
) -> dict[str, Any]:
    """Return facts for the last session: the state of the shards, and the limits that hold for the merged run."""
    last = [manifest.sessions[-1] if manifest.sessions else {} for manifest in each]
    in_flight = [session.get("in_flight") for session in last if session]
    facts: dict[str, Any] = {
        "in_flight": None if None in in_flight else sum(filter(None, in_flight))
    }
    reached = all(manifest.money_reached for manifest in each)
    if budget_usd is not None:
        facts[REACHED] = budget_usd if reached else 0.0
    limits = [session.get("max_cost") for session in last]
    facts["max_cost"] = None if None in limits else sum(filter(None, limits))
    if facts["max_cost"] is None and any(limits):
        notes.append(
            "--max-cost: some of the runs had one and others had none, so the merged run has none; robin resume takes one"
        )
    aims = [(session.get("target_error"), bool(session.get("guaranteed"))) for session in last]
    if any(aim != aims[0] for aim in aims):
        notes.append(
            "--target-error: the runs were to stop at different errors, so the merged run has none; robin resume takes one"
        )
        facts |= {"target_error": None, "guaranteed": False}
    return facts


def _data(shards: Sequence[Shard]) -> dict[str, Any]:
    """Return the manifest's facts about the data of all shards, as one data set."""
    each = [shard.manifest.data for shard in shards]
    of_files = [
        (shard, str(name), str(digest))
        for shard in shards
        for name, digest in _files(shard.manifest)
    ]
    digests = Counter(name for name, _ in {(name, digest) for _, name, digest in of_files})
    # Two files on two machines may have the same name: then the run is named too.
    files = [
        [name if digests[name] == 1 else f"{shard.path}: {name}", digest]
        for shard, name, digest in of_files
    ]
    names = [name for name, _ in files]
    left_out: Counter[str] = Counter()
    for data in each:
        left_out.update(data.get("left_out", {}))
    hashes = [_whole(shard.manifest, digest) for shard, _, digest in of_files]
    skipped = sum(data.get("skipped", 0) for data in each)
    columns = each[0].get("columns", {})
    found: dict[str, Any] = {
        "source": ", ".join(names[:_NAMED])
        + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""),
        "sha256": hashes[0]
        if len(hashes) == 1
        else hashlib.sha256("\n".join(hashes).encode()).hexdigest(),
        "pairs": sum(len(shard.pair_ids) for shard in shards),
        "skipped": skipped,
        "files": files,
        "rescued": sum(shard.manifest.rescued for shard in shards),
        "shards": [_shard_entry(shard) for shard in shards],
    }
    if skipped:
        found["left_out"] = dict(left_out.most_common())
        found["first_left_out"] = [
            line for data in each for line in data.get("first_left_out", ())
        ][:_NAMED]
    if all(data.get("columns", {}) == columns for data in each):
        found["columns"] = dict(columns)
    if all(data.get("scheduler_asked") for data in each):
        found["scheduler_asked"] = each[0]["scheduler_asked"]
    return found


def _files(manifest: Manifest) -> Sequence[tuple[str, str]]:
    return manifest.data.get("files") or [(manifest.data["source"], manifest.data["sha256"])]


def _whole(manifest: Manifest, digest: str) -> str:
    """Return the digest of a file; with --limit another one, because that is not the same data as the whole file."""
    limit = manifest.settings.get("limit")
    return digest if limit is None else hashlib.sha256(f"{digest} {limit}".encode()).hexdigest()


def _shard_entry(shard: Shard) -> dict[str, Any]:
    """Return the record of a shard in the merged manifest."""
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
