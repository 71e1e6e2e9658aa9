"""What the scheduler is made of, each part by itself, against a slow way to say the same."""

from __future__ import annotations

import math
from typing import ClassVar
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import Arms, FloatArray, WritableArms
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import RETIRE_AFTER
from robin_cli.model.refits import last_refit, next_refit
from robin_cli.policies.base import Policy
from robin_cli.policies.own.robin import Robin
from robin_cli.policies.own.uniform import Uniform
from robin_cli.scheduling import heap
from robin_cli.scheduling.budget import CallBudget
from robin_cli.scheduling.eligibility import (
    WarmUp,
    give_another_chance,
    most_at_once,
    most_pending,
    most_pending_of_all,
    ratings_a_request,
)
from robin_cli.scheduling.heap import NEVER, Fairness, LazyHeap, adaptive_key, is_warm_up, warm_up_key
from robin_cli.scheduling.scheduler import HeapScheduler, Idle, Ticket
from robin_cli.scheduling.stopping import nothing_left, reached


def arms_of(*each: tuple[int, int, int]) -> WritableArms:
    """Arms with so many ratings, calls under way and judgments in a row without a rating."""
    arms = WritableArms(len(each))
    for arm, (n, pending, streak) in enumerate(each):
        arms.n[arm], arms.pending[arm], arms.streak[arm] = n, pending, streak
    return arms


def test_lets_so_many_calls_of_an_arm_be_under_way() -> None:
    for n, streak, warm_up, share, most in (
        # in its warm-up: no more than it has ratings, or five, and no more than its share leaves
        (0, 0, 20, 20, 5),
        (3, 0, 20, 20, 5),
        (8, 0, 20, 20, 8),
        (15, 0, 20, 20, 5),
        (19, 0, 20, 20, 1),
        (8, 0, 20, 10, 2),
        (10, 0, 20, 10, 0),
        # after it: a quarter of its ratings, and one at least
        (20, 0, 20, 20, 5),
        (23, 0, 20, 20, 5),
        (24, 0, 20, 20, 6),
        (1, 0, 1, 1, 1),
        (7, 0, 1, 1, 1),
        (8, 0, 1, 1, 2),
        # as long as the last judgment brought no rating: only so many as could retire it
        (40, 2, 20, 20, 3),
        (40, 4, 20, 20, 1),
        (40, 5, 20, 20, 0),
        (0, 0, 1, 9, 5),
        (0, 3, 20, 20, 2),
    ):
        assert most_pending(n, streak, warm_up, share) == most, (n, streak, warm_up)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(1, 30),
    st.integers(0, 30),
)
def test_says_of_all_arms_at_once_what_it_says_of_each(
    each: list[tuple[int, int, int]], warm_up: int, share: int
) -> None:
    together = most_pending_of_all(arms_of(*each), warm_up, share)
    for (n, pending, streak), most in zip(each, together.tolist(), strict=True):
        if streak < RETIRE_AFTER:
            assert most == most_pending(n, streak, warm_up, share)
        assert (pending < most) == (pending < most_pending(n, streak, warm_up, share))


def test_asks_so_often_at_once() -> None:
    for n, pending, streak, warm_up, share, calls in (
        (0, 0, 0, 20, 20, 5),  # nothing is known of it
        (0, 2, 0, 20, 20, 3),
        (3, 4, 0, 20, 20, 13),  # up to its warm-up's end
        (3, 0, 0, 20, 10, 7),
        (20, 0, 0, 20, 20, 5),  # a quarter of its ratings
        (20, 2, 0, 20, 20, 3),
        (20, 9, 0, 20, 20, 1),
        (20, 0, 3, 20, 20, 2),
        (2, 0, 0, 1, 1, 1),
    ):
        assert most_at_once(n, pending, streak, warm_up, share) == calls, (n, pending, streak)


def test_cuts_a_warm_up_short_evenly() -> None:
    for total, arms, calls, share, whole in (
        (10, 4, 20, 3, 2),
        (8, 4, 20, 2, 2),
        (100, 4, 20, 20, 20),
        (None, 4, 20, 20, 20),
        (10, 0, 20, 10, 10),
    ):
        warm_up = WarmUp(WritableArms(arms), calls, CallBudget(total))
        assert (warm_up.share, warm_up.whole_share, warm_up.calls) == (share, whole, calls), (total, arms, calls)
        assert warm_up.owed == (0 if total is None else share * arms), (total, arms, calls)


