"""Agreement of judges with people and with one another, held against numpy, resampling and a second way to compute it."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t

from robin_cli.stats.choosing import (
    JudgeAgreement,
    agreement,
    consensus_of_others,
)

nan = np.nan


def judges(prompts: int, responses: int, errors: list[float]) -> tuple[np.ndarray, ...]:
    """Ratings of judges with these standard deviations of error, people's ratings, and prompts."""
    rng = np.random.default_rng(4)
    truth = rng.normal(size=(prompts, responses)) + 3 * rng.normal(size=(prompts, 1))
    ratings = [truth + sd * rng.normal(size=truth.shape) for sd in errors]
    return (
        np.array(ratings).reshape(len(errors), -1),
        truth.ravel(),
        np.repeat(np.arange(prompts), responses),
    )


def held_against(
    truth: np.ndarray, ratings: np.ndarray, prompt: np.ndarray, kept: np.ndarray | None = None
) -> JudgeAgreement:
    everyone = np.ones(len(ratings), dtype=bool)
    people = np.broadcast_to(truth, ratings.shape)
    return agreement(ratings, people, prompt, everyone if kept is None else kept)


def test_is_pearsons_correlation() -> None:
    ratings, truth, prompt = judges(40, 2, [0.5, 2.0])
    found = held_against(truth, ratings, prompt)
    expected = [np.corrcoef(row, truth)[0, 1] for row in ratings]
    np.testing.assert_allclose(found.value, expected, rtol=1e-9)
    np.testing.assert_allclose(found.difference, [0.0, expected[1] - expected[0]])
    assert (found.order, found.prompts.tolist()) == ([0, 1], [40, 40])


def test_the_interval_of_alike_prompts_is_that_of_fishers_z() -> None:
    """For normal values, the standard error of r is (1 − r²)/√n (Fisher, 1915)."""
    rng = np.random.default_rng(3)
    truth = rng.normal(size=4000)
    ratings = (truth + rng.normal(size=4000))[None]
    found = held_against(truth, ratings, np.arange(4000))
    error = (1 - found.value[0] ** 2) / np.sqrt(4000)
    assert found.margin[0] == pytest.approx(1.9605 * error, rel=0.05)
    # twice the same pairs tell no more than once
    doubled = held_against(np.tile(truth, 2), np.tile(ratings, 2), np.tile(np.arange(4000), 2))
    assert doubled.margin[0] == pytest.approx(found.margin[0], rel=1e-9)


def test_an_error_is_from_the_slope_of_the_correlation_by_each_prompts_weight() -> None:
    """The definition of the infinitesimal jackknife, by numerical differences."""
    ratings, truth, prompt = judges(9, 3, [0.8, 1.1])

    def correlations(heavier: int, by: float) -> np.ndarray:
        weight = 1.0 + by * (prompt == heavier)
        covariances = [np.cov(row, truth, aweights=weight) for row in ratings]
        return np.array([c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]) for c in covariances])

    slopes = [(correlations(at, 1e-5) - correlations(at, -1e-5)) / 2e-5 for at in range(9)]
    found = held_against(truth, ratings, prompt)
    reach = 2.306  # Student's t with 8 degrees of freedom
    errors = np.sqrt(np.square(slopes).sum(axis=0) * 9 / 8)
    np.testing.assert_allclose(found.margin, reach * errors, rtol=1e-4)
    apart = np.subtract(*np.transpose(slopes))
    error = np.sqrt(np.square(apart).sum() * 9 / 8)
    assert max(found.difference_margin) == pytest.approx(reach * error, rel=1e-4)


def test_errors_are_those_of_repeated_draws_of_prompts() -> None:
    """Standard errors agree with the spread over fresh samples of as many prompts."""
    fresh = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=60)
        rated = np.array([truth + sd * rng.normal(size=60) for sd in (0.7, 0.9)])
        fresh.append([np.corrcoef(row, truth)[0, 1] for row in rated])
    spread = np.std(fresh, axis=0), np.std(np.subtract(*np.transpose(fresh)))
    found = [
        held_against(
            truth, np.array([truth + sd * rng.normal(size=60) for sd in (0.7, 0.9)]), np.arange(60)
        )
        for rng in map(np.random.default_rng, range(1000, 1030))
        for truth in [rng.normal(size=60)]
    ]
    reach = 2.001  # Student's t with 59 degrees of freedom
    errors = np.mean([each.margin / reach for each in found], axis=0)
    np.testing.assert_allclose(errors, spread[0], rtol=0.12)
    apart = np.mean([max(each.difference_margin) / reach for each in found])
    assert apart == pytest.approx(spread[1], rel=0.12)


