"""Policies: from the numbers of an arm to the priority of its next call.

A policy sees counts and sums, never the run. Each formula is written once and works on floats (the scheduler, one arm at
a time) and on arrays (simulation, all arms at once).

Symbols, as in the paper "LLM-as-Judge on a Budget": K arms, budget B, n_i ratings of arm i, σ̂_i² their 1/n variance, δ
the failure probability.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast, runtime_checkable

import numpy as np

from robin_cli.allocation.arms import FloatArray, IntArray
from robin_cli.errors import InputError, did_you_mean
from robin_cli.records import Scale

Number = TypeVar("Number", float, FloatArray)
Arm = int | IntArray

SPREAD = 1e-300
"""Times 1/n added to every priority: lost in rounding unless the priority is 0, where it orders arms that never vary by
their calls, so that a budget with nothing better to do is spread and does not pile up on the first arm."""

OBJECTIVES = ("worst-case", "mean-error")

DEFAULT_DELTA = 0.007
"""The paper's δ, tuned by its authors on their own pools."""

MODES = ("practice", "theory")


class Policy(Protocol):
    """What a scheduler needs to know of a policy."""

    @property
    def warm_up(self) -> int:
        """Ratings that every arm gets, in whole rounds, before ``priority`` is asked."""

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:
        """The larger, the sooner asked; finite for n ≥ ``warm_up`` and strictly falling in ``pending`` where positive.

        Args:
            n: ratings received, at least ``warm_up``.
            pending: calls under way, which count as made: their answers cannot be known, but their number is.
            total: Σ x over the ratings.
            total_sq: Σ x² over the ratings.
            arm: which arm, or arms; for policies that know something of each beforehand.
        """


@runtime_checkable
class Estimating(Policy, Protocol):
    """A policy whose priority is :func:`urgency` of what it takes each arm's variance for."""

    @property
    def objective(self) -> str:
        """One of OBJECTIVES."""

    def estimate(self, n: Number, total: Number, total_sq: Number) -> Number:
        """What stands for σ² after these ratings, n ≥ ``warm_up``; at least 0."""


@runtime_checkable
class PooledPolicy(Policy, Protocol):
    """A policy that learns from all arms together, and is fitted anew whenever the ratings have grown by ``GROWTH``."""

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Policy:
        """The policy after these ratings of all arms; shape (…, K), the leading axes being separate runs."""


GROWTH = 1.1

_FLAT_MASS = 2.0
_PRIOR_WEIGHT = 8.0
_UPPER_TENTH = 1.2815515655446004  # the normal distribution's quantile at 0.9
_SMALLEST_POOLED = 1e-3


def root(x: Number) -> Number:
    """√x; correctly rounded, so that one arm computed alone and all arms computed together get the same bits."""
    value: Any = x
    return cast("Number", math.sqrt(value) if isinstance(value, float) else np.sqrt(value))


def urgency(variance: Number, calls: Number, objective: str) -> Number:
    """What one more call would do for an arm of this variance.

    ``worst-case`` (the paper's): σ²/n, the error variance that it would reduce; greedy choice makes the largest error small.
    ``mean-error``: σ²/n − σ²/(n+1) = σ²/(n(n+1)), the gain in Σ σ_i²/n_i; greedy choice gives Neyman's allocation, n ∝ σ.
    """
    share = variance / calls
    return share if objective == "worst-case" else share / (calls + 1.0)


def empirical_variance(n: Number, total: Number, total_sq: Number) -> Number:
    """σ̂² = Σx²/n − (Σx/n)², the 1/n variance of the paper's eq. (est_var); exact for integer ratings."""
    return (n * total_sq - total * total) / (n * n)


@dataclass(frozen=True, slots=True)
class Uniform:
    """Round robin: the arm with the fewest calls comes next. The paper's baseline; a warm-up that never ends."""

    warm_up: int = 2**40

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:  # noqa: ARG002
        """1 / (n + pending), whatever the ratings were."""
        return 1.0 / (n + pending)


