"""The interface of policies, and the estimates that they share.

Symbols, as in the paper "LLM-as-Judge on a Budget": K arms, budget B, n_i ratings of arm i, σ̂_i² their 1/n variance, δ the
failure probability.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.model.records import Scale
from robin_cli.policies.matches import Matches
from robin_cli.policies.systems import Systems
from robin_cli.policies.task import Task

MODES = ("practice", "theory")

WARM_UP = 2.0**52
"""Less a number of calls: the urgency of an arm in its warm-up; exact in a float64, and above any variance over a count."""

_FLAT_MASS = 2.0

DEFAULT_MARGIN = 0.025
"""A fortieth of the scale, as for ratings."""


@dataclass(frozen=True, slots=True)
class Setup:
    """The facts about a run that a policy may need.

    Attributes:
        arms: K.
        budget: B, calls in all.
        scale: the possible ratings.
        delta, mode: ROBIN-HOOD's; the paper's authors tuned this δ on their own pools.
        variances: known 1/n variances, shape (K,), in squared points; None if unknown.
        evidence: see :class:`TwoPriors`.
        task: the decision; None without one.
        systems: the systems to compare; None without any.
        matches: the comparisons of a pairwise run; None for other runs.
        prices: of a call of each judge, in any unit, shape (judges,); None if they are not known.
        margin: in a pairwise run, a probability: a smaller difference of two preferences does not matter for the best response.
        by_scale: each scale and its arms; not needed if all arms have ``scale``.
    """

    arms: int
    budget: int
    scale: Scale
    delta: float = 0.007
    mode: str = "practice"
    variances: FloatArray | None = None
    evidence: float = 0.0
    task: Task | None = None
    systems: Systems | None = None
    matches: Matches | None = None
    prices: FloatArray | None = None
    margin: float = DEFAULT_MARGIN
    by_scale: Sequence[tuple[Scale, IntArray]] = ()


class Columns(NamedTuple):
    """Some arms of a run, shape (arms,) each; a simulation puts an axis of runs first.

    For policies with contests they are whole contests, shape (…, responses, judges). In place of a missing arm, ``n`` is 0, as
    without a rating, and the others are any number.

    Attributes:
        n: ratings.
        pending: calls under way. They count as made: their number is known, if not their answers.
        total, total_sq: Σ x and Σ x² over the ratings.
        arm: numbers of the arms, for policies with a prior about each; a simulation of several worlds numbers through them.
    """

    n: FloatArray
    pending: FloatArray
    total: FloatArray
    total_sq: FloatArray
    arm: IntArray

    @property
    def made(self) -> FloatArray:
        """The calls made, those under way included."""
        return self.n + self.pending


class Seen(NamedTuple):
    """The state of the decisions at a look, for policies that ask about those nearest to certain.

    Attributes:
        log: ln of the evidence for each contest's leader, shape (…, contests); −inf or too large if it is not known.
        n: ratings of each arm at that time, shape (…, K).
        level: ln of the evidence that each decision is to reach, shape (…, 1); −inf if no call goes by it.
        part: share of the calls for the decisions nearest to it, in 128ths, shape (…, 1); above 0 and below 1.
        by: the policy that computed it; ``courses`` are its intermediate results, for its next look.
    """

    log: FloatArray
    n: FloatArray
    level: FloatArray
    part: FloatArray
    by: Policy | None = None
    courses: tuple[FloatArray, ...] = ()


class Policy:
    """A rule for the next call: it gives each arm a priority. A new one is a subclass, named in the group ``robin.policies``.

    robin reads these traits, never a policy's name:
        evenly: it asks all arms equally often, whatever the ratings.
        needs_variances: it takes known variances (``setup.variances``) for the true ones.
        starves: it may never ask again about an arm whose first ratings agreed, so that its error stays.
        adapts: whether an arm's own ratings decide how often it is asked. Its mean is then a little biased: an arm whose first
            ratings agree by chance keeps them.
        by_budget: its first calls depend on the whole budget.
        asks_on: whoever names it wants every call made, also of a judge that repeats itself.
    """

    __slots__ = ()
    evenly: ClassVar[bool] = False
    needs_variances: ClassVar[bool] = False
    starves: ClassVar[bool] = False
    adapts: ClassVar[bool] = True
    by_budget: ClassVar[bool] = False
    asks_on: ClassVar[bool] = False

    warm_up: int
    """Ratings of every arm, in whole rounds, before ``priority`` decides; at least 1, for comparisons 0.

    With 0, ``priority`` is also computed for arms without a rating.
    """

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        """Return the policy for a run; InputError for settings that it refuses."""
        raise NotImplementedError

    def priority(self, arms: Columns) -> FloatArray:
        """Return the value of a call of each arm, in the shape of the columns: the largest is asked first.

        It is finite for n ≥ ``warm_up`` and, if positive, strictly falls in ``pending``. It is not used for an arm below its
        warm-up.
        """
        raise NotImplementedError

    def priorities(self, arms: Columns, seen: Seen) -> tuple[FloatArray, FloatArray]:
        """Return the priority of each arm, and how near its decision is to certain; some calls go by each.

        Only policies with :meth:`sight` have it. Nearness is −inf for an arm that no such call should go to.
        """
        raise NotImplementedError

    def sight(
        self,
        log: FloatArray,
        level: FloatArray,
        sums: Sums,
        spent: FloatArray,
        before: Seen | None = None,
    ) -> Seen | None:
        """Return what the policy keeps of a look at the decisions; None if no call goes to those nearest to certain.

        Args:
            log: see :class:`Seen`.
            level: ln of the evidence that settles a decision if all can be certified, shape (…, 1).
            sums: of all arms, shape (…, K).
            spent: calls, shape (…, 1).
            before: the result of the previous look; it may save time, and must not change the result.
        """
        del log, level, sums, spent, before
        return None

    @property
    def contests(self) -> IntArray | None:
        """Arms whose priorities depend on each other, shape (contests, responses, judges); None if each has its own.

        Every arm is in it once; −1 stands for none.
        """
        return None

    @property
    def turn(self) -> IntArray | None:
        """The place of each arm in a round of the warm-up, from 0, shape (K,); None for the order of the data."""
        return None

    @property
    def full_name(self) -> str:
        """Its name in errors: its class, with the module."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    @property
    def refits(self) -> bool:
        """Whether :meth:`fitted` is to be called from time to time, as the policy learns from all arms together."""
        return type(self).fitted is not Policy.fitted

    @property
    def fits_long(self) -> bool:
        """Whether :meth:`fitted` takes so long that calls should go on meanwhile."""
        return False

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Policy:  # noqa: ARG002
        """Return the policy after these ratings of all arms; shape (…, K), leading axes are separate runs."""
        return self


