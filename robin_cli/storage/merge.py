"""Shards of one data set made into one run: a run directory as any other, which appears whole or not at all.

It is put together in a folder of its own beside where it is to be, segment by segment, so that memory does not grow with the
answers, and takes its place in one step. The shards stay as they are.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from robin_cli.files.local import NAME_KEPT, is_temporary, sync_folder
from robin_cli.model.errors import RunError, StorageError
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.files_of_run import write_data
from robin_cli.storage.journal import Journal
from robin_cli.storage.layout import JOURNAL
from robin_cli.storage.locking import RunLock, is_locked
from robin_cli.storage.manifest import Manifest, new_run_id, read_manifest
from robin_cli.storage.merged_data import pairs_of, variances_of, write_judgments
from robin_cli.storage.merged_manifest import manifest_of
from robin_cli.storage.reader import inquiry_of, space_of
from robin_cli.storage.shards import Shard, check_apart, check_groups_named_once, check_together, opened
from robin_cli.storage.snapshot import folded, write_snapshot

_INSIDE = "run"

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
