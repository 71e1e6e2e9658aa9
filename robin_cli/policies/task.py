"""The decision of a run over its arms: the arms on which each decision depends."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.decision import Decision
from robin_cli.model.errors import InputError
from robin_cli.model.space import ArmSpace

MOST_IN_A_GROUP = 1_000
"""The most responses in a group."""

_SAMPLED, _SAMPLED_PART = 20, 20
"""Pairs that all judges rate: so many, or one in so many if that is more."""

_MOST_PLACES = 10_000_000
"""The most places of a table with a row for each group, as wide as the largest, if over nine in ten would be empty."""


@dataclass(frozen=True)
class Task:
    """A decision over all arms of a run.

    Attributes:
        group: the group of each pair, numbered from 0, shape (pairs,); None if every pair is decided by itself.
    """

    decision: Decision
    space: ArmSpace
    group: IntArray | None = None

    @cached_property
    def contests(self) -> IntArray:
        """Arms that compete for a call, shape (contests, responses, judges), −1 if a group has fewer responses.

        For the best of each group there is one for each group and attribute. Groups with one response come last, and are no
        decisions. Else there is one for each pair and attribute.

        Raises:
            InputError: a group has too many responses, or far more than the others.
        """
        space, raters = self.space, np.arange(self.space.raters)
        if self.group is None:
            return np.arange(len(space)).reshape(-1, 1, len(raters))
        sizes = np.bincount(self.group)
        if sizes.max(initial=0) > MOST_IN_A_GROUP:
            raise InputError(
                f"--decide best: a group has {sizes.max():,} responses, and at most {MOST_IN_A_GROUP:,} can be compared; name "
                "a column of smaller groups with --group"
            )
        places = len(sizes) * int(sizes.max(initial=1))
        if places > max(_MOST_PLACES, 10 * len(self.group)):
            raise InputError(
                f"--decide best: the largest of {len(sizes):,} groups has {sizes.max():,} responses, the others "
                f"{(len(self.group) - sizes.max()) / (len(sizes) - 1):.1f} on average: too unequal to be compared in "
                "one run; judge the largest in a run of its own"
            )
        pairs = members_of(self.group)
        pairs = pairs[np.argsort(sizes < 2, kind="stable")]
        attributes = np.arange(len(space.attributes))
        arms = space.arm_at(pairs[:, None, :, None], attributes[:, None, None]) + raters
        of_groups = np.where(pairs[:, None, :, None] < 0, -1, arms)
        return of_groups.reshape(-1, *of_groups.shape[2:])

    @cached_property
    def contest(self) -> IntArray:
        """The row of :attr:`contests` of each arm, shape (K,)."""
        return contest_of(self.contests, len(self.space))

    @cached_property
    def decisions(self) -> int:
        """Number of decisions: pairs, or groups of at least two responses for each attribute."""
        if self.group is None:
            return len(self.space.pair_ids)
        return int((np.bincount(self.group) >= 2).sum()) * len(self.space.attributes)

    @cached_property
    def sample(self) -> tuple[IntArray, IntArray]:
        """The random pairs that all judges rate, group by group, and where each group begins: all are one for thresholds."""
        pairs = len(self.space.pair_ids)
        group = np.arange(pairs) if self.group is None else self.group
        order = np.random.default_rng(0).permutation(int(group.max(initial=-1)) + 1)
        by_group = order[group].argsort(kind="stable")
        enough = sampled_of(pairs)
        place = order[group][by_group]
        sampled = by_group[place <= place[enough - 1]]
        if self.group is None:
            return sampled, np.zeros(1, dtype=np.int64)
        return sampled, np.flatnonzero(np.diff(group[sampled], prepend=-1))

    @cached_property
    def starts(self) -> NDArray[np.bool_]:
        """Whether each arm is asked before any is chosen: those of the first judge and of the sample, shape (K,)."""
        first = self.space.judge == 0
        return np.asarray(first | np.isin(self.space.pair, self.sample[0]))

    @cached_property
    def threshold(self) -> FloatArray:
        """τ of each arm, in points, shape (K,); nan for the best of a group."""
        criteria = {
            criterion.attribute: criterion.threshold for criterion in self.decision.criteria
        }
        return np.array([criteria.get(name, np.nan) for name in self.space.attributes])[
            self.space.attribute
        ]

    @cached_property
    def margin(self) -> FloatArray:
        """ε of each arm, in points, shape (K,)."""
        return np.array(self.decision.margins)[self.space.attribute]


def sampled_of(pairs: int) -> int:
    """Return how many of so many pairs all judges rate, if groups do not make it more."""
    return min(pairs, max(_SAMPLED, -(-pairs // _SAMPLED_PART)))


def members_of(group: IntArray) -> IntArray:
    """Return the members of each group in rising order, a row for each, and −1 where it has fewer than others."""
    sizes = np.bincount(group)
    members = np.full((len(sizes), sizes.max(initial=1)), -1, dtype=np.int64)
    members[np.arange(members.shape[1]) < sizes[:, None]] = np.argsort(group, kind="stable")
    return members


def contest_of(members: IntArray, arms: int) -> IntArray:
    """Return each arm's row in ``members``, such as :attr:`Task.contests`, shape (arms,)."""
    is_there = members >= 0
    contest = np.empty(arms, dtype=np.int64)
    contest[members[is_there]] = np.nonzero(is_there)[0]
    return contest
