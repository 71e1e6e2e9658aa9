"""The expected error of the worst score of a run, beside its target."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, Sums
from robin_cli.model.space import ArmSpace
from robin_cli.stats.moderated import moderated

_BISECTIONS = 24


@dataclass(frozen=True, slots=True)
class Aim:
    """A target for the expected error of the worst score, and its present value; nan while unknown.

    ``as_share``: whether these are shares of the scale, as of several scales, and not points.
    """

    error: float
    now: float
    as_share: bool

    @property
    def reached(self) -> bool:
        return self.now <= self.error


def worst_error(space: ArmSpace, sums: Sums, is_kept: NDArray[np.bool_]) -> float:
    """Return the expected error of the worst score from its arm's true mean: the median of the largest of all errors.

    Each error is taken as √(V/n) times Student's t with n + 3 degrees of freedom: Π P(|t| < x / √(V_i/n_i)) = ½. In the units
    of ``space``; at most the scale. nan if no arm is kept, or one has no rating. ``is_kept``: arms that count, shape (K,).
    """
    found = moderated(space, sums)
    errors = np.sqrt(found.error_variance) / space.units
    return median_of_worst(space, errors[is_kept], found.freedom[is_kept])


def median_of_worst(space: ArmSpace, errors: FloatArray, freedom: FloatArray) -> float:
    """Return the median of the largest of K errors, each its standard error times Student's t; at most the scale.

    ``errors``: standard errors in the units of ``space``, shape (K,); the median is nan if one is infinite or nan.
    """
    from scipy.special import stdtr

    if not len(errors) or not np.isfinite(errors).all():
        return math.nan
    # Integer ratings leave few different arms: one complex number holds n and the error.
    kinds, first, count = np.unique(freedom + 1j * errors, return_index=True, return_counts=True)
    low, high = space.ends
    below, above = 0.0, float(((high - low) / space.units).max())
    for _ in range(_BISECTIONS):
        middle = 0.5 * (below + above)
        # Σ ln P(|t| < x / error)
        inside = count @ np.log1p(-2.0 * stdtr(kinds.real, -middle / errors[first]))
        below, above = (middle, above) if inside < math.log(0.5) else (below, middle)
    return above
