"""Variances for --scheduler robin, and counts of ratings for a forecast, from an earlier run or a pool."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np

from robin_cli.data.pools import Pool, panel_pool
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import things_rated
from robin_cli.model.space import ArmSpace
from robin_cli.run.manifest import FILE as MANIFEST
from robin_cli.run.manifest import read_manifest
from robin_cli.run.pools import load_pools


def earlier_variances(
    source: str | Path, space: ArmSpace, notify: Callable[[str], None]
) -> FloatArray:
    """Return the 1/n variance of each arm in ``source``, a run or a pool, shape (K,).

    An arm with fewer than two ratings gets the mean of the other arms, and a note reports how many did. A judge that
    ``source`` does not know gets the mean over its judges.

    Raises:
        InputError: ``source`` cannot be read, has another scale, or has none of the arms.
    """
    variances = np.full(len(space), np.nan)
    for place, pools in enumerate(_pools_of(source, space)):
        of_pair: defaultdict[str, list[float]] = defaultdict(list)
        for pool in pools:
            for pair_id, ratings in zip(pool.pair_ids, pool.ratings, strict=True):
                if len(ratings) >= 2:
                    of_pair[pair_id].append(float(np.var(ratings)))
        means = [
            np.mean(of_pair[pair_id]) if pair_id in of_pair else np.nan
            for pair_id in space.pair_ids
        ]
        space.by_pair(variances)[:, place] = means
    unknown = int(np.isnan(variances).sum())
    if unknown == len(variances):
        raise InputError(
            f"--variances {source}: has no pair of this data with two ratings or more; are they the same pairs?"
        )
    if unknown:
        what = things_rated(len(space), len(space.attributes), len(space.judges))
        notify(
            f"{source}: {unknown} of {what} have fewer than two ratings there and get the others' mean"
        )
    units = space.units**2
    return np.where(np.isnan(variances), np.nanmean(variances / units) * units, variances)


def known_counts(source: str | Path, space: ArmSpace) -> list[IntArray]:
    """Return how often each pair got each rating in ``source``, a run or a pool: shape (pairs, levels) by attribute and judge.

    A judge that ``source`` does not know gets the ratings of its first judge.

    Raises:
        InputError: ``source`` cannot be read, has another scale, or has none of the pairs.
    """
    counts_by_place = []
    for place, (pool, *_) in enumerate(_pools_of(source, space)):
        scale = space.scale_of(place)
        known = dict(zip(pool.pair_ids, pool.ratings, strict=True))
        nothing = np.empty(0, dtype=np.int64)
        ratings = [known.get(pair_id, nothing) - scale.low for pair_id in space.pair_ids]
        counts = np.array([np.bincount(of_pair, minlength=scale.levels) for of_pair in ratings])
        if not counts.any():
            raise InputError(
                f"--variances {source}: has no ratings of these pairs; are they the same pairs?"
            )
        counts_by_place.append(counts)
    return counts_by_place


def _pools_of(source: str | Path, space: ArmSpace) -> list[list[Pool]]:
    """Return the pools for each attribute and judge: the judge's own, else the attribute's, else those of its other judges.

    A single pool serves for all.
    """
    if (Path(source) / MANIFEST).is_file():
        manifest = read_manifest(Path(source))
        scales = dict(zip(manifest.attributes, manifest.scales, strict=True))
        for attribute, scale in zip(space.attributes, space.scales, strict=True):
            theirs = scales.get(attribute, manifest.scales[0])
            if theirs != scale:  # its variances would have other units
                raise InputError(
                    f"--variances {source}: was rated on the scale {theirs}, {attribute} is on {scale} here; name a run "
                    "on the same scale"
                )
    pools = load_pools(source, grouped=False)
    by_place = []
    for arm in space.arms_of_pair(0):
        attribute, scale = space.attribute_of(arm), space.scale_of(arm)
        names = (panel_pool(space.judge_of(arm), attribute), attribute)
        of_attribute = panel_pool("", attribute)
        chosen = [pools[name] for name in names if name in pools][:1]
        chosen = chosen or (list(pools.values()) if len(pools) == 1 else [])
        chosen = chosen or [pool for name, pool in pools.items() if name.endswith(of_attribute)]
        if not chosen:
            raise InputError(
                f'--variances {source}: has no ratings of "{space.label(arm)}"; it has {", ".join(pools)}'
            )
        for pool in chosen:
            ratings = np.concatenate(pool.ratings)
            if ratings.min() < scale.low or ratings.max() > scale.high:
                raise InputError(
                    f"--variances {source}: holds ratings outside the scale {scale} of {pool.name}"
                )
        by_place.append(chosen)
    return by_place
