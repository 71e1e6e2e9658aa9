"""Whether one system is better than another: the paired t test of their mean scores, by prompt.

Both systems answer every prompt; a prompt's difference is that of the means of its responses' scores. Prompts are the sample,
so the test is Student's over them. It holds for prompts like these, and includes how prompts differ, how the responses to
one differ, and the judge's noise. The scores' own standard errors know nothing of other prompts: 95 % intervals from them alone
hold the truth in 16 % of cases (benchmarks/differences.py). Repeated looks until it leaves 0 out find a difference without any
in a third of cases.

If few prompts carry the variance, t is too narrow. Each side then ends at the farther of t and the bounds of bounded values,
and p is the larger one (``clustered.py``). With several systems all intervals hold together (Bonferroni), and a system is
better if its interval leaves 0 out; Holm's p may be below α a little earlier.

A true difference D of G prompts with this variance shows, two-sided at α and with this power, if
    (t_{G−1, 1−α/2} + t_{G−1, power}) · √(variance / G) ≤ |D|,
as in any text on sample sizes, with t for z: within one or two prompts of the power of the noncentral t.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.systems import FEWEST_PROMPTS
from robin_cli.stats.clustered import (
    MOST_TIMES,
    bounds_over_prompts,
    clusters_of,
    coarse,
    few_carry,
    is_above,
    least_times,
    probability_beyond,
)
from robin_cli.stats.intervals import ALPHA

MORE_CALLS = 5
"""More calls per response, whose effect on the interval is reported."""

ENOUGH_FOR_RARE = 60
"""Prompts among which one of a kind that is one in 20 is with 95 %."""

_FEWEST = 2
"""Prompts that a standard error needs."""

_POWER = 0.8
"""How often the prompts that are named show a difference as large as it looks."""

_MOSTLY = 0.5
"""Share of the variance from which the judge's noise is most of it."""

_MOST_CALLS = 100.0
"""The times as many calls beyond which more prompts are the better step."""

_CARRY = 0.5
"""Share of a variance that the prompts that carry it have."""

_EQUAL = 0.05
"""Share of the scale's width within which half of the differences lie if most are equal."""

_MOST_PROMPTS = 1e9
"""The most prompts that are reported: a difference that needs more is none."""

_FEWEST_REPEATS = 30
"""Ratings beyond each response's first that the judge's noise needs."""

_ALIKE = 1e-18
"""A smaller variance over the square of the widest difference is rounding."""

_LESS = 0.84
_FEW_KINDS = 50


