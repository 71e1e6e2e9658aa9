"""Which scheduler a run gets, and which are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import chosen, make_policy, policy_named
from tests.planning.comparing import comparisons
from tests.policies.test_deciding import task_for
from tests.policies.test_paired import each_answered_all, systems_for

SCORES = Setup(100, 3000, Scale(0, 4))
THEORY = replace(SCORES, budget=10**6, mode="theory")
COMPARE = replace(SCORES, objective="compare", systems=systems_for(each_answered_all(5)))
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
            "paired",
            "for --objective compare, it asks prompts not asked yet before it repeats any",
        ),
        (SIDES, "apt", ""),
        (BEST, "lucb", ""),
        (pairwise(3), "tournament", ""),
        (pairwise(2), "preferences", ""),
        (pairwise(4, named=False), "preferences", ""),
        (pairwise(3, wants_best=True), "duels", ""),
    ],
)
def test_chooses_a_scheduler_by_what_is_wanted_and_says_why(
    setup: Setup, name: str, why: str
) -> None:
    choice = chosen("auto", setup)
    assert choice is not None
    assert choice.name == name
    assert choice.why.startswith(why)
    assert type(make_policy("auto", setup)) is policy_named(name)
    assert chosen(name, setup) is None


@pytest.mark.parametrize(
    ("name", "setup", "said"),
    [
        (
            "robbin",
            SCORES,
            "known schedulers are apt, auto, dirichlet, duels, lucb, paired, preferences, robin, robin-hood",
        ),
        ("robin", SCORES, "--variances RUN"),
        ("robin-hood", replace(SCORES, delta=1.5), "at most 1"),
        ("robin-hood", replace(SCORES, mode="practise"), "practice, theory"),
        ("uniform", replace(SCORES, objective="mean"), "worst-case, mean-error, compare"),
        ("auto", replace(SCORES, mode="theory"), "theory mode needs"),
        ("auto", replace(SIDES, mode="theory"), "--decide: not with --mode theory"),
        ("apt", SCORES, "--scheduler apt: needs thresholds"),
        ("apt", BEST, "needs thresholds"),
        ("lucb", SCORES, "--scheduler lucb: needs groups"),
        ("lucb", SIDES, "needs groups"),
        ("two-priors", COMPARE, "leave --scheduler two-priors out"),
        ("paired", SCORES, "take it with --objective compare"),
        ("two-priors", pairwise(3), "--pairwise: has schedulers of its own"),
        ("tournament", pairwise(2), "three systems or more"),
        ("duels", pairwise(3), "--decide best"),
        ("tournament", SCORES, "take it with --pairwise"),
        ("preferences", SCORES, "take it with --pairwise"),
    ],
)
def test_refuses_a_scheduler_that_is_unknown_or_for_something_else(
    name: str, setup: Setup, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        make_policy(name, setup)
