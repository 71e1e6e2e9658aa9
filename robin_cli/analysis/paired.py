"""Is one system better than another: differences of their mean scores, paired by prompt.

Every prompt is answered by both; a prompt's difference is that of the means of its responses' scores. What is drawn is
prompts, so the interval is Student's t over them: it holds for prompts like these, and has in it how prompts differ, how the
responses to one differ, and the judge's noise. The scores' own standard errors know nothing of other prompts: intervals of 95 %
from them alone hold the truth in 16 % of cases (benchmarks/differences.py).

Where all prompts differ alike t would have no width; the interval is then that of bounded values (``clustered.py``).

Who looks at t again and again, and stops when it leaves 0 out, finds a difference where there is none in a third of cases. For
them there is the asymptotic confidence sequence, which holds at all times at once (Waudby-Smith, Arbour, Sinha, Kennedy and
Ramdas, "Time-uniform central limit theory and asymptotic confidence sequences", Annals of Statistics 52, 2024, theorem 2.2):
    x̄ ± s √( 2 (G ρ² + 1) / (G² ρ²) · ln(√(G ρ² + 1) / α) ),
with ρ such that it is narrowest at TUNED_FOR prompts: ρ² = (−2 ln α + ln(1 − 2 ln α)) / TUNED_FOR.

How many prompts show a difference: that of one prompt varies over prompts (``variance_between``) and by what the judge would
say another time (``noise``, which falls with more calls a response). A true difference D shows, at α on both sides and with
this power, where
    (t_{G−1, 1−α/2} + t_{G−1, power}) · √((variance_between + noise) / G) ≤ |D|,
as in any text on sample sizes, with t for z: within a prompt or two of what the power of the noncentral t asks for.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from robin_cli.analysis.clustered import clusters_of, mean_bounds, probability_beyond, student_factor
from robin_cli.analysis.intervals import ALPHA
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.systems import FEWEST_PROMPTS

FEWEST = 2
"""Prompts that a standard error takes."""


def prompts_for(
    difference: float, variance_between: float, noise: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """How many prompts a difference needs to be shown; whole, at least 2; inf for none, nan where a variance is.

    Args:
        difference: the true one, of either sign.
        variance_between: that of the true paired differences over prompts.
        noise: the judge's noise variance of one prompt's difference.
        alpha: chance to see a difference, either way, where there is none.
        power: chance to see this one.
    """
    variance = variance_between + noise
    if math.isnan(difference) or math.isnan(variance):
        return math.nan
    if difference == 0 or math.isinf(variance):
        return math.inf

    def is_shown(prompts: int) -> bool:
        return difference_shown(prompts, variance_between, noise, alpha=alpha, power=power) <= abs(difference)

    return float(FEWEST + bisect_left(range(FEWEST, sys.maxsize), True, key=is_shown))  # noqa: FBT003


def difference_shown(
    prompts: float, variance_between: float, noise: float, *, alpha: float = 0.05, power: float = 0.8
) -> float:
    """The smallest difference that so many prompts would show, as :func:`prompts_for`; inf below 2."""
    if prompts < FEWEST:
        return math.inf
    from scipy.special import stdtrit

    freedom = prompts - 1.0
    quantiles = float(stdtrit(freedom, 1.0 - 0.5 * alpha) + stdtrit(freedom, power))
    return quantiles * math.sqrt((variance_between + noise) / prompts)


def variance_range(prompts: float) -> tuple[float, float]:
    """What a variance may be, with 95 %, over the one that so many prompts showed: (G − 1) / χ², for normal differences."""
    from scipy.special import chdtri

    freedom = prompts - 1.0
    return tuple(freedom / float(chdtri(freedom, tail)) for tail in (0.025, 0.975))  # type: ignore[return-value]


MORE_CALLS = 5
"""Calls more a response whose effect on the interval is told."""

TUNED_FOR = 100
"""Prompts at which the confidence sequence is narrowest; 1.55 times as wide as t there, 1.7 times at 20 and at 1,000."""

_MOST_PROMPTS = 1e9
"""Prompts that are named at most: a difference that wants more is none."""

_FEWEST_REPEATS = 30
"""Ratings beyond each response's first, for the judge's noise to be told."""


@dataclass(frozen=True, slots=True)
class Responses:
    """The scores of one attribute, of K responses; those without a score are left out.

    Attributes:
        score: shape (K,).
        noise: the error variance of each score, shape (K,).
        ratings: how many the score is made of, of each judge, shape (K,).
        prompt: which prompt it answers, any numbers from 0 on, shape (K,).
        system: whose it is, from 0 on, shape (K,).
        low, high: the ends of the scale.
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

    ``score``: the mean over the prompt's responses. ``noise``: the error variance of that; ``then``: what it were with
    MORE_CALLS more a response.
    """

    prompt: IntArray
    score: FloatArray
    noise: FloatArray
    then: FloatArray

    def at(self, prompts: IntArray) -> ByPrompt:
        """These prompts of it, all of which it has."""
        rows = np.searchsorted(self.prompt, prompts)
        return ByPrompt(prompts, *(each[rows] for each in (self.score, self.noise, self.then)))


@dataclass(frozen=True, slots=True)
class Difference:
    """What is known of a − b, in points.

    Attributes:
        a, b: the systems, by number.
        n_prompts: that both answered.
        mean_a, mean_b: over these prompts, each with the same weight.
        difference: mean_a − mean_b.
        std_error: that of the difference over prompts.
        ci_low, ci_high: 1 − α interval for prompts like these, of this difference by itself; nan below FEWEST_PROMPTS.
        p: of no difference, two-sided; by the confidence sequence, at whatever time one looks.
        p_adjusted: the same for all differences that were looked at together (Holm).
        noise_share: how much of ``std_error`` squared is the judge's noise, 0 to 1; nan where repeated ratings are too few to
            tell.
        shorter: by what share MORE_CALLS more a response would shorten the interval, at most; nan as ``noise_share``.
        prompts_needed: prompts in all that would settle it in four cases of five, were the difference as large as it looks;
            those that there are, where it is settled; nan where no number would.
        by_prompt: the differences, shape (n_prompts,).
        noise_by_prompt: the judge's error variance of each, shape (n_prompts,).
        prompts: whose they are, by number.
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

    @property
    def is_settled(self) -> bool:
        """Whether one is better beyond what chance makes, all differences looked at together."""
        return self.p_adjusted < ALPHA


