"""What is reserved, spent and left, of calls and of money."""

from __future__ import annotations

import pytest

from robin_cli.session.budget import CallBudget, MoneyBudget


def test_reserves_and_settles_calls_within_the_budget() -> None:
    # at random: tests/session/test_ledger.py
    budget = CallBudget(5, 2)
    for units in (0, -1, 4):
        with pytest.raises(ValueError, match=f"cannot reserve {units} of 3 units"):
            budget.reserve(units)
    budget.reserve(2)
    for reserved, spent in ((3, 1), (2, 3), (2, -1)):
        with pytest.raises(ValueError, match=f"cannot settle {spent} of {reserved} units with 2"):
            budget.settle(reserved, spent)
    budget.settle(2, 1)
    assert (budget.spent, budget.available, budget.exhausted) == (3, 2, False)
    assert CallBudget(5, 5).exhausted
    with pytest.raises(ValueError, match="6 units are spent already, more than the total of 5"):
        CallBudget(5, 6)


def paid(limit: float, spent: float = 0.0, judges: int = 1) -> MoneyBudget:
    """A budget that knows of each judge that it charges what was reserved."""
    budget = MoneyBudget(limit, spent)
    for judge in range(judges):
        budget.hold(0.0, judge)
        budget.settle(0.0, 0.0, judge)
    return budget


def test_money_covers_what_may_be_spent_at_most() -> None:
    budget = paid(1.0, 0.25)
    assert budget.covers(0.75)
    assert not budget.covers(0.8125)
    budget.hold(0.5)
    assert budget.covers(0.25)
    assert not budget.covers(0.3125)
    budget.settle(0.5, 0.125)
    assert (budget.spent, budget.reserved) == (0.375, 0.0)
    assert budget.covers(0.625)
    budget.hold(0.25)
    budget.hold(0.125)
    budget.settle(0.125, 0.0)
    assert (budget.spent, budget.reserved) == (0.375, 0.25)


def test_money_is_not_risked_on_a_second_call_before_a_judge_was_paid_once() -> None:
    budget = MoneyBudget(1.0)
    budget.hold(0.01, 0)
    assert not budget.covers(0.01, 0)
    assert budget.covers(0.01, 1)
    budget.settle(0.01, None, 0)  # nobody answered: nothing is known
    budget.hold(0.01, 0)
    assert not budget.covers(0.01, 0)
    budget.settle(0.01, 0.01, 0)
    budget.hold(0.01, 0)
    assert budget.covers(0.01, 0)


def test_money_believes_what_calls_cost_beyond_what_was_reserved() -> None:
    budget = paid(10.0)
    budget.hold(0.25)
    budget.settle(0.25, 1.0)  # four times as much
    assert (budget.covers(2.25), budget.covers(2.375)) == (True, False)
    budget.hold(1.0)
    assert (budget.covers(1.25), budget.covers(1.375)) == (True, False)
    budget.settle(1.0, 1.0)  # what was reserved: no reason to believe less
    assert (budget.covers(2.0), budget.covers(2.125)) == (True, False)


def test_money_takes_no_call_for_as_dear_as_another_that_was_known_to_be() -> None:
    budget = paid(10.0)
    budget.hold(4.0)
    budget.settle(4.0, 4.0)  # just what was reserved: a long prompt, say
    budget.hold(0.25)
    assert (budget.covers(5.75), budget.covers(5.875)) == (True, False)


def test_money_counts_calls_at_the_dearest_where_nothing_was_reserved() -> None:
    budget = paid(10.0)
    budget.hold(0.0)
    budget.settle(0.0, 2.0)
    for _ in range(3):
        budget.hold(0.0)
    assert budget.covers(0.0)
    budget.hold(0.0)
    assert not budget.covers(0.0)  # 2 are spent, and 5 calls may cost as much each


def test_money_without_a_limit_covers_anything_and_counts_it() -> None:
    budget = MoneyBudget(None)
    budget.hold(1e9)
    assert budget.covers(1e9)
    budget.settle(1e9, 2.5)
    assert (budget.spent, budget.reserved) == (2.5, 0.0)


def test_money_reserved_in_many_parts_comes_back_whole() -> None:
    budget = paid(10.0)
    parts = [0.1] * 30
    for part in parts:
        budget.hold(part)
    budget.settle(sum(parts) + 1e-12, 0.0)  # a hair more than the sum of floats came to
    assert budget.reserved == 0.0


def test_money_of_a_call_that_was_lost_is_gone_and_teaches_nothing() -> None:
    budget = MoneyBudget(1.0)
    budget.hold(0.4)
    budget.lose(0.4)
    assert (budget.spent, budget.lost, budget.reserved) == (0.0, 0.4, 0.0)
    assert not budget.covers(0.7)
    budget.hold(0.1)
    # no call of this judge was paid yet, so what it takes is not known
    assert not budget.covers(0.1)