def test_owes_each_arm_what_is_missing_unless_it_was_given_up() -> None:
    arms = arms_of((3, 1, 0), (7, 2, 0), (0, 0, RETIRE_AFTER), (0, 0, RETIRE_AFTER - 1), (5, 2, 0))
    warm_up = WarmUp(arms, 7, CallBudget(100, 15))
    made = [n + pending for n, pending in zip(arms.n, arms.pending, strict=True)]
    assert [warm_up.owed_to(*each) for each in zip(made, arms.streak, strict=True)] == [3, 0, 0, 7, 0]
    assert warm_up.owed == 10


def test_divides_what_is_left_by_arms_given_up_among_the_others() -> None:
    arms = arms_of((0, 0, RETIRE_AFTER), (4, 0, 0), (2, 2, 0))
    budget = CallBudget(12, 6)
    budget.reserve(2)
    warm_up = WarmUp(arms, 20, budget)
    assert (warm_up.share, warm_up.owed) == (4, 0)
    # six of twelve are spent and two under way: with the eight made, twelve for two arms
    assert warm_up.raise_share()
    assert (warm_up.share, warm_up.owed) == (6, 4)
    assert not warm_up.raise_share()


def test_raises_no_share_beyond_the_warm_up_or_where_nothing_is_left() -> None:
    assert not WarmUp(arms_of((3, 0, 0), (0, 0, RETIRE_AFTER)), 3, CallBudget(50, 3)).raise_share()
    short = WarmUp(arms_of((3, 0, 0), (0, 0, RETIRE_AFTER)), 7, CallBudget(8, 3))
    assert short.share == 4
    assert short.raise_share()
    assert (short.share, short.owed) == (7, 4)
    assert not WarmUp(arms_of((0, 0, RETIRE_AFTER)), 20, CallBudget(8)).raise_share()


def test_gives_another_chance_to_what_a_judge_that_never_rated_lost() -> None:
    arms = arms_of((0, 0, 5), (9, 0, 5), (0, 0, 5), (0, 0, 2), (0, 0, 5), (0, 0, 5))
    for arm, unparsed in enumerate([5, 5, 5, 2, 4, 6]):
        arms.n_unparsed[arm] = unparsed
    give_another_chance(arms, np.array([0, 1, 1, 0, 0, 0], dtype=np.int32))
    # judge 1 rated an arm; of arm 4 a call was refused, which another judge would not mend
    assert list(arms.streak) == [0, 5, 5, 2, 5, 0]


class Slow:
    """A heap as one would say it: the smallest of all keys."""

    def __init__(self, keys: list[float]) -> None:
        self.keys = keys

    def first(self) -> int | None:
        arm = min(range(len(self.keys)), key=self.keys.__getitem__)
        return None if self.keys[arm] == NEVER else arm


@given(
    st.lists(st.sampled_from([-3.0, -2.5, -1.0, 0.5, NEVER]), min_size=1, max_size=6),
    st.lists(
        st.tuples(
            st.integers(0, 5), st.sampled_from([-4.0, -3.0, -2.0, 0.0, 1.0, NEVER]), st.booleans(), st.booleans()
        ),
        max_size=40,
    ),
    st.sampled_from([0, 1, 3, 1024]),
)
def test_finds_the_smallest_key(keys: list[float], changes: list[tuple[int, float, bool, bool]], fewest: int) -> None:
    slow = Slow(list(keys))
    with patch.object(heap, "_FEWEST", fewest):  # so many are moved before all are sorted anew
        quick = LazyHeap(list(keys), slow.keys.__getitem__)
    for number, key, later, look in changes:
        arm = number % len(keys)
        less_urgent = key >= slow.keys[arm]
        slow.keys[arm] = key
        if later and less_urgent:
            quick.move_back(arm)
        else:
            quick.place(arm, key)
        if look:
            assert quick.first() == slow.first()
    assert quick.first() == slow.first()


def test_keeps_the_heap_small_however_often_an_arm_grows_more_urgent() -> None:
    queue = LazyHeap([-10000.0, 1.0], [-9999.0, 0.0].__getitem__)
    queue.move_back(0)  # and stays so, as long as it does not come to the front
    sizes = []
    for key in range(3000):
        queue.place(1, -float(key))
        sizes.append(len(queue))
    assert max(sizes) == 2 + 1024
    assert sizes[-1] < max(sizes)
    assert queue.first() == 0
    assert list(queue.key) == [-9999.0, -2999.0]


