"""The certainty of scores over the budget spent, and with an even spread of the calls.

The standard error is what a scheduler reduces, and an estimate: a pair whose ratings never varied has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.decided import doubts, first_rows, leanings, score_means, share_of
from robin_cli.analysis.decisions import Evidence
from robin_cli.analysis.evidence import certified
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import FloatArray, IntArray, sample_variance
from robin_cli.model.task import Task
from robin_cli.storage.fold import counts_by_scale, values_of
from robin_cli.storage.reader import RunData

_POINTS = 12


@dataclass(frozen=True, slots=True)
class Curve:
    """The error of the worst score over ratings received; arms without a rating are left out.

    For an even spread they are projections: every arm with its final proportions of ratings, but with equally many. Errors are
    in points; in shares of the scale if there are several scales.

    Attributes:
        calls: ratings received, shape (points,), rising.
        error, even_error: the largest standard error √(V/n), by the variances V of all the run's ratings; shape (points,).
        arms: number of arms.
    """

    calls: IntArray
    error: FloatArray
    even_error: FloatArray
    arms: int


def curve_of(run: RunData) -> Curve:
    """Return the curve of ``run``; empty if no arm has a rating."""
    space, arm, arms = run.space, run.arm, run.fold.arms
    is_kept = arms.counts > 0
    kept = np.flatnonzero(is_kept)
    rated = np.flatnonzero(np.asarray(run.judgments["rating"].is_valid()) & is_kept[arm])
    calls = _looks(len(rated), 2 * len(kept), _POINTS)
    variance = (sample_variance(arms.counts, arms.totals, arms.totals_sq) / space.units**2)[kept]
    measured = []
    for count in calls:
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(variance / np.bincount(arm[rated[:count]], minlength=len(space))[kept])
        measured.append((_largest(error), _largest(np.sqrt(variance * len(kept) / count))))
    error, even_error = np.array(measured).reshape(-1, 2).T
    return Curve(calls, error, even_error, len(kept))


def _looks(ratings: int, first: int, points: int) -> IntArray:
    """Return the numbers of ratings to look at: from ``first`` on, evenly in their logarithms; never 0."""
    if not ratings:
        return np.empty(0, dtype=np.int64)
    return np.unique(np.geomspace(min(ratings, first), ratings, points).round().astype(np.int64))


def _largest(values: FloatArray) -> float:
    known = values[~np.isnan(values)]
    return float(known.max()) if len(known) else np.nan


_MOST_GROUPS = 1_000
_MOST_OF_PANELS = 800
_MOST_LEVELS, _LEVELS_BESIDE = 400_000, 20


@dataclass(frozen=True, slots=True)
class DecisionCurve:
    """Decisions over ratings received.

    For an even spread they are projections: every arm with its final proportions of ratings, but with equally many.

    Attributes:
        calls: ratings received, shape (points,), rising.
        certified, even_certified: share of the decisions that is certified, shape (points,); of a sample if there are many.
        doubt, even_doubt: estimated share of the leanings that is wrong, shape (points,); nan if unknown.
    """

    calls: IntArray
    certified: FloatArray
    even_certified: FloatArray
    doubt: FloatArray
    even_doubt: FloatArray


def decision_curve_of(run: RunData, task: Task) -> DecisionCurve:
    """Return the curve of ``run``, which decides ``task``; empty if no arm has a rating."""
    space, arm, judgments = run.space, run.arm, run.judgments
    is_rated = np.asarray(judgments["rating"].is_valid())
    value, rated = values_of(judgments), np.flatnonzero(is_rated)
    calls = _looks(len(rated), len(np.unique(arm[rated])), _POINTS)

    def sums_until(until: int) -> tuple[FloatArray, ...]:
        some = rated[: np.searchsorted(rated, until)]
        return tuple(
            np.bincount(arm[some], value[some] ** power, len(space)).astype(np.float64)
            for power in (0, 1, 2)
        )

    final = list(counts_by_scale(space, arm, judgments))
    n, total, total_sq = sums_until(len(arm))
    there = n > 0
    so_far, contest, measured = Evidence(task), task.contest, []
    chosen = _sample(task)
    is_looked_at = _contests_of(task, chosen)
    before = 0
    for count in calls:
        until = int(rated[count - 1]) + 1
        counts = LevelCounts.by(
            space, counts_by_scale(space, arm[:until], judgments.slice(0, until))
        )
        changed = np.unique(contest[arm[before:until]]).astype(np.int64)
        changed, before = changed[is_looked_at[changed]], until
        evenly = there * (count / there.sum())
        even = LevelCounts.by(
            space,
            [(scale, mine, _spread_evenly(each, evenly[mine])) for scale, mine, each in final],
        )
        share = np.divide(evenly, n, out=np.zeros(len(n)), where=there)
        measured.append(
            (
                *_reached(
                    so_far, changed, chosen, counts, sums_until(until), run.fold.arms.retired_mask
                ),
                *_reached(
                    Evidence(task),
                    np.flatnonzero(is_looked_at),
                    chosen,
                    even,
                    (evenly, share * total, share * total_sq),
                    run.fold.arms.retired_mask,
                ),
            )
        )
    held, doubt, even_held, even_doubt = np.array(measured, dtype=np.float64).reshape(-1, 4).T
    return DecisionCurve(calls, held, even_held, doubt, even_doubt)


def _sample(task: Task) -> IntArray:
    """Return decisions to look at: evenly spaced if all would take longer than about a second."""
    share = 1 / task.space.raters
    if task.group is not None:
        most = int(_MOST_GROUPS * share)
    elif share < 1:
        most = int(_MOST_OF_PANELS * share)
    else:
        most = int(_MOST_LEVELS / sum(scale.levels + _LEVELS_BESIDE for scale in task.space.scales))
    return np.unique(
        np.linspace(0, task.decisions - 1, min(max(1, most), task.decisions))
        .round()
        .astype(np.int64)
    )


def _contests_of(task: Task, decisions: IntArray) -> NDArray[np.bool_]:
    if task.group is not None:
        return np.isin(np.arange(len(task.contests)), decisions)
    return np.isin(task.space.pair[task.contests[:, 0, 0]], decisions)


def _reached(
    evidence: Evidence,
    changed: IntArray,
    chosen: IntArray,
    counts: LevelCounts,
    sums: tuple[FloatArray, ...],
    given_up: NDArray[np.bool_],
) -> tuple[float, float]:
    """Return the share of the ``chosen`` decisions that is certified, and the estimated share of wrong leanings.

    ``changed``: contests to look at anew. ``given_up``: arms that cannot be rated, shape (K,).
    """
    task = evidence.task
    n, total, total_sq = sums
    evidence.update(
        np.zeros_like(changed),
        changed,
        lambda _run, arm: counts.of_arms(arm),
        (n[None], total[None], total_sq[None]),
        given_up[None],
    )
    log = evidence.log[0][chosen]
    held = certified(log, task.decision.error_rate).mean() if len(log) else np.nan
    means = score_means(task.space, n, total)
    leaning = leanings(task, means)
    doubt = doubts(task, means, leaning, (n, total, total_sq), given_up)
    return float(held), share_of(doubt[first_rows(task, leaning)])


def _spread_evenly(counts: FloatArray, calls: FloatArray) -> FloatArray:
    """Return counts of ``calls`` ratings of each arm, in the proportions of ``counts``; none for arms without any."""
    had = counts.sum(axis=1)
    return np.asarray(
        counts * np.divide(calls, had, out=np.zeros(len(had)), where=had > 0)[:, None]
    )
