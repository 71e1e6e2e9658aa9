"""Policies that spend calls on open decisions: on which side of a threshold each pair is, and which of a group is best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, Sums
from robin_cli.policies.base import (
    WARM_UP,
    Columns,
    Policy,
    Seen,
    Setup,
    flat_variance,
    of_arms,
    per_arm,
    pooled_variance,
    rounded,
    squares_within,
)
from robin_cli.policies.second_opinion import Opinions, gain_of_call, opinions_of, pooled
from robin_cli.policies.task import Task

PRIOR_WEIGHT = 4.0
"""Ratings that the pooled variance counts as."""

_ENOUGH_FOR_TWO = 3
"""Below this number of calls per arm, the warm-up is one call: after two, few would be left to choose by them."""

PRIOR_CALLS = 4.0
"""Calls that damp the growth of a decision's evidence: a few lucky ones predict little."""

_LEAST_SHARE = 0.2
_TIMES = 3
_NEAREST = 0.05
_PARTS = 64
"""f is a whole number of these parts: while it stays the same, a look changes nothing for arms that were not asked."""

_AT_ONCE = 2**13
"""Contests whose course is computed together: intermediate results take twenty numbers for each."""

_FIRST = 0.75 * WARM_UP
"""The priority of the calls that come before all choices, if there are several judges."""

_ENOUGH_ARMS = 50
_LEAST = 0.1
_TINY = float(np.finfo(float).tiny)


class Look(NamedTuple):
    """The state of contests at the last look: ln of the evidence of each, and the ratings of their arms at that time."""

    log: FloatArray
    n: FloatArray


class Course(NamedTuple):
    """The state of arms and their contests.

    Attributes:
        priority: of each arm.
        log: ln of the evidence of each contest at the last look.
        pace: its growth per call.
        since: calls since that look, those under way included.
        part: share of a call's value for each arm of a contest, 0 for a missing one; empty without contests.
    """

    priority: FloatArray
    log: FloatArray = np.empty(0)
    pace: FloatArray = np.empty(0)
    since: FloatArray = np.empty(0)
    part: FloatArray = np.empty(0)


class ContestResponses(NamedTuple):
    """The responses of contests.

    Attributes:
        is_rated: whether each has a rating, shape (…, responses).
        mean: the mean rating, or the pooled score of several judges, shape (…, responses).
        error: its variance, calls under way included, shape (…, responses).
        gain: the value of one more call of each arm, shape (…, responses, judges): by how much it lowers the variance.
        most: the largest gain, shape (…, responses).
    """

    is_rated: NDArray[np.bool_]
    mean: FloatArray
    error: FloatArray
    gain: FloatArray
    most: FloatArray


