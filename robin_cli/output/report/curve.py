"""How sure the scores were as the budget was spent, and how sure an even spread of the calls would have made them.

Two measures, because they differ. The standard error is what a scheduler makes small, and an estimate: a pair whose ratings
never varied has none. The bound is guaranteed, also for what the ratings have not shown yet (a pair rated 4 twenty times may
still vary), so pairs with few ratings set it, and an even spread may make it smaller.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.records import Scale
from robin_cli.runs.fold import level_counts
from robin_cli.runs.reading import RunData
from robin_cli.statistics.intervals import largest_reach

_POINTS = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """Two measures of the worst score against ratings received; arms given up, or never rated, are left out.

    For an even spread they are projections: every arm's ratings as they were in the end, as if there had been equally many of
    each.

    Attributes:
        calls: ratings received, shape (points,), rising.
        bound, even_bound: no score is further off, at 95 % for all at once; shape (points,).
        error, even_error: the largest standard error √(V/n), by the variances V of all the run's ratings; shape (points,).
        arms: how many it is about.
    """

    calls: IntArray
    bound: FloatArray
    even_bound: FloatArray
    error: FloatArray
    even_error: FloatArray
    arms: int


def curve_of(run: RunData, *, points: int = _POINTS) -> Curve:
    """The curve of ``run``; empty where no arm has a rating."""
    index = run.index
    arm = index.arms_of(run.judgments)
    scale = Scale(*run.manifest.scale)
    final = level_counts(arm, run.judgments, len(index), scale)
    kept = np.flatnonzero((final.sum(axis=1) > 0) & ~run.fold().retired_mask)
    rated = np.flatnonzero(np.asarray(run.judgments["rating"].is_valid()))
    rated = rated[np.isin(arm[rated], kept)]
    calls = np.empty(0, dtype=np.int64)
    if len(kept):
        first = min(len(rated), 2 * len(kept))
        calls = np.unique(np.geomspace(first, len(rated), points).round().astype(np.int64))
    share = final[kept] / final[kept].sum(axis=1, keepdims=True)
    variance = _variances(final[kept], scale)
    measured = []
    for count in calls:
        until = int(rated[count - 1]) + 1
        counts = level_counts(arm[:until], run.judgments.slice(0, until), len(index), scale)[kept]
        evenly = count / len(kept)
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(variance / counts.sum(axis=1))
        measured.append(
            (
                largest_reach(counts, scale.low, scale.high),
                largest_reach(share * evenly, scale.low, scale.high),
                _largest(error),
                _largest(np.sqrt(variance / evenly)),
            )
        )
    bound, even_bound, error, even_error = np.array(measured).reshape(-1, 4).T
    return Curve(calls, bound, even_bound, error, even_error, len(kept))


def _variances(counts: FloatArray, scale: Scale) -> FloatArray:
    """Sample variances (1/(n − 1)) from how often each rating came, shape (K, levels); nan below two ratings."""
    levels = np.linspace(scale.low, scale.high, counts.shape[1])
    n = counts.sum(axis=1)
    mean = counts @ levels / n
    squares = (counts * (levels - mean[:, None]) ** 2).sum(axis=1)
    variance: FloatArray = np.divide(squares, n - 1, out=np.full(len(n), np.nan), where=n > 1)
    return variance


def _largest(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else np.nan
