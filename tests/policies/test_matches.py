"""Comparisons: in which turn they are asked, and how far a run came."""

from __future__ import annotations

import random
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.ask.verdicts import ORDERS, PREFERENCE
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import Pair, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.matches import ComparedPairs, Matches
from robin_cli.run.inquiry import Inquiry

POINTS = Scale(0, 2)


def comparison(prompt: int, one: str, other: str) -> Pair:
    return Pair(
        f"{prompt}:{one}:{other}",
        f"Question {prompt}?",
        f"{one} says {prompt}",
        columns={"system_a": one, "system_b": other},
        other=f"{other} says {prompt}",
    )


def tournament(systems: int, prompts: int) -> list[Pair]:
    names = [f"s{number}" for number in range(systems)]
    return [comparison(prompt, *two) for prompt in range(prompts) for two in combinations(names, 2)]


def matches(
    pairs: list[Pair], seed: int | None = 1, judges: int = 1, *, wants_best: bool = False
) -> Matches:
    names = [f"j{number}" for number in range(judges)]
    space = ArmSpace([pair.pair_id for pair in pairs], (PREFERENCE,), names, [POINTS], ORDERS)
    return Inquiry({"decide": "best" if wants_best else None}, space, pairs, seed).matches


def asked_in_turn(found: Matches) -> list[str]:
    """The comparisons by the turn of their arms, each once."""
    arms = np.argsort(found.turn)
    return list(dict.fromkeys(found.space.pair_ids[pair] for pair in found.space.pair[arms]))


@given(systems=st.integers(2, 6), prompts=st.integers(1, 6), judges=st.integers(1, 3))
def test_asks_every_two_systems_as_often_and_each_comparison_in_both_orders_before_the_next(
    systems: int, prompts: int, judges: int
) -> None:
    found = matches(tournament(systems, prompts), judges=judges)
    order = np.argsort(found.turn)
    assert sorted(order) == list(range(len(found.space)))
    by_comparison = found.space.pair[order].reshape(-1, 2 * judges)
    assert (by_comparison == by_comparison[:, :1]).all()
    matchups = found.opponents[1][by_comparison[:, 0]]
    for done in range(1, len(matchups) + 1):
        times = np.bincount(matchups[:done], minlength=len(found.opponents[0]))
        assert times.max() - times.min() <= 1


def test_asks_in_an_order_that_neither_the_order_of_the_data_nor_its_size_changes() -> None:
    pairs = tournament(3, 20)
    mixed = pairs.copy()
    random.Random(0).shuffle(mixed)
    assert asked_in_turn(matches(mixed)) == asked_in_turn(matches(pairs))
    assert asked_in_turn(matches(pairs, seed=2)) != asked_in_turn(matches(pairs))
    few = [pair for pair in pairs if int(pair.pair_id.split(":")[0]) < 10]
    of_matchup = [
        each for each in asked_in_turn(matches(pairs)) if each in {pair.pair_id for pair in few}
    ]
    first = [each for each in of_matchup if each.endswith("s0:s1")]
    assert first == [each for each in asked_in_turn(matches(few)) if each.endswith("s0:s1")]


def test_knows_who_is_compared_whichever_of_them_is_a() -> None:
    pairs = [comparison(0, "x", "y"), comparison(1, "y", "x"), comparison(1, "y", "z")]
    found = matches(pairs)
    assert found.names == ["x", "y", "z"]
    matchups, of_comparison = found.opponents
    assert matchups.tolist() == [[0, 1], [1, 2]]
    assert of_comparison.tolist() == [0, 0, 1]
    assert sorted(found.place[:2].tolist()) == [0, 1]
    assert found.place[2] == 0
    assert found.ranks_systems
    assert not matches(pairs[:2]).ranks_systems
    assert not matches(pairs, wants_best=True).ranks_systems


def test_takes_one_text_to_two_prompts_for_two_responses() -> None:
    pairs = [
        Pair("a", "One?", "yes", other="no"),
        Pair("b", "Two?", "yes", other="no"),
        Pair("c", "One?", "no", other="maybe"),
    ]
    found = matches(pairs)
    assert len(set(found.response.ravel().tolist())) == 5
    assert found.response[0, 1] == found.response[2, 0]
    assert list(found.names) == []
    assert (found.system == -1).all()


def test_counts_as_asked_what_has_a_rating_in_both_orders_by_all_judges() -> None:
    found = matches(tournament(2, 3), judges=2)
    arms = WritableArms(len(found.space))
    of_comparison = found.space.by_pair(np.arange(len(found.space)))
    for arm in (*of_comparison[0], *of_comparison[1][:3]):
        arms.add(int(arm), [1.0])
    assert found.compared(arms.columns) == ComparedPairs(whole=1, partly=1, comparisons=3)
