"""Merging of runs on parts of one data set."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from robin_cli.files.remote import scheme_of
from robin_cli.goals.making import goal_of
from robin_cli.model.errors import InputError, shown
from robin_cli.policies.registry import chosen
from robin_cli.questions.inquiry import Inquiry
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.merge import Merged, merge
from robin_cli.storage.shards import Shard, scheduler_asked


def merge_runs(runs: Iterable[str | Path], output: str | Path) -> Merged:
    """Make one run at ``output`` of ``runs`` with the same settings and different pairs; a glob stands for its matches.

    Raises:
        InputError, RunError, StorageError: as :func:`robin_cli.storage.merge.merge`.
    """
    if scheme_of(str(output)):
        raise InputError(
            f"-o {output}: a run is a folder on this machine; its scores may go to an address, with robin export -o"
        )
    return merge([path for name in runs for path in _expanded(name)], Path(output), _completed)


def _expanded(name: str | Path) -> list[Path]:
    if not glob.has_magic(str(name)) or os.path.lexists(name):
        return [Path(name)]
    found = sorted(
        Path(each)
        for each in glob.glob(str(name), recursive=True)  # noqa: PTH207
        if Path(each).is_dir()
    )
    if not found:
        raise InputError(
            f"{shown(str(name), 200)}: matches no run; check the pattern: ls -d {shown(str(name), 200)}"
        )
    return found


def _completed(
    shards: Sequence[Shard], manifest: Manifest, inquiry: Inquiry, notes: list[str]
) -> Manifest:
    """Return the merged manifest with the goal's facts about the data, and the scheduler that fits all shards."""
    goal = goal_of(inquiry)
    manifest = manifest.with_data(**goal.data)
    if note := goal.across(
        np.repeat(np.arange(len(shards)), [len(shard.pair_ids) for shard in shards])
    ):
        notes.append(note)
    if len({shard.manifest.settings["scheduler"] for shard in shards}) == 1:
        return manifest
    asked = scheduler_asked(manifest)
    choice = chosen(asked, goal.setup(manifest.own_settings, manifest.budget))
    scheduler = asked if choice is None else choice.name
    notes.append(
        f"scheduler: {scheduler}; the runs have different ones, chosen for each part by its budget"
    )
    return replace(manifest, settings={**manifest.settings, "scheduler": scheduler})
