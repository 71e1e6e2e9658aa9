"""Which judge to take: how well each one's ratings of the same prompts agree with people, or with judges of other families.

The agreement of a judge is the correlation of its ratings with people's. Where prompts have several responses it is taken
within prompts: both are centred on their mean over the prompt. Prompts are the sample: the errors of agreements, and of
differences between them, are those over bootstrap samples of whole prompts, the same samples for all judges, with Student's t.

Without labels, people's place is taken by the mean rating of the judges of all other families, each family counting once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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
class Agreement:
    """The agreement of judges with people, or with other judges, and its difference from the best judge's.

    Attributes:
        value: correlations, shape (judges,); nan where a judge or people do not vary.
        low, high: 95 % intervals.
        difference: from the best; ``difference_low``, ``difference_high``: 95 % intervals of it; 0 for the best itself.
        error: standard errors of the differences.
        prompts: the number of prompts that count.
    """

    value: FloatArray
    low: FloatArray
    high: FloatArray
    difference: FloatArray
    difference_low: FloatArray
    difference_high: FloatArray
    error: FloatArray
    prompts: int

    @property
    def order(self) -> list[int]:
        """The judges, the best first; those without a value last."""
        order: list[int] = np.argsort(-np.nan_to_num(self.value, nan=-inf), kind="stable").tolist()
        return order

    @property
    def is_worse(self) -> NDArray[np.bool_]:
        """Whether each judge is worse than the best by WORSE standard errors, or has no value."""
        return np.isnan(self.value) | (self.difference < -WORSE * self.error)

    def more_prompts(self, judge: int) -> float:
        """Return how many more prompts would tell ``judge`` from the best, if the difference is as it seems; inf for none."""
        reach, gap = self.difference_high[judge] - self.difference[judge], -self.difference[judge]
        return self.prompts * max(0.0, (reach / gap) ** 2 - 1.0) if gap > 0 else inf


def agreement(ratings: FloatArray, truth: FloatArray, prompt: IntArray, seed: int = 1) -> Agreement:
    """Return how well judges agree with ``truth``.

    Args:
        ratings: shape (judges, pairs); nan for an answer without a rating, which then says nothing of its response.
        truth: shape (pairs,), or (judges, pairs) if it differs between judges; nan for pairs without any.
        prompt: the number of each pair's prompt, shape (pairs,).
    """
    truth = np.broadcast_to(truth, ratings.shape)
    known = ~np.isnan(truth).any(axis=0)
    ratings, truth = ratings[:, known], truth[:, known]
    _, prompt = np.unique(prompt[known], return_inverse=True)
    products = _products(ratings, truth, prompt)
    count = products.shape[-1]
    if not count:
        unknown = np.full(len(ratings), nan)
        return Agreement(unknown, unknown, unknown, unknown, unknown, unknown, unknown, 0)
    drawn = np.random.default_rng(seed).multinomial(count, np.full(count, 1 / count), _SAMPLES)
    value = _correlations(products.sum(axis=-1))
    samples = _correlations(products @ drawn.T)
    best = int(np.nanargmax(value)) if not np.isnan(value).all() else 0
    apart = samples - samples[best]
    error, error_apart = np.nanstd(samples, axis=-1), np.nanstd(apart, axis=-1)
    from scipy.special import stdtrit  # commands that choose no judge do not import it

    reach, difference = float(stdtrit(max(1, count - 1), 0.975)), value - value[best]
    return Agreement(
        value,
        value - reach * error,
        np.minimum(1.0, value + reach * error),
        difference,
        difference - reach * error_apart,
        difference + reach * error_apart,
        error_apart,
        count,
    )


def others(ratings: FloatArray, families: Sequence[str], prompt: IntArray) -> FloatArray:
    """Return the mean rating of each pair by the judges of other families, shape (judges, pairs).

    Ratings are first centred within prompts and scaled to a variance of 1; nan for all pairs if there is no other family.
    """
    centred = _centred(ratings, prompt)
    spread = centred.std(axis=1, keepdims=True)
    scaled = np.divide(centred, spread, out=np.zeros_like(centred), where=spread > 0)
    of_family = np.array(families)
    by_family = {name: scaled[of_family == name].mean(axis=0) for name in families}
    found = np.full(ratings.shape, nan)
    for judge, family in enumerate(families):
        rest = [means for name, means in by_family.items() if name != family]
        if rest:
            found[judge] = np.mean(rest, axis=0)
    return found


def share_right(ratings: FloatArray, truth: FloatArray, prompt: IntArray) -> FloatArray:
    """Return the share of prompts whose best response by people is the judge's, shape (judges,); ties count in part.

    Only prompts whose responses people do not all rate alike count; nan if there is none.
    """
    right = []
    for number in np.unique(prompt[~np.isnan(truth)]):
        of_prompt = (prompt == number) & ~np.isnan(truth)
        best = truth[of_prompt] == truth[of_prompt].max()
        if best.all():
            continue
        rated = np.nan_to_num(ratings[:, of_prompt], nan=-inf)
        first = (rated == rated.max(axis=1, keepdims=True)) & ~np.isinf(rated)
        right.append((first & best).sum(axis=1) / np.maximum(1, first.sum(axis=1)))
    return np.mean(right, axis=0) if right else np.full(len(ratings), nan)


def noise_of(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the standard deviation of one rating, from two of the same pairs, shape (judges,); nan without any."""
    known = ~np.isnan(first - second)
    squares = np.where(known, (np.nan_to_num(first) - np.nan_to_num(second)) ** 2 / 2.0, 0.0)
    counts = known.sum(axis=1).astype(np.float64)
    counts[counts == 0] = nan
    return np.asarray(np.sqrt(squares.sum(axis=1) / counts))


def best_pair(found: Agreement, families: Sequence[str]) -> tuple[int, int] | None:
    """Return the best judge and the best one of another family; None if all are of one family."""
    rated = [judge for judge in found.order if not np.isnan(found.value[judge])]
    rest = [judge for judge in rated if families[judge] != families[rated[0]]]
    return (rated[0], rest[0]) if rest else None


def _centred(values: FloatArray, prompt: IntArray) -> FloatArray:
    """Return ``values`` less their means, within prompts if these have several; 0 in place of nan."""
    _, number = np.unique(prompt, return_inverse=True)
    if len(number) == number.max(initial=-1) + 1:
        number = np.zeros_like(number)
    known = ~np.isnan(values)
    means = []
    for row, is_known in zip(np.nan_to_num(values), known, strict=True):
        counts = np.bincount(number, is_known)
        means.append(np.bincount(number, row * is_known) / np.maximum(1, counts))
    return np.where(known, np.nan_to_num(values) - np.array(means)[:, number], 0.0)


def _products(ratings: FloatArray, truth: FloatArray, prompt: IntArray) -> FloatArray:
    """Return Σ aa, Σ bb and Σ ab of each judge and prompt, shape (3, judges, prompts)."""
    a, b = _centred(ratings, prompt), _centred(truth, prompt)
    count = int(prompt.max(initial=-1)) + 1
    sums = [[np.bincount(prompt, row, count) for row in each] for each in (a * a, b * b, a * b)]
    return np.array(sums).reshape(3, len(ratings), count)


def _correlations(sums: FloatArray) -> FloatArray:
    aa, bb, ab = sums
    scale = np.sqrt(aa * bb)
    return np.asarray(np.divide(ab, scale, out=np.full(ab.shape, nan), where=scale > 0))
