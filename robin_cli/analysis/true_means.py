"""What ratings say about the true means: distributions of each row's true mean, from the ratings of all rows.

One judge's ratings on the levels of a scale are fitted by :func:`fitted`. A row's ratings are draws from a normal distribution
cut to the levels, with probabilities ∝ exp(a x + b x²), a = center/width² and b = −1/(2 width²); one kind has b > 0, for judges
who waver between both ends. The centers of the rows have one distribution, which reaches beyond the scale, and their widths
another. EM estimates both (Laird, "Nonparametric maximum likelihood estimation of a mixing distribution", JASA 73, 1978). n, Σx
and Σx² of a row are all that its likelihood needs. So a first rating counts for much where repeats agree, and for little where
they differ. Ratings of other shapes, such as rare outliers, are not fitted well.

Several judges' scores, and ratings between the levels, are taken as :class:`Student`'s t about their mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from robin_cli.analysis.moderated import chance_below
from robin_cli.analysis.row_scores import RowScores
from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.model.records import Scale
from robin_cli.model.task import Task

_STEPS, _ROWS = 40, 2**10
_NODES, _BEYOND = 40, 0.6
"""Centers in the width of a scale, and the part of it by which they lie beyond each end."""

_NARROWEST, _WIDER, _WIDEST = 0.0043, 3.4, 6.6
"""Squared widths in squared points, on scales up to ten levels: the least, the factor to the next, and the most."""

_WAVER, _TILT, _WAVERS = 6.0, 16.0, 0.1
"""The strength of b > 0 over the squared scale, the range of the odds of its ends, and the usual weight of such judges."""

_EVEN, _USUAL = 50.0, 8.0
"""Rows that count beside the rated ones: with centers spread evenly, and with the usual widths."""

_ODD = 1e-3
"""The chance that a row is like none of the mixture: then its mean may lie anywhere on the scale."""

_TELL = 4.0
"""Rows without repeats count for the widths by this times the share of rows with some, at most fully."""

_LUCK = 4.0 / 3.0
"""The variance of a true mean about a leader's mean rating, in error variances: a leader owes some of its lead to luck."""


class TrueMeans(Protocol):
    """Distributions of the true means of rows."""

    def at_most(self, value: FloatArray | float) -> FloatArray:
        """Return the chance that each row's true mean is at most ``value``, shape (rows,); nan where nothing is known."""

    def quantiles(self, shares: FloatArray, rows: IntArray) -> FloatArray:
        """Return the values that so large shares of ``rows``' distributions lie below, shape (*rows.shape, shares)."""


def true_means(task: Task, sums: Sums, scores: RowScores, place: int) -> TrueMeans:
    """Return the distributions of all pairs' true means of one attribute, the one at ``place``, by pair.

    Args:
        scores: of all rows, by which pairs are decided.
    """
    space = task.space
    scale = space.scales[place]
    if space.raters == 1:
        mine = sums.by(lambda column: space.by_pair(column)[:, place])
        if not (mine.total % 1.0).any():
            return fitted(scale, mine)
    score, error, freedom = (
        space.by_pair(each)[:, place] for each in (scores.score, scores.error, scores.freedom)
    )
    return Student(score, error, freedom, scale)


@dataclass(frozen=True)
class Student:
    """Student's t about a score, within the scale.

    Attributes:
        score, error, freedom: the score, its error variance and the degrees of freedom of this; nan without a score.
        scale: of all rows. Without a score, all values between its ends are as likely.
    """

    score: FloatArray
    error: FloatArray
    freedom: FloatArray
    scale: Scale

    def at_most(self, value: FloatArray | float) -> FloatArray:
        return chance_below((value - self.score) / np.sqrt(self.error), self.freedom)

    def quantiles(self, shares: FloatArray, rows: IntArray) -> FloatArray:
        from scipy.special import ndtri

        score, error = (each[rows][..., None] for each in (self.score, self.error))
        low, high = self.scale.low, self.scale.high
        likely = np.clip(score + np.sqrt(_LUCK * error) * ndtri(shares), low, high)
        return np.where(np.isnan(score), low + (high - low) * shares, likely)


