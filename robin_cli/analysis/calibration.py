"""What human ratings the pairs of each score have: a judge that ranks well may still be a point too kind."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from robin_cli.analysis.agreement import levels_of
from robin_cli.analysis.intervals import ALPHA
from robin_cli.model.arms import FloatArray, IntArray

_NOTHING = 1e-9
"""So little is rounding: nothing varies."""


@dataclass(frozen=True, slots=True)
class Level:
    """The pairs whose scores are nearest to one level of the scale; halves go up.

    Attributes:
        n, n_prompts: how many pairs, of how many prompts.
        mean_score, mean_human: of these pairs.
        ci_low, ci_high: 95 % for ``mean_human`` over prompts like these; nan with one prompt, or where all human ratings are
            alike, which is no proof that others would be.
    """

    level: int
    n: int
    n_prompts: int
    mean_score: float
    mean_human: float
    ci_low: float
    ci_high: float


def calibration(
    scores: FloatArray, human: FloatArray, prompt: IntArray, ends: tuple[float, float], *, alpha: float = ALPHA
) -> list[Level]:
    """The mean human rating of each level that pairs have, rising, of arrays of shape (K,), nan for absent.

    Args:
        prompt: which prompt each pair has, any numbers.
        ends: of the scale, which no interval goes beyond.
    """
    both = ~(np.isnan(scores) | np.isnan(human))
    scores, human, prompt = scores[both], human[both], prompt[both]
    level = levels_of(scores)
    found = []
    for each in np.unique(level).tolist():
        mine = level == each
        prompts, of = np.unique(prompt[mine], return_inverse=True)
        mean = float(human[mine].mean())
        half = _half_width(human[mine] - mean, of, alpha)
        low, high = max(mean - half, ends[0]), min(mean + half, ends[1])
        low, high = (low, high) if half > _NOTHING else (np.nan, np.nan)
        found.append(
            Level(each, int(mine.sum()), len(prompts), float(scores[mine].mean()), mean, float(low), float(high))
        )
    return found


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
