"""The chance that a decision by the mean ratings is wrong by more than the margin.

It holds on average over the decisions, and is no guarantee for one. benchmarks/decisions.py measures it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.model.decision import RELATIONS
from robin_cli.policies.task import Task
from robin_cli.stats.moderated import as_usual
from robin_cli.stats.row_scores import row_scores
from robin_cli.stats.true_means import TrueMeans, true_means

DRAWS = 400
UNKNOWN = 0.5
"""The chance that a decision is wrong of which nothing is known yet."""

_AT_ONCE, _SAMPLE = 2**8, 2**10
_REPEATED = 0.2
"""Share of the arms of one judge that need a second rating before a run may end."""


def likely_wrong(
    task: Task, sums: Sums, given_up: NDArray[np.bool_], some: slice = slice(None)
) -> FloatArray:
    """Return the chance that each decision is wrong, shape (decisions,): at most 1/2 for thresholds.

    It is nan for a decision without a rating that no further call can bring. ``given_up``: arms that are asked no more because
    they cannot be rated, shape (K,). ``some``: which decisions to look at.
    """
    is_gone = task.space.by_rater(given_up)[:, 0]
    scores = row_scores(task.space, task, sums, prior=as_usual)
    of_each = [true_means(task, sums, scores, place) for place in range(len(task.space.attributes))]
    find = _of_pairs if task.group is None else _of_groups
    return find(task, task.space.by_pair(scores.score), of_each, task.space.by_pair(is_gone), some)


def chances_of_some(task: Task, sums: Sums, given_up: NDArray[np.bool_]) -> FloatArray:
    """Return :func:`likely_wrong` of all decisions, or of an even sample if there are many."""
    return likely_wrong(task, sums, given_up, slice(None, None, -(-task.decisions // _SAMPLE) or 1))


def share_to_test(task: Task, sums: Sums, given_up: NDArray[np.bool_], target: float) -> float:
    """Return the mean chance, to compare with ``target``; nan before enough is asked.

    Of many groups, whose draws take time, it is that of a sample unless this is at most ``target``.
    """
    if not is_enough_asked(task, sums.n, given_up):
        return math.nan
    if task.group is not None and task.decisions > _SAMPLE:
        share = share_of(chances_of_some(task, sums, given_up))
        if not share <= target:
            return share
    return share_of(likely_wrong(task, sums, given_up))


def is_enough_asked(task: Task, counts: FloatArray | IntArray, given_up: NDArray[np.bool_]) -> bool:
    """Return whether every arm of ``task.starts`` that can be rated has a rating, and of one judge's a fifth have two.

    Without repeats nobody knows how noisy a judge is.
    """
    asked = counts[task.starts & ~given_up]
    is_repeated = task.space.raters > 1 or (asked >= 2).sum() >= _REPEATED * len(asked)
    return bool((asked >= 1).all() and is_repeated)


def share_of(chances: FloatArray) -> float:
    """Return the mean of the known values of ``chances``; nan without any."""
    known = chances[~np.isnan(chances)]
    return float(known.mean()) if len(known) else math.nan


def _of_pairs(
    task: Task,
    means: FloatArray,
    of_each: Sequence[TrueMeans],
    is_gone: NDArray[np.bool_],
    some: slice,
) -> FloatArray:
    """Return the chance that a kept pair misses a threshold, or a dropped one meets all; a column for each attribute."""
    all_hold, hold_by_more = np.ones((2, len(means)))
    is_kept = np.ones(len(means), dtype=np.bool_)
    for criterion in task.decision.criteria:
        place = list(task.space.attributes).index(criterion.attribute)
        mean, margin = means[:, place], task.decision.margins[place]
        ends = criterion.threshold + margin * np.array([-1.0, 1.0])
        below, above = np.nan_to_num(of_each[place].at_most(ends), nan=UNKNOWN)
        at_all, by_more = (1.0 - below, 1.0 - above) if criterion.above else (above, below)
        all_hold, hold_by_more = all_hold * at_all, hold_by_more * by_more
        is_kept &= np.isnan(mean) | RELATIONS[criterion.relation](mean, criterion.threshold)
    is_known = ~np.isnan(means).any(axis=1)
    chances = np.minimum(np.where(is_kept, 1.0 - all_hold, hold_by_more), UNKNOWN)
    is_lost = is_kept & (np.isnan(means) & is_gone).any(axis=1)
    chances = np.where(is_kept & ~is_known, UNKNOWN, chances)
    return np.where(is_lost, np.nan, chances)[some]


def _of_groups(
    task: Task,
    means: FloatArray,
    of_each: Sequence[TrueMeans],
    is_gone: NDArray[np.bool_],
    some: slice,
) -> FloatArray:
    """Return the share of draws in which a response is better than the leader by more than the margin.

    One that was given up without a rating is none.
    """
    arms = task.contests[: task.decisions, :, 0][some]
    chances = np.empty(len(arms))
    for place, true in enumerate(of_each):
        part = task.space.attribute[arms[:, 0]] == place
        pairs = np.where(arms[part] < 0, -1, task.space.pair[arms[part]])
        rated = (pairs >= 0) & ~np.isnan(means[pairs, place])
        there = rated | ((pairs >= 0) & ~is_gone[pairs, place])
        lead = np.where(rated, means[pairs, place], -np.inf).argmax(axis=1)
        found = _overtaken(true, pairs, there, lead, task.decision.margins[place])
        unrated = np.where(there.any(axis=1), UNKNOWN, np.nan)
        chances[part] = np.where(rated.any(axis=1), found, unrated)
    return chances


_ROUNDING = 1e-9
"""A difference of the margin, up to rounding, is none: processors differ in last bits."""


def _overtaken(
    true: TrueMeans, pairs: IntArray, is_there: NDArray[np.bool_], lead: IntArray, margin: float
) -> FloatArray:
    """Return the share of draws in which one that is ``is_there`` is above the leader, at place ``lead``, by the margin."""
    rng, places = np.random.default_rng(0), pairs.shape[1]
    turns = np.stack([rng.permutation(DRAWS) for _ in range(places)])
    shares = (np.arange(DRAWS) + 0.5) / DRAWS
    chances = np.empty(len(pairs))
    for start in range(0, len(pairs), _AT_ONCE):
        part = slice(start, start + _AT_ONCE)
        drawn = true.quantiles(shares, pairs[part])
        drawn = np.take_along_axis(drawn, turns[None], axis=2)
        first = np.take_along_axis(drawn, lead[part, None, None], axis=1)
        is_ahead = (drawn > first + margin + _ROUNDING) & is_there[part, :, None]
        chances[part] = is_ahead.any(axis=1).mean(axis=1)
    return chances
