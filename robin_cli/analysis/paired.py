"""Whether one system is better than another: differences of their mean scores, paired by prompt.

Both systems answer every prompt; a prompt's difference is that of the means of its responses' scores. Prompts are the sample,
so the interval is Student's t over them. It holds for prompts like these, and includes how prompts differ, how the responses to
one differ, and the judge's noise. The scores' own standard errors know nothing of other prompts: 95 % intervals from them alone
hold the truth in 16 % of cases (benchmarks/differences.py).

If a few prompts differ much, and are unseen or all that is seen, t is too narrow. So each side ends at the farther of t and the
bounds of bounded values (``clustered.py``).

Repeated looks at it, until it leaves 0 out, find a difference without any in a third of cases.

The prompts that show a difference: a true difference D of G prompts with this variance shows, two-sided at α and with this
power, if
    (t_{G−1, 1−α/2} + t_{G−1, power}) · √(variance / G) ≤ |D|,
as in any text on sample sizes, with t for z: within one or two prompts of the power of the noncentral t.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from robin_cli.analysis.clustered import (
    MOST_TIMES,
    is_above,
    least_times,
    one_a_prompt,
    probability_beyond,
    wider_bounds,
)
from robin_cli.analysis.intervals import ALPHA
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.systems import FEWEST_PROMPTS

FEWEST = 2
"""Prompts that a standard error needs."""


def prompts_for(difference: float, variance: float, *, alpha: float) -> float:
    """Return the prompts that show a difference, 4 times in 5; whole, at least 2; inf for none.

    Args:
        difference: the true one, of either sign.
        variance: that of the paired differences over prompts, with the judge's noise.
        alpha: probability to find a difference, either way, if there is none.
    """
    from scipy.special import stdtrit

    if difference == 0:
        return math.inf

    def is_shown(prompts: int) -> bool:
        freedom = prompts - 1.0
        quantiles = float(stdtrit(freedom, 1.0 - 0.5 * alpha) + stdtrit(freedom, _POWER))
        return quantiles * math.sqrt(variance / prompts) <= abs(difference)

    return float(FEWEST + bisect_left(range(FEWEST, sys.maxsize), True, key=is_shown))  # noqa: FBT003


_POWER = 0.8
"""How often the prompts that are named show a difference as large as it looks."""

MORE_CALLS = 5
"""More calls per response, whose effect on the interval is reported."""

_MOSTLY = 0.5
"""Share of the variance from which the judge's noise is most of it."""

_MOST_CALLS = 100.0
"""The times as many calls beyond which more prompts are the better step."""

_CARRY = 0.5
"""Share of a variance that one or two prompts must have to be named."""

_FEWEST_TO_CARRY = 20
"""Prompts that this needs: of fewer, one or two are a large part anyway."""

_MOST_PROMPTS = 1e9
"""The most prompts that are reported: a difference that needs more is none."""

_FEWEST_REPEATS = 30
"""Ratings beyond each response's first that the judge's noise needs."""


