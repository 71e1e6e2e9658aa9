"""What policies that spend where a decision is open have in common."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.task import Task
from robin_cli.policies.base import Policy, Setup, flat_variance, of_arms, per_arm, root, squares_within

PRIOR_WEIGHT = 4.0
"""Ratings that the pooled variance counts as."""


@dataclass(frozen=True, slots=True)
class Deciding(Policy):
    """A policy for what is to be decided, with the variances that it compares distances to.

    An arm's variance is V = √(flat · (SS + 4 g) / (n + 3)), the geometric mean of the posterior mean under a flat prior
    (:func:`flat_variance`) and of the variance moderated by g = (Σ SS + v) / (Σ (n − 1) + 1), pooled over the arms of its
    attribute and judge, v being that of a rating drawn evenly from the scale.

    Attributes:
        task: what is to be decided; its arms are those of the run, in simulation those of each world.
        low, high: the ends of each arm's scale, shape (K,).
        pooled: g by ``task.space.kind``, shape (kinds,), in simulation (runs, kinds).
    """

    whole: ClassVar[bool] = True

    task: Task
    low: FloatArray
    high: FloatArray
    pooled: FloatArray
    warm_up: int = 2

    @classmethod
    def of(cls, setup: Setup) -> Self:
        """For the decision of the run; InputError where it has none of this kind."""
        if setup.task is None or not cls.decides(setup.task):
            raise InputError(cls.wants())
        return cls(setup.task, *setup.task.space.ends, _even(setup.task))

    @classmethod
    def decides(cls, task: Task) -> bool:
        """Whether it is a policy for ``task``."""
        raise NotImplementedError

    @classmethod
    def wants(cls) -> str:
        """What is said where there is nothing for it to decide."""
        raise NotImplementedError

    def variance(self, n: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray) -> FloatArray:
        """V of these arms, n ≥ 1."""
        low, high, pooled = self._known(n, arm)
        moderated = (total_sq - total * total / n + PRIOR_WEIGHT * pooled) / (n - 1.0 + PRIOR_WEIGHT)
        return root(flat_variance(n, total, total_sq, low, high) * moderated)

    def _known(self, n: FloatArray, arm: IntArray) -> tuple[float | FloatArray, float | FloatArray, FloatArray]:
        """The ends of the scale and g of these arms: numbers where all arms of a run have the same, for that is far cheaper."""
        if self.pooled.shape[-1] == 1:
            return self.low.item(0), self.high.item(0), per_arm(self.pooled[..., 0], n)
        own = arm % len(self.low)
        return self.low[own], self.high[own], of_arms(self.pooled, self.task.space.kind[own])

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Self:
        """The same with g from these ratings."""
        freedom = np.maximum(n - 1.0, 0.0)
        squares = squares_within(n, total, total_sq)
        of_kind = [self.task.space.kind == each for each in range(self.pooled.shape[-1])]
        within, seen = (
            # np.compress, since x[..., mine] may be laid out the other way: sums in another order end in other bits.
            np.stack([np.compress(mine, each, axis=-1).sum(axis=-1) for mine in of_kind], axis=-1)
            for each in (squares, freedom)
        )
        return replace(self, pooled=(within + _even(self.task)) / (seen + 1.0))

    def responses(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
    ) -> Responses:
        """What competes: the mean of each response over its judges, and what a call of each of its arms would do.

        Args:
            arm: shape (…, responses, judges), any arm where there is none; ``n`` is 0 there, as where there is no rating yet.
        """
        there = n > 0
        count = np.maximum(n, 1.0)
        variance = np.where(there, self.variance(count, total, total_sq, arm), 0.0)
        made = count + pending
        mean, error, gain = total / count, variance / made, variance / (made * (made + 1.0))
        if n.shape[-1] == 1:  # one judge, as in nearly all runs
            return Responses(there[..., 0], mean[..., 0], error[..., 0], gain)
        judges = np.maximum(there.sum(axis=-1), 1)
        return Responses(
            there=np.asarray(there.any(axis=-1)),
            mean=np.where(there, mean, 0.0).sum(axis=-1) / judges,
            error=error.sum(axis=-1) / judges**2,
            gain=gain / (judges**2)[..., None],
        )


class Responses(NamedTuple):
    """The responses of contests.

    Attributes:
        there: which have a rating, shape (…, responses).
        mean: the mean over the judges of the mean rating, shape (…, responses).
        error: the variance of that mean, calls under way counted as made, shape (…, responses).
        gain: by how much one more call of each arm would lower it, shape (…, responses, judges).
    """

    there: NDArray[np.bool_]
    mean: FloatArray
    error: FloatArray
    gain: FloatArray


def _even(task: Task) -> FloatArray:
    """The variance of a rating drawn evenly from the scale, by ``task.space.kind``."""
    return np.repeat([scale.even_variance for scale in task.space.scales], task.space.raters)
