"""One budget over arms that are rated on several scales: errors compare as shares of each scale's width."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.prior import warm_policy
from robin_cli.policies.registry import make_policy, policy_named

_EVIDENCE = 8.0
"""As of a warm start's level: some ten arms asked twice outvote the value from before the first fit."""


@dataclass(frozen=True, slots=True)
class ByScale(Policy):
    """A policy for each scale, of one kind, whose priorities are compared in shares of the scale's width.

    A priority is an error variance, in squared points: on a scale of width w it is 1/w² of that in squared shares. Each
    policy sees the ratings of its own arms as they are, and is fitted to these alone: how much ratings vary on 0 to 100 says
    nothing of 1 to 3.

    Attributes:
        policies: one a scale.
        weights: 1/w² of each.
        group: which of the policies each arm has, shape (K,).
        place: the arm's number among those of its group, shape (K,).
        warm_up: it does not depend on the scale.
    """

    policies: tuple[Policy, ...]
    weights: tuple[float, ...]
    group: IntArray
    place: IntArray
    warm_up: int

    @property
    def said(self) -> str:
        """What an error calls the policy of each scale."""
        return self.policies[0].said

    def priority(
        self, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
    ) -> FloatArray:
        """The priority by the arm's own policy, over w².

        In simulation ``arm`` counts through worlds of K arms each, of which every one has the groups in the same order.
        """
        # Each policy computes all entries, and what belongs to others is left: a policy in simulation has a number for each
        # run, which a part of the entries would no longer stand beside.
        world, own = np.divmod(arm, len(self.group))
        group, sizes = self.group[own], np.bincount(self.group)
        found = np.zeros(arm.shape)
        for number, (policy, weight) in enumerate(zip(self.policies, self.weights, strict=True)):
            mine = group == number
            local = np.where(mine, world * sizes[number] + self.place[own], 0)
            with np.errstate(invalid="ignore", divide="ignore"):
                found = np.where(mine, policy.priority(n, pending, total, total_sq, local) * weight, found)
        return found

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> ByScale:
        """The same with each policy fitted to the ratings of its own arms."""
        fitted = []
        for number, policy in enumerate(self.policies):
            mine = self.group == number
            # np.compress, since n[..., mine] may be laid out the other way: sums in another order end in other bits.
            fitted.append(policy.fitted(*(np.compress(mine, each, axis=-1) for each in (n, total, total_sq))))
        return replace(self, policies=tuple(fitted))


def policy_by_scale(
    name: str, setup: Setup, prior: FloatArray | None, groups: Sequence[tuple[Scale, IntArray]]
) -> Policy:
    """The policy called ``name`` for arms of one scale or several, see :func:`robin_cli.policies.prior.warm_policy`.

    Args:
        setup: its ``scale`` is not read.
        prior: as for :func:`warm_policy`, in squared points of each arm's own scale.
        groups: each scale and its arms, every one of the K arms once.

    Raises:
        InputError: as :func:`warm_policy`.
    """
    if policy_named(name).whole:
        return make_policy(name, setup)
    made = []
    for scale, arms in groups:
        known, begun = (None if each is None else _of_arms(each, arms, setup.arms) for each in (setup.variances, prior))
        alone = replace(setup, scale=scale, variances=known, evidence=_EVIDENCE if len(groups) > 1 else 0.0)
        made.append(warm_policy(name, alone, begun))
    if len(made) == 1 or made[0].evenly:  # which asks evenly, whatever the ratings are
        return made[0]
    group, place = np.zeros(setup.arms, dtype=np.int64), np.zeros(setup.arms, dtype=np.int64)
    for number, (_, arms) in enumerate(groups):
        group[arms], place[arms] = number, np.arange(len(arms))
    weights = tuple(1.0 / (scale.high - scale.low) ** 2 for scale, _ in groups)
    return ByScale(tuple(made), weights, group, place, made[0].warm_up)


def _of_arms(values: FloatArray, arms: IntArray, count: int) -> FloatArray:
    """The entries of ``arms``, of each of the worlds that ``values``, shape (worlds · count,), is of."""
    return values.reshape(-1, count)[:, arms].ravel()
