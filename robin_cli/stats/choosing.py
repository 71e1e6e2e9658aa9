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
import pandas as pd
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.clustered import student_factor
from robin_cli.stats.intervals import ALPHA

FEWEST_PROMPTS = 30
"""Prompts with labels before a judge may be dropped."""

WORSE = 1.5
"""Standard errors of the difference from the best judge at which a judge is dropped."""


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How well judges agree with people, or with one another, shape (judges,); nan where either does not vary.

    Attributes:
        value: correlations; their 95 % intervals reach ``margin`` to both sides.
        difference: from the judge ``best``, likewise with ``difference_margin``.
        is_worse: whether the difference is below 0 by WORSE standard errors, or there is no value.
        prompts: the number of prompts.
    """

    value: FloatArray
    margin: FloatArray
    difference: FloatArray
    difference_margin: FloatArray
    best: int
    is_worse: NDArray[np.bool_]
    prompts: int

    @property
    def order(self) -> list[int]:
        """The judges, the best first; those without a value last."""
        return list(map(int, np.argsort(-np.nan_to_num(self.value, nan=-inf), kind="stable")))

    def more_prompts(self, judge: int) -> float:
        """Return how many more prompts would separate ``judge`` from the best; 0: it is worse for sure."""
        gap, margin = -self.difference[judge], self.difference_margin[judge]
        is_known = gap > 0 and self.prompts > 1
        return self.prompts * max(0.0, (margin / gap) ** 2 - 1.0) if is_known else inf


def agreement(
    ratings: FloatArray, truth: FloatArray, prompt: IntArray, may_be_best: NDArray[np.bool_]
) -> JudgeAgreement:
    """Return how well judges agree with ``truth``.

    The influence of a pair on r = Σab / √(Σa² Σb²), of a judge's deviations a from its mean rating
    and those of the truth b, is ab / √(Σa² Σb²) − r/2 (a² / Σa² + b² / Σb²).

    Args:
        ratings: shape (judges, pairs); nan for an answer without a rating, which agrees with nothing.
        truth: shape (judges, pairs); nan where it is unknown, or where a judge was not asked.
        prompt: the number of each pair's prompt, shape (pairs,).
        may_be_best: the judges that differences may be from, shape (judges,).
    """
    is_known = ~np.isnan(truth).all(axis=0)
    _, prompt = np.unique(prompt[is_known], return_inverse=True)
    a, b = (_deviations(values[:, is_known]) for values in (ratings, truth))
    aa, bb, ab = ((x * y).sum(axis=1, keepdims=True) for x, y in ((a, a), (b, b), (a, b)))
    with np.errstate(divide="ignore", invalid="ignore"):  # all ratings of a judge may be the same
        scale = np.sqrt(aa * bb)
        by_pair = a * b / scale - ab / scale / 2 * (a * a / aa + b * b / bb)
        influence = np.array([np.bincount(prompt, row) for row in by_pair])
        value, prompts = (ab / scale)[:, 0], influence.shape[1]
        best = int(np.argmax(np.where(np.isnan(value) | ~may_be_best, -inf, value)))
        squares = np.array([influence, influence - influence[best]]) ** 2
        errors = np.sqrt(squares.sum(axis=2) * np.divide(prompts, prompts - 1))
    difference, (margin, apart) = value - value[best], student_factor(prompts, ALPHA) * errors
    is_worse = np.isnan(value) | (difference < -WORSE * errors[1])
    return JudgeAgreement(value, margin, difference, apart, best, is_worse, prompts)


def consensus_of_others(
    ratings: FloatArray, families: Sequence[str], prompt: IntArray
) -> FloatArray:
    """Return the mean rating of each pair by other families, each counting once, shape (judges, pairs).

    Ratings are centred, within prompts if these have several responses, and scaled to a variance of 1.
    There are two families at least.
    """
    by_pair = pd.DataFrame(ratings.T)
    alike = prompt if len(np.unique(prompt)) < len(prompt) else np.zeros_like(prompt)
    centred = by_pair - by_pair.groupby(alike).transform("mean")
    scaled = (centred / centred.std()).fillna(0.0).to_numpy().T
    _, family, sizes = np.unique(families, return_inverse=True, return_counts=True)
    weight = (family[:, None] != family) / sizes[family]
    return np.asarray(weight / weight.sum(axis=1, keepdims=True) @ scaled)


def noise_of(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the standard deviation of one rating, from two of the same pairs, shape (judges,)."""
    squares = np.ma.masked_invalid(first - second) ** 2
    return np.asarray(np.sqrt(squares.mean(axis=1).filled(np.nan) / 2))


def _deviations(values: FloatArray) -> FloatArray:
    """Return what each of ``values`` differs from the mean of its row; 0 in place of nan."""
    known = np.ma.masked_invalid(values)
    return np.asarray((known - known.mean(axis=1, keepdims=True)).filled(0.0))
