"""What one judge's ratings say of another's: a line through a random sample that both rated, and the posterior by it.

Of the judge that settles, the mean rating of a response is taken for normal about intercept + slope · x, x being the mean
rating of the judge that is asked about everything; its own ratings then draw the posterior to their mean. The two are never
averaged: x is worth what it foretold in the sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale

_NINTH = 9.0
_WEIGHT = 2.0
"""Pairs that a variance of a ninth of the scale, squared, counts as beside those of the sample."""

_LEAST = 0.5
"""Of what the line leaves over, what is not noise at least: as long as few were rated twice, noise is hardly known."""


@dataclass(frozen=True, slots=True)
class Line:
    """The line of each attribute, shape (…, attributes) each.

    Attributes:
        x, y: the means of both judges over the sample, through which it goes.
        slope: of the line, which is drawn to 1 as long as there is little to fit it to.
        variance: of true means about it.
        spread: of what it foretells, over the sample.
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
        """The least-squares line of one attribute, each entry of shape (…,).

        Args:
            x, y: mean ratings of a sample by both judges, nan for none; shape (…, sample).
            noise: the error variances of ``y``.
        """
        known = ~np.isnan(x + y + noise)
        count = known.sum(axis=-1).astype(np.float64)
        some, middle = np.maximum(count, 1.0), 0.5 * (scale.low + scale.high)
        of_x, of_y = (np.where(count > 0, np.where(known, each, 0.0).sum(axis=-1) / some, middle) for each in (x, y))
        dx, dy = (np.where(known, each - mean[..., None], 0.0) for each, mean in ((x, of_x), (y, of_y)))
        before = ((scale.high - scale.low) / _NINTH) ** 2
        squares = (dx * dx).sum(axis=-1)
        slope = ((dx * dy).sum(axis=-1) + before) / (squares + before)
        left = dy - slope[..., None] * dx
        freedom = np.maximum(count - 2.0, 0.0)
        over = ((left * left).sum(axis=-1) + _WEIGHT * before) / (freedom + _WEIGHT)
        of_noise = np.where(known, noise, 0.0).sum(axis=-1) / some
        variance = np.maximum(over - of_noise, _LEAST * over)
        return cls(of_x, of_y, slope, variance, slope * slope * squares / some, np.maximum(freedom, 1.0))

    def at(self, place: Callable[[FloatArray], FloatArray]) -> Line:
        """The same, of each entry what ``place`` makes of it."""
        return Line(*(place(getattr(self, name)) for name in Line.__slots__))

    def foretold(self, x: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The mean that ``x`` foretells, and its variance; of a response that was not rated (nan) those of all.

        The line's entries stand where ``x`` has its own.
        """
        known = ~np.isnan(x)
        mean = np.where(known, self.y + self.slope * (x - self.x), self.y)
        return mean, np.where(known, self.variance, self.variance + self.spread)


def joined(lines: Sequence[Line]) -> Line:
    """The lines of the attributes, in their order, as one."""
    return Line(*(np.stack([getattr(each, name) for each in lines], axis=-1) for name in Line.__slots__))


def drawn_to(
    foretold: FloatArray, variance: FloatArray, n: FloatArray, total: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """The mean and the variance of a normal posterior, whose prior ``foretold`` and ``variance`` are.

    Args:
        n, total: ratings, and their sum.
        noise: the variance of one rating, above 0.
    """
    precision = 1.0 / variance + n / noise
    return (foretold / variance + total / noise) / precision, 1.0 / precision
