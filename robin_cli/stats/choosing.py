"""Which judge to take: how well its ratings agree with people, or with judges of other families.

The agreement of a judge is the correlation of its ratings with people's, within prompts where these
have several responses. Prompts are the sample: errors are standard deviations over bootstrap samples
of whole prompts, the same samples for all judges, and intervals are Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray

FEWEST_PROMPTS = 30
"""Prompts with labels before a judge may be dropped."""

WORSE = 1.5
"""Standard errors of the difference from the best judge at which a judge is dropped."""

_SAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How well judges agree with people, or with one another, shape (judges,); nan where either does not vary.

    Attributes:
        value: correlations, with standard errors ``error``.
        difference: from the judge ``best``, with standard errors ``difference_error``.
        reach: standard errors to each end of a 95 % interval.
        prompts: the number of prompts.
    """

    value: FloatArray
    error: FloatArray
    difference: FloatArray
    difference_error: FloatArray
    best: int
    reach: float
    prompts: int

    @property
    def order(self) -> list[int]:
        """The judges, the best first; those without a value last."""
        order: list[int] = np.argsort(-np.nan_to_num(self.value, nan=-inf), kind="stable").tolist()
        return order

    @property
    def is_worse(self) -> NDArray[np.bool_]:
        """Whether each judge is worse than the best by WORSE standard errors, or has no value."""
        return np.isnan(self.value) | (self.difference < -WORSE * self.difference_error)

    def more_prompts(self, judge: int) -> float:
        """Return how many more prompts would separate ``judge`` from the best; 0: it is worse for sure."""
        gap, reach = -self.difference[judge], self.reach * self.difference_error[judge]
        return self.prompts * max(0.0, (reach / gap) ** 2 - 1.0) if gap > 0 else inf


def agreement(
    ratings: FloatArray,
    truth: FloatArray,
    prompt: IntArray,
    may_be_best: NDArray[np.bool_] | None = None,
) -> JudgeAgreement:
    """Return how well judges agree with ``truth``.

    Args:
        ratings: shape (judges, pairs); nan for an answer without a rating, which agrees with nothing.
        truth: shape (pairs,), or (judges, pairs) if it differs between judges; nan where it is
            unknown, or where a judge was not asked.
        prompt: the number of each pair's prompt, shape (pairs,).
        may_be_best: the judges that differences may be from, shape (judges,); None for all.
    """
    truth = np.broadcast_to(truth, ratings.shape)
    is_known = ~np.isnan(truth).all(axis=0)
    _, prompt = np.unique(prompt[is_known], return_inverse=True)
    a, b = (_centred(values[:, is_known], prompt) for values in (ratings, truth))
    count = max(1, int(prompt.max(initial=-1)) + 1)
    sums = np.array([_sums_by(prompt, values, count) for values in (a * a, b * b, a * b)])
    drawn = np.random.default_rng(1).multinomial(count, np.full(count, 1 / count), _SAMPLES)
    value, samples = _correlations(sums.sum(axis=-1)), _correlations(sums @ drawn.T)
    is_candidate = np.isfinite(value) & (True if may_be_best is None else may_be_best)
    best = int(np.argmax(np.where(is_candidate, value, -inf)))
    from scipy.special import stdtrit  # slow to import, and few commands need it

    return JudgeAgreement(
        value,
        _spread(samples, value),
        value - value[best],
        _spread(samples - samples[best], value - value[best]),
        best,
        float(stdtrit(max(1, count - 1), 0.975)),
        int(is_known.any()) * count,
    )


def consensus_of_others(
    ratings: FloatArray, families: Sequence[str], prompt: IntArray
) -> FloatArray:
    """Return the mean rating of each pair by other families, each counting once, shape (judges, pairs).

    Ratings are centred within prompts and scaled to a variance of 1; nan without another family.
    """
    centred = _centred(ratings, prompt)
    scaled = centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9)
    family = np.array(families)
    names = list(dict.fromkeys(families))
    means = np.array([scaled[family == name].mean(axis=0) for name in names])
    if len(names) == 1:
        return np.full(ratings.shape, nan)
    return np.array([means[[name != own for name in names]].mean(axis=0) for own in families])


def share_right(ratings: FloatArray, truth: FloatArray, prompt: IntArray) -> FloatArray:
    """Return the share of prompts whose best response by people is the judge's, shape (judges,).

    Ties count in part, and prompts whose responses people rate alike not at all; nan without any.
    """
    shares = [np.full(len(ratings), nan)]
    for number in np.unique(prompt[~np.isnan(truth)]):
        of_prompt = (prompt == number) & ~np.isnan(truth)
        best = truth[of_prompt] == truth[of_prompt].max()
        if not best.all():
            rated = np.nan_to_num(ratings[:, of_prompt], nan=-inf)
            first = rated == rated.max(axis=1, keepdims=True)
            share = (first & best).sum(axis=1) / first.sum(axis=1)
            shares.append(np.where(np.isinf(rated).all(axis=1), nan, share))
    return _mean_of_known(np.array(shares).T)


def noise_of(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the standard deviation of one rating, from two of the same pairs, shape (judges,)."""
    return np.asarray(np.sqrt(_mean_of_known((first - second) ** 2 / 2.0)))


def _mean_of_known(values: FloatArray) -> FloatArray:
    """Return the mean of each row without nan; nan for a row of them."""
    known = ~np.isnan(values)
    counts = np.where(known.any(axis=1), known.sum(axis=1), nan)
    return np.asarray(np.where(known, values, 0.0).sum(axis=1) / counts)


def _centred(values: FloatArray, prompt: IntArray) -> FloatArray:
    """Return ``values`` less their means, within prompts if these have several; 0 in place of nan."""
    _, number = np.unique(prompt, return_inverse=True)
    if number.max(initial=-1) + 1 == len(number):
        number = np.zeros_like(number)
    known, filled = ~np.isnan(values), np.nan_to_num(values)
    counts, totals = _sums_by(number, known), _sums_by(number, filled * known)
    return np.asarray((filled - (totals / np.maximum(1, counts))[:, number]) * known)


def _sums_by(number: IntArray, values: NDArray[Any], count: int = 0) -> FloatArray:
    """Return the sums of each row of ``values`` by ``number``, shape (rows, numbers)."""
    return np.array([np.bincount(number, row, count) for row in values])


def _correlations(sums: FloatArray) -> FloatArray:
    aa, bb, ab = sums
    scale = np.sqrt(aa * bb)
    return np.asarray(np.divide(ab, scale, out=np.full(ab.shape, nan), where=scale > 0))


def _spread(samples: FloatArray, value: FloatArray) -> FloatArray:
    """Return the standard deviation of samples; those in which nothing varies count as the value."""
    return np.asarray(np.where(np.isnan(samples), value[:, None], samples).std(axis=-1))