def test_orders_arms_in_their_warm_up_by_their_calls_and_before_all_others() -> None:
    huge = Robin(np.array([1e15, 0.0]))
    keys = [warm_up_key(float(calls)) for calls in (0, 1, 2**40, 2**40 + 1)]
    keys.append(adaptive_key(huge, 1.0, 0.0, 0.0, 0.0, 0))
    assert keys == sorted(set(keys))
    assert [is_warm_up(key) for key in keys] == [True] * 4 + [False]
    assert not is_warm_up(NEVER)


def test_orders_arms_that_never_vary_by_their_calls_and_leaves_the_others_as_they_are() -> None:
    policy = Robin(np.array([0.3, 0.0]))
    assert adaptive_key(policy, 5.0, 2.0, 1.0, 1.0, 0) == -(0.3 / 7)
    keys = [adaptive_key(policy, n, pending, 1.0, 1.0, 1) for n, pending in ((1.0, 0.0), (1.0, 1.0), (3.0, 0.0))]
    assert keys == sorted(set(keys))
    assert keys[-1] < 0


JUDGE = np.array([0, 1, 0, 1], dtype=np.int32)


def waits(**waiting: float) -> Fairness:
    """Arms that wait, a0 to a3, of two judges by turns, and their keys."""
    fairness = Fairness(JUDGE)
    fairness.waiting = {int(name[1]): key for name, key in waiting.items()}
    return fairness


def test_overtakes_only_arms_of_another_judge_that_wait_and_are_more_urgent() -> None:
    assert not waits().overtakes(0, -0.3, 20)
    assert not waits(a2=-9.0).overtakes(0, -0.3, 20)  # the same judge's
    assert not waits(a1=-0.3).overtakes(0, -0.3, 20)
    assert not waits(a1=-0.2, a3=-0.1).overtakes(0, -0.3, 20)
    assert waits(a1=-0.2, a3=-0.9).overtakes(0, -0.3, 20)


