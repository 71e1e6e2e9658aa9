"""Duels: the best response to each prompt, from its comparisons with the others."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import (
    Columns,
    Policy,
    Setup,
    flat_variance,
    per_arm,
    pooled_variance,
    rounded,
    squares_within,
)
from robin_cli.policies.matches import Matches

_LOGISTIC = 1.702
"""Φ(z) is about 1 / (1 + exp(−1.702 z)), to 0.01."""

_PRIOR_WEIGHT = 4.0

_NEAREST = 1e-3
"""A leader's least lead, in shares of the scale."""


class _Preferences(NamedTuple):
    """Those of comparisons by the verdicts so far, shape (…, comparisons) each.

    ``mean``: the preference for A less ½; ``error``: its variance; ``whole``: whether each order and judge has a verdict.
    """

    mean: FloatArray
    error: FloatArray
    whole: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Duels(Policy):
    """For each prompt, the likeliest best response meets that other one against which this is least certain.

    A comparison has the preference m − ½ for A over B and its variance V/n, calls under way included. One that was not asked
    has 0 and the variance of a single verdict. The leader is the response with the largest product of the chances Φ(z) that it
    is the better one of each comparison; the rival has the largest error / (m − ½ + ε)², over all prompts. A comparison that
    was begun is asked in all orders and by all judges first.

    So the best response so far meets the others of its prompt one after another, until one has met all: r − 1 comparisons of
    r (r − 1)/2. Then calls go where the best is least clear.

    All arms of a comparison have one variance, V = √(flat · (SS + 4 g) / (Σ (n − 1) + 4)). SS are squares about the mean of
    each order and judge, so that the order effect is no uncertainty, and ``flat`` is the mean of each arm's
    :func:`flat_variance`. g = (Σ SS + v) / (Σ (n − 1) + 1) pools all comparisons; v is the variance of a verdict drawn evenly
    from the scale, which is V without a verdict.

    Source: leader and challenger as in LUCB (Kalyanakrishnan and others, ICML 2012), for duels as in Zoghi, Whiteson, Munos
    and de Rijke, "Relative upper confidence bound for the k-armed dueling bandit problem", ICML 2014.

    Attributes:
        pooled: g, in simulation one for each run.
        margin: ε, a probability.
    """

    matches: Matches
    pooled: float | FloatArray
    margin: float
    warm_up: int = 0

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        matches = setup.matches
        assert matches is not None  # noqa: S101  # the goal compares
        return cls(matches, matches.space.scales[0].even_variance, setup.margin)

    @property
    def contests(self) -> IntArray:
        """The comparisons of each prompt, and the arms of each of these."""
        return self.matches.rivals.members

    def priority(self, arms: Columns) -> FloatArray:
        """Return error / ahead² of the leader's comparisons, shared among arms by the gain of a call."""
        made = arms.made
        prompt = self.matches.rivals.prompt[
            self.matches.space.pair[arms.arm[..., 0, 0] % len(self.matches.space)]
        ]
        side = self.matches.rivals.side[prompt]
        is_there = side[..., 0] >= 0
        seen = self._preferences(arms)
        lead = self._leader(prompt, side, seen)[..., None]
        ahead = np.where(side[..., 0] == lead, seen.mean, -seen.mean) + self.margin
        uncertainty = seen.error / np.maximum(ahead, _NEAREST) ** 2
        uncertainty = np.where(is_there & (side == lead[..., None]).any(axis=-1), uncertainty, 0.0)
        of_call = uncertainty[..., None] / (1.0 + made)
        is_begun = is_there & ~seen.whole & (made > 0).any(axis=-1)
        most = 1.0 / (4.0 * _NEAREST**2)  # more than any other
        return np.where(is_begun[..., None] & (made < 1), most * (1.0 + of_call), of_call)

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Self:
        freedom, squares = np.maximum(n - 1.0, 0.0), squares_within(n, total, total_sq)
        even = self.matches.space.scales[0].even_variance
        return replace(self, pooled=pooled_variance(freedom, squares, even))

    def _preferences(self, arms: Columns) -> _Preferences:
        n, _, total, total_sq, _ = arms
        scale, rated, count = self.matches.space.scales[0], n > 0, np.maximum(n, 1.0)
        width = float(scale.high - scale.low)
        flat = np.where(rated, flat_variance(count, total, total_sq, scale.low, scale.high), 0.0)
        flat = np.where(
            rated.any(axis=-1),
            flat.sum(axis=-1) / np.maximum(rated.sum(axis=-1), 1),
            scale.even_variance,
        )
        squares = squares_within(n, total, total_sq).sum(axis=-1)
        squares = squares + _PRIOR_WEIGHT * per_arm(self.pooled, flat)
        freedom = (count - 1.0).sum(axis=-1) + _PRIOR_WEIGHT
        variance = np.sqrt(flat * squares / freedom) / width**2
        points = np.where(rated, (total / count - scale.low) / width, 0.5)
        whole, made = np.asarray(rated.all(axis=-1)), arms.made
        mean = np.where(whole, points.mean(axis=-1) - 0.5, 0.0)
        error = (variance[..., None] / np.maximum(made, 1.0)).sum(axis=-1) / n.shape[-1] ** 2
        return _Preferences(mean, np.where((made > 0).any(axis=-1), error, variance), whole)

    def _leader(self, prompt: IntArray, side: IntArray, seen: _Preferences) -> IntArray:
        """Return the likeliest best response of each prompt, the first among equals."""
        z = _LOGISTIC * seen.mean / np.sqrt(seen.error)
        is_there = side[..., 0] >= 0
        responses = np.arange(self.matches.rivals.missing.shape[-1])
        log_chance = -np.log(2.0) * self.matches.rivals.missing[prompt]
        for which, sign in enumerate((1.0, -1.0)):
            chance = np.where(is_there, -np.logaddexp(0.0, -sign * z), 0.0)
            is_its = side[..., which, None] == responses
            log_chance = log_chance + np.where(is_its, chance[..., None], 0.0).sum(axis=-2)
        return np.asarray(rounded(log_chance).argmax(axis=-1))
