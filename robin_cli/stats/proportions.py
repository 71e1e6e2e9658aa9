"""Shares of labelled things, with exact binomial bounds; things of one prompt are alike and count for less.

Bounds for n labels drawn evenly and independently are those of Clopper and Pearson (Biometrika 26, 1934). Labels of one prompt,
and labels drawn with unequal probabilities, count as n/D, D being the design effect. The bounds are then those of Korn and
Graubard ("Confidence intervals for proportions with small expected number of positive counts estimated from survey data",
Survey Methodology 24, 1998).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray


@dataclass(frozen=True, slots=True)
class Share:
    """A share, 0 to 1, with the ends of its interval; nan for a share of nothing."""

    value: float
    low: float
    high: float

    def by(self, rising: Callable[[float], float]) -> Share:
        """Return the share that a rising function makes of it."""
        return Share(rising(self.value), rising(self.low), rising(self.high))


def design_effect(is_so: NDArray[np.bool_], weight: FloatArray, prompt: IntArray) -> float:
    """Return the number of labels that count as one, at least 1.

    It is V n / (p (1 − p)), V being the variance of the weighted share p by linearization over prompts. If p is 0 or 1, the
    labels do not show how alike those of a prompt are; all of one prompt then count as one. ``weight``: 1/π, π being the
    probability with which each was drawn.
    """
    prompts, of = np.unique(prompt, return_inverse=True)
    if len(prompts) < 2 or (len(prompts) == len(is_so) and np.ptp(weight) == 0):
        return float(max(1, len(is_so) - len(prompts) + 1))
    share = float(weight @ is_so / weight.sum())
    by_prompt = (
        np.bincount(of, weight * (is_so - share)) if 0 < share < 1 else np.bincount(of, weight)
    )
    of_sum = float((by_prompt**2).sum()) * len(prompts) / (len(prompts) - 1)
    variance = of_sum / weight.sum() ** 2 / (share * (1 - share) if 0 < share < 1 else 1.0)
    return max(1.0, float(variance) * len(is_so))


def share_bounds(share: float, n: float, *, alpha: float) -> Share:
    """Return a share of n labels with its exact binomial interval at 1 − α; ``n``: the number they count as."""
    from scipy.special import betaincinv

    if not n > 0:
        return Share(np.nan, np.nan, np.nan)
    those = share * n
    low = betaincinv(those, n - those + 1, alpha / 2) if those > 0 else 0.0
    high = betaincinv(those + 1, n - those, 1 - alpha / 2) if those < n else 1.0
    return Share(share, float(low), float(high))


def chance_of_so_few(those: FloatArray, n: FloatArray, share: float) -> FloatArray:
    """Return P(X ≤ those) for X binomial (n, share), elementwise; 1 if n is 0. Both may be fractional, see above."""
    from scipy.special import betainc

    rest = np.maximum(n - those, 0.0)
    return np.where(rest > 0, betainc(np.maximum(rest, 1e-300), those + 1, 1 - share), 1.0)
