"""The key of an arm: the smallest is asked next, ties going to the lower arm. One formula for a number and for a column."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.base import Arm, Number, Policy, exited

NEVER = math.inf
"""The key of an arm that may not be asked."""

_WARM_UP = -(2.0**52)  # plus a number of calls: exact in a float64, and below any variance over a count

FIRST = 0.25 * _WARM_UP
"""The key of an arm past its warm-up, or without one, that is to be asked before all others."""

SPREAD = 1e-300
"""Times 1/n added to every priority: lost in rounding unless the priority is 0, where it orders arms that never vary by
their calls, so that a budget with nothing better to do is spread and does not pile up on the first arm."""


def warm_up_key(calls: Number, turn: Number | None = None, arms: int = 1) -> Number:
    """In its warm-up the arm with the fewest ``calls`` comes first, and before every arm past its own.

    Args:
        turn: which of those with as many calls comes first, of as many ``arms`` as there are; None for the lower arm.
    """
    return _WARM_UP + calls if turn is None else _WARM_UP + (calls * arms + turn)


def windowed_key(calls: Number, unread: Number, window: Number, windows: int, share: int) -> Number:
    """The same where the first round goes over all arms, and each window of arms then gets its ``share`` before the next does.

    Calls of one arm follow closely then, and endpoints still have its prompt in their cache. What is beyond the share goes
    over all arms again.

    Args:
        unread: answers of the arm that held no rating. They count for its share: the last windows would else have to do without
            what the others took to make up for theirs.
        window: in which window the arm is, of as many ``windows`` as there are.
        share: calls of each arm that it gets within its window.
    """
    window = window + (calls + unread >= share) * (windows - window)
    return _WARM_UP + calls + (calls > 0) * (window * share)


def adaptive_key(policy: Policy, n: Number, pending: Number, total: Number, total_sq: Number, arm: Arm) -> Number:
    """After its warm-up the arm with the largest priority comes first."""
    try:
        return -(policy.priority(n, pending, total, total_sq, arm) + SPREAD / _counted(n + pending))
    except SystemExit as error:
        raise exited(policy, error) from error


def contest_keys(
    policy: Policy, n: FloatArray, pending: FloatArray, total: FloatArray, total_sq: FloatArray, arm: IntArray
) -> FloatArray:
    """The same of arms that have their priorities together, see :meth:`Policy.contests`; without a rating: any number."""
    try:
        priorities = policy.priorities(n, pending, total, total_sq, arm)
    except SystemExit as error:
        raise exited(policy, error) from error
    return -(priorities + SPREAD / _counted(n + pending))


def _counted(calls: Number) -> Number:
    """``calls``, but half a call where there is none: a policy without a warm-up is asked for arms without any."""
    counted: Any = calls
    return cast("Number", max(counted, 0.5) if isinstance(counted, float) else np.maximum(counted, 0.5))


def is_warm_up(key: float) -> bool:
    """Whether the arm of this key is in its warm-up."""
    return key < 0.5 * _WARM_UP
