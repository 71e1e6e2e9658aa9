"""What a planner is made of, each part by itself, against a slow way to say the same."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.goals.stopping import Progress, reached
from robin_cli.model.arms import Arms, FloatArray, WritableArms
from robin_cli.policies.base import WARM_UP, Columns
from robin_cli.policies.milestones import Milestones, fits_from
from robin_cli.policies.robin import Robin
from robin_cli.session.asking import (
    IN_WARM_UP,
    NEVER,
    by_turns,
    most_in_a_round,
    most_under_way,
    most_urgent,
    urgency_by,
    visit_of,
)
from robin_cli.session.budget import CallBudget
from robin_cli.session.planner import Planner
from robin_cli.session.scheduling import reopen_arms
from robin_cli.simulate.runs import most_urgent_of_runs, turns_of_runs


@given(
    st.lists(
        st.lists(st.sampled_from([NEVER, 0.0, 0.5, 1.0, 3.0]), min_size=7, max_size=7),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 7),
)
def test_finds_the_most_urgent_ties_to_the_lower_index(
    urgencies: list[list[float]], count: int
) -> None:
    expected = [sorted(range(7), key=lambda arm: (-row[arm], arm))[:count] for row in urgencies]
    assert most_urgent_of_runs(np.array(urgencies), count).tolist() == expected
    for row, found in zip(urgencies, expected, strict=True):
        asked = most_urgent(np.array(row), count).tolist()
        assert asked == [arm for arm in found if row[arm] > NEVER]


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
        (24, 0, 20, 20, 6),
        (1, 0, 1, 1, 1),
        (8, 0, 1, 1, 2),
        # as long as the last judgment brought no rating: only so many as could retire it
        (40, 2, 20, 20, 3),
        (40, 5, 20, 20, 0),
        (0, 0, 1, 9, 5),
        (0, 3, 20, 20, 2),
    ):
        column = most_under_way(np.array([n]), np.array([streak]), warm_up, share)
        assert column.tolist() == [most], (n, streak, warm_up)
    counts, streaks = np.array([0, 3, 8, 20, 20, 20]), np.array([0, 0, 0, 0, 4, 5])
    assert most_in_a_round(counts, streaks, 20, 20, decides=True).tolist() == [20, 17, 12, 40, 1, 0]
    assert most_in_a_round(counts, streaks, 20, 20, decides=False)[3] > 10**12


def test_a_visit_has_a_call_for_every_four_ratings() -> None:
    for first in (1, 2):
        made, visits = 0, []
        while made < 100:
            visits.append(visit_of(made, first))
            made += visits[-1]
        assert visits[:7] == [2, 1, 1, 1, 2, 2, 3] if first == 2 else [1, 1, 1, 1, 1, 2, 2]
        assert max(visits) == 16


def test_reopens_what_failed_and_what_a_judge_that_never_rated_lost() -> None:
    arms = WritableArms(6)
    for arm, (n, streak, unparsed) in enumerate(
        [(0, 5, 5), (9, 5, 5), (0, 5, 5), (0, 2, 2), (0, 5, 4), (0, 5, 6)]
    ):
        arms.n[arm], arms.streak[arm], arms.n_unparsed[arm] = n, streak, unparsed
    reopen_arms(arms, np.array([0, 1, 1, 0, 0, 0], dtype=np.int32), failed=[2])
    assert list(arms.streak) == [0, 5, 0, 2, 0, 0]  # judge 1 rated an arm


def test_orders_arms_in_their_warm_up_before_all_others_and_those_that_never_vary_by_their_calls() -> (
    None
):
    def urgency(*variances: float, n: list[float], pending: list[float]) -> FloatArray:
        zero = np.zeros(len(n))
        policy = Robin(np.array(variances))
        return urgency_by(
            policy, None, Columns(np.array(n), np.array(pending), zero, zero, np.arange(len(n)))
        )[0]

    found = urgency(1e15, 0.3, 0.0, 0.0, 0.0, n=[1, 5, 1, 1, 3], pending=[0, 2, 0, 1, 0])
    assert found[1] == pytest.approx(0.3 / 7, rel=1e-12)
    assert sorted(found, reverse=True) == found.tolist()
    assert len(set(found.tolist())) == 5
    assert found[-1] > 0
    every = np.array([WARM_UP, WARM_UP - 2.0**40, found[0], NEVER])
    assert (every > IN_WARM_UP).tolist() == [True, True, False, False]


def at(budget: CallBudget) -> Progress:
    """A run, as a stopping rule sees it."""
    return SimpleNamespace(arms=WritableArms(1), budget=budget)


def test_is_over_when_its_goal_is_reached_and_looks_whenever_the_calls_have_grown_by_a_hundredth() -> (
    None
):
    looked: list[int] = []
    budget = CallBudget(2000)

    def goal(_: Arms) -> bool:
        looked.append(budget.spent)
        return budget.spent >= 1000

    rule = reached(goal)
    over = []
    for _ in range(1500):
        over.append(rule(at(budget)))
        rule(at(budget))  # asked twice, it looks once
        budget.reserve(1)
        budget.settle(1, 1)
    expected = [1]
    for spent in range(2, 1500):
        if spent >= max(expected[-1] + 1, 1.01 * expected[-1]):
            expected.append(spent)
    assert looked == expected
    assert over.index(True) == next(k for k in looked if k >= 1000)
    assert all(over[over.index(True) :])


def test_looks_again_when_the_calls_under_way_are_in() -> None:
    budget, holds = CallBudget(2000, Milestones(1, 1.01).after(1000)), True
    looks: list[int] = []

    def goal(_: Arms) -> bool:
        looks.append(budget.reserved)
        return holds

    rule = reached(goal)
    budget.reserve(3)
    assert rule(at(budget))
    budget.settle(1, 1)
    assert rule(at(budget))  # two are under way, and the calls have not grown by a hundredth
    holds = False
    budget.settle(2, 0)  # the last two failed, which may tell of their arm
    assert not rule(at(budget))
    assert looks == [3, 0]
    assert not rule(at(budget))
    assert looks == [3, 0]  # it goes on, and is looked at when the calls have grown


@given(st.integers(1, 40), st.integers(0, 3000))
def test_fits_again_when_the_ratings_have_grown_by_a_tenth(arms: int, rated: int) -> None:
    fits = fits_from(arms)
    last, coming = fits.until(rated), fits.after(rated)
    assert last <= rated < coming
    assert fits.until(coming - 1) == last
    assert fits.until(coming) == fits.after(last) == coming
    if rated < arms:
        assert (last, coming) == (0, arms)
    else:
        assert 1.1 * last <= coming < 1.1 * last + 1 + 1e-9


def test_spends_a_unit_for_every_answer_and_none_for_a_call_that_brought_none() -> None:
    arms = WritableArms(2)
    for outcome in ((3.0, None, 1.0), (None,), ()):
        assert arms.add(0, outcome) == len(outcome)
    assert arms.columns.spent == 4
    assert Planner(arms, Robin(np.ones(2)), budget=9).budget.available == 5


@given(
    st.lists(st.tuples(st.integers(-1, 4), st.integers(-1, 4)), min_size=1, max_size=12),
    st.integers(16, 48).map(lambda each: each / 64),
    st.data(),
)
def test_asks_by_turns_the_most_urgent_and_the_nearest_to_certain(
    columns: list[tuple[int, int]], part: float, data: st.DataObject
) -> None:
    """With −1 for an arm that may not be asked, and no arm twice."""
    count, made = data.draw(st.integers(1, len(columns))), data.draw(st.integers(0, 99))
    urgency, nearness = (
        np.array([NEVER if each < 0 else each for each in column], float)
        for column in zip(*columns, strict=True)
    )
    orders = [
        [arm for arm in np.argsort(-column, kind="stable").tolist() if column[arm] > NEVER][:count]
        for column in (urgency, nearness)
    ]
    left, expected = [list(order) for order in orders], list[int]()
    for turn in itertools.count(made):
        if not any(left):
            break
        is_near = math.floor((turn + 1) * part) > math.floor(turn * part)
        expected += left[is_near][:1]
        del left[is_near][:1]
    expected = list(dict.fromkeys(expected))

    urgent, near = (np.array(order, np.int64) for order in orders)
    runs = turns_of_runs(
        urgency[None], nearness[None], count, np.array([made]), np.array([[part]])
    )[0].tolist()

    assert by_turns(urgent, near, made, part, len(columns)).tolist() == expected
    assert by_turns(urgent, near, made, part, count).tolist() == expected[:count]
    assert runs[: len(expected)] == expected[:count]
    assert len(set(runs)) == count
