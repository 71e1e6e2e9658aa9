"""The pooled score of several judges, by value against a second way to compute it."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.model.arms import Sums
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.second_opinion import Opinions, gain_of_call, opinions_of, pooled
from robin_cli.policies.task import Task

TEN = Scale(1, 10)


def task_of(decide: str, pairs: int, judges: int = 2, group: np.ndarray | None = None) -> Task:
    names = [f"j{k}" for k in range(judges)]
    space = ArmSpace([str(k) for k in range(pairs)], ["q"], names, [TEN])
    return Task(decision_of(decide, ["q"], [TEN], margin=None, error_rate=None), space, group)


def test_pools_means_by_their_precision_as_a_random_effects_meta_analysis_does() -> None:
    means, errors, between = (np.array(each) for each in ([6.0, 8.0], [0.5, 0.1], [0.4, 0.7]))

    found = pooled(means, errors, between)

    precision = np.diag(1 / (between + errors))  # generalised least squares of one common mean
    ones = np.ones((2, 1))
    variance = np.linalg.inv(ones.T @ precision @ ones)
    assert found.score == pytest.approx((variance @ ones.T @ precision @ means).item())
    # endless calls leave the judges' own opinions, which the stated error is not about
    draws = np.random.default_rng(0)
    opinions = draws.normal(0, np.sqrt(between), (200_000, 2))
    noisy = opinions + draws.normal(0, np.sqrt(errors), (200_000, 2))
    weight, endless = 1 / (between + errors), 1 / between
    apart = noisy @ weight / weight.sum() - opinions @ endless / endless.sum()
    assert found.error == pytest.approx(apart.var(), rel=0.02)


def test_a_judge_without_a_rating_counts_nothing_and_one_judge_is_its_own_mean() -> None:
    alone = pooled(np.array([6.0, 0.0]), np.array([0.5, np.inf]), np.array([0.4, 0.7]))
    single = pooled(np.array([6.0]), np.array([0.5]), np.array([1.0]))

    assert alone.score == single.score == pytest.approx(6.0)
    assert single.error == pytest.approx(0.5)
    weight = (1 / 0.4) / (1 / 0.4 + 1 / 0.7)  # of the first judge after endless calls
    assert alone.error == pytest.approx(0.5 + (1 - weight) ** 2 * (0.4 + 0.7))
    assert np.isnan(pooled(np.zeros(2), np.full(2, np.inf), np.ones(2)).score)


def test_a_call_is_worth_what_it_takes_off_the_variance_of_the_pooled_score() -> None:
    between = np.array([0.4, 0.7])
    errors, after = np.array([0.5, np.inf]), np.array([0.25, 0.6])

    found = gain_of_call(errors, after, between)

    before = 0.4 + 0.5
    assert found[0] == pytest.approx(before - (0.4 + 0.25))
    assert found[1] == pytest.approx(before - 1 / (1 / before + 1 / (0.7 + 0.6)))


@pytest.mark.parametrize("decide", ["q>=6", "best"])
def test_finds_offsets_and_how_far_judges_are_apart_on_a_random_sample(decide: str) -> None:
    rng, pairs, calls, noise = np.random.default_rng(1), 40_000, 4, 0.6
    group = None if decide != "best" else np.arange(pairs) // 4
    task = task_of(decide, pairs, group=group)
    truth, apart = rng.normal(5.0, 1.0, pairs), 0.8
    opinion = rng.normal(0.0, apart, pairs)
    means = np.stack([truth, truth + opinion + 1.2], axis=1)
    means += rng.normal(0.0, noise / np.sqrt(calls), means.shape)
    if group is not None:  # what shifts whole groups is no difference about their best
        means[:, 1] += np.repeat(rng.normal(0.0, 2.0, pairs // 4), 4)
    n = np.full(2 * pairs, float(calls))
    outside = ~np.isin(task.space.pair, task.sample[0])
    totals = np.where(
        outside, 1e6, means.ravel() * calls
    )  # pairs asked for their doubt say nothing

    found = opinions_of(task, Sums(n, totals, totals), np.full(len(n), noise**2 / calls))

    assert len(task.sample[0]) == 2_000
    assert found.offset == pytest.approx([0.0, 1.2], abs=0.2)
    assert found.between == pytest.approx([0.35 * apart**2, 0.65 * apart**2], rel=0.15)


def test_two_judges_that_never_differ_are_apart_by_the_least() -> None:
    task = task_of("q>=6", 30, judges=3)
    n, totals = np.ones(90), np.repeat(np.arange(30) % 10 + 1.0, 3)

    found = opinions_of(task, Sums(n, totals, totals), np.zeros(90))

    assert found.between == pytest.approx([0.035, 0.065, 0.065])  # D is .1 on ten levels
    assert found.between == pytest.approx(Opinions.before(task).between)
    assert not found.offset.any()


@pytest.mark.parametrize(("pairs", "sampled"), [(12, 12), (30, 20), (1000, 50)])
def test_samples_twenty_pairs_or_one_in_twenty_in_whole_groups(pairs: int, sampled: int) -> None:
    chosen, _ = task_of("q>=6", pairs).sample
    grouped, starts = task_of("best", pairs, group=np.arange(pairs) // 3).sample

    assert len(set(chosen)) == sampled
    assert sampled <= len(grouped) <= sampled + 2
    groups = np.split(grouped // 3, starts[1:])
    assert all(len(set(each)) == 1 for each in groups)
    assert len({each[0] for each in groups}) == len(groups)
