"""What is asked, and when a run ends, where something is to be decided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from robin_cli.model.arms import WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.outcome import Outcome, Unanswered
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.milestones import fits_from, looks_at
from robin_cli.policies.registry import chosen, make_policy
from robin_cli.policies.task import Task
from robin_cli.session import planner as planner_module
from robin_cli.session.planner import Planner, Ticket
from robin_cli.stats.decisions import Evidence, RunVerdicts
from robin_cli.stats.level_counts import LevelCounts
from tests.session.played import Watching, by_turns, next_of, work

SHORT, LONG = Scale(0, 4), Scale(0, 10)


def task_over(
    sizes: list[int], *, judges: int = 1, best: bool, attributes: int = 1, error_rate: float = 0.2
) -> Task:
    """A decision over groups of these sizes, or over as many pairs by themselves."""
    names, scales = ("a", "b")[:attributes], (SHORT, LONG)[:attributes]
    pairs = [f"p{number}" for number in range(sum(sizes))]
    space = ArmSpace(pairs, names, [f"j{number}" for number in range(judges)], scales)
    text = "best" if best else ",".join(("a>=2", "b<=5")[:attributes])
    group = (
        np.random.default_rng(1).permutation(np.repeat(np.arange(len(sizes)), sizes))
        if best
        else None
    )
    return Task(decision_of(text, names, scales, margin=0.4, error_rate=error_rate), space, group)


def policy_for(task: Task, budget: int, name: str = "auto") -> Policy:
    setup = Setup(len(task.space), budget, SHORT, delta=0.9, task=task)
    choice = chosen(name, setup)
    return make_policy(
        name if choice is None else choice.name, replace(setup, by_scale=task.space.by_scale())
    )


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
    verdicts = RunVerdicts(Evidence(task), counts)
    return verdicts, Planner(
        arms, policy, budget=budget + arms.columns.spent, judge=judge, watch=Watching(verdicts)
    )


@pytest.mark.parametrize(
    ("name", "best", "judges", "attributes", "each"),
    [
        ("auto", True, 1, 1, 0),
        ("auto", False, 2, 1, 20),
        ("uniform", True, 2, 2, 3),
        ("two-priors", False, 2, 1, 0),
        ("robin-hood", True, 1, 2, 8),
    ],
)
def test_asks_nothing_on_which_no_open_decision_hangs_and_ends_when_all_are_made(
    name: str, best: bool, judges: int, attributes: int, each: int
) -> None:
    for seed in (4, 5):
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, 4, 3).tolist()
        task = task_over(sizes, best=best, judges=judges, attributes=attributes, error_rate=0.4)
        verdicts, planner = planner_for(task, 12 * len(task.space), name, each, seed)

        def answer(ticket: Ticket, task: Task = task, rng: np.random.Generator = rng) -> Outcome:
            if (luck := rng.random()) < 0.1:
                return list(Unanswered)[rng.integers(4)] if luck < 0.05 else [None] * ticket.calls
            scale = task.space.scale_of(ticket.arm)
            levels = [scale.low, scale.low, scale.low + 1, scale.high]
            return [float(levels[each]) for each in rng.integers(4, size=ticket.calls)]

        for ticket in work(
            planner, answer, at_once=1 + 4 * (seed % 2), luck=rng, samples=1 + 2 * (seed == 5)
        ):
            seen, contest = verdicts.seen, verdicts.evidence.contest[ticket.arm]
            # Where the budget certifies but a share of all decisions, each of these is asked for beyond what settles it.
            needs_more = seen is not None and verdicts.evidence.of_contests[0, contest] < seen.level
            is_settled = verdicts.settled[ticket.arm] and not needs_more
            assert not (is_settled and planner.arms.n[ticket.arm] >= planner._warm_up)
            assert not verdicts.all_decided
        settled = verdicts.settled & (planner.arms.n >= planner._warm_up)
        over = planner.budget.exhausted or verdicts.all_decided
        assert over or (planner.arms.is_retired | settled).all()


def test_decides_elsewhere_where_there_are_many_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_module, "FEW_ARMS", 0)
    task = task_over([3, 3], best=True, judges=1, attributes=1)
    _, planner = planner_for(task, 100, "uniform", each=3)
    begun: list[Callable[[], None]] = []
    planner.elsewhere = lambda work, then: begun.append(lambda: then(work()))

    assert planner.plan() is None  # what was rated before is not looked at in the event loop
    assert not planner.is_over
    begun.pop()()
    assert planner.plan() is None
    begun.pop()()  # nor is a block chosen there
    ticket = next_of(planner)
    planner.tell(ticket, [3.0])  # few calls as there are, the next look is due
    assert len(begun) == 1


def test_spends_nothing_on_a_response_that_has_no_rival() -> None:
    task = task_over([2, 1, 1], best=True)
    assert task.group is not None
    _, planner = planner_for(task, 400)
    alone = np.flatnonzero(np.bincount(task.group)[task.group] == 1)
    rng = np.random.default_rng(1)
    list(work(planner, lambda _: (float(rng.integers(1, 4)),), at_once=9))
    assert set(planner.arms.n[alone]) == {2}  # its score


@pytest.mark.parametrize("samples", [1, 2, 3, 4])
def test_takes_turns_between_the_least_clear_and_the_nearest_to_certain_whatever_a_request_makes(
    samples: int,
) -> None:
    _, planner = planner_for(task_over([1, 1], best=False, error_rate=1e-9), 4_000)
    answer = by_turns([[1, 3], [3]])  # of a threshold at 2
    asked = [ticket.arm for ticket in islice(work(planner, answer, samples=samples), 12)]
    assert asked[4:].count(1) == 3  # all can be settled: 11 of 32 calls are for that


def test_looks_at_few_changes_at_a_time_however_many_calls_are_spent() -> None:
    looks = looks_at(200_000)
    assert [looks.after(0), looks.after(400_000)] == [400_000, 404_000]  # two a pair first
    assert looks.after(10_000_000) - looks.until(10_000_000) == 4_000
    assert looks_at(100).after(200) == 202


@pytest.mark.parametrize(
    ("best", "judges", "attributes", "sizes", "error_rate"),
    [
        (True, 1, 1, [3] * 3, 0.05),
        (True, 2, 2, [2, 3], 0.5),
        (False, 1, 1, [1] * 16, 0.05),
        (False, 2, 2, [1] * 4, 0.2),
    ],
)
def test_goes_on_after_a_stop_at_any_call_as_if_nothing_had_stopped(
    best: bool, judges: int, attributes: int, sizes: list[int], error_rate: float
) -> None:
    task = task_over(sizes, best=best, judges=judges, attributes=attributes, error_rate=error_rate)
    space, budget = task.space, 10 * len(task.space)
    rng, answers = np.random.default_rng(2), []
    for arm in range(len(space)):
        scale = space.scale_of(arm)
        ratings = np.clip(
            rng.normal(rng.uniform(scale.low, scale.high), 1.0, 600).round(), scale.low, scale.high
        )
        answers.append(
            [None if rng.random() <= 0.1 or arm == 3 else each for each in ratings.tolist()]
        )

    def told(history: list[int]) -> tuple[WritableArms, LevelCounts, Policy, list[list[float]]]:
        arms, counts, policy = (
            WritableArms(len(space)),
            LevelCounts(space),
            policy_for(task, budget),
        )
        found = [[answers[arm][history[:place].count(arm)]] for place, arm in enumerate(history)]
        ratings = [[each for each in one if each is not None] for one in found]
        fit = fits_from(space.first_fit).until(sum(map(len, ratings)))
        for arm, one, rated in zip(history, found, ratings, strict=True):
            arms.add(arm, one)
            arms.next_draw[arm] += 1
            counts.add(arm, rated)
            if rated and arms.columns.n.sum() == fit:
                policy = policy.fitted(
                    arms.columns.n.astype(float),
                    arms.columns.total.copy(),
                    arms.columns.total_sq.copy(),
                )
        return arms, counts, policy, ratings

    def gone_on(history: list[int], calls: int | None = None) -> list[int]:
        arms, _, policy, ratings = told(history)
        looked = looks_at(len(space)).until(len(history))
        then, counted, fitted, _ = told(history[:looked])
        verdicts = RunVerdicts(Evidence(task), LevelCounts(space))
        if looked:
            verdicts.begin(space, counted.by_scale(), then.columns, fitted)
        for arm, rated in zip(history[looked:], ratings[looked:], strict=True):
            verdicts.add(arm, rated)
        judge = space.judge if judges > 1 else None
        planner = Planner(
            arms,
            policy,
            budget=budget,
            judge=judge,
            watch=Watching(verdicts),
            first_fit=space.first_fit,
            looked=looked,
        )
        planner.block = 1
        return [
            each.arm
            for each in islice(work(planner, lambda each: [answers[each.arm][each.draw]]), calls)
        ]

    whole = gone_on([])
    for cut in range(len(space), len(whole), 25):
        assert gone_on(whole[:cut], 5) == whole[cut : cut + 5], cut