@dataclass(frozen=True, slots=True)
class Robin:
    """ROBIN (the paper's algorithm 1): priority σ_i² / n_i with variances known beforehand; one call an arm first.

    ``variances``, shape (K,), come from a pool of recorded ratings or from an earlier run.
    """

    variances: FloatArray
    objective: str = "worst-case"
    warm_up: int = 1

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:  # noqa: ARG002
        """σ² / (n + pending), whatever the ratings were."""
        return urgency(cast("Number", self.variances[arm]), n + pending, self.objective)


@dataclass(frozen=True, slots=True)
class RobinHood:
    """ROBIN-HOOD (the paper's algorithm 2): priority V̄_i / n_i with V̄_i = σ̂_i² / (1 − √(c / n_i)), eq. (ucb_var).

    The paper gives two readings of c and of the warm-up t0; ``practice`` is the one of its experiments, ``theory`` the one
    of its Theorem 2. See :func:`robin_hood`. Calls under way enlarge only the n_i that V̄_i is divided by: a call whose
    answer is not known yet makes the mean better, not the variance estimate.
    """

    c: float
    warm_up: int
    objective: str = "worst-case"

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:  # noqa: ARG002
        """V̄ / (n + pending), for n > c."""
        return urgency(self.estimate(n, total, total_sq), n + pending, self.objective)

    def estimate(self, n: Number, total: Number, total_sq: Number) -> Number:
        """V̄, for n > c."""
        return empirical_variance(n, total, total_sq) / (1.0 - root(self.c / n))


@dataclass(frozen=True, slots=True)
class Dirichlet:
    """Posterior mean of the variance over n, under a symmetric Dirichlet prior of total mass A = 2 on the L ratings.

    With the posterior mean p̄ = (counts + A/L) / (n + A) of the rating probabilities, the posterior mean of the variance is
    (Σp̄x² − (Σp̄x)²) · (n + A)/(n + A + 1), for which the sums of the ratings are enough. The flat prior is optimistic about
    arms seen a few times only, so that nothing starves; it needs one rating an arm to begin with, and no δ.
    """

    low: int
    high: int
    objective: str = "worst-case"
    warm_up: int = 1

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:  # noqa: ARG002
        """E[σ²] / (n + pending)."""
        return urgency(self.estimate(n, total, total_sq), n + pending, self.objective)

    def estimate(self, n: Number, total: Number, total_sq: Number) -> Number:
        """E[σ²], see :func:`flat_variance`."""
        return flat_variance(n, total, total_sq, self.low, self.high)


