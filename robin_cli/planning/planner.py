"""Which arms are asked next: plan() gives leave to call them, tell() takes what came of that."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.refits import next_refit
from robin_cli.model.space import Coordinates
from robin_cli.planning.asking import (
    NO_END,
    Windows,
    at_first,
    most_at_once,
    most_in_a_round,
    most_under_way,
    overtaking,
)
from robin_cli.planning.budget import CallBudget
from robin_cli.planning.costs import Costs
from robin_cli.planning.stopping import StoppingRule, Verdicts, next_look
from robin_cli.planning.urgency import (
    FIRST,
    IN_WARM_UP,
    NEVER,
    Front,
    block_of,
    by_turns,
    sets_of,
    urgency_by,
)
from robin_cli.policies.base import WARM_UP, Policy, Seen, exited

Found = TypeVar("Found")


class Elsewhere(Protocol):
    """Where long work is done."""

    def __call__(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work``, in another thread if need be, and have ``then`` take what it found, where the planner is asked."""


def _here(work: Callable[[], Found], then: Callable[[Found], None]) -> None:
    then(work())


_FEW_ARMS = 2**17
"""Of so many, a block is chosen and a policy fitted within some hundredths of a second."""

_ARMS_AT_ONCE, _SETS_AT_ONCE = 2**15, 2**12
"""Of which the urgency is computed together: policies make some ten or twenty columns on the way, which fit into a cache."""


class Ticket(NamedTuple):
    """Leave to make ``calls`` calls of ``arm``, numbered from ``draw`` on; to be told once, whatever comes of them."""

    arm: int
    draw: int
    calls: int


