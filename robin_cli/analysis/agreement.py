"""How far scores and human ratings agree: correlations, each with an interval over pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale

COEFFICIENTS = ("pearson", "spearman", "kendall")
_ENDS = (0.025, 0.975)
FEWEST_PAIRS = 10
"""Pairs for a correlation to be stated. At 10 the bootstrap's interval holds the truth in about 90 % of cases (simulated,
normal pairs, r of 0, 0.5 and 0.9); at 5 in 85 to 92 %, at 4 in 77 to 92 %, and with 3 there is none (Fisher's begins
at 4)."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One coefficient between scores and human ratings.

    Attributes:
        coefficient: pearson (r), spearman (ρ) or kendall (τ_b, which takes ties into account).
        value: in [−1, 1]; nan where it is not stated: fewer than FEWEST_PAIRS pairs with both, one side constant, or human
            ratings that are off the scale.
        ci_low, ci_high: percentile bootstrap over pairs, 95 %; nan where the value is, or where most resamples leave it
            undefined.
        n: pairs with a score and a human rating.
        resamples: of the bootstrap.
        why: there is no value, or no interval; '' where there are both.
    """

    coefficient: str
    value: float
    ci_low: float
    ci_high: float
    n: int
    resamples: int
    why: str = ""


def refused(why: str, n: int) -> list[Agreement]:
    """No coefficient is stated, because ``why``; of ``n`` pairs with both."""
    return [Agreement(name, np.nan, np.nan, np.nan, n, 0, why) for name in COEFFICIENTS]


def off_scale(human: FloatArray, scale: Scale) -> str:
    """What human ratings, nan for absent, are off ``scale``, in words; '' where all are on it."""
    given = human[~np.isnan(human)]
    off = (given < scale.low) | (given > scale.high)
    if not off.any():
        return ""
    ends = f"{given.min():g} to {given.max():g}"
    return f"{off.sum():,} of {len(given):,} human ratings are off the scale {scale} (they go from {ends})"


def agreement(scores: FloatArray, human: FloatArray, *, seed: int = 0, resamples: int | None = None) -> list[Agreement]:
    """Pearson's r, Spearman's ρ and Kendall's τ_b between ``scores`` and ``human``, shape (K,) each, nan for absent.

    The interval says how the coefficient would vary over other pairs like these, with scores as noisy as these are. It
    resamples pairs (Efron's percentile bootstrap) :func:`resamples_for` times, or ``resamples``.
    """
    both = ~(np.isnan(scores) | np.isnan(human))
    x, y = scores[both], human[both]
    n = len(x)
    if n < FEWEST_PAIRS:
        return refused(f"{n} pairs have a score and a human rating; {FEWEST_PAIRS} are needed", n)
    for side, values in (("scores", x), ("human ratings", y)):
        if np.ptp(values) == 0:
            return refused(f"all {side} are alike", n)
    count = resamples_for(n) if resamples is None else resamples
    rng = np.random.default_rng(seed)
    picks = (rng.integers(n, size=n) for _ in range(count))
    drawn = np.array([_coefficients(x[pick], y[pick]) for pick in picks]).reshape(count, len(COEFFICIENTS))
    found = []
    for position, (name, value) in enumerate(zip(COEFFICIENTS, _coefficients(x, y), strict=True)):
        sample = drawn[~np.isnan(drawn[:, position]), position]
        defined = len(sample) > count / 2
        low, high = np.quantile(sample, _ENDS) if defined else (np.nan, np.nan)
        why = "" if defined else "too many of the resamples are of pairs that are all alike"
        found.append(Agreement(name, float(value), float(low), float(high), n, count, why))
    return found


def resamples_for(pairs: int) -> int:
    """1,000; with more than 5,000 pairs, of which each takes its time, fewer, and 100 from 50,000 on."""
    return max(100, min(1000, 5_000_000 // pairs))


def _coefficients(x: FloatArray, y: FloatArray) -> tuple[float, float, float]:
    if np.ptp(x) == 0 or np.ptp(y) == 0:  # no coefficient is defined, and none is 1
        return np.nan, np.nan, np.nan
    from scipy import stats

    ranks_x, ranks_y = stats.rankdata(x), stats.rankdata(y)
    pearson = float(np.corrcoef(x, y)[0, 1])
    spearman = float(np.corrcoef(ranks_x, ranks_y)[0, 1])
    return pearson, spearman, float(stats.kendalltau(x, y).statistic)
