"""The planner: which arm is asked next.

plan() reserves calls of the most urgent arm. tell() takes their outcome, and is the only writer of the arms.

Arms are chosen in blocks of a sixty-fourth of all. With a block of one, visits of one and one call at a time, each choice
is the paper's argmax over all arms. Answers that come after a block was chosen change only the next block. An arm of the
block that is settled, given up or failed by then is skipped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from robin_cli.goals.stopping import StoppingRule
from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import LONGEST_VISIT, RETIRE_AFTER
from robin_cli.model.space import Coordinates
from robin_cli.policies.base import WARM_UP, Columns, Policy
from robin_cli.policies.milestones import fits_from, looks_at
from robin_cli.policies.task import contest_of
from robin_cli.session import asking, urgency
from robin_cli.session.budget import CallBudget
from robin_cli.session.urgency import FIRST, IN_WARM_UP, NEVER, most_urgent
from robin_cli.stats.decisions import RunVerdicts
from robin_cli.stats.repeats import Repeats

Found = TypeVar("Found")

FEW_ARMS = 2**17
"""Up to this number of arms, a block is chosen and a policy fitted within some hundredths of a second."""

_ARMS_AT_ONCE, _SETS_AT_ONCE = 2**15, 2**12
"""Arms, or sets, whose urgency is computed together: the temporary columns of a policy then fit into a cache."""


class Elsewhere(Protocol):
    """The place of long work."""

    def __call__(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work``, perhaps in a thread, and pass its result to ``then`` in the planner's own thread."""


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
        stop: while it returns True nothing is asked; with nothing under way the run is then over.
        verdicts: the decisions by the ratings so far; None if nothing is certified.
        may_end_early: whether the run may end before its budget is spent, so that no arm may be far ahead of others.
        first_visit: calls of the first visit of an arm.
        round_depth: calls of each arm in the first round, if calls go out in rounds; None if answers come meanwhile.
        together: number of consecutive arms that are asked equally often. None is asked again before all of them have as many
            calls, or after one was given up.
        decides: whether the run decides, so that a round at most triples the ratings of an arm.
        looked: calls spent at the look with which ``verdicts`` begin; 0 if they begin without one.
        first_fit: ratings at which a pooled policy is fitted first; None for the number of arms.
        repeats: finds judges that repeat themselves; None to ask them all the same.

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
        stop: StoppingRule | None = None,
        verdicts: RunVerdicts | None = None,
        decides: bool = False,
        may_end_early: bool = False,
        first_visit: int = 1,
        round_depth: int | None = None,
        first_fit: int | None = None,
        together: int = 1,
        looked: int = 0,
        repeats: Repeats | None = None,
    ) -> None:
        count = len(arms)
        self._arms, self.arms = arms, arms.read_only()
        self.budget = CallBudget(budget, arms.columns.spent)
        self.block, self.enough = urgency.block_of(count), max(count, LONGEST_VISIT)
        self.elsewhere: Elsewhere = _here
        self.is_even = policy.evenly and not may_end_early and stop is None and verdicts is None
        self.warming_up = False
        self._policy, self._stop, self._verdicts = policy, stop, verdicts
        self._decides = decides or verdicts is not None
        self._repeats = repeats
        self._limits = None if repeats is None else repeats.limits(self.arms)
        self._in_rounds, self.round_depth = round_depth is not None, round_depth or 0
        self._together, self._first_visit = together, first_visit
        self._sets = policy.contests  # arms whose urgencies are computed together
        if self._sets is None and together > 1:
            self._sets = np.arange(count).reshape(-1, together)
        self._has_gaps = self._sets is not None and bool((self._sets < 0).any())
        self._set_of: Sequence[int] = (
            range(count) if self._sets is None else contest_of(self._sets, count).data
        )
        takes_turns = judge is not None and judge.any() and policy.contests is None
        self._judge = judge if takes_turns and together == 1 else None
        judges = 1 if self._judge is None else int(self._judge.max(initial=0)) + 1
        self._ahead: list[deque[int]] = [deque() for _ in range(judges)]  # rest of the block
        self._has_changed = [True] * judges  # since the block was chosen
        self._calls, self._pending = [0] * judges, [0] * judges  # of each judge that takes turns
        if self._judge is not None:
            spent = self.arms.n + self.arms.n_unparsed
            self._calls = np.bincount(self._judge, spent, judges).astype(int).tolist()
        sets = count if self._sets is None else len(self._sets)
        self._stale = bytearray(b"\1" * sets)  # numpy takes longer to write single entries
        self._is_stale = np.frombuffer(self._stale, dtype=np.bool_)
        self._urgency = np.full(count, NEVER)
        self._nearness: FloatArray | None = None  # after the first look, for policies that use it
        self._asked: set[int] = set()  # arms of the block that a request asked along with another
        self._deferred: set[int] = set()
        self._visits = self.budget.spent  # planned so far; those of earlier sessions count as calls
        self._is_thinking = self._is_idle = False

        self._warm_up = max(policy.warm_up, self.round_depth)
        self._is_warmed_up = not self._warm_up
        self._share = self._warm_up  # calls of an arm in its warm-up that the budget allows
        self._even = self.budget.total // max(1, count)  # calls of an arm in an even spread
        self._room = asking.NO_END  # calls left for arms past their warm-up

        self._rated = int(arms.columns.n.sum())
        self._rated_before = -1  # ratings at the begin of the last round
        self._fits, self._looks = (
            fits_from(count if first_fit is None else first_fit),
            looks_at(count),
        )
        self._refit_at = self._looks_at = np.inf
        if policy.refits and not self._in_rounds:
            self._refit_at = self._fits.after(self._rated)
        if verdicts is not None:
            self._looks_at = self._looks.after(looked)
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
        if ticket is None and not self.budget.reserved and self.budget.available:
            if self._has_news:
                self._look()  # arms given up since may leave more calls to the others
            if not self._is_thinking:
                self._readmit()  # no other arm is left
            ticket = self._next(longest, held)
        self._is_idle = ticket is None
        return ticket

    def along(self, ticket: Ticket, arms: Iterable[int]) -> list[Ticket]:
        """Reserve visits of those of ``arms`` that may be asked in the requests of ``ticket``, as far as the budget goes.

        Args:
            ticket: the last one planned; no other visit has more calls.
            arms: with that of the ticket, in the order of the request.
        """
        tickets = []
        for arm in arms:
            other: Ticket | None = None
            if arm == ticket.arm:
                other = ticket
            elif self.budget.available and self._is_open(arm) and self._is_wanted(arm):
                other = self._ticket(arm, ticket.calls)
            if other is not None:
                tickets.append(other)
        if len(tickets) > 1:
            self._asked.update(ticket.arm for ticket in tickets)
        return tickets

    def tell(self, ticket: Ticket, outcome: Outcome) -> None:
        """Take the outcome of a ticket's calls: it changes the arms, the budget and the next choice."""
        arm, draw, calls = ticket
        arms = self._arms
        rated, pending = arms.n[arm], arms.pending[arm]
        if not 0 < calls <= pending:
            raise ValueError(f"arm {arm} has {pending} calls under way, not {calls}")
        self._note_change(arm)
        arms.pending[arm] = pending - calls
        spent = arms.add(arm, outcome)
        self.budget.settle(calls, spent)
        if self._judge is not None:
            self._pending[self._judge.item(arm)] -= calls
            self._calls[self._judge.item(arm)] -= calls - spent
        if outcome is Unanswered.WITHDRAWN:
            if not self._in_rounds and arms.next_draw[arm] == draw + calls:
                arms.next_draw[arm] = draw
            self._clear()  # else another would be asked in its place
            return
        failed = isinstance(outcome, Unanswered) and outcome is not Unanswered.PERMANENT
        if failed:
            self._deferred.add(arm)
        self._rated += arms.n[arm] - rated
        if self._rated >= self._refit_at:
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
        arms = self._arms
        if next_draws is not None:
            draws = arms.columns.next_draw
            np.maximum(draws, next_draws, out=draws)
        if tickets:
            self.budget.reserve(sum(ticket.calls for ticket in tickets))
        for arm, draw, calls in tickets:
            arms.pending[arm] += calls
            arms.next_draw[arm] = max(arms.next_draw[arm], draw + calls)
            if self._judge is not None:
                self._pending[self._judge.item(arm)] += calls
                self._calls[self._judge.item(arm)] += calls
            self._note_change(arm)

    # ── the next arm ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _next(self, longest: int, held: Collection[int]) -> Ticket | None:
        """Reserve a visit of the next arm of the block that may still be asked; choose a block if there is none."""
        if self._is_enough():
            self._clear()
        elif longest == 1 or self.is_even or self._in_rounds or self.budget.reserved < self.enough:
            while self.budget.available and (arm := self._pop(held)) is not None:
                if self._is_open(arm):
                    return self._ticket(arm, longest)
        return None

    def _pop(self, held: Collection[int]) -> int | None:
        """Return the next arm of the judge with the fewest calls.

        While a judge is held, or all of its arms wait for answers, no other gets more than one call for each arm, or a
        quarter more calls, or an even share of the budget: a quick judge must not spend the calls of a slow one.
        """
        if self._judge is None:
            if not self._ahead[0]:
                self._choose(0)
            return self._ahead[0].popleft() if self._ahead[0] and not held else None
        queues = len(self._ahead)
        most, share = self.budget.total, self.budget.total // queues
        for judge in sorted(range(queues), key=self._calls.__getitem__):
            calls = self._calls[judge]
            if calls >= most:
                break
            if judge not in held:
                if not self._ahead[judge]:
                    self._choose(judge)
                if self._ahead[judge]:
                    return self._ahead[judge].popleft()
            if calls < share and (judge in held or self._is_awaited(judge)):
                most = min(most, share, calls + max(len(self._arms) // queues, calls // 4))
        return None

    def _is_awaited(self, judge: int) -> bool:
        """Return whether an arm of ``judge`` may be asked again after answers to come."""
        column = self._judge
        deferred = column is not None and any(column[arm] == judge for arm in self._deferred)
        return deferred or self._pending[judge] > 0

    def _clear(self) -> None:
        """Drop the rest of the block."""
        for queue in self._ahead:
            queue.clear()
        self._has_changed = [True] * len(self._ahead)

    def _is_enough(self) -> bool:
        """Return whether nothing more is to be asked as things stand; calls under way may change that."""
        is_decided = self._verdicts is not None and self._verdicts.all_decided
        return is_decided or (self._stop is not None and self._stop(self))

    def _is_open(self, arm: int) -> bool:
        """Return whether ``arm`` may be asked, whatever happened since its block was chosen."""
        is_out = self._arms.streak[arm] >= RETIRE_AFTER or arm in self._deferred
        if is_out or arm in self._asked:
            return False
        made = self._arms.n[arm] + self._arms.pending[arm]
        if self._limits is not None and self._limits.at_once(arm, made) < 1:
            return False
        if self._verdicts is None or self._arms.n[arm] < self._warm_up:
            return True
        is_near = self._nearness is not None and self._nearness.item(arm) > NEVER
        return is_near or not self._verdicts.settled.item(arm)

    def _is_wanted(self, arm: int) -> bool:
        """Return whether there is a reason to ask ``arm``, and room beside the warm-ups."""
        is_near = self._nearness is not None and self._nearness[arm] > NEVER
        has_room = self._room > 0 or self._arms.n[arm] < self._warm_up
        return has_room and (is_near or self._urgency.item(arm) > NEVER)

    def _ticket(self, arm: int, longest: int) -> Ticket | None:
        """Reserve a visit of ``arm``; None if all calls left belong to warm-ups."""
        arms = self._arms
        n, pending, draw = arms.n[arm], arms.pending[arm], arms.next_draw[arm]
        made = n + pending
        calls = min(longest, self.budget.available)
        if calls > 1:
            wanted = LONGEST_VISIT if self.is_even else asking.visit_of(made, self._first_visit)
            if n < max(1, self._warm_up):  # all arms get an even share first
                wanted = min(wanted, max(1, self._even - made))
            if not n or arms.streak[arm]:  # perhaps it cannot be rated
                wanted = min(wanted, max(1, RETIRE_AFTER - arms.streak[arm] - pending))
            calls = min(calls, wanted)
        if self._limits is not None:
            calls = max(1, min(calls, self._limits.at_once(arm, made)))
            self._limits.count(arm, made, calls)
        self.warming_up = n < self._warm_up
        if self._room < asking.NO_END and not self.warming_up:
            calls = min(calls, self._room)
            if calls < 1:
                self._clear()
                return None
            self._room -= calls
        self._note_change(arm)
        arms.next_draw[arm] = draw + calls
        arms.pending[arm] = pending + calls
        self.budget.reserve(calls)
        if self._judge is not None:
            self._pending[self._judge.item(arm)] += calls
            self._calls[self._judge.item(arm)] += calls
        self._visits += 1
        return Ticket(arm, draw, calls)

    def _note_change(self, arm: int) -> None:
        # Before the arm is written: a thread that reads it meanwhile computes it again.
        self._stale[self._set_of[arm]] = True
        self._has_changed[0 if self._judge is None else self._judge.item(arm)] = True

    def _readmit(self) -> None:
        deferred, self._deferred = self._deferred, set()
        for arm in deferred:
            self._note_change(arm)

    # ── a block ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _think(self, work: Callable[[], Found], then: Callable[[Found], None]) -> None:
        """Do ``work``, elsewhere if there are many arms; meanwhile nothing else is chosen or looked at."""
        self._is_thinking = True

        def finish(result: Found) -> None:
            self._is_thinking = self._is_idle = False
            then(result)

        (_here if len(self._arms) <= FEW_ARMS else self.elsewhere)(work, finish)

    def _choose(self, judge: int) -> None:
        """Begin to choose the next block, if anything changed for ``judge`` since the last one."""
        if self._is_thinking or not self._has_changed[judge]:
            return
        stale = np.flatnonzero(self._is_stale)
        self._is_stale[:] = False
        self._has_changed = [False] * len(self._ahead)
        policy, deferred = self._policy, sorted(self._deferred)
        count = min(-(-self.block // len(self._ahead)), len(self._arms), self.budget.available)
        self._think(lambda: self._block(policy, stale, deferred, count), self._take_block)

    def _take_block(self, chosen: list[IntArray]) -> None:
        self._ahead = [deque(arms.tolist()) for arms in chosen]
        self._asked.clear()

    def _block(
        self, policy: Policy, stale: IntArray, deferred: Sequence[int], count: int
    ) -> list[IntArray]:
        """Choose up to ``count`` arms of each judge that takes turns. Outcomes may come meanwhile."""
        if not self._is_warmed_up and self._share_out():
            stale = np.arange(len(self._is_stale))
        seen = None if self._verdicts is None else self._verdicts.seen
        if seen is not None and self._nearness is None:
            self._nearness = np.full(len(self._arms), NEVER)
        at_once = _ARMS_AT_ONCE if self._sets is None else _SETS_AT_ONCE
        for start in range(0, len(stale), at_once):
            self._refresh(policy, stale[start : start + at_once], deferred)
        columns = [self._urgency, *([] if self._nearness is None else [self._nearness])]
        if self._repeats is not None:
            self._limits = self._repeats.limits(self.arms)
            if self._limits is None:  # the repeats of every judge differ
                self._repeats = None
            else:
                may_be_asked = self._limits.may_be_asked(self.arms.n + self.arms.pending)
                columns = [np.where(may_be_asked, column, NEVER) for column in columns]
        of_judges = columns[:1]
        if self._judge is not None:
            judges = range(len(self._ahead))
            of_judges = [np.where(self._judge == judge, columns[0], NEVER) for judge in judges]
        chosen, *others = (
            _first_or_later(most_urgent(column, count), self._urgency) for column in of_judges
        )
        if seen is not None and not (self._urgency[chosen[:1]] > IN_WARM_UP).any():
            near = most_urgent(columns[1], count)
            part = seen.part.item()
            return [urgency.by_turns(chosen, near, self._visits, part, count), *others]
        if self._together > 1 and count > 1 and len(chosen):
            # A rating of one of them is of no use without the others.
            sets = np.fromiter(dict.fromkeys(chosen // self._together), np.int64)
            chosen = (sets[:, None] * self._together + np.arange(self._together)).ravel()
            chosen = chosen[self._urgency[chosen] > NEVER][:count]
        return [chosen, *others]

    def _share_out(self) -> bool:
        """Divide the available calls among the warm-ups; return whether their share has changed.

        Arms that were given up leave theirs to the others. Calls that the warm-ups still need are reserved for them, and so is
        an even share for arms without a first answer.
        """
        n, budget = self.arms.n, self.budget
        made, kept = n + self.arms.pending, self.arms.streak < RETIRE_AFTER
        before, self._share, even = self._share, self._warm_up, self._warm_up
        if budget.is_limited:
            count = max(1, int(kept.sum()))
            even, rest = divmod(budget.available + int(made[kept].sum()), count)
            self._share, self._even = min(self._warm_up, even + (rest > 0)), even
        is_first = kept & (n < self._share)
        self._is_warmed_up = self._share == self._warm_up and not is_first.any()
        self._room = asking.NO_END
        if budget.is_limited and budget.reserved and not self._is_warmed_up:
            wanted = self._share if self._in_rounds else max(self._share, even)
            needed = int(np.maximum(0, wanted - made[is_first]).sum())
            self._room = max(0, budget.available - needed)
        return self._share != before

    def _refresh(self, policy: Policy, rows: IntArray, deferred: Sequence[int]) -> None:
        """Compute the urgency of the arms of some sets anew. InputError if the policy gives one no finite priority."""
        members = rows if self._sets is None else self._sets[rows]
        if members.ndim == 2:
            members = members.ravel()
        at = members >= 0 if self._has_gaps else ...
        some = members[at].ravel()
        n, pending, streak = (
            self.arms.n[some],
            self.arms.pending[some],
            self.arms.streak[some],
        )
        made = n + pending
        is_known, is_kept = n >= self._warm_up, streak < RETIRE_AFTER
        nearness = None
        if not (known := np.count_nonzero(is_known)):
            worth = WARM_UP - self._place_in_warm_up(some, made)
        else:
            by_policy, near = self._by_policy(policy, members)
            worth, nearness = by_policy[at].ravel(), None if near is None else near[at].ravel()
            if known < len(some):
                worth = np.where(is_known, worth, WARM_UP - self._place_in_warm_up(some, made))
            if not (is_finite := np.isfinite(worth)).all():
                self._check(policy, some[~is_finite], worth[~is_finite])
        if self._in_rounds:
            most = asking.most_in_a_round(
                n, streak, self._warm_up, self._share, decides=self._decides
            )
        else:
            most = asking.most_under_way(n, streak, self._warm_up, self._share)
        may_be_asked = is_kept & (pending < most)
        if self._together > 1:
            of_set = made.reshape(-1, self._together)
            if members.ndim == 1:  # else the policy says what completes a comparison
                completes = (of_set == 0) & (of_set > 0).any(axis=1, keepdims=True)
                worth[completes.ravel() & is_known] = FIRST
            is_ahead = of_set > of_set.min(axis=1, keepdims=True)
            is_left_out = is_ahead | ~is_kept.reshape(of_set.shape).all(axis=1, keepdims=True)
            may_be_asked &= ~is_left_out.ravel()
        if deferred:
            may_be_asked &= ~np.isin(some, deferred)
        is_needed = may_be_asked
        if self._verdicts is not None:
            is_needed = may_be_asked & ~(self._verdicts.settled[some] & is_known)
        self._urgency[some] = np.where(is_needed, worth, NEVER)
        if self._nearness is not None:
            is_near = may_be_asked & is_known
            self._nearness[some] = NEVER if nearness is None else np.where(is_near, nearness, NEVER)

    def _place_in_warm_up(self, some: IntArray, made: IntArray) -> FloatArray:
        """Return the place of each of ``some`` arms in the warm-up: the fewest calls come first."""
        calls, turn = made.astype(np.float64), self._policy.turn
        return calls if turn is None else calls * len(turn) + turn[some]

    def _by_policy(self, policy: Policy, members: IntArray) -> tuple[FloatArray, FloatArray | None]:
        """Return the urgency and nearness of ``members`` past their warm-up, in their shape; any number for others."""
        columns = (self.arms.n, self.arms.pending, self.arms.total, self.arms.total_sq)
        n, *others = (column[members].astype(np.float64, copy=False) for column in columns)
        if members.ndim == 1:
            n = np.maximum(n, min(self._warm_up, 1))  # in a warm-up any number will do except 0
        elif self._has_gaps:
            n, *others = (column * (members >= 0) for column in (n, *others))
        pending, total, total_sq = others
        some = Columns(n, pending, total, total_sq, np.maximum(members, 0))
        seen = None if self._verdicts is None else self._verdicts.seen
        return urgency.urgency_by(policy, seen, some)

    def _check(self, policy: Policy, some: IntArray, priorities: FloatArray) -> None:
        """Raise InputError if a priority is not finite: going on would leave arms out, or never end."""
        for arm, priority in zip(some.tolist(), priorities.tolist(), strict=True):
            if not self._is_stale[self._set_of[arm]]:  # else its columns may not fit together
                raise InputError(
                    f"--scheduler: {policy.full_name} gives arm {arm} the priority {priority}, which is not a finite "
                    "number; every answer is kept. Report this to its authors"
                )

    # ── decisions and fits ────────────────────────────────────────────────────────────────────────────────────────────

    def _begin_round(self) -> None:
        """Decide and fit by all answers so far, so that their order has no effect on the next choice."""
        self._clear()
        if self._policy.refits and self._rated >= max(self._fits.first, self._rated_before + 1):
            self._rated_before = self._rated
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
        sets = changed if self._sets is None else np.asarray(self._set_of)[changed]
        self._is_stale[sets] = True
        self._clear()

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
        """Choose by ``policy`` from now on."""
        self._policy = policy
        self._is_stale[:] = True
        self._clear()
        if not self._in_rounds:
            self._refit_at = self._fits.after(self._rated)


def _first_or_later(chosen: IntArray, column: FloatArray) -> IntArray:
    """Return the arms in their warm-up alone, if there are any: their last answers may change the others."""
    is_first = column[chosen] > IN_WARM_UP
    return chosen[is_first] if is_first.any() else chosen
