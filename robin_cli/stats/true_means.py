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

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.model.records import Scale
from robin_cli.policies.task import Task
from robin_cli.stats.moderated import chance_below
from robin_cli.stats.row_scores import RowScores

_TURNS, _STEPS, _ROWS = 8, 5, 2**10
"""Turns of EM, steps of the widths and of the centers in each turn, and the kinds of row at once."""

_LEAST = -60.0
"""The least logarithm of a likelihood over the largest: products of smaller numbers are slow."""

_NODES, _BEYOND = 40, 0.6
"""Centers in the width of a scale, and the part of it by which they lie beyond each end."""

_NARROWEST, _WIDER, _WIDEST = 0.0043, 3.4, 6.6
"""Squared widths in squared points, on scales up to ten levels: the least, the factor to the next, and the most."""

_WAVER, _TILT, _WAVERS = 6.0, 16.0, 0.1
"""The strength of b > 0 over the squared scale, the range of the odds of its ends, and the usual weight of such judges."""

_EVEN, _USUAL = 50.0, 4.0
"""Rows that count beside the rated ones: with centers spread evenly, and with the usual widths."""

_ODD = 1e-3
"""The chance that a row is like none of the mixture: then its mean may lie anywhere on the scale."""

_TELL = 4.0
"""Rows without repeats count for the widths by this times the share of rows with some, at most fully."""

_LUCK = 4.0 / 3.0
"""The variance of a true mean about a leader's mean rating, in error variances: a leader owes some of its lead to luck."""


@dataclass(frozen=True)
class Student:
    """Student's t about a score, within the scale of all rows.

    ``score``, its ``error`` variance and ``freedom``: nan without a score; all values between the ends are then as likely.
    """

    score: FloatArray
    error: FloatArray
    freedom: FloatArray
    scale: Scale

    def at_most(self, values: FloatArray) -> FloatArray:
        """Return the chance that rows' true means are at most ``values``, shape (values, rows); nan where nothing is known."""
        return chance_below((values[:, None] - self.score) / np.sqrt(self.error), self.freedom)

    def quantiles(self, shares: FloatArray, rows: IntArray) -> FloatArray:
        """Return the values that so large shares of ``rows``' distributions lie below, shape (*rows.shape, shares)."""
        from scipy.special import ndtri

        score, error = (each[rows][..., None] for each in (self.score, self.error))
        low, high = self.scale.low, self.scale.high
        likely = np.clip(score + np.sqrt(_LUCK * error) * ndtri(shares), low, high)
        return np.where(np.isnan(score), low + (high - low) * shares, likely)


@dataclass(frozen=True)
class Fitted:
    """A mixture of distributions of ratings.

    Attributes:
        share: of each component, shape (C,).
        kinds: the number of ratings, Σx and Σx² above the lowest level, of each kind of row, shape (U, 3).
        kind: the kind of each row, shape (rows,).
        likelihood: of all kinds, see :func:`_likelihood`; None for many.
    """

    scale: Scale
    share: FloatArray
    kinds: FloatArray
    kind: IntArray
    likelihood: FloatArray | None

    def at_most(self, values: FloatArray) -> FloatArray:
        low, high = _components(self.scale)[2][..., None]
        # far beyond the scale, the means of neighbours are alike
        inside = (values - self.scale.low - low) / np.maximum(high - low, 1e-9)
        parts = np.column_stack([np.clip(inside, 0.0, 1.0), np.ones(len(low))])
        parts = self.share[:, None] * parts
        likely: Iterable[FloatArray] = [] if self.likelihood is None else [self.likelihood]
        if self.likelihood is None:
            starts = range(0, len(self.kinds), _ROWS)
            likely = (_likelihood(self.scale, self.kinds[k : k + _ROWS]) for k in starts)
        found = np.concatenate([_by_row(each, parts) for each in likely], dtype=np.float64)
        even = (values - self.scale.low) / (self.scale.levels - 1.0)
        below = (1.0 - _ODD) * found[:, :-1] / found[:, -1:] + _ODD * np.clip(even, 0.0, 1.0)
        return np.asarray(below[self.kind].T)

    def quantiles(self, shares: FloatArray, rows: IntArray) -> FloatArray:
        kinds, of = np.unique(self.kind[rows], return_inverse=True)
        means = _components(self.scale)[1]
        order = means.argsort(kind="stable")
        likelihood = _likelihood(self.scale, self.kinds[kinds])
        below = (likelihood * self.share)[:, order].cumsum(axis=1, dtype=np.float64)
        below = (1.0 - _ODD) * below / below[:, -1:]
        below += _ODD * means[order] / (self.scale.levels - 1.0)
        below = below.round(12)  # processors differ in last bits
        found = np.array([np.interp(shares, each, means[order]) for each in below])
        return self.scale.low + found[of.reshape(rows.shape)]


TrueMeans = Student | Fitted


def true_means(task: Task, sums: Sums, scores: RowScores, place: int) -> TrueMeans:
    """Return the distributions of all pairs' true means of one attribute, the one at ``place``, by pair."""
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


