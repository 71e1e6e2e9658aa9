"""Which judge to take: how well each one's ratings of the same prompts agree with people, or with judges of other families.

The agreement of a judge is the correlation of its ratings with people's, within prompts where these have several responses.
Prompts are the sample: errors of agreements, and of differences between them, are standard deviations over bootstrap samples
of whole prompts, the same samples for all judges, and intervals are Student's t.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, nan

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray

FEWEST_PROMPTS = 30
"""Prompts with labels before a judge may be dropped."""

WORSE = 1.5
"""A judge is dropped if it is worse than the best by this number of standard errors of the difference."""

_SAMPLES = 1_000


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """How well judges agree with people, or with other judges, shape (judges,) each; nan where either does not vary.

    Attributes:
        value: correlations; ``error``: their standard errors.
        difference: from the best judge; ``difference_error``: its standard error.
        reach: standard errors to each end of a 95 % interval.
        prompts: the number of prompts.
    """

    value: FloatArray
    error: FloatArray
    difference: FloatArray
    difference_error: FloatArray
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
        """Return how many more prompts would tell ``judge`` from the best, if the difference is as it seems; 0: it is told."""
        gap, reach = -self.difference[judge], self.reach * self.difference_error[judge]
        return self.prompts * max(0.0, (reach / gap) ** 2 - 1.0) if gap > 0 else inf

    def with_earlier(
        self, earlier: JudgeAgreement, is_earlier: NDArray[np.bool_]
    ) -> JudgeAgreement:
        """Return the agreement with the ``earlier`` values of some judges, which were dropped then."""
        names = ("value", "error", "difference", "difference_error")
        both = {name: (getattr(earlier, name), getattr(self, name)) for name in names}
        return replace(self, **{name: np.where(is_earlier, *pair) for name, pair in both.items()})


def agreement(ratings: FloatArray, truth: FloatArray, prompt: IntArray) -> JudgeAgreement:
    """Return how well judges agree with ``truth``.

    Args:
        ratings: shape (judges, pairs); nan for an answer without a rating, which then says nothing of its response.
        truth: shape (pairs,), or (judges, pairs) if it differs between judges; nan for pairs without any.
        prompt: the number of each pair's prompt, shape (pairs,).
    """
    truth = np.broadcast_to(truth, ratings.shape)
    is_known = ~np.isnan(truth).all(axis=0)
    _, prompt = np.unique(prompt[is_known], return_inverse=True)
    a, b = (_centred(each[:, is_known], prompt) for each in (ratings, truth))
    count = max(1, int(prompt.max(initial=-1)) + 1)
    sums = [[np.bincount(prompt, row, count) for row in each] for each in (a * a, b * b, a * b)]
    products = np.array(sums)  # of each judge and prompt
    drawn = np.random.default_rng(1).multinomial(count, np.full(count, 1 / count), _SAMPLES)
    value, samples = _correlations(products.sum(axis=-1)), _correlations(products @ drawn.T)
    best = int(np.argmax(np.nan_to_num(value, nan=-inf)))
    from scipy.special import stdtrit  # slow to import, and few commands need it

    return JudgeAgreement(
        value,
        _spread(samples, value),
        value - value[best],
        _spread(samples - samples[best], value - value[best]),
        float(stdtrit(max(1, count - 1), 0.975)),
        int(is_known.any()) * count,
    )


def consensus_of_others(
    ratings: FloatArray, families: Sequence[str], prompt: IntArray
) -> FloatArray:
    """Return the mean rating of each pair by the judges of other families, each family counting once, shape (judges, pairs).

    Ratings are first centred within prompts and scaled to a variance of 1; nan for all pairs if there is no other family.
    """
    centred = _centred(ratings, prompt)
    scaled = centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-9)
    of = np.array(families)
    means = {name: scaled[of == name].mean(axis=0) for name in families}
    unknown = [np.full(ratings.shape[1], nan)]
    rest = ([each for other, each in means.items() if other != name] for name in families)
    return np.array([np.mean(each or unknown, axis=0) for each in rest])


def share_right(ratings: FloatArray, truth: FloatArray, prompt: IntArray) -> FloatArray:
    """Return the share of prompts whose best response by people is the judge's, shape (judges,); ties count in part.

    Only prompts whose responses people do not all rate alike count; nan if there is none.
    """
    right = [np.full(len(ratings), nan)]
    for number in np.unique(prompt[~np.isnan(truth)]):
        of_prompt = (prompt == number) & ~np.isnan(truth)
        best = truth[of_prompt] == truth[of_prompt].max()
        if not best.all():
            rated = np.nan_to_num(ratings[:, of_prompt], nan=-inf)
            first = rated == rated.max(axis=1, keepdims=True)
            share = (first & best).sum(axis=1) / first.sum(axis=1)
            right.append(np.where(np.isinf(rated).all(axis=1), nan, share))
    known = np.isfinite(right)
    return np.asarray(
        np.where(known, right, 0.0).sum(axis=0)
        / np.where(known.any(axis=0), known.sum(axis=0), nan)
    )


def noise_of(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the standard deviation of one rating, from two of the same pairs, shape (judges,); nan without any."""
    known = ~np.isnan(first - second)
    squares = np.where(known, (first - second) ** 2 / 2.0, 0.0).sum(axis=1)
    return np.asarray(np.sqrt(squares / np.where(known.any(axis=1), known.sum(axis=1), nan)))


def _centred(values: FloatArray, prompt: IntArray) -> FloatArray:
    """Return ``values`` less their means, within prompts if these have several; 0 in place of nan."""
    _, number = np.unique(prompt, return_inverse=True)
    number = np.zeros_like(number) if len(set(number.tolist())) == len(number) else number
    known, filled = ~np.isnan(values), np.nan_to_num(values)
    counts, totals = (
        np.array([np.bincount(number, row) for row in each]) for each in (known, filled * known)
    )
    return np.asarray((filled - (totals / np.maximum(1, counts))[:, number]) * known)


def _correlations(sums: FloatArray) -> FloatArray:
    aa, bb, ab = sums
    scale = np.sqrt(aa * bb)
    return np.asarray(np.divide(ab, scale, out=np.full(ab.shape, nan), where=scale > 0))


def _spread(samples: FloatArray, value: FloatArray) -> FloatArray:
    """Return the standard deviation of samples; those in which nothing varies count as the value."""
    return np.asarray(np.where(np.isnan(samples), value[:, None], samples).std(axis=-1))
