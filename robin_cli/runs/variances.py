"""What an earlier run or a pool says of these arms: variances for a scheduler, counts of ratings for a forecast."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.data.pools import Pool, load_pools, panel_pool
from robin_cli.errors import InputError
from robin_cli.records import Scale
from robin_cli.runs.fold import ArmIndex


def known_variances(source: Path, index: ArmIndex, notify: Callable[[str], None]) -> FloatArray:
    """The 1/n variance of each arm's ratings at ``source``, a run or a pool; shape (K,).

    An arm with fewer than two ratings there gets the mean of the others, and the user is told how many did.

    Raises:
        InputError: ``source`` cannot be read, or knows none of the arms.
    """
    variances = np.full(len(index), np.nan)
    for position, pool in enumerate(_pools_of(source, index)):
        known = _by_pair(pool)
        variances[position :: index.arms_a_pair] = [known.get(pair_id, np.nan) for pair_id in index.pair_ids]
    unknown = int(np.isnan(variances).sum())
    if unknown == len(variances):
        raise InputError(
            f"--variances {source}: has two ratings or more of none of these pairs; are they the same pairs?"
        )
    if unknown:
        notify(
            f"{source}: {unknown} of {len(variances)} arms have fewer than two ratings there and get the others' mean"
        )
    return np.where(np.isnan(variances), np.nanmean(variances), variances)


def known_counts(source: Path, index: ArmIndex, scale: Scale) -> list[IntArray]:
    """How often each pair got each rating at ``source``, a run or a pool: by attribute and judge, shape (pairs, levels) each.

    Raises:
        InputError: ``source`` cannot be read, knows none of the pairs, or holds ratings outside the scale.
    """
    found = []
    for pool in _pools_of(source, index):
        known = dict(zip(pool.pair_ids, pool.ratings, strict=True))
        counts = np.zeros((len(index.pair_ids), scale.levels), dtype=np.int64)
        for row, pair_id in enumerate(index.pair_ids):
            ratings = known.get(pair_id)
            if ratings is None:
                continue
            if ratings.min() < scale.low or ratings.max() > scale.high:
                raise InputError(f"--variances {source}: holds ratings outside the scale {scale} of {pool.name}")
            counts[row] = np.bincount(ratings - scale.low, minlength=scale.levels)
        if not counts.any():
            raise InputError(f"--variances {source}: has ratings of none of these pairs; are they the same pairs?")
        found.append(counts)
    return found


def _pools_of(source: Path, index: ArmIndex) -> list[Pool]:
    """The pool of each attribute and judge: the judge's own, else that of the attribute; one pool alone serves for any."""
    pools = load_pools(source)
    found = []
    for arm in range(index.arms_a_pair):
        attribute = index.attribute(arm)
        names = (panel_pool(index.judges[index.judge(arm)], attribute), attribute, *(pools if len(pools) == 1 else ()))
        pool = next((pools[name] for name in names if name in pools), None)
        if pool is None:
            raise InputError(f'--variances {source}: has no ratings of "{index.label(arm)}"; it has {", ".join(pools)}')
        found.append(pool)
    return found


def _by_pair(pool: Pool) -> dict[str, float]:
    return {
        pair_id: float(np.var(ratings))
        for pair_id, ratings in zip(pool.pair_ids, pool.ratings, strict=True)
        if len(ratings) >= 2
    }
