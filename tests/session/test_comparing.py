"""Which comparison is asked next."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.model.arms import IntArray, WritableArms
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.policies.bradley_terry import fit, wins_of
from robin_cli.session.planner import Planner, Ticket
from robin_cli.session.round_sizes import first_depth, round_ends
from tests.session.comparing import (
    POLICIES,
    by_strength,
    comparisons,
    planner_of,
    played,
    policy_for,
    system_numbers,
)
from tests.session.played import plans, work


@pytest.mark.parametrize(("name", "wants_best"), POLICIES.values(), ids=POLICIES)
@settings(max_examples=3, deadline=None)
@given(data=st.data(), judges=st.integers(1, 2), at_once=st.integers(1, 9), seed=st.integers(0, 99))
def test_asks_both_orders_of_a_comparison_equally_often(
    name: str, wants_best: bool, data: st.DataObject, judges: int, at_once: int, seed: int
) -> None:
    matches = comparisons(4, 5, judges, wants_best=wants_best)
    space, arms = matches.space, WritableArms(len(matches.space))
    rating = by_strength(matches, [0.0, 0.5, 1.0, 3.0], seed, effect=1.0)
    planner = planner_of(matches, policy_for(matches, name), arms, 400)
    luck = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    in_vain: IntArray = np.zeros(len(matches), dtype=np.int64)

    def answer(ticket: Ticket) -> Outcome:
        if (kind := luck.random()) >= 0.15:
            return (rating(ticket.arm),)
        in_vain[space.pair[ticket.arm]] += 1
        return Unanswered.TRANSIENT if kind < 0.05 else (None,)

    for ticket in work(planner, answer, at_once=at_once, luck=luck):
        made = arms.n[ticket.arm] + arms.pending[ticket.arm] - 1
        for other in space.arms_of_pair(int(space.pair[ticket.arm])):
            waits = arms.streak[other] or (other != ticket.arm and arms.pending[other])
            assert waits or arms.n[other] >= made or other == ticket.arm
    is_kept = np.asarray(~space.by_pair(arms.columns.is_retired).any(axis=1))
    apart = np.ptp(space.by_pair(arms.columns.n), axis=1)
    assert (apart <= 1 + in_vain)[
        is_kept
    ].all()  # one, and those asked beside calls that brought no verdict
    assert arms.columns.spent == 400 or arms.columns.is_retired.any()


def test_asks_a_tournament_where_the_order_of_systems_is_least_sure() -> None:
    matches = comparisons(5, 40)
    arms = played(matches, "auto", by_strength(matches, [0, 3, 3.3, 6, 9], 1), 300)
    asked = dict.fromkeys(itertools.combinations(range(5), 2), 0)
    whole = np.asarray(matches.space.by_pair(arms.columns.n > 0).all(axis=1))
    for matchup, is_whole in zip(system_numbers(matches), whole.tolist(), strict=True):
        asked[min(matchup), max(matchup)] += int(is_whole)
    assert min(asked.values()) >= 1, "no two systems are left out"
    assert asked[1, 2] == 40, "all prompts, before any others have half of them"
    assert asked[0, 4] < 15
    assert asked[0, 4] + asked[0, 3] + asked[1, 4] < 40


def test_finds_two_systems_again_whose_first_verdicts_misled() -> None:
    matches = comparisons(4, 60)
    rating, numbers, seen = (
        by_strength(matches, [0.0, 2.0, 2.8, 5.0], 1),
        system_numbers(matches),
        [0],
    )

    def misled(arm: int) -> float:
        a, b = numbers[matches.space.pair[arm]]
        if {a, b} == {1, 2} and seen[0] < 12:
            seen[0] += 1
            return 2.0 if a == 1 else 0.0
        return rating(arm)

    arms = played(matches, "auto", misled, 400)
    with np.errstate(invalid="ignore"):
        points = matches.space.by_pair(arms.columns.total / arms.columns.n).mean(axis=1) / 2
    of_them = [
        (p if a == 2 else 1 - p)
        for p, (a, b) in zip(points, numbers, strict=True)
        if {a, b} == {1, 2}
    ]
    assert np.isfinite(of_them).sum() > 30
    assert np.nanmean(of_them) > 0.5


def test_repeats_comparisons_of_a_tournament_once_all_prompts_are_used_up() -> None:
    matches = comparisons(3, 4)
    arms = played(matches, "auto", by_strength(matches, [0, 0.2, 0.4], 1), 24 * 3)
    assert (arms.columns.n >= 1).all()
    assert arms.columns.spent == 72


def test_leaves_no_order_out_where_the_budget_does_not_reach_all_comparisons() -> None:
    for name in ("uniform", "auto"):
        matches = comparisons(4, 20, 2)
        arms = played(matches, name, by_strength(matches, [0, 1, 2, 3], 1), 100)
        n = matches.space.by_pair(arms.columns.n)
        assert (n > 0).all(axis=1).sum() == 25
        assert not n[(n == 0).any(axis=1)].any()


def test_chooses_a_first_round_of_comparisons_by_the_policy() -> None:
    matches = comparisons(4, 30)
    arms, budget = WritableArms(len(matches.space)), 120
    depth = first_depth(budget, len(arms), 3, warm_up=0)
    policy, first = policy_for(matches, "auto"), matches.space.first_fit
    planner = Planner(arms, policy, budget=budget, round_depth=depth, first_fit=first)
    rating = by_strength(matches, [0, 1, 2, 3], 1)
    for end in round_ends(budget, len(arms), 3, depth=0):
        tickets = plans(planner, end - planner.budget.spent)
        assert len(tickets) == end - planner.budget.spent
        for ticket in tickets:
            planner.tell(ticket, (rating(ticket.arm),))
    n = matches.space.by_pair(arms.columns.n)
    assert arms.columns.spent == budget
    assert (n > 0).all(axis=1).sum() >= 55


@pytest.mark.parametrize(("name", "wants_best"), POLICIES.values(), ids=POLICIES)
def test_asks_nothing_more_of_a_comparison_once_an_order_of_it_was_given_up(
    name: str, wants_best: bool
) -> None:
    matches = comparisons(3, 4, wants_best=wants_best)
    arms = WritableArms(len(matches.space))
    hopeless = matches.space.by_pair(np.arange(len(matches.space)))[::2]
    planner = planner_of(matches, policy_for(matches, name), arms, 10_000)
    of_hopeless = set(hopeless[:, 0].tolist())
    list(
        itertools.islice(
            work(planner, lambda each: (None,) if each.arm in of_hopeless else (2.0,)), 1_000
        )
    )
    assert arms.columns.is_retired[hopeless[:, 0]].sum() > 0
    beside = hopeless[:, 1][arms.columns.is_retired[hopeless[:, 0]]]
    assert (arms.columns.n[beside] <= 1).all(), "it is of no use without the other order"


def test_has_fewer_systems_in_the_wrong_order_by_a_tournament_than_by_an_even_spread() -> None:
    strength = [0.0, 0.8, 1.6, 2.4, 3.2, 4.0]
    wrong = {"uniform": 0, "auto": 0}
    for name in wrong:
        for seed in range(4):
            matches = comparisons(6, 60)
            arms = played(matches, name, by_strength(matches, strength, seed), 240)
            with np.errstate(invalid="ignore"):
                preference = (
                    matches.space.by_pair(arms.columns.total / arms.columns.n).mean(axis=1) / 2.0
                )
            there = ~np.isnan(preference)
            wins = wins_of(preference[there], matches.system[there], 6) + 0.25
            np.fill_diagonal(wins, 0.0)
            found = fit(wins).values[np.argsort([int(each[1:]) for each in matches.names])]
            wrong[name] += sum(found[i] < found[j] for i in range(6) for j in range(i))
    assert wrong["auto"] <= 0.7 * wrong["uniform"], wrong
