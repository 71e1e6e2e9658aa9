"""How sure the scores were as the budget was spent, and how sure an even spread of the calls would have made them.

Two measures, because they differ. The standard error is what a scheduler makes small, and an estimate: a pair whose ratings
never varied has none. The bound is guaranteed, also for what the ratings have not shown yet (a pair rated 4 twenty times may
still vary), so pairs with few ratings set it, and an even spread may make it smaller.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.intervals import ALPHA, distinct_rows, largest_reach
from robin_cli.model.arms import FloatArray, IntArray, sample_variance
from robin_cli.model.records import Scale
from robin_cli.storage.fold import counts_by_scale
from robin_cli.storage.reader import RunData

_POINTS = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """Two measures of the worst score against ratings received; arms that were never rated are left out.

    For an even spread they are projections: every arm's ratings as they were in the end, as if there had been equally many of
    each. Errors are in points; in shares of the scale where there are several scales.

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
    space = run.space
    arm = run.arm
    arms = run.fold.arms
    is_kept = arms.counts > 0
    kept, unit = np.flatnonzero(is_kept), space.units
    rated = np.flatnonzero(np.asarray(run.judgments["rating"].is_valid()) & is_kept[arm])
    calls = np.empty(0, dtype=np.int64)
    if len(kept):
        first = min(len(rated), 2 * len(kept))
        calls = np.unique(np.geomspace(first, len(rated), points).round().astype(np.int64))
    variance = (sample_variance(arms.counts, arms.totals, arms.totals_sq) / unit**2)[kept]
    final = [(scale, mine, rows) for scale, mine, rows, _ in _kept(counts_by_scale(space, arm, run.judgments), is_kept)]
    measured = []
    for count in calls:
        until = int(rated[count - 1]) + 1
        evenly = count / len(kept)
        at_most, evenly_most, n = np.nan, np.nan, np.zeros(len(space))
        for scale, mine, rows, of in _kept(counts_by_scale(space, arm[:until], run.judgments.slice(0, until)), is_kept):
            n[mine] = rows.sum(axis=1)[of]
            at_most = np.fmax(at_most, _reach(scale, rows, len(kept)) / unit[mine[0]])
        for scale, mine, rows in final:
            evenly_most = np.fmax(evenly_most, _reach(scale, _evenly(rows, evenly), len(kept)) / unit[mine[0]])
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(variance / n[kept])
        measured.append((at_most, evenly_most, _largest(error), _largest(np.sqrt(variance / evenly))))
    bound, even_bound, error, even_error = np.array(measured).reshape(-1, 4).T
    return Curve(calls, bound, even_bound, error, even_error, len(kept))


def _kept(
    counted: Iterable[tuple[Scale, IntArray, FloatArray]], is_kept: NDArray[np.bool_]
) -> Iterator[tuple[Scale, IntArray, FloatArray, IntArray]]:
    """The kept arms on each scale, how often arms that differ got each rating, and which of these rows each arm's are."""
    for scale, arms, counts in counted:
        mine = is_kept[arms]
        if mine.any():
            yield scale, arms[mine], *distinct_rows(counts if mine.all() else counts[mine])


def _reach(scale: Scale, rows: FloatArray, arms: int) -> float:
    """How far the score of any arm may be off, of ``arms`` at once, whose counts are ``rows`` as far as they differ."""
    return largest_reach(rows, scale.low, scale.high, alpha=ALPHA * len(rows) / arms)


def _evenly(counts: FloatArray, calls: float) -> FloatArray:
    """Counts of as many ratings of each arm, in the proportions of ``counts``; nan for arms without any."""
    with np.errstate(invalid="ignore"):
        return np.asarray(calls * counts / counts.sum(axis=1, keepdims=True))


def _largest(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else np.nan