def differences(responses: Responses, systems: int, *, anytime: bool = False) -> list[Difference]:
    """The difference of every two of ``systems``, the earlier minus the later, with Holm's correction over all of them.

    Args:
        anytime: intervals and p that hold however often one looks while prompts come in.
    """
    each = [by_prompt(responses, system) for system in range(systems)]
    reach = responses.high - responses.low
    # One repeat says of all responses how the judge varies: their variances are drawn together.
    knows_noise = float(np.maximum(responses.ratings - 1.0, 0.0).sum()) >= _FEWEST_REPEATS
    found = [
        difference(a, b, each[a], each[b], reach=reach, knows_noise=knows_noise, anytime=anytime)
        for a, b in combinations(range(systems), 2)
    ]
    adjusted = holm([one.p for one in found])
    alpha = ALPHA / max(1, len(found))
    return [
        _with_needed(replace(one, p_adjusted=p), alpha, anytime=anytime) for one, p in zip(found, adjusted, strict=True)
    ]


def by_prompt(responses: Responses, system: int) -> ByPrompt:
    """The prompts that ``system`` answered."""
    mine = np.flatnonzero(responses.system == system)
    prompts, which = np.unique(responses.prompt[mine], return_inverse=True)
    size = np.bincount(which, minlength=len(prompts)).astype(np.float64)
    ratings, noise = responses.ratings[mine], responses.noise[mine]
    score, now, then = (
        np.bincount(which, values, len(prompts)).astype(np.float64)
        for values in (
            responses.score[mine],
            noise,
            noise * ratings / (ratings + MORE_CALLS),
        )
    )
    return ByPrompt(prompts, score / size, now / size**2, then / size**2)


def difference(
    a: int, b: int, of_a: ByPrompt, of_b: ByPrompt, *, reach: float, knows_noise: bool, anytime: bool = False
) -> Difference:
    """The difference of two systems over the prompts that both answered.

    Args:
        reach: the largest that there can be.
        knows_noise: whether ratings enough are repeated for the judge's noise to be told.
        anytime: as for :func:`differences`.
    """
    prompts = np.intersect1d(of_a.prompt, of_b.prompt, assume_unique=True)
    first, second = of_a.at(prompts), of_b.at(prompts)
    each, noises = first.score - second.score, first.noise + second.noise
    count = len(prompts)
    mean_a, mean_b, mean = (float(x.mean()) if count else math.nan for x in (first.score, second.score, each))
    found = Difference(a, b, count, mean_a, mean_b, mean, each, noises, prompts)
    if count < FEWEST_PROMPTS:
        return found
    variance = float(each.var(ddof=1)) / count
    noise, then = (float(each_prompt.sum()) / count**2 for each_prompt in (noises, first.then + second.then))
    share = shorter = math.nan
    if variance <= _ALIKE * reach**2:
        low, high, p = _bounds_of_alike(each, reach, anytime=anytime)
    else:
        half = math.sqrt(variance) * (anytime_factor if anytime else student_factor)(count, ALPHA)
        low, high = max(found.difference - half, -reach), min(found.difference + half, reach)
        p = (anytime_p if anytime else student_p)(found.difference / math.sqrt(variance), count)
        if knows_noise:
            share = min(1.0, noise / variance)
            shorter = 1.0 - math.sqrt(1.0 - share * (1.0 - then / noise)) if noise > 0 else 0.0
    return replace(
        found,
        std_error=math.sqrt(variance),
        ci_low=low,
        ci_high=high,
        p=p,
        p_adjusted=p,
        noise_share=share,
        shorter=shorter,
    )


