"""Agreement of scores with human ratings, and with themselves: coefficients, each with an interval over prompts.

Responses to one prompt are alike, so prompts are resampled, each with all its pairs (a cluster bootstrap: Davison and Hinkley,
"Bootstrap methods and their application", 1997, section 3.8). benchmarks/agreement.py measures the coverage.

A judge that ranks well may still be a point too kind: :func:`calibration` has the human ratings of the pairs of each score, of
long scales in bins, and of preferences by quarters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Ends, Scale, number_of
from robin_cli.stats.clustered import clusters_of, student_bounds, student_factor
from robin_cli.stats.intervals import ALPHA
from robin_cli.stats.moderated import WEIGHT

CORRELATIONS = ("pearson", "spearman", "kendall")
ROUNDED = ("kappa", "alpha_ordinal")
"""Coefficients of values that are rounded to levels."""
COEFFICIENTS = ("alpha", *CORRELATIONS, *ROUNDED)
OF_PREFERENCES = (*COEFFICIENTS, "same")
AMONG = ("alpha", "alpha_ordinal")
FEWEST_VALUED = 3
"""Prompts that a coefficient needs: two pairs always correlate with 1 or −1."""
MOST_HALVES = 0.1
"""The largest share of pairs whose level rounding decides."""
FEWEST_PROMPTS = 20
"""Prompts that an interval needs. At 20, with four responses each, 95 % intervals hold the truth in 87 to 97 % of cases
(simulated, benchmarks/agreement.py); with fewer, coverage is too low."""
MOST_RESAMPLED = 20_000
"""The most prompts that are resampled: with a million a status took a minute and gigabytes."""

_ROUNDING = 1e-9
"""Rounding may put a mean of a half just below it."""
_FEW = 200

Statistic = Callable[..., tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient between scores and human ratings, among people or judges, or of the scores alone.

    Attributes:
        coefficient: alpha (Krippendorff's α, interval), pearson (r), spearman (ρ), kendall (τ_b), kappa (Cohen's κ,
            quadratic weights) or alpha_ordinal (Krippendorff's α, ordinal), the last two of values rounded to levels.
            Preferences have the levels B, neither and A, and ``same`` is the share of comparisons with the same level.
            :func:`reliability` has others.
        value: at most 1; nan if it is undefined.
        ci_low, ci_high: 95 % bootstrap over prompts (expanded percentiles); nan if there is none.
        n, n_prompts: pairs with a score and a human rating, and their prompts.
        why: the reason that there is no value, or no interval; '' with both.
        rounding: how values become levels; '' if they do not.
    """

    coefficient: str
    value: float
    ci_low: float
    ci_high: float
    n: int
    n_prompts: int
    resamples: int
    why: str = ""
    rounding: str = ""


def off_scale(human: FloatArray, scale: Scale | Ends) -> str:
    """Return in words which human ratings, nan for absent, are off ``scale``; '' if all are on it."""
    known = human[~np.isnan(human)]
    scale = scale.ends if isinstance(scale, Scale) else scale
    off = (known < scale.low) | (known > scale.high)
    if not off.any():
        return ""
    ends = f"{known.min():g} to {known.max():g}"
    return f"{off.sum():,} of {len(known):,} human ratings are off the scale {scale} (they go from {ends})"


def refusal(prompt: IntArray, sides: Mapping[str, FloatArray], fewest: int = FEWEST_PROMPTS) -> str:
    """Return why pairs of these prompts give no coefficient, in words; '' if they do. ``sides``: values by singular noun."""
    if (prompts := len(np.unique(prompt))) < fewest:
        return f"{fewest} prompts with a {' and a '.join(sides)} are needed; this run has {prompts}"
    return next((f"all {side}s are alike" for side in sides if np.ptp(sides[side]) == 0), "")


def agreement(
    scores: FloatArray,
    human: FloatArray,
    prompt: IntArray,
    scale: Scale,
    *,
    of_two: bool = False,
    rounds: bool = False,
    resamples: int | None = None,
) -> list[Agreement]:
    """Return all COEFFICIENTS between ``scores`` and ``human``, shape (K,) each, nan for absent; or all OF_PREFERENCES.

    The intervals show how a coefficient varies over other prompts like these, with equally noisy scores.

    Args:
        prompt: number of each pair's prompt, shape (K,).
        scale: the scale of the scores; human ratings off it are refused.
        of_two: whether both are preferences for the first of two responses, 0 to 1.
        rounds: whether κ and ordinal α are stated however many values are halves.
        resamples: None for :func:`resamples_for`.
    """
    values = np.stack([scores, human], axis=1)
    both = ~np.isnan(values).any(axis=1)
    values, prompt = values[both], prompt[both]
    sides = dict(zip(("score", "human rating"), values.T, strict=True))
    why = off_scale(human, scale) or refusal(prompt, sides, FEWEST_VALUED)
    names = OF_PREFERENCES if of_two else COEFFICIENTS
    bootstrap = partial(_estimated, resamples=resamples)
    return _of_levels(
        names, _coefficients, values, prompt, why, bootstrap, of_two=of_two, rounds=rounds
    )


