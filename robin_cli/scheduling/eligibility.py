"""Who may be asked now: how many calls of an arm may be under way, and what the warm-ups still want of the budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from robin_cli.model.arms import Arms, IntArray, WritableArms
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.space import Coordinates
from robin_cli.scheduling.budget import CallBudget

KNOWN_FOR_EACH_PENDING = 4

NO_END = 2**62

ASKED_FOR_EACH_KNOWN = 2
"""In a round of a run that decides: else an arm whose few ratings happen to lie where nothing is clear takes much of it."""

MostPending = Callable[[int, int, int, int], int]
"""How many calls of an arm may be under way, of its ``n``, its ``streak``, its warm-up and the share of that."""


def most_pending(n: int, streak: int, warm_up: int, share: int) -> int:
    """How many calls of an arm may be under way; while there are so many it must wait, and below 1 it is not asked at all.

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
    most = min(share - n, max(RETIRE_AFTER, n)) if n < warm_up else max(1, n // KNOWN_FOR_EACH_PENDING)
    return min(most, RETIRE_AFTER - streak) if streak or not n else most


def most_pending_in_a_round(n: int, streak: int, warm_up: int, share: int) -> int:
    """The same where calls go out in rounds: no answer comes before all of a round are chosen, so none is waited for.
    An arm with ``streak`` judgments without a rating since its last may have what could retire it, as always.
    """
    most = share - n if n < warm_up else NO_END
    return min(most, RETIRE_AFTER - streak) if streak else most


def most_pending_in_a_deciding_round(n: int, streak: int, warm_up: int, share: int) -> int:
    """The same where something is to be decided: an arm past its warm-up has its ratings tripled in a round at most."""
    most = most_pending_in_a_round(n, streak, warm_up, share)
    return most if n < warm_up else min(most, max(1, ASKED_FOR_EACH_KNOWN * n))


def most_pending_of_all(arms: Arms, warm_up: int, share: int, of_one: MostPending = most_pending) -> IntArray:
    """The same of all arms, shape (K,): reckoned once for each pair of ``n`` and ``streak`` that there is."""
    streak = np.minimum(arms.streaks, RETIRE_AFTER)
    kinds, kind_of = np.unique(arms.counts * (RETIRE_AFTER + 1) + streak, return_inverse=True)
    each = (divmod(kind, RETIRE_AFTER + 1) for kind in kinds.tolist())
    return np.array([of_one(n, streak, warm_up, share) for n, streak in each], dtype=np.int64)[kind_of]


def most_at_once(n: int, pending: int, streak: int, warm_up: int, share: int) -> int:
    """How many calls to make at once of an arm that may be asked: up to its warm-up's end, then a quarter of its ratings."""
    most = share - n if n < warm_up else n // KNOWN_FOR_EACH_PENDING
    if streak or not n:
        most = min(most, RETIRE_AFTER - streak)
    return max(1, most - pending)


def ratings_a_request(calls: float, warm_up: int, samples: int) -> float:
    """How many ratings a request asks for on average, where each arm gets ``calls`` and a request at most ``samples``."""
    whole = max(1, round(calls))
    made = requests = 0
    while made < whole:
        if made >= max(warm_up, samples * KNOWN_FOR_EACH_PENDING):
            return whole / (requests + (whole - made) / samples)
        if 0 < made < warm_up:  # at once: an even spread is a warm-up of a whole budget
            rest = min(warm_up, whole) - made
            requests, made = requests - (-rest // samples), made + rest
            continue
        made += min(samples, whole - made, most_at_once(made, 0, 0, warm_up, min(warm_up, whole)))
        requests += 1
    return whole / requests


class WarmUp:
    """The ratings that every arm gets first, and the calls that these still want: nobody else may have them.

    A warm-up that the budget does not suffice for is cut short evenly.

    Attributes:
        calls: of each arm, as the policy wants them.
        share: of each arm, as the budget has them.
        owed: of all arms together, within their shares; only where there is a budget.
    """

    def __init__(self, arms: Arms, calls: int, budget: CallBudget) -> None:
        self._arms = arms
        self._budget = budget
        self.calls = calls
        count = max(1, len(arms))
        self.share = min(calls, -(-budget.total // count)) if budget.is_limited else calls
        self.whole_share = min(calls, budget.total // count) if budget.is_limited else calls
        self.owed = self._owed_to_all()

    def owed_to(self, made: int, streak: int) -> int:
        """Calls that the warm-up of an arm still wants, of which ``made`` brought a rating or are under way."""
        return max(0, self.share - made) if streak < RETIRE_AFTER else 0

    def raise_share(self) -> bool:
        """Divide what is left of the budget among the arms that are not given up; whether that gives them more."""
        kept = ~self._arms.retired_mask
        if self.share >= self.calls or not kept.any():
            return False
        made = _made(self._arms)[kept]
        share = min(self.calls, -(-(self._budget.available + int(made.sum())) // len(made)))
        if share <= self.share:
            return False
        self.share = share
        self.owed = self._owed_to_all()
        return True

    def recount(self) -> None:
        """Reckon anew what is owed, after calls of several arms were counted as under way."""
        self.owed = self._owed_to_all()

    def _owed_to_all(self) -> int:
        if not self._budget.is_limited:
            return 0
        owed = np.maximum(0, self.share - _made(self._arms))
        return int(owed[~self._arms.retired_mask].sum())


def _made(arms: Arms) -> IntArray:
    """Calls of each arm that brought a rating or are under way."""
    return arms.counts + arms.under_way


def give_another_chance(arms: WritableArms, judge: Coordinates) -> None:
    """Ask again what was given up for a judge none of whose answers ever held a rating: the judge was at fault."""
    streak = arms.streaks
    rated = np.bincount(judge, weights=arms.counts) > 0
    streak[~rated[judge] & (arms.unparsed >= RETIRE_AFTER)] = 0
