"""When a comparison of systems ends early: at more and more prompts, at all of them, then at more calls."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from robin_cli.goals.systems import SystemsGoal
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.systems import Systems, systems_of
from robin_cli.session.budget import CallBudget
from robin_cli.stats.looks import are_told_apart, looks_of


def two_systems(prompts: int) -> Systems:
    ids = [f"p{number}" for number in range(2 * prompts)]
    space = ArmSpace(ids, ["a"], [""], [Scale(0, 4)])
    system, prompt = np.arange(2 * prompts) % 2, np.arange(2 * prompts) // 2
    return systems_of(space, system, ["x", "y"], prompt, map(str, range(prompts)), 1)


def arms_of(systems: Systems, lead: list[int], asked: int, times: int = 1) -> WritableArms:
    """The ratings of the first ``asked`` prompts: 1 for y, and as much more for x as it leads."""
    arms = WritableArms(len(systems.space))
    for more, prompt in zip(lead[:asked], systems.in_order[:asked], strict=True):
        for arm, rating in ((2 * prompt, 1 + more), (2 * prompt + 1, 1)):
            arms.add(int(arm), (rating,) * times)
    return arms


@pytest.mark.parametrize(
    ("prompts", "looks"), [(19, []), (20, [20]), (45, [20, 40, 45]), (160, [20, 40, 80, 160])]
)
def test_looks_at_all_prompts_last(prompts: int, looks: list[int]) -> None:
    assert looks_of(two_systems(prompts)) == looks


LEAD = [1, 0, 0, 0, -1, 1, 0, 1, -1, 0] * 2 + [3, 1] * 5


def test_ends_at_all_prompts_and_asks_for_more_at_each_doubling_of_the_calls() -> None:
    systems = two_systems(30)

    assert not are_told_apart(systems, arms_of(systems, LEAD, 29).columns, 0.05), (
        "the first 20 show little"
    )
    assert are_told_apart(systems, arms_of(systems, LEAD, 30).columns, 0.05)
    # the same means: each look at twice the calls may be wrong half as often
    assert are_told_apart(systems, arms_of(systems, LEAD, 30, 2).columns, 0.05)
    assert not are_told_apart(systems, arms_of(systems, LEAD, 30, 16).columns, 0.05)


def test_a_session_looks_again_only_when_the_calls_have_doubled() -> None:
    systems = two_systems(30)
    stop = SystemsGoal(systems.space, systems).stopping(0.05)
    assert stop is not None

    def ends_at(spent: int, lead: list[int], asked: int = 30) -> bool:
        budget, arms = CallBudget(1000, spent), arms_of(systems, lead, asked)
        return stop(SimpleNamespace(arms=arms.columns, budget=budget))

    assert not ends_at(40, LEAD, 20)
    assert not ends_at(60, LEAD[:20] + [0] * 10)
    assert not ends_at(119, LEAD), "between two looks"
    assert ends_at(120, LEAD)
