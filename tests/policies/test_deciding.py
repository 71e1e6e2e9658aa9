"""robin asks where a decision is open, as the formulas of its policies have it."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import FloatArray, Sums, WritableArms
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.base import Columns, Policy, Seen, Setup
from robin_cli.policies.deciding import Apt
from robin_cli.policies.registry import chosen, make_policy
from robin_cli.policies.task import Task
from robin_cli.session import planner
from robin_cli.session.planner import Planner, Ticket
from tests.session.played import next_of, plans, play, sums

SHORT, LONG = Scale(0, 4), Scale(1, 10)


def task_for(
    text: str,
    pairs: int,
    judges: int = 1,
    group: list[int] | None = None,
    *,
    scales: tuple[Scale, ...] = (SHORT,),
) -> Task:
    names = ("a", "b")[: len(scales)]
    space = ArmSpace(
        [str(each) for each in range(pairs)], names, [f"j{each}" for each in range(judges)], scales
    )
    return Task(
        decision_of(text, names, scales, margin=0.2, error_rate=0.05),
        space,
        None if group is None else np.array(group),
    )


def policy_for(task: Task, calls: int = 1000) -> Policy:
    setup = Setup(len(task.space), calls * len(task.space), SHORT, task=task)
    choice = chosen("auto", setup)
    assert choice is not None
    return make_policy(choice.name, replace(setup, by_scale=task.space.by_scale()))


def variance(ratings: list[int], pooled: float, scale: Scale = SHORT) -> float:
    """V = √(flat · (SS + 4 g)/(n + 3)), flat the posterior mean under a Dirichlet prior of weight 2, by its direct sum."""
    n, levels = len(ratings), scale.levels
    masses = [(2 / levels + ratings.count(x)) for x in range(scale.low, scale.high + 1)]
    weight = n + 2
    center = (
        sum(mass * x for mass, x in zip(masses, range(scale.low, scale.high + 1), strict=True))
        / weight
    )
    flat = sum(
        mass * (x - center) ** 2
        for mass, x in zip(masses, range(scale.low, scale.high + 1), strict=True)
    ) / (weight + 1)
    squares = sum((x - sum(ratings) / n) ** 2 for x in ratings)
    return math.sqrt(flat * (squares + 4 * pooled) / (n + 3))


FEW = st.lists(st.integers(0, 4), min_size=2, max_size=8)


@given(st.lists(FEW, min_size=2, max_size=5))
def test_asks_next_where_the_threshold_is_the_nearest_in_standard_errors(
    arms: list[list[int]],
) -> None:
    task = task_for("a>=3", len(arms))
    n, total, total_sq = sums(arms)
    policy = policy_for(task).fitted(n, total, total_sq)
    even, squares = 2.0, [sum((x - sum(each) / len(each)) ** 2 for x in each) for each in arms]
    pooled = (sum(squares) + even) / (sum(len(each) - 1 for each in arms) + 1)

    found, later = (
        policy.priority(Columns(n, n * 0 + each, total, total_sq, np.arange(len(arms))))
        for each in (0, 2)
    )
    for arm, ratings in enumerate(arms):
        mean, count = sum(ratings) / len(ratings), len(ratings)
        index = math.sqrt(count) * (abs(mean - 3) + 0.2) / math.sqrt(variance(ratings, pooled))
        assert found[arm] == pytest.approx(1 / index**2)
        assert later[arm] == pytest.approx(found[arm] * count / (count + 2))
    assert found.argmax() == min(
        range(len(arms)),
        key=lambda arm: (
            (abs(total[arm] / n[arm] - 3) + 0.2) / math.sqrt(variance(arms[arm], pooled) / n[arm])
        ),
    ) or len(set(found)) < len(arms)


@given(st.lists(FEW, min_size=4, max_size=4))
def test_asks_the_judge_of_a_panel_whose_call_makes_their_pooled_score_surest(
    arms: list[list[int]],
) -> None:
    task = task_for("a>=3", 2, judges=2)
    n, total, total_sq = sums(arms)
    policy = policy_for(task)
    assert policy.contests is not None
    members = policy.contests
    n, total, total_sq = (each[members] for each in (n, total, total_sq))

    found = policy.priority(Columns(n, np.zeros_like(n), total, total_sq, members))

    least = 0.1 * 4**2 / 81  # the variance of the judges' difference before any is known
    of_judges = (0.35 * least, 0.65 * least)
    for pair in range(2):
        mine = arms[2 * pair : 2 * pair + 2]
        v = [
            (sum((x - sum(each) / len(each)) ** 2 for x in each) + 4 * (4 / 9) ** 2)
            / (len(each) + 3)
            for each in mine
        ]

        def weights(*more: int, v: list[float] = v, mine: list[list[int]] = mine) -> list[float]:
            return [
                1 / (b + each / (len(ratings) + extra))
                for b, each, ratings, extra in zip(of_judges, v, mine, more, strict=True)
            ]

        w = weights(0, 0)
        share = [each / sum(w) for each in w]
        score = sum(a * sum(each) / len(each) for a, each in zip(share, mine, strict=True))
        error = sum(
            a**2 * each / len(ratings) + (a - endless) ** 2 * b
            for a, each, ratings, endless, b in zip(
                share, v, mine, (0.65, 0.35), of_judges, strict=True
            )
        )
        gain = [1 / sum(w) - 1 / sum(weights(*more)) for more in ((1, 0), (0, 1))]
        index = error / (abs(score - 3) + 0.2) ** 2
        assert found[pair, 0] == pytest.approx([index * each / max(gain) for each in gain])


def test_a_judge_of_twice_the_price_must_bring_twice_as_much() -> None:
    task = task_for("a>=3", 1, judges=2)
    n, total, total_sq = (each[None, None] for each in sums([[2, 3], [2, 3]]))
    setup = Setup(2, 1000, SHORT, task=task, prices=np.array([2.0, 1.0]))

    even, dear = (
        each.priority(Columns(n, np.zeros_like(n), total, total_sq, np.array([[[0, 1]]])))[0, 0]
        for each in (policy_for(task), Apt.from_setup(setup))
    )

    assert dear[0] / dear[1] == pytest.approx(even[0] / even[1] / 2)


def test_the_first_judge_rates_everything_and_all_judges_a_sample_before_any_choice() -> None:
    task = task_for("a>=3", 30, judges=2)
    planner = Planner(WritableArms(60), policy_for(task), judge=task.space.judge, budget=300)
    asked = []
    for _ in range(50):
        ticket = next_of(planner)
        asked.append(ticket.arm)
        planner.tell(ticket, (3.0,))

    of_second = [arm for arm in asked if arm % 2]
    assert len(set(asked)) == 50
    assert len(of_second) == 20  # the least sample
    assert of_second != sorted(range(1, 60, 2))[:20]  # at random


def test_a_quick_second_judge_takes_no_call_that_the_first_one_needs() -> None:
    task = task_for("a>=3", 60, judges=2)
    planner = Planner(WritableArms(120), policy_for(task), judge=task.space.judge, budget=80)
    asked, waiting = list[Ticket](), list[Ticket]()
    while planner.budget.available:
        tickets = plans(planner, 16)  # the first one is slow
        asked += tickets
        waiting += [ticket for ticket in tickets if not ticket.arm % 2]
        at_once = [ticket for ticket in tickets if ticket.arm % 2]
        if not tickets or len(waiting) > 12:
            at_once, waiting = at_once + waiting, []
        for ticket in at_once:
            planner.tell(ticket, (3.0,))

    assert sorted(ticket.arm for ticket in asked) == np.flatnonzero(task.starts).tolist()


def nearest_rival(arms: list[list[int]], group: list[int]) -> tuple[float, int, int]:
    """z of a group's closest rival, the leader and that rival, by the definition."""
    mean = {arm: sum(arms[arm]) / len(arms[arm]) for arm in group}
    lead = max(group, key=lambda arm: (mean[arm], -arm))
    error = {arm: variance(arms[arm], 2.0) / len(arms[arm]) for arm in group}
    z = {
        arm: (mean[lead] - mean[arm] + 0.2) / math.sqrt(error[lead] + error[arm])
        for arm in group
        if arm != lead
    }
    rival = min(z, key=lambda arm: z[arm])
    return z[rival], lead, rival


