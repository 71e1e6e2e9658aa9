"""The chance that a decision by the mean ratings is wrong by more than the margin.

Variances are moderated, see :mod:`robin_cli.analysis.moderated`; before ratings repeat, they are those usual for the scale. A
pair's mean rating has the tails of Student's t with n + 3 degrees of freedom. Which response of a group is best depends on all
of them at once, so their true means are drawn: from normal distributions with 4/3 of the error variance, as a leader owes some
of its lead to luck, within the scale.

It holds on average over the decisions, and is no guarantee for one. benchmarks/decisions.py measures it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.moderated import as_usual, chance_below
from robin_cli.analysis.row_scores import row_scores
from robin_cli.model.arms import FloatArray, Sums
from robin_cli.model.decision import RELATIONS
from robin_cli.model.task import Task

DRAWS = 400
UNKNOWN = 0.5
"""The chance that a decision is wrong of which nothing is known yet."""

_LUCK = 4.0 / 3.0
_AT_ONCE, _SAMPLE = 2**8, 2**10
_CLEAR = 5.0
"""A rival that trails by so many standard errors leads in none of the draws."""


def likely_wrong(
    task: Task, sums: Sums, given_up: NDArray[np.bool_], some: slice = slice(None)
) -> FloatArray:
    """Return the chance that each decision is wrong, shape (decisions,): at most 1/2 for thresholds.

    It is nan for a decision without a rating that no further call can bring.

    Args:
        given_up: arms that are asked no more because they cannot be rated, shape (K,).
        some: which decisions to look at.
    """
    space = task.space
    found = row_scores(space, task, sums, prior=as_usual)
    is_gone = space.by_rater(given_up)[:, 0]
    if task.group is not None:
        return _of_groups(task, found.score, found.error, is_gone, some)
    columns = (found.score, found.error, found.freedom, is_gone)
    return _of_pairs(task, *(space.by_pair(each)[some] for each in columns))


def chances_of_some(task: Task, sums: Sums, given_up: NDArray[np.bool_]) -> FloatArray:
    """Return :func:`likely_wrong` of all decisions, or of an even sample if there are many: it takes less time."""
    return likely_wrong(task, sums, given_up, slice(None, None, -(-task.decisions // _SAMPLE) or 1))


def is_good_enough(task: Task, sums: Sums, given_up: NDArray[np.bool_], target: float) -> bool:
    """Return whether the mean chance is at most ``target``, and every arm of ``task.starts`` that can be rated has a rating.

    Of many decisions a sample is looked at first, and all only if it is good enough.
    """
    return bool(((sums.n > 0) | given_up)[task.starts].all()) and all(
        share_of(chances(task, sums, given_up)) <= target
        for chances in (chances_of_some, likely_wrong)
    )


def share_of(chances: FloatArray) -> float:
    """Return the mean of the known values of ``chances``; nan without any."""
    known = chances[~np.isnan(chances)]
    return float(known.mean()) if len(known) else math.nan


def _of_pairs(
    task: Task,
    means: FloatArray,
    error: FloatArray,
    freedom: FloatArray,
    is_gone: NDArray[np.bool_],
) -> FloatArray:
    """Return the chance that a kept pair misses a threshold, or a dropped one meets all; a column for each attribute."""
    all_hold, hold_by_more = np.ones(len(means)), np.ones(len(means))
    is_kept, is_known = np.ones(len(means), np.bool_), ~np.isnan(means).any(axis=1)
    for criterion in task.decision.criteria:
        place = list(task.space.attributes).index(criterion.attribute)
        mean, spread = means[:, place], np.sqrt(error[:, place])
        above = (mean - criterion.threshold) * (1.0 if criterion.above else -1.0)
        margin = task.decision.margins[place]
        at_all, by_more = (
            np.nan_to_num(chance_below(reach / spread, freedom[:, place]), nan=UNKNOWN)
            for reach in (above + margin, above - margin)
        )
        all_hold, hold_by_more = all_hold * at_all, hold_by_more * by_more
        is_kept &= np.isnan(mean) | RELATIONS[criterion.relation](mean, criterion.threshold)
    chances = np.minimum(np.where(is_kept, 1.0 - all_hold, hold_by_more), UNKNOWN)
    is_lost = is_kept & (np.isnan(means) & is_gone).any(axis=1)
    return np.where(is_lost, np.nan, np.where(is_kept & ~is_known, UNKNOWN, chances))


def _of_groups(
    task: Task, means: FloatArray, error: FloatArray, is_gone: NDArray[np.bool_], decisions: slice
) -> FloatArray:
    """Return the share of draws in which a response is better than the leader by more than the margin.

    An unrated response may lie anywhere on the scale; one that was given up is none.
    """
    rows = task.space.row_of(task.contests[: task.decisions, :, 0])[decisions]
    low, high = (task.space.by_rater(end)[:, 0] for end in task.space.ends)
    margins = task.space.by_rater(task.margin)[:, 0]
    is_rated = ~np.isnan(means)
    center = np.where(is_rated, means, 0.5 * (low + high))
    spread = np.where(is_rated, np.sqrt(_LUCK * error), (high - low) / np.sqrt(12.0))
    there = (rows >= 0) & (is_rated | ~is_gone)[rows]
    lead = np.where(there & is_rated[rows], means[rows], -np.inf).argmax(axis=1)
    of_lead = rows[np.arange(len(rows)), lead]
    # by so many standard errors, a rival may be ahead by more than the margin
    reach = (center[rows] - (center + margins)[of_lead, None]) / np.hypot(
        spread[rows], spread[of_lead, None]
    )
    is_rival = there & (np.arange(rows.shape[1]) != lead[:, None]) & (reach > -_CLEAR)
    draws = np.random.default_rng(0).standard_normal((DRAWS, rows.shape[1])).T.copy()
    chances, near = np.zeros(len(rows)), np.flatnonzero(is_rival.any(axis=1))
    for start in range(0, len(near), _AT_ONCE):
        mine = near[start : start + _AT_ONCE]
        first = of_lead[mine, None]
        enough = center[first] + spread[first] * draws[lead[mine]]
        enough = np.clip(enough, low[first], high[first]) + margins[first]
        enough[enough >= high[first]] = np.inf  # no true mean is beyond the scale
        is_wrong = np.zeros(enough.shape, dtype=np.bool_)
        for place, drawn in enumerate(draws):
            which = np.flatnonzero(is_rival[mine, place])
            row = rows[mine[which], place, None]
            is_wrong[which] |= center[row] + spread[row] * drawn > enough[which]
        chances[mine] = is_wrong.mean(axis=1)
    has_lead = (there & is_rated[rows]).any(axis=1)
    return np.where(has_lead, chances, np.where(there.any(axis=1), UNKNOWN, np.nan))