class Estimating(Policy):
    """A policy whose priority is σ²/n by its estimate of σ²: a greedy choice makes the largest error small."""

    __slots__ = ()

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """Return the estimate of σ² after these ratings, n ≥ ``warm_up``; at least 0."""
        raise NotImplementedError

    def priority(self, arms: Columns) -> FloatArray:
        """Return the estimate over n + pending: the error variance that one more call would reduce."""
        return self.estimate(arms.n, arms.total, arms.total_sq) / arms.made


def rounded(x: FloatArray) -> FloatArray:
    """Return ``x`` with 40 bits of mantissa: processors differ in the last of 53, and a choice must not depend on them."""
    bits = np.asarray(x, np.float64).view(np.int64)
    return ((bits + (1 << 11)) & ~np.int64((1 << 12) - 1)).view(np.float64)


def flat_variance(
    n: FloatArray,
    total: FloatArray,
    total_sq: FloatArray,
    low: float | FloatArray,
    high: float | FloatArray,
) -> FloatArray:
    """Return the posterior mean of the variance under a flat Dirichlet prior; the ends may be those of each arm's scale."""
    levels = high - low + 1
    first = 0.5 * (low + high)  # means of x and of x² over the levels
    return variance_under(n, total, total_sq, first, first * first + (levels * levels - 1) / 12)


def variance_under(
    n: FloatArray,
    total: FloatArray,
    total_sq: FloatArray,
    first: float | FloatArray,
    second: float | FloatArray,
) -> FloatArray:
    """Return the posterior mean of the variance under a Dirichlet prior of mass 2 with these means of x and of x²."""
    weight = n + _FLAT_MASS
    center = (total + _FLAT_MASS * first) / weight
    return ((total_sq + _FLAT_MASS * second) / weight - center * center) * (weight / (weight + 1.0))


def squares_within(n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
    """Return SS of each arm: the sum of the squares of its ratings about their mean; 0 below two ratings."""
    return np.where(n > 1, np.maximum(total_sq - total * total / np.maximum(n, 1.0), 0.0), 0.0)


def pooled_variance(freedom: FloatArray, squares: FloatArray, even: float) -> FloatArray:
    """Return g = (Σ SS + v) / (Σ (n − 1) + 1) over the last axis, v being ``even``: the pooled variance within arms."""
    return np.asarray((squares.sum(axis=-1) + even) / (freedom.sum(axis=-1) + 1.0))


def per_arm(value: float | FloatArray, like: FloatArray) -> FloatArray:
    """Return a number of a run, or of each run, broadcast along the arms of ``like``, whose first axis is then the runs."""
    column = np.asarray(value)
    return column.reshape(-1, *[1] * (np.ndim(like) - 1)) if column.ndim else column


def of_arms(values: FloatArray, place: NDArray[np.integer]) -> FloatArray:
    """Return the entries at ``place`` of ``values``, shape (K,); or (runs, K), if ``place`` has the runs as first axis."""
    if values.ndim == 1:
        return np.asarray(values[place])
    run = np.arange(len(values)).reshape(-1, *[1] * (place.ndim - 1))
    return np.asarray(values[run, place])