def among(
    values: FloatArray,
    prompt: IntArray,
    *,
    of_two: bool = False,
    rounds: bool = False,
    resamples: int | None = None,
) -> list[Agreement]:
    """Return AMONG several people or judges, over the pairs that at least two of them rated.

    ``values``: shape (K, raters), nan for none; the others are as for :func:`agreement`.
    """
    several = (~np.isnan(values)).sum(axis=1) >= 2
    values, prompt = values[several], prompt[several]
    why = refusal(prompt, {"shared rating": values[~np.isnan(values)]}, FEWEST_VALUED)
    bootstrap = partial(_estimated, resamples=resamples)
    return _of_levels(AMONG, _alphas, values, prompt, why, bootstrap, of_two=of_two, rounds=rounds)


def _of_levels(
    names: Sequence[str],
    statistic: Statistic,
    values: FloatArray,
    prompt: IntArray,
    why: str,
    bootstrap: Callable[..., list[Agreement]],
    *,
    of_two: bool,
    rounds: bool,
) -> list[Agreement]:
    """Return the coefficients of values and of their levels; none of ROUNDED if rounding decides too many pairs."""
    if why:
        return _refused(names, why, prompt)
    columns = values, (sides_of if of_two else levels_of)(values)
    found = bootstrap(names, statistic, columns, prompt)
    if of_two:
        return found
    halves = (np.abs(values - np.floor(values) - 0.5) < _ROUNDING).any(axis=1).mean()
    for place, one in enumerate(found):
        if one.coefficient not in ROUNDED:
            continue
        if halves > MOST_HALVES and not rounds:
            why = f"{100 * halves:.0f} % of the pairs have a value halfway between two levels"
            why = f"{why}; --what agreement --round rounds up"
            one = replace(one, value=np.nan, ci_low=np.nan, ci_high=np.nan)  # noqa: PLW2901
        else:
            why = "all values round to one level" if np.isnan(one.value) else one.why
        found[place] = replace(one, why=why, rounding="half up")
    return found


def _refused(names: Sequence[str], why: str, prompt: IntArray) -> list[Agreement]:
    n, prompts = len(prompt), len(np.unique(prompt))
    return [Agreement(name, np.nan, np.nan, np.nan, n, prompts, 0, why) for name in names]


def _alphas(values: FloatArray, levels: FloatArray) -> tuple[float, ...]:
    return krippendorff(values), krippendorff_ordinal(levels)


def _coefficients(values: FloatArray, levels: FloatArray) -> tuple[float, ...]:
    """Return OF_PREFERENCES of scores and human ratings, shape (K, 2), and of their levels; nan if undefined."""
    x, y = levels.T
    rounded = _kappa(x, y), krippendorff_ordinal(levels)
    return krippendorff(values), *_correlations(*values.T), *rounded, float((x == y).mean())


def correlations(x: FloatArray, y: FloatArray) -> tuple[float, ...]:
    """Return the values of CORRELATIONS; nan for absent in ``x`` and ``y``, and below FEWEST_PROMPTS pairs with both."""
    both = ~(np.isnan(x) | np.isnan(y))
    if both.sum() < FEWEST_PROMPTS:
        return (np.nan,) * len(CORRELATIONS)
    return _correlations(x[both], y[both])


def levels_of(values: FloatArray) -> FloatArray:
    """Return the nearest level of a scale to each of ``values``; halves go up."""
    return np.asarray(np.floor(values + 0.5 + _ROUNDING))


def sides_of(preferences: FloatArray) -> FloatArray:
    """Return the preferred response: 2 for A, 0 for B, 1 for neither; unlike rounding, it is symmetric in A and B."""
    return np.asarray(np.sign(np.round(preferences - 0.5, 9)) + 1.0)


