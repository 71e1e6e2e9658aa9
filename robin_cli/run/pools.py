"""Recorded ratings to draw from, of a run or of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from robin_cli.data import pools, remote
from robin_cli.data.groups import numbered
from robin_cli.data.pools import Pool, panel_pool
from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError
from robin_cli.run.manifest import read_manifest
from robin_cli.run.reader import RunReader, read_run


def is_run(name: str | Path) -> bool:
    """Return whether ``name`` is a folder of this machine, not a file or an address."""
    return not remote.scheme_of(str(name)) and Path(name).is_dir()


def has_verdicts(run: Path) -> bool:
    """Return whether the judgments of ``run`` are verdicts on two responses. RunError if it is no run."""
    return len(read_manifest(run).kind.variants) > 1


def load_pools(
    name: str | Path, group: str | None = None, *, grouped: bool = True
) -> Mapping[str, Pool]:
    """Return the pools of a run directory, or of files as :func:`robin_cli.data.pools.load_pools`.

    With several judges, the pools of a run are called JUDGE/ATTRIBUTE.

    Args:
        group, grouped: as there; a run's pairs have the run's groups. Grouping reads prompts, which may be gigabytes.

    Raises:
        InputError: the run has no ratings, or as there. RunError, StorageError: the folder is not a run, or is damaged.
    """
    if not is_run(name):
        return pools.load_pools(name, group, grouped=grouped)
    if has_verdicts(Path(name)):
        raise InputError(
            f"{name}: holds verdicts on two responses, and no ratings; name a run of ratings, "
            "or simulate this one with --pairwise"
        )
    if group:
        raise InputError(
            f"--group {group}: {name} is a run, whose pairs have the groups it was made with; leave it out"
        )
    run = read_run(Path(name))
    ratings, space = ratings_by_arm(run), run.space
    if not any(map(len, ratings)):
        raise InputError(f"{name}: holds no ratings; judge more of it, or name another run or file")
    judged, first = np.unique(run.arm, return_index=True)
    rated = [arm for arm in judged[np.argsort(first)].tolist() if len(ratings[arm])]
    is_panel = len(set(space.judge[rated].tolist())) > 1
    by_name: dict[str, list[int]] = {}
    for arm in rated:
        attribute = space.attribute_of(arm)
        pool = panel_pool(space.judge_of(arm), attribute) if is_panel else attribute
        by_name.setdefault(pool, []).append(arm)
    groups, named = run.pairs.groups if grouped else None, {}
    for pool, arms in by_name.items():
        pairs, human = space.pair[arms], run.human.get(space.attribute_of(arms[0]))
        named[pool] = Pool(
            pool,
            tuple(space.pair_ids[pair] for pair in pairs.tolist()),
            tuple(ratings[arm] for arm in arms),
            human=None if human is None else human[pairs],
            groups=None if groups is None else numbered(groups[pairs].tolist())[0],
        )
    return named


def ratings_by_arm(run: RunReader) -> Sequence[IntArray]:
    """Return the ratings of each arm in the order they came, without those that are missing."""
    is_rated = run.judgments["rating"].is_valid().to_numpy()
    arm, rating = run.arm[is_rated], run.judgments["rating"].drop_null().to_numpy()
    order, counts = np.argsort(arm, kind="stable"), np.bincount(arm, minlength=len(run.space))
    return np.split(rating[order].astype(np.int64), np.cumsum(counts)[:-1])
