"""Human ratings by score: against a mean and Student's t of each prompt by itself, and a bootstrap over prompts."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from robin_cli.model.records import Scale
from robin_cli.stats.agreement import bins_of, calibration

SCALE = Scale(0, 4)


def test_has_the_mean_and_students_interval_where_each_pair_has_a_prompt() -> None:
    scores = np.array([0.5, 1.4, 1.0, 1.1, 2.5, 3.0, np.nan, 3.2])
    human = np.array([0.0, 1.5, 1.0, 2.0, 2.0, 3.0, 4.0, np.nan])
    one, three = calibration(scores, human, np.arange(8), SCALE)
    assert (one.level, one.n, one.n_prompts) == (1, 4, 4)
    assert (three.level, three.n, three.n_prompts) == (3, 2, 2)
    assert (one.mean_score, one.mean_human) == pytest.approx((1.0, 1.125))
    low, high = stats.t.interval(0.95, 3, loc=1.125, scale=stats.sem(human[:4]))
    assert (one.ci_low, one.ci_high) == pytest.approx((max(0, low), high))
    # t of one degree reaches beyond the scale
    assert (three.mean_human, three.ci_low, three.ci_high) == (2.5, 0, 4)


def test_takes_pairs_of_one_prompt_for_one() -> None:
    rng = np.random.default_rng(1)
    human = np.clip(rng.normal(2, 0.5, 25), 0, 4)
    prompt = rng.permutation(np.repeat(np.arange(25), 3))
    (told,) = calibration(np.full(75, 2.0), human[prompt], prompt, SCALE)
    (single,) = calibration(np.full(25, 2.0), human, np.arange(25), SCALE)
    assert (told.n, told.n_prompts) == (75, 25)
    assert (told.ci_low, told.ci_high) == pytest.approx((single.ci_low, single.ci_high))


def test_is_as_wide_as_a_bootstrap_over_prompts_of_many_sizes() -> None:
    rng = np.random.default_rng(2)
    sizes = rng.integers(1, 6, 200)
    prompt = np.repeat(np.arange(200), sizes)
    human = np.clip(2 + rng.normal(0, 0.5, 200)[prompt] + rng.normal(0, 0.3, len(prompt)), 0, 4)
    (told,) = calibration(np.full(len(prompt), 2.0), human, prompt, SCALE)
    sums = np.bincount(prompt, human)
    picks = rng.integers(200, size=(5000, 200))
    low, high = np.quantile(sums[picks].sum(axis=1) / sizes[picks].sum(axis=1), [0.025, 0.975])
    assert told.ci_low == pytest.approx(low, abs=0.012)
    assert told.ci_high == pytest.approx(high, abs=0.012)


def test_states_no_interval_of_one_prompt_or_of_ratings_all_alike() -> None:
    scores = np.array([0, 0, 1, 1, 2, 2])
    human = np.array([1, 2, 3.3, 3.3, 1, 3])
    prompt = np.array([0, 0, 1, 2, 3, 4])
    one, alike, told = calibration(scores + 0.0, human, prompt, SCALE)
    assert (one.n_prompts, alike.n_prompts) == (1, 2)
    assert np.isnan([one.ci_low, one.ci_high, alike.ci_low, alike.ci_high]).all()
    assert (told.ci_low, told.ci_high) == (0, 4)


def test_takes_the_levels_of_a_long_scale_in_bins_of_round_widths() -> None:
    for low, high, starts in (
        (0, 4, [0, 1, 2, 3, 4]),
        (0, 10, list(range(11))),
        (1, 12, [1, 2, 4, 6, 8, 10]),
        (0, 20, list(range(0, 20, 2))),
        (1, 50, [1, *range(5, 50, 5)]),
        (0, 100, list(range(0, 100, 10))),
        (1, 100, [1, *range(10, 100, 10)]),
        (-7, 93, [-7, *range(0, 93, 10)]),
        (0, 99, list(range(0, 100, 10))),
        (0, 1000, list(range(0, 1000, 100))),
    ):
        assert bins_of(Scale(low, high)) == starts, (low, high, starts)


def test_tells_of_a_long_scale_what_its_bins_have() -> None:
    scores = np.array([0.0, 9.4, 9.5, 19.4, 55.0, 89.6, 100.0, 97.0])
    human = np.array([0, 20, 10, 40, 50, 90, 70, 80])
    found = calibration(scores, human + 0.0, np.arange(8), Scale(0, 100))
    assert [(each.level, each.to_level, each.n) for each in found] == [
        (0, 9, 2),
        (10, 19, 2),
        (50, 59, 1),
        (90, 100, 3),
    ]
    assert [each.mean_human for each in found] == [10, 25, 50, 80]
    assert [each.mean_score for each in found] == pytest.approx([4.7, 14.45, 55, 95.5333], abs=1e-3)
    low, high = stats.t.interval(0.95, 2, loc=80, scale=stats.sem([90, 70, 80]))
    assert (found[-1].ci_low, found[-1].ci_high) == pytest.approx((low, min(high, 100)))
    short = calibration(scores / 25, human / 25, np.arange(8), SCALE)
    assert all(each.level == each.to_level for each in short)


def test_takes_preferences_by_quarters_alike_whichever_response_is_called_a() -> None:
    preference = np.array([0.0, 0.125, 0.375, 0.5, 0.625, 0.875, 1.0])
    own, turned = (
        calibration(x, x, np.arange(7), Scale(0, 1), of_two=True)
        for x in (preference, 1 - preference)
    )
    assert [(each.level, each.to_level, each.n) for each in own] == [
        (0.0, 0.0, 2),
        (0.5, 0.5, 3),
        (1.0, 1.0, 2),
    ]
    assert [1 - each.mean_human for each in reversed(turned)] == pytest.approx(
        [each.mean_human for each in own]
    )
