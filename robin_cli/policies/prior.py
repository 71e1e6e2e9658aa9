"""Warm starts: a scheduler that begins with what an earlier run says of each arm's variance.

The earlier ratings may be few, of another judge, or misleading. So three guards stand between them and the choice:

- they count as a few ratings of each arm and no more, and are outvoted as the run's own ratings come in;
- only their proportions are taken: how much the ratings vary on the whole is learned from the run itself;
- how far the proportions are to be trusted is learned, too: see :meth:`Warm.fitted`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.policies.base import Estimating, Policy, Setup, per_arm, urgency
from robin_cli.policies.registry import make_policy

_FIRST_TRUST = 0.5
_TRUST_EVIDENCE = 8.0
_LEVEL_EVIDENCE = 8.0
_SHRINKAGE = 4.0
_SMALLEST_RELATIVE = 1e-3


@dataclass(frozen=True, slots=True)
class Warm(Policy):
    """A policy that is asked as if each arm had ``weight`` ratings more, of its mean so far and its prior variance.

    With n ratings of mean m, the inner policy estimates the variance from n' = n + a, Σx + a m and Σx² + a (m² + v), a the
    weight, so that its 1/n variance is (n σ̂² + a v) / (n + a); the estimate is then divided by the calls really made, for
    only those make the mean better. The prior variance is v = L (1 + b (r − 1)), r the arm's share of the earlier run, L the
    level and b the trust. With a = 0 it is the inner policy, bit for bit.

    No arm starves: v > 0, so every estimate is positive, and each call of the others brings theirs nearer to 0.

    Attributes:
        inner: what estimates a variance from ratings.
        relative: prior variance of each arm over their mean, positive; shape (K,), in simulation (worlds · K,).
        weight: a, at least 0.
        warm_up: ratings that every arm gets first.
        prior_level: mean prior variance, in squared points of the scale.
        level, trust: L and b, 0 ≤ b ≤ 1: numbers in a run, shape (runs,) in simulation; before the first fit,
            ``prior_level`` and ½.
    """

    inner: Estimating
    relative: FloatArray
    weight: float
    warm_up: int
    prior_level: float
    level: float | FloatArray
    trust: float | FloatArray = _FIRST_TRUST

    @property
    def said(self) -> str:
        """What an error calls the inner policy."""
        return self.inner.said

    def priority(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
    ) -> FloatArray:
        """The inner estimate from n + a ratings, over n + pending."""
        prior = per_arm(self.level, n) * (1.0 + per_arm(self.trust, n) * (self.relative[arm] - 1.0))
        mean, a = total / n, self.weight
        estimate = self.inner.estimate(n + a, total + a * mean, total_sq + a * (mean * mean + prior))
        return urgency(estimate, n + pending, self.inner.objective)

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Warm:
        """The same with the inner policy, L and b fitted to these ratings.

        With SS_i the sums of squares about the arms' means and w_i = n_i − 1, the pooled variance g = ΣSS/Σw estimates
        L (1 + b (r̄ − 1)), r̄ = Σwr/Σw; and the least-squares slope of s_i²/g = SS_i/(w_i g) on r_i, weighted by w_i,
        estimates m = b / (1 + b (r̄ − 1)), from which b = m / (1 − m (r̄ − 1)), kept between 0 and 1. Shares that say
        nothing about this run get b near 0, and every arm the level. Few ratings are not believed: b = ½ counts as
        a slope seen with Σw(r − r̄)² = 8, the prior level as 8 degrees of freedom.
        """
        inner = cast("Estimating", self.inner.fitted(n, total, total_sq))
        freedom = np.maximum(n - 1.0, 0.0)
        squares = np.maximum(total_sq - total * total / np.maximum(n, 1.0), 0.0)
        shares = self.relative.reshape((-1, n.shape[-1])) if n.ndim > 1 else self.relative
        seen = freedom.sum(axis=-1)
        pooled = (squares.sum(axis=-1) + _LEVEL_EVIDENCE * self.prior_level) / (seen + _LEVEL_EVIDENCE)
        center = np.where(seen > 0, (freedom * shares).sum(axis=-1) / np.maximum(seen, 1.0), 1.0)
        first = _FIRST_TRUST / (1.0 + _FIRST_TRUST * (center - 1.0))
        distance = shares - center[..., None]
        slope = ((distance * squares).sum(axis=-1) / pooled + _TRUST_EVIDENCE * first) / (
            (freedom * distance**2).sum(axis=-1) + _TRUST_EVIDENCE
        )
        rest = 1.0 - slope * (center - 1.0)
        trust = np.where(
            rest > 0, np.clip(slope / np.where(rest > 0, rest, 1.0), 0.0, 1.0), np.where(slope > 0, 1.0, 0.0)
        )
        level = pooled / (1.0 + trust * (center - 1.0))
        if pooled.ndim == 0:
            return replace(self, inner=inner, level=float(level), trust=float(trust))
        return replace(self, inner=inner, level=level, trust=trust)


def warm_policy(name: str, setup: Setup, prior: FloatArray | None, *, weight: float | None = None) -> Policy:
    """The policy called ``name``, begun with the ``prior`` variances of an earlier run where it can use them.

    A policy that takes no prior (trait ``takes_prior``) is as without.

    Args:
        prior: of each arm, shape (K,) (in simulation: (worlds · K,)), at least 0; see :func:`prior_variances`. None: none.
        weight: ratings that it counts as; that of the policy if not given.

    Raises:
        InputError: as :func:`make_policy`; a prior for a policy with a guarantee, which has no place for one.
    """
    inner = make_policy(name, setup)
    if prior is None or not isinstance(inner, Estimating):
        return inner
    if inner.theorem(setup.mode) is not None:
        raise InputError(
            "--variances: the guarantee of --mode theory holds for a run that learns everything itself; "
            "use --mode practice, or leave --variances out"
        )
    weight = inner.prior_weight() if weight is None else weight
    level = float(prior.mean())
    relative = np.maximum(prior / level, _SMALLEST_RELATIVE) if level > 0 else np.ones_like(prior)
    level = max(level, _SMALLEST_RELATIVE * setup.scale.even_variance)
    return Warm(inner, relative, weight, max(1, inner.warm_up - math.floor(weight)), level, level)


def prior_variances(n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
    """What an earlier run's ratings say of each arm's variance: (SS + 4 g) / (n + 3), shape (…, K), n ≥ 1.

    The posterior mean, about, under a scaled inverse-χ² prior of weight 4 around g = ΣSS / Σ(n − 1), the variance within
    arms pooled over all: a few equal ratings are no proof that an arm never varies. nan if no arm has two ratings.
    """
    squares = np.maximum(total_sq - total * total / n, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = squares.sum(axis=-1, keepdims=True) / (n - 1.0).sum(axis=-1, keepdims=True)
    return np.asarray((squares + _SHRINKAGE * pooled) / (n - 1.0 + _SHRINKAGE))