@dataclass(frozen=True, slots=True)
class Responses:
    """The scores of one attribute, of K responses; those without a score are left out.

    Attributes:
        score: shape (K,).
        noise: the error variance of each score, shape (K,).
        ratings: number of each judge's ratings in the score, shape (K,).
        prompt: number of its prompt, from 0, shape (K,).
        system: number of its system, from 0, shape (K,).
        low, high: the ends of the scale; infinite without one.
    """

    score: FloatArray
    noise: FloatArray
    ratings: FloatArray
    prompt: IntArray
    system: IntArray
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class ByPrompt:
    """One system's prompts, in order of their numbers: shape (G,) each.

    ``score``: the mean over the prompt's responses. ``noise``: its error variance; ``then``: the same with MORE_CALLS more per
    response.
    """

    prompt: IntArray
    score: FloatArray
    noise: FloatArray
    then: FloatArray

    def at(self, prompts: IntArray) -> ByPrompt:
        """Return the rows of these prompts, all of which it has."""
        rows = np.searchsorted(self.prompt, prompts)
        return ByPrompt(prompts, *(each[rows] for each in (self.score, self.noise, self.then)))


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference a − b, in points.

    Attributes:
        a, b: numbers of the systems.
        n_prompts: number of prompts that both answered.
        mean_a, mean_b: over these prompts, each with the same weight.
        difference: mean_a − mean_b.
        std_error: that of the difference over prompts.
        ci_low, ci_high: 1 − α interval for prompts like these, of this difference by itself; nan below FEWEST_PROMPTS, and for
            differences that are alike without a scale.
        p: of no difference, two-sided.
        p_adjusted: the same for all differences together (Holm).
        noise_share: share of ``std_error`` squared that is the judge's noise, 0 to 1; nan with too few repeated ratings.
        shorter: largest share by which MORE_CALLS more per response would shorten the interval; nan as ``noise_share``.
        prompts_needed: prompts in all that would settle it in four cases of five, if the difference is as large as it looks;
            their present number if it is settled; nan if no number would.
        times_needed: times as many calls for these prompts that would settle it as often, if noise is most of the uncertainty;
            inf if more prompts are what helps.
        by_prompt: the differences, shape (n_prompts,).
        noise_by_prompt: the judge's error variance of each, shape (n_prompts,).
        prompts: their numbers.
    """

    a: int
    b: int
    n_prompts: int
    mean_a: float
    mean_b: float
    difference: float
    by_prompt: FloatArray
    noise_by_prompt: FloatArray
    prompts: IntArray
    std_error: float = math.nan
    ci_low: float = math.nan
    ci_high: float = math.nan
    p: float = math.nan
    p_adjusted: float = math.nan
    noise_share: float = math.nan
    shorter: float = math.nan
    prompts_needed: float = math.nan
    times_needed: float = math.inf

    @property
    def is_settled(self) -> bool:
        """Whether one is better beyond chance, taking all differences together."""
        return self.p_adjusted < ALPHA

    def carriers(self) -> tuple[IntArray, float]:
        """Return the one or two prompts, by number, that carry the variance, and their share of it; none if it is spread."""
        squares = (self.by_prompt - self.difference) ** 2
        most = np.argsort(-squares, kind="stable")[:2]
        shares = np.cumsum(squares[most]) / squares.sum() if squares.any() else np.zeros(len(most))
        if self.n_prompts < _FEWEST_TO_CARRY or shares[-1] < _CARRY:
            return self.prompts[:0], 0.0
        count = 1 + int(shares[0] < _CARRY)
        return self.prompts[most[:count]], float(shares[count - 1])


def differences(responses: Responses, systems: int) -> list[Difference]:
    """Return the difference of every two of ``systems``, the earlier minus the later, with Holm's correction over all."""
    each = [by_prompt(responses, system) for system in range(systems)]
    reach = responses.high - responses.low
    # A repeat shows how the judge varies on all responses, as their variances are drawn together.
    knows_noise = float(np.maximum(responses.ratings - 1.0, 0.0).sum()) >= _FEWEST_REPEATS
    found = [
        difference(a, b, each[a], each[b], reach=reach, knows_noise=knows_noise)
        for a, b in combinations(range(systems), 2)
    ]
    adjusted = holm([one.p for one in found])
    alpha = ALPHA / max(1, len(found))
    return [
        _with_needed(replace(one, p_adjusted=p), reach, alpha)
        for one, p in zip(found, adjusted, strict=True)
    ]


def by_prompt(responses: Responses, system: int) -> ByPrompt:
    """Return the prompts that ``system`` answered."""
    mine = np.flatnonzero(responses.system == system)
    prompts, which = np.unique(responses.prompt[mine], return_inverse=True)
    size = np.bincount(which, minlength=len(prompts)).astype(np.float64)
    ratings, noise = responses.ratings[mine], responses.noise[mine]
    score, now, then = (
        np.bincount(which, values, len(prompts)).astype(np.float64)
        for values in (responses.score[mine], noise, noise * ratings / (ratings + MORE_CALLS))
    )
    return ByPrompt(prompts, score / size, now / size**2, then / size**2)


def difference(
    a: int, b: int, of_a: ByPrompt, of_b: ByPrompt, *, reach: float, knows_noise: bool
) -> Difference:
    """Return the difference of two systems over the prompts that both answered.

    Args:
        reach: the largest possible difference.
        knows_noise: whether there are enough repeated ratings for the judge's noise.
    """
    prompts = np.intersect1d(of_a.prompt, of_b.prompt, assume_unique=True)
    first, second = of_a.at(prompts), of_b.at(prompts)
    each, noises = first.score - second.score, first.noise + second.noise
    count = len(prompts)
    mean_a, mean_b, mean = (
        float(x.mean()) if count else math.nan for x in (first.score, second.score, each)
    )
    found = Difference(a, b, count, mean_a, mean_b, mean, each, noises, prompts)
    if count < FEWEST_PROMPTS:
        return found
    variance = float(each.var(ddof=1)) / count
    noise, then = (
        float(each_prompt.sum()) / count**2 for each_prompt in (noises, first.then + second.then)
    )
    share = shorter = math.nan
    low, high, p = _interval_and_p(each, reach)
    if knows_noise and variance > _ALIKE * min(reach, 1.0) ** 2:
        share = min(1.0, noise / variance)
        shorter = 1.0 - math.sqrt(1.0 - share * (1.0 - then / noise)) if noise > 0 else 0.0
    return replace(
        found,
        std_error=math.sqrt(variance),
        ci_low=low if math.isfinite(low) else math.nan,
        ci_high=high if math.isfinite(high) else math.nan,
        p=p,
        p_adjusted=p,
        noise_share=share,
        shorter=shorter,
    )


