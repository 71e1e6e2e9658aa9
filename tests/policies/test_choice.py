"""Which scheduler a run gets, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import chosen, make_policy, policy_named
from tests.policies.test_deciding import task_for
from tests.policies.test_systems import each_answered_all, systems_for
from tests.session.comparing import comparisons

SCORES = Setup(100, 3000, Scale(0, 4))
THEORY = replace(SCORES, budget=10**6, mode="theory")
COMPARE = replace(SCORES, systems=systems_for(each_answered_all(5)))
SIDES = replace(SCORES, task=task_for("a>=3", 2))
BEST = replace(SCORES, task=task_for("best", 2, group=[0, 0]))


def pairwise(systems: int, *, wants_best: bool = False, named: bool = True) -> Setup:
    return replace(SCORES, matches=comparisons(systems, 3, wants_best=wants_best, named=named))


@pytest.mark.parametrize(
    ("setup", "name", "why"),
    [
        (SCORES, "two-priors", "it asks where ratings vary, from the second call of each pair on"),
        (replace(SCORES, budget=1_234_567), "two-priors", ""),
        (replace(SCORES, budget=100, delta=0.5), "two-priors", ""),
        (THEORY, "robin-hood", "--mode theory is its own"),
        (
            COMPARE,
            "uniform",
            "for --decide system, it asks whole prompts, in random order, before it repeats any",
        ),
        (SIDES, "auto", "for --decide with thresholds"),
        (BEST, "auto", "for --decide best"),
        (pairwise(3), "auto", "with 3 systems"),
        (pairwise(2), "uniform", "it asks every comparison equally often, in both orders"),
        (pairwise(4, named=False), "uniform", ""),
        (pairwise(3, wants_best=True), "auto", ""),
    ],
)
def test_chooses_a_scheduler_by_what_is_wanted_and_says_why(
    setup: Setup, name: str, why: str
) -> None:
    choice = chosen("auto", setup)
    assert choice is not None
    assert choice.name == name
    assert choice.why.startswith(why)
    assert make_policy("auto", setup).warm_up >= 0
    assert name == "auto" or type(make_policy("auto", setup)) is policy_named(name)


@pytest.mark.parametrize(
    ("name", "setup", "said"),
    [
        ("robbin", SCORES, "known schedulers are auto, robin, robin-hood, two-priors, uniform"),
        ("robin", SCORES, "--variances RUN"),
        ("robin-hood", replace(SCORES, delta=1.5), "at most 1"),
        ("robin-hood", replace(SCORES, mode="practise"), "practice, theory"),
        ("auto", replace(SCORES, mode="theory"), "theory mode needs"),
        ("auto", replace(SIDES, mode="theory"), "--decide: not with --mode theory"),
        ("apt", SIDES, "known schedulers are"),
        ("two-priors", COMPARE, "leave --scheduler two-priors out"),
        ("two-priors", pairwise(3), "--pairwise: has schedulers of its own"),
    ],
)
def test_refuses_a_scheduler_that_is_unknown_or_for_something_else(
    name: str, setup: Setup, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        make_policy(name, setup)
