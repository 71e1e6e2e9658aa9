"""A linear predictor of one judge's mean ratings by another's, fitted on a random sample that both rated.

The prior of a response's mean rating by the judge that settles is normal about intercept + slope · x; x is the mean rating of
the judge that is asked about everything. Ratings of its own turn that into a posterior. The two judges are never averaged: x
weighs what it predicted in the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale

_NINTH = 9.0
_WEIGHT = 2.0
"""The prior variance about the line is the square of a ninth of the scale; it weighs as much as so many pairs."""

_LEAST = 0.5
"""The least share of the residual variance that is not noise. While few are rated twice, the noise is hardly known."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line of each attribute, shape (…, attributes) each.

    Attributes:
        x, y: the means of both judges over the sample; the line goes through them.
        slope: of the line, in points of ``y`` per point of ``x``; shrunk toward 1 while the sample is small.
        variance: of the true means about the line, in points squared.
        spread: the variance of the predictions over the sample, in points squared.
        freedom: degrees of freedom of ``variance``, at least 1.
    """

    x: FloatArray
    y: FloatArray
    slope: FloatArray
    variance: FloatArray
    spread: FloatArray
    freedom: FloatArray

    @classmethod
    def through(cls, x: FloatArray, y: FloatArray, noise: FloatArray, scale: Scale) -> Line:
        """Fit the least-squares line of one attribute; each entry has shape (…,).

        Args:
            x, y: mean ratings of a sample by both judges, nan for none; shape (…, sample).
            noise: the error variances of ``y``.
        """
        known = ~np.isnan(x + y + noise)
        count = known.sum(axis=-1).astype(np.float64)
        some, middle = np.maximum(count, 1.0), 0.5 * (scale.low + scale.high)
        of_x, of_y = (
            np.where(count > 0, np.where(known, each, 0.0).sum(axis=-1) / some, middle)
            for each in (x, y)
        )
        dx, dy = (
            np.where(known, each - mean[..., None], 0.0) for each, mean in ((x, of_x), (y, of_y))
        )
        before = ((scale.high - scale.low) / _NINTH) ** 2
        squares = (dx * dx).sum(axis=-1)
        slope = ((dx * dy).sum(axis=-1) + before) / (squares + before)
        left = dy - slope[..., None] * dx
        freedom = np.maximum(count - 2.0, 0.0)
        over = ((left * left).sum(axis=-1) + _WEIGHT * before) / (freedom + _WEIGHT)
        of_noise = np.where(known, noise, 0.0).sum(axis=-1) / some
        variance = np.maximum(over - of_noise, _LEAST * over)
        return cls(
            of_x, of_y, slope, variance, slope * slope * squares / some, np.maximum(freedom, 1.0)
        )

    def at(self, place: Callable[[FloatArray], FloatArray]) -> Line:
        """Return the line with ``place`` applied to each entry."""
        return Line(*(place(getattr(self, name)) for name in Line.__slots__))

    def predicted(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the predicted means and their variances, in the shape of ``x``, with which the entries of the line broadcast.

        A response that was not rated (nan) gets the mean and the variance of all.
        """
        known = ~np.isnan(x)
        mean = np.where(known, self.y + self.slope * (x - self.x), self.y)
        return mean, np.where(known, self.variance, self.variance + self.spread)


def joined(lines: Sequence[Line]) -> Line:
    """Return the lines of the attributes, in their order, as one."""
    return Line(
        *(np.stack([getattr(each, name) for each in lines], axis=-1) for name in Line.__slots__)
    )


def normal_posterior(
    predicted: FloatArray, variance: FloatArray, n: FloatArray, total: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean and the variance of the normal posterior; the prior has mean ``predicted`` and ``variance``.

    Args:
        n, total: ratings, and their sum.
        noise: the variance of one rating, above 0.
    """
    precision = 1.0 / variance + n / noise
    return (predicted / variance + total / noise) / precision, 1.0 / precision