def test_a_judge_is_worse_from_one_and_a_half_standard_errors_on() -> None:
    ratings, truth, prompt = judges(60, 2, [0.3, 0.36, 0.9, 4.0])
    found = held_against(truth, ratings, prompt)
    errors = found.difference_margin / t.ppf(0.975, 59)
    assert 1.5 < -found.difference[1] / errors[1] < 2.4
    assert found.is_worse.tolist() == [False, True, True, True]
    assert found.more_prompts(1) > 0 == found.more_prompts(2)


def test_a_judge_that_was_dropped_differs_from_the_best_by_the_prompts_that_it_rated() -> None:
    ratings, truth, prompt = judges(60, 2, [0.3, 0.6, 0.9])
    of_each = np.tile(truth, (3, 1))
    of_each[2, 40:], ratings[2, 40:] = np.nan, np.nan
    both = held_against(of_each, ratings, prompt, np.array([True, True, False]))
    first = held_against(truth[:40], ratings[:, :40], prompt[:40])
    assert both.prompts.tolist() == [60, 60, 20]
    assert both.value[2] == pytest.approx(first.value[2])
    assert both.difference[2] == pytest.approx(first.value[2] - first.value[0])
    assert both.difference_margin[2] == pytest.approx(first.difference_margin[2])
    only = np.array([False, False, True])
    assert held_against(of_each, ratings, prompt, only).best == 2


def test_each_judge_is_held_against_a_truth_of_its_own() -> None:
    ratings, truth, prompt = judges(40, 2, [0.3, 0.6])
    other = truth + np.random.default_rng(5).normal(size=len(truth))
    found = held_against(np.array([truth, other]), ratings, prompt)
    expected = [np.corrcoef(ratings[0], truth)[0, 1], np.corrcoef(ratings[1], other)[0, 1]]
    np.testing.assert_allclose(found.value, expected)
    assert found.difference[1] == pytest.approx(expected[1] - expected[0])


def test_judges_that_give_the_same_ratings_are_not_told_apart() -> None:
    ratings, truth, prompt = judges(60, 2, [0.5])
    found = held_against(truth, np.repeat(ratings, 7, axis=0) * 1.1, prompt)
    assert not found.is_worse.any()
    assert {found.more_prompts(at) for at in range(7)} == {np.inf}


@pytest.mark.parametrize("count", [2, 6])
def test_no_judge_of_equal_ones_is_shown_to_be_the_best(count: int) -> None:
    shown = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=120)
        rated = np.array([truth + rng.normal(size=120) for _ in range(count)])
        found = held_against(truth, rated, np.repeat(np.arange(60), 2))
        shown += all(found.more_prompts(at) == 0 for at in found.order[1:])
    assert shown <= 30  # 5 % of them, 20, are expected of two


def test_says_how_many_more_prompts_would_tell_two_judges_apart() -> None:
    ratings, truth, prompt = judges(50, 1, [0.5, 0.6, 3.0])
    found = held_against(truth, ratings, prompt)
    needed = 50 * ((found.difference_margin[1] / found.difference[1]) ** 2 - 1)
    assert found.more_prompts(1) == pytest.approx(needed)
    assert found.more_prompts(2) == 0
    assert found.more_prompts(0) == np.inf
    few = held_against(truth[:20], ratings[:, :20], prompt[:20])
    assert few.more_prompts(2) == 10  # nothing is told from fewer than 30


def test_pairs_without_labels_say_nothing_and_a_judge_that_never_varies_has_no_agreement() -> None:
    ratings, truth, prompt = judges(20, 2, [0.5, 1.0])
    ratings[1] = 0.3
    partly = truth.copy()
    partly[20:] = nan
    found = held_against(partly, ratings, prompt)
    only = held_against(truth[:20], ratings[:, :20], prompt[:20])
    assert found.value[0] == pytest.approx(only.value[0])
    assert np.isnan(found.value[1])
    assert (found.prompts.tolist(), found.order) == ([10, 10], [0, 1])
    assert held_against(np.full(40, nan), ratings, prompt).prompts.tolist() == [0, 0]


def test_an_answer_without_a_rating_agrees_with_nothing() -> None:
    ratings, truth, prompt = judges(40, 1, [0.5])
    ratings[0, ::4] = nan
    known = ~np.isnan(ratings[0])
    a, b = ratings[0, known] - ratings[0, known].mean(), truth - truth.mean()
    expected = a @ b[known] / np.sqrt((a @ a) * (b @ b))
    assert held_against(truth, ratings, prompt).value[0] == pytest.approx(expected)


def test_the_consensus_is_of_other_families_each_counting_once() -> None:
    ratings = np.array([[1.0, 3.0], [2.0, 4.0], [5.0, 1.0], [1.0, 9.0]])
    found = consensus_of_others(ratings, ["a", "a", "b", "c"])
    # each row is ±1 once centred and scaled: a: −1, 1; b: 1, −1; c: −1, 1
    np.testing.assert_allclose(found, [[0, 0], [0, 0], [-1, 1], [0, 0]], atol=1e-12)
