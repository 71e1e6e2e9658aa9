"""The planner: which arm is asked next.

plan() reserves calls of the most urgent arm. tell() takes their outcome, and is the only writer of the arms.

Arms are chosen in blocks of a sixty-fourth of all. With a block of one, visits of one and one call at a time, each choice
is the paper's argmax over all arms. Answers that come after a block was chosen change only the next block.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from robin_cli.goals.watch import Watch
from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import LONGEST_VISIT, RETIRE_AFTER
from robin_cli.model.space import Coordinates
from robin_cli.policies.base import WARM_UP, Columns, Policy
from robin_cli.policies.milestones import fits_from, looks_at
from robin_cli.policies.task import contest_of
from robin_cli.session import asking
from robin_cli.session.asking import FIRST, IN_WARM_UP, NEVER, most_urgent
from robin_cli.session.budget import CallBudget

Found = TypeVar("Found")

FEW_ARMS = 2**17
"""Up to this number of arms, a block is chosen and a policy fitted within some hundredths of a second."""

_ARMS_AT_ONCE = 2**15
"""Arms whose urgency is computed together: the temporary columns of a policy then fit into a cache."""


Elsewhere = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Does long work, perhaps in a thread, and passes its result to the second argument in the planner's own thread."""


def _here(work: Callable[[], Found], then: Callable[[Found], None]) -> None:
    then(work())


class Ticket(NamedTuple):
    """Permission for a visit: ``calls`` calls of ``arm``, numbered from ``draw``. tell() takes each call once."""

    arm: int
    draw: int
    calls: int