@dataclass(frozen=True, slots=True)
class Deciding(Policy):
    """A policy for decisions, with the variances to which it compares distances.

    An arm's variance is V = √(flat · (SS + 4 g) / (n + 3)), the geometric mean of the posterior mean under a flat prior
    (:func:`flat_variance`) and of the variance moderated by g, pooled over the arms of its attribute and judge.

    The warm-up is two ratings of each arm, with g = (Σ SS + v) / (Σ (n − 1) + 1), v being the variance of a rating drawn evenly
    from the scale. With a budget below three per arm it is one rating, so that calls are left to choose. g is then a function
    of the arm's mean: a parabola through the arms asked twice or more, by least squares of SS / (n − 1) on x̄ with weights n −
    1, its slope and curvature shrunk by 4 more, and nowhere below a tenth of Σ SS / Σ (n − 1). It is that usual for the scale
    until 50 arms have been asked twice.

    A share of the calls goes to the decisions nearest to certain, as else nearly all are certified at one time, near the end.
    Let ℓ be ln of a decision's evidence and r its growth per call. It is settled after max(L − ℓ, .05) / r more calls,
    L = level − ln f; the fewest come first. f is the share of all decisions that these calls can settle, the nearest first:
    from f = 1, three times, f = max(.2, settled and affordable / all). If the share is less than .2, no call goes there. They
    get s = min(13/32 + f/2, 45/32 − f) of the calls left. All this is computed anew at every look, from the ratings alone.

    With several judges there is no warm-up: the first judge rates everything once, and all judges a random sample. From then on
    scores are pooled (:mod:`robin_cli.policies.second_opinion`), and a call is of the judge that lowers the variance of the
    pooled score most for its price.

    Attributes:
        task: the decision; its arms are those of the run, in simulation those of each world.
        low, high: the ends of each arm's scale, shape (K,).
        pooled: g by ``task.space.kind``, shape (1, kinds), in simulation (1, runs, kinds). If it is a function of the mean,
            (4, …): the coefficients of 1, u and u², and its lower bound; u is the mean on a scale from −1 to 1.
        horizon: the budget, in calls, for f and s.
        prices: of a call of each judge, in any unit, shape (judges,).
        opinions: how the judges differ.
    """

    by_budget: ClassVar[bool] = True

    task: Task
    low: FloatArray
    high: FloatArray
    pooled: FloatArray
    horizon: int
    prices: FloatArray
    opinions: Opinions
    warm_up: int = 2

    @classmethod
    def from_setup(cls, setup: Setup) -> Self:
        task = setup.task
        assert task is not None  # noqa: S101  # the goal decides
        judges = len(task.space.judges)
        warm_up = 1 if setup.budget < _ENOUGH_FOR_TWO * setup.arms else 2
        if judges > 1:
            warm_up = 0
        return cls(
            task,
            *task.space.ends,
            _before(task, warm_up)[None],
            setup.budget,
            np.ones(judges) if setup.prices is None else setup.prices,
            Opinions.before(task),
            warm_up,
        )

    def course(self, arms: Columns, look: Look | None = None) -> Course:
        """Return the priority of arms, numbered within a world, and after a look the growth of their contests' evidence."""
        raise NotImplementedError

    def priority(self, arms: Columns) -> FloatArray:
        arms = arms._replace(arm=arms.arm % len(self.low))
        worth = self.course(arms).priority
        if self.warm_up:
            return worth
        return np.where(self.task.starts[arms.arm] & (arms.made < 1), _FIRST, worth)

    def priorities(self, arms: Columns, seen: Seen) -> tuple[FloatArray, FloatArray]:
        """Return the priority, and 1 / calls left until a decision is settled; −inf if by its course it is."""
        if seen.log.ndim > 1:
            arms = arms._replace(arm=arms.arm % len(self.low))
        contest = self.task.contest[arms.arm if self.contests is None else arms.arm[..., 0, 0]]
        course = self.course(arms, Look(of_arms(seen.log, contest), of_arms(seen.n, arms.arm)))
        missing = seen.level - (course.log + course.pace * course.since)
        near = np.where(missing > 0, course.pace / np.maximum(missing, _NEAREST), -np.inf)
        if self.contests is not None:
            near = np.where(course.part > 0, near[..., None, None] * course.part, -np.inf)
        return course.priority, near

    def sight(
        self,
        log: FloatArray,
        level: FloatArray,
        sums: Sums,
        spent: FloatArray,
        before: Seen | None = None,
    ) -> Seen:
        """Return ``level`` less ln f, −inf if f is 0, and s."""
        log, level = rounded(log), rounded(level)
        courses = self._courses(log, sums, before)
        share = _affordable(*courses, level, np.maximum(self.horizon - spent, 0.0))
        with np.errstate(divide="ignore"):
            level = rounded(np.where(share > 0, level - np.log(share), -np.inf))
        return Seen(log, sums.n, level, _part(share), self, courses)

    def _courses(
        self, log: FloatArray, sums: Sums, before: Seen | None
    ) -> tuple[FloatArray, FloatArray]:
        """Return ``log`` and ``pace`` of the course of all contests; those unchanged since ``before`` are copied."""
        arms = np.arange(len(self.low)) if self.contests is None else self.contests
        logs, paces = np.empty((2, *log.shape))
        is_new = np.ones(len(arms), dtype=np.bool_)
        if before is not None and before.by is self:
            logs, paces = (column.copy() for column in before.courses)
            is_new = (log != before.log).reshape(-1, len(arms)).any(axis=0)
            is_asked = (sums.n != before.n).reshape(-1, len(self.low)).any(axis=0)
            is_new[self.task.contest[is_asked]] = True
        which = np.flatnonzero(is_new)
        for start in range(0, len(which), _AT_ONCE):
            some = which[start : start + _AT_ONCE]
            is_there, arm = arms[some] >= 0, np.maximum(arms[some], 0)
            n, total, total_sq = (np.where(is_there, column[..., arm], 0.0) for column in sums)
            columns = Columns(n, np.zeros(n.shape), total, total_sq, np.broadcast_to(arm, n.shape))
            with np.errstate(invalid="ignore", divide="ignore"):
                course = self.course(columns, Look(log[..., some], n))
            logs[..., some], paces[..., some] = course.log, course.pace
        return logs, paces

    def variance(self, arms: Columns) -> FloatArray:
        """Return V of these arms, n ≥ 1."""
        n, _, total, total_sq, arm = arms
        # If all arms share these, they are numbers, which are faster than columns.
        low: float | FloatArray = self.low.item(0)
        high: float | FloatArray = self.high.item(0)
        parameters: Sequence[Any] = self.pooled[..., 0].tolist()
        if self.pooled.shape[-1] > 1:
            low, high = self.low[arm], self.high[arm]
            parameters = [of_arms(g, self.task.space.kind[arm]) for g in self.pooled]
        elif self.pooled.ndim > 2:
            parameters = [per_arm(g, n) for g in self.pooled[..., 0]]
        pooled, *by_mean = parameters
        if by_mean:
            slope, bend, least = by_mean
            place = (2.0 * total / n - (low + high)) / (high - low)
            pooled = np.maximum(pooled + (slope + bend * place) * place, least)
        moderated = (total_sq - total * total / n + PRIOR_WEIGHT * pooled) / (
            n + (PRIOR_WEIGHT - 1.0)
        )
        if not self.warm_up:
            return np.asarray(moderated)
        return np.asarray(np.sqrt(flat_variance(n, total, total_sq, low, high) * moderated))

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Self:
        count = np.maximum(n, 1.0)
        place = (2.0 * total / count - (self.low + self.high)) / (self.high - self.low)
        columns = (np.maximum(n - 1.0, 0.0), squares_within(n, total, total_sq), place)
        by_kind = []
        for kind, first in enumerate(_before(self.task, self.warm_up)):
            is_of_kind = self.task.space.kind == kind
            # np.compress, as x[..., mine] may have another memory order, and sums in another order differ in their last bits.
            freedom, squares, where = (
                np.compress(is_of_kind, column, axis=-1) for column in columns
            )
            by_kind.append(
                pooled_variance(freedom, squares, first)[None]
                if self.warm_up > 1
                else _by_mean(freedom, squares, where, first)
            )
        fitted = replace(self, pooled=rounded(np.stack(by_kind, axis=-1)))
        if self.warm_up:
            return fitted
        arm = np.broadcast_to(np.arange(len(self.low)), n.shape)
        errors = fitted.variance(Columns(count, n, total, total_sq, arm)) / count
        opinions = opinions_of(self.task, Sums(n, total, total_sq), errors)
        return replace(fitted, opinions=Opinions(*map(rounded, opinions)))

    def responses(self, arms: Columns) -> ContestResponses:
        """Return the competing responses: the score of each, and the gain by a call of each of its arms.

        One without a rating by some judges is taken to vary as its mean by the others says.
        """
        n, pending, total, total_sq, arm = arms
        is_rated, count = n > 0, np.maximum(n, 1.0)
        if n.shape[-1] == 1:
            made = count + pending
            variance = self.variance(arms._replace(n=count)) * is_rated
            mean, error, gain = total / count, variance / made, variance / (made * (made + 1.0))
            return ContestResponses(
                is_rated[..., 0], mean[..., 0], error[..., 0], gain, gain[..., 0]
            )
        offset, between = (of_arms(column, self.task.space.kind[arm]) for column in self.opinions)
        by_others = total.sum(axis=-1, keepdims=True) / np.maximum(n.sum(axis=-1), 1.0)[..., None]
        usual = np.where(is_rated, total, by_others), np.where(is_rated, total_sq, by_others**2)
        variance, made = self.variance(Columns(count, pending, *usual, arm)), n + pending
        with np.errstate(divide="ignore"):
            errors = np.where(is_rated, variance / made, np.inf)
        scores = pooled(total / count - offset, errors, between)
        gain = gain_of_call(errors, variance / (made + 1.0), between) / self.prices
        has_rating = np.asarray(is_rated.any(axis=-1))
        gain = np.where(has_rating[..., None], gain, 0.0)
        mean, error = (np.where(has_rating, column, 0.0) for column in (scores.score, scores.error))
        return ContestResponses(has_rating, mean, error, gain, gain.max(axis=-1))