@given(st.lists(FEW, min_size=7, max_size=7))
def test_asks_the_leader_or_its_nearest_rival_of_the_group_that_is_least_clear(
    arms: list[list[int]],
) -> None:
    groups = [[0, 2, 4, 6], [1, 3, 5]]
    task = task_for("best", 7, group=[0, 1, 0, 1, 0, 1, 0])
    n, total, total_sq = sums(arms)
    policy = policy_for(task)
    assert policy.contests is not None
    there = policy.contests >= 0
    n, total, total_sq = (
        np.where(there, each[policy.contests], 0.0) for each in (n, total, total_sq)
    )

    found = policy.priority(
        Columns(n, np.zeros_like(n), total, total_sq, np.where(there, policy.contests, 0))
    )

    for number, group in enumerate(groups):
        z, lead, rival = nearest_rival(arms, group)
        mine = dict(
            zip(
                policy.contests[number][there[number]].tolist(),
                found[number][there[number]].tolist(),
                strict=True,
            )
        )
        assert set(mine) == set(group)
        top = max(mine.values())
        assert top == pytest.approx(1 / z**2)
        gain = {
            arm: variance(arms[arm], 2.0) / (len(arms[arm]) * (len(arms[arm]) + 1))
            for arm in (lead, rival)
        }
        assert mine[max(gain, key=lambda arm: gain[arm])] == pytest.approx(top)


