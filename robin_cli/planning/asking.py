"""Who may be asked, and how often at once."""

from __future__ import annotations

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
"""In a round of a run that decides: else an arm whose few ratings happen to lie where nothing is clear takes much of it."""

_IN_A_WINDOW = 128
"""As many of an arm's calls as there are at a time, and more: a call of each arm of a window is made before its next."""

_KEPT_BACK = 8
"""One in so many of an arm's calls is kept back from its window, for where answers held no rating in the end."""


def most_under_way(n: IntArray, streak: IntArray, warm_up: int, share: int) -> IntArray:
    """Compute how many calls of each arm may be under way; below 1 it is not asked at all. All shapes are (arms,).

    - In its warm-up, what its ``share`` leaves, and no more than it has ratings, or RETIRE_AFTER: the first arm to be answered
      would else take what belongs to those whose answers are still to come.
    - After it, a quarter of its ratings: more would be asked on old knowledge.
    - As long as its last judgment brought no rating, or it has none, only so many as could retire it: an arm that nobody can
      rate must not eat the budget meanwhile.

    Args:
        n, streak: see :class:`Arms`.
        warm_up: ratings that the policy wants of every arm first.
        share: calls of a warm-up that the budget suffices for.
    """
    most = np.maximum(1, n // KNOWN_FOR_EACH_PENDING)
    is_first = n < warm_up
    if np.count_nonzero(is_first):
        most = np.where(is_first, np.minimum(share - n, np.maximum(RETIRE_AFTER, n)), most)
    if np.count_nonzero(streak) or np.count_nonzero(n) < len(n):
        most = np.where((streak > 0) | (n == 0), np.minimum(most, RETIRE_AFTER - streak), most)
    return most


def most_in_a_round(n: IntArray, streak: IntArray, warm_up: int, share: int, *, decides: bool) -> IntArray:
    """Compute the same where calls go out in rounds: no answer comes before all of one are chosen, so none is waited for.

    Args:
        decides: something is to be decided: an arm past its warm-up has its ratings tripled in a round at most.
    """
    after = np.maximum(1, ASKED_FOR_EACH_KNOWN * n) if decides else np.full(n.shape, NO_END)
    most = np.where(n < warm_up, share - n, after)
    return np.where(streak > 0, np.minimum(most, RETIRE_AFTER - streak), most)


def most_at_once(n: int, pending: int, streak: int, samples: int, warm_up: int, share: int) -> int:
    """Return how many calls one request of an arm makes, of up to ``samples`` that it may ask for.

    Args:
        share: calls of an arm that are made before its ratings are looked at, see :func:`at_first`.
    """
    most = share - n - pending if n < warm_up else samples
    if streak or not n:
        most = min(most, RETIRE_AFTER - streak - pending)
    return max(1, min(samples, most))


def at_first(warm_up: int, even: int | None) -> int:
    """Return the calls of an arm that are made before its ratings are looked at, where a request makes several.

    They are what the warm-up wants, or half of an even spread if that is more: the other half goes where it is worth most.

    Args:
        warm_up: ratings that the policy wants of every arm.
        even: calls of an arm in an even spread, rounded down; None if there is no end of them.
    """
    return max(1, warm_up) if even is None else max(1, min(warm_up, even), -(-even // 2))


def ratings_a_request(calls: float, warm_up: int, samples: int) -> float:
    """Return the ratings a request on average, where each arm gets ``calls`` and a request asks for up to ``samples``."""
    whole = max(1, round(calls))
    share, made, requests = at_first(warm_up, whole), 0, 0
    while not made or made < warm_up < whole:
        made += min(whole - made, most_at_once(made, 0, 0, samples, warm_up, share))
        requests += 1
    left = (whole - made) / min(samples, whole)  # in full requests, of the arms that are worth them
    return whole / (requests + (left if warm_up < whole else -(-left // 1)))


def give_another_chance(arms: WritableArms, judge: Coordinates) -> None:
    """Ask again what was given up for a judge none of whose answers ever held a rating: the judge was at fault."""
    streak = arms.streaks
    rated = np.bincount(judge, weights=arms.counts) > 0
    streak[~rated[judge] & (arms.unparsed >= RETIRE_AFTER)] = 0


class Windows(NamedTuple):
    """The order of a warm-up in which the calls of an arm follow closely: endpoints still have its prompt in their cache.

    The first round goes over all arms; each window of arms then gets its ``share`` before the next does; what is beyond goes
    over all arms again.

    Attributes:
        of_arm: which window each arm is in, shape (K,).
        share: calls of each arm that it gets within its window.
        even: those of an even spread, rounded down.
    """

    of_arm: IntArray
    share: int
    even: int

    @classmethod
    def of(cls, arms: int, judge: Coordinates | None, even: int, block: int) -> Windows | None:
        """Windows of a hundred or so arms of each judge, or of as many as a ``block`` has, so that none waits for another.

        None if all arms are in one.
        """
        place = np.arange(arms)
        for each in range(0 if judge is None else int(judge.max(initial=0)) + 1):
            mine = np.flatnonzero(judge == each)
            place[mine] = np.arange(len(mine))
        of_arm = place // max(_IN_A_WINDOW, block)
        return cls(of_arm, even - even // _KEPT_BACK, even) if of_arm.any() else None

    def place(self, arm: IntArray, made: FloatArray, unread: IntArray) -> FloatArray:
        """Compute the place of each of ``arm`` in the order, from 0 on.

        Args:
            made: calls that brought a rating or are under way.
            unread: answers that held no rating. They count for the share: the last windows would else have to do without what
                the others took to make up for theirs.
        """
        past = int(self.of_arm.max(initial=0)) + 1
        window = np.where(made + unread >= self.share, past, self.of_arm[arm])
        return np.asarray(made + (made > 0) * (window * self.share))

    def shares(self, made: IntArray) -> IntArray:
        """Count the shares that each arm has, of calls ``made`` with a rating or without: its window's, and the even one."""
        return (made >= self.share).astype(np.int64) + (made >= self.even)


def overtaking(
    urgency: FloatArray, calls: IntArray, judge: Coordinates, waiting: FloatArray, judge_of_all: Coordinates
) -> NDArray[np.bool_]:
    """Tell which arms, if they were asked, would take calls from arms that wait for another judge: a quick one must not.

    An arm may run ahead of a more urgent one by a quarter of its calls; none may begin to adapt while an arm of another judge
    waits in its warm-up.

    Args:
        urgency, calls, judge: of the arms that might be asked, shape (arms,) each.
        waiting: of those that wait for calls under way, or failed, the urgency that they would have; else NEVER, shape (K,).
        judge_of_all: shape (K,).
    """
    judges = np.arange(int(judge_of_all.max(initial=0)) + 1)
    foremost = np.array([waiting[judge_of_all == each].max(initial=-np.inf) for each in judges])
    of_others = np.array([foremost[judges != each].max(initial=-np.inf) for each in judges])
    rival = of_others[judge]
    lead = np.maximum(1, calls // KNOWN_FOR_EACH_PENDING)
    with np.errstate(invalid="ignore"):
        # Without a warm-up, an arm without a call waits while one of another judge is twice as urgent.
        is_behind = np.where(calls > 0, urgency * calls < rival * (calls - lead), urgency < rival / 2)
    return (urgency <= IN_WARM_UP) & ((rival > IN_WARM_UP) | is_behind)
