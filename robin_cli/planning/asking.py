"""Limits on the calls of an arm: which arms may be asked, and how often at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.space import Coordinates
from robin_cli.planning.urgency import IN_WARM_UP

KNOWN_FOR_EACH_PENDING = 4

NO_END = 2**62

ASKED_FOR_EACH_KNOWN = 2
"""For a round of a run that decides: otherwise an arm whose few ratings lie where nothing is clear takes much of it."""

_IN_A_WINDOW = 128
"""More than the calls under way at a time, so that each arm of a window gets a call before any gets its next."""

_KEPT_BACK = 8
"""One in this number of an arm's calls is held back from its window, for arms whose answers held no rating."""


def most_under_way(n: IntArray, streak: IntArray, warm_up: int, share: int) -> IntArray:
    """Return the most calls of each arm under way; an arm with less than 1 is not asked at all. All shapes are (arms,).

    - In its warm-up, the rest of its ``share``, and at most its number of ratings, or RETIRE_AFTER if that is more: the first
      arm to be answered would otherwise take the calls of those with slower answers.
    - After it, a quarter of its ratings: more would be chosen on old knowledge.
    - While its last judgment has no rating, or it has none at all, the number that could retire it: an arm that cannot be rated
      must not use up the budget meanwhile.

    Args:
        n, streak: see :class:`Arms`.
        warm_up: ratings of every arm that the policy needs first.
        share: calls of each arm in a warm-up that the budget allows.
    """
    most = np.maximum(1, n // KNOWN_FOR_EACH_PENDING)
    is_first = n < warm_up
    if np.count_nonzero(is_first):
        most = np.where(is_first, np.minimum(share - n, np.maximum(RETIRE_AFTER, n)), most)
    if np.count_nonzero(streak) or np.count_nonzero(n) < len(n):
        most = np.where((streak > 0) | (n == 0), np.minimum(most, RETIRE_AFTER - streak), most)
    return most


def most_in_a_round(
    n: IntArray, streak: IntArray, warm_up: int, share: int, *, decides: bool
) -> IntArray:
    """Return the same for calls in rounds: all of a round are chosen before an answer comes, so none waits for one.

    Args:
        decides: whether the run decides: a round then at most triples the ratings of an arm past its warm-up.
    """
    after = np.maximum(1, ASKED_FOR_EACH_KNOWN * n) if decides else np.full(n.shape, NO_END)
    most = np.where(n < warm_up, share - n, after)
    return np.where(streak > 0, np.minimum(most, RETIRE_AFTER - streak), most)


def most_at_once(n: int, pending: int, streak: int, samples: int, warm_up: int, share: int) -> int:
    """Return the number of calls in one request of an arm, at most ``samples``.

    Args:
        share: calls of an arm before its ratings count, see :func:`at_first`.
    """
    most = share - n - pending if n < warm_up else samples
    if streak or not n:
        most = min(most, RETIRE_AFTER - streak - pending)
    return max(1, min(samples, most))


def at_first(warm_up: int, even: int | None) -> int:
    """Return the calls of an arm before its ratings count, if a request makes several.

    They are those of the warm-up, or half of an even spread if that is more: the other half goes where it is worth most.

    Args:
        warm_up: ratings of every arm that the policy needs first.
        even: calls of an arm in an even spread, rounded down; None for an unlimited budget.
    """
    return max(1, warm_up) if even is None else max(1, min(warm_up, even), -(-even // 2))


def ratings_a_request(calls: float, warm_up: int, samples: int) -> float:
    """Return the mean ratings of a request, if each arm gets ``calls`` and a request asks for at most ``samples``."""
    whole = max(1, round(calls))
    share, made, requests = at_first(warm_up, whole), 0, 0
    while not made or made < warm_up < whole:
        made += min(whole - made, most_at_once(made, 0, 0, samples, warm_up, share))
        requests += 1
    left = (whole - made) / min(samples, whole)  # in full requests, of the arms that get most
    return whole / (requests + (left if warm_up < whole else -(-left // 1)))


def reopen_arms(arms: WritableArms, judge: Coordinates, failed: Sequence[int] = ()) -> None:
    """Reopen arms that were given up, perhaps by the judge's fault: the ``failed`` ones, and all of a judge that rated none."""
    is_rated = np.bincount(judge, weights=arms.counts) > 0
    streak = arms.streaks
    streak[(streak >= RETIRE_AFTER) & ~is_rated[judge]] = 0
    streak[list(failed)] = 0


class Windows(NamedTuple):
    """An order of the warm-up in which the calls of an arm follow closely: endpoints still have its prompt in their cache.

    The first round goes over all arms. Each window of arms then gets its ``share`` before the next one does. Calls beyond that
    go over all arms again.

    Attributes:
        of_arm: number of each arm's window, shape (K,).
        share: calls of each arm within its window.
        even: calls of each arm in an even spread, rounded down.
    """

    of_arm: IntArray
    share: int
    even: int

    @classmethod
    def of(cls, arms: int, judge: Coordinates | None, even: int, block: int) -> Windows | None:
        """Return windows of about a hundred arms of each judge, or of a ``block`` if that is more, so that none waits.

        None if one window holds all arms.
        """
        place = np.arange(arms)
        for each in range(0 if judge is None else int(judge.max(initial=0)) + 1):
            mine = np.flatnonzero(judge == each)
            place[mine] = np.arange(len(mine))
        of_arm = place // max(_IN_A_WINDOW, block)
        return cls(of_arm, even - even // _KEPT_BACK, even) if of_arm.any() else None

    def place(self, arm: IntArray, made: FloatArray, unread: IntArray) -> FloatArray:
        """Return the place of each of ``arm`` in the order, from 0.

        Args:
            made: calls that brought a rating or are under way.
            unread: answers without a rating. They count for the share: otherwise the other windows would make up for theirs
                with the calls of the last ones.
        """
        past = int(self.of_arm.max(initial=0)) + 1
        window = np.where(made + unread >= self.share, past, self.of_arm[arm])
        return np.asarray(made + (made > 0) * (window * self.share))

    def shares(self, made: IntArray) -> IntArray:
        """Return the number of shares that ``made`` calls of an arm complete: its window's, and the even one."""
        return (made >= self.share).astype(np.int64) + (made >= self.even)


def overtaking(
    urgency: FloatArray,
    calls: IntArray,
    judge: Coordinates,
    waiting: FloatArray,
    judge_of_all: Coordinates,
) -> NDArray[np.bool_]:
    """Return whether each arm would take calls from arms that wait for another judge: a quick judge must not.

    An arm may be ahead of a more urgent one by a quarter of its calls; none may begin to adapt while an arm of another judge
    waits in its warm-up.

    Args:
        urgency, calls, judge: of the arms that might be asked, shape (arms,) each.
        waiting: the urgency of arms that wait for calls under way, or failed; NEVER for the others, shape (K,).
        judge_of_all: shape (K,).
    """
    judges = np.arange(int(judge_of_all.max(initial=0)) + 1)
    foremost = np.array([waiting[judge_of_all == each].max(initial=-np.inf) for each in judges])
    of_others = np.array([foremost[judges != each].max(initial=-np.inf) for each in judges])
    rival = of_others[judge]
    lead = np.maximum(1, calls // KNOWN_FOR_EACH_PENDING)
    with np.errstate(invalid="ignore"):
        # Without a warm-up, an arm without a call waits while one of another judge is twice as urgent.
        is_behind = np.where(
            calls > 0, urgency * calls < rival * (calls - lead), urgency < rival / 2
        )
    return (urgency <= IN_WARM_UP) & ((rival > IN_WARM_UP) | is_behind)
