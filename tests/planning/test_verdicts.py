"""What is asked, and when a run ends, where something is to be decided."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from robin_cli.analysis.decisions import RunVerdicts
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.outcome import Unanswered
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.planning.stopping import next_look
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.registry import chosen
from tests.planning.played import work

SHORT, LONG = Scale(0, 4), Scale(1, 10)


def task_over(sizes: list[int], *, judges: int = 1, best: bool, attributes: int = 1, error_rate: float = 0.2) -> Task:
    """A decision over groups of these sizes, or over as many pairs by themselves."""
    names, scales = ("a", "b")[:attributes], (SHORT, LONG)[:attributes]
    pairs = [f"p{number}" for number in range(sum(sizes))]
    space = ArmSpace(pairs, names, [f"j{number}" for number in range(judges)], scales)
    text = "best" if best else ",".join(("a>=2", "b<=5")[:attributes])
    group = np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes)) if best else None
    return Task(decision_of(text, names, scales, margin=0.4, error_rate=error_rate), space, group)


def policy_for(task: Task, budget: int, name: str = "auto") -> Policy:
    setup = Setup(len(task.space), budget, SHORT, delta=0.9, task=task)
    choice = chosen(name, setup)
    return policy_by_scale(name if choice is None else choice.name, setup, None, task.space.by_scale())


def planner_for(
    task: Task, budget: int, name: str = "auto", each: int = 0, seed: int = 1
) -> tuple[RunVerdicts, Planner]:
    """Decisions, and a planner for them, whose arms have ``each`` ratings, or one more."""
    rng = np.random.default_rng(seed)
    arms, counts = WritableArms(len(task.space)), LevelCounts(task.space)
    for arm in range(len(arms)):
        scale, n = task.space.scale_of(arm), each + int(rng.integers(0, 2)) if each else 0
        ratings = rng.choice(rng.integers(scale.low, scale.high + 1, 3), n).tolist()
        arms.add(arm, ratings)
        arms.next_draw[arm] = n
        counts.add(arm, ratings)
    judge = task.space.judge if len(task.space.judges) > 1 else None
    policy = policy_for(task, budget, name)
    verdicts = RunVerdicts(task, counts)
    return verdicts, Planner(arms, policy, budget=budget + arms.spent, judge=judge, verdicts=verdicts)


class Deciding(RuleBasedStateMachine):
    """Calls are asked for, answered, unparsed and given up in any order, while decisions are made."""

    @initialize(
        sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3),
        best=st.booleans(),
        judges=st.sampled_from([1, 1, 2]),
        attributes=st.sampled_from([1, 2]),
        name=st.sampled_from(["auto", "auto", "auto", "uniform", "two-priors", "robin-hood"]),
        calls=st.integers(1, 60),
        each=st.sampled_from([0, 3, 8, 20]),
        seed=st.integers(0, 9),
    )
    def begin(
        self,
        sizes: list[int],
        best: bool,
        judges: int,
        attributes: int,
        name: str,
        calls: int,
        each: int,
        seed: int,
    ) -> None:
        self.task = task_over(sizes, best=best, judges=judges, attributes=attributes, error_rate=0.4)
        self.verdicts, self.planner = planner_for(self.task, calls * len(self.task.space), name, each, seed)
        self.under_way: list[Ticket] = []

    @rule(samples=st.sampled_from([1, 1, 3]), tickets=st.integers(1, 4))
    def plan(self, samples: int, tickets: int) -> None:
        planner, verdicts = self.planner, self.verdicts
        for _ in range(tickets):
            planned = planner.plan(1, samples)
            # as they are now: where nothing else is left to ask, it has looked at the decisions once more
            settled = verdicts.settled & (planner.arms.counts >= planner._warm_up)
            assert not any(settled[each.arm] for each in planned), "nothing hangs on it"
            assert not (planned and verdicts.all_decided)
            assert planned or self.under_way or planner.is_over
            if planner.is_over:
                over = planner.budget.exhausted or verdicts.all_decided
                assert over or (planner.arms.retired_mask | settled).all()
            self.under_way += planned

    @precondition(lambda self: self.under_way)
    @rule(data=st.data(), failure=st.none() | st.none() | st.none() | st.sampled_from(Unanswered))
    def tell(self, data: st.DataObject, failure: Unanswered | None) -> None:
        ticket = self.under_way.pop(data.draw(st.integers(0, len(self.under_way) - 1)))
        scale = self.task.space.scale_of(ticket.arm)
        rating = st.sampled_from([scale.low, scale.low, scale.low + 1, scale.high]).map(float)
        answers = st.lists(st.none() | rating | rating | rating, max_size=ticket.calls)
        self.planner.tell(ticket, failure or data.draw(answers))

    @invariant()
    def budget_holds(self) -> None:
        if hasattr(self, "planner"):
            budget = self.planner.budget
            assert budget.spent + budget.reserved <= budget.total
            assert self.planner.arms.spent == budget.spent


TestDeciding = Deciding.TestCase
TestDeciding.settings = settings(max_examples=75, stateful_step_count=50, deadline=None)


def test_spends_nothing_on_a_response_that_has_no_rival() -> None:
    task = task_over([2, 1, 1], best=True)
    assert task.group is not None
    _, planner = planner_for(task, 400)
    alone = np.flatnonzero(np.bincount(task.group)[task.group] == 1)
    rng = np.random.default_rng(1)
    list(work(planner, lambda _: (float(rng.integers(1, 4)),), at_once=9))
    assert set(planner.arms.counts[alone]) == {2}  # its score


def test_looks_at_few_changes_at_a_time_however_many_calls_are_spent() -> None:
    assert next_look(0, 100) == 200  # two a pair
    assert next_look(1_000, 100) == 1_010
    assert next_look(10_000_000, 200_000) == 10_004_000