def fitted(scale: Scale, sums: Sums) -> Fitted:
    """Fit the distributions of rows that one judge rated on the levels of ``scale``; ``sums``: shape (rows,) each."""
    columns = np.stack([sums.n, sums.total - scale.low * sums.n, sums.total_sq], axis=1)
    columns[:, 2] -= scale.low * (2.0 * columns[:, 1] + scale.low * sums.n)
    order = np.lexsort(columns.T)
    is_first = np.append(True, np.diff(columns[order], axis=0).any(axis=1))
    kinds, kind = columns[order][is_first], np.empty_like(order)
    kind[order] = is_first.cumsum() - 1
    some = slice(None, None, -(-len(kinds) // _ROWS))
    likelihood = _likelihood(scale, kinds[some])
    share = _estimated(scale, kinds[some], np.bincount(kind)[some], likelihood)
    return Fitted(scale, share, kinds, kind, likelihood if len(kinds) <= _ROWS else None)


def _likelihood(scale: Scale, kinds: FloatArray) -> FloatArray:
    """Return the likelihood of each kind of row by component, over that of the likeliest, shape (U, C)."""
    log = _by_row(kinds, _components(scale)[0])
    log -= log.max(axis=1, keepdims=True)
    found = np.maximum(log, _LEAST, out=log).astype(np.float64)
    return np.asarray(np.exp(found, out=found))


def _by_row(rows: NDArray[Any], columns: NDArray[Any]) -> NDArray[Any]:
    """Return the matrix product row by row: the threads of a larger one take more time than they save."""
    return np.asarray((rows[:, None] @ columns)[:, 0])


def _estimated(
    scale: Scale, kinds: FloatArray, rows: IntArray, likelihood: FloatArray
) -> FloatArray:
    """Return the share of each component, shape (C,), by EM over the widths and over the centers in turn.

    ``rows``: of each of ``kinds``. Ratings that were not repeated tell of the widths only beside some that were.
    """
    usual = _components(scale)[3]
    likelihood = likelihood.reshape(len(kinds), len(usual), -1)
    rated, repeated = (np.where(kinds[:, 0] >= n, rows, 0).astype(np.float64) for n in (1, 2))
    tell = min(1.0, _TELL * repeated.sum() / max(rated.sum(), 1.0))
    repeated = np.maximum(repeated, np.float64(tell) * rated)
    width, center = (np.full(size, 1.0 / size, np.float64) for size in likelihood.shape[1:])
    even = np.float64(_EVEN) * center
    for _ in range(_TURNS):
        width = _climbed(width, likelihood @ center, repeated, usual)
        center = _climbed(center, width @ likelihood, rated, even)
    return np.outer(width, center).ravel()


def _climbed(
    share: FloatArray, likelihood: FloatArray, rows: FloatArray, beside: FloatArray
) -> FloatArray:
    """Return the ``share`` of each component after some steps of EM, by so many ``rows`` of each kind and those ``beside``."""
    total = rows.sum() + beside.sum()
    for _ in range(_STEPS):
        share = (share * ((rows / (likelihood @ share)) @ likelihood) + beside) / total
    return share


@lru_cache(maxsize=8)
def _components(scale: Scale) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """Return the components of ratings less the lowest.

    They are −log Σ exp(a x + b x²), a and b, shape (3, C); the means, shape (C,); the ends of the means that each stands for,
    at centers half a step away, shape (2, C); and the rows of each width that count beside those rated. C is widths · centers.
    """
    level, ends = np.arange(float(scale.levels)), scale.levels - 1.0
    most = min(_WIDEST * max(1.0, (ends / 9.0) ** 2), 2.0 * ends**2)
    wider = round(float(np.log(most / _NARROWEST) / np.log(_WIDER)))
    variance = _NARROWEST * _WIDER ** np.arange(wider + 1.0)
    step = min(ends / _NODES, 1.0)
    beyond = round(_BEYOND * ends / step)
    center = step * np.arange(-beyond, round(ends / step) + beyond + 1.0)
    a, b = _exponents(variance, center, ends)
    normalizer, means = _cut(level, a, b)
    apart = variance / scale.usual_variance
    usual = np.append(np.minimum(apart, 1.0 / apart), _WAVERS)
    usual *= _USUAL / usual.sum()
    around = np.append(center, center[-1] + step) - step / 2.0
    reach = _cut(level, *_exponents(variance, around, ends))[1]
    return (
        np.stack([-normalizer, a, b]).reshape(3, -1),
        means.ravel(),
        np.stack([reach[:, :-1], reach[:, 1:]]).reshape(2, -1),
        usual.astype(np.float64),
    )


def _exponents(
    variance: FloatArray, center: FloatArray, ends: float
) -> tuple[FloatArray, FloatArray]:
    """Return a and b of each width, the waverers' last, and each center; ``ends``: the width of the scale."""
    b = np.append(-0.5 / variance, _WAVER / ends**2)[:, None] + 0.0 * center
    a = -2.0 * b * center
    a[-1] = -b[-1] * ends + _TILT * (center - ends / 2) / ends**2
    return a, b


def _cut(level: FloatArray, a: FloatArray, b: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return log Σ exp(a x + b x²) over the levels, and the mean of x."""
    exponent = a[..., None] * level + b[..., None] * level**2
    most = exponent.max(axis=-1)
    share = np.exp(exponent - most[..., None])
    total = share.sum(axis=-1)
    return most + np.log(total), ((share * level).sum(axis=-1) / total).round(12)
