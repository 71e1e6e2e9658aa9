"""Agreement of judges with people and with one another, held against numpy, resampling and a second way to compute it."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.stats.choosing import agreement, consensus_of_others, noise_of, share_right

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


def test_is_pearsons_correlation_where_each_prompt_has_one_response() -> None:
    ratings, truth, prompt = judges(40, 1, [0.5, 2.0])
    found = agreement(ratings, truth, prompt)
    expected = [np.corrcoef(row, truth)[0, 1] for row in ratings]
    np.testing.assert_allclose(found.value, expected, rtol=1e-12)
    np.testing.assert_allclose(found.difference, [0.0, expected[1] - expected[0]])
    assert (found.order, found.prompts) == ([0, 1], 40)


def test_is_the_correlation_of_deviations_within_prompts_of_several_responses() -> None:
    ratings, truth, prompt = judges(30, 4, [1.0])
    row, people = ratings[0].reshape(30, 4), truth.reshape(30, 4)
    inner = [each - each.mean(axis=1, keepdims=True) for each in (row, people)]
    expected = np.corrcoef(inner[0].ravel(), inner[1].ravel())[0, 1]
    assert agreement(ratings, truth, prompt).value[0] == pytest.approx(expected, rel=1e-12)


def test_errors_are_those_of_repeated_draws_of_prompts() -> None:
    """The bootstrap's standard errors agree with the spread over fresh samples of as many prompts."""
    fresh = []
    for seed in range(300):
        rng = np.random.default_rng(seed)
        truth = rng.normal(size=60)
        rated = np.array([truth + sd * rng.normal(size=60) for sd in (0.7, 0.9)])
        fresh.append([np.corrcoef(row, truth)[0, 1] for row in rated])
    spread = np.std(fresh, axis=0), np.std(np.subtract(*np.transpose(fresh)))
    found = [
        agreement(
            np.array([truth + sd * rng.normal(size=60) for sd in (0.7, 0.9)]), truth, np.arange(60)
        )
        for rng in map(np.random.default_rng, range(1000, 1030))
        for truth in [rng.normal(size=60)]
    ]
    np.testing.assert_allclose(
        np.mean([each.error for each in found], axis=0), spread[0], rtol=0.12
    )
    apart = np.mean([max(each.difference_error) for each in found])
    assert apart == pytest.approx(spread[1], rel=0.12)
    assert found[0].reach == pytest.approx(
        2.001, abs=1e-3
    )  # Student's t with 59 degrees of freedom


def test_a_judge_is_worse_from_one_and_a_half_standard_errors_on() -> None:
    ratings, truth, prompt = judges(60, 2, [0.3, 0.32, 4.0])
    found = agreement(ratings, truth, prompt)
    assert found.is_worse.tolist() == [False, False, True]
    assert (found.difference[2] < -1.5 * found.difference_error[2]).all()
    # dropped after its first pairs, it keeps their agreement, and is no longer the best there may be
    of_each = np.tile(truth, (3, 1))
    of_each[2, 40:], ratings[2, 40:] = np.nan, np.nan
    both = agreement(ratings, of_each, prompt, np.array([True, True, False]))
    first = agreement(ratings[:, :40], truth[:40], prompt[:40])
    assert both.value.tolist() == pytest.approx([*found.value[:2], first.value[2]])
    assert agreement(ratings, of_each, prompt, np.array([False, False, True])).best == 2


def test_says_how_many_more_prompts_would_tell_two_judges_apart() -> None:
    ratings, truth, prompt = judges(50, 1, [0.5, 0.6, 3.0])
    found = agreement(ratings, truth, prompt)
    gap = -found.difference[1]
    needed = 50 * ((found.reach * found.difference_error[1] / gap) ** 2 - 1)
    assert found.more_prompts(1) == pytest.approx(needed)
    assert found.more_prompts(2) == 0
    assert found.more_prompts(0) == np.inf


def test_pairs_without_labels_say_nothing_and_a_judge_that_never_varies_has_no_agreement() -> None:
    ratings, truth, prompt = judges(20, 2, [0.5, 1.0])
    ratings[1] = 3.0
    partly = truth.copy()
    partly[20:] = nan
    found = agreement(ratings, partly, prompt)
    only = agreement(ratings[:, :20], truth[:20], prompt[:20])
    assert found.value[0] == pytest.approx(only.value[0])
    assert (np.isnan(found.value[1]), found.prompts, found.order) == (True, 10, [0, 1])
    assert agreement(ratings, np.full(40, nan), prompt).prompts == 0


def test_the_consensus_is_of_other_families_each_counting_once() -> None:
    ratings = np.array([[1.0, 3.0], [2.0, 4.0], [5.0, 1.0], [1.0, 9.0]])
    prompt = np.zeros(2, dtype=int)
    found = consensus_of_others(ratings, ["a", "a", "b", "c"], prompt)
    # each row is ±1 once centred and scaled: a: -1, 1; b: 1, -1; c: -1, 1
    np.testing.assert_allclose(found, [[0, 0], [0, 0], [-1, 1], [0, 0]], atol=1e-12)
    assert np.isnan(consensus_of_others(ratings[:2], ["a", "a"], prompt)).all()


def test_share_right_counts_ties_in_part_and_leaves_out_prompts_that_people_rate_alike() -> None:
    truth = np.array([1.0, 0, 0, 5, 5, nan, 2, 1])
    prompt = np.array([0, 0, 0, 1, 1, 1, 2, 2])
    ratings = np.array(
        [
            [4.0, 4, 1, 0, 9, 9, 3, 1],  # tied with one other; right
            [nan, nan, nan, 0, 9, 9, 1, 3],  # did not rate the first prompt; wrong
        ]
    )
    np.testing.assert_allclose(share_right(ratings, truth, prompt), [0.75, 0.0])
    assert np.isnan(share_right(ratings, np.full(8, nan), prompt)).all()


def test_noise_is_the_standard_deviation_of_one_rating() -> None:
    rng = np.random.default_rng(1)
    means = rng.normal(size=4000)
    first, second = (means + 0.8 * rng.normal(size=4000) for _ in range(2))
    found = noise_of(np.array([first, first]), np.array([second, np.full(4000, nan)]))
    assert found[0] == pytest.approx(0.8, rel=0.03)
    assert np.isnan(found[1])