@dataclass(frozen=True, slots=True)
class Responses:
    """The scores of one attribute, of K responses; those without a score are left out.

    Attributes:
        score: shape (K,).
        noise: the error variance of each score, shape (K,).
        ratings: number of each judge's ratings in the score, shape (K,).
        prompt, system: numbers from 0, shape (K,).
        low, high: the ends of the scale; infinite without one.
    """

    score: FloatArray
    noise: FloatArray
    ratings: FloatArray
    prompt: IntArray
    system: IntArray
    low: float
    high: float

    @property
    def reach(self) -> float:
        """The largest possible difference."""
        return self.high - self.low


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference a − b, in points.

    Attributes:
        a, b: numbers of the systems.
        mean_a, mean_b: over the prompts that both answered, each with the same weight.
        by_prompt, noise_by_prompt: the differences and the judge's error variance of each, shape (n_prompts,).
        prompts: their numbers.
        ci_low, ci_high: interval for prompts like these; those of all differences hold together with 1 − α. nan below
            FEWEST_PROMPTS, and for differences that are alike without a scale.
        is_widened: whether it is wider than Student's, as few prompts carry the variance.
        p: of no difference, two-sided; ``p_adjusted``: the same for all differences together (Holm).
        noise_share: share of ``std_error`` squared that is the judge's noise, 0 to 1; nan with too few repeated ratings.
        shorter: largest share by which MORE_CALLS more per response would shorten the interval; nan as ``noise_share``.
        prompts_needed: prompts in all that would settle it in four cases of five, if the difference is as large as it looks;
            nan if it is settled, or if no number would.
        times_needed: times as many calls for these prompts that would settle it as often, if noise is most of the uncertainty;
            inf if more prompts are what helps.
    """

    a: int
    b: int
    mean_a: float
    mean_b: float
    difference: float
    by_prompt: FloatArray
    noise_by_prompt: FloatArray
    prompts: IntArray
    ci_low: float = math.nan
    ci_high: float = math.nan
    is_widened: bool = False
    p: float = math.nan
    p_adjusted: float = math.nan
    noise_share: float = math.nan
    shorter: float = math.nan
    prompts_needed: float = math.nan
    times_needed: float = math.inf

    @property
    def n_prompts(self) -> int:
        return len(self.prompts)

    @property
    def std_error(self) -> float:
        """That of the difference over prompts; nan below FEWEST_PROMPTS."""
        if self.n_prompts < FEWEST_PROMPTS:
            return math.nan
        return math.sqrt(float(self.by_prompt.var(ddof=1)) / self.n_prompts)

    @property
    def is_settled(self) -> bool:
        """Whether one is better beyond chance, taking all differences together: the interval leaves 0 out."""
        return self.ci_low > 0 or self.ci_high < 0

    @property
    def effect_size(self) -> float:
        """Cohen's d of paired samples: the mean of the differences over their standard deviation; nan if that is 0."""
        deviation = self.std_error * math.sqrt(self.n_prompts)
        return self.difference / deviation if deviation > 0 else math.nan

    @property
    def p_wilcoxon(self) -> float:
        """The two-sided p of Wilcoxon's signed-rank test, without prompts that differ by 0; by itself."""
        from scipy.stats import wilcoxon  # takes a second, too long for every start

        is_told = self.by_prompt.any() and not math.isnan(self.p)
        return float(wilcoxon(self.by_prompt).pvalue) if is_told else self.p

    def may_miss_rare(self, reach: float) -> bool:
        """Return whether most differences are equal, of too few prompts to show a rare large one."""
        near = 0.0 if math.isinf(reach) else _EQUAL * reach
        is_few = FEWEST_PROMPTS <= self.n_prompts < ENOUGH_FOR_RARE
        return is_few and float(np.ptp(np.quantile(self.by_prompt, [0.25, 0.75]))) <= near

    def carriers(self) -> tuple[IntArray, float]:
        """Return the fewest prompts, by number, that carry half of the variance, and their share; none if they are many."""
        squares = (self.by_prompt - self.difference) ** 2
        if not squares.any():
            return self.prompts[:0], 0.0
        order = np.argsort(-squares, kind="stable")
        shares = np.cumsum(squares[order]) / squares.sum()
        count = 1 + int(np.searchsorted(shares, _CARRY))
        are_few = count <= 2 and self.n_prompts >= 20  # of fewer, two are a large part anyway
        if not (self.is_widened or are_few):
            return self.prompts[:0], 0.0
        return self.prompts[order[:count]], float(shares[count - 1])


def differences(responses: Responses, systems: int, *, is_robust: bool = False) -> list[Difference]:
    """Return the difference of every two systems, the earlier minus the later; ``is_robust``: widen every interval."""

    def by_prompt(values: FloatArray) -> FloatArray:
        return sums_by_prompt(values, responses.system, responses.prompt, systems)

    ratings, noise = responses.ratings, responses.noise
    # A repeat shows how the judge varies on all responses, as their variances are drawn together.
    knows_noise = float(np.maximum(ratings - 1.0, 0.0).sum()) >= _FEWEST_REPEATS
    size = by_prompt(np.ones(len(noise)))
    score = scores_by_prompt(responses, systems)
    with np.errstate(invalid="ignore"):
        now, then = (
            by_prompt(each) / size**2 for each in (noise, noise * ratings / (ratings + MORE_CALLS))
        )
    found = []
    for a, b in combinations(range(systems), 2):
        both = np.flatnonzero(~np.isnan(score[a] - score[b]))
        values, noises = score[a, both] - score[b, both], now[a, both] + now[b, both]
        mean_a, mean_b, mean = (
            float(x.mean()) if len(both) else math.nan
            for x in (score[a, both], score[b, both], values)
        )
        one = Difference(a, b, mean_a, mean_b, mean, values, noises, both)
        if len(both) >= FEWEST_PROMPTS:
            one = replace(one, p=paired_p(values, responses.reach, is_robust=is_robust))
        if knows_noise and one.std_error > math.sqrt(_ALIKE) * min(responses.reach, 1.0):
            of_mean = float(noises.sum()) / len(both) ** 2
            later = float((then[a, both] + then[b, both]).sum()) / len(both) ** 2
            share = min(1.0, of_mean / one.std_error**2)
            kept = 1.0 - share * (1.0 - later / of_mean) if of_mean > 0 else 1.0
            one = replace(one, noise_share=share, shorter=1.0 - math.sqrt(kept))
        found.append(one)
    p = np.array([one.p for one in found])
    alpha = ALPHA / max(1, int((~np.isnan(p)).sum()))
    return [
        one
        if math.isnan(one.p)
        else _with_interval(
            replace(one, p_adjusted=adjusted), responses.reach, alpha, is_robust=is_robust
        )
        for one, adjusted in zip(found, holm(p).tolist(), strict=True)
    ]


