"""Policies: from the numbers of an arm to the priority of its next call; pure numpy, no I/O, no clock, no await.

A policy sees counts and sums, never the run. All of them are columns: one entry per arm in a run, shape (arms,); with a leading
axis of runs in a simulation.

Symbols, as in the paper "LLM-as-Judge on a Budget": K arms, budget B, n_i ratings of arm i, σ̂_i² their 1/n variance, δ
the failure probability.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError, shown
from robin_cli.model.matches import Matches
from robin_cli.model.records import Scale
from robin_cli.model.systems import Systems
from robin_cli.model.task import Task

Number = FloatArray
"""The name by which policies of packages know a column."""

OBJECTIVES = ("worst-case", "mean-error")
"""Of scores; a run that compares systems has one of its own, COMPARE."""

MODES = ("practice", "theory")

WARM_UP = 2.0**52
"""Less a number of calls: the urgency of an arm in its warm-up; exact in a float64, and above any variance over a count."""

_FLAT_MASS = 2.0

DEFAULT_MARGIN = 0.025
"""A fortieth of the scale, as for ratings."""

DEFAULT_DELTA = 0.007
"""The paper's δ, tuned by its authors on their own pools."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What a policy may need to know of a run.

    Attributes:
        arms: K.
        budget: B, calls in all.
        scale: the ratings there are.
        delta, mode: ROBIN-HOOD's.
        objective: one of OBJECTIVES, or COMPARE.
        variances: known ones, shape (K,), 1/n; None where nothing is known.
        evidence: see :class:`TwoPriors`.
        task: what is to be decided; None where nothing is.
        systems: what is to be compared; None where nothing is.
        matches: which responses the comparisons of a pairwise run are of; None for other runs.
        margin: of those, by how much two preferences must differ for it to matter which of two responses is taken for the best,
            as a probability.
        prefer: of decisions, whether calls go to what is nearest to "certain" as well, or all to what is least clear: "right".
    """

    arms: int
    budget: int
    scale: Scale
    delta: float = DEFAULT_DELTA
    mode: str = "practice"
    objective: str = "worst-case"
    variances: FloatArray | None = None
    evidence: float = 0.0
    task: Task | None = None
    systems: Systems | None = None
    matches: Matches | None = None
    margin: float = DEFAULT_MARGIN
    prefer: str = "certain"


class Seen(NamedTuple):
    """What a look at the decisions found, for policies that ask what is nearest to certain.

    Attributes:
        log: ln of the evidence for what each contest leans to, shape (…, contests); −inf or too large where it is not known.
        n: ratings of each arm at that time, shape (…, K).
        level: ln of the evidence that each decision is to have, shape (…, 1); −inf where none is asked for.
        part: of the calls that go to what is nearest to that, in 128ths, shape (…, 1); above 0 and below 1.
        by: the policy that saw it, and ``courses``, what it computed of each contest: for its next look.
    """

    log: FloatArray
    n: FloatArray
    level: FloatArray
    part: FloatArray
    by: Policy | None = None
    courses: tuple[FloatArray, ...] = ()


class Choice(NamedTuple):
    """The policy that a run gets in place of one that only chooses: its name, and why it is that one."""

    name: str
    why: str


class Policy:
    """Which arm is worth a call most. A new one is a subclass, named in an entry point of the group ``robin.policies``.

    Traits, which the rest of robin asks for instead of a policy's name:
        evenly: it asks all arms equally often, whatever the ratings are.
        refits: it learns from all arms together, see :meth:`fitted`.
        fits_long: that takes so long that calls are to go on meanwhile.
        needs_variances: it takes variances that are known beforehand (``setup.variances``) for the true ones.
        takes_prior: variances of an earlier run may be its prior, see :mod:`robin_cli.policies.prior`.
        starves: it may never ask an arm again whose first ratings agreed, so that its error comes down no further.
        among: names of the policies that it chooses among, where it is none itself, see :meth:`stands_for`.
        whole: it knows the arms of all scales at once (of ``setup.task``), so that there is one policy for them.
        contests: arms whose priorities hang together.
        adapts: whether an arm's own ratings say how often it is asked. Then its mean is a little off on average, for one whose
            first ratings agree by chance is left with them.
        chooses: of many systems it chooses which are compared, by the verdicts so far. Then errors of their ranking are larger
            than they look.
        compares: it is for runs that compare systems (``setup.systems``), and no other policy is.
        by_budget: it spends the first part of a budget otherwise than a smaller budget.
        pairwise: it is for runs that compare two responses at a time (``setup.matches``); no other but the even spread is.
        retires: a priority of −inf says that an arm is asked no more.
        turn: the order of the arms in each round of the warm-up.
    """

    __slots__ = ()
    evenly: ClassVar[bool] = False
    needs_variances: ClassVar[bool] = False
    takes_prior: ClassVar[bool] = False
    starves: ClassVar[bool] = False
    among: ClassVar[tuple[str, ...]] = ()
    whole: ClassVar[bool] = False
    adapts: ClassVar[bool] = True
    compares: ClassVar[bool] = False
    chooses: ClassVar[bool] = False
    pairwise: ClassVar[bool] = False
    retires: ClassVar[bool] = False
    by_budget: ClassVar[bool] = False

    warm_up: int
    """Ratings that every arm gets, in whole rounds, before ``priority`` is asked; at least 1, of a pairwise policy 0.

    With 0, ``priority`` is asked of arms without a rating as well.
    """

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """The policy, set up for a run; InputError for settings that it refuses."""
        raise NotImplementedError

    @classmethod
    def stands_for(cls, setup: Setup) -> Choice | None:  # noqa: ARG003
        """The policy that a run of this setup gets in its place; None: itself."""
        return None

    @classmethod
    def theorem(cls, mode: str) -> int | None:  # noqa: ARG003
        """Which theorem of the paper bounds its error in this mode: 1, 2, or None."""
        return None

    def priority(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
    ) -> FloatArray:
        """Compute how much a call of each arm is worth: the largest is asked first. All arguments have one shape.

        It is finite for n ≥ ``warm_up`` and strictly falls in ``pending`` where positive. What it is for an arm below its
        warm-up nobody reads.

        Args:
            n: ratings received.
            pending: calls under way, which count as made: their answers cannot be known, but their number is.
            total: Σ x over the ratings.
            total_sq: Σ x² over the ratings.
            arm: which arms; for policies that know something of each beforehand. In a simulation of several worlds it counts
                through them. Where the policy has contests, the shape is (…, responses, judges), of whole contests; ``n`` is 0
                where there is no arm.
        """
        raise NotImplementedError

    def priorities(
        self,
        n: FloatArray,
        pending: FloatArray,
        total: FloatArray,
        total_sq: FloatArray,
        arm: IntArray,
        seen: Seen,  # noqa: ARG002
    ) -> tuple[FloatArray, FloatArray]:
        """Compute the priority of each arm, and how near a decision is that hangs on it: some calls go by either.

        Asked only of policies with :meth:`sight`. The arguments are those of :meth:`priority`; nearness is −inf where there is
        none to ask for.
        """
        found = self.priority(n, pending, total, total_sq, arm)
        return found, np.full(found.shape, -np.inf)

    def sight(
        self,
        log: FloatArray,  # noqa: ARG002
        level: FloatArray,  # noqa: ARG002
        sums: tuple[FloatArray, FloatArray, FloatArray],  # noqa: ARG002
        spent: FloatArray,  # noqa: ARG002
        before: Seen | None = None,  # noqa: ARG002
    ) -> Seen | None:
        """What a look at the decisions is to the policy; None where it does not ask for what is nearest to certain.

        Args:
            log: see :class:`Seen`.
            level: ln of the evidence at which a decision is settled if all can be certified, shape (…, 1).
            sums: n, Σx and Σx² of all arms, shape (…, K).
            spent: calls, shape (…, 1).
            before: what the look before this came to; nothing but the time that it takes may depend on it.
        """
        return None

    @property
    def contests(self) -> IntArray | None:
        """Arms that have their priorities together, shape (contests, responses, judges); None where each has its own.

        Every arm is there once; −1 where there is none.
        """
        return None

    @property
    def turn(self) -> IntArray | None:
        """The place of each arm in a round of the warm-up, from 0 on, shape (K,); None for the order of the data."""
        return None

    @property
    def said(self) -> str:
        """What an error calls it: its class, with the module that it is of."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    @property
    def refits(self) -> bool:
        """Whether :meth:`fitted` is to be asked, now and then."""
        return type(self).fitted is not Policy.fitted

    @property
    def fits_long(self) -> bool:
        """Whether :meth:`fitted` takes so long that calls are to go on meanwhile."""
        return False

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Policy:  # noqa: ARG002
        """The policy after these ratings of all arms; shape (…, K), the leading axes being separate runs."""
        return self