def after_a_look(policy: Policy, log: list[float], n: FloatArray, level: float) -> Seen:
    zero = np.zeros(len(log))
    found = policy.sight(
        zero + log, np.array([level]), Sums(n, n * 0.0, n * 0.0), n.sum(axis=-1, keepdims=True)
    )
    assert found is not None
    return found._replace(level=np.array([level]))


@given(st.lists(FEW, min_size=2, max_size=5), st.integers(0, 3), st.floats(-1.0, 4.0))
def test_half_of_the_calls_go_to_the_threshold_that_is_certain_soonest(
    arms: list[list[int]], under_way: int, evidence: float
) -> None:
    policy = policy_for(task_for("a>=3", len(arms)))
    n, total, total_sq = sums(arms)
    seen = after_a_look(policy, [evidence] * len(arms), n - 1, 3.5)

    _, near = policy.priorities(
        Columns(n, n * 0 + under_way, total, total_sq, np.arange(len(arms))), seen
    )

    for found, ratings in zip(near.tolist(), arms, strict=True):
        square = (abs(sum(ratings) / len(ratings) - 3) + 0.2) ** 2
        pace = (max(evidence, 0) + 1.2 + 4 * square / (variance(ratings, 2.0) + square)) / (
            len(ratings) - 1 + 4
        )
        by_now = evidence + pace * (1 + under_way)
        assert found == pytest.approx(
            -math.inf if by_now >= 3.5 else pace / max(3.5 - by_now, 0.05)
        )