def sums_by_prompt(
    values: FloatArray, system: IntArray, prompt: IntArray, systems: int
) -> FloatArray:
    """Return the sum of the values of each system's responses to each prompt, shape (systems, prompts)."""
    count = int(prompt.max(initial=-1)) + 1
    found = np.bincount(system * count + prompt, values, systems * count)
    return found.reshape(systems, count).astype(np.float64)


def scores_by_prompt(responses: Responses, systems: int) -> FloatArray:
    """Return the mean score of each system at each prompt, shape (systems, prompts); nan without a response."""
    cells = responses.system, responses.prompt, systems
    size = sums_by_prompt(np.ones(len(responses.score)), *cells)
    with np.errstate(invalid="ignore"):
        return sums_by_prompt(responses.score, *cells) / size


def paired_p(values: FloatArray, reach: float, *, is_robust: bool = False) -> float:
    """Return the two-sided p of the paired t test; if the interval is widened, no less than that of the bounds.

    ``values``: a difference for each prompt, shape (G,), from −``reach`` to ``reach``.
    """
    from scipy.special import stdtr

    clusters, by_t = clusters_of(values), 0.0
    if not (are_alike := clusters.are_alike(2.0 * reach)):
        t = clusters.mean / math.sqrt(clusters.variance)
        by_t = float(2.0 * stdtr(len(values) - 1, -abs(t)))
    if math.isinf(reach) or not (is_robust or few_carry(clusters, -reach, reach)):
        return 1.0 if are_alike else by_t
    return max(by_t, probability_beyond(coarse(clusters, -reach, reach), -reach, reach, at=0.0))


def holm(p: FloatArray) -> FloatArray:
    """Apply Holm's correction ("A simple sequentially rejective multiple test procedure", 1979) along the last axis.

    nan stays, uncounted.
    """
    order = np.argsort(p)  # nan comes last
    known = (~np.isnan(p)).sum(axis=-1, keepdims=True)
    scaled = (known - np.arange(p.shape[-1])) * np.take_along_axis(p, order, axis=-1)
    adjusted = np.empty_like(p)
    np.put_along_axis(
        adjusted, order, np.maximum.accumulate(np.minimum(1.0, scaled), axis=-1), axis=-1
    )
    return adjusted


def _with_interval(
    difference: Difference, reach: float, alpha: float, *, is_robust: bool
) -> Difference:
    """Return ``difference`` with its interval, and with what would settle it."""
    clusters = clusters_of(difference.by_prompt)
    ends = bounds_over_prompts(clusters, -reach, reach, alpha=alpha, is_robust=is_robust)
    low, high = (end if math.isfinite(end) else math.nan for end in ends)
    is_widened = math.isfinite(reach) and few_carry(clusters, -reach, reach)
    difference = replace(difference, ci_low=low, ci_high=high, is_widened=is_widened)
    if difference.is_settled:
        return difference
    needed = partial(prompts_needed, low=-reach, high=reach, alpha=alpha, is_robust=is_robust)
    times = math.inf
    if difference.noise_share > _MOSTLY and difference.shorter > 0:
        times = times_needed(difference.by_prompt, difference.noise_share, needed)
    return replace(difference, prompts_needed=needed(difference.by_prompt), times_needed=times)