@dataclass(frozen=True, slots=True)
class Apt(Deciding):
    """The arm with the smallest √n (|x̄ − τ| + ε) / √V comes next, τ being its threshold and ε the margin: APT over variances.

    With several judges x̄ is the mean of their means and V/n its variance; the next call is of the judge that lowers it most.

    Source: Locatelli, Gutzeit and Carpentier, "An optimal algorithm for the thresholding bandit problem", ICML 2016, with the
    index √n (|x̄ − τ| + ε) for sub-Gaussian arms of one scale; division by √V makes arms of different noise comparable.
    """

    @property
    def contests(self) -> IntArray | None:
        """The arms of each pair, if several judges rate it."""
        return self.task.contests if self.task.space.raters > 1 else None

    def course(self, arms: Columns, look: Look | None = None) -> Course:
        """Return V / ((n + pending) (|x̄ − τ| + ε)²), the inverse squared index, and r = (ℓ + 1.2 + 4 o) / (n + 4).

        o = D² / (V + D²), D being |x̄ − τ| + ε: about the evidence that a call brings, which dominates r while n is small.
        With several judges the index is that of their mean, shared among the judges by the gain of a call.
        """
        made, margin = arms.made, self.task.margin[arms.arm]
        threshold = self.task.threshold[arms.arm]
        if self.contests is None:
            square = (np.abs(arms.total / arms.n - threshold) + margin) ** 2
            variance, calls, part = self.variance(arms), made, np.empty(0)
            priority = variance / (made * square)
        else:
            responses = self.responses(arms)
            square = (np.abs(responses.mean - threshold[..., 0]) + margin[..., 0]) ** 2
            part = responses.gain / np.maximum(responses.most[..., None], _TINY)
            priority = np.asarray((responses.error / square)[..., None] * part)
            calls, square = made.sum(axis=(-2, -1)), square[..., 0]
            variance = responses.error[..., 0] * calls
        if look is None:
            return Course(priority)
        then = look.n if self.contests is None else look.n.sum(axis=(-2, -1))
        odds = square / (variance + square)
        pace = (np.maximum(look.log, 0.0) + 1.2 + PRIOR_CALLS * odds) / (then + PRIOR_CALLS)
        return Course(priority, look.log, pace, calls - then, part)