def _bounds_of_alike(each: FloatArray, reach: float, *, anytime: bool) -> tuple[float, float, float]:
    """The interval and p of differences that are all alike, as of bounded values; ``anytime`` by the tails of the normal."""
    from scipy.special import ndtri

    count, clusters = len(each), clusters_of(each, np.arange(len(each)))
    alpha = math.erfc(anytime_factor(count, ALPHA) / math.sqrt(2.0)) if anytime else ALPHA
    p = probability_beyond(clusters, -reach, reach, at=0.0)
    return *mean_bounds(clusters, -reach, reach, alpha=alpha), anytime_p(
        -float(ndtri(0.5 * p)), count
    ) if anytime else p


_ALIKE = 1e-18
"""A variance over the square of the widest difference that is nothing but rounding."""


def student_p(t: float, count: int) -> float:
    """Both tails of Student's t beyond ``t``, with ``count`` − 1 degrees of freedom."""
    from scipy.special import stdtr

    return float(2.0 * stdtr(count - 1, -abs(t)))


def anytime_factor(count: int, alpha: float) -> float:
    """The same of the confidence sequence, see the top of this file; G = ``count``."""
    mass = count * _rho_squared()
    return math.sqrt(2.0 * (mass + 1.0) / mass * math.log(math.sqrt(mass + 1.0) / alpha))


def anytime_p(z: float, count: int) -> float:
    """The smallest α at which the confidence sequence leaves 0 out, ``z`` standard errors away; 1 at most."""
    mass = count * _rho_squared()
    return min(1.0, math.sqrt(mass + 1.0) * math.exp(-0.5 * z * z * mass / (mass + 1.0)))


def _rho_squared() -> float:
    twice = -2.0 * math.log(ALPHA)
    return (twice + math.log(1.0 + twice)) / TUNED_FOR


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction ("A simple sequentially rejective multiple test procedure", 1979); nan stays, uncounted."""
    found: list[float] = holm_by_row(np.array([p], dtype=np.float64))[0].tolist()
    return found


def holm_by_row(p: FloatArray) -> FloatArray:
    """The same of each row by itself, shape (rows, tests)."""
    order = np.argsort(p, axis=1)  # nan comes last
    known = (~np.isnan(p)).sum(axis=1, keepdims=True)
    each = np.minimum(1.0, (known - np.arange(p.shape[1])) * np.take_along_axis(p, order, axis=1))
    adjusted = np.empty_like(p)
    np.put_along_axis(adjusted, order, np.maximum.accumulate(each, axis=1), axis=1)
    return adjusted


def _with_needed(one: Difference, alpha: float, *, anytime: bool) -> Difference:
    if math.isnan(one.p):
        return one
    if one.is_settled:
        return replace(one, prompts_needed=float(one.n_prompts))
    variance = one.std_error**2 * one.n_prompts
    wider = anytime_factor(TUNED_FOR, ALPHA) / student_factor(TUNED_FOR, ALPHA) if anytime else 1.0
    needed = prompts_for(one.difference / wider, variance, 0.0, alpha=alpha)
    return replace(one, prompts_needed=max(needed, one.n_prompts + 1.0) if needed <= _MOST_PROMPTS else math.nan)


@dataclass(frozen=True, slots=True)
class PairedSpread:
    """How the difference of two systems varies over the prompts that both answered, in squared units.

    Attributes:
        prompts: that it is known from.
        difference: their mean difference.
        total: the sample variance of the differences, as they were rated.
        noise_then: what of it was the judge's noise; nan where too little was asked twice.
        noise: the judge's noise with one call of each judge for each response; nan likewise.
    """

    attribute: str
    a: str
    b: str
    prompts: int
    difference: float
    total: float
    noise_then: float
    noise: float

    @property
    def between(self) -> float:
        """The variance of the true differences, at least 0; where the noise is not known, with it."""
        return self.total if math.isnan(self.noise) else max(0.0, self.total - self.noise_then)

    def noise_at(self, calls: float) -> float:
        """The judge's noise at so many calls of each judge for each response; nan where there is no telling."""
        if math.isnan(self.noise):
            return 0.0 if calls == 1 else math.nan
        return self.noise / calls


def paired_spreads(
    attribute: str, systems: Sequence[str], responses: Responses, *, unit: float = 1.0
) -> list[PairedSpread]:
    """The spread of every two of ``systems`` that share prompts enough; differences are in ``unit`` points."""
    # The error variance of a mean of n ratings is n times smaller than that of one.
    at_one_call = replace(responses, noise=responses.noise * responses.ratings)
    as_rated, once = (differences(each, len(systems)) for each in (responses, at_one_call))
    spreads = []
    for now, then in zip(as_rated, once, strict=True):
        if now.n_prompts < FEWEST_PROMPTS:
            continue
        is_known = not math.isnan(now.noise_share)
        noises = (float(each.noise_by_prompt.mean()) / unit**2 if is_known else math.nan for each in (now, then))
        total = float(now.by_prompt.var(ddof=1)) / unit**2
        a, b = systems[now.a], systems[now.b]
        spreads.append(PairedSpread(attribute, a, b, now.n_prompts, now.difference / unit, total, *noises))
    return spreads