def _estimated(
    names: Sequence[str],
    statistic: Statistic,
    columns: Sequence[FloatArray | IntArray],
    prompt: IntArray,
    *,
    known_by: int | None = None,
    resamples: int | None = None,
) -> list[Agreement]:
    """Return a value of ``statistic`` for each of ``names``, computed from ``columns``, with an interval over prompts.

    With more than MOST_RESAMPLED prompts, a random sample of as many is resampled, and the interval is shortened by
    √(MOST_RESAMPLED / prompts), as a standard error goes with 1/√P. Below FEWEST_PROMPTS there is no interval.

    Args:
        columns: of K pairs, shape (K, …) each; the arguments of ``statistic``.
        known_by: number of prompts that show how the statistic varies, if it is fewer than all.
    """
    from scipy.special import ndtr

    n, prompts = len(prompt), len(np.unique(prompt))
    values, rng = statistic(*columns), np.random.default_rng(0)
    known, few = prompts if known_by is None else known_by, ""
    if known < FEWEST_PROMPTS:
        twice = " with a pair that was asked twice" if known < prompts else ""
        few = f"no interval below {FEWEST_PROMPTS} prompts{twice}; this run has {known}"
        resamples = 0
    middle, shortened = values, 1.0
    if prompts > MOST_RESAMPLED:
        chosen = rng.choice(np.unique(prompt), MOST_RESAMPLED, replace=False)
        some = np.flatnonzero(np.isin(prompt, chosen))
        columns, prompt = [column[some] for column in columns], prompt[some]
        middle, shortened = statistic(*columns), float(np.sqrt(MOST_RESAMPLED / prompts))
    count = resamples_for(len(prompt)) if resamples is None else resamples
    drawn = np.array(
        [statistic(*(column[rows] for column in columns)) for rows in resampled(prompt, count, rng)]
    )
    # Plain percentiles are too narrow with few prompts, like z in place of t: the expanded percentile interval (Hesterberg,
    # "What teachers should know about the bootstrap", Am. Stat. 69, 2015) ends at Φ(−√(P/(P − 1)) t), t of P − 1 degrees.
    widened, found = max(2, known), list[Agreement]()
    tail = float(ndtr(-np.sqrt(widened / (widened - 1)) * student_factor(widened, ALPHA)))
    for place, name in enumerate(names):
        value, low, high, why = float(values[place]), np.nan, np.nan, few
        sample = drawn[:, place] if count else drawn
        sample = sample[~np.isnan(sample)]
        if len(sample) > count / 2:
            low, high = np.quantile(sample, [tail, 1.0 - tail])
            if shortened < 1.0:
                low, high = (value + shortened * (end - middle[place]) for end in (low, high))
        else:
            why = few or "too many of the resamples are of pairs that are all alike"
        found.append(Agreement(name, value, float(low), float(high), n, prompts, count, why))
    return found


def resamples_for(pairs: int) -> int:
    """Return 1,000, or fewer with more than 5,000 pairs, as each takes time: 100 from 50,000 on."""
    return max(100, min(1000, 5_000_000 // pairs))


def resampled(prompt: IntArray, count: int, rng: np.random.Generator) -> Iterator[IntArray]:
    """Yield the rows of ``count`` resamples: each draws as many prompts as there are, with replacement, and all their rows."""
    sizes = np.unique(prompt, return_counts=True)[1]
    rows, starts = np.argsort(prompt, kind="stable"), np.cumsum(sizes) - sizes
    for _ in range(count):
        drawn = rng.integers(len(sizes), size=len(sizes))
        ends = np.cumsum(sizes[drawn])
        offsets = np.repeat(starts[drawn] + sizes[drawn] - ends, sizes[drawn])
        yield rows[offsets + np.arange(ends[-1])]


def _correlations(x: FloatArray, y: FloatArray) -> tuple[float, ...]:
    if np.ptp(x) == 0 or np.ptp(y) == 0:  # no correlation is defined
        return (np.nan,) * len(CORRELATIONS)
    pearson = float(np.corrcoef(x, y)[0, 1])
    spearman = float(np.corrcoef(_ranks(x), _ranks(y))[0, 1])
    return pearson, spearman, _kendall(x, y)


def _ranks(values: FloatArray) -> FloatArray:
    """Return the rank of each of ``values``; equal ones share the mean of theirs."""
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - 0.5 * (counts - 1))[place])


def _kendall(x: FloatArray, y: FloatArray) -> float:
    """Return τ_b, neither side being constant; of few pairs by every two of them, as scipy takes a millisecond a call."""
    if len(x) > _FEW:
        from scipy import stats

        return float(stats.kendalltau(x, y).statistic)
    of_x, of_y = np.sign(x[:, None] - x), np.sign(y[:, None] - y)
    untied = np.count_nonzero(of_x) * np.count_nonzero(of_y)
    return float((of_x * of_y).sum() / np.sqrt(untied))


