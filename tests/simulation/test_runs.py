"""What is simulated is what runs: the vectorised simulation and the scheduler, call by call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from robin_cli.analysis.court import Court
from robin_cli.analysis.decisions import Evidence, RunVerdicts
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.model.arms import FloatArray, IntArray, WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.model.task import Task
from robin_cli.planning.planner import Planner, Ticket
from robin_cli.planning.rounds import first_depth, round_ends
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.by_scale import policy_by_scale
from robin_cli.policies.of_goals import deciding
from robin_cli.policies.registry import DEFAULT, POLICIES, chosen
from robin_cli.simulation.runs import Ratings, simulate
from tests.planning.played import work

SHORT, LONG = Scale(0, 4), Scale(1, 10)
PAIRS, WORLDS = 13, 2


def recorded(rng: np.random.Generator, *, several_scales: bool) -> Ratings:
    """Ratings of WORLDS sets of pairs, of which some never vary and others always do."""
    rows = []
    for arm in range(PAIRS * WORLDS):
        scale = LONG if several_scales and arm % PAIRS % 2 else SHORT
        levels = rng.integers(scale.low, scale.high + 1, rng.choice([1, 2, 5]))
        rows.append(rng.choice(levels, rng.integers(3, 12)))
    return Ratings.of(rows)


def made(
    name: str,
    budget: int,
    variances: FloatArray,
    *,
    several_scales: bool,
) -> Policy:
    groups = [(SHORT, np.arange(0, PAIRS, 2)), (LONG, np.arange(1, PAIRS, 2))]
    if not several_scales:
        groups = [(SHORT, np.arange(PAIRS))]
    setup = Setup(PAIRS, budget, SHORT, delta=0.3, variances=variances)
    return policy_by_scale(name, setup, groups)


def simulated_calls(
    ratings: Ratings, policy: Policy, budget: int
) -> Iterator[list[tuple[int, float]]]:
    """The arm that was asked and its rating, call by call; one list a run."""
    every = simulate(
        ratings, policy, range(1, budget + 1), WORLDS, np.random.default_rng(3), worlds=WORLDS
    )
    n = np.array([each.n for each in every])
    total = np.nan_to_num(np.array([each.estimates for each in every])) * n
    for run in range(WORLDS):
        asked: IntArray = np.diff(n[:, run], axis=0, prepend=0).argmax(axis=1)
        sums = np.diff(total[:, run], axis=0, prepend=0.0)
        yield [(int(arm), float(round(sums[call, arm]))) for call, arm in enumerate(asked)]


def by_every_policy(*cases: tuple[object, ...]) -> list[Any]:
    """Each case by each policy; in every run, each policy has two of the cases, and each case half of the policies."""
    names = [name for name in POLICIES if name != DEFAULT]
    return [
        pytest.param(name, *case, marks=[pytest.mark.whole] * ((at + number + number // 2) % 2))
        for at, name in enumerate(names)
        for number, case in enumerate(cases)
    ]


@pytest.mark.parametrize(
    ("name", "several_scales"),
    by_every_policy((False,), (True,)),
)
def test_asks_the_same_arms_in_a_simulation_as_in_a_run(name: str, *, several_scales: bool) -> None:
    check_asks_the_same_arms(name, several_scales=several_scales)


def check_asks_the_same_arms(name: str, *, several_scales: bool) -> None:
    rng = np.random.default_rng(1)
    ratings = recorded(rng, several_scales=several_scales)
    for budget in (2 * PAIRS + 5, 25 * PAIRS):  # below a warm-up, and beyond it
        whole = made(name, budget, ratings.variances, several_scales=several_scales)
        for run, calls in enumerate(simulated_calls(ratings, whole, budget)):
            of_world = slice(run * PAIRS, (run + 1) * PAIRS)
            policy = made(
                name,
                budget,
                ratings.variances[of_world],
                several_scales=several_scales,
            )
            told = iter(calls)
            planner = Planner(WritableArms(PAIRS), policy, budget=budget)
            asked = [ticket.arm for ticket in work(planner, lambda _, told=told: (next(told)[1],))]  # type: ignore[misc]
            assert asked == [arm for arm, _ in calls], f"run {run}"


FEW = 6
GROUPS = np.random.default_rng(2).permutation(np.arange(FEW) // 4)
TASKS = {
    "thresholds": ("a>=2,b<=5", None),
    "best": ("best", GROUPS),
}


@pytest.mark.parametrize(
    ("kind", "name", "judges"),
    [
        ("best", "two-priors", 2),
        ("thresholds", "uniform", 1),
        ("thresholds", "auto", 2),
        ("best", "auto", 1),
        ("thresholds", "auto after one call", 1),
    ],
)
def test_asks_and_ends_in_a_simulation_as_in_a_run_where_something_is_to_be_decided(
    kind: str, name: str, judges: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Court, "verdict", lambda *_: None)  # not after every call, which takes long
    text, group = TASKS[kind]
    scales = (SHORT, LONG)
    worlds = WORLDS if judges == 1 else 1
    space = ArmSpace(
        [f"p{number}" for number in range(FEW)],
        ("a", "b"),
        [f"j{each}" for each in range(judges)],
        scales,
    )
    task = Task(decision_of(text, ("a", "b"), scales, margin=0.8, error_rate=0.4), space, group)
    rng = np.random.default_rng(5)
    rows = []
    for arm in range(len(space) * worlds):
        scale = space.scale_of(arm % len(space))
        levels = rng.integers(scale.low, scale.high + 1, rng.choice([1, 2]))
        rows.append(rng.choice(levels, rng.integers(3, 12)))
    ratings = Ratings.of(rows)
    name, _, after_one = name.partition(" ")
    budget = (25 if name == "auto" else 10) * len(space)
    setup = Setup(len(space), 2 * len(space) if after_one else budget, SHORT, delta=0.9, task=task)
    monkeypatch.setattr(deciding, "_ENOUGH_ARMS", 4)
    chosen_name = chosen(name, setup)
    made = policy_by_scale(
        name if chosen_name is None else chosen_name.name, setup, space.by_scale()
    )
    every = simulate(
        ratings,
        made,
        range(1, budget + 1),
        worlds,
        np.random.default_rng(3),
        worlds=worlds,
        court=partial(Court, task),
    )
    n = np.array([each.n for each in every])
    total = np.nan_to_num(np.array([each.estimates for each in every])) * n
    ended = []
    for run in range(worlds):
        asked = np.diff(n[:, run], axis=0, prepend=0)
        sums = np.diff(total[:, run], axis=0, prepend=0.0)
        arms = WritableArms(len(space))
        verdicts = RunVerdicts(Evidence(task), LevelCounts(space))
        calls = int(n[-1, run].sum())
        told = (float(round(each)) for each in sums[np.arange(calls), asked[:calls].argmax(axis=1)])
        planner = Planner(arms, made, budget=budget, verdicts=verdicts)
        chosen_arms = [ticket.arm for ticket in work(planner, lambda _, told=told: (next(told),))]  # type: ignore[misc]
        assert chosen_arms == asked[:calls].argmax(axis=1).tolist(), f"run {run}"
        ended.append(calls)
        assert verdicts.all_decided == (calls < budget)
    if name == "auto":
        assert max(ended) < budget, "all is decided before the budget is spent"


def test_lays_ratings_out_whatever_their_number() -> None:
    recorded = [np.array([0, 4, 4]), np.array([2]), np.array([1, 3, 1, 3, 0])]
    ratings = Ratings.of(recorded)

    assert ratings.means.tolist() == pytest.approx([each.mean() for each in recorded])
    assert ratings.variances.tolist() == pytest.approx([each.var() for each in recorded])
    drawn = ratings.draw(np.repeat(np.arange(3), 500), np.random.default_rng(0)).reshape(3, 500)
    assert [set(each) for each in drawn.tolist()] == [set(each.tolist()) for each in recorded]


def played_in_rounds(
    planner: Planner, budget: int, rounds: int, warm_up: int
) -> Iterator[list[Ticket]]:
    """The calls of each round, as a run chooses them; who takes them has them answered."""
    ends = round_ends(budget, len(planner.arms), rounds, warm_up=warm_up)
    for end in itertools.chain(
        ends, itertools.repeat(budget)
    ):  # again, for what could not be asked at once
        tickets = []
        while planner.budget.spent + planner.budget.reserved < end and (planned := planner.plan()):
            tickets += planned
        yield tickets
        assert not planner.budget.reserved
        if end == budget and not tickets:
            return


@dataclass(frozen=True, slots=True)
class Noted(Ratings):
    """Ratings that remember whose were drawn."""

    drawn: list[tuple[int, float]] = field(default_factory=list)

    def draw(self, pairs: IntArray, rng: np.random.Generator) -> FloatArray:
        found = Ratings.draw(self, pairs, rng)
        self.drawn.extend(zip(pairs.ravel().tolist(), found.ravel().tolist(), strict=True))
        return found


def check_asks_the_same_in_rounds(
    ratings: Ratings,
    policy: Policy,
    policies: list[Policy],
    budget: int,
    rounds: int,
    arms: int,
    task: Task | None,
) -> list[int]:
    """Whether runs ask as often of each arm in each round as is simulated; the calls of each run."""
    drawing = Noted(ratings.values, ratings.sizes)
    (seen,) = simulate(
        *(drawing, policy, [budget], WORLDS, np.random.default_rng(3)),
        worlds=WORLDS,
        court=(lambda _: None) if task is None else partial(Court, task),
        rounds=rounds,
    )
    first = 1 if policy.evenly and task is not None else policy.warm_up
    spent = []
    for run, own in enumerate(policies):
        answers: dict[int, list[float]] = {}
        for row, rating in drawing.drawn:
            if row // arms == run:
                answers.setdefault(row % arms, []).append(rating)
        verdicts = None if task is None else RunVerdicts(Evidence(task), LevelCounts(task.space))
        depth = first_depth(budget, arms, rounds, warm_up=first)
        planner = Planner(
            WritableArms(arms), own, budget=budget, verdicts=verdicts, round_depth=depth
        )
        for tickets in played_in_rounds(planner, budget, rounds, first):
            for ticket in tickets:
                planner.tell(ticket, (answers[ticket.arm].pop(0),))
        assert planner.arms.counts.tolist() == seen.n[run].tolist()
        assert planner.arms.totals.tolist() == pytest.approx(
            np.nan_to_num(seen.estimates[run])
            * seen.n[run]  # an answer too many, or too few, would be of another round
        )
        spent.append(planner.budget.spent)
    return spent


@pytest.mark.parametrize(
    ("name", "several_scales", "rounds"),
    by_every_policy((False, 1), (True, 6)),
)
def test_asks_the_same_arms_in_the_rounds_of_a_simulation_as_in_those_of_a_run(
    name: str, *, several_scales: bool, rounds: int
) -> None:
    ratings = recorded(np.random.default_rng(1), several_scales=several_scales)
    for budget in (2 * PAIRS + 5, 25 * PAIRS + 7):
        whole, *parts = (
            made(name, budget, variances, several_scales=several_scales)
            for variances in (ratings.variances, *ratings.variances.reshape(WORLDS, PAIRS))
        )
        spent = check_asks_the_same_in_rounds(ratings, whole, parts, budget, rounds, PAIRS, None)
        assert spent == [budget] * WORLDS


@pytest.mark.parametrize(
    ("kind", "name", "judges"),
    [
        ("best", "uniform", 1),
        ("thresholds", "two-priors", 1),
        ("best", "auto", 1),
        ("thresholds", "auto", 2),
    ],
)
def test_asks_the_same_arms_in_the_rounds_of_a_simulation_where_something_is_to_be_decided(
    kind: str, name: str, judges: int
) -> None:
    text, group = TASKS[kind]
    scales = (SHORT, LONG)
    space = ArmSpace(
        [f"p{number}" for number in range(FEW)],
        ("a", "b"),
        [f"j{each}" for each in range(judges)],
        scales,
    )
    task = Task(decision_of(text, ("a", "b"), scales, margin=0.8, error_rate=0.4), space, group)
    rng = np.random.default_rng(5)
    rows = []
    for arm in range(len(space) * WORLDS):
        scale = space.scale_of(arm % len(space))
        rows.append(
            rng.choice(
                rng.integers(scale.low, scale.high + 1, rng.choice([1, 2])), rng.integers(3, 12)
            )
        )
    budget = 25 * len(space)
    setup = Setup(len(space), budget, SHORT, delta=0.9, task=task)
    choice = chosen(name, setup)
    policy = policy_by_scale(name if choice is None else choice.name, setup, space.by_scale())

    spent = check_asks_the_same_in_rounds(
        Ratings.of(rows), policy, [policy] * WORLDS, budget, 5, len(space), task
    )

    if name == "auto":
        assert min(spent) < budget, "all is decided before the budget is spent"