@given(st.lists(FEW, min_size=4, max_size=4), st.sampled_from([-math.inf, -0.5, 2.0]))
def test_half_of_the_calls_go_to_the_group_whose_best_is_certain_soonest(
    arms: list[list[int]], evidence: float
) -> None:
    policy = policy_for(task_for("best", 4, group=[0, 0, 0, 0]))
    n, total, total_sq = (each.reshape(1, 4, 1) for each in sums(arms))
    seen = after_a_look(policy, [evidence], n.ravel(), 4.0)

    _, near = policy.priorities(
        Columns(n, n * 0, total, total_sq, np.arange(4).reshape(1, 4, 1)), seen
    )

    z, lead, rival = nearest_rival(arms, [0, 1, 2, 3])
    log = evidence if evidence > -math.inf else 0.35 * z * z - 2.5
    pace = (0.35 * z * z + max(log + 2.5, 0)) / (2 * (len(arms[lead]) + len(arms[rival]) + 4))
    if log >= 4.0:
        assert near.max() == -math.inf
        return
    assert near.max() == pytest.approx(pace / max(4.0 - log, 0.05))
    gain = {
        arm: variance(arms[arm], 2.0) / (len(arms[arm]) * (len(arms[arm]) + 1))
        for arm in (lead, rival)
    }
    assert near.ravel()[max(gain, key=lambda arm: gain[arm])] == near.max()


def test_aims_at_the_share_of_decisions_that_its_part_of_the_calls_left_can_settle() -> None:
    arms = [[4] * 3, [0] * 3, [4, 3, 4], [3, 2, 3], [2, 3], [3, 3]] * 20
    n, total, total_sq = sums(arms)
    log = np.tile([1.0, 2.0, 0.5, 0.0, -0.2, 0.0], 20)
    level = math.log(1.25 / 0.05)
    for calls in (3, 6, 12, 100):
        policy = policy_for(task_for("a>=3", len(arms)), calls)
        spent = n.sum() + 30.0  # so many answers had no rating
        found = policy.sight(log, np.array([level]), Sums(n, total, total_sq), np.array([spent]))
        assert found is not None

        share, part, reached = 1.0, 0.0, 0
        square = (np.abs(total / n - 3) + 0.2) ** 2
        spread = np.array([variance(each, 2.0) for each in arms])
        pace = (np.maximum(log, 0) + 1.2 + 4 * square / (spread + square)) / (n + 4)
        for _ in range(3):
            left, part = (
                sorted((level - math.log(share) - log) / pace),
                min(13 / 32 + share / 2, 45 / 32 - share),
            )
            affordable = part * (calls * len(arms) - spent)
            reached = sum(sum(left[: count + 1]) <= affordable for count in range(len(left)))
            share = max(0.2, round(64 * reached / len(arms)) / 64)
        if reached < 0.2 * len(arms):
            assert found.level.item() == -math.inf, "so few are not worth half of the calls"
        else:
            assert found.level.item() == pytest.approx(level - math.log(share))
            assert found.part.item() == min(13 / 32 + share / 2, 45 / 32 - share)


def test_asks_the_responses_of_a_group_the_less_the_more_calls_of_them_are_under_way() -> None:
    task = task_for("best", 2, group=[0, 0])
    policy = policy_for(task)
    n, total, total_sq = (each.reshape(1, 2, 1) for each in sums([[4, 3, 4], [2, 4, 3]]))
    arms = np.array([[[0], [1]]])

    free = policy.priority(Columns(n, np.zeros(n.shape), total, total_sq, arms)).max()
    busy = policy.priority(Columns(n, np.ones(n.shape), total, total_sq, arms)).max()

    assert 0 < busy < free


def test_leaves_out_a_response_without_a_rating_and_a_group_of_one() -> None:
    task = task_for("best", 3, group=[0, 0, 1])
    policy = policy_for(task)
    assert policy.contests is not None
    assert policy.contests.tolist() == [[[0], [1]], [[2], [-1]]]
    assert task.decisions == 1
    n = np.array([[[3.0], [0.0]], [[3.0], [0.0]]])

    found = policy.priority(
        Columns(n, np.zeros(n.shape), 2 * n, 5 * n, np.maximum(policy.contests, 0))
    )

    assert found.tolist() == [[[0.0], [0.0]], [[0.0], [0.0]]]


