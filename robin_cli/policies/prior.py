"""Warm starts: a scheduler begins with the variances that an earlier run estimated for each arm.

The earlier ratings may be few, of another judge, or misleading. So there are three guards:

- they count as a few ratings of each arm, and the run's own ratings outweigh them in time;
- only their proportions count: the overall level of variances comes from the run itself;
- the trust in the proportions is learned, too: see :meth:`Warm.fitted`.
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
    """A policy that sees each arm as if it had ``weight`` more ratings, of its mean so far and its prior variance.

    With n ratings of mean m, the inner policy estimates the variance from n' = n + a, Σx + a m and Σx² + a (m² + v), a being
    the weight, so that its 1/n variance is (n σ̂² + a v) / (n + a). The estimate is divided by the calls really made, as only
    those improve the mean. The prior variance is v = L (1 + b (r − 1)), r being the arm's proportion in the earlier run, L the
    level and b the trust. With a = 0 it is the inner policy, bit for bit.

    No arm starves: v > 0, so every estimate is positive, and each call of another arm lowers that arm's priority.

    Attributes:
        inner: the policy that estimates a variance from ratings.
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
    def full_name(self) -> str:
        """The inner policy's name in errors."""
        return self.inner.full_name

    def priority(
        self,
        n: FloatArray,
        pending: FloatArray,
        total: FloatArray,
        total_sq: FloatArray,
        arm: IntArray,
    ) -> FloatArray:
        """Return the urgency of the inner estimate from n + a ratings, after n + pending calls."""
        prior = per_arm(self.level, n) * (1.0 + per_arm(self.trust, n) * (self.relative[arm] - 1.0))
        mean, a = total / n, self.weight
        estimate = self.inner.estimate(
            n + a, total + a * mean, total_sq + a * (mean * mean + prior)
        )
        return urgency(estimate, n + pending, self.inner.objective)

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Warm:
        """Return it with the inner policy, L and b fitted to these ratings.

        With SS_i the sums of squares about the arms' means and w_i = n_i − 1, the pooled variance g = ΣSS/Σw estimates
        L (1 + b (r̄ − 1)), r̄ = Σwr/Σw; and the least-squares slope of s_i²/g = SS_i/(w_i g) on r_i, weighted by w_i,
        estimates m = b / (1 + b (r̄ − 1)), from which b = m / (1 − m (r̄ − 1)), kept between 0 and 1. Proportions that are
        uninformative here get b near 0, and every arm the level. Few ratings have little effect: b = ½ counts as a slope
        from Σw(r − r̄)² = 8, the prior level as 8 degrees of freedom.
        """
        inner = cast("Estimating", self.inner.fitted(n, total, total_sq))
        freedom = np.maximum(n - 1.0, 0.0)
        squares = np.maximum(total_sq - total * total / np.maximum(n, 1.0), 0.0)
        shares = self.relative.reshape((-1, n.shape[-1])) if n.ndim > 1 else self.relative
        seen = freedom.sum(axis=-1)
        pooled = (squares.sum(axis=-1) + _LEVEL_EVIDENCE * self.prior_level) / (
            seen + _LEVEL_EVIDENCE
        )
        center = np.where(seen > 0, (freedom * shares).sum(axis=-1) / np.maximum(seen, 1.0), 1.0)
        first = _FIRST_TRUST / (1.0 + _FIRST_TRUST * (center - 1.0))
        distance = shares - center[..., None]
        slope = ((distance * squares).sum(axis=-1) / pooled + _TRUST_EVIDENCE * first) / (
            (freedom * distance**2).sum(axis=-1) + _TRUST_EVIDENCE
        )
        rest = 1.0 - slope * (center - 1.0)
        trust = np.where(
            rest > 0,
            np.clip(slope / np.where(rest > 0, rest, 1.0), 0.0, 1.0),
            np.where(slope > 0, 1.0, 0.0),
        )
        level = pooled / (1.0 + trust * (center - 1.0))
        if pooled.ndim == 0:
            return replace(self, inner=inner, level=float(level), trust=float(trust))
        return replace(self, inner=inner, level=level, trust=trust)


def warm_policy(
    name: str, setup: Setup, prior: FloatArray | None, *, weight: float | None = None
) -> Policy:
    """Return the policy called ``name``, started with the ``prior`` variances of an earlier run if it can use them.

    Without the trait ``takes_prior`` a policy ignores the prior.

    Args:
        prior: of each arm, shape (K,) (in simulation: (worlds · K,)), at least 0; see :func:`prior_variances`. None for none.
        weight: ratings that it counts as; None for the policy's own number.

    Raises:
        InputError: as :func:`make_policy`; a prior for a policy with a guarantee that does not allow one.
    """
    inner = make_policy(name, setup)
    if prior is None or not isinstance(inner, Estimating):
        return inner
    if inner.theorem(setup.mode) is not None:
        raise InputError(
            "--variances: the guarantee of --mode theory holds only for a run without a prior; "
            "use --mode practice, or leave --variances out"
        )
    weight = inner.prior_weight() if weight is None else weight
    level = float(prior.mean())
    relative = np.maximum(prior / level, _SMALLEST_RELATIVE) if level > 0 else np.ones_like(prior)
    level = max(level, _SMALLEST_RELATIVE * setup.scale.even_variance)
    return Warm(inner, relative, weight, max(1, inner.warm_up - math.floor(weight)), level, level)


def prior_variances(n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
    """Return the variance of each arm by an earlier run's ratings: (SS + 4 g) / (n + 3), shape (…, K), n ≥ 1.

    It is about the posterior mean under a scaled inverse-χ² prior of weight 4 around g = ΣSS / Σ(n − 1), the pooled variance
    within arms: a few equal ratings are no proof that an arm never varies. nan if no arm has two ratings.
    """
    squares = np.maximum(total_sq - total * total / n, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = squares.sum(axis=-1, keepdims=True) / (n - 1.0).sum(axis=-1, keepdims=True)
    return np.asarray((squares + _SHRINKAGE * pooled) / (n - 1.0 + _SHRINKAGE))