def _kappa(a: FloatArray, b: FloatArray) -> float:
    """Return Cohen's κ with quadratic weights ("Weighted kappa", Psychol. Bull. 70, 1968), nan if all are of one level.

    κ = 1 − Σ (a_i − b_i)² / (Σ_i Σ_j (a_i − b_j)² / n), and the double sum is n² (Var a + Var b + (ā − b̄)²).
    """
    by_chance = a.var() + b.var() + (a.mean() - b.mean()) ** 2
    return float(1.0 - ((a - b) ** 2).mean() / by_chance) if by_chance else np.nan


def krippendorff(labels: FloatArray) -> float:
    """Return Krippendorff's α of the interval metric, of two or more people with gaps; nan if all labels are equal.

    1 − D_o/D_e: D_o is the mean squared difference within a unit, its pairs of values with the weight 1/(m − 1), and D_e that
    of any two values ("Computing Krippendorff's alpha-reliability", 2011). ``labels``: a row a unit, a column a person.
    """
    m = (~np.isnan(labels)).sum(axis=1)
    values = labels[m >= 2]
    values = values - np.nanmin(values, initial=np.inf)  # exact zeros if all are equal
    m, sums, squares = m[m >= 2], np.nansum(values, axis=1), np.nansum(values**2, axis=1)
    n = int(m.sum())
    within = (2.0 * (m * squares - sums**2) / (m - 1.0)).sum() / n
    between = 2.0 * (n * squares.sum() - sums.sum() ** 2) / (n * (n - 1.0))
    return float(1.0 - within / between) if between > 0 else np.nan


def krippendorff_ordinal(levels: FloatArray) -> float:
    """Return Krippendorff's α of the ordinal metric, as :func:`krippendorff`; ``levels``: whole numbers.

    His distance Σ_{g=c..k} n_g − (n_c + n_k)/2 is the difference between the mid-ranks of the levels c and k among all values
    of units with several. So it is the α of the interval metric of these ranks.
    """
    is_known = ~np.isnan(levels)
    is_known &= (is_known.sum(axis=1) >= 2)[:, None]
    ranks = np.full(levels.shape, np.nan)
    ranks[is_known] = _ranks(levels[is_known])
    return krippendorff(ranks)


SELF = ("reliability", "ceiling", "icc")
FEWEST_FURTHER = 30
"""Repeated ratings of pairs that each judge's noise needs: with 20 of 400 pairs asked twice, 95 % intervals hold the truth in
as little as 78 % of cases, with 30 in 82 to 94 % (simulated)."""


def reliability(
    scores: FloatArray,
    n: IntArray,
    variances: FloatArray,
    prompt: IntArray,
    *,
    resamples: int | None = None,
) -> list[Agreement]:
    """Return the reliability of ``scores``, shape (K,), nan for absent, the highest correlation it allows, and the judge's ICC.

    With s² the variance of the scores over pairs, e the mean of their error variances, and b = max(0, s² − e):

    - reliability: b / s², the expected correlation between these scores and those of as many new calls (ICC(1, k) if all have
      k ratings: Shrout and Fleiss, "Intraclass correlations", Psychol. Bull. 86, 1979);
    - ceiling: √(b / s²), the highest correlation with a human who never errs (attenuation: Spearman, Am. J. Psychol. 15, 1904);
    - icc: b / (b + v), v being the mean variance within pairs: the reliability of a single rating (ICC(1)). A panel has none.

    Variances within pairs are moderated as by :mod:`robin_cli.stats.moderated`, anew in each resample, because ratings may
    decide where the next calls go. The intervals are as wide as for the prompts with a pair that was asked twice.

    Args:
        n, variances: number of ratings and their variance (1/(n − 1), nan below two) by pair and judge, shape (K, J). The
            scores are the means of the judges' mean ratings.
        prompt, resamples: as for ``agreement``.
    """
    rated = ~np.isnan(scores)
    scores, n, variances, prompt = scores[rated], n[rated], variances[rated], prompt[rated]
    names = SELF if n.shape[1] == 1 else SELF[:2]
    if why := refusal(prompt, {"score": scores}, FEWEST_VALUED) or _unknown_noise(n):
        return _refused(names, why, prompt)
    variances = np.where(n > 1, variances, 0.0)
    known_by = min(len(np.unique(prompt[of_judge > 1])) for of_judge in n.T)
    columns = (scores, n, variances)
    found = _estimated(names, _reliability, columns, prompt, known_by=known_by, resamples=resamples)
    if not variances.any():
        why = "no two ratings of a pair differ, so their noise is unknown"
    elif all(one.ci_low == one.ci_high for one in found):
        # b is 0 in nearly all resamples, which does not show its size
        why = "noise alone explains how these scores differ, so the variance of the pairs themselves is unknown"
    else:
        return found
    return [replace(one, ci_low=np.nan, ci_high=np.nan, why=why) for one in found]


