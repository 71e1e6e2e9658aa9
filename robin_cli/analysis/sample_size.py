"""How many prompts a comparison needs until a difference of two systems would show, and which would show with those there are.

Two systems answer the same G prompts; the mean of the paired differences is put to Student's t with G − 1 degrees of freedom.
A difference of one prompt varies over prompts (``variance_between``) and by what the judge would say another time (``noise``,
which falls with more calls a response). A true difference D shows, at α on both sides and with this power, where
    (t_{G−1, 1−α/2} + t_{G−1, power}) · √((variance_between + noise) / G) ≤ |D|,
as in any text on sample sizes, with t for z: within a prompt or two of what the power of the noncentral t asks for.
"""

from __future__ import annotations

import math

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
    if difference_shown(FEWEST, variance_between, noise, alpha=alpha, power=power) <= abs(difference):
        return float(FEWEST)
    few, enough = float(FEWEST), 2.0 * FEWEST
    while difference_shown(enough, variance_between, noise, alpha=alpha, power=power) > abs(difference):
        few, enough = enough, 2.0 * enough
    while enough - few > max(1.0, enough * 1e-12):
        middle = math.floor(0.5 * (few + enough))
        if difference_shown(middle, variance_between, noise, alpha=alpha, power=power) <= abs(difference):
            enough = middle
        else:
            few = middle
    return float(enough)


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
