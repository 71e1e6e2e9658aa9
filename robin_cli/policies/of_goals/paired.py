"""Paired: whole prompts before repeats, then the calls that make the differences between systems most certain."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.systems import FEWEST_PROMPTS, Systems
from robin_cli.policies.base import Policy, Setup, of_arms, squares_within

_PRIOR_FREEDOM = 8.0
_ASIDE = 0.25
"""The weight of other systems beside the two whose difference is least certain."""

_TIE = 1e-9
_MOST_CELLS = 2 * 10**7
"""Prompts × systems up to which the least certain difference is computed."""

_TINY = 1e-12


@dataclass(frozen=True, slots=True)
class Paired(Policy):
    """Every arm once, prompt by prompt in random order; then the arm whose call lowers w² V/n the most, by w² V/(n (n + 1)).

    w is the weight of the arm's mean in its system's mean at the prompt. V is one variance for all arms of a system, attribute
    and judge: V = (SS + 8 g) / (Σ (n − 1) + 8), with g = (SS + v) / (Σ (n − 1) + 1) over all systems, v being the variance of a
    rating drawn evenly from the scale.

    The choice does not depend on the arm's own ratings. Otherwise an arm whose first ratings agree by chance would keep them,
    while others are corrected. With one system whose ratings flip rarely and another whose do not, that biased their
    difference by up to 0.6 standard errors, and a 95 % interval covered in 89 % (benchmarks/comparisons.py).

    With more than two systems, the two with the least difference in standard errors, for each attribute, count in full, and the
    others a quarter: these are asked half as often, and never left behind.

    Attributes:
        gain: w² V of each arm, in shares, shape (K,), in simulation (runs, K).
    """

    systems: Systems
    gain: FloatArray
    warm_up: int = 1

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """Return the policy for the systems of the run."""
        assert setup.systems is not None  # noqa: S101  # the goal compares them
        return cls(setup.systems, _gains(setup.systems, _even(setup.systems)))

    @property
    def turn(self) -> IntArray:
        """Prompt by prompt, see :attr:`Systems.turn`."""
        return self.systems.turn

    def priority(
        self,
        n: FloatArray,
        pending: FloatArray,
        _total: FloatArray,
        _total_sq: FloatArray,
        arm: IntArray,
    ) -> FloatArray:
        """Return w² V / ((n + pending) (n + pending + 1)), whatever the arm's own ratings."""
        made = n + pending
        return of_arms(self.gain, arm % self.gain.shape[-1]) / (made * (made + 1.0))

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Paired:
        """Return it with V, and the systems that count in full, by these ratings."""
        if n.ndim > 1:
            every = zip(n, total, total_sq, strict=True)
            return replace(self, gain=np.stack([self._fitted_gains(*each) for each in every]))
        return replace(self, gain=self._fitted_gains(n, total, total_sq))

    def _fitted_gains(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        systems = self.systems
        return _gains(systems, _variances(systems, n, total, total_sq)) * _preference(
            systems, n, total
        )


def _gains(systems: Systems, variance: FloatArray) -> FloatArray:
    """Return w² V; among equal ones those earlier in turn are larger, by just enough to break ties."""
    return np.asarray(
        systems.weight**2 * variance * (1.0 - _TIE * systems.turn / len(systems.turn))
    )


def _even(systems: Systems) -> FloatArray:
    low, high = systems.space.ends
    return np.asarray(((high - low + 1.0) ** 2 - 1.0) / 12.0)


def _variances(
    systems: Systems, n: FloatArray, total: FloatArray, total_sq: FloatArray
) -> FloatArray:
    """Return V of each arm, shape (K,)."""
    space, count = systems.space, len(systems.names)
    judged = space.attribute.astype(np.int64) * len(space.judges) + space.judge
    kind = judged * count + systems.system[space.pair]
    kinds = len(space.attributes) * len(space.judges)
    within, freedom = (
        np.bincount(kind, each, kinds * count).reshape(kinds, count)
        for each in (squares_within(n, total, total_sq), np.maximum(n - 1.0, 0.0))
    )
    even = np.bincount(judged, _even(systems), kinds) / np.maximum(
        np.bincount(judged, minlength=kinds), 1
    )
    pooled = (within.sum(axis=1) + even) / (freedom.sum(axis=1) + 1.0)
    found = (within + _PRIOR_FREEDOM * pooled[:, None]) / (freedom + _PRIOR_FREEDOM)
    return np.asarray(found.ravel()[kind])


def _preference(systems: Systems, n: FloatArray, total: FloatArray) -> FloatArray:
    """Return 1 for arms of the two systems with the least certain difference, at prompts that both answered; else a quarter."""
    space, count = systems.space, len(systems.names)
    found = np.ones(len(space))
    if count == 2 or len(systems.rank) * count > _MOST_CELLS:
        return found
    rated = space.by_rater(n > 0)
    means = space.by_rater(np.where(n > 0, total / np.maximum(n, 1.0), 0.0)).sum(axis=1)
    of_pair = space.by_pair(means / np.maximum(rated.sum(axis=1), 1))
    is_rated = space.by_pair(rated.any(axis=1))
    shape = (len(systems.rank), count)
    for attribute in range(len(space.attributes)):
        there, summed = (
            np.bincount(systems.cell, each, shape[0] * count).reshape(shape)
            for each in (
                is_rated[:, attribute].astype(np.float64),
                of_pair[:, attribute] * is_rated[:, attribute],
            )
        )
        pair = _least_certain(
            np.divide(summed, there, out=np.zeros(shape), where=there > 0), there > 0
        )
        if pair is not None:
            is_whole = np.asarray((there[:, pair] > 0).all(axis=1))
            is_meant = (is_whole[systems.prompt] & np.isin(systems.system, pair))[space.pair]
            found[(space.attribute == attribute) & ~is_meant] = _ASIDE
    return found


def _least_certain(means: FloatArray, there: NDArray[np.bool_]) -> list[int] | None:
    """Return the two systems with the smallest |mean difference| in standard errors over prompts; None if too few are shared.

    Args:
        means: of each prompt and system, 0 without one.
        there: whether there is one.
    """
    is_there = there.astype(np.float64)
    shared = is_there.T @ is_there
    summed = means.T @ is_there
    squared = (means**2).T @ is_there
    summed, squared = summed - summed.T, squared + squared.T - 2.0 * (means.T @ means)
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = summed / shared
        error = np.maximum(squared / shared - difference**2, 0.0) / (shared - 1.0) + _TINY
        sure = np.where(np.triu(shared >= FEWEST_PROMPTS, 1), difference**2 / error, np.inf)
    if not np.isfinite(sure).any():
        return None
    return [int(each) for each in np.unravel_index(np.nanargmin(sure), sure.shape)]