@dataclass(frozen=True, slots=True)
class Lucb(Deciding):
    """The group with the smallest z = (x̄_lead − x̄_b + ε) / √(V_lead/n_lead + V_b/n_b), over all rivals b, is next.

    Of the leader and that rival, the next call is of the one whose error variance it lowers most, by V/(n (n + 1)).

    Source: leader and challenger of LUCB, Kalyanakrishnan, Tewari, Auer and Stone, "PAC subset selection in stochastic
    multi-armed bandits", ICML 2012, with z in place of confidence bounds, over many groups that share one budget.
    """

    @property
    def contests(self) -> IntArray | None:
        return self.task.contests

    def course(self, arms: Columns, look: Look | None = None) -> Course:
        """Return 1/z² of each rival and the leader, and r = (.35 z² + ℓ + 2.5) / 2 (N + 4), N being the calls of both.

        Without evidence, .35 z² − 2.5 stands for ℓ. 1/z² is shared among the two responses and their judges by the gain of a
        call; the leader has the largest of its values with the rivals.
        """
        responses = self.responses(arms)
        mean = np.where(responses.is_rated, responses.mean, -np.inf)
        most = responses.most
        # take and put count through all responses
        starts = np.arange(0, mean.size, mean.shape[-1]).reshape(mean.shape[:-1])
        lead = starts + mean.argmax(axis=-1)
        best, error, gain = (
            column.take(lead)[..., None] for column in (mean, responses.error, most)
        )
        ahead = best - responses.mean + self.task.margin[arms.arm[..., :1, 0]]
        urgency = responses.is_rated * (error + responses.error) / (ahead * ahead)
        urgency.put(lead, 0.0)
        largest = np.maximum(np.maximum(gain, most), _TINY)
        share = urgency / largest
        share.put(lead, share.max(axis=-1))
        priority = np.asarray(share[..., None] * responses.gain)
        if look is None:
            return Course(priority)
        rival = starts + urgency.argmax(axis=-1)
        has_rival = rival != lead
        both = np.array((lead, rival))
        calls, of_look = (column[..., 0].take(both) for column in (arms.made, look.n))
        made, then = (column[0] + has_rival * column[1] for column in (calls, of_look))
        by_z = 0.35 / np.maximum(urgency.take(rival), _TINY)
        log = np.where(look.log > -np.inf, look.log, by_z - 2.5)
        pace = 0.5 * (
            by_z / (made + PRIOR_CALLS) + np.maximum(log + 2.5, 0.0) / (then + PRIOR_CALLS)
        )
        of_responses = responses.gain.reshape(-1, responses.gain.shape[-1])
        part = np.zeros(of_responses.shape)
        part[both] = of_responses[both] / largest.take(rival)[..., None]
        return Course(priority, log, pace, made - then, part.reshape(responses.gain.shape))