class Planner:
    """Chooses calls by a policy.

    :mod:`~robin_cli.session.asking` limits the calls of each arm. Besides, an arm past its warm-up gets no call until the
    calls left exceed what the warm-ups of other arms still need. An arm whose calls failed for now is deferred: it is asked
    again after another was rated, or if no other is left. An arm on which no open decision depends is not asked.

    Args:
        arms: the ratings so far, without calls under way.
        policy: fitted already, if it is a pooled one and there are ratings.
        budget: calls of all arms together; None for no limit.
        judge: number of each arm's judge, shape (K,); None for a single judge. Judges take turns, unless the policy chooses
            among them or their arms are asked together.
        watch: knows when nothing more is to be asked, the decisions so far, and judges that repeat themselves.
        may_end_early: whether the money may end the run before its budget is spent, so that no arm may be far ahead of others.
        first_visit: calls of the first visit of an arm.
        round_depth: calls of each arm in the first round, if calls go out in rounds; None if answers come meanwhile.
        together: number of consecutive arms that form a set. All are asked equally often; once one is given up, none of them is
            asked.
        looked: calls spent at the look with which the decisions begin; 0 if they begin without one.
        first_fit: ratings at which a pooled policy is fitted first; None for the number of arms.

    Attributes:
        arms: the numbers, read-only.
        budget: of calls: plan() reserves them, tell() settles them.
        block: arms chosen at once.
        enough: calls under way after which visits of several calls wait: they would be chosen on old knowledge.
        elsewhere: does long work; until a fit is done, the previous one chooses.
        round_depth: see above; 0 if answers come meanwhile.
        is_even: whether only the number of calls of each arm matters, not their order.
        warming_up: whether the last planned call belongs to a warm-up.
    """

    def __init__(
        self,
        arms: WritableArms,
        policy: Policy,
        *,
        budget: int | None = None,
        judge: Coordinates | None = None,
        watch: Watch | None = None,
        may_end_early: bool = False,
        first_visit: int = 1,
        round_depth: int | None = None,
        first_fit: int | None = None,
        together: int = 1,
        looked: int = 0,
    ) -> None:
        count = len(arms)
        self._arms, self.arms = arms, arms.read_only()
        self.budget = CallBudget(budget, arms.columns.spent)
        self.block, self.enough = asking.block_of(count), max(count, LONGEST_VISIT)
        self.elsewhere: Elsewhere = _here
        may_end_early = may_end_early or (watch is not None and watch.may_end_early)
        self.is_even = policy.evenly and not may_end_early
        self._policy, self._first_visit = policy, first_visit
        self._stop = None if watch is None else watch.stop
        self._verdicts = None if watch is None else watch.verdicts
        self._repeats = None if watch is None else watch.repeats
        self._decides = watch is not None and watch.decides
        self._limits = None if self._repeats is None else self._repeats.limits(self.arms)
        self._in_rounds, self.round_depth = round_depth is not None, round_depth or 0

        self._changed = bytearray(b"\1" * count)  # numpy takes longer to write single entries
        self._is_changed = np.frombuffer(self._changed, dtype=np.bool_)
        self._urgency = np.full(count, NEVER)
        self._nearness: FloatArray | None = None  # after the first look, for policies that use it
        self._together, self._sets = together, policy.contests
        if self._sets is None and together > 1:
            self._sets = np.arange(count).reshape(-1, together)
        self._set_of = None if self._sets is None else contest_of(self._sets, count)

        # Judges that take turns have a queue each: the rest of the block.
        takes_turns = judge is not None and policy.contests is None and together == 1
        self._turn = judge if judge is not None and takes_turns else np.zeros(count, np.int32)
        self._turn_of = self._turn.data
        queues = int(self._turn.max(initial=0)) + 1
        self._ahead: list[deque[int]] = [deque() for _ in range(queues)]
        self._has_changed = [True] * queues  # since the block was chosen
        spent = self.arms.n + self.arms.n_unparsed
        self._calls = np.bincount(self._turn, spent, queues).astype(int).tolist()
        self._pending = [0] * queues
        self._asked: set[int] = set()  # arms of the block that a request asked along with another
        self._deferred: set[int] = set()
        self._visits = self.budget.spent  # planned so far; those of earlier sessions count as calls
        self._is_thinking = self._is_idle = self.warming_up = False

        self._warm_up = max(policy.warm_up, self.round_depth)
        self._is_warmed_up = not self._warm_up
        self._share = self._warm_up  # calls of an arm in its warm-up that the budget allows
        self._even = self.budget.total // max(1, count)  # calls of an arm in an even spread
        self._spare_calls = asking.NO_END  # calls left for arms past their warm-up

        self._rated = int(arms.columns.n.sum())
        self._fits = fits_from(count if first_fit is None else first_fit)
        self._looks = looks_at(count)
        self._refit_at = (
            np.inf
        )  # ratings at which the policy is fitted, in rounds at the begin of one
        if policy.refits:
            self._refit_at = self._fits.first if self._in_rounds else self._fits.after(self._rated)
        self._looks_at = np.inf if self._verdicts is None else self._looks.after(looked)
        self._has_news = 0 < looked < self.budget.spent  # answers after the last look

    @property
    def is_over(self) -> bool:
        """Whether the budget is spent, or nothing could be planned and nothing is under way to change that."""
        is_quiet = self._is_idle and not self.budget.reserved and not self._is_thinking
        return self.budget.exhausted or is_quiet

    def plan(self, longest: int = 1, held: Collection[int] = ()) -> Ticket | None:
        """Reserve a visit of 1 to ``longest`` calls of the most urgent arm.

        Args:
            held: judges that take no more calls now. Others go on if judges take turns.

        Returns:
            None if every arm must wait for calls under way, for a block to be chosen, or if the run :attr:`is_over`.
        """
        if self._in_rounds and not self.budget.reserved:
            self._begin_round()
        if self.budget.spent >= self._looks_at:  # answers of earlier sessions
            self._look()
        ticket = self._next(longest, held)
        if ticket is None and not held and not self.budget.reserved and self.budget.available:
            if self._has_news:
                self._look()  # arms given up since may leave more calls to the others
            if not self._is_thinking:
                self._readmit()  # no other arm is left
            ticket = self._next(longest, held)
        self._is_idle = ticket is None and not held
        return ticket

    def along(self, ticket: Ticket, arms: Iterable[int]) -> list[Ticket]:
        """Reserve visits of those of ``arms`` that may be asked in the requests of ``ticket``, as far as the budget goes.

        Args:
            ticket: the last one planned; no other visit has more calls.
            arms: with that of the ticket, in the order of the request.
        """
        tickets = []
        for arm in arms:
            other: Ticket | None = ticket
            if arm != ticket.arm:
                is_wanted = self._urgency.item(arm) > NEVER or self._is_near(arm)
                has_room = self._spare_calls > 0 or self._arms.n[arm] < self._warm_up
                may_ask = is_wanted and has_room and self.budget.available and self._is_open(arm)
                other = self._ticket(arm, ticket.calls) if may_ask else None
            if other is not None:
                tickets.append(other)
        if len(tickets) > 1:
            self._asked.update(ticket.arm for ticket in tickets)
        return tickets

    def tell(self, ticket: Ticket, outcome: Outcome) -> None:
        """Take the outcome of a ticket's calls: it changes the arms, the budget and the next choice."""
        arm, draw, calls = ticket
        arms, turn = self._arms, self._turn_of[arm]
        rated, pending = arms.n[arm], arms.pending[arm]
        if not 0 < calls <= pending:
            raise ValueError(f"arm {arm} has {pending} calls under way, not {calls}")
        # Before the arm is written: a thread that reads it meanwhile computes it again.
        self._changed[arm] = self._has_changed[turn] = True
        arms.pending[arm] = pending - calls
        spent = arms.add(arm, outcome)
        self.budget.settle(calls, spent)
        self._pending[turn] -= calls
        self._calls[turn] -= calls - spent
        if outcome is Unanswered.WITHDRAWN:
            if not self._in_rounds and arms.next_draw[arm] == draw + calls:
                arms.next_draw[arm] = draw
            self._drop_block()  # else another would be asked in its place
            return
        failed = isinstance(outcome, Unanswered) and outcome is not Unanswered.PERMANENT
        if failed:
            self._deferred.add(arm)
        self._rated += arms.n[arm] - rated
        if self._rated >= self._refit_at and not self._in_rounds:
            self._refit()  # before the look: a resumed run looks with the same fit
        if self._verdicts is not None and (not failed or arms.retired(arm)):
            self._verdicts.add(arm, () if isinstance(outcome, Unanswered) else outcome)
            self._has_news = True
            is_due = self.budget.spent >= self._looks_at or self._verdicts.all_decided
            if is_due and not self._in_rounds:
                self._look()
        if not failed and self._deferred:
            self._deferred.discard(arm)
            if not arms.streak[arm]:
                self._readmit()

    def take_up(self, tickets: Sequence[Ticket], next_draws: IntArray | None = None) -> None:
        """Count calls that an earlier planner planned as under way; tell() then takes the outcome of each.

        Args:
            next_draws: least number of each arm's next call, shape (K,): lower ones may still be answered.

        Raises:
            ValueError: they are more than the budget has.
        """
        draws = self._arms.columns.next_draw
        least = draws.copy() if next_draws is None else np.maximum(draws, next_draws)
        for ticket in tickets:
            self._reserve(ticket)
        np.maximum(draws, least, out=draws)

    # ── the next arm ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self, longest: int, held: Collection[int]) -> Ticket | None:
        """Reserve a visit of the next arm of the block that may still be asked; choose a block if there is none."""
        is_decided = self._verdicts is not None and self._verdicts.all_decided
        if is_decided or (self._stop is not None and self._stop(self)):
            self._drop_block()  # calls under way may undo it
        elif longest == 1 or self.is_even or self._in_rounds or self.budget.reserved < self.enough:
            while self.budget.available and (arm := self._pop(held)) is not None:
                if self._is_open(arm):
                    return self._ticket(arm, longest)
        return None

    def _pop(self, held: Collection[int]) -> int | None:
        """Return the next arm of the judge with the fewest calls.

        A judge that is held, or waits for answers, keeps its share of the budget: others may lead it by at most one call per
        arm or a quarter, whichever is more. So a fast judge does not spend the calls of a slow one.
        """
        queues, most = len(self._ahead), self.budget.total
        for turn in (0,) if queues == 1 else sorted(range(queues), key=self._calls.__getitem__):
            calls, is_held = self._calls[turn], turn in held if queues > 1 else bool(held)
            if calls >= most:
                break
            if not is_held:
                if not self._ahead[turn]:
                    self._choose(turn)
                if self._ahead[turn]:
                    return self._ahead[turn].popleft()
            share = self.budget.total // queues
            waits = self._pending[turn] or turn in map(self._turn_of.__getitem__, self._deferred)
            if calls < share and (is_held or waits):
                most = min(most, share, calls + max(len(self._arms) // queues, calls // 4))
        return None

    def _drop_block(self) -> None:
        for queue in self._ahead:
            queue.clear()
        self._has_changed = [True] * len(self._ahead)

    def _is_open(self, arm: int) -> bool:
        """Return whether ``arm``, of the block, may be asked, whatever happened since it was chosen."""
        arms = self._arms
        if arms.streak[arm] >= RETIRE_AFTER or arm in self._deferred or arm in self._asked:
            return False
        is_settled = self._verdicts is not None and self._verdicts.settled.item(arm)
        if is_settled and arms.n[arm] >= self._warm_up and not self._is_near(arm):
            return False  # its warm-up ended since
        made = arms.n[arm] + arms.pending[arm]
        return self._limits is None or self._limits.at_once(arm, made) > 0

    def _is_near(self, arm: int) -> bool:
        return self._nearness is not None and self._nearness.item(arm) > NEVER

    def _ticket(self, arm: int, longest: int) -> Ticket | None:
        """Reserve a visit of ``arm``; None if all calls left belong to warm-ups."""
        arms = self._arms
        n, pending, streak = arms.n[arm], arms.pending[arm], arms.streak[arm]
        made = n + pending
        calls = min(longest, self.budget.available)
        if calls > 1:
            wanted = LONGEST_VISIT if self.is_even else asking.visit_of(made, self._first_visit)
            if n < max(1, self._warm_up):  # all arms get an even share first
                wanted = min(wanted, max(1, self._even - made))
            if not n or streak:  # perhaps it cannot be rated
                wanted = min(wanted, max(1, RETIRE_AFTER - streak - pending))
            calls = min(calls, wanted)
        if self._limits is not None:
            calls = max(1, min(calls, self._limits.at_once(arm, made)))
            self._limits.count(arm, made, calls)
        self.warming_up = n < self._warm_up
        if self._spare_calls < asking.NO_END and not self.warming_up:
            calls = min(calls, self._spare_calls)
            if calls < 1:
                self._drop_block()
                return None
            self._spare_calls -= calls
        ticket = Ticket(arm, arms.next_draw[arm], calls)
        self._reserve(ticket)
        self._visits += 1
        return ticket

    def _reserve(self, ticket: Ticket) -> None:
        arm, draw, calls = ticket
        turn = self._turn_of[arm]
        self.budget.reserve(calls)
        self._changed[arm] = self._has_changed[turn] = True
        self._arms.next_draw[arm] = draw + calls
        self._arms.pending[arm] += calls
        self._pending[turn] += calls
        self._calls[turn] += calls

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in deferred:
            self._changed[arm] = self._has_changed[self._turn_of[arm]] = True

    # ── a block ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _think(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work``, elsewhere if there are many arms; meanwhile nothing else is chosen or looked at."""
        self._is_thinking = True

        def finish(result: Found) -> None:
            self._is_thinking = self._is_idle = False
            then(result)

        (_here if len(self._arms) <= FEW_ARMS else self.elsewhere)(work, finish)

    def _choose(self, turn: int) -> None:
        """Begin to choose the next block, if anything changed in this queue since the last one."""
        if self._is_thinking or not self._has_changed[turn]:
            return
        changed = np.flatnonzero(self._is_changed)
        self._is_changed[:] = False
        self._has_changed = [False] * len(self._ahead)
        policy, deferred = self._policy, sorted(self._deferred)
        count = min(-(-self.block // len(self._ahead)), len(self._arms), self.budget.available)
        self._think(lambda: self._block(policy, changed, deferred, count), self._take_block)

    def _take_block(self, chosen: list[IntArray]) -> None:
        self._ahead = [deque(arms.tolist()) for arms in chosen]
        self._asked.clear()

    def _block(
        self, policy: Policy, changed: IntArray, deferred: list[int], count: int
    ) -> list[IntArray]:
        """Choose up to ``count`` arms of each queue. Outcomes may come meanwhile."""
        if not self._is_warmed_up and self._share_out():
            changed = np.arange(len(self._arms))
        seen = None if self._verdicts is None else self._verdicts.seen
        if seen is not None and self._nearness is None:
            self._nearness = np.full(len(self._arms), NEVER)
        for members in self._in_parts(changed):
            self._refresh(policy, members)
        columns = [self._urgency, *([] if self._nearness is None else [self._nearness])]
        for column in columns:
            column[deferred] = NEVER
        if self._repeats is not None:
            self._limits = self._repeats.limits(self.arms)
            if self._limits is None:  # the repeats of every judge differ
                self._repeats = None
            else:
                may_be_asked = self._limits.may_be_asked(self.arms.n + self.arms.pending)
                columns = [np.where(may_be_asked, column, NEVER) for column in columns]
        urgency, *nearness = columns
        queues = [urgency]
        if len(self._ahead) > 1:
            turns = range(len(self._ahead))
            queues = [np.where(self._turn == turn, urgency, NEVER) for turn in turns]
        chosen = [self._warm_ups_first(most_urgent(column, count)) for column in queues]
        if seen is not None and not (self._urgency[chosen[0][:1]] > IN_WARM_UP).any():
            near = most_urgent(nearness[0], count)
            return [asking.by_turns(chosen[0], near, self._visits, seen.part.item(), count)]
        if self._together > 1 and count > 1:
            # A rating of one of them is of no use without the others.
            sets = np.fromiter(dict.fromkeys(chosen[0] // self._together), np.int64)
            of_sets = (sets[:, None] * self._together + np.arange(self._together)).ravel()
            return [of_sets[self._urgency[of_sets] > NEVER][:count]]
        return chosen

    def _warm_ups_first(self, chosen: IntArray) -> IntArray:
        """Return the arms in their warm-up alone, if there are any: their last answers may change the others."""
        is_first = self._urgency[chosen] > IN_WARM_UP
        return chosen[is_first] if is_first.any() else chosen

    def _share_out(self) -> bool:
        """Divide the available calls among the warm-ups; return whether their share has changed.

        Arms that were given up leave theirs to the others. Calls that the warm-ups still need are reserved for them, and so is
        an even share for arms without a first answer.
        """
        n, budget = self.arms.n, self.budget
        made, is_kept = n + self.arms.pending, self.arms.streak < RETIRE_AFTER
        before, self._share, self._spare_calls = self._share, self._warm_up, asking.NO_END
        if budget.is_limited:
            kept = max(1, int(is_kept.sum()))
            self._even, rest = divmod(budget.available + int(made[is_kept].sum()), kept)
            self._share = min(self._warm_up, self._even + (rest > 0))
        is_first = is_kept & (n < self._share)
        self._is_warmed_up = self._share == self._warm_up and not is_first.any()
        if budget.is_limited and budget.reserved and not self._is_warmed_up:
            wanted = self._share if self._in_rounds else max(self._share, self._even)
            needed = int(np.maximum(0, wanted - made[is_first]).sum())
            self._spare_calls = max(0, budget.available - needed)
        return self._share != before

    def _in_parts(self, arms: IntArray) -> Iterator[IntArray]:
        """Yield ``arms``, or the whole sets that hold them, some at a time."""
        step = _ARMS_AT_ONCE
        if self._sets is not None and self._set_of is not None:
            is_changed = np.zeros(len(self._sets), dtype=np.bool_)
            is_changed[self._set_of[arms]] = True
            arms, step = np.flatnonzero(is_changed), max(1, step // self._sets[0].size)
        for start in range(0, len(arms), step):
            some = arms[start : start + step]
            members = some if self._sets is None else self._sets[some]
            yield members if self._policy.contests is not None else members.ravel()

    def _refresh(self, policy: Policy, members: IntArray) -> None:
        """Compute the urgency of ``members`` anew: arms, shape (N,), or whole contests of the policy, with −1 for none."""
        is_arm = members >= 0 if members.ndim > 1 else ...
        some = members[is_arm]
        n, pending, streak = self.arms.n[some], self.arms.pending[some], self.arms.streak[some]
        made, is_known = n + pending, n >= self._warm_up
        calls, turn = made.astype(np.float64), policy.turn  # the fewest calls come first
        worth = WARM_UP - (calls if turn is None else calls * len(turn) + turn[some])
        nearness = None
        if is_known.any():
            by_policy, near = self._by_policy(policy, members)
            nearness = None if near is None else near[is_arm]
            worth = (
                by_policy[is_arm]
                if is_known.all()
                else np.where(is_known, by_policy[is_arm], worth)
            )
            if not (is_finite := np.isfinite(worth)).all():
                self._refuse_infinite(policy, some[~is_finite], worth[~is_finite])
        if self._in_rounds:
            limits = (n, streak, self._warm_up, self._share)
            most = asking.most_in_a_round(*limits, decides=self._decides)
        else:
            most = asking.most_under_way(n, streak, self._warm_up, self._share)
        may_ask = (streak < RETIRE_AFTER) & (pending < most)
        if self._together > 1:
            of_set = made.reshape(-1, self._together)
            if policy.contests is None:  # else it says itself what completes a comparison
                completes = (of_set == 0) & (of_set > 0).any(axis=1, keepdims=True)
                worth[completes.ravel() & is_known] = FIRST
            is_lost = (streak >= RETIRE_AFTER).reshape(of_set.shape).any(axis=1, keepdims=True)
            may_ask &= ~((of_set > of_set.min(axis=1, keepdims=True)) | is_lost).ravel()
        if self._nearness is not None:
            is_near = may_ask & is_known
            self._nearness[some] = NEVER if nearness is None else np.where(is_near, nearness, NEVER)
        if self._verdicts is not None:
            may_ask &= ~(self._verdicts.settled[some] & is_known)
        self._urgency[some] = np.where(may_ask, worth, NEVER)

    def _by_policy(self, policy: Policy, members: IntArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the urgency and the nearness of ``members``; they mean nothing in a warm-up, and where there is no arm."""
        columns = (self.arms.n, self.arms.pending, self.arms.total, self.arms.total_sq)
        values = [column[members].astype(np.float64, copy=False) for column in columns]
        arm = members
        if members.ndim > 1:
            values, arm = [column * (members >= 0) for column in values], np.maximum(members, 0)
        n, pending, total, total_sq = values
        seen = None if self._verdicts is None else self._verdicts.seen
        return asking.urgency_by(policy, seen, Columns(n, pending, total, total_sq, arm))

    def _refuse_infinite(self, policy: Policy, some: IntArray, priorities: FloatArray) -> None:
        """Raise InputError if a priority is not finite: going on would leave arms out, or never end."""
        for arm, priority in zip(some.tolist(), priorities.tolist(), strict=True):
            near = (
                arm if self._sets is None or self._set_of is None else self._sets[self._set_of[arm]]
            )
            if not self._is_changed[near].any():  # else their columns may not fit together
                raise InputError(
                    f"--scheduler: {policy.full_name} gives arm {arm} the priority {priority}, which is not a finite "
                    "number; every answer is kept. Report this to its authors"
                )

    # ── decisions and fits ────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> None:
        """Decide and fit by all answers so far, so that their order has no effect on the next choice."""
        self._drop_block()
        if self._rated >= self._refit_at:
            self._refit()
        if self._has_news:
            self._look()

    def _look(self) -> None:
        """Begin to decide by all ratings so far, which may settle arms or reopen them."""
        verdicts = self._verdicts
        if verdicts is None or self._is_thinking:
            return
        self._has_news = False
        self._looks_at = self._looks.after(self.budget.spent)
        self._think(lambda: verdicts.look(self.arms, self._policy), self._take_look)

    def _take_look(self, changed: IntArray) -> None:
        self._is_changed[changed] = True
        self._drop_block()

    def _refit(self) -> None:
        """Begin to fit the policy by all answers so far."""
        self._refit_at = np.inf
        policy = self._policy
        is_long = policy.fits_long or len(self._arms) > FEW_ARMS
        (self.elsewhere if is_long else _here)(lambda: self._fitted(policy), self._take_fit)

    def _fitted(self, policy: Policy) -> Policy:
        columns = (self.arms.n, self.arms.total, self.arms.total_sq)
        return policy.fitted(*(column.astype(np.float64) for column in columns))

    def _take_fit(self, policy: Policy) -> None:
        self._policy = policy
        self._is_changed[:] = True
        self._drop_block()
        self._refit_at = self._rated + 1 if self._in_rounds else self._fits.after(self._rated)
