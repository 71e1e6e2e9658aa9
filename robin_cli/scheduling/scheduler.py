"""Which arm is asked next: ask() gives leave to call it, tell() takes what came of that."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.refits import next_refit
from robin_cli.model.space import Coordinates
from robin_cli.policies.base import Arm, Number, Policy, exited
from robin_cli.scheduling.budget import CallBudget
from robin_cli.scheduling.costs import Costs
from robin_cli.scheduling.eligibility import (
    WarmUp,
    most_at_once,
    most_pending,
    most_pending_in_a_deciding_round,
    most_pending_in_a_round,
    most_pending_of_all,
)
from robin_cli.scheduling.heap import (
    FIRST,
    NEVER,
    Fairness,
    LazyHeap,
    adaptive_key,
    contest_keys,
    is_warm_up,
    warm_up_key,
    windowed_key,
)
from robin_cli.scheduling.stopping import StoppingRule, Verdicts, next_look, nothing_left

_IN_A_WINDOW = 128
"""As many of an arm's calls as there are at a time, and more: a call of each arm of a window is made before its next."""

_KEPT_BACK = 8
"""One in so many of an arm's calls is kept back from its window, for where answers held no rating in the end."""

_ARMS_AT_ONCE, _CONTESTS_AT_ONCE = 2**18, 2**15
"""Of which keys are computed together: policies make some ten or twenty columns on the way to their priorities."""


Found = TypeVar("Found")


