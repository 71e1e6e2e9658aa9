"""Whether the ratings of all pairs are about equally noisy, so that no scheduler can do better than an even spread."""

from __future__ import annotations

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.run.reader import RunReader
from robin_cli.stats.level_counts import counts_by_scale

_MOST_SPREAD = 0.25
"""CV², the squared coefficient of variation of the true variances: their standard deviations then differ by about a quarter."""
_LIMIT = 1.645
"""Standard errors to the upper end of CV²: a run whose CV² is larger than that is called equally noisy 1 time in 20."""
_FEWEST_RATINGS, _FEWEST_ARMS, _SHARE = 4, 30, 0.95
_EVEN = 0.2
"""The standard deviation of the calls per arm, as a share of their mean, up to which they are called evenly spread."""


def is_noise_equal(run: RunReader) -> bool:
    """Return whether the noise of all arms hardly differs, and they were asked about equally often; False if unknown."""
    space, arms = run.space, run.fold.arms
    kept = ~arms.is_retired
    n = arms.n[kept]
    has_enough = n >= _FEWEST_RATINGS
    if any(run.manifest.expected):  # counts spread expectations over two levels
        return False
    if has_enough.sum() < _FEWEST_ARMS or has_enough.mean() < _SHARE or n.std() > _EVEN * n.mean():
        return False
    variance, squared = np.full((2, len(space)), np.nan)
    for scale, of_scale, counts in counts_by_scale(space, run.arm, run.judgments):
        levels = np.linspace(scale.low, scale.high, counts.shape[1]) / space.units[of_scale[0]]
        variance[of_scale], squared[of_scale] = noise_moments(counts, levels)
    shown = kept & (arms.n >= _FEWEST_RATINGS)
    return spread_limit(variance[shown], squared[shown]) <= _MOST_SPREAD


def noise_moments(counts: FloatArray, levels: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return unbiased estimates of σ² and σ⁴ of each arm, whatever the shape of its ratings; shape (K,) each.

    E[s⁴] = σ⁴ (n + 1)/(n − 1) + κ₄/n, so σ⁴ is (s⁴ − k₄/n)(n − 1)/(n + 1), with Fisher's k₄; nan below 4 ratings.
    ``counts``: number of times that each arm got each of ``levels``, shape (K, L).
    """
    n = counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = levels - (counts @ levels / n)[:, None]
        squares, fourths = ((counts * apart**power).sum(axis=1) for power in (2, 4))
        variance = squares / (n - 1)
        k4 = (n * (n + 1) * fourths - 3 * (n - 1) * squares**2) / ((n - 1) * (n - 2) * (n - 3))
        squared = (variance**2 - k4 / n) * (n - 1) / (n + 1)
    return variance, np.where(n < _FEWEST_RATINGS, np.nan, squared)


def spread_limit(variance: FloatArray, squared: FloatArray) -> float:
    """Return the upper end of the one-sided 95 % interval of CV² = mean(σ⁴)/mean(σ²)² − 1; nan if no rating varies.

    Its standard error is by the delta method over arms.
    """
    mean = variance.mean()
    if not mean > 0:
        return np.nan
    ratio = squared.mean() / mean**2
    influence = squared / mean**2 - 2 * ratio * variance / mean
    return float(ratio - 1 + _LIMIT * influence.std(ddof=1) / np.sqrt(len(variance)))
