"""Calls chosen by what they bring for a dollar."""

from __future__ import annotations

import math

import numpy as np
import pytest

from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.records import Scale
from robin_cli.model.refits import next_refit
from robin_cli.planning.costs import FREE, Costs, Per
from robin_cli.planning.planner import Planner
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.own.robin import Robin
from robin_cli.policies.registry import make_policy

ONE_JUDGE = np.zeros(6, dtype=np.int32)
NOTHING_KNOWN = (0.25, 100.0)


def costs_of(each: list[float], *, per: Per = Per.ARM, judges: int = 1) -> Costs:
    """Calls that cost so many dollars, and whose answers cost nothing."""
    judge = np.tile(np.arange(judges, dtype=np.int32), len(each) // judges)
    prices = np.column_stack([np.ones(judges), np.zeros(judges)])
    return Costs(np.array(each), judge, prices, tokens=(1.0, 0.0), per=per)


def played(
    policy: Policy, costs: Costs | None, dollars: float, each: FloatArray, ratings: FloatArray
) -> WritableArms:
    """The arms once ``dollars`` are spent, a call of arm i costing each[i]; its k-th rating is ratings[i, k]."""
    arms = WritableArms(len(each))
    planner = Planner(arms, policy, costs=costs)
    while True:
        (ticket,) = planner.plan()
        cost = each[ticket.arm]
        dollars -= cost
        if dollars < 0:
            return arms
        if costs is not None:
            costs.add(ticket.arm % len(costs.dollars), cost, 0, cost)
        planner.tell(ticket, (ratings[ticket.arm, arms.n[ticket.arm] % ratings.shape[1]],))


ALIKE, DEARER = np.full(6, 0.5), [1.0, 20.0] * 3
UNLIKE, MIXED = np.array([0.04, 0.04, 0.25, 0.25, 1.0, 1.0]), [1.0, 20.0, 1.0, 4.0, 2.0, 8.0]


@pytest.mark.parametrize(
    ("objective", "per", "judges", "variances", "each", "wanted"),
    [
        ("mean-error", Per.ARM, 1, UNLIKE, MIXED, np.sqrt(UNLIKE / MIXED)),
        ("worst-case", Per.ROOT_OF_JUDGE, 1, UNLIKE, MIXED, UNLIKE),
        ("worst-case", Per.ROOT_OF_JUDGE, 2, ALIKE, DEARER, 1 / np.sqrt(DEARER)),
    ],
)
def test_asks_by_sigma_and_the_root_of_the_cost_or_by_the_variance_or_by_the_judges_price(
    objective: str,
    per: Per,
    judges: int,
    variances: FloatArray,
    each: list[float],
    wanted: FloatArray,
) -> None:
    costs = costs_of(each, per=per, judges=judges)
    arms = played(Robin(variances, objective), costs, 20_000.0, np.array(each), np.ones((6, 1)))
    assert arms.counts / arms.counts.sum() == pytest.approx(wanted / wanted.sum(), rel=0.02)


def test_has_the_error_at_equal_dollars_that_the_theory_says() -> None:
    rng = np.random.default_rng(11)
    variances, each = rng.uniform(0.2, 2.0, 40), np.tile([1.0, 20.0], 20)
    dollars, sd = 20_000.0, np.sqrt(variances)

    errors = {}
    for by_money in (True, False):
        costs = costs_of(each.tolist(), judges=2) if by_money else None
        arms = played(Robin(variances, "mean-error"), costs, dollars, each, np.ones((40, 1)))
        errors[by_money] = (variances / arms.counts).sum()

    by_the_dollar = (sd * np.sqrt(each)).sum() ** 2
    assert errors[True] == pytest.approx(by_the_dollar / dollars, rel=0.01)
    theory = by_the_dollar / (sd.sum() * (sd * each).sum())
    assert errors[True] / errors[False] == pytest.approx(theory, rel=0.01)
    assert theory == pytest.approx(
        (1 + math.sqrt(20)) ** 2 / 42, rel=0.02
    )  # that of two judges that vary alike


@pytest.mark.parametrize("name", ["two-priors", "robin-hood"])
def test_asks_by_the_priority_over_the_cost_call_by_call(name: str) -> None:
    rng = np.random.default_rng(7)
    ratings = rng.integers(0, 5, (6, 40)).astype(np.float64)
    each = np.array([1.0, 3.0, 9.0, 0.5, 2.0, 1.0])
    setup = Setup(arms=6, budget=400, scale=Scale(0, 4), objective="mean-error")
    policy = make_policy(name, setup)
    costs = costs_of(each.tolist())
    planner = Planner(WritableArms(6), policy, costs=costs)
    n, total, squares = (np.zeros(6) for _ in range(3))
    fitted_at = next_refit(0, 6)
    for _ in range(400):
        (ticket,) = planner.plan()
        if n.min() < policy.warm_up:
            wanted = int(n.argmin())
        else:
            gain = policy.priority(n, np.zeros(6), total, squares, np.arange(6))
            wanted = int((gain / (each / each.mean())).argmax())
        assert ticket.arm == wanted
        costs.add(0, each[wanted], 0, each[wanted])
        rating = ratings[wanted, int(n[wanted]) % 40]
        planner.tell(ticket, (rating,))
        n[wanted] += 1
        total[wanted] += rating
        squares[wanted] += rating**2
        if n.sum() >= fitted_at:
            policy, fitted_at = policy.fitted(n, total, squares), next_refit(int(n.sum()), 6)


def test_asks_as_without_costs_where_all_calls_cost_the_same() -> None:
    rng = np.random.default_rng(3)
    ratings = rng.integers(0, 5, (6, 40)).astype(np.float64)
    policy = make_policy(
        "two-priors", Setup(arms=6, budget=300, scale=Scale(0, 4), objective="mean-error")
    )

    by_money = played(policy, costs_of([2.0] * 6), 600.0, np.full(6, 2.0), ratings)
    by_calls = played(policy, None, 600.0, np.full(6, 2.0), ratings)

    assert by_money.counts.tolist() == by_calls.counts.tolist()


def test_learns_what_a_call_costs_from_what_the_answers_took() -> None:
    length = np.array([100.0, 300.0, 100.0, 300.0, 100.0, 300.0])
    prices = np.array([[1e-6, 4e-6]])
    costs = Costs(length, ONE_JUDGE, prices, tokens=NOTHING_KNOWN, per=Per.ARM)
    assert costs.each == pytest.approx(length * 0.25e-6 + 400e-6)

    rated = np.full(6, 50)
    prompt, completion = 0.5 * 50 * length.sum(), 300 * 20
    costs.add(0, int(prompt), completion, prompt * 1e-6 + completion * 4e-6)
    costs.learn(rated)

    assert costs.each == pytest.approx(length * 0.5e-6 + 20 * 4e-6, rel=0.02)
    assert (costs.each * rated).sum() == pytest.approx(costs.dollars[0], rel=0.01)


def test_takes_the_endpoints_own_word_for_what_it_charged() -> None:
    prices = np.array([[1e-6, 4e-6]])
    costs = Costs(np.full(6, 400.0), ONE_JUDGE, prices, tokens=NOTHING_KNOWN, per=Per.ARM)
    half = Costs(np.full(6, 400.0), ONE_JUDGE, prices, tokens=NOTHING_KNOWN, per=Per.ARM)
    for found, charged in ((costs, 1.0), (half, 0.5)):
        found.add(0, 600 * 100, 600 * 10, charged * (600 * 100 * 1e-6 + 600 * 10 * 4e-6))
        found.learn(np.full(6, 100))

    assert half.each == pytest.approx(costs.each / 2)


def test_counts_a_rating_the_dearer_the_more_answers_hold_none() -> None:
    judge = np.array([0, 1] * 3, dtype=np.int32)
    costs = Costs(
        np.full(6, 400.0), judge, np.full((2, 2), 1e-6), tokens=NOTHING_KNOWN, per=Per.ARM
    )
    for number in (0, 1):
        costs.add(number, 300 * 100, 300 * 10, 300 * 110e-6)
    costs.learn(np.array([100, 50] * 3))

    assert costs.each[1] / costs.each[0] == pytest.approx(2.0, rel=0.02)


def test_asks_a_judge_that_costs_nothing_often_but_not_for_ever() -> None:
    judge = np.array([0, 1] * 3, dtype=np.int32)
    prices = np.array([[0.0, 0.0], [1e-6, 1e-6]])
    costs = Costs(np.full(6, 400.0), judge, prices, tokens=NOTHING_KNOWN, per=Per.ARM)

    assert costs.divisors[0] == FREE
    assert costs.of_a_call(evenly=True) == pytest.approx(costs.each[1] / 2)


def test_reckons_what_a_call_costs_on_average() -> None:
    costs = costs_of([1.0, 20.0] * 3, judges=2)

    assert costs.of_a_call(evenly=True) == pytest.approx(10.5)
    shares = np.array([1.0, 1 / math.sqrt(20.0)])
    assert costs.of_a_call(evenly=False) == pytest.approx((shares * [1, 20]).sum() / shares.sum())
