"""The certainty of scores over the budget spent, and with an even spread of the calls."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.likely_wrong import chances_of_some, share_of
from robin_cli.analysis.moderated import median_of_worst, moderated
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.task import Task
from robin_cli.storage.fold import values_of
from robin_cli.storage.reader import RunData

_POINTS = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """The expected error of the worst score over ratings received; arms without a rating, or given up, are left out.

    For an even spread it is a projection: every arm with its final variance, but with equally many ratings. Errors are in
    points; in shares of the scale if there are several scales.

    Attributes:
        calls: ratings received, shape (points,), rising.
        error, even_error: by the variances of all the run's ratings, shape (points,); nan while an arm has no rating.
        arms: number of arms.
    """

    calls: IntArray
    error: FloatArray
    even_error: FloatArray
    arms: int


def curve_of(run: RunData) -> Curve:
    """Return the curve of ``run``; empty if no arm has a rating."""
    space, arm, arms = run.space, run.arm, run.fold.arms
    is_kept = (arms.counts > 0) & ~arms.retired_mask
    kept = np.flatnonzero(is_kept)
    rated = np.flatnonzero(np.asarray(run.judgments["rating"].is_valid()) & is_kept[arm])
    calls = _looks(len(rated), 2 * len(kept), _POINTS)
    found = moderated(space, arms.counts, arms.totals, arms.totals_sq)
    deviation, freedom = (np.sqrt(found.variance) / space.units)[kept], found.freedom[kept]
    error, even_error = np.empty((2, len(calls)))
    for place, count in enumerate(calls.tolist()):
        with np.errstate(divide="ignore"):
            mine = deviation / np.sqrt(np.bincount(arm[rated[:count]], minlength=len(space))[kept])
        error[place] = median_of_worst(mine, freedom, space)
        evenly = deviation / np.sqrt(count / len(kept))
        even_error[place] = median_of_worst(evenly, freedom, space)
    return Curve(calls, error, even_error, len(kept))


def _looks(ratings: int, first: int, points: int) -> IntArray:
    """Return the numbers of ratings to look at: from ``first`` on, evenly in their logarithms; never 0."""
    if not ratings:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.geomspace(min(ratings, first), ratings, points).round().astype(np.int64))


@dataclass(frozen=True, slots=True)
class DecisionCurve:
    """The share of the decisions that is likely wrong, over ratings received.

    For an even spread it is a projection: every arm with its final proportions of ratings, but with equally many.

    Attributes:
        calls: ratings received, shape (points,), rising.
        wrong, even_wrong: the share, shape (points,); nan if unknown.
    """

    calls: IntArray
    wrong: FloatArray
    even_wrong: FloatArray


def decision_curve_of(run: RunData, task: Task) -> DecisionCurve:
    """Return the curve of ``run``, which decides ``task``; empty if no arm has a rating."""
    space, arm, judgments, given_up = run.space, run.arm, run.judgments, run.fold.arms.retired_mask
    rated = np.flatnonzero(np.asarray(judgments["rating"].is_valid()))
    value = values_of(judgments)
    calls = _looks(len(rated), len(np.unique(arm[rated])), _POINTS)

    def sums_of(some: IntArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        n, total, total_sq = (
            np.bincount(arm[some], value[some] ** power, len(space)).astype(np.float64)
            for power in (0, 1, 2)
        )
        return n, total, total_sq

    n, total, total_sq = sums_of(rated)
    wrong, even_wrong = np.full((2, len(calls)), np.nan)
    for place, count in enumerate(calls):
        evenly = (n > 0) * (count / np.count_nonzero(n))
        share = np.divide(evenly, n, out=np.zeros(len(n)), where=n > 0)
        even = (evenly, share * total, share * total_sq)
        wrong[place], even_wrong[place] = (
            share_of(chances_of_some(task, sums[0], sums[1], sums[2], given_up))
            for sums in (sums_of(rated[:count]), even)
        )
    return DecisionCurve(calls, wrong, even_wrong)
