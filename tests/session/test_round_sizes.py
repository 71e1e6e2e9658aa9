"""A budget that goes out in rounds: how large they are, and what is asked in each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import IntArray, WritableArms
from robin_cli.model.records import Scale
from robin_cli.policies.base import Columns, Policy, Setup
from robin_cli.policies.registry import make_policy
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.round_sizes import first_depth, round_ends
from tests.session.played import Watching, plans

SCALE = Scale(0, 4)


def ends_of(
    budget: int, arms: int, rounds: int, *, warm_up: int = 1, least: int = 1
) -> tuple[int, ...]:
    """The ends of rounds whose first has the usual depth."""
    depth = first_depth(budget, arms, rounds, warm_up=warm_up)
    return round_ends(budget, arms, rounds, depth=depth, least=least)


@given(
    st.integers(1, 10**7),
    st.integers(1, 10**5),
    st.integers(1, 100),
    st.sampled_from([1, 2, 20, 2**40]),
)
def test_spends_the_whole_budget_in_no_more_rounds_than_asked_for(
    budget: int, arms: int, rounds: int, warm_up: int
) -> None:
    ends = ends_of(budget, arms, rounds, warm_up=warm_up)

    assert ends[-1] == budget
    assert 1 <= len(ends) <= rounds
    assert all(np.diff(ends) > 0)
    depth = first_depth(budget, arms, rounds, warm_up=warm_up)
    if budget >= arms:
        assert depth >= min(warm_up, budget // arms)
        assert ends[0] in {arms * depth, budget}
    else:
        assert ends == (budget,)


def test_gives_a_first_round_twice_what_each_further_one_has() -> None:
    for calls, rounds, a_pair in (
        (50, 4, (20, 30, 40, 50)),
        (20, 4, (8, 12, 16, 20)),
        (10, 4, (4, 6, 8, 10)),
        (100, 6, (29, 43.2, 57.4, 71.6, 85.8, 100)),
        (30, 2, (20, 30)),
        (30, 1, (30,)),
        (1, 4, (1,)),
    ):
        assert ends_of(100 * calls, 100, rounds) == tuple(round(100 * each) for each in a_pair), (
            calls,
            rounds,
            a_pair,
        )


def test_makes_one_round_of_what_a_policy_wants_before_it_looks_at_any_answer() -> None:
    assert ends_of(5_000, 100, 6, warm_up=20) == (2_000, 2_600, 3_200, 3_800, 4_400, 5_000)
    assert ends_of(5_000, 100, 6, warm_up=2**40) == (5_000,)
    # a second opinion: the calls that no answer chooses are one round
    assert ends_of(6_000, 10_000, 4, warm_up=0, least=5_250) == (5_250, 5_500, 5_750, 6_000)


def in_rounds(policy: Policy, arms: int, budget: int, rounds: int) -> Planner:
    return Planner(
        WritableArms(arms), policy, budget=budget, round_depth=first_depth(budget, arms, rounds)
    )


def chosen(planner: Planner, end: int) -> list[Ticket]:
    return plans(planner, end - planner.budget.spent - planner.budget.reserved)


def calls_of(tickets: list[Ticket], arms: int) -> IntArray:
    return np.bincount([ticket.arm for ticket in tickets], minlength=arms)


@pytest.mark.parametrize("name", ["two-priors", "robin-hood"])
def test_asks_the_same_whatever_the_order_in_which_the_answers_of_a_round_come(name: str) -> None:
    arms, budget, rounds = 30, 30 * 40, 4
    policy = make_policy(name, Setup(arms, budget, SCALE))
    asked = []
    for order in (1, -1):
        planner = in_rounds(policy, arms, budget, rounds)
        ratings = (
            np.random.default_rng(4).integers(0, 5, (arms, budget))
            * (np.arange(arms) % 3 > 0)[:, None]
        )
        mine = []
        for end in ends_of(budget, arms, rounds):
            tickets = chosen(planner, end)
            mine.append(calls_of(tickets, arms).tolist())
            for ticket in tickets[::order]:
                planner.tell(ticket, (float(ratings[ticket.arm, ticket.draw]),))
        asked.append(mine)

    assert asked[0] == asked[1]
    assert sum(map(sum, asked[0])) == budget


def test_fills_a_round_to_one_level() -> None:
    arms, budget = 20, 20 * 30
    policy = make_policy("two-priors", Setup(arms, budget, SCALE))
    planner = in_rounds(policy, arms, budget, 3)
    rng = np.random.default_rng(5)
    first, second, _ = ends_of(budget, arms, 3)
    for ticket in chosen(planner, first):
        planner.tell(ticket, (float(rng.choice([0, 4]) if ticket.arm % 2 else 2),))

    made = calls_of(chosen(planner, second), arms)

    stats = planner.arms
    sums = (stats.total, stats.total_sq, np.arange(arms))
    before, after = (
        planner._policy.priority(Columns(stats.n.astype(float), (made + more).astype(float), *sums))
        for more in (-1.0, 0.0)
    )
    assert before[made > 0].min() >= after.max(), "no call would have done more for another arm"
    assert made[::2].sum() == 0, "those that never varied wait"
    assert made.sum() == second - first


@pytest.mark.parametrize(("decides", "most"), [(True, 8), (False, 30)])
def test_triples_the_ratings_of_an_arm_at_most_in_a_round_that_decides(
    most: int, *, decides: bool
) -> None:
    policy = make_policy(
        "robin", Setup(10, 1_000, SCALE, variances=np.where(np.arange(10) == 3, 1.0, 1e-6))
    )
    planner = Planner(
        WritableArms(10), policy, budget=1_000, round_depth=4, watch=Watching(decides=decides)
    )
    for ticket in chosen(planner, 40):
        planner.tell(ticket, (2.0,))

    assert calls_of(chosen(planner, 70), 10)[3] == most


def test_a_shallow_first_round_makes_no_more_rounds() -> None:
    assert first_depth(2_000, 100, 4) == 8
    assert first_depth(2_000, 100, 4, most=2) == 2
    assert first_depth(2_000, 100, 4, warm_up=3, most=2) == 3
    assert first_depth(2_000, 100, 1, most=2) == 20
    assert round_ends(2_000, 100, 4, depth=2) == (200, 800, 1_400, 2_000)
