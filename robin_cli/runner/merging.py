"""Runs on parts of one data set, put together into one."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from robin_cli.files.remote import scheme_of
from robin_cli.model.errors import InputError, shown
from robin_cli.policies.base import DEFAULT_MARGIN, Setup
from robin_cli.policies.registry import chosen
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.merge import Merged, merge
from robin_cli.storage.pair_files import read_matches, read_pair_ids
from robin_cli.storage.reader import space_of
from robin_cli.storage.shards import Shard, scheduler_asked


def merge_runs(runs: Iterable[str | Path], output: str | Path) -> Merged:
    """Make one run at ``output`` of ``runs``, made with the same settings on different pairs; a glob is those that match it.

    Raises:
        InputError, RunError, StorageError: as :func:`robin_cli.storage.merge.merge`.
    """
    if scheme_of(str(output)):
        raise InputError(
            f"-o {output}: a run is a folder on this machine; its scores may go to an address, with robin export -o"
        )
    return merge([path for name in runs for path in _expanded(name)], Path(output), _scheduler)


def _expanded(name: str | Path) -> list[Path]:
    if not glob.has_magic(str(name)) or os.path.lexists(name):
        return [Path(name)]
    found = sorted(Path(each) for each in glob.glob(str(name), recursive=True) if Path(each).is_dir())  # noqa: PTH207
    if not found:
        raise InputError(f"{shown(str(name), 200)}: matches no run; check the pattern: ls -d {shown(str(name), 200)}")
    return found


def _scheduler(shards: Sequence[Shard], manifest: Manifest, arms: int) -> str:
    """The scheduler for all of ``shards`` together, which asked for one that chooses by the budget, and got different ones."""
    settings, asked = manifest.settings, scheduler_asked(manifest)
    matches = None
    if manifest.is_pairwise:  # that of those with the most systems
        most = max(shards, key=lambda shard: int(shard.manifest.data.get("systems", 0)))
        matches = read_matches(most.path, most.manifest, space_of(most.manifest, read_pair_ids(most.path)))
    setup = Setup(
        arms=arms,
        budget=manifest.budget,
        scale=manifest.scales[0],
        delta=settings["delta"],
        mode=settings["mode"],
        objective=settings["objective"],
        to_target=manifest.last_session.get("target_error") is not None,
        by_money=manifest.budget_usd is not None,
        matches=matches,
        margin=manifest.own_settings["margin"] or DEFAULT_MARGIN,
    )
    choice = chosen(asked, setup)
    return asked if choice is None else choice.name
