"""What a mean over the pairs of a run is made of: a score of each pair and the variance of its noise.

Who asks on because of a pair's own ratings bends its mean: a pair whose first ratings agree by chance is left with them, while
others are put right. Where one system errs to 0 in a tenth of its ratings, the mean of all scores under two-priors was off by
0.08 points at 3 and at 5 calls a pair, and an interval of 95 % held in no run of 500 prompts (simulated); on recorded judges it
was off by at most 0.01. The first ratings of each pair, as many as nearly all have, are free of that.

A run that was to decide asks some pairs twice and others often; the mean of all its scores was off by −0.10 to +0.05 points
(nine pools, 5 and 10 calls a pair), with 1,000 pairs more than a standard error. There each pair's FIRST ratings count.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.moderated import moderated
from robin_cli.analysis.scores import Scores
from robin_cli.model.arms import FloatArray, mean
from robin_cli.policies.registry import traits_of
from robin_cli.storage.fold import values_of
from robin_cli.storage.reader import RunData

_AT_A_TIME = 2**19

FIRST = 2
"""Ratings of each pair and judge that a mean is made of where a run was to decide: every pair gets them, whatever they say."""

_FEW = 0.05
"""Arms that may have fewer ratings than are taken of the others: calls fail, and the last round is not for all."""


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


def pair_means(run: RunData, scores: Scores, attribute: str, *, of_all: bool = False) -> PairMeans:
    """What a mean of ``attribute`` over the pairs of ``run`` is made of.

    Args:
        scores: those of :func:`robin_cli.analysis.scores.score`.
        of_all: take the scores as they are, unless the run was to decide.
    """
    mine = scores.of_attribute(run.space, attribute)
    count_first = FIRST if run.task is not None else None if of_all else _even_ratings(run)
    if count_first is None:
        means, errors = (np.asarray(scores.columns[name], dtype=np.float64)[mine] for name in ("score", "std_error"))
        return PairMeans(means, errors**2, None)
    space, count = run.space, len(run.space)
    n, totals, squares = np.zeros((3, count))
    for start in range(0, len(run.arm), _AT_A_TIME):
        judgments = run.judgments.slice(start, _AT_A_TIME)
        is_rated = np.asarray(judgments["rating"].is_valid())
        some, values = run.arm[start : start + _AT_A_TIME][is_rated], values_of(judgments)[is_rated]
        by_arm = np.argsort(some, kind="stable")
        before = np.arange(len(some)) - np.searchsorted(some[by_arm], some[by_arm])  # of the same arm
        first = by_arm[n[some[by_arm]] + before < count_first]
        for sums, each in ((n, np.ones(len(some))), (totals, values), (squares, values**2)):
            np.add.at(sums, some[first], each[first])
    noise = space.by_judge(moderated(space, n, totals, squares).error_variance)
    means = space.by_judge(mean(n.astype(np.int64), totals)).mean(axis=1)
    return PairMeans(means[mine], noise.sum(axis=1)[mine] / len(space.judges) ** 2, count_first)


def _even_ratings(run: RunData) -> int | None:
    """How many ratings nearly every arm has, where its own ratings said how many it got; None where all may count."""
    if not traits_of(run.manifest.settings["scheduler"]).adapts:
        return None
    arms = run.fold.arms
    counts = arms.counts[(arms.counts > 0) & ~arms.retired_mask]
    if not len(counts):
        return None
    least = int(np.quantile(counts, _FEW, method="lower"))
    return least if (counts > least).any() else None