def test_may_run_ahead_by_a_quarter_of_its_calls() -> None:
    for calls in (1, 2, 3, 4, 8, 20, 23):
        # the arm's variance over as many calls as it had a quarter before, one at least: so urgent it was then
        was = -0.3 * calls / (calls - max(1, calls // 4)) if calls > 1 else -math.inf
        assert waits(a1=was * 1.001 if calls > 1 else -1e9).overtakes(0, -0.3, calls) == (calls > 1), calls
        assert not waits(a1=max(was * 0.999, -1e9)).overtakes(0, -0.3, calls), calls


def test_overtakes_nobody_who_is_just_as_urgent_as_it_was_a_quarter_of_its_calls_ago() -> None:
    assert not waits(a1=-0.5).overtakes(0, -0.375, 8)  # 0.375 · 8 / 6
    assert waits(a1=-0.5625).overtakes(0, -0.375, 8)


def test_lets_nobody_adapt_while_an_arm_of_another_judge_waits_in_its_warm_up() -> None:
    assert waits(a1=warm_up_key(7.0)).overtakes(0, -1e9, 1)
    assert not waits(a1=warm_up_key(7.0)).overtakes(0, warm_up_key(9.0), 1)
    assert not waits(a0=warm_up_key(7.0)).overtakes(2, -1.0, 20)


def test_asks_the_most_urgent_arm_of_the_judge_whose_arm_failed() -> None:
    assert waits(a1=-5.0, a2=-9.0).most_urgent_beside_failed(0, [-9.0, NEVER, -8.0, -0.5]) == 3
    six = Fairness(np.array([0, 1, 2, 0, 1, 2], dtype=np.int32))
    six.waiting = {1: -1.0, 2: -2.0}
    assert six.most_urgent_beside_failed(0, [-9.0, NEVER, NEVER, -9.0, -3.0, -0.1]) == 5


class At:
    """A run, as a stopping rule sees it."""

    def __init__(self, budget: CallBudget, *, idle: bool = False) -> None:
        self.arms = WritableArms(1)
        self.budget = budget
        self.idle = idle


def test_is_over_when_the_budget_is_spent_or_nothing_is_left() -> None:
    spent, left, under_way = CallBudget(5, 5), CallBudget(5, 4), CallBudget(5, 3)
    under_way.reserve(2)
    assert [nothing_left(At(budget)) for budget in (spent, left, under_way)] == [True, False, False]
    assert [nothing_left(At(budget, idle=True)) for budget in (spent, left, under_way)] == [True, True, False]


def test_is_over_when_its_goal_is_reached_and_looks_whenever_the_calls_have_grown_by_a_hundredth() -> None:
    looked: list[int] = []
    budget = CallBudget(2000)

    def goal(_: Arms) -> bool:
        looked.append(budget.spent)
        return budget.spent >= 1000

    rule = reached(goal)
    over = []
    for _ in range(1500):
        over.append(rule(At(budget)))
        rule(At(budget))  # asked twice, it looks once
        budget.reserve(1)
        budget.settle(1, 1)
    expected = [0]
    for spent in range(1500):
        if spent >= max(expected[-1] + 1, 1.01 * expected[-1]):
            expected.append(spent)
    assert looked == expected
    assert over.index(True) == next(k for k in looked if k >= 1000)
    assert all(over[over.index(True) :])
    assert reached(lambda _: True)(At(budget))


def test_looks_again_when_the_calls_under_way_are_in() -> None:
    budget, holds = CallBudget(2000, 1000), True
    looks: list[int] = []

    def goal(_: Arms) -> bool:
        looks.append(budget.reserved)
        return holds

    rule = reached(goal)
    budget.reserve(3)
    assert rule(At(budget))
    budget.settle(1, 1)
    assert rule(At(budget))  # two are under way, and the calls have not grown by a hundredth
    holds = False
    budget.settle(2, 0)  # the last two failed, which may tell of their arm
    assert not rule(At(budget))
    assert looks == [3, 0]
    assert not rule(At(budget))
    assert looks == [3, 0]  # it goes on, and is looked at when the calls have grown


def test_stops_a_run_by_a_rule_of_its_own() -> None:
    scheduler = HeapScheduler(WritableArms(2), Robin(np.ones(2)), budget=50, stop=lambda at: at.budget.spent >= 7)
    for _ in range(7):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)
        scheduler.tell(ticket, (3.0,))
    assert scheduler.ask() is Idle.EXHAUSTED


def test_asks_nothing_and_is_not_over_while_calls_under_way_may_undo_what_is_reached() -> None:
    scheduler = HeapScheduler(
        WritableArms(4), Robin(np.ones(4)), budget=50, stop=reached(lambda each: sum(each.total) == 6.0)
    )
    tickets = [scheduler.ask() for _ in range(4)]
    first, second, third, fourth = (ticket for ticket in tickets if isinstance(ticket, Ticket))
    scheduler.tell(first, (3.0,))
    scheduler.tell(second, (3.0,))
    assert scheduler.ask() is Idle.WAIT
    scheduler.tell(third, Unanswered.TRANSIENT)
    assert scheduler.ask() is Idle.WAIT
    scheduler.tell(fourth, (1.0,))
    again = scheduler.ask()
    assert isinstance(again, Ticket)  # 7 is not 6: it goes on
    scheduler.tell(again, (-1.0,))
    assert scheduler.ask() is Idle.EXHAUSTED


@given(st.integers(1, 40), st.integers(0, 3000))
def test_fits_again_when_the_ratings_have_grown_by_a_tenth(arms: int, rated: int) -> None:
    last, coming = last_refit(rated, arms), next_refit(rated, arms)
    assert last <= rated < coming
    assert last_refit(int(coming) - 1, arms) == last
    assert last_refit(int(coming), arms) == next_refit(last, arms) == coming
    if rated < arms:
        assert (last, coming) == (0, arms)
    else:
        assert 1.1 * last <= coming < 1.1 * last + 1 + 1e-9


def test_spends_a_unit_for_every_answer_and_none_for_a_call_that_brought_none() -> None:
    arms = WritableArms(2)
    for outcome in ((3.0, None, 1.0), (None,), ()):
        assert arms.add(0, outcome) == len(outcome)
    assert arms.spent == 4
    scheduler = HeapScheduler(arms, Robin(np.ones(2)), budget=9)
    assert (scheduler.budget.spent, scheduler.budget.available) == (4, 5)


def test_tells_beforehand_how_many_ratings_a_request_will_ask_for() -> None:
    for warm_up in (1, 20, 150):
        for samples in (1, 4, 8, 100):
            for calls in (0.2, 1.0, 2.6, 7.0, 20.0, 33.0, 64.4, 500.0, 2000.0):
                whole = max(1, round(calls))
                scheduler = HeapScheduler(WritableArms(1), Robin(np.ones(1), warm_up=warm_up), budget=whole)
                requests = 0
                while isinstance(ticket := scheduler.ask(samples), Ticket):
                    scheduler.tell(ticket, (3.0,) * ticket.calls)
                    requests += 1
                told = ratings_a_request(calls, warm_up, samples)
                # where all the rest is asked for in full requests, the last counts by what is left for it
                assert requests - 1 < whole / told <= requests + 1e-9, (warm_up, samples)
                assert whole > 4 * samples or told == whole / requests, (warm_up, samples)


def test_withdraws_calls_that_are_not_made_and_gives_them_back() -> None:
    arms = WritableArms(1)
    scheduler = HeapScheduler(arms, Robin(np.ones(1), warm_up=8), budget=20)
    ticket = scheduler.ask(4)
    assert ticket == Ticket(0, 0, 4)
    assert isinstance(ticket, Ticket)
    kept = scheduler.shorten(ticket, 3)
    assert (kept, arms.pending[0], scheduler.budget.available) == (Ticket(0, 0, 3), 3, 17)
    assert scheduler.shorten(kept, 3) == scheduler.shorten(kept, 7) == kept
    scheduler.tell(kept, (1.0, None, 2.0))
    assert (arms.n[0], arms.n_unparsed[0], scheduler.budget.spent) == (2, 1, 3)
    assert scheduler.ask(1) == Ticket(0, 3, 1)  # the number of the call that was given back
    with pytest.raises(ValueError, match="arm 0 has 1 calls under way, not 2"):
        scheduler.tell(Ticket(0, 3, 2), (1.0, 2.0))


class Learning(Robin):
    """Known variances; keeps how many ratings there were whenever it was fitted."""

    __slots__ = ()
    seen: ClassVar[list[int]] = []

    def fitted(self, n: FloatArray, total: FloatArray, total_sq: FloatArray) -> Policy:
        self.seen.append(int(n.sum()))
        return self


@pytest.mark.parametrize("before", [0, 23])
def test_fits_a_policy_whenever_the_ratings_have_grown_by_a_tenth(before: int) -> None:
    arms = WritableArms(4)
    for number in range(before):
        arms.add(number % 4, (2.0,))
    Learning.seen.clear()
    scheduler = HeapScheduler(arms, Learning(np.ones(4)))
    for number in range(150):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)
        scheduler.tell(ticket, (None,) if number % 7 == 3 else (float(number % 5),))
    points = {last_refit(rated, 4) for rated in range(before + 1, int(arms.counts.sum()) + 1)}
    assert Learning.seen == sorted(points - {0, last_refit(before, 4)})


