"""One budget over arms on several scales: errors compare as shares of each scale's width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Number, Policy, Setup
from robin_cli.policies.registry import DEFAULT, make_policy

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

    @property
    def full_name(self) -> str:
        """The name, in errors, of the policy of each scale."""
        return self.policies[0].full_name

    def priority(
        self, n: Number, pending: Number, total: Number, total_sq: Number, arm: IntArray
    ) -> FloatArray:
        """Return the priority by the arm's own policy, over w².

        In simulation ``arm`` numbers through worlds of K arms each; all have the groups in the same order.
        """
        # Each policy computes all entries, and those of others are dropped: in simulation a policy has a number for each run,
        # and a selection of entries would lose that axis.
        world, arm_of_world = np.divmod(arm, len(self.group))
        group, sizes = self.group[arm_of_world], np.bincount(self.group)
        worth = np.zeros(arm.shape)
        for number, (policy, weight) in enumerate(zip(self.policies, self.weights, strict=True)):
            is_of_group = group == number
            local = np.where(is_of_group, world * sizes[number] + self.place[arm_of_world], 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                worth = np.where(
                    is_of_group, policy.priority(n, pending, total, total_sq, local) * weight, worth
                )
        return worth

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> ByScale:
        """Return it with each policy fitted to the ratings of its own arms."""
        fitted = []
        for number, policy in enumerate(self.policies):
            is_of_group = self.group == number
            # np.compress, as n[..., mine] may have another memory order, and sums in another order differ in their last bits.
            fitted.append(
                policy.fitted(
                    *(np.compress(is_of_group, column, axis=-1) for column in (n, total, total_sq))
                )
            )
        return replace(self, policies=tuple(fitted))


def policy_by_scale(name: str, setup: Setup, groups: Sequence[tuple[Scale, IntArray]]) -> Policy:
    """Return the policy called ``name`` for arms of one scale or several.

    Args:
        setup: its ``scale`` is not read; its variances are in squared points of each arm's own scale.
        groups: each scale and its arms; every one of the K arms is in one.

    Raises:
        InputError: as :func:`make_policy`.
    """
    if name == DEFAULT:  # a goal's policy serves all scales
        return make_policy(name, setup)
    made = []
    for scale, arms in groups:
        known = None if setup.variances is None else _of_arms(setup.variances, arms, setup.arms)
        alone = replace(
            setup, scale=scale, variances=known, evidence=_EVIDENCE if len(groups) > 1 else 0.0
        )
        made.append(make_policy(name, alone))
    if len(made) == 1 or made[0].evenly:  # an even spread does not depend on scales
        return made[0]
    group, place = np.zeros(setup.arms, dtype=np.int64), np.zeros(setup.arms, dtype=np.int64)
    for number, (_, arms) in enumerate(groups):
        group[arms], place[arms] = number, np.arange(len(arms))
    weights = tuple(1.0 / (scale.high - scale.low) ** 2 for scale, _ in groups)
    return ByScale(tuple(made), weights, group, place, made[0].warm_up)


def _of_arms(values: FloatArray, arms: IntArray, count: int) -> FloatArray:
    """Return the entries of ``arms`` in each world of ``values``, shape (worlds · count,)."""
    return values.reshape(-1, count)[:, arms].ravel()
