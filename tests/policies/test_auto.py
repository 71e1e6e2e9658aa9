"""robin --scheduler auto: what it becomes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.own.robin_hood import RobinHood
from robin_cli.policies.own.two_priors import TwoPriors
from robin_cli.policies.registry import chosen, make_policy, policy_named


def setup(budget: int, *, arms: int = 100, delta: float = 0.007, mode: str = "practice") -> Setup:
    return Setup(arms, budget, Scale(0, 4), delta=delta, mode=mode)


def test_is_robin_hood_from_one_and_a_half_of_its_warm_ups_on() -> None:
    # ⌊4 ln(1/0.007)⌋ + 1 = 20 calls an arm
    assert isinstance(make_policy("auto", setup(3000)), RobinHood)
    assert isinstance(make_policy("auto", setup(2999)), TwoPriors)
    # ⌊4 ln(1/0.5)⌋ + 1 = 3
    assert isinstance(make_policy("auto", setup(450, delta=0.5)), RobinHood)
    assert isinstance(make_policy("auto", setup(449, delta=0.5)), TwoPriors)


def test_is_the_policy_itself_set_up_the_same() -> None:
    assert make_policy("auto", setup(3000)) == make_policy("robin-hood", setup(3000))
    assert make_policy("auto", setup(500)) == make_policy("two-priors", setup(500))


def test_says_what_it_became_and_why() -> None:
    few, many = chosen("auto", setup(500)), chosen("auto", setup(3000))
    assert few is not None
    assert few.name == "two-priors"
    assert few.why == "the budget is 5 calls a score, and robin-hood, whose warm-up is 20, is taken from 30 up"
    assert many is not None
    assert many.name == "robin-hood"
    assert many.why == "the budget is 30 calls a score, at least 1.5 times its warm-up of 20"
    huge, least = chosen("auto", setup(1_234_567)), chosen("auto", setup(100))
    assert huge is not None
    assert huge.why.startswith("the budget is 12,345 calls a score,")
    assert least is not None
    assert least.why.startswith("the budget is 1 call a score,")
    assert chosen("uniform", setup(500)) is None


def test_is_two_priors_where_the_run_is_to_stop_at_an_error() -> None:
    choice = chosen("auto", replace(setup(3000), to_target=True))
    assert choice is not None
    assert choice.name == "two-priors"
    assert isinstance(make_policy("auto", replace(setup(10**6, mode="theory"), to_target=True)), RobinHood)


def test_is_two_priors_where_calls_go_out_in_rounds() -> None:
    choice = chosen("auto", replace(setup(5000), rounds=4))
    assert choice is not None
    assert choice == ("two-priors", "calls go out in rounds, where it does better than robin-hood")


def test_is_robin_hood_in_theory_mode_and_refuses_what_that_refuses() -> None:
    assert isinstance(make_policy("auto", setup(10**6, mode="theory")), RobinHood)
    with pytest.raises(InputError, match="theory mode needs"):
        make_policy("auto", setup(3000, mode="theory"))
    assert policy_named("auto").theorem("theory") == 2
    assert policy_named("auto").theorem("practice") is None