def exited(policy: Policy, error: SystemExit) -> InputError:
    """The error for a policy that ends the program: loose in the loop of a run, it would do so without a word."""
    return InputError(
        f"--scheduler: the policy {policy.said} failed: SystemExit: {shown(error)}. Mend it, or take another --scheduler"
    )


class Estimating(Policy):
    """A policy whose priority is :func:`urgency` of what it takes each arm's variance for."""

    __slots__ = ()
    takes_prior: ClassVar[bool] = True

    objective: str
    """One of OBJECTIVES."""

    def estimate(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
        """What stands for σ² after these ratings, n ≥ ``warm_up``; at least 0."""
        raise NotImplementedError

    def priority(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, _arm: IntArray
    ) -> FloatArray:
        """The estimate over n + pending, see :func:`urgency`."""
        return urgency(self.estimate(n, total, total_sq), n + pending, self.objective)

    def prior_weight(self) -> float:
        """Ratings of an arm that a prior variance counts as; docs/evidence/schedulers.md has what other weights do."""
        return 8.0


def root(x: FloatArray) -> FloatArray:
    """√x; correctly rounded, so that it has the same bits for one arm as among many."""
    return np.sqrt(x)


def urgency(variance: FloatArray, calls: FloatArray, objective: str) -> FloatArray:
    """What one more call would do for an arm of this variance.

    ``worst-case`` (the paper's): σ²/n, the error variance that it would reduce; greedy choice makes the largest error small.
    ``mean-error``: σ²/n − σ²/(n+1) = σ²/(n(n+1)), the gain in Σ σ_i²/n_i; greedy choice gives Neyman's allocation, n ∝ σ,
    which minimises the error of the average over all arms, and their mean squared error. The average of the absolute errors
    would want n ∝ σ^(2/3).
    """
    share = variance / calls
    return share if objective == "worst-case" else share / (calls + 1.0)


def empirical_variance(n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
    """σ̂² = Σx²/n − (Σx/n)², the 1/n variance of the paper's eq. (est_var); exact for integer ratings."""
    return (n * total_sq - total * total) / (n * n)


def flat_variance(
    n: FloatArray, total: FloatArray, total_sq: FloatArray, low: float | FloatArray, high: float | FloatArray
) -> FloatArray:
    """The posterior mean of the variance, under a flat Dirichlet prior; the ends of the scale may be those of each arm."""
    levels = high - low + 1
    first = 0.5 * (low + high)  # means of x and of x² over the levels
    return variance_under(n, total, total_sq, first, first * first + (levels * levels - 1) / 12)


def variance_under(
    n: FloatArray, total: FloatArray, total_sq: FloatArray, first: float | FloatArray, second: float | FloatArray
) -> FloatArray:
    """The posterior mean of the variance, under a Dirichlet prior of mass 2 with these means of x and of x²."""
    weight = n + _FLAT_MASS
    center = (total + _FLAT_MASS * first) / weight
    return ((total_sq + _FLAT_MASS * second) / weight - center * center) * (weight / (weight + 1.0))


def squares_within(n: FloatArray, total: FloatArray, total_sq: FloatArray) -> FloatArray:
    """SS of each arm: the sum of the squares of its ratings about their mean; 0 where it has one, or none."""
    return np.where(n > 1, np.maximum(total_sq - total * total / np.maximum(n, 1.0), 0.0), 0.0)


def pooled_variance(n: FloatArray, total: FloatArray, total_sq: FloatArray, even: float) -> FloatArray:
    """g = (Σ SS + v) / (Σ (n − 1) + 1) over the last axis, v being ``even``: the variance within arms, as one of all."""
    squares, freedom = squares_within(n, total, total_sq), np.maximum(n - 1.0, 0.0)
    return np.asarray((squares.sum(axis=-1) + even) / (freedom.sum(axis=-1) + 1.0))


def per_arm(value: float | FloatArray, like: FloatArray) -> FloatArray:
    """A number of a run, or of each run, laid along the arms of ``like``, whose first axis is then that of the runs."""
    found = np.asarray(value)
    return found.reshape(-1, *[1] * (np.ndim(like) - 1)) if found.ndim else found


def of_arms(values: FloatArray, place: NDArray[np.integer]) -> FloatArray:
    """The entries at ``place`` of ``values``, shape (K,); or (runs, K), with an axis of the runs first in ``place``."""
    if values.ndim == 1:
        return np.asarray(values[place])
    run = np.arange(len(values)).reshape(-1, *[1] * (place.ndim - 1))
    return np.asarray(values[run, place])