@dataclass(frozen=True)
class Fitted:
    """A mixture of distributions of ratings.

    Attributes:
        value: the mean of each component, rising, shape (C,).
        below: the chance that the true mean is at most that of each component, by kind of row, shape (U, C).
        kind: the kind of each row: its numbers of ratings, Σx and Σx² alike; shape (rows,).
    """

    value: FloatArray
    below: FloatArray
    kind: IntArray

    def at_most(self, value: FloatArray | float) -> FloatArray:
        place = self.value.searchsorted(value, side="right")
        return np.where(place > 0, self.below[self.kind, place - 1], 0.0)

    def quantiles(self, shares: FloatArray, rows: IntArray) -> FloatArray:
        kinds, of = np.unique(self.kind[rows], return_inverse=True)
        found = np.array([np.interp(shares, self.below[kind], self.value) for kind in kinds])
        return found[of.reshape(rows.shape)]


def fitted(scale: Scale, sums: Sums) -> Fitted:
    """Fit the distributions of rows that one judge rated on the levels of ``scale``; ``sums``: shape (rows,) each."""
    columns = np.stack([sums.n, sums.total - scale.low * sums.n, sums.total_sq], axis=1)
    columns[:, 2] -= scale.low * (2.0 * columns[:, 1] + scale.low * sums.n)
    kinds, kind, rows = np.unique(columns, axis=0, return_inverse=True, return_counts=True)
    parameters, value, usual = _components(scale)
    likelihood = (kinds @ parameters.reshape(3, -1)).reshape(-1, *value.shape)
    likelihood = np.exp(likelihood - likelihood.max(axis=(1, 2), keepdims=True))
    some = slice(None, None, -(-len(kinds) // _ROWS))
    after = likelihood * _estimated(likelihood[some], kinds[some, 0], rows[some], usual)
    order = value.ravel().argsort(kind="stable")
    below = after.reshape(len(kinds), -1)[:, order].cumsum(axis=1)
    below = (1.0 - _ODD) * below / below[:, -1:]
    below += _ODD * value.ravel()[order] / (scale.levels - 1.0)
    return Fitted(scale.low + value.ravel()[order], below, kind.ravel())


def _estimated(
    likelihood: FloatArray, ratings: FloatArray, rows: IntArray, usual: FloatArray
) -> FloatArray:
    """Return the share of each component, shape (widths, centers), by EM.

    Args:
        likelihood: of each kind of row by component, shape (U, widths, centers).
        ratings, rows: of each kind, shape (U,). Ratings that were not repeated tell of the widths only beside some that were.
        usual: the share of each width before any are known, shape (widths,).
    """
    kinds, widths, centers = likelihood.shape
    flat = likelihood.reshape(-1, centers)
    width, center = np.full(widths, 1.0 / widths), np.full(centers, 1.0 / centers)
    rated, repeated = (np.where(ratings >= least, rows, 0.0) for least in (1, 2))
    share = repeated.sum() / max(rated.sum(), 1.0)
    repeated = np.maximum(repeated, min(1.0, _TELL * share) * rated)
    for _ in range(_STEPS):
        by_width = (flat @ center).reshape(kinds, widths)
        chance = by_width @ width
        of_center = ((rated / chance)[:, None] * width).ravel() @ flat
        center = center * of_center + _EVEN / centers
        width = width * ((repeated / chance) @ by_width) + _USUAL * usual
        width, center = width / width.sum(), center / center.sum()
    return np.asarray(width[:, None] * center)


@lru_cache(maxsize=8)
def _components(scale: Scale) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the components of ratings less the lowest.

    They are −log Σ exp(a x + b x²), a and b, shape (3, widths, centers), the means, and the usual share of each width.
    """
    level, ends = np.arange(float(scale.levels)), scale.levels - 1.0
    most = min(_WIDEST * max(1.0, (ends / 9.0) ** 2), 2.0 * ends**2)
    wider = round(float(np.log(most / _NARROWEST) / np.log(_WIDER)))
    variance = _NARROWEST * _WIDER ** np.arange(wider + 1)
    step = min(ends / _NODES, 1.0)
    center = np.arange(-_BEYOND * ends, (1.0 + _BEYOND) * ends + step / 2, step)
    b = np.append(-0.5 / variance, _WAVER / ends**2)[:, None] + 0.0 * center
    a = -2.0 * b * center
    a[-1] = -b[-1] * ends + _TILT * (center - ends / 2) / ends**2
    exponent = a[..., None] * level + b[..., None] * level**2
    most_of = exponent.max(axis=-1)
    share = np.exp(exponent - most_of[..., None])
    total = share.sum(axis=-1)
    apart = variance / scale.usual_variance
    usual = np.append(np.minimum(apart, 1.0 / apart), _WAVERS)
    parameters = np.stack([-most_of - np.log(total), a, b])
    return parameters, share @ level / total, usual / usual.sum()