class Planner:
    """Chooses calls in blocks: each of the most urgent arms that may be asked gets one, and it counts as under way.

    A block is a sixty-fourth of the arms. With a block of one, and one call at a time, each choice is the paper's argmax over
    all arms. What is told later than a block was chosen counts in the next; but an arm that was settled, given up or failed
    meanwhile is passed over, and a fit or a look at the decisions ends the block.

    The planner is the only writer of the arms. Who may be asked is said in :mod:`~robin_cli.planning.asking`. Besides, an arm
    past its warm-up is not asked while what is left of the budget is owed to the warm-ups of others, and kept for those whose
    first answers are slow to come; and one whose calls failed for now is deferred: it is asked again after another was rated,
    or if no other is left. Where there is something to decide, an arm on which nothing open hangs is not asked.

    Args:
        arms: the numbers to choose by, none of whose calls is under way.
        policy: fitted already, if it is a pooled one and there are ratings.
        budget: calls there are for all arms together; None: no end of them.
        judge: which judge each arm is asked of, shape (K,); None where there is one.
        stop: as long as it says so nothing is asked, and with nothing under way the run is over; looked at in every plan().
        verdicts: what is decided by the ratings so far; None where nothing is to be decided.
        closely: have the calls of an arm in its warm-up follow each other closely, where that makes no difference to how many
            it gets; else the arm with the fewest comes first.
        round_depth: calls of each arm in the first round, where calls go out in rounds and all of one are chosen before any
            answer comes; a round begins when nothing is under way. None where answers come meanwhile.
        costs: what calls cost, as learned when a pooled policy was fitted last; None where each counts as one.
        together: so many arms, one behind the other, are asked equally often: none gets a further call while another of them
            has fewer, made or under way, nor once another was given up; and where one was asked, those without a call come
            next.
        looked: calls that were spent at the look at the decisions that ``verdicts`` begin with; 0: they begin with none.
        first_fit: ratings at which a pooled policy is fitted first, see :attr:`ArmSpace.first_fit`; None: as many as arms.

    Attributes:
        arms: the numbers, to be read.
        budget: the calls there are: reserved by plan(), settled by tell().
        block: how many arms are chosen at once; 1 where each answer is to be known before the next choice.
        elsewhere: does what takes long; until a fit is done, calls are chosen by the one before.
        warming_up: whether the last call that was planned was one of a warm-up.
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
        looked: int = 0,
    ) -> None:
        self._arms = arms
        self.arms = arms.read_only()
        self.budget = CallBudget(budget, arms.spent)
        self.block = block_of(len(arms))
        self.elsewhere: Elsewhere = _here
        self.warming_up = False
        self._policy = policy
        self._judge = judge if judge is not None and judge.any() else None
        self._stop = stop
        self._verdicts = verdicts
        self._in_rounds = round_depth is not None
        self._costs = costs
        self._together = together
        self._sets, self._set_of, self._has_gaps = sets_of(policy.contests, len(arms), together)
        self._n, self._under_way, self._streak = self.arms.counts, self.arms.under_way, self.arms.streaks
        self._columns = (self._n, self._under_way, self.arms.totals, self.arms.totals_sq)
        self._warm_up = max(policy.warm_up, round_depth or 0)
        self._is_warmed_up = not self._warm_up
        even = max(1, self.budget.total // max(1, len(arms)))  # calls of an arm in an even spread
        self._most_samples = even  # one request is not to have more
        self._at_first = at_first(self._warm_up, even if self.budget.is_limited else None)
        self._share = self._warm_up
        self._room = NO_END  # calls that arms past their warm-up may get
        self._turn = policy.turn
        # A policy with turns is not indifferent to the order, nor is one that learns meanwhile.
        self._windows = None
        if closely and self.budget.is_limited and not self._in_rounds and self._turn is None and not policy.refits:
            self._windows = Windows.of(len(arms), judge, min(even, self._warm_up), self.block)
        self._shared_out = 0  # shares that all arms have
        self._urgency, self._fronts = np.full(len(arms), NEVER), (Front(), Front())
        self._nearness: FloatArray | None = None  # after the first look, of policies that ask for it
        self._waiting = np.full(len(arms), NEVER) if self._judge is not None else np.empty(0)
        self._stale: set[int] | None = None  # sets whose urgencies are to be computed anew; None: all
        self._ahead: deque[int] = deque()  # the rest of the block
        self._is_choosing = self._is_looking = self._is_idle = self._found_none = False
        self._deferred: set[int] = set()
        self._rated = int(arms.counts.sum())
        self._learns = policy.refits or costs is not None
        self._first_fit = len(arms) if first_fit is None else first_fit
        self._refit_at = next_refit(self._rated, self._first_fit) if self._learns and not self._in_rounds else np.inf
        self._rated_before = -1  # ratings there were when the last round was begun
        self._looks_at = np.inf if verdicts is None else next_look(looked, len(arms))
        self._has_news = 0 < looked < self.budget.spent  # whether decisions were not looked at with some of the answers
        self._is_unseen = self.budget.spent >= self._looks_at  # whether nothing was decided by answers from before

    # ── leave is given ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_over(self) -> bool:
        """Whether the run is over: its budget is spent, or nothing could be planned and nothing is under way to change that."""
        is_thinking = self._is_choosing or self._is_looking
        return self.budget.exhausted or (self._is_idle and not self.budget.reserved and not is_thinking)

    def plan(self, tickets: int = 1, samples: int = 1) -> list[Ticket]:
        """Plan up to so many ``tickets``, of 1 to ``samples`` calls each, the most urgent first; their calls are reserved.

        Returns:
            None at all if every arm must wait for calls under way, for a block to be chosen, or if the run :attr:`is_over`.
        """
        if self._is_unseen:
            self._look()
            if self._is_unseen:
                return []
        if self._in_rounds and not self.budget.reserved:
            self._begin_round()
        found = self._taken(tickets, samples)
        if not found and self._has_news and not self.budget.reserved and self.budget.available:
            self._look()  # what was given up since may leave more to be asked of the others
            found = self._taken(tickets, samples)
        self._is_idle = not found
        return found

    def _taken(self, tickets: int, samples: int) -> list[Ticket]:
        found: list[Ticket] = []
        if self._is_enough():
            self._ahead.clear()
            return found
        while len(found) < tickets and self.budget.available:
            if not self._ahead:
                self._choose(samples)
                if not self._ahead:
                    break
            arm = self._ahead.popleft()
            if not (
                self._arms.streak[arm] >= RETIRE_AFTER or arm in self._deferred or self._is_settled(arm)
            ):  # meanwhile
                ticket = self._ticket(arm, samples)
                if ticket is None:
                    break
                found.append(ticket)
        return found

    def _ticket(self, arm: int, samples: int) -> Ticket | None:
        """Reserve a request of ``arm``; None where all that is left belongs to warm-ups."""
        arms, calls = self._arms, 1
        n, pending, draw = arms.n[arm], arms.pending[arm], arms.next_draw[arm]
        if samples > 1:
            most = min(samples, self._most_samples, self.budget.available)
            calls = most_at_once(n, pending, arms.streak[arm], most, self._warm_up, self._at_first)
        self.warming_up = n < self._warm_up
        if self._room < NO_END and not self.warming_up:
            calls = min(calls, self._room)
            if calls < 1:
                self._ahead.clear()
                return None
            self._room -= calls
        self._changed(arm)
        arms.next_draw[arm] = draw + calls
        arms.pending[arm] = pending + calls
        self.budget.reserve(calls)
        return Ticket(arm, draw, calls)

    # ── what came of it ───────────────────────────────────────────────────────────────────────────────────────────────

    def tell(self, ticket: Ticket, outcome: Outcome) -> None:
        """Take what came of the calls of ``ticket``: the arms, the budget and what is asked next follow from it."""
        arm, draw, calls = ticket
        arms = self._arms
        rated, pending = arms.n[arm], arms.pending[arm]
        if not 0 < calls <= pending:
            raise ValueError(f"arm {arm} has {pending} calls under way, not {calls}")
        self._changed(arm)
        arms.pending[arm] = pending - calls
        self.budget.settle(calls, arms.add(arm, outcome))
        if outcome is Unanswered.WITHDRAWN:
            if not self._in_rounds and arms.next_draw[arm] == draw + calls:
                arms.next_draw[arm] = draw
            self._ahead.clear()  # else another would be asked in its place
            return
        failed = isinstance(outcome, Unanswered) and outcome is not Unanswered.PERMANENT
        if failed:
            self._deferred.add(arm)
        elif self._deferred:
            self._deferred.discard(arm)
        self._rated += arms.n[arm] - rated
        if self._rated >= self._refit_at:
            self._refit()  # before the look: a run that is resumed looks by the fit that it had then
        if self._verdicts is not None and (not failed or arms.retired(arm)):
            self._decide(self._verdicts, arm, outcome)
        if self._deferred and not failed and not arms.streak[arm]:
            self._readmit()

    def take_up(self, tickets: Sequence[Ticket], next_draws: IntArray | None = None) -> None:
        """Count calls as under way that were planned before this planner was made; each is to be told.

        Args:
            next_draws: number each arm's calls from these on at least, shape (K,): lower ones may be answered yet.

        Raises:
            ValueError: they are more than the budget has.
        """
        arms = self._arms
        if next_draws is not None:
            columns = arms.column("next_draw")
            np.maximum(columns, next_draws, out=columns)
        if tickets:
            self.budget.reserve(sum(ticket.calls for ticket in tickets))
        for arm, draw, calls in tickets:
            arms.pending[arm] += calls
            arms.next_draw[arm] = max(arms.next_draw[arm], draw + calls)
            self._changed(arm)

    def shorten(self, ticket: Ticket, calls: int) -> Ticket:
        """Return the first ``calls`` calls of ``ticket``; the others are not made after all."""
        arm, draw, whole = ticket
        if whole > calls:
            ahead, self._ahead = self._ahead, deque()  # the arm is asked: nobody takes its place
            self.tell(Ticket(arm, draw + calls, whole - calls), Unanswered.WITHDRAWN)
            self._ahead = ahead
        return ticket._replace(calls=min(calls, whole))

    def _changed(self, arm: int) -> None:
        # Before the arm is written: a thread that reads it meanwhile then leaves what it made of that.
        if self._stale is not None:
            self._stale.add(self._set_of[arm])

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in deferred:
            self._changed(arm)

    # ── a block is chosen ─────────────────────────────────────────────────────────────────────────────────────────────

    def _choose(self, samples: int) -> None:
        """Choose the next block, elsewhere where there are many arms."""
        if self._is_choosing or (self._found_none and self._stale is not None and not self._stale):
            return
        stale, self._stale, self._is_choosing = self._stale, set(), True
        policy, deferred = self._policy, sorted(self._deferred)
        count = min(self.block, len(self._arms), -(-self.budget.available // samples))
        made = (self.budget.spent + self.budget.reserved) // min(samples, self._most_samples)
        where = _here if len(self._arms) <= _FEW_ARMS else self.elsewhere
        try:
            where(lambda: self._block(policy, stale, deferred, count, made), self._take_block)
        finally:
            if where is _here:
                self._is_choosing = False

    def _take_block(self, chosen: deque[int]) -> None:
        self._ahead, self._is_choosing, self._is_idle = chosen, False, False
        self._found_none = not chosen  # nor will there be, until something changes
        if not chosen and self._deferred and not self.budget.reserved:  # no other is left
            self._readmit()
            self._choose(1)

    def _block(
        self, policy: Policy, stale: set[int] | None, deferred: Sequence[int], count: int, made: int
    ) -> deque[int]:
        """Choose up to ``count`` arms, after ``made`` requests.

        Calls may be told meanwhile; nothing is written but what this alone reads.
        """
        if not self._is_warmed_up and self._share_out():
            stale = None
        seen = None if self._verdicts is None else self._verdicts.seen
        if seen is not None and self._nearness is None:
            self._nearness = np.full(len(self._arms), NEVER)
        for members in self._parts(stale):
            self._look_at(policy, members, deferred)
        found = self._most_urgent(count, made, seen)
        if not found or (self._judge is None and self._windows is None and self._together == 1):
            return deque(found)
        chosen, under_way = np.array(list(found)), self.budget.reserved > 0
        if self._judge is not None:
            is_near = np.array(list(found.values()))
            chosen = self._without_overtaking(chosen, self._judge, is_near, under_way=under_way)
        if self._windows is not None and under_way:
            chosen = self._in_their_turn(chosen, self._windows)
        if self._together > 1 and count > 1:  # what was asked of one says nothing without the others
            sets = np.array(list(dict.fromkeys((chosen // self._together).tolist())), dtype=np.int64)
            chosen = (sets[:, None] * self._together + np.arange(self._together)).ravel()
            chosen = chosen[self._may_be_asked(chosen)][:count]
        return deque(chosen.tolist())

    def _most_urgent(self, count: int, made: int, seen: Seen | None) -> dict[int, bool]:
        """Up to ``count`` arms that may be asked, and which of them are for being near to certain, in place of most urgent."""
        urgent = self._fronts[0].of(self._urgency, count)
        urgency = self._urgency[urgent[:1]]
        if len(urgency) and urgency[0] > IN_WARM_UP:
            # A block is of warm-ups, or of what comes after: the last answers to the first may change the other.
            return dict.fromkeys(urgent[self._urgency[urgent] > IN_WARM_UP].tolist(), False)
        if seen is None or self._nearness is None:
            return dict.fromkeys(urgent.tolist(), False)
        return by_turns(urgent, self._fronts[1].of(self._nearness, count), made, seen.part.item(), count)

    def _may_be_asked(self, some: IntArray) -> NDArray[np.bool_]:
        """Which of ``some`` arms there is a reason to ask."""
        found = self._urgency[some] > NEVER
        return found if self._nearness is None else found | (self._nearness[some] > NEVER)

    def _share_out(self) -> bool:
        """Divide the calls that there are among the warm-ups; return whether their share is another one than before.

        Arms that were given up leave theirs to the others. What the warm-ups still want nobody else may have; nor what an even
        spread would give to those that wait for their first answers.
        """
        n, budget = self._n, self.budget
        made, kept = n + self._under_way, self._streak < RETIRE_AFTER
        before, self._share, even = self._share, self._warm_up, self._warm_up
        if budget.is_limited:
            count = max(1, int(kept.sum()))
            even, rest = divmod(budget.available + int(made[kept].sum()), count)
            self._share = min(self._warm_up, even + (rest > 0))
        is_open = kept & (n < self._share)
        self._is_warmed_up = self._share == self._warm_up and not is_open.any()
        self._room = NO_END
        if budget.is_limited and budget.reserved and not self._is_warmed_up:
            wanted = self._share if self._in_rounds else max(self._share, even)
            self._room = max(0, budget.available - int(np.maximum(0, wanted - made[is_open]).sum()))
        return self._share != before

    def _parts(self, stale: set[int] | None) -> Iterator[IntArray]:
        """Yield the arms to look at, some at a time, rising: single ones, or sets of them."""
        sets = self._sets
        if stale is None:
            which = np.arange(len(self._arms) if sets is None else len(sets))
        else:
            which = np.fromiter(stale, np.int64, len(stale))
            which.sort()
        at_once = _ARMS_AT_ONCE if sets is None else _SETS_AT_ONCE
        for start in range(0, len(which), at_once):
            some = which[start : start + at_once]
            yield some if sets is None else sets[some].ravel() if sets.ndim < 3 else sets[some]

    def _look_at(self, policy: Policy, members: IntArray, deferred: Sequence[int]) -> None:
        """Compute the urgency of ``members``, −1 being none. InputError where the policy gives one no finite priority."""
        at = members >= 0 if self._has_gaps else ...
        some = members[at].ravel()
        n, pending, streak = self._n[some], self._under_way[some], self._streak[some]
        made = n + pending
        is_known = n >= self._warm_up
        known = np.count_nonzero(is_known)
        nearness = None
        if known:
            of_members, near = self._by_policy(policy, members)
            urgency, nearness = of_members[at].ravel(), None if near is None else near[at].ravel()
            if known < len(some):
                urgency = np.where(is_known, urgency, WARM_UP - self._order(some, made))
            is_right = urgency < math.inf if policy.retires else np.isfinite(urgency)
            if not is_right.all():
                self._check(policy, some[~is_right], urgency[~is_right])
        else:
            urgency = WARM_UP - self._order(some, made)
        if self._in_rounds:
            most = most_in_a_round(n, streak, self._warm_up, self._share, decides=self._verdicts is not None)
        else:
            most = most_under_way(n, streak, self._warm_up, self._share)
        may_be_asked, is_kept = pending < most, streak < RETIRE_AFTER
        is_needed = is_kept if self._verdicts is None else is_kept & ~(self._verdicts.settled[some] & is_known)
        if self._together > 1:
            of_set = made.reshape(-1, self._together)
            completes = (of_set == 0) & (of_set > 0).any(axis=1, keepdims=True) & is_known.reshape(of_set.shape)
            if members.ndim == 1:
                urgency[completes.ravel()] = FIRST
            is_ahead = of_set > of_set.min(axis=1, keepdims=True)
            is_given_up = (streak >= RETIRE_AFTER).reshape(of_set.shape).any(axis=1, keepdims=True)
            may_be_asked &= ~(is_ahead | is_given_up).ravel()
        waits = is_needed & ~may_be_asked & (pending > 0) if self._judge is not None else may_be_asked
        if deferred:
            is_deferred = np.isin(some, deferred)
            waits, may_be_asked = waits | (is_needed & is_deferred), may_be_asked & ~is_deferred
        self._urgency[some] = np.where(may_be_asked & is_needed, urgency, NEVER)
        if self._nearness is not None:
            self._nearness[some] = (
                NEVER if nearness is None else np.where(may_be_asked & is_kept & is_known, nearness, NEVER)
            )
        if self._judge is not None:
            self._waiting[some] = np.where(waits, urgency, NEVER)

    def _check(self, policy: Policy, some: IntArray, urgency: FloatArray) -> None:
        """InputError where a policy gives ``some`` no finite priority: to go on would leave arms out, or never end."""
        for arm, found in zip(some.tolist(), urgency.tolist(), strict=True):
            is_told_meanwhile = (
                self._stale is None or self._set_of[arm] in self._stale
            )  # what was read of it may not fit together
            if not is_told_meanwhile:
                raise InputError(
                    f"--scheduler: {policy.said} gives arm {arm} the priority {found}, which is to be a finite number; every "
                    "answer is kept. Tell those who wrote it"
                )

    def _order(self, some: IntArray, made: IntArray) -> FloatArray:
        """The place of each of ``some`` arms among those in their warm-up: the fewest calls come first."""
        calls = made.astype(np.float64)
        if self._windows is not None:
            return self._windows.place(some, calls, self.arms.unparsed[some])
        return calls if self._turn is None else calls * len(self._turn) + self._turn[some]

    def _by_policy(self, policy: Policy, members: IntArray) -> tuple[FloatArray, FloatArray | None]:
        """The urgency and nearness of ``members`` past their warm-up, shape as these; of others, any number."""
        n, pending, total, total_sq = (each[members].astype(np.float64, copy=False) for each in self._columns)
        if members.ndim == 1:
            np.maximum(n, min(self._warm_up, 1), out=n)  # any number of ratings will do in a warm-up, but none
        elif self._has_gaps:
            n, pending, total, total_sq = (each * (members >= 0) for each in (n, pending, total, total_sq))
        seen = None if self._verdicts is None else self._verdicts.seen
        urgency, nearness = urgency_by(policy, seen, n, pending, total, total_sq, np.maximum(members, 0))
        if self._costs is None:
            return urgency, nearness
        divisors = self._costs.divisors[members]
        return urgency / divisors, None if nearness is None else nearness / divisors

    def _without_overtaking(
        self, chosen: IntArray, judge: Coordinates, is_near: NDArray[np.bool_], *, under_way: bool
    ) -> IntArray:
        """Those of ``chosen`` before the first that would take calls from arms which wait for another judge."""
        urgency = self._urgency
        made = self._n[chosen] + self._under_way[chosen]
        is_ahead = overtaking(urgency[chosen], made, judge[chosen], self._waiting, judge) & ~is_near
        if not is_ahead.any():
            return chosen
        if under_way or not is_ahead[0]:
            return chosen[: int(is_ahead.argmax())]
        # Nothing under way tells more of the arm that failed: an answer to another of its judge says whose fault it was.
        failed = judge[np.where(judge == judge[chosen[0]], NEVER, self._waiting).argmax()]
        others = np.flatnonzero((judge == failed) & (urgency > NEVER))
        return others[[urgency[others].argmax()]] if len(others) else others

    def _in_their_turn(self, chosen: IntArray, windows: Windows) -> IntArray:
        """Those of ``chosen`` for which no arm that waits for its answers is behind a share that they have.

        What cannot be shared out evenly would else go to the arms of early windows, and so would what belongs to the last.
        """
        arms = self.arms
        made = self._n + self._under_way + arms.unparsed
        shares = windows.shares(made[chosen])
        if shares.max(initial=0) > self._shared_out:
            self._shared_out = int(windows.shares(made[~arms.retired_mask]).min(initial=2))
        return chosen[(shares <= self._shared_out) | (self._n[chosen] >= self._warm_up)]

    # ── decisions and fits ────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> None:
        """Decide and fit by all answers so far: what is chosen next then owes nothing to the order in which they came."""
        self._ahead.clear()
        if self._learns and self._rated >= max(self._first_fit, self._rated_before + 1):
            self._rated_before = self._rated
            self._refit()
        if self._has_news:
            self._look()

    def _is_enough(self) -> bool:
        """Whether nothing more is to be asked as things stand, which calls under way may yet change."""
        if self._verdicts is not None and self._verdicts.all_decided:
            return True
        return self._stop is not None and self._stop(self)

    def _is_settled(self, arm: int) -> bool:
        """Whether nothing open hangs on ``arm``; within its warm-up, every arm is asked."""
        if self._verdicts is None or self._arms.n[arm] < self._warm_up or not self._verdicts.settled.item(arm):
            return False
        return self._nearness is None or self._nearness.item(arm) == NEVER

    def _decide(self, verdicts: Verdicts, arm: int, outcome: Outcome) -> None:
        """Tell the decisions of these ratings, and look at them if it is time; once all are decided, at every answer."""
        verdicts.add(arm, () if isinstance(outcome, Unanswered) else outcome)
        self._has_news = True
        if not self._in_rounds and (self.budget.spent >= self._looks_at or verdicts.all_decided):
            self._look()

    def _look(self) -> None:
        """Begin to decide by all ratings so far; arms may be settled by it, or opened again."""
        verdicts = self._verdicts
        if self._is_looking or verdicts is None:
            return
        self._has_news, self._is_looking = False, True
        while self._looks_at <= self.budget.spent:
            self._looks_at = next_look(int(self._looks_at), len(self._arms))
        where = _here if len(self._arms) <= _FEW_ARMS else self.elsewhere
        where(lambda: self._changed_by(verdicts), self._take_look)

    def _changed_by(self, verdicts: Verdicts) -> set[int] | None:
        """Look at the decisions; the sets whose urgency may be another now, None where these are many."""
        changed, set_of = verdicts.look(self.arms, self._policy), self._set_of
        return None if len(changed) > _FEW_ARMS else {set_of[arm] for arm in changed.tolist()}

    def _take_look(self, changed: set[int] | None) -> None:
        self._is_looking = self._is_unseen = False
        self._stale = None if changed is None or self._stale is None else self._stale | changed
        self._ahead.clear()

    def _refit(self) -> None:
        """Begin to fit the policy by all answers so far."""
        self._refit_at = np.inf
        policy = self._policy
        fit = self.elsewhere if policy.fits_long or len(self._arms) > _FEW_ARMS else _here
        fit(lambda: self._fitted(policy), self._take_fit)

    def _fitted(self, policy: Policy) -> Policy:
        n, total, total_sq = (each.astype(np.float64) for each in (self._n, self.arms.totals, self.arms.totals_sq))
        if self._costs is not None:
            self._costs.learn(n)
        try:
            return policy.fitted(n, total, total_sq)
        except SystemExit as error:
            raise exited(policy, error) from error

    def _take_fit(self, policy: Policy) -> None:
        """Choose by another policy from now on."""
        self._policy, self._stale = policy, None
        self._ahead.clear()
        if not self._in_rounds:
            self._refit_at = next_refit(self._rated, self._first_fit)