def prompts_for(difference: float, variance: float, *, alpha: float) -> float:
    """Return the prompts that show a difference, 4 times in 5; whole, at least 2; inf for none.

    ``difference``: the true one, of either sign. ``variance``: that of the paired differences over prompts, with the judge's
    noise. ``alpha``: probability to find a difference, either way, if there is none.
    """
    from scipy.special import stdtrit

    if difference == 0:
        return math.inf

    def is_shown(prompts: int) -> bool:
        freedom = prompts - 1.0
        quantiles = float(stdtrit(freedom, 1.0 - 0.5 * alpha) + stdtrit(freedom, _POWER))
        return quantiles * math.sqrt(variance / prompts) <= abs(difference)

    return float(_FEWEST + bisect_left(range(_FEWEST, sys.maxsize), True, key=is_shown))  # noqa: FBT003


def times_needed(values: FloatArray, share: float, needed: Callable[[FloatArray], float]) -> float:
    """Return the least times as many calls that would settle on which side of 0 the mean of ``values`` is; inf for none.

    It is not settled yet. So if values like these settle it by chance alone, calls cannot help, and prompts can.

    With f times the calls the variance is 1 − ρ (1 − 1/f) of what it is, ρ being the ``share`` of noise in it. ``needed``
    returns the :func:`prompts_needed` of such values.
    """
    mean = float(values.mean())

    def settled(times: float) -> bool:
        kept = math.sqrt(1.0 - share * (1.0 - 1.0 / times))
        return needed(mean + kept * (values - mean)) <= len(values) + 1.0

    return math.inf if settled(1.0) else least_times(settled, _MOST_CALLS) or math.inf


def prompts_needed(
    values: FloatArray, low: float, high: float, alpha: float, *, is_robust: bool = False
) -> float:
    """Return the prompts in all that would settle, 4 times in 5, on which side of 0 the mean of values like these is.

    More than there are; nan for none, or for too many. ``values``: a value of each prompt between ``low`` and ``high``.
    """
    count, mean, variance = len(values), float(values.mean()), float(values.var(ddof=1))
    if math.isinf(high) and variance <= _ALIKE:  # alike, and nothing says how others may differ
        return math.nan
    needed = prompts_for(mean, variance, alpha=alpha)
    if needed < MOST_TIMES * count and high < math.inf:
        ends = (low, high) if mean > 0 else (-high, -low)
        wide = _needed_by_bounds(values * np.sign(mean), *ends, alpha, is_robust=is_robust)
        needed = max(needed, wide)
    return max(needed, count + 1.0) if needed <= _MOST_PROMPTS else math.nan


def _needed_by_bounds(
    values: FloatArray, low: float, high: float, alpha: float, *, is_robust: bool
) -> float:
    """Return the prompts like these that a widened interval needs, if their mean is _LESS errors less, as in 1 of 5."""
    clusters = coarse(clusters_of(values), low, high, _FEW_KINDS)
    std_error = float(values.std(ddof=1)) / math.sqrt(len(values))
    off = clusters.totals - clusters.mean
    variance = max(float(off**2 @ clusters.times) / clusters.prompts, _ALIKE)

    def settled(times: float) -> bool:
        less = _LESS * std_error / math.sqrt(times)
        tilted = np.maximum(1.0 - less * off / variance, 0.0)  # fewer of the prompts above the mean
        usual = replace(clusters, times=clusters.times * times)
        then = replace(usual, times=usual.times * tilted)
        # Each carries less of more. The interval is narrow if it is so of what comes, by chance or not.
        is_wide = is_robust or few_carry(usual, low, high) or few_carry(then, low, high)
        return not is_wide or is_above(then, 0.0, low, alpha=alpha / 2)

    times = least_times(settled)
    return math.inf if times is None else float(math.ceil(times * len(values)))
