"""What a mean over the pairs of a run is made of: a score of each pair and the variance of its noise.

Of most runs these are the scores. A run that was to decide asked on where a side was not clear by the ratings so far, and who
was far off by chance was left so: the mean of all its scores was off by −0.10 to +0.05 points in simulated runs (nine pools, 5
and 10 calls a pair), with 1,000 pairs more than a standard error. There it is each pair's FIRST ratings that count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.moderated import moderated
from robin_cli.analysis.scores import Scores
from robin_cli.model.arms import FloatArray, mean
from robin_cli.storage.fold import values_of
from robin_cli.storage.reader import RunData

FIRST = 2
"""Ratings of each pair and judge that a mean is made of where a run was to decide: every pair gets them, whatever they say."""


@dataclass(frozen=True, slots=True)
class PairMeans:
    """Of one attribute, pair by pair in the order of the data, shape (pairs,) each; nan without a rating.

    Attributes:
        scores: what to average.
        error_variances: how far these are off by the judge's noise, squared; of few ratings moderated as ``std_error`` is.
        first: how many ratings of each pair and judge they are of; None for all.
    """

    scores: FloatArray
    error_variances: FloatArray
    first: int | None


def pair_means(run: RunData, scores: Scores, attribute: str) -> PairMeans:
    """What a mean of ``attribute`` over the pairs of ``run`` is made of.

    Args:
        scores: those of :func:`robin_cli.analysis.scores.score`.
    """
    mine = np.array(scores.columns["attribute"]) == attribute
    if run.task is None:
        means, errors = (np.asarray(scores.columns[name], dtype=np.float64)[mine] for name in ("score", "std_error"))
        return PairMeans(means, errors**2, None)
    space, count = run.space, len(run.space)
    is_rated = np.asarray(run.judgments["rating"].is_valid())
    arm, value = run.arm[is_rated], values_of(run.judgments)[is_rated]
    by_arm = np.argsort(arm, kind="stable")
    starts = np.searchsorted(arm[by_arm], np.arange(count))
    first = by_arm[np.arange(len(arm)) - starts[arm[by_arm]] < FIRST]
    n, totals, squares = (
        np.bincount(arm[first], each[first], count).astype(np.float64)
        for each in (np.ones_like(value), value, value**2)
    )
    noise = space.by_judge(moderated(space, n, totals, squares).error_variance)
    means = space.by_judge(mean(n.astype(np.int64), totals)).mean(axis=1)
    return PairMeans(means[mine], noise.sum(axis=1)[mine] / len(space.judges) ** 2, FIRST)