class Elsewhere(Protocol):
    """Where long work is done."""

    def __call__(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work``, in another thread if need be, and ``then`` take what it found, where the scheduler is asked."""


def _here(work: Callable[[], Found], then: Callable[[Found], None]) -> None:
    then(work())


class Idle(Enum):
    """Why ask() gives no ticket: nothing until some call under way is told, or nothing ever again."""

    WAIT = "wait"
    EXHAUSTED = "exhausted"


_FEW_ARMS = 50_000
"""So many are put in another order within some hundredths of a second."""

_Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]
"""Ratings, calls under way, sums and sums of squares of all arms, shape (K,) each."""


class Ticket(NamedTuple):
    """Leave to make ``calls`` calls of ``arm``, numbered from ``draw`` on; to be told once, whatever comes of them."""

    arm: int
    draw: int
    calls: int


class Scheduler(Protocol):
    """The interface between a run and the choice of its next call.

    Attributes:
        elsewhere: fits a pooled policy; until that is done, calls are chosen by the fit before.
    """

    elsewhere: Elsewhere

    @property
    def budget(self) -> CallBudget:
        """The calls there are: reserved by ask(), settled by tell()."""

    def ask(self, at_most: int = 1) -> Ticket | Idle:
        """The arm to call next and how often, 1 to ``at_most``, with its calls reserved; or why there is none."""

    def tell(self, ticket: Ticket, outcome: Outcome) -> None:
        """What came of the calls of ``ticket``."""

    def shorten(self, ticket: Ticket, calls: int) -> Ticket:
        """The first ``calls`` calls of ``ticket``; the others are given back."""


class _Windows(NamedTuple):
    """The windows of arms that get their share one after another, see :func:`~robin_cli.scheduling.heap.windowed_key`."""

    of_arm: IntArray
    windows: int
    share: int

    @classmethod
    def of(cls, arms: int, judge: Coordinates | None, share: int) -> _Windows | None:
        """Windows of a hundred or so arms of each judge, so that none waits for another; None where all arms are in one."""
        judge = np.zeros(arms, np.int32) if judge is None else judge
        place = np.empty(arms, np.int64)
        for each in range(int(judge.max(initial=0)) + 1):
            mine = np.flatnonzero(judge == each)
            place[mine] = np.arange(len(mine))
        of_arm = place // _IN_A_WINDOW
        windows = int(of_arm.max(initial=0)) + 1
        return None if windows == 1 else cls(of_arm, windows, share)


class _Contests(NamedTuple):
    """The contests of a policy, see :attr:`Policy.contests`, and the number of each arm's, shape (K,)."""

    members: IntArray
    number: IntArray

    @classmethod
    def of(cls, members: IntArray, count: int) -> _Contests:
        number = np.empty(count, dtype=np.int64)
        there = members >= 0
        number[members[there]] = np.broadcast_to(np.arange(len(members))[:, None, None], members.shape)[there]
        return cls(members, number)


class HeapScheduler:
    """Asks the arm of highest priority among those that may be asked; O(log K) a choice where the paper's scan costs O(K).

    It is the only writer of the arms. Who may be asked is said in :mod:`~robin_cli.scheduling.eligibility`, and between several
    judges in :mod:`~robin_cli.scheduling.heap`. Besides, an arm past its warm-up is not asked while what is left of the
    budget is owed to the warm-ups of others; and one whose calls failed for now is deferred: it is asked again after another
    was rated, or if no other is left. Where there is something to decide, an arm on which nothing open hangs is not asked.

    Args:
        arms: the numbers to choose by, none of whose calls is under way.
        policy: fitted already, if it is a pooled one and there are ratings.
        budget: calls there are for all arms together; None: no end of them.
        judge: which judge each arm is asked of, shape (K,); None where there is one.
        stop: as long as it says so nothing is asked, and with nothing under way the run is over; looked at in every ask().
        verdicts: what is decided by the ratings so far; None where nothing is to be decided.
        closely: have the calls of an arm in its warm-up follow each other closely, where that makes no difference to how many
            it gets; else the arm with the fewest comes first.
        round_depth: calls of each arm in the first round, where calls go out in rounds and all of one are chosen before any
            answer comes; a round begins when nothing is under way. None where each is chosen by all answers so far.
        costs: what calls cost, as learned when a pooled policy was fitted last; None where each counts as one.
        together: so many arms, one behind the other, are asked equally often: none gets a further call while another of them
            has fewer, made or under way, nor once another was given up; and where one was asked, those without a call come
            next.
        first_fit: ratings at which a pooled policy is fitted first, see :attr:`ArmSpace.first_fit`; None: as many as arms.
    """

    def __init__(
        self,
        arms: WritableArms,
        policy: Policy,
        *,
        budget: int | None = None,
        judge: Coordinates | None = None,
        stop: StoppingRule | None = None,
        verdicts: Verdicts | None = None,
        closely: bool = False,
        round_depth: int | None = None,
        costs: Costs | None = None,
        first_fit: int | None = None,
        together: int = 1,
    ) -> None:
        self._arms = arms
        self.arms = arms.read_only()
        self.budget = CallBudget(budget, arms.spent)
        self.elsewhere: Elsewhere = _here
        # Arms that got another place since a fit was begun; None: all, or there is none.
        self._moved: set[int] | None = None
        self.idle = False
        self.warming_up = False  # whether the last call asked for was one of a warm-up
        self._policy = policy
        self._turn = policy.turn
        self._contests = None if policy.contests is None else _Contests.of(policy.contests, len(arms))
        self._siblings = together
        self._columns = (self.arms.counts, self.arms.under_way, self.arms.totals, self.arms.totals_sq)
        self._verdicts = verdicts
        self._looks_at: float = NEVER if verdicts is None else next_look(0, len(arms))
        self._has_news = False  # whether there are answers that the decisions were not looked at with
        if verdicts is not None and self.budget.spent >= self._looks_at:
            verdicts.look(self.arms)
            self._looks_at = next_look(self.budget.spent, len(arms))
        self._warm_up = WarmUp(self.arms, max(policy.warm_up, round_depth or 0), self.budget)
        self._in_rounds = round_depth is not None
        in_a_round = most_pending_in_a_round if verdicts is None else most_pending_in_a_deciding_round
        self._most_pending = in_a_round if self._in_rounds else most_pending
        self._fairness = Fairness(judge) if judge is not None and judge.any() else None
        self._windows = None
        self._to_share_out: list[int] = []  # shares that not all arms have yet, rising
        # A policy with turns is not indifferent to the order, nor is one that learns meanwhile.
        if closely and budget is not None and round_depth is None and self._turn is None and not policy.refits:
            share = self._warm_up.whole_share
            self._windows = _Windows.of(len(arms), judge, share - share // _KEPT_BACK)
            self._to_share_out = sorted(
                {0 if self._windows is None else self._windows.share, self._warm_up.whole_share}
            )
        self._stop = stop
        self._deferred: set[int] = set()
        self._rated = int(arms.counts.sum())
        self._costs = costs
        self._learns = policy.refits or costs is not None
        self._first_fit = len(arms) if first_fit is None else first_fit
        self._refit_at = next_refit(self._rated, self._first_fit) if self._learns and not self._in_rounds else NEVER
        self._rated_before = -1  # ratings there were when the last round was begun
        self._build()

    def ask(self, at_most: int = 1) -> Ticket | Idle:
        """Leave to call the arm of highest priority, ties to the lower index; its calls are reserved.

        Returns:
            A ticket for 1 to ``at_most`` calls; ``Idle.WAIT`` if every arm must wait for calls under way; ``Idle.EXHAUSTED`` if
            the run is over.
        """
        arms, budget = self._arms, self.budget
        if self._in_rounds and not budget.reserved:
            self._begin_round()
        arm = self._next() if budget.available and not self._is_enough() else None
        if arm is None and self._has_news and not budget.reserved and budget.available:
            self._look()  # what was given up since may leave more to be asked of the others
            arm = None if self._is_enough() else self._next()
        self.idle = arm is None
        if arm is None:
            return Idle.EXHAUSTED if nothing_left(self) else Idle.WAIT
        calls = 1 if at_most == 1 else min(at_most, self._at_once(arm), budget.available)
        if self.warming_up:
            self._warm_up.owed -= calls
        draw = arms.next_draw[arm]
        arms.next_draw[arm] = draw + calls
        arms.pending[arm] += calls
        budget.reserve(calls)
        if self._fairness is None and self._contests is None and self._siblings == 1:
            self._queue.move_back(arm)
            if self._moved is not None:
                self._moved.add(arm)
        else:
            self._place(arm)
        return Ticket(arm, draw, calls)

    def tell(self, ticket: Ticket, outcome: Outcome) -> None:
        """What came of the calls of ``ticket``: the arms, the budget and what is asked next follow from it."""
        arm, draw, calls = ticket
        arms = self._arms
        rated, pending, streak = arms.n[arm], arms.pending[arm], arms.streak[arm]
        if not 0 < calls <= pending:
            raise ValueError(f"arm {arm} has {pending} calls under way, not {calls}")
        arms.pending[arm] = pending - calls
        self.budget.settle(calls, arms.add(arm, outcome))
        if arms.n[arm] != rated + calls or streak:  # else its warm-up has what was under way
            self._warm_up.owed += self._owed_to(arm) - self._warm_up.owed_to(rated + pending, streak)
        if isinstance(outcome, Unanswered) and outcome is not Unanswered.PERMANENT:
            if outcome is not Unanswered.WITHDRAWN:
                self._defer(arm)
                if arms.retired(arm):
                    self._decide(arm, outcome)
                return
            if not self._in_rounds and arms.next_draw[arm] == draw + calls:
                arms.next_draw[arm] = draw
            self._place(arm)
            return
        self._rated += arms.n[arm] - rated
        self._deferred.discard(arm)
        self._decide(arm, outcome)
        self._place(arm)
        if self._rated >= self._refit_at:
            self._refit()
        if self._deferred and not arms.streak[arm]:
            self._readmit()

    def take_up(self, tickets: Sequence[Ticket], next_draws: IntArray | None = None) -> None:
        """Count calls as under way that were chosen before this scheduler was made; each is to be told.

        Args:
            next_draws: number each arm's calls from these on at least, shape (K,): lower ones may be answered yet.

        Raises:
            ValueError: they are more than the budget has.
        """
        arms = self._arms
        if next_draws is not None:
            columns = arms.column("next_draw")
            np.maximum(columns, next_draws, out=columns)
        if not tickets:
            return
        self.budget.reserve(sum(ticket.calls for ticket in tickets))
        for arm, draw, calls in tickets:
            arms.pending[arm] += calls
            arms.next_draw[arm] = max(arms.next_draw[arm], draw + calls)
        self._warm_up.recount()
        self._build()

    def shorten(self, ticket: Ticket, calls: int) -> Ticket:
        """The first ``calls`` calls of ``ticket``; the others are not made after all."""
        rest = ticket.calls - calls
        if rest > 0:
            self.tell(Ticket(ticket.arm, ticket.draw + calls, rest), Unanswered.WITHDRAWN)
        return ticket._replace(calls=min(calls, ticket.calls))

    def _begin_round(self) -> None:
        """Decide and fit by all answers so far: what is chosen next then owes nothing to the order in which they came."""
        if self._has_news:
            self._look()
        if self._learns and self._rated >= max(self._first_fit, self._rated_before + 1):
            self._rated_before = self._rated
            self._refit()

    def _next(self) -> int | None:
        """The arm to ask, None if all must wait; says in ``warming_up`` what its call is for."""
        queue, under_way = self._queue, self.budget.reserved
        arm = queue.first()
        if arm is None and self._deferred and not under_way:
            self._readmit()
            arm = queue.first()
        if arm is None and self._is_level(under_way) and self._warm_up.raise_share():  # those of arms given up are left
            self._build()
            arm = self._queue.first()
        if arm is None:
            return None
        if self._fairness is not None and self._fairness.waiting and self._overtakes(arm):
            if under_way:
                return None
            arm = self._instead_of_failed(arm)
        warming_up = is_warm_up(self._queue.key[arm])
        if under_way and not warming_up and self.budget.available <= self._warm_up.owed:
            return None
        if under_way and warming_up and not self._has_its_turn(arm):
            return None
        self.warming_up = warming_up
        return arm

    def _is_level(self, under_way: int) -> bool:
        """Whether no arm that waits for its answers has more of its share to come: the others would take it."""
        return self._windows is None or not under_way or self._warm_up.owed <= 0

    def _has_its_turn(self, arm: int) -> bool:
        """Whether no arm that waits for its answers is behind a share that ``arm`` has: its window's, or the whole one.

        What cannot be shared out evenly would else go to the arms of early windows, and so would what belongs to the last.
        """
        if self._windows is None or not self._to_share_out:
            return True
        share, arms = self._to_share_out[0], self._arms
        if arms.n[arm] + arms.pending[arm] + arms.n_unparsed[arm] < share:
            return True
        made = arms.counts + arms.under_way + arms.unparsed
        if not (made >= share)[~arms.retired_mask].all():
            return False
        self._to_share_out.pop(0)
        return self._has_its_turn(arm)

    def _owed_to(self, arm: int) -> int:
        arms = self._arms
        return self._warm_up.owed_to(arms.n[arm] + arms.pending[arm], arms.streak[arm])

    def _overtakes(self, arm: int) -> bool:
        assert self._fairness is not None  # noqa: S101  # there are several judges
        return self._fairness.overtakes(arm, self._queue.key[arm], self._arms.n[arm] + self._arms.pending[arm])

    def _instead_of_failed(self, arm: int) -> int:
        """An arm to ask where ``arm`` would overtake one that failed, and nothing under way could tell more of it."""
        assert self._fairness is not None  # noqa: S101  # there are several judges
        other = self._fairness.most_urgent_beside_failed(arm, self._queue.key)
        if self._queue.key[other] != NEVER:
            return other
        self._readmit()
        first = self._queue.first()
        return arm if first is None else first

    def _at_once(self, arm: int) -> int:
        arms, warm_up = self._arms, self._warm_up
        return most_at_once(arms.n[arm], arms.pending[arm], arms.streak[arm], warm_up.calls, warm_up.whole_share)

    def _defer(self, arm: int) -> None:
        self._deferred.add(arm)
        self._queue.place(arm, NEVER)
        self._place(arm)

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in sorted(deferred):
            self._place(arm)

    def _decide(self, arm: int, outcome: Outcome) -> None:
        """Tell the decisions of these ratings, and look at them if it is time; once all are decided, at every answer."""
        verdicts = self._verdicts
        if verdicts is None:
            return
        verdicts.add(arm, () if isinstance(outcome, Unanswered) else [each for each in outcome if each is not None])
        self._has_news = True
        if not self._in_rounds and (self.budget.spent >= self._looks_at or verdicts.all_decided):
            self._look()

    def _look(self) -> None:
        """Decide by all ratings so far, and have the arms that became settled, or opened again, where they belong."""
        assert self._verdicts is not None  # noqa: S101  # there is news of them
        self._has_news = False
        self._looks_at = next_look(self.budget.spent, len(self._arms))
        for each in self._one_of_each_contest(self._verdicts.look(self.arms)).tolist():
            self._place(each)

    def _is_enough(self) -> bool:
        """Whether nothing more is to be asked as things stand, which calls under way may yet change."""
        if self._verdicts is not None and self._verdicts.all_decided:
            return True
        return self._stop is not None and self._stop(self)

    def _is_settled(self, arm: int, n: float) -> bool:
        """Whether nothing open hangs on ``arm``; within its warm-up, every arm is asked."""
        return self._verdicts is not None and n >= self._warm_up.calls and self._verdicts.settled.item(arm)

    def _place(self, arm: int) -> None:
        """Give ``arm``, and all that have their priorities together with it, the keys that they have now."""
        if self._contests is not None:
            for other, key in self._contest_keys(arm).items():
                self._place_at(other, key)
            return
        for each in self._beside(arm):
            n, pending = float(self._arms.n[each]), float(self._arms.pending[each])
            self._place_at(each, self._key_if_free(each, n, pending))

    def _place_at(self, arm: int, key: float) -> None:
        """Put ``arm`` where ``key``, which it has if it may be asked, puts it; or note that it waits, if it may not."""
        is_deferred = arm in self._deferred
        is_free = not is_deferred and self._is_free(arm)
        self._queue.place(arm, key if is_free else NEVER)
        if self._moved is not None:
            self._moved.add(arm)
        if self._fairness is None:
            return
        self._fairness.waiting.pop(arm, None)
        waits = is_deferred or (not is_free and self._arms.pending[arm])
        if waits and not self._arms.retired(arm) and not self._is_settled(arm, self._arms.n[arm]):
            self._fairness.waiting[arm] = key

    def _key_of(self, arm: int) -> float:
        n, pending = self._arms.n[arm], self._arms.pending[arm]
        return self._key_if_free(arm, float(n), float(pending)) if self._is_free(arm) else NEVER

    def _is_free(self, arm: int) -> bool:
        """Whether ``arm`` may be asked now."""
        arms, warm_up = self._arms, self._warm_up
        n = arms.n[arm]
        most = self._most_pending(n, arms.streak[arm], warm_up.calls, warm_up.share)
        return arms.pending[arm] < most and not self._is_settled(arm, n) and not self._is_ahead(arm)

    def _beside(self, arm: int) -> range:
        """The arms that are asked as often as ``arm``, with it."""
        first = arm - arm % self._siblings
        return range(first, first + self._siblings)

    def _is_ahead(self, arm: int) -> bool:
        """Whether ``arm`` has more calls than one beside it, which is to catch up first; or one that never will."""
        if self._siblings == 1:
            return False
        arms = self._arms
        made = arms.n[arm] + arms.pending[arm]
        return any(made > arms.n[other] + arms.pending[other] or arms.retired(other) for other in self._beside(arm))

    def _completes(self, arm: int) -> bool:
        """Whether ``arm`` has no call, and one beside it has: what was asked of that says nothing without it."""
        if self._siblings == 1:
            return False
        arms = self._arms
        made = [arms.n[other] + arms.pending[other] for other in self._beside(arm)]
        return not made[arm % self._siblings] and any(made)

    def _key_if_free(self, arm: int, n: float, pending: float) -> float:
        """The key of an arm that may be asked. InputError where the policy gives it no finite priority."""
        if n < self._warm_up.calls:
            return self._key_in_turn(n + pending, arm)
        if self._contests is not None:
            return self._contest_keys(arm)[arm]
        if self._completes(arm):
            return FIRST
        arms = self._arms
        key = adaptive_key(self._policy, n, pending, arms.total[arm], arms.total_sq[arm], arm)
        if self._costs is not None:
            key /= self._costs.divisors.item(arm)
        if -NEVER < key < NEVER:
            return key
        raise _no_priority(self._policy, arm, -key)

    def _key_in_turn(self, calls: Number, arm: Arm) -> Number:
        """The keys of arms in their warm-up."""
        if self._windows is not None:
            of_arm, windows, share = self._windows
            columns = self._arms.unparsed, of_arm
            unread, window = (
                cast("Number", each.item(arm) if isinstance(arm, int) else each[arm].astype(np.float64))
                for each in columns
            )
            return windowed_key(calls, unread, window, windows, share)
        if self._turn is None:
            return warm_up_key(calls)
        turn = self._turn.item(arm) if isinstance(arm, int) else self._turn[arm]
        return warm_up_key(calls, cast("Number", turn), len(self._turn))

    def _one_of_each_contest(self, arms: IntArray) -> IntArray:
        """The arms that are to be placed so that all of ``arms`` are."""
        if self._contests is None:
            return arms
        return arms[np.unique(self._contests.number[arms], return_index=True)[1]]

    def _contest_keys(self, arm: int) -> dict[int, float]:
        """The keys, if they may be asked, of ``arm`` and of all that have their priorities together with it."""
        assert self._contests is not None  # noqa: S101  # who asks has looked
        members, number = self._contests
        arms, keys = self._together(self._policy, members[number.item(arm)], self._columns)
        return dict(zip(arms.tolist(), keys.tolist(), strict=True))

    def _together(self, policy: Policy, members: IntArray, columns: _Columns) -> tuple[IntArray, FloatArray]:
        """The arms of whole contests and their keys, if they may be asked. InputError where a priority is not finite."""
        there = members >= 0
        arms = np.where(there, members, 0)
        n, under_way, total, total_sq = (np.where(there, each[arms], 0.0) for each in columns)
        keys = contest_keys(policy, n, under_way, total, total_sq, arms)
        if self._costs is not None:
            keys = keys / self._costs.divisors[arms]
        keys = np.where(n < self._warm_up.calls, self._key_in_turn(n + under_way, arms), keys)[there]
        if not np.isfinite(keys).all():
            wrong = int(np.flatnonzero(~np.isfinite(keys))[0])
            raise _no_priority(policy, int(arms[there][wrong]), -keys.item(wrong))
        return arms[there], keys

    def _refit(self) -> None:
        """Begin to fit the policy by all answers so far."""
        self._refit_at, self._moved = NEVER, set()
        if self._costs is not None:
            self._costs.learn(self._arms.counts)
        columns, deferred = self._copied(), list(self._deferred)
        is_long = self._policy.fits_long or len(self._arms) > _FEW_ARMS
        fit = self.elsewhere if is_long else _here
        fit(lambda: self._fitted(columns, deferred), self._take)

    def _copied(self) -> _Columns:
        n, pending, total, total_sq = (each.astype(np.float64) for each in self._columns)
        return n, pending, total, total_sq

    def _fitted(self, columns: _Columns, deferred: list[int]) -> tuple[Policy, LazyHeap]:
        """The policy after these ratings, and the arms in its order.

        Answers may come meanwhile: the sums of an arm are of one moment in ``columns`` alone.
        """
        n, _, total, total_sq = columns
        try:
            policy = self._policy.fitted(n, total, total_sq)
        except SystemExit as error:
            raise exited(self._policy, error) from error
        return policy, self._queue_by(policy, columns, deferred)

    def _take(self, fitted: tuple[Policy, LazyHeap]) -> None:
        """Choose by another policy from now on."""
        moved, self._moved = self._moved, None
        self._policy, queue = fitted
        self._refit_at = NEVER if self._in_rounds else next_refit(self._rated, self._first_fit)
        if moved is None:
            self._build()
            return
        self._queue = queue
        self._place_anew(moved)

    def _keys_if_free(self, policy: Policy, some: slice, columns: _Columns) -> FloatArray:
        """The keys of arms that follow each other, and have no others beside them, as :meth:`_key_if_free` has them."""
        warm_up, arm = self._warm_up.calls, np.arange(some.start, some.stop)
        n, pending, total, total_sq = (each[some] for each in columns)
        rated = np.maximum(n, min(warm_up, 1))  # any number will do in a warm-up: it is masked below
        with np.errstate(invalid="ignore", divide="ignore"):
            keys = adaptive_key(policy, rated, pending, total, total_sq, arm)
        if self._costs is not None:
            keys = keys / self._costs.divisors[some]
        keys = np.where(n < warm_up, self._key_in_turn(n + pending, arm), keys)
        if not np.isfinite(keys).all():
            wrong = int(np.flatnonzero(~np.isfinite(keys))[0])
            raise _no_priority(policy, int(arm[wrong]), -keys.item(wrong))
        return keys

    def _build(self) -> None:
        """Place all arms anew."""
        self._moved = None
        self._queue = self._queue_by(self._policy, self._copied(), list(self._deferred))
        self._place_anew(())

    def _place_anew(self, arms: Iterable[int]) -> None:
        """Place ``arms`` in a new queue, and all that wait."""
        again = set(arms)
        if self._fairness is not None:
            self._fairness.waiting.clear()
            again |= {*np.flatnonzero(self._arms.under_way > 0).tolist(), *self._deferred}
        for arm in self._one_of_each_contest(np.array(sorted(again), dtype=np.int64)).tolist():
            self._place(arm)

    def _queue_by(self, policy: Policy, columns: _Columns, deferred: list[int]) -> LazyHeap:
        """All keys at once: the same numbers as :meth:`_key_of`, fifty times faster for a million arms."""
        arms, warm_up = self._arms, self._warm_up
        n, pending, *_ = columns
        keys = np.empty(len(arms))
        if self._contests is None:
            for start in range(0, len(arms), _ARMS_AT_ONCE):
                some = slice(start, min(start + _ARMS_AT_ONCE, len(arms)))
                keys[some] = self._keys_if_free(policy, some, columns)
        else:
            members = self._contests.members
            for start in range(0, len(members), _CONTESTS_AT_ONCE):
                of_arms, together = self._together(policy, members[start : start + _CONTESTS_AT_ONCE], columns)
                keys[of_arms] = together
        if self._verdicts is not None:
            keys[self._verdicts.settled & (n >= warm_up.calls)] = NEVER
        keys[pending >= most_pending_of_all(arms, warm_up.calls, warm_up.share, self._most_pending)] = NEVER
        if self._siblings > 1:
            made = (n + pending).reshape(-1, self._siblings)
            completes = (made == 0) & (made > 0).any(axis=1, keepdims=True) & (n.reshape(made.shape) >= warm_up.calls)
            if self._contests is None:
                keys[completes.ravel()] = FIRST
            gone = arms.retired_mask.reshape(made.shape).any(axis=1, keepdims=True)
            keys[((made > made.min(axis=1, keepdims=True)) | gone).ravel()] = NEVER
        keys[deferred] = NEVER
        return LazyHeap(keys, self._key_of)


def _no_priority(policy: Policy, arm: int, priority: float) -> InputError:
    """What is said of a policy by whose priorities no arm can be chosen: to go on would leave arms out, or never end."""
    return InputError(
        f"--scheduler: {policy.said} gives arm {arm} the priority {priority}, which is to be a finite number; every answer is "
        "kept. Tell those who wrote it"
    )
