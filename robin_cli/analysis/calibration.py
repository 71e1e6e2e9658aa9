"""What human ratings the pairs of each score have: a judge that ranks well may still be a point too kind.

Of a scale of many levels each would have a pair or two, and no interval that says anything: they are taken together in bins.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from robin_cli.analysis.agreement import levels_of
from robin_cli.analysis.intervals import ALPHA
from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale

MOST_LEVELS = 11
"""A scale of more is taken in bins, of which there are at most as many."""

_NOTHING = 1e-9
"""So little is rounding: nothing varies."""


@dataclass(frozen=True, slots=True)
class Level:
    """The pairs whose scores are nearest to one level of the scale, or to those of one bin; halves go up.

    Attributes:
        level, to_level: the lowest and the highest of the bin; the same where each level is by itself.
        n, n_prompts: how many pairs, of how many prompts.
        mean_score, mean_human: of these pairs.
        ci_low, ci_high: 95 % for ``mean_human`` over prompts like these; nan with one prompt, or where all human ratings are
            alike, which is no proof that others would be.
    """

    level: int
    to_level: int
    n: int
    n_prompts: int
    mean_score: float
    mean_human: float
    ci_low: float
    ci_high: float


def calibration(
    scores: FloatArray, human: FloatArray, prompt: IntArray, scale: Scale, *, alpha: float = ALPHA
) -> list[Level]:
    """The mean human rating of each level, or bin of :func:`bins_of`, that pairs have, rising.

    Args:
        scores, human: shape (K,), nan for absent.
        prompt: which prompt each pair has, any numbers, shape (K,).
        scale: which no interval goes beyond.
    """
    both = ~(np.isnan(scores) | np.isnan(human))
    scores, human, prompt = scores[both], human[both], prompt[both]
    starts = bins_of(scale)
    stops = [*(start - 1 for start in starts[1:]), scale.high]
    place = np.searchsorted(starts, levels_of(scores), side="right") - 1
    found = []
    for each in np.unique(place).tolist():
        mine = place == each
        prompts, of = np.unique(prompt[mine], return_inverse=True)
        mean = float(human[mine].mean())
        half = _half_width(human[mine] - mean, of, alpha)
        low, high = max(mean - half, scale.low), min(mean + half, scale.high)
        low, high = (low, high) if half > _NOTHING else (np.nan, np.nan)
        scored = float(scores[mine].mean())
        found.append(
            Level(starts[each], stops[each], int(mine.sum()), len(prompts), scored, mean, float(low), float(high))
        )
    return found


def bins_of(scale: Scale) -> list[int]:
    """The lowest level of each bin: all levels, if they are MOST_LEVELS or fewer.

    Else bins of 2, 5, 10, 20, … levels that start at multiples of that, as few levels as leave at most MOST_LEVELS bins: 0-9,
    10-19, … The first one starts with the scale. A highest level that would be alone is of the bin before: 90-100.
    """
    if scale.levels <= MOST_LEVELS:
        return list(range(scale.low, scale.high + 1))
    widths = (lead * 10**power for power in count() for lead in (2, 5, 10))
    each_start = ([scale.low, *range(scale.low // width * width + width, scale.high, width)] for width in widths)
    return next(starts for starts in each_start if len(starts) <= MOST_LEVELS)


def _half_width(residuals: FloatArray, prompt: IntArray, alpha: float) -> float:
    """t √(P/(P − 1) Σ_p (Σ_{i of p} r_i)²) / n, with P − 1 degrees of freedom: the residuals of one prompt may go together.

    The mean is a ratio of sums over prompts (Cochran, "Sampling techniques", 1977, section 9A). nan with one prompt.
    """
    from scipy.special import stdtrit

    sums = np.bincount(prompt, residuals)
    if len(sums) < 2:
        return np.nan
    error = np.sqrt(len(sums) / (len(sums) - 1) * (sums**2).sum()) / len(residuals)
    return float(stdtrit(len(sums) - 1, 1.0 - 0.5 * alpha) * error)