def _interval_and_p(each: FloatArray, reach: float) -> tuple[float, float, float]:
    """Return the interval of the mean of these differences, none beyond ``reach``, and p: the larger of both methods."""
    clusters = one_a_prompt(each, -reach, reach)
    are_alike, ends = (
        clusters.are_alike(2.0 * reach),
        wider_bounds(each, -reach, reach, alpha=ALPHA),
    )
    by_t = 0.0 if are_alike else student_p(clusters.mean / math.sqrt(clusters.variance), len(each))
    if math.isinf(reach):
        return *ends, 1.0 if are_alike else by_t
    return *ends, max(by_t, probability_beyond(clusters, -reach, reach, at=0.0))


_ALIKE = 1e-18
"""A smaller variance over the square of the widest difference is rounding."""


def student_p(t: float, count: int) -> float:
    """Return both tails of Student's t beyond ``t``, with ``count`` − 1 degrees of freedom."""
    from scipy.special import stdtr

    return float(2.0 * stdtr(count - 1, -abs(t)))


def holm(p: Sequence[float]) -> list[float]:
    """Apply Holm's correction ("A simple sequentially rejective multiple test procedure", 1979); nan stays, uncounted."""
    found: list[float] = holm_by_row(np.array([p], dtype=np.float64))[0].tolist()
    return found


def holm_by_row(p: FloatArray) -> FloatArray:
    """Apply the same to each row by itself, shape (rows, tests)."""
    order = np.argsort(p, axis=1)  # nan comes last
    known = (~np.isnan(p)).sum(axis=1, keepdims=True)
    each = np.minimum(1.0, (known - np.arange(p.shape[1])) * np.take_along_axis(p, order, axis=1))
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(each, axis=1), axis=1)
    return adjusted


def _with_needed(one: Difference, reach: float, alpha: float) -> Difference:
    if math.isnan(one.p):
        return one
    if one.is_settled:
        return replace(one, prompts_needed=float(one.n_prompts))
    needed = prompts_needed(one.by_prompt, -reach, reach, alpha)
    return replace(one, prompts_needed=needed, times_needed=_times_needed(one, reach, alpha))


def _times_needed(one: Difference, reach: float, alpha: float) -> float:
    """Return the least times as many calls that would settle ``one`` at its prompts, 4 times in 5; inf for none.

    With f times the calls the variance is 1 − ρ (1 − 1/f) of what it is, ρ being the share of noise in it.
    """
    if not (one.noise_share > _MOSTLY and one.shorter > 0):
        return math.inf

    def settled(times: float) -> bool:
        kept = math.sqrt(1.0 - one.noise_share * (1.0 - 1.0 / times))
        then = one.difference + kept * (one.by_prompt - one.difference)
        return prompts_needed(then, -reach, reach, alpha) <= one.n_prompts + 1.0

    return least_times(settled, _MOST_CALLS) or math.inf


def prompts_needed(each: FloatArray, low: float, high: float, alpha: float) -> float:
    """Return the prompts in all that would settle, 4 times in 5, on which side of 0 the mean of values like these is.

    Args:
        each: a value of each prompt, shape (prompts,), between ``low`` and ``high``.

    Returns:
        More than there are; nan for none, or for too many.
    """
    count, mean, variance = len(each), float(each.mean()), float(each.var(ddof=1))
    needed = prompts_for(mean, variance, alpha=alpha)
    if needed < MOST_TIMES * count and high < math.inf:
        ends = (low, high) if mean > 0 else (-high, -low)
        needed = max(needed, _needed_by_bounds(each * np.sign(mean), *ends, alpha))
    return max(needed, count + 1.0) if needed <= _MOST_PROMPTS else math.nan


def _needed_by_bounds(each: FloatArray, low: float, high: float, alpha: float) -> float:
    """Return the prompts like these that bounded values' bounds need, if their mean is _LESS errors less, as in 1 of 5."""
    clusters, std_error = (
        one_a_prompt(each, low, high, _FEW_KINDS),
        float(each.std(ddof=1)) / math.sqrt(len(each)),
    )

    off = clusters.totals - clusters.mean
    variance = max(float(off**2 @ clusters.times) / clusters.prompts, _ALIKE)

    def settled(times: float) -> bool:
        less = _LESS * std_error / math.sqrt(times)
        tilted = np.maximum(1.0 - less * off / variance, 0.0)  # fewer of the prompts above the mean
        then = replace(clusters, times=clusters.times * times * tilted)
        return is_above(then, 0.0, low, alpha=alpha / 2)

    times = least_times(settled)
    return math.inf if times is None else float(math.ceil(times * len(each)))


_LESS = 0.84
_FEW_KINDS = 50
