"""The choice of the next arms: plan() reserves calls of them, tell() takes the outcomes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import LONGEST_VISIT, RETIRE_AFTER
from robin_cli.model.refits import next_refit
from robin_cli.model.space import Coordinates
from robin_cli.policies.base import WARM_UP, Policy, Seen, exited
from robin_cli.session.asking import (
    NO_END,
    most_in_a_round,
    most_under_way,
    overtaking,
    visit_of,
)
from robin_cli.session.budget import CallBudget
from robin_cli.session.repeats import Repeats
from robin_cli.session.stopping import StoppingRule, Verdicts, next_look
from robin_cli.session.urgency import (
    FIRST,
    IN_WARM_UP,
    NEVER,
    Front,
    block_of,
    by_turns,
    sets_of,
    urgency_by,
)

Found = TypeVar("Found")


class Elsewhere(Protocol):
    """The place of long work."""

    def __call__(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work``, perhaps in another thread, and pass its result to ``then`` in the planner's own thread."""


def _here(work: Callable[[], Found], then: Callable[[Found], None]) -> None:
    then(work())


_FEW_ARMS = 2**17
"""Up to this number of arms, a block is chosen and a policy fitted within some hundredths of a second."""

_ARMS_AT_ONCE, _SETS_AT_ONCE = 2**15, 2**12
"""Arms, or sets, whose urgency is computed together: policies make ten or twenty temporary columns, which fit into a cache."""


class Ticket(NamedTuple):
    """Permission for a visit: ``calls`` calls of ``arm``, numbered from ``draw``. tell() takes each call once."""

    arm: int
    draw: int
    calls: int


