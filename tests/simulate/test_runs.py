"""What is simulated is what runs: the vectorised simulation and the scheduler, call by call."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from robin_cli.goals.keep import DecisionsGoal
from robin_cli.goals.watch import Watch
from robin_cli.model.arms import FloatArray, WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies import deciding
from robin_cli.policies.base import Policy, Setup
from robin_cli.policies.registry import DEFAULT, POLICIES, chosen, make_policy
from robin_cli.policies.task import Task
from robin_cli.session.planner import Planner
from robin_cli.simulate.runs import DrawnRatings, simulate
from robin_cli.stats.court import DecisionCourt
from robin_cli.stats.level_counts import LevelCounts
from tests.session.played import asked_by, simulated

SHORT, LONG = Scale(0, 4), Scale(1, 10)
PAIRS, WORLDS = 13, 2


def recorded(rng: np.random.Generator, *, several_scales: bool) -> DrawnRatings:
    """Ratings of WORLDS sets of pairs, of which some never vary and others always do."""
    rows = []
    for arm in range(PAIRS * WORLDS):
        scale = LONG if several_scales and arm % PAIRS % 2 else SHORT
        levels = rng.integers(scale.low, scale.high + 1, rng.choice([1, 2, 5]))
        rows.append(rng.choice(levels, rng.integers(3, 12)))
    return DrawnRatings.from_ratings(rows)


def made(name: str, budget: int, variances: FloatArray, *, several_scales: bool) -> Policy:
    groups = [(SHORT, np.arange(0, PAIRS, 2)), (LONG, np.arange(1, PAIRS, 2))]
    if not several_scales:
        groups = [(SHORT, np.arange(PAIRS))]
    setup = Setup(PAIRS, budget, SHORT, delta=0.3, variances=variances)
    return make_policy(name, replace(setup, by_scale=groups))


def by_every_policy(*cases: tuple[object, ...]) -> list[Any]:
    """Each case by each policy; in every run, each policy has two of the cases, and each case half of the policies."""
    names = [name for name in POLICIES if name != DEFAULT]
    return [
        pytest.param(name, *case, marks=[pytest.mark.whole] * ((at + number + number // 2) % 2))
        for at, name in enumerate(names)
        for number, case in enumerate(cases)
    ]


@pytest.mark.parametrize(("name", "several_scales"), by_every_policy((False,), (True,)))
def test_asks_the_same_arms_in_a_simulation_as_in_a_run(name: str, *, several_scales: bool) -> None:
    check_asks_the_same_arms(name, several_scales=several_scales)


def check_asks_the_same_arms(name: str, *, several_scales: bool) -> None:
    rng = np.random.default_rng(1)
    ratings = recorded(rng, several_scales=several_scales)
    for budget in (2 * PAIRS + 5, 25 * PAIRS):  # below a warm-up, and beyond it
        whole = made(name, budget, ratings.variances, several_scales=several_scales)
        for first, longest in ((1, 1), (2, 16)):
            how = {"first_visit": first, "longest_visit": longest}
            for run, calls in enumerate(simulated(ratings, whole, budget, WORLDS, **how)):
                of_world = slice(run * PAIRS, (run + 1) * PAIRS)
                variances = ratings.variances[of_world]
                policy = made(name, budget, variances, several_scales=several_scales)
                planner = Planner(WritableArms(PAIRS), policy, budget=budget, first_visit=first)
                asked = asked_by(planner, (rating for _, rating in calls), longest)
                assert asked == [arm for arm, _ in calls], f"run {run}, visits of {longest}"


FEW = 6
GROUPS = np.random.default_rng(2).permutation(np.arange(FEW) // 4)
TASKS = {"thresholds": ("a>=2,b<=5", None), "best": ("best", GROUPS)}


TARGET = 0.02


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
@pytest.mark.parametrize("error_rate", [0.4, None])
def test_asks_and_ends_in_a_simulation_as_in_a_run_where_something_is_to_be_decided(
    kind: str, name: str, judges: int, error_rate: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, group = TASKS[kind]
    scales = (SHORT, LONG)
    worlds = WORLDS if judges == 1 else 1
    space = ArmSpace(
        [f"p{number}" for number in range(FEW)],
        ("a", "b"),
        [f"j{each}" for each in range(judges)],
        scales,
    )
    task = Task(
        decision_of(text, ("a", "b"), scales, margin=0.8, error_rate=error_rate), space, group
    )
    rng = np.random.default_rng(5)
    rows = []
    for arm in range(len(space) * worlds):
        scale = space.scale_of(arm % len(space))
        levels = rng.integers(scale.low, scale.high + 1, rng.choice([1, 2]))
        rows.append(rng.choice(levels, rng.integers(3, 12)))
    ratings = DrawnRatings.from_ratings(rows)
    name, _, after_one = name.partition(" ")
    budget = (25 if name == "auto" else 10) * len(space)
    setup = Setup(len(space), 2 * len(space) if after_one else budget, SHORT, delta=0.9, task=task)
    monkeypatch.setattr(deciding, "_ENOUGH_ARMS", 4)
    chosen_name = chosen(name, setup)
    made = make_policy(
        name if chosen_name is None else chosen_name.name, replace(setup, by_scale=space.by_scale())
    )
    target = 0.0 if error_rate else TARGET
    ended = []
    for longest in (1, 16):
        court = partial(DecisionCourt, task, target=target)
        for calls in simulated(ratings, made, budget, worlds, court=court, longest_visit=longest):
            arms = WritableArms(len(space))
            watch = Watch(DecisionsGoal(space, task), lambda: LevelCounts(space), target)
            planner = Planner(arms, made, budget=budget, watch=watch)
            asked = asked_by(planner, (rating for _, rating in calls), longest)
            assert asked == [arm for arm, _ in calls], f"visits of {longest}"
            ended.append(len(calls))
            assert len(calls) == budget or watch.is_over(arms.columns)
    if name == "auto":
        assert max(ended) < budget, "all is decided before the budget is spent"


def test_fewer_tests_end_runs_hardly_later() -> None:
    space = ArmSpace([str(each) for each in range(PAIRS * WORLDS)], ("a",), ("j",), (SHORT,))
    task = Task(decision_of("a>=2", ("a",), (SHORT,), margin=0.5, error_rate=None), space)
    ratings = recorded(np.random.default_rng(1), several_scales=False)
    setup = Setup(len(space), 3000, SHORT, task=task)
    often, rarely = (
        simulate(
            ratings,
            make_policy("uniform", replace(setup, by_scale=space.by_scale())),
            [3000],
            40,  # each ends by answers of its own
            np.random.default_rng(2),
            court=partial(DecisionCourt, task, target=TARGET),
            look_growth=growth,
        )[0].measured["calls"]
        for growth in (1.01, 1.02)  # tests are due after the same calls
    )
    assert often.max() < 3000, "the target ends every run"
    assert 0.9 < rarely.mean() / often.mean() < 1.15


def test_lays_ratings_out_whatever_their_number() -> None:
    recorded = [np.array([0, 4, 4]), np.array([2]), np.array([1, 3, 1, 3, 0])]
    ratings = DrawnRatings.from_ratings(recorded)

    assert ratings.means.tolist() == pytest.approx([each.mean() for each in recorded])
    assert ratings.variances.tolist() == pytest.approx([each.var() for each in recorded])
    drawn = ratings.draw(np.repeat(np.arange(3), 500), np.random.default_rng(0)).reshape(3, 500)
    assert [set(each) for each in drawn.tolist()] == [set(each.tolist()) for each in recorded]
