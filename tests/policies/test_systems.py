"""robin --decide system: whole prompts in random order, then repeats evenly."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robin_cli.goals.checks import check_systems
from robin_cli.model.arms import WritableArms
from robin_cli.model.errors import InputError
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import RETIRE_AFTER, Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import make_policy
from robin_cli.policies.systems import Systems, systems_of
from robin_cli.session.planner import Planner, Ticket
from tests.session.played import next_of, work

SHORT, LONG = Scale(0, 4), Scale(1, 10)


def systems_for(
    answered: list[tuple[int, int]],
    *,
    judges: int = 1,
    scales: tuple[Scale, ...] = (SHORT,),
    seed: int | None = 3,
) -> Systems:
    """Systems over pairs, each a prompt and the system that answered it."""
    prompt, system = (np.array(each) for each in zip(*answered, strict=True))
    space = ArmSpace(
        [f"p{number}" for number in range(len(answered))],
        ("a", "b")[: len(scales)],
        [f"j{number}" for number in range(judges)],
        scales,
    )
    names = [f"s{number}" for number in range(system.max() + 1)]
    return systems_of(
        space,
        system,
        names,
        prompt,
        [f"prompt {number}" for number in range(prompt.max() + 1)],
        seed,
    )


def each_answered_all(prompts: int, systems: int = 2) -> list[tuple[int, int]]:
    return [(prompt, system) for prompt in range(prompts) for system in range(systems)]


def policy_for(systems: Systems) -> Policy:
    setup = Setup(len(systems.space), 10**4, SHORT, systems=systems)
    return make_policy("auto", setup)


def asked_in_turn(systems: Systems, calls: int, rating: float = 2.0) -> list[int]:
    planner = Planner(WritableArms(len(systems.space)), policy_for(systems), budget=calls)
    return [ticket.arm for ticket in work(planner, lambda _: (rating,))]


def prompts_of(systems: Systems, arms: list[int]) -> list[int]:
    return [int(systems.prompt[systems.space.pair[arm]]) for arm in arms]


def test_asks_all_of_a_prompt_before_the_next_and_each_once_before_any_twice() -> None:
    # data sorted by system
    answered = [(prompt, system) for system in range(3) for prompt in range(20)]
    systems = systems_for(answered, judges=2, scales=(SHORT, LONG))

    asked = asked_in_turn(systems, 2 * len(systems.space))

    once, again = asked[: len(systems.space)], asked[len(systems.space) :]
    assert sorted(once) == list(range(len(systems.space)))
    by_prompt = np.array(prompts_of(systems, once)).reshape(20, 3 * 2 * 2)
    assert (by_prompt == by_prompt[:, :1]).all()
    assert by_prompt[:, 0].tolist() != sorted(by_prompt[:, 0])
    assert again == once, "repeats are spread evenly, in the same order"


def test_asks_in_an_order_that_is_the_seeds_and_not_the_datas() -> None:
    answered = each_answered_all(30)
    one, same, other, none = (systems_for(answered, seed=seed) for seed in (3, 3, 4, None))
    shuffled = np.random.default_rng(0).permutation(len(answered))
    moved = systems_for([answered[each] for each in shuffled])

    first = prompts_of(one, asked_in_turn(one, 60))

    assert (
        first
        == prompts_of(same, asked_in_turn(same, 60))
        == prompts_of(moved, asked_in_turn(moved, 60))
    )
    assert first != prompts_of(other, asked_in_turn(other, 60))
    assert first != prompts_of(none, asked_in_turn(none, 60))


def test_takes_any_prompt_as_likely_as_another_first() -> None:
    times = np.zeros(10)
    for seed in range(2000):
        times[systems_for(each_answered_all(10), seed=seed).rank < 3] += 1
    assert stats.chisquare(times).pvalue > 0.001


def test_asks_prompts_that_one_system_alone_answered_last() -> None:
    answered = [(prompt, 0) for prompt in range(12)] + [(prompt, 1) for prompt in range(4, 10)]
    systems = systems_for(answered)

    asked = prompts_of(systems, asked_in_turn(systems, 60))

    assert set(asked[:12]) == set(range(4, 10))
    assert set(asked[12:18]) == {0, 1, 2, 3, 10, 11}
    assert set(asked[18:30]) == set(range(4, 10))


@pytest.mark.parametrize("budget", [11, 12, 13, 30])
def test_leaves_whole_prompts_whenever_it_stops(budget: int) -> None:
    systems = systems_for(each_answered_all(10, systems=3))
    arms = WritableArms(30)
    for arm in asked_in_turn(systems, budget):
        arms.add_rating(arm, 2.0)

    asked = systems.asked(arms.columns)

    assert (asked.whole, asked.partly, asked.prompts) == (budget // 3, int(budget % 3 > 0), 10)
    assert asked.unrated == 30 - budget
    assert systems.calls_for(4) == 12
    assert systems.prompts_within(budget) == budget // 3


def test_goes_back_to_a_prompt_whose_answer_held_no_rating_before_the_next_one() -> None:
    systems = systems_for(each_answered_all(10))
    planner = Planner(WritableArms(20), policy_for(systems), budget=15)
    first = next_of(planner)
    planner.tell(first, (None,))
    planner.tell(next_of(planner, arm=first.arm), Unanswered.UNREACHED)
    following = next_of(planner)
    assert systems.prompt[following.arm] == systems.prompt[first.arm]
    planner.tell(following, (1.0,))
    next_of(planner, arm=first.arm)


def test_gives_up_what_nobody_can_rate_and_asks_the_other_prompts() -> None:
    systems = systems_for(each_answered_all(10))
    arms = WritableArms(20)
    bad = int(np.argmin(systems.turn))
    planner = Planner(arms, policy_for(systems), budget=20 + RETIRE_AFTER)
    list(work(planner, lambda ticket: (None,) if ticket.arm == bad else (3.0,)))
    assert arms.columns.spent == 20 + RETIRE_AFTER
    assert arms.n[bad] == 0
    assert min(count for arm, count in enumerate(arms.n) if arm != bad) == 1


@pytest.mark.parametrize("together", [4, 40])
def test_keeps_prompts_whole_but_for_a_few_where_answers_come_in_any_order(together: int) -> None:
    rng = np.random.default_rng(together)
    systems = systems_for(each_answered_all(100))
    arms = WritableArms(200)
    planner = Planner(arms, policy_for(systems), budget=120)

    def answer(_: Ticket) -> Outcome:
        return Unanswered.TRANSIENT if rng.random() < 0.05 else (float(rng.integers(5)),)

    list(work(planner, answer, at_once=together, luck=rng))
    asked = systems.asked(arms.columns)
    assert asked.whole >= 55
    assert arms.columns.n.max() == 1


def test_refuses_what_cannot_be_compared_with_a_next_step() -> None:
    with pytest.raises(
        InputError, match=r'all pairs are of one system, "s0"; .* --columns system=NAME'
    ):
        check_systems(systems_for([(prompt, 0) for prompt in range(9)]))
    with pytest.raises(
        InputError, match="two systems or more answered 4 of 9 prompts, and at least 5"
    ):
        check_systems(
            systems_for([*each_answered_all(4), *((prompt, 0) for prompt in range(4, 9))])
        )
    assert check_systems(systems_for(each_answered_all(5))) == ""
    said = check_systems(systems_for([*each_answered_all(5), (5, 1)]))
    assert said.startswith("one system alone answered 1 of 6 prompts")