def _unknown_noise(n: IntArray) -> str:
    """Return the reason that a judge's noise is unknown, in words; '' if all are known."""
    if (further := int((n - 1).sum(axis=0).min())) >= FEWEST_FURTHER:
        return ""
    whose = "the judge's noise" if n.shape[1] == 1 else "the noise of each judge"
    return (
        f"too few pairs were asked twice to know {whose}: {number_of(further, 'further rating')} of pairs already rated, "
        f"{FEWEST_FURTHER} are needed"
    )


def _reliability(scores: FloatArray, n: IntArray, variances: FloatArray) -> tuple[float, ...]:
    judges = n.shape[1]
    with np.errstate(invalid="ignore"):  # a resample may have no pair with two ratings
        typical = variances.sum(axis=0) / (n > 1).sum(axis=0)
    within = ((n - 1) * variances + WEIGHT * typical) / (n + WEIGHT - 1.0)
    noise = (within / n).sum(axis=1).mean() / judges**2
    total = scores.var(ddof=1) if np.ptp(scores) else np.nan
    between = np.maximum(0.0, total - noise)
    of_scores = (between / total, np.sqrt(between / total))
    return of_scores if judges > 1 else (*of_scores, between / (between + within.mean()))


MOST_LEVELS = 11
"""A scale with more is grouped in at most this number of bins."""

_QUARTERS: Sequence[float] = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True, slots=True)
class Level:
    """The pairs whose scores are nearest to one level of the scale, or to those of one bin; halves go up.

    ``level``, ``to_level``: the ends of the bin. ``ci_low``, ``ci_high``: 95 % for ``mean_human`` over prompts
    like these; nan with one prompt, or if all human ratings are equal, which does not prove that others would be.
    """

    level: float
    to_level: float
    n: int
    n_prompts: int
    mean_score: float
    mean_human: float
    ci_low: float
    ci_high: float


def calibration(
    scores: FloatArray,
    human: FloatArray,
    prompt: IntArray,
    scale: Scale,
    *,
    of_two: bool = False,
) -> list[Level]:
    """Return the mean human rating of each level with pairs, or bin of :func:`bins_of`, rising; see :func:`agreement`."""
    both = ~(np.isnan(scores) | np.isnan(human))
    scores, human, prompt = scores[both], human[both], prompt[both]
    if of_two:
        starts = stops = _QUARTERS
        # halves to even, which is symmetric in A and B
        place = np.rint(4 * scores).astype(np.int64)
    else:
        starts = bins_of(scale)
        stops = [*(start - 1 for start in starts[1:]), scale.high]
        place = np.searchsorted(starts, levels_of(scores), side="right") - 1
    found = []
    for each in np.unique(place).tolist():
        rows = place == each
        clusters = clusters_of(human[rows], prompt[rows])
        low, high = np.nan, np.nan
        if clusters.prompts > 1 and not clusters.are_alike(scale.high - scale.low):
            low, high = student_bounds(clusters, *scale.ends, alpha=ALPHA)
        counts, scored = (int(rows.sum()), int(clusters.prompts)), float(scores[rows].mean())
        found.append(Level(starts[each], stops[each], *counts, scored, clusters.mean, low, high))
    return found


def bins_of(scale: Scale) -> Sequence[int]:
    """Return the lowest level of each bin: all levels, if they are at most MOST_LEVELS.

    Else bins of 2, 5, 10, 20, … levels that start at multiples of that, as small as MOST_LEVELS bins allow: 0-9, 10-19, … The
    first bin starts with the scale. A highest level that would be alone joins the bin before: 90-100.
    """
    if scale.levels <= MOST_LEVELS:
        return list(range(scale.low, scale.high + 1))
    for width in (lead * 10**power for power in count() for lead in (2, 5, 10)):
        starts = [scale.low, *range(scale.low // width * width + width, scale.high, width)]
        if len(starts) <= MOST_LEVELS:
            return starts
    raise AssertionError  # a bin may be as wide as any scale
