"""Variances known beforehand: taken from an earlier run or a pool, kept with the run that uses them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from robin_cli.allocation.arms import FloatArray
from robin_cli.data.pools import Pool, load_pools
from robin_cli.errors import InputError
from robin_cli.runs.fold import ArmIndex


def known_variances(source: Path, index: ArmIndex, notify: Callable[[str], None]) -> FloatArray:
    """The 1/n variance of each arm's ratings at ``source``, a run or a pool; shape (K,).

    An arm with fewer than two ratings there gets the mean of the others, and the user is told how many did.

    Raises:
        InputError: ``source`` cannot be read, or knows none of the arms.
    """
    pools = load_pools(source)
    variances = np.full(len(index), np.nan)
    for position, attribute in enumerate(index.attributes):
        pool = pools.get(attribute) or (next(iter(pools.values())) if len(pools) == 1 else None)
        if pool is None:
            raise InputError(f'--variances {source}: has no ratings of "{attribute}"; it has {", ".join(pools)}')
        known = _by_pair(pool)
        variances[position :: len(index.attributes)] = [known.get(pair_id, np.nan) for pair_id in index.pair_ids]
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


def _by_pair(pool: Pool) -> dict[str, float]:
    return {
        pair_id: float(np.var(ratings))
        for pair_id, ratings in zip(pool.pair_ids, pool.ratings, strict=True)
        if len(ratings) >= 2
    }
