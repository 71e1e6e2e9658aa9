"""Which judge to take: how well its ratings agree with people, or with judges of other families.

The agreement of a judge is the correlation of its ratings with people's. Prompts are the sample:
standard errors are from the influence of each prompt (Efron, "The jackknife, the bootstrap and other
resampling plans", 1982, chapter 6), and intervals are Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.clustered import student_factor
from robin_cli.stats.intervals import ALPHA

FEWEST_PROMPTS = 30
"""Prompts with labels before a judge may be dropped, or preferred."""

WORSE = 1.5
"""Standard errors of the difference from the best judge at which a judge is dropped."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How well judges agree with people, or with one another, shape (judges,); nan where either does not vary.

    Attributes:
        value: correlations; their 95 % intervals reach ``margin`` to both sides.
        difference: from the judge ``best`` on the same pairs, likewise with ``difference_margin``.
        is_worse: whether the difference is below 0 by WORSE standard errors, or there is no value.
        prompts: those that each judge rated.
    """

    value: FloatArray
    margin: FloatArray
    difference: FloatArray
    difference_margin: FloatArray
    best: int
    is_worse: NDArray[np.bool_]
    prompts: IntArray

    @property
    def order(self) -> list[int]:
        """The judges, ``best`` first, then by value; those without a value last."""
        value = np.nan_to_num(self.value, nan=-inf)
        return sorted(range(len(value)), key=lambda at: (at != self.best, -value[at]))

    def more_prompts(self, judge: int) -> float:
        """Return how many more prompts would separate ``judge`` from the best; 0: it is worse."""
        gap, prompts = -self.difference[judge], int(self.prompts[judge])
        times = (self.difference_margin[judge] / gap) ** 2 if gap > 0 else inf
        return max(0.0, FEWEST_PROMPTS - prompts, prompts * (times - 1.0))


def agreement(
    ratings: FloatArray, truth: FloatArray, prompt: IntArray, may_be_best: NDArray[np.bool_]
) -> JudgeAgreement:
    """Return how well judges agree with ``truth``.

    Args:
        ratings: shape (judges, pairs); nan for an answer without a rating, which agrees with nothing.
        truth: shape (judges, pairs); nan where it is unknown, or where a judge was not asked.
        prompt: the number of each pair's prompt, shape (pairs,).
        may_be_best: the judges that differences may be from, shape (judges,).
    """
    value, influence = _correlations(ratings, truth, prompt)
    best = int(np.argmax(np.where(np.isnan(value) | ~may_be_best, -inf, value)))
    truth_of_best = np.where(np.isnan(truth), np.nan, truth[best])
    of_best = _correlations(np.broadcast_to(ratings[best], truth.shape), truth_of_best, prompt)
    difference = np.round(value - of_best[0], 9) + 0.0  # else rounding tells equal judges apart
    influences = (influence, influence - of_best[1])
    prompts = np.array([len(np.unique(prompt[row])) for row in ~np.isnan(truth)])
    with np.errstate(divide="ignore", invalid="ignore"):  # there may be one prompt
        scale = prompts / (prompts - 1)
        error, apart = (np.sqrt((each**2).sum(axis=1) * scale) for each in influences)
    t = np.array([student_factor(n, ALPHA) for n in prompts])
    is_worse = np.isnan(value) | (difference < -WORSE * apart)
    return JudgeAgreement(value, t * error, difference, t * apart, best, is_worse, prompts)


def _correlations(
    ratings: FloatArray, truth: FloatArray, prompt: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Return the correlation of each row of ``ratings`` with ``truth``, and the influence of each prompt on it.

    With deviations a and b from the means, r = Σab / √(Σa² Σb²), and the influence of a prompt is the
    sum of ab / √(Σa² Σb²) − r/2 (a² / Σa² + b² / Σb²) over its pairs.
    """
    a = _deviations(np.where(np.isnan(truth), np.nan, ratings))
    b = _deviations(truth)
    aa, bb, ab = ((x * y).sum(axis=1, keepdims=True) for x, y in ((a, a), (b, b), (a, b)))
    with np.errstate(divide="ignore", invalid="ignore"):  # all ratings of a judge may be the same
        r = ab / np.sqrt(aa * bb)
        by_pair = a * b / np.sqrt(aa * bb) - r / 2 * (a * a / aa + b * b / bb)
    return r[:, 0], np.array([np.bincount(prompt, row) for row in by_pair])


def consensus_of_others(ratings: FloatArray, families: Sequence[str]) -> FloatArray:
    """Return the mean rating of each pair by other families, each counting once, shape (judges, pairs).

    Ratings are centred, and scaled to a variance of 1. There are two families at least.
    """
    centred = _deviations(ratings)
    scaled = centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9)
    _, family, sizes = np.unique(families, return_inverse=True, return_counts=True)
    weight = (family[:, None] != family) / sizes[family]
    return np.asarray(weight / weight.sum(axis=1, keepdims=True) @ scaled)


def _deviations(values: FloatArray) -> FloatArray:
    """Return what each of ``values`` differs from the mean of its row: 0 for nan, and 0 if all are the same."""
    known = np.ma.masked_invalid(values)
    return np.asarray(np.round((known - known.mean(axis=1, keepdims=True)).filled(0.0), 12))