def _affordable(
    log: FloatArray, pace: FloatArray, level: FloatArray, calls: FloatArray
) -> FloatArray:
    """Return f, shape (…, 1); ``calls``: those left, of the same shape."""
    share = reached = np.ones(level.shape)
    for _ in range(_TIMES):
        missing = level - np.log(share) - log
        left = np.where(missing > 0, np.maximum(missing, _NEAREST) / pace, 0.0)
        left.sort(axis=-1)
        is_within = np.cumsum(left, axis=-1, out=left) <= calls * _part(share)
        reached = is_within.mean(axis=-1, keepdims=True)
        last, share = share, np.maximum(_LEAST_SHARE, np.round(_PARTS * reached) / _PARTS)
        if (share == last).all():
            break
    return np.where(reached < _LEAST_SHARE, 0.0, share)


def _part(share: FloatArray) -> FloatArray:
    """Return s, see :class:`Deciding`."""
    return np.minimum(0.40625 + share / 2.0, 1.40625 - share)


def _before(task: Task, warm_up: int) -> FloatArray:
    """Return g before the first fit, by ``task.space.kind``; see :class:`Deciding`."""
    scales = task.space.scales
    variances = [scale.even_variance if warm_up > 1 else scale.usual_variance for scale in scales]
    return np.repeat(variances, task.space.raters)


def _by_mean(
    freedom: FloatArray, squares: FloatArray, place: FloatArray, before: float
) -> FloatArray:
    """Return g as a parabola of the mean, if enough arms were asked twice; shape (4, …) from (…, K)."""
    moments = [(freedom * place**power).sum(axis=-1) for power in range(5)]
    right = np.stack([(squares * place**power).sum(axis=-1) for power in range(3)], axis=-1)
    left = np.stack([np.stack(moments[row : row + 3], axis=-1) for row in range(3)], axis=-2)
    left = left + np.diag([0.0, PRIOR_WEIGHT, PRIOR_WEIGHT])
    left[..., 0, 0] = np.maximum(left[..., 0, 0], 1.0)
    parabola = np.linalg.solve(left, right[..., None])[..., 0]
    least = _LEAST * np.maximum(right[..., 0] / left[..., 0, 0], _LEAST * before)
    coefficients = np.stack([*np.moveaxis(parabola, -1, 0), least])
    constant = np.multiply.outer([before, 0.0, 0.0, 0.0], np.ones(least.shape))
    return np.where((freedom > 0).sum(axis=-1) < _ENOUGH_ARMS, constant, coefficients)
