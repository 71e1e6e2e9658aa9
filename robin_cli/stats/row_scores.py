"""The scores of rows, one for each pair and attribute, from the ratings of their arms."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray, Sums, mean
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.second_opinion import Opinions, opinions_of, pooled
from robin_cli.policies.task import Task
from robin_cli.stats.moderated import as_usual, freedom_of_sum, likely_half_widths, moderated


class RowScores(NamedTuple):
    """Scores, shape (…, rows).

    Attributes:
        score: nan for none: a rater gave no rating, or no judge did where judges give second opinions.
        error: the error variance of the score; ``parts``: those of its raters' means in it, shape (…, rows, raters).
        freedoms: the degrees of freedom of each of these.
    """

    score: FloatArray
    error: FloatArray
    parts: FloatArray
    freedoms: FloatArray

    @property
    def freedom(self) -> FloatArray:
        """The degrees of freedom of the error variance, by Welch and Satterthwaite; for one run."""
        return freedom_of_sum(self.parts, self.freedoms)

    def half_widths(self, places: IntArray, less: IntArray, *, alpha: float) -> FloatArray:
        """Return the half widths of intervals of the scores of rows ``places`` less those of ``less``; for one run."""
        parts, freedoms = (
            np.concatenate([each[places], each[less]], axis=1)
            for each in (self.parts, self.freedoms)
        )
        error = self.error[places] + self.error[less]
        return likely_half_widths(error, freedom_of_sum(parts, freedoms), alpha=alpha)


def row_scores(
    space: ArmSpace,
    pooling: Task | None,
    sums: Sums,
    *,
    arms: IntArray | None = None,
    prior: Callable[[Scale], tuple[float, float]] | None = None,
) -> RowScores:
    """Return the scores of all rows: judges of a decision give second opinions, other raters count equally.

    Args:
        pooling: the decision whose judges are pooled; None for equal raters.
        arms: of each row, shape (rows, raters); None for those of all judges.
        prior: see :func:`moderated`.
    """
    arms = space.by_rater(np.arange(len(space))) if arms is None else arms
    found = moderated(space, sums, prior)
    means = mean(sums.n, sums.total)[..., arms]
    noise, freedoms = found.error_variance[..., arms], found.freedom[..., arms]
    if pooling is None or arms.shape[1] == 1:
        parts = noise / arms.shape[1] ** 2
        return RowScores(means.mean(axis=-1), parts.sum(axis=-1), parts, freedoms)
    # The weights go by how ratings usually vary; the interval goes by ``prior``, as that of a single judge.
    usual = (found if prior is as_usual else moderated(space, sums, as_usual)).error_variance
    offset, between = (each[..., space.kind[arms]] for each in opinions_of(pooling, sums, usual))
    errors = np.where(np.isnan(usual), np.inf, usual)[..., arms]
    score, error, share = pooled(means - offset, errors, between, noise)
    parts = share**2 * np.where(share > 0, noise, 0.0)
    return RowScores(score, error, parts, freedoms)


def judge_scores(task: Task, sums: Sums) -> FloatArray:
    """Return each judge's own mean less its offset, shape (rows, judges); nan without a rating."""
    offset = _opinions(task, sums).offset[task.space.kind]
    return task.space.by_rater(mean(sums.n, sums.total) - offset)


def endless_scores(task: Task, sums: Sums, means: FloatArray) -> FloatArray:
    """Return the scores after endless calls of all judges, who differ as ``sums`` say; shape (…, rows).

    ``means``: the true means of all arms, shape (…, K).
    """
    space = task.space
    offset, between, means = (
        each.reshape(*means.shape[:-1], -1, space.raters)
        for each in (*(each[..., space.kind] for each in _opinions(task, sums)), means)
    )
    return pooled(means - offset, np.zeros(means.shape), between).score


def _opinions(task: Task, sums: Sums) -> Opinions:
    return opinions_of(task, sums, moderated(task.space, sums, as_usual).error_variance)