@pytest.mark.parametrize("name", ["best", "a>=2", "two-priors"])
def test_chooses_among_many_arms_as_among_few(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    ratings = [rng.integers(0, 1 + arm % 5, 12).tolist() for arm in range(20)]
    asked = []
    for at_once in (1000, 6, 1):
        monkeypatch.setattr(planner, "_ARMS_AT_ONCE", at_once)
        if name == "two-priors":
            policy = make_policy(name, Setup(20, 200, SHORT))
        else:
            policy = policy_for(
                task_for(
                    name, 20, group=[arm // 4 for arm in range(20)] if name == "best" else None
                )
            )
        asked.append(play(policy, ratings, 200))  # fitted, and so built anew, all the time

    assert asked[1] == asked[2] == asked[0]
    assert len({asked[0].count(arm) for arm in range(20)}) > 3


@pytest.mark.parametrize("runs", [1, 3])
def test_pools_variances_by_attribute_in_each_run(runs: int) -> None:
    task = task_for("a>=3,b<5", 3, scales=(SHORT, LONG))
    rng = np.random.default_rng(0)
    arms = [
        [rng.integers(0, 5, rng.integers(1, 6)).tolist() for _ in range(6)] for _ in range(runs)
    ]
    n, total, total_sq = (np.stack(each) for each in zip(*(sums(run) for run in arms), strict=True))
    policy = policy_for(task)

    fitted = policy.fitted(n, total, total_sq)

    for run in range(runs):
        for kind, even in enumerate((2.0, 8.25)):
            mine = [arms[run][2 * pair + kind] for pair in range(3)]
            squares = sum(sum((x - sum(each) / len(each)) ** 2 for x in each) for each in mine)
            expected = (squares + even) / (sum(len(each) - 1 for each in mine) + 1)
            assert fitted.pooled[0, run, kind] == pytest.approx(expected)  # type: ignore[attr-defined]


@pytest.mark.parametrize("runs", [1, 3])
def test_takes_the_variance_from_the_mean_where_one_call_comes_first(runs: int) -> None:
    pairs, rng = 80, np.random.default_rng(0)
    task = task_for("a>=3", pairs, scales=(LONG,))
    arms = [
        [(1 + rng.binomial(9, rng.random(), rng.integers(1, 5))).tolist() for _ in range(pairs)]
        for _ in range(runs)
    ]
    n, total, total_sq = (np.stack(each) for each in zip(*(sums(run) for run in arms), strict=True))
    policy = policy_for(task, 2)

    begun = policy.fitted(*(each[:, :] * (np.arange(pairs) < 40) for each in (n, total, total_sq)))
    fitted = policy.fitted(n, total, total_sq)

    assert [policy_for(task, calls).warm_up for calls in (1, 2, 3)] == [1, 1, 2]
    arm = np.broadcast_to(np.arange(pairs), n.shape)
    few, many = (each.variance(Columns(n, 0 * n, total, total_sq, arm)) for each in (begun, fitted))  # type: ignore[attr-defined]
    for run, ratings in enumerate(arms):
        twice = [np.array(each) for each in ratings if len(each) > 1]
        weight = np.array([len(each) - 1 for each in twice])
        place = np.array([(each.mean() - 5.5) / 4.5 for each in twice])
        # 4 more ratings of no slope, and of no curvature, as rows of their own
        rows = np.vstack([np.vander(place, 3) * np.sqrt(weight)[:, None], [[2, 0, 0], [0, 2, 0]]])
        values = [*(np.sqrt(weight) * [each.var(ddof=1) for each in twice]), 0, 0]
        parabola = np.linalg.lstsq(rows, values)[0]
        least = 0.1 * np.average([each.var(ddof=1) for each in twice], weights=weight)
        for number, each in enumerate(ratings):
            g = max(np.polyval(parabola, (np.mean(each) - 5.5) / 4.5), least)
            assert many[run, number] == pytest.approx(variance(each, g, LONG))
            # a ninth of 9, squared
            assert few[run, number] == pytest.approx(variance(each, 1.0, LONG))