def test_leaves_a_failed_arm_alone_until_another_is_rated() -> None:
    scheduler = HeapScheduler(WritableArms(2), Uniform())
    first = scheduler.ask()
    assert first == Ticket(0, 0, 1)
    assert isinstance(first, Ticket)
    scheduler.tell(first, Unanswered.TRANSIENT)
    for outcome, then in (((None,), 1), ((3.0,), 0)):
        ticket = scheduler.ask()
        assert isinstance(ticket, Ticket)
        assert ticket.arm == 1
        scheduler.tell(ticket, outcome)
        after = scheduler.ask()
        assert isinstance(after, Ticket)
        assert after.arm == then
        scheduler.tell(after, Unanswered.WITHDRAWN)


@given(st.integers(6, 60), st.lists(st.sampled_from(["rated", "unparsed", *Unanswered]), max_size=60))
def test_owes_the_warm_ups_what_a_new_count_says(budget: int, outcomes: list[str | Unanswered]) -> None:
    arms = WritableArms(3)
    scheduler = HeapScheduler(arms, Robin(np.ones(3), warm_up=8), budget=budget)
    under_way: list[Ticket] = []
    for number, outcome in enumerate(outcomes):
        ticket = scheduler.ask(1 + number % 3)
        if isinstance(ticket, Ticket):
            under_way.append(ticket)
        if under_way and number % 2:
            told = under_way.pop(0)
            answers = {"rated": (3.0,) * told.calls, "unparsed": (None,) * told.calls}
            scheduler.tell(told, outcome if isinstance(outcome, Unanswered) else answers[outcome])
        share = scheduler._warm_up.share
        missing = [share - arms.n[arm] - arms.pending[arm] for arm in range(3) if arms.streak[arm] < RETIRE_AFTER]
        assert scheduler._warm_up.owed == sum(max(0, each) for each in missing)


def test_tells_at_once_of_the_largest_budget_too() -> None:
    assert ratings_a_request(1e9, 2**40, 5) == pytest.approx(5.0)  # call by call, that took minutes