class Planner:
    """Chooses calls in blocks: each of the most urgent arms that may be asked gets a visit, and its calls count as under way.

    A block is a sixty-fourth of the arms. With a block of one, visits of one, and one call at a time, each choice is the
    paper's argmax over all arms. An outcome after a block was chosen counts in the next block. But an arm that is settled,
    given up or failed by then is skipped, and a fit or a look at the decisions ends the block.

    The planner is the only writer of the arms. :mod:`~robin_cli.session.asking` limits the calls of each arm. Besides, an arm
    past its warm-up is not asked while the rest of the budget is needed for the warm-ups of others, and for arms whose first
    answers come slowly. An arm whose calls failed for now is deferred: it is asked again after another was rated, or if no
    other is left. In a run that decides, an arm without an open decision is not asked.

    Args:
        arms: the numbers to choose by, without calls under way.
        policy: fitted already, if it is a pooled one and there are ratings.
        budget: calls of all arms together; None for no limit.
        judge: number of each arm's judge, shape (K,); None for a single judge.
        stop: while it returns True nothing is asked, and with nothing under way the run is over; called in every plan().
        verdicts: the decisions by the ratings so far; None if the run decides nothing.
        may_end_early: whether the run may end before its budget is spent, so that no arm may be far ahead of others.
        first_visit: calls of the first visit of an arm, see :func:`visit_of`.
        round_depth: calls of each arm in the first round, if calls go out in rounds: all of one are chosen before any answer
            comes, and a round begins when nothing is under way. None if answers come meanwhile.
        together: number of consecutive arms that are asked equally often. None of them gets a further call while another has
            fewer, made or under way, or after another was given up; after the first call of one, the others come next.
        decides: whether the run decides, so that a round at most triples the ratings of an arm.
        looked: calls spent at the look with which ``verdicts`` begin; 0 if they begin without one.
        first_fit: ratings at which a pooled policy is fitted first, see :attr:`ArmSpace.first_fit`; None for that of arms.
        repeats: finds judges that repeat themselves; None to ask them all the same.

    Attributes:
        arms: the numbers, read-only.
        budget: of calls: plan() reserves them, tell() settles them.
        block: arms chosen at once; 1 if each answer should be known before the next choice.
        elsewhere: does long work; until a fit is done, the previous one chooses.
        warming_up: whether the last planned call belongs to a warm-up.
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
        decides: bool = False,
        may_end_early: bool = False,
        first_visit: int = 1,
        round_depth: int | None = None,
        first_fit: int | None = None,
        together: int = 1,
        looked: int = 0,
        repeats: Repeats | None = None,
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
        self._repeats, self._limits = repeats, None if repeats is None else repeats.limits(arms)
        self._verdicts, self._decides = verdicts, decides or verdicts is not None
        self._in_rounds, self._together = round_depth is not None, together
        self._sets, self._set_of, self._has_gaps = sets_of(policy.contests, len(arms), together)
        self._n, self._under_way, self._streak = (
            self.arms.counts,
            self.arms.under_way,
            self.arms.streaks,
        )
        self._columns = (self._n, self._under_way, self.arms.totals, self.arms.totals_sq)
        self._warm_up = max(policy.warm_up, round_depth or 0)
        self._is_warmed_up = not self._warm_up
        self._first_visit = first_visit
        # Under an even spread the order of the calls matters only to a run that may end early.
        self._at_once = policy.evenly and not may_end_early and stop is None and verdicts is None
        self._even = self.budget.total // max(1, len(arms))  # calls of an arm in an even spread
        self._visits = self.budget.spent  # planned so far; those of earlier sessions count as calls
        self._share = self._warm_up
        self._room = NO_END  # calls left for arms past their warm-up
        self._turn = policy.turn
        self._urgency, self._fronts = np.full(len(arms), NEVER), (Front(), Front())
        self._nearness: FloatArray | None = None  # after the first look, for policies that use it
        self._waiting = np.full(len(arms), NEVER) if self._judge is not None else np.empty(0)
        self._stale: set[int] | None = (
            None  # sets whose urgencies are to be computed anew; None: all
        )
        self._ahead: deque[int] = deque()  # the rest of the block
        self._asked: set[int] = set()  # arms of the block that a request asked along with another
        self._is_choosing = self._is_looking = self._is_idle = self._found_none = False
        self._held: Collection[int] = ()
        self._deferred: set[int] = set()
        self._rated = int(arms.counts.sum())
        self._learns = policy.refits
        self._first_fit = len(arms) if first_fit is None else first_fit
        self._refit_at = (
            next_refit(self._rated, self._first_fit)
            if self._learns and not self._in_rounds
            else np.inf
        )
        self._rated_before = -1  # ratings at the begin of the last round
        self._looks_at = np.inf if verdicts is None else next_look(looked, len(arms))
        # whether there are answers after the last look
        self._has_news = 0 < looked < self.budget.spent
        # whether a look is due for answers of earlier sessions
        self._is_unseen = self.budget.spent >= self._looks_at

    # ── calls are planned ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def is_over(self) -> bool:
        """Whether the run is over: its budget is spent, or nothing could be planned and nothing is under way to change that."""
        is_thinking = self._is_choosing or self._is_looking
        return self.budget.exhausted or (
            self._is_idle and not self.budget.reserved and not is_thinking
        )

    def plan(self, tickets: int = 1, longest: int = 1, held: Collection[int] = ()) -> list[Ticket]:
        """Reserve calls: up to ``tickets`` visits of 1 to ``longest`` calls each, the most urgent first.

        Args:
            held: judges that take no more calls now; their arms wait, and those of others go on.

        Returns:
            None at all if every arm must wait for calls under way, for a block to be chosen, or if the run :attr:`is_over`.
        """
        if self._is_unseen:
            self._look()
            if self._is_unseen:
                return []
        if self._in_rounds and not self.budget.reserved:
            self._begin_round()
        if self._judge is not None and held != self._held:
            self._held, self._found_none = held, False
        found = self._taken(tickets, longest)
        if not found and self._has_news and not self.budget.reserved and self.budget.available:
            self._look()  # arms given up since may leave more calls to the others
            found = self._taken(tickets, longest)
        self._is_idle = not found
        return found

    def _taken(self, tickets: int, longest: int) -> list[Ticket]:
        found: list[Ticket] = []
        if self._is_enough():
            self._ahead.clear()
            return found
        while len(found) < tickets and self.budget.available:
            if longest > 1 and self._are_enough_under_way():
                break
            if not self._ahead:
                self._choose()
                if not self._ahead:
                    break
            arm = self._ahead.popleft()
            if not (
                self._arms.streak[arm] >= RETIRE_AFTER
                or arm in self._deferred
                or arm in self._asked
                or self._is_settled(arm)
                or self._is_held(arm)
                or (self._held and self._judge is not None and self._judge[arm] in self._held)
            ):  # meanwhile
                ticket = self._ticket(arm, longest)
                if ticket is None:
                    break
                found.append(ticket)
        return found

    def _are_enough_under_way(self) -> bool:
        """Return whether so many calls are under way that more visits would be chosen on old knowledge."""
        is_adaptive = not (self._at_once or self._in_rounds)
        return is_adaptive and self.budget.reserved >= max(len(self._arms), LONGEST_VISIT)

    def _ticket(self, arm: int, longest: int) -> Ticket | None:
        """Reserve a visit of ``arm``; None if all calls left belong to warm-ups."""
        arms = self._arms
        n, pending, draw = arms.n[arm], arms.pending[arm], arms.next_draw[arm]
        made = n + pending
        calls = min(longest, self.budget.available)
        if calls > 1:
            wanted = LONGEST_VISIT if self._at_once else visit_of(made, self._first_visit)
            if n < max(1, self._warm_up):  # all arms get an even share first
                wanted = min(wanted, max(1, self._even - made))
            if not n or arms.streak[arm]:  # perhaps it cannot be rated
                wanted = min(wanted, max(1, RETIRE_AFTER - arms.streak[arm] - pending))
            calls = min(calls, wanted)
        if self._limits is not None:
            calls = max(1, min(calls, self._limits.at_once(arm, made)))
            self._limits.count(arm, made, calls)
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
        self._visits += 1
        return Ticket(arm, draw, calls)

    def along(self, ticket: Ticket, arms: Iterable[int]) -> list[Ticket]:
        """Reserve visits of those of ``arms`` that may be asked in the requests of ``ticket``, as far as the budget goes.

        Args:
            ticket: the last one planned; no other visit has more calls.
            arms: with that of the ticket, in the order of the request.
        """
        tickets = []
        for arm in arms:
            if arm == ticket.arm:
                tickets.append(ticket)
            elif self.budget.available and self._may_come_along(arm):
                tickets += filter(None, [self._ticket(arm, ticket.calls)])
        if len(tickets) > 1:
            self._asked.update(ticket.arm for ticket in tickets)
        return tickets

    def _may_come_along(self, arm: int) -> bool:
        if arm in self._deferred or arm in self._asked or self._arms.retired(arm):
            return False
        if self._is_held(arm):
            return False
        has_room = self._room > 0 or self._arms.n[arm] < self._warm_up
        is_wanted = self._may_be_asked(np.array([arm])).item() and not self._is_settled(arm)
        return has_room and is_wanted

    # ── outcomes ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def tell(self, ticket: Ticket, outcome: Outcome) -> None:
        """Take the outcome of a ``ticket``'s calls: it changes the arms, the budget and the next choice."""
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
            self._refit()  # before the look: a resumed run looks with the same fit
        if self._verdicts is not None and (not failed or arms.retired(arm)):
            self._decide(self._verdicts, arm, outcome)
        if self._deferred and not failed and not arms.streak[arm]:
            self._readmit()

    def take_up(self, tickets: Sequence[Ticket], next_draws: IntArray | None = None) -> None:
        """Count calls that an earlier planner planned as under way; tell() then takes the outcome of each.

        Args:
            next_draws: least number of each arm's next call, shape (K,): lower ones may still be answered.

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

    def _changed(self, arm: int) -> None:
        # Before the arm is written: a thread that reads it meanwhile then discards its result.
        if self._stale is not None:
            self._stale.add(self._set_of[arm])

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in deferred:
            self._changed(arm)

    # ── a block is chosen ─────────────────────────────────────────────────────────────────────────────────────────────

    def _choose(self) -> None:
        """Choose the next block, elsewhere if there are many arms."""
        if self._is_choosing or (self._found_none and self._stale is not None and not self._stale):
            return
        stale, self._stale, self._is_choosing = self._stale, set(), True
        policy, deferred = self._policy, sorted(self._deferred)
        count = min(self.block, len(self._arms), self.budget.available)
        where = _here if len(self._arms) <= _FEW_ARMS else self.elsewhere
        try:
            where(
                lambda: self._block(policy, stale, deferred, count, self._visits), self._take_block
            )
        finally:
            if where is _here:
                self._is_choosing = False

    def _take_block(self, chosen: deque[int]) -> None:
        self._ahead, self._is_choosing, self._is_idle = chosen, False, False
        self._asked.clear()
        self._found_none = not chosen  # until something changes
        if not chosen and self._deferred and not self.budget.reserved:  # no other is left
            self._readmit()
            self._choose()

    def _block(
        self, policy: Policy, stale: set[int] | None, deferred: Sequence[int], count: int, made: int
    ) -> deque[int]:
        """Choose up to ``count`` arms, after ``made`` visits.

        Outcomes may come meanwhile; this writes only its own columns.
        """
        if not self._is_warmed_up and self._share_out():
            stale = None
        seen = None if self._verdicts is None else self._verdicts.seen
        if seen is not None and self._nearness is None:
            self._nearness = np.full(len(self._arms), NEVER)
        for members in self._parts(stale):
            self._look_at(policy, members, deferred)
        self._limit_repeats()
        found = self._most_urgent(count, made, seen)
        if not found or (self._judge is None and self._together == 1):
            return deque(found)
        chosen, under_way = np.array(list(found)), self.budget.reserved > 0
        if self._judge is not None:
            is_near = np.array(list(found.values()))
            chosen = self._without_overtaking(chosen, self._judge, is_near, under_way=under_way)
        if (
            self._together > 1 and count > 1
        ):  # a rating of one of them is of no use without the others
            sets = np.array(
                list(dict.fromkeys((chosen // self._together).tolist())), dtype=np.int64
            )
            chosen = (sets[:, None] * self._together + np.arange(self._together)).ravel()
            chosen = chosen[self._may_be_asked(chosen)][:count]
        return deque(chosen.tolist())

    def _most_urgent(self, count: int, made: int, seen: Seen | None) -> dict[int, bool]:
        """Return up to ``count`` arms that may be asked, and whether each is there as one of the nearest to certain."""
        urgent = self._fronts[0].of(self._of_free_judges(self._urgency), count)
        urgency = self._urgency[urgent[:1]]
        if len(urgency) and urgency[0] > IN_WARM_UP:
            # A block is of warm-ups, or of later calls: the last answers to the first may change the others.
            return dict.fromkeys(urgent[self._urgency[urgent] > IN_WARM_UP].tolist(), False)
        if seen is None or self._nearness is None:
            return dict.fromkeys(urgent.tolist(), False)
        near = self._fronts[1].of(self._of_free_judges(self._nearness), count)
        return by_turns(urgent, near, made, seen.part.item(), count)

    def _limit_repeats(self) -> None:
        """Compute the limits for judges whose repeats agree so far. Once all have differed, there are none any more."""
        if self._repeats is not None:
            self._limits = self._repeats.limits(self.arms)
            if self._limits is None:
                self._repeats = None

    def _of_free_judges(self, urgency: FloatArray) -> FloatArray:
        """Return ``urgency``, NEVER for arms of judges that take no more calls now, or that repeat themselves."""
        if self._limits is not None:
            may_be_asked = self._limits.may_be_asked(self._n + self._under_way)
            urgency = np.where(may_be_asked, urgency, NEVER)
        if not self._held or self._judge is None:
            return urgency
        return np.where(np.isin(self._judge, list(self._held)), NEVER, urgency)

    def _may_be_asked(self, some: IntArray) -> NDArray[np.bool_]:
        """Return whether there is a reason to ask each of ``some`` arms."""
        found = self._urgency[some] > NEVER
        return found if self._nearness is None else found | (self._nearness[some] > NEVER)

    def _share_out(self) -> bool:
        """Divide the available calls among the warm-ups; return whether their share has changed.

        Arms that were given up leave theirs to the others. Calls that the warm-ups still need are reserved for them, and so is
        an even share for arms without a first answer.
        """
        n, budget = self._n, self.budget
        made, kept = n + self._under_way, self._streak < RETIRE_AFTER
        before, self._share, even = self._share, self._warm_up, self._warm_up
        if budget.is_limited:
            count = max(1, int(kept.sum()))
            even, rest = divmod(budget.available + int(made[kept].sum()), count)
            self._share, self._even = min(self._warm_up, even + (rest > 0)), even
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
        """Compute the urgency of ``members``, −1 for none. InputError if the policy gives one no finite priority."""
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
            is_right = np.isfinite(urgency)
            if not is_right.all():
                self._check(policy, some[~is_right], urgency[~is_right])
        else:
            urgency = WARM_UP - self._order(some, made)
        if self._in_rounds:
            most = most_in_a_round(n, streak, self._warm_up, self._share, decides=self._decides)
        else:
            most = most_under_way(n, streak, self._warm_up, self._share)
        may_be_asked, is_kept = pending < most, streak < RETIRE_AFTER
        is_needed = (
            is_kept
            if self._verdicts is None
            else is_kept & ~(self._verdicts.settled[some] & is_known)
        )
        if self._together > 1:
            of_set = made.reshape(-1, self._together)
            completes = (
                (of_set == 0)
                & (of_set > 0).any(axis=1, keepdims=True)
                & is_known.reshape(of_set.shape)
            )
            if members.ndim == 1:
                urgency[completes.ravel()] = FIRST
            is_ahead = of_set > of_set.min(axis=1, keepdims=True)
            is_given_up = (streak >= RETIRE_AFTER).reshape(of_set.shape).any(axis=1, keepdims=True)
            may_be_asked &= ~(is_ahead | is_given_up).ravel()
        waits = (
            is_needed & ~may_be_asked & (pending > 0) if self._judge is not None else may_be_asked
        )
        if deferred:
            is_deferred = np.isin(some, deferred)
            waits, may_be_asked = waits | (is_needed & is_deferred), may_be_asked & ~is_deferred
        self._urgency[some] = np.where(may_be_asked & is_needed, urgency, NEVER)
        if self._nearness is not None:
            self._nearness[some] = (
                NEVER
                if nearness is None
                else np.where(may_be_asked & is_kept & is_known, nearness, NEVER)
            )
        if self._judge is not None:
            self._waiting[some] = np.where(waits, urgency, NEVER)

    def _check(self, policy: Policy, some: IntArray, urgency: FloatArray) -> None:
        """Raise InputError if a priority is not finite: going on would leave arms out, or never end."""
        for arm, found in zip(some.tolist(), urgency.tolist(), strict=True):
            # An outcome during the computation may leave columns that do not fit together.
            has_changed = self._stale is None or self._set_of[arm] in self._stale
            if not has_changed:
                raise InputError(
                    f"--scheduler: {policy.full_name} gives arm {arm} the priority {found}, which is not a finite number; "
                    "every answer is kept. Report this to its authors"
                )

    def _order(self, some: IntArray, made: IntArray) -> FloatArray:
        """Return the place of each of ``some`` arms among those in their warm-up: the fewest calls come first."""
        calls = made.astype(np.float64)
        return calls if self._turn is None else calls * len(self._turn) + self._turn[some]

    def _by_policy(self, policy: Policy, members: IntArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the urgency and nearness of ``members`` past their warm-up, in their shape; any number for others."""
        n, pending, total, total_sq = (
            each[members].astype(np.float64, copy=False) for each in self._columns
        )
        if members.ndim == 1:
            np.maximum(n, min(self._warm_up, 1), out=n)  # in a warm-up any number will do except 0
        elif self._has_gaps:
            n, pending, total, total_sq = (
                each * (members >= 0) for each in (n, pending, total, total_sq)
            )
        seen = None if self._verdicts is None else self._verdicts.seen
        return urgency_by(policy, seen, n, pending, total, total_sq, np.maximum(members, 0))

    def _without_overtaking(
        self, chosen: IntArray, judge: Coordinates, is_near: NDArray[np.bool_], *, under_way: bool
    ) -> IntArray:
        """Return ``chosen`` up to the first arm that would take calls from arms of another judge."""
        urgency = self._urgency
        made = self._n[chosen] + self._under_way[chosen]
        waiting = self._waiting
        if self._held:
            is_held = np.isin(judge, list(self._held))
            waiting = np.where(is_held, np.maximum(waiting, urgency), waiting)
        is_ahead = overtaking(urgency[chosen], made, judge[chosen], waiting, judge) & ~is_near
        if not is_ahead.any():
            return chosen
        if under_way or not is_ahead[0]:
            return chosen[: int(is_ahead.argmax())]
        # No call is under way that could explain the failure: an answer to another arm of its judge shows whose fault it was.
        failed = judge[np.where(judge == judge[chosen[0]], NEVER, self._waiting).argmax()]
        others = np.flatnonzero((judge == failed) & (urgency > NEVER))
        return others[[urgency[others].argmax()]] if len(others) else others

    # ── decisions and fits ────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> None:
        """Decide and fit by all answers so far, so that their order has no effect on the next choice."""
        self._ahead.clear()
        if self._learns and self._rated >= max(self._first_fit, self._rated_before + 1):
            self._rated_before = self._rated
            self._refit()
        if self._has_news:
            self._look()

    def _is_enough(self) -> bool:
        """Return whether nothing more is to be asked as things stand; calls under way may change that."""
        if self._verdicts is not None and self._verdicts.all_decided:
            return True
        return self._stop is not None and self._stop(self)

    def _is_settled(self, arm: int) -> bool:
        """Return whether no open decision depends on ``arm``; within its warm-up, every arm is asked."""
        if (
            self._verdicts is None
            or self._arms.n[arm] < self._warm_up
            or not self._verdicts.settled.item(arm)
        ):
            return False
        return self._nearness is None or self._nearness.item(arm) == NEVER

    def _is_held(self, arm: int) -> bool:
        """Return whether ``arm`` gets no call now, as its judge may repeat itself."""
        made = self._arms.n[arm] + self._arms.pending[arm]
        return self._limits is not None and self._limits.at_once(arm, made) < 1

    def _decide(self, verdicts: Verdicts, arm: int, outcome: Outcome) -> None:
        """Add ratings to the decisions, and look at them if it is time; once all are decided, after every answer."""
        verdicts.add(arm, () if isinstance(outcome, Unanswered) else outcome)
        self._has_news = True
        if not self._in_rounds and (self.budget.spent >= self._looks_at or verdicts.all_decided):
            self._look()

    def _look(self) -> None:
        """Begin to decide by all ratings so far, which may settle arms or reopen them."""
        verdicts = self._verdicts
        if self._is_looking or verdicts is None:
            return
        self._has_news, self._is_looking = False, True
        while self._looks_at <= self.budget.spent:
            self._looks_at = next_look(int(self._looks_at), len(self._arms))
        where = _here if len(self._arms) <= _FEW_ARMS else self.elsewhere
        where(lambda: self._changed_by(verdicts), self._take_look)

    def _changed_by(self, verdicts: Verdicts) -> set[int] | None:
        """Look at the decisions; return the sets whose urgency may have changed, None for very many."""
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
        n, total, total_sq = (
            each.astype(np.float64) for each in (self._n, self.arms.totals, self.arms.totals_sq)
        )
        try:
            return policy.fitted(n, total, total_sq)
        except SystemExit as error:
            raise exited(policy, error) from error

    def _take_fit(self, policy: Policy) -> None:
        """Choose by ``policy`` from now on."""
        self._policy, self._stale = policy, None
        self._ahead.clear()
        if not self._in_rounds:
            self._refit_at = next_refit(self._rated, self._first_fit)
