"""What holds whatever the policy: in a run, after an interruption, in a simulation, with any number of calls under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest

from robin_cli.model.arms import WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.milestones import fits_from
from robin_cli.policies.registry import make_policy
from robin_cli.policies.task import Task
from robin_cli.session.planner import Planner, Ticket
from robin_cli.simulate.runs import DrawnRatings
from tests.policies.test_systems import each_answered_all, systems_for
from tests.policies.test_systems import policy_for as policy_for_systems
from tests.session.comparing import POLICIES, comparisons
from tests.session.comparing import policy_for as policy_for_comparisons
from tests.session.played import SCALE, asked_by, by_turns, simulated, work

LONG = Scale(1, 10)
BUDGET = 250


class Case(NamedTuple):
    """A policy, the arms that it is for, and how a planner is made for it."""

    policy: Policy
    space: ArmSpace
    together: int = 1

    def planner(
        self, arms: WritableArms, policy: Policy | None = None, *, budget: int = BUDGET
    ) -> Planner:
        """A planner that chooses one by one."""
        first, judge = self.space.first_fit, self.space.judge
        planner = Planner(
            arms,
            policy or self.policy,
            budget=budget,
            judge=judge,
            together=self.together,
            first_fit=first,
        )
        planner.block = 1
        return planner

    def ratings(self) -> list[list[int]]:
        """A few ratings of each arm, some of which never vary."""
        rng, found = np.random.default_rng(1), []
        for arm in range(len(self.space)):
            scale = self.space.scale_of(arm)
            levels = rng.integers(scale.low, scale.high + 1, rng.choice([1, 2, 5]))
            found.append(rng.choice(levels, rng.integers(3, 12)).tolist())
        return found


def scores(name: str, *, several_scales: bool = False) -> Case:
    scales = (SCALE, LONG)[: 1 + several_scales]
    space = ArmSpace(
        [str(each) for each in range(20 // len(scales))], ("a", "b")[: len(scales)], ["j"], scales
    )
    setup = Setup(
        len(space), BUDGET, SCALE, delta=0.3, variances=np.random.default_rng(2).random(len(space))
    )
    return Case(make_policy(name, replace(setup, by_scale=space.by_scale())), space)


def deciding(text: str, judges: int, budget: int = BUDGET) -> Case:
    space = ArmSpace(
        [str(each) for each in range(12)], ["a"], [str(each) for each in range(judges)], [SCALE]
    )
    task = Task(
        decision_of(text, ["a"], [SCALE], margin=None, error_rate=0.1), space, np.arange(12) // 4
    )
    setup = Setup(len(space), budget, SCALE, task=task)
    return Case(make_policy("auto", replace(setup, by_scale=space.by_scale())), space)


def comparing(name: str) -> Case:
    policy, wants_best = POLICIES[name]
    matches = comparisons(5, 6, wants_best=wants_best)
    return Case(policy_for_comparisons(matches, policy), matches.space, matches.space.together)


def systems() -> Case:
    compared = systems_for(each_answered_all(6, 3), judges=2)
    return Case(policy_for_systems(compared), compared.space)


CASES: dict[str, Callable[[], Case]] = {
    **{
        name: lambda name=name: scores(name)  # type: ignore[misc]
        for name in ("uniform", "robin-hood", "robin", "two-priors")
    },
    "two scales": lambda: scores("two-priors", several_scales=True),
    "robin-hood on two scales": lambda: scores("robin-hood", several_scales=True),
    "thresholds": lambda: deciding("a>=2", 1),
    "thresholds of a panel": lambda: deciding("a>=2", 2),
    "best of groups": lambda: deciding("best", 1),
    "best after one call": lambda: deciding("best", 1, budget=24),
    "systems": systems,
    **{name: lambda name=name: comparing(name) for name in POLICIES},  # type: ignore[misc]
}
every_case = pytest.mark.parametrize("name", CASES)


@every_case
def test_goes_on_after_an_interruption_as_if_never_stopped(name: str) -> None:
    case = CASES[name]()
    ratings, count, first = case.ratings(), len(case.space), case.space.first_fit
    whole = [ticket.arm for ticket in work(case.planner(WritableArms(count)), by_turns(ratings))]
    assert len(whole) == BUDGET
    for at in (1, first - 1, first, first + 1, 200):
        arms, policy = WritableArms(count), case.policy
        for number, arm in enumerate(whole[:at], 1):
            arms.add_rating(arm, float(ratings[arm][arms.next_draw[arm] % len(ratings[arm])]))
            arms.next_draw[arm] += 1
            if number == fits_from(first).until(at):
                policy = policy.fitted(
                    arms.columns.n.astype(np.float64), arms.columns.total, arms.columns.total_sq
                )
        assert [each.arm for each in work(case.planner(arms, policy), by_turns(ratings))] == whole[
            at:
        ], at


@every_case
def test_chooses_alike_where_a_processor_computes_other_last_bits(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = CASES[name]()
    ratings, count, kind = case.ratings(), len(case.space), type(case.policy)
    here = [ticket.arm for ticket in work(case.planner(WritableArms(count)), by_turns(ratings))]
    exact, rng = kind.priority, np.random.default_rng(3)

    def elsewhere(*args: Any) -> Any:
        priority = exact(*args)
        return priority * (1.0 + rng.choice([-1, 0, 1], priority.shape) * 2.0**-52)

    monkeypatch.setattr(kind, "priority", elsewhere)
    there = [ticket.arm for ticket in work(case.planner(WritableArms(count)), by_turns(ratings))]
    assert there == here


# Ratings, thresholds and best: tests/simulate/test_runs.py.
@pytest.mark.parametrize("name", ["systems", *POLICIES])
def test_asks_in_a_simulation_as_in_a_run(name: str) -> None:
    case, runs = CASES[name](), 2
    first, budget = case.space.first_fit, 300
    ratings = DrawnRatings.from_ratings([np.array(each) for each in case.ratings() * runs])
    for longest in (1, 16):
        how = {"first_fit": first, "block": 1, "longest_visit": longest}
        for calls in simulated(ratings, case.policy, budget, runs, **how):
            planner = Planner(
                WritableArms(len(case.space)), case.policy, budget=budget, first_fit=first
            )
            planner.block = 1
            asked = asked_by(planner, (rating for _, rating in calls), longest)
            assert asked == [arm for arm, _ in calls], f"visits of {longest}"


WAYS = [(1, 1), (7, 16), (64, 1), (9, 4)]


# Each case in one of the ways, and each way with several of the cases.
@pytest.mark.parametrize(
    ("name", "at_once", "samples"),
    [(name, *WAYS[place % len(WAYS)]) for place, name in enumerate(CASES)],
)
def test_spends_the_budget_and_knows_each_arms_urgency_as_if_it_looked_at_all(
    name: str, at_once: int, samples: int
) -> None:
    case, rng = CASES[name](), np.random.default_rng(at_once)
    arms = WritableArms(len(case.space))
    planner = case.planner(arms)
    planner.block = 1 + at_once % 5

    def answer(ticket: Ticket) -> Outcome:
        if rng.random() < 0.03:
            return list(Unanswered)[1 + rng.integers(3)]
        scale = case.space.scale_of(ticket.arm)
        return [
            None if rng.random() < 0.02 else float(rng.integers(scale.low, scale.high + 1))
            for _ in range(ticket.calls)
        ]

    draws: set[tuple[int, int]] = set()
    for call, ticket in enumerate(
        work(planner, answer, at_once=at_once, luck=rng, samples=samples)
    ):
        assert 1 <= ticket.calls <= samples
        assert not arms.retired(ticket.arm)
        mine = {(ticket.arm, ticket.draw + each) for each in range(ticket.calls)}
        assert not mine & draws or planner.budget.reserved, (
            "numbered twice, but for calls that were not made"
        )
        draws |= mine
        assert (sum(arms.pending), arms.columns.spent) == (
            planner.budget.reserved,
            planner.budget.spent,
        )
        if call % 40 == 0:
            planner._drop_block()
            planner._choose(0)
            known = planner._urgency.copy()
            planner._is_changed[:] = True
            planner._drop_block()
            planner._choose(0)
            np.testing.assert_array_equal(known, planner._urgency)
    assert arms.columns.spent == BUDGET
    assert not any(arms.pending)


@every_case
def test_visits_make_half_of_the_requests_at_twenty_calls_an_arm(name: str) -> None:
    case = CASES[name]()
    ratings, budget = case.ratings(), 20 * len(case.space)
    planner = case.planner(WritableArms(len(case.space)), budget=budget)
    visits = list(work(planner, by_turns(ratings), at_once=8, samples=16))
    assert sum(ticket.calls for ticket in visits) == budget
    assert len(visits) <= 0.6 * budget


@pytest.mark.parametrize("name", ["two-priors", "two scales"])
def test_starves_no_arm(name: str) -> None:
    case = CASES[name]()
    constant = [[each[0]] if arm % 3 else each for arm, each in enumerate(case.ratings())]
    arms = WritableArms(len(case.space))
    setup = Setup(len(arms), BUDGET, SCALE)
    policy = make_policy(
        "two-priors" if name == "two scales" else name,
        replace(setup, by_scale=case.space.by_scale()),
    )
    list(work(case.planner(arms, policy, budget=50 * len(arms)), by_turns(constant)))
    assert arms.columns.n.min() >= 10