@dataclass(frozen=True, slots=True)
class TwoPriors:
    """The geometric mean of two optimistic variance estimates, over n; robin's own.

    The first is :class:`Dirichlet`'s, whose flat prior finds arms that flip rarely, but is too wide on long scales. The
    second takes the pooled within-arm variance g of all arms for a scaled inverse-χ² prior of weight a = 8 and the upper
    tenth of the posterior: (SS + a g) / χ²_{0.1}(n − 1 + a), SS the arm's sum of squares about its mean. It knows what is
    usual on this data, but not what is rare. Where they disagree, their geometric mean is between.

    Where the arms' variances are alike, the differences seen are mostly noise. So the mean is pulled toward g, by
    h = max(0, 1 − CV²), CV the coefficient of variation of the true variances over the arms; it is estimated from how much
    more the s_i² scatter than equal variances would let them: CV² = max(0, T − 2) / mean(n_i − 1), T the mean of
    (n_i − 1)(s_i²/g − 1)², which is 2 for equal variances and Gaussian ratings.

    One rating an arm to begin with, no δ, any integer scale; no arm starves, since no estimate is 0 and every call lowers
    the arm's priority. docs/schedulers.md has what was tried and how it compares. The χ² quantile is Wilson and Hilferty's,
    ν (1 − 2/(9ν) + z √(2/(9ν)))³, exact to 1 % for ν ≥ 8.

    ``pooled`` and ``alike`` are g and h: numbers in a run, shape (runs,) in simulation; before the first fit, the variance
    of a rating drawn evenly from the scale, and 0. ``evidence``: degrees of freedom that these first values count as in a
    fit, e: where other arms compete that are fitted by themselves, a few equal ratings must not starve all of these.
    """

    low: int
    high: int
    objective: str = "worst-case"
    pooled: float | FloatArray | None = None
    alike: float | FloatArray = 0.0
    warm_up: int = 1
    evidence: float = 0.0

    def priority(self, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:  # noqa: ARG002
        """((1 − h) √(E[σ²] · σ²_{0.9}) + h g) / (n + pending)."""
        return urgency(self.estimate(n, total, total_sq), n + pending, self.objective)

    def estimate(self, n: Number, total: Number, total_sq: Number) -> Number:
        """(1 − h) √(E[σ²] · σ²_{0.9}) + h g."""
        even = ((self.high - self.low + 1) ** 2 - 1) / 12
        pooled = per_arm(even if self.pooled is None else self.pooled, n)
        alike = per_arm(self.alike, n)
        freedom = n - 1.0 + _PRIOR_WEIGHT
        spread = 2.0 / (9.0 * freedom)
        cube = 1.0 - spread - _UPPER_TENTH * root(spread)
        squares = total_sq - total * total / n
        usual = (squares + _PRIOR_WEIGHT * pooled) / (freedom * (cube * cube * cube))
        both = root(flat_variance(n, total, total_sq, self.low, self.high) * usual)
        return (1.0 - alike) * both + alike * pooled

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> TwoPriors:
        """The same with g = (Σ_i SS_i + e g_0) / (Σ_i (n_i − 1) + e), g_0 that of an even draw, and h, from these ratings."""
        freedom = np.maximum(n - 1.0, 0.0)
        squares = np.where(freedom > 0, total_sq - total * total / np.maximum(n, 1.0), 0.0)
        known = freedom.sum(axis=-1) > 0
        even = ((self.high - self.low + 1) ** 2 - 1) / 12
        seen, e = freedom.sum(axis=-1), self.evidence
        pooled = np.where(known, (squares.sum(axis=-1) + e * even) / (np.maximum(seen, 1.0) + e), even)
        pooled = np.maximum(pooled, _SMALLEST_POOLED * even)  # constant so far is not constant for ever
        ratio = squares / np.maximum(freedom, 1.0) / pooled[..., None]
        varied = np.maximum((freedom > 0).sum(axis=-1), 1)
        scatter = (freedom * (ratio - 1.0) ** 2).sum(axis=-1) / varied
        cv_squared = np.maximum(0.0, scatter - 2.0) / np.maximum(freedom.sum(axis=-1) / varied, 1.0)
        alike = np.where(
            known, np.maximum(0.0, 1.0 - cv_squared) * np.maximum(seen, 1.0) / (np.maximum(seen, 1.0) + e), 0.0
        )
        if pooled.ndim == 0:
            return replace(self, pooled=float(pooled), alike=float(alike))
        return replace(self, pooled=pooled, alike=alike)


def per_arm(value: float | FloatArray, like: Number) -> Number:
    """A number of each run, laid along the arms of ``like``."""
    found: Any = value
    return cast("Number", found if np.ndim(found) in {0, np.ndim(like)} else found[:, None])


def flat_variance(n: Number, total: Number, total_sq: Number, low: int | FloatArray, high: int | FloatArray) -> Number:
    """The posterior mean of the variance in :class:`Dirichlet`; the ends of the scale may be those of each arm."""
    levels = cast("Number", high - low + 1)
    first = cast("Number", 0.5 * (low + high))  # means of x and of x² over the levels
    second = first * first + (levels * levels - 1) / 12
    weight = n + _FLAT_MASS
    center = (total + _FLAT_MASS * first) / weight
    return ((total_sq + _FLAT_MASS * second) / weight - center * center) * (weight / (weight + 1.0))


def practice_constant(delta: float) -> float:
    """c = 4 ln(1/δ), the constant of the paper's experiments ("t0 is defined to be 4 ln(1/δ)")."""
    return 4.0 * math.log(1.0 / delta)


def theory_warm_up(arms: int, budget: int, delta: float) -> int:
    """t0 = ⌈16 ln(4KB/δ)⌉ calls an arm, the exploration of the paper's Theorem 2."""
    return math.ceil(16.0 * math.log(4.0 * arms * budget / delta))


def smallest_theory_budget(arms: int, delta: float) -> int:
    """The smallest B with B ≥ K · t0(B); it exists, since t0 grows as ln B only."""
    budget = arms
    while (needed := arms * theory_warm_up(arms, budget, delta)) > budget:
        budget = needed
    return budget


@dataclass(frozen=True, slots=True)
class Setup:
    """What a policy may need to know of a run.

    Attributes:
        arms: K.
        budget: B, calls in all.
        scale: the ratings there are.
        delta, mode: ROBIN-HOOD's.
        objective: one of OBJECTIVES.
        variances: known ones, shape (K,), 1/n; None where nothing is known.
        evidence: see :class:`TwoPriors`.
    """

    arms: int
    budget: int
    scale: Scale
    delta: float = DEFAULT_DELTA
    mode: str = "practice"
    objective: str = "worst-case"
    variances: FloatArray | None = None
    evidence: float = 0.0


def make_policy(name: str, setup: Setup) -> Policy:
    """The policy called ``name``, set up for a run.

    Raises:
        InputError: an unknown name or objective, or settings that the policy refuses.
    """
    if name not in _MAKERS:
        raise InputError(
            f'--scheduler "{name}": known schedulers are {", ".join(_MAKERS)}{did_you_mean(name, _MAKERS)}'
        )
    if setup.objective not in OBJECTIVES:
        raise InputError(f'--objective "{setup.objective}": known objectives are {", ".join(OBJECTIVES)}')
    return _MAKERS[name](setup)


def robin_hood(setup: Setup) -> RobinHood:
    """ROBIN-HOOD, set up for a run.

    ``practice``: c = 4 ln(1/δ), and whole rounds until every arm has more than c ratings, t0 = ⌊c⌋ + 1 (20 at δ = 0.007).
    ``theory``: c = 4 ln(4KB/δ) and t0 = ⌈16 ln(4KB/δ)⌉.

    Raises:
        InputError: δ outside (0, 1]; an unknown mode; ``theory`` with a budget below its own warm-up.
    """
    arms, budget, delta = setup.arms, setup.budget, setup.delta
    if not 0.0 < delta <= 1.0:
        raise InputError(f"--delta {delta:g}: a failure probability lies above 0 and at most at 1, for example 0.007")
    if setup.mode == "practice":
        c = practice_constant(delta)
        return RobinHood(c=c, warm_up=math.floor(c) + 1, objective=setup.objective)
    if setup.mode != "theory":
        raise InputError(f'--mode "{setup.mode}": known modes are {", ".join(MODES)}')
    warm_up = theory_warm_up(arms, budget, delta)
    if arms * warm_up > budget:
        raise InputError(
            f"--budget {budget}: ROBIN-HOOD in theory mode needs {warm_up} calls for each of {arms} scores before it adapts, "
            f"{smallest_theory_budget(arms, delta)} calls at the least; raise the budget, or use --mode practice"
        )
    return RobinHood(c=4.0 * math.log(4.0 * arms * budget / delta), warm_up=warm_up, objective=setup.objective)


def robin(setup: Setup) -> Robin:
    """ROBIN, set up for a run; InputError if no variances are known."""
    if setup.variances is None:
        raise InputError(
            "--scheduler robin: needs variances known beforehand; name an earlier run with --variances RUN"
        )
    return Robin(setup.variances, setup.objective)


_MAKERS: dict[str, Callable[[Setup], Policy]] = {
    "robin-hood": robin_hood,
    "robin": robin,
    "uniform": lambda _: Uniform(),
    "two-priors": lambda setup: TwoPriors(setup.scale.low, setup.scale.high, setup.objective, evidence=setup.evidence),
    "dirichlet": lambda setup: Dirichlet(setup.scale.low, setup.scale.high, setup.objective),
}
POLICIES = tuple(_MAKERS)
