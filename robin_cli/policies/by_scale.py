"""One budget over arms on several scales: errors compare as shares of each scale's width."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import Columns, Policy, Setup

_EVIDENCE = 8.0
"""About ten arms asked twice outweigh the value before the first fit."""


@dataclass(frozen=True, slots=True)
class ByScale(Policy):
    """A policy of one kind for each scale; their priorities compare in shares of the scale's width.

    A priority is an error variance in squared points: on a scale of width w, times 1/w² it is in squared shares. Each policy
    sees the unchanged ratings of its own arms and is fitted to these alone: the variance of ratings on 0 to 100 says nothing
    about that on 1 to 3.

    Attributes:
        policies: one for each scale.
        weights: 1/w² of each.
        group: number of each arm's policy, shape (K,).
        place: number of each arm in its group, shape (K,).
        warm_up: the same for all scales.
    """

    policies: tuple[Policy, ...]
    weights: tuple[float, ...]
    group: IntArray
    place: IntArray
    warm_up: int

    @classmethod
    def of_each(cls, setup: Setup, make: Callable[[Setup], Policy]) -> Self:
        """Return the policies that ``make`` makes for the arms of each scale."""
        made, variances = [], setup.variances
        group, place = np.zeros((2, setup.arms), dtype=np.int64)
        for number, (scale, arms) in enumerate(setup.by_scale):
            group[arms], place[arms] = number, np.arange(len(arms))
            if setup.variances is not None:  # of each world, one after another
                variances = setup.variances.reshape(-1, setup.arms)[:, arms].ravel()
            alone = replace(
                setup, scale=scale, variances=variances, evidence=_EVIDENCE, by_scale=()
            )
            made.append(make(alone))
        weights = tuple(1.0 / (scale.high - scale.low) ** 2 for scale, _ in setup.by_scale)
        return cls(tuple(made), weights, group, place, made[0].warm_up)

    @property
    def full_name(self) -> str:
        return self.policies[0].full_name

    def priority(self, arms: Columns) -> FloatArray:
        """Return the priority by the arm's own policy, over w².

        In simulation ``arm`` numbers through worlds of K arms each; all have the groups in the same order.
        """
        # Each policy computes all entries, and those of others are dropped: in simulation a policy has a number for each run,
        # and a selection of entries would lose that axis.
        world, arm = np.divmod(arms.arm, len(self.group))
        group, sizes = self.group[arm], np.bincount(self.group)
        worth = np.zeros(arm.shape)
        for number, (policy, weight) in enumerate(zip(self.policies, self.weights, strict=True)):
            is_of_group = group == number
            local = np.where(is_of_group, world * sizes[number] + self.place[arm], 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                of_policy = policy.priority(arms._replace(arm=local)) * weight
            worth = np.where(is_of_group, of_policy, worth)
        return worth

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> ByScale:
        fitted = []
        for number, policy in enumerate(self.policies):
            is_of_group = self.group == number
            # np.compress, as n[..., mine] may have another memory order, and sums in another order differ in their last bits.
            columns = (np.compress(is_of_group, column, axis=-1) for column in (n, total, total_sq))
            fitted.append(policy.fitted(*columns))
        return replace(self, policies=tuple(fitted))
