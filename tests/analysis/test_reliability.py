"""How far a judge agrees with itself, against the analysis of variance, and against what it stands for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from robin_cli.analysis.agreement import Agreement
from robin_cli.analysis.reliability import reliability

PAIRS, EACH = 60, 6


def by_name(found: list[Agreement]) -> dict[str, Agreement]:
    return {each.coefficient: each for each in found}


def rated(seed: int, noise: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Ratings of 60 pairs, six each."""
    rng = np.random.default_rng(seed)
    return rng.normal(2, 1, (PAIRS, 1)) + rng.normal(0, noise, (PAIRS, EACH))


def test_agrees_with_the_analysis_of_variance() -> None:
    ratings = rated(1, 1.5)
    errors = ratings.var(axis=1, ddof=1) / EACH
    found = by_name(reliability(ratings.mean(axis=1), errors, np.arange(PAIRS) // 2, np.full(PAIRS, EACH)))
    # one-way, from sums of squares
    between = EACH * ((ratings.mean(axis=1) - ratings.mean()) ** 2).sum() / (PAIRS - 1)
    within = ((ratings - ratings.mean(axis=1, keepdims=True)) ** 2).sum() / (PAIRS * (EACH - 1))
    assert found["icc"].value == pytest.approx((between - within) / (between + (EACH - 1) * within))
    assert found["reliability"].value == pytest.approx((between - within) / between)
    assert found["ceiling"].value == pytest.approx(np.sqrt(found["reliability"].value))
    for told in found.values():
        assert (told.n, told.n_prompts, told.resamples, told.why) == (60, 30, 1000, "")
        assert told.ci_low < told.value < told.ci_high


def test_says_what_asking_as_often_again_would_correlate_with() -> None:
    # unequal numbers of ratings, unequal noise, many pairs: the scores of two runs correlate as the one run says
    rng = np.random.default_rng(2)
    pairs = 20_000
    truth, noise, n = rng.normal(0, 1, pairs), rng.uniform(0.2, 3, pairs), rng.integers(2, 12, pairs)
    first, second = (truth + noise * rng.normal(0, 1, pairs) / np.sqrt(n) for _ in range(2))
    found = by_name(reliability(first, noise**2 / n, np.arange(pairs), n, resamples=0))
    assert found["reliability"].value == pytest.approx(np.corrcoef(first, second)[0, 1], abs=0.02)
    assert found["ceiling"].value == pytest.approx(np.corrcoef(first, truth)[0, 1], abs=0.02)
    once, again = (truth + noise * rng.normal(0, 1, pairs) for _ in range(2))
    assert found["icc"].value == pytest.approx(np.corrcoef(once, again)[0, 1], abs=0.02)


def test_takes_pure_noise_for_no_reliability() -> None:
    scores = np.tile([1.0, 2.0], 12)
    found = reliability(scores, np.full(24, 0.5), np.arange(24), np.full(24, 2))
    assert [(each.value, each.ci_low) for each in found] == [(0, 0)] * 3


def test_has_no_icc_of_a_panel_and_leaves_out_what_has_no_score() -> None:
    scores = np.append(np.arange(30.0), [np.nan] * 3)
    errors = np.append(np.ones(30), [np.nan] * 3)
    found = reliability(scores, errors, np.arange(33), resamples=0)
    total = np.arange(30).var(ddof=1)
    assert {each.coefficient: each.value for each in found} == pytest.approx(
        {"reliability": (total - 1) / total, "ceiling": np.sqrt((total - 1) / total)}
    )
    assert {(each.n, each.n_prompts) for each in found} == {(30, 30)}


def test_states_nothing_on_few_prompts_or_scores_all_alike() -> None:
    few = reliability(np.arange(40.0), np.ones(40), np.arange(40) % 19, np.ones(40, dtype=np.int64))
    assert {each.why for each in few} == {"40 pairs of 19 prompts have a score; 20 prompts are needed"}
    alike = reliability(np.ones(40), np.ones(40), np.arange(40), np.ones(40, dtype=np.int64))
    assert {each.why for each in alike} == {"all scores are alike"}
    assert all(np.isnan([each.value, each.ci_low]).all() for each in (*few, *alike))
