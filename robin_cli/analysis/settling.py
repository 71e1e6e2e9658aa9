"""Scores of a run in which one judge settles what another leaves open: posteriors of its mean ratings."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from robin_cli.analysis.moderated import moderated
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.prediction import Line, normal_posterior
from robin_cli.model.task import Task


class Posterior(NamedTuple):
    """Mean ratings by the judge that settles, of each pair and attribute, shape (…, rows) each.

    Attributes:
        mean: the posterior mean, in points.
        error: the posterior variance.
        freedom: degrees of freedom of ``error``.
    """

    mean: FloatArray
    error: FloatArray
    freedom: FloatArray


def posterior(
    task: Task, n: IntArray | FloatArray, totals: FloatArray, totals_sq: FloatArray
) -> Posterior:
    """Return the posterior by the numbers, sums and sums of squares of the ratings of all arms, shape (…, K) each."""
    space, found = task.space, moderated(task.space, n, totals, totals_sq)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = totals / n
    x, y = (means[..., judge::2] for judge in range(2))
    count, total, noise, variance = (
        each[..., 1::2]
        for each in (np.asarray(n, np.float64), totals, found.error_variance, found.variance)
    )
    parts = [np.empty(x.shape) for _ in Posterior._fields]
    for attribute, scale in enumerate(space.scales):
        rows, start = (
            pairs * len(space.attributes) + attribute
            for pairs in (np.arange(len(space.pair_ids)), task.start)
        )
        line = Line.through(x[..., start], y[..., start], noise[..., start], scale)
        line = line.at(lambda each: each[..., None])
        of_rating = np.where(
            np.isnan(variance[..., rows]), 1.0, variance[..., rows]
        )  # any value will do if it was not rated
        own = normal_posterior(
            *line.predicted(x[..., rows]), count[..., rows], total[..., rows], of_rating
        )
        for part, each in zip(parts, (*own, line.freedom + count[..., rows]), strict=True):
            part[..., rows] = each
    return Posterior(*parts)


def judged_means(
    task: Task, n: IntArray | FloatArray, totals: FloatArray, totals_sq: FloatArray
) -> FloatArray:
    """Return the score of each pair and attribute, shape (rows,): the mean over raters, or the posterior; nan if unrated."""
    if task.space.settles:
        return posterior(task, n, totals, totals_sq).mean
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(task.space.by_rater(totals / n).mean(axis=1))
