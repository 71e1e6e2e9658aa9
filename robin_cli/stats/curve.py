"""How sure a run is over the ratings received, and what an even spread of as many ratings would have reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums, sample_variance
from robin_cli.policies.task import Task
from robin_cli.run.fold import values_of
from robin_cli.run.reader import RunReader
from robin_cli.stats.likely_wrong import chances_of_some, share_of
from robin_cli.stats.moderated import moderated
from robin_cli.stats.worst_error import median_of_worst

_POINTS = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """A figure over ratings received; for an even spread of as many, projected where arms have fewer.

    Attributes:
        calls: ratings received, shape (points,), rising; empty if no arm has a rating.
        run, even: the figure, shape (points,); nan if unknown.
    """

    calls: IntArray
    run: FloatArray
    even: FloatArray


def error_curve(run: RunReader) -> Curve:
    """Return the expected error of the worst score, by the variances of all ratings; arms that were given up are left out.

    In points; in shares of the scale if there are several scales.
    """
    space, arms = run.space, run.fold.arms
    kept = (arms.n > 0) & ~arms.is_retired
    found = moderated(space, arms.sums)
    deviation, freedom = (np.sqrt(found.variance) / space.units)[kept], found.freedom[kept]

    def error_at(sums: Sums) -> float:
        with np.errstate(divide="ignore"):
            return median_of_worst(space, deviation / np.sqrt(sums.n[kept]), freedom)

    return _curve(run, kept, 2, error_at)


def likely_wrong_curve(run: RunReader, task: Task) -> Curve:
    arms = run.fold.arms
    gone, every = arms.is_retired, np.ones(len(run.space), dtype=np.bool_)
    return _curve(run, every, 1, lambda sums: share_of(chances_of_some(task, sums, gone)))


def _curve(
    run: RunReader, is_kept: NDArray[np.bool_], times: int, figure: Callable[[Sums], float]
) -> Curve:
    """Return ``figure`` of the ratings of some arms, from so many ``times`` the arms with ratings on."""
    space, arm, value = run.space, run.arm, values_of(run.judgments)
    rated = np.flatnonzero(np.asarray(run.judgments["rating"].is_valid()) & is_kept[arm])

    def sums_of(some: IntArray) -> Sums:
        powers = (np.bincount(arm[some], value[some] ** power, len(space)) for power in (0, 1, 2))
        return Sums(*(each.astype(np.float64) for each in powers))

    n = np.bincount(arm[rated], minlength=len(space))
    kept = np.flatnonzero(n)
    calls = np.empty(0, dtype=np.int64)
    if len(rated):  # evenly in their logarithms
        looks = np.geomspace(min(len(rated), times * len(kept)), len(rated), _POINTS)
        calls = np.unique(looks.round().astype(np.int64))
    by_arm, place_in_arm = np.argsort(arm[rated], kind="stable"), np.empty(len(rated), np.int64)
    place_in_arm[by_arm] = np.arange(len(rated)) - np.repeat(np.cumsum(n) - n, n)
    found = np.empty((2, len(calls)))
    for place, count in enumerate(calls.tolist()):
        each, more = divmod(count, len(kept))
        wanted = (n > 0) * each
        wanted[kept[:more]] += 1
        even = _extended(sums_of(rated[place_in_arm < wanted[arm[rated]]]), wanted)
        found[:, place] = figure(sums_of(rated[:count])), figure(even)
    return Curve(calls, *found)


def _extended(sums: Sums, n: IntArray) -> Sums:
    """Return the sums of ``n`` ratings of each arm, shape (K,), with the mean and the variance of those that it has."""
    freedom, mean = np.maximum(sums.n - 1.0, 0.0), sums.total / np.maximum(sums.n, 1.0)
    variance = sample_variance(*sums)
    pooled = np.nansum(freedom * variance) / max(1.0, freedom.sum())  # for arms with one rating
    variance = np.where(np.isnan(variance), pooled, variance)
    each = np.where(sums.n > 0, n, 0.0)
    return Sums(each, each * mean, each * mean**2 + np.maximum(each - 1.0, 0.0) * variance)
