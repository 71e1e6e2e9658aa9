"""How many prompts a difference needs, against the power of the noncentral t and against experiments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from robin_cli.analysis.paired import difference_shown, prompts_for, variance_range


def power_of(prompts: float, difference: float, variance: float, alpha: float = 0.05) -> float:
    """The chance that a two-sided t test of the paired differences sees it."""
    freedom, off = prompts - 1, abs(difference) / math.sqrt(variance / prompts)
    limit = stats.t.ppf(1 - alpha / 2, freedom)
    return float(stats.nct.sf(limit, freedom, off) + stats.nct.cdf(-limit, freedom, off))


def test_takes_as_many_prompts_as_the_noncentral_t_but_for_one_or_two() -> None:
    for power in (0.5, 0.8, 0.9, 0.95):
        for difference in (0.02, -0.05, 0.1, 0.2, 0.5, 1.0, 3.0):
            for noise in (0.0, 0.3):
                found = prompts_for(difference, 0.7, noise, power=power)
                exact = next(
                    n
                    for n in range(max(2, int(found) - 5), 10**6)
                    if power_of(n, difference, 0.7 + noise) >= power
                )
                assert (-1 if found <= 4 else 0) <= found - exact <= 2, (power, difference, noise)
                assert found == int(found), (power, difference, noise)


def test_takes_the_smallest_number_that_is_enough() -> None:
    for alpha in (0.001, 0.01, 0.1):
        found = prompts_for(0.3, 0.5, 0.2, alpha=alpha)
        assert (
            difference_shown(found, 0.5, 0.2, alpha=alpha)
            <= 0.3
            < difference_shown(found - 1, 0.5, 0.2, alpha=alpha)
        ), alpha


def test_finds_by_experiment_what_it_promised() -> None:
    rng, prompts = np.random.default_rng(0), int(prompts_for(0.25, 0.4, 0.5))
    differences = (
        0.25
        + rng.normal(0, math.sqrt(0.4), (20_000, prompts))
        + rng.normal(0, math.sqrt(0.5), (20_000, prompts))
    )
    t = differences.mean(axis=1) / differences.std(axis=1, ddof=1) * math.sqrt(prompts)
    assert np.mean(np.abs(t) > stats.t.ppf(0.975, prompts - 1)) == pytest.approx(0.8, abs=0.015)


def test_tells_what_a_variance_known_from_few_prompts_may_be() -> None:
    seen = np.random.default_rng(1).normal(size=(50_000, 20)).var(axis=1, ddof=1)
    low, high = variance_range(20)
    assert np.mean(low * seen > 1.0) == pytest.approx(0.025, abs=0.003)
    assert np.mean(high * seen < 1.0) == pytest.approx(0.025, abs=0.003)


def test_needs_endless_prompts_for_no_difference_and_two_where_nothing_varies() -> None:
    assert prompts_for(0.0, 0.5, 0.1) == math.inf
    assert prompts_for(0.1, math.inf, 0.1) == math.inf
    assert prompts_for(0.1, 0.0, 0.0) == 2
    assert math.isnan(prompts_for(0.1, math.nan, 0.0))
    assert math.isnan(prompts_for(math.nan, 0.1, 0.0))
    assert difference_shown(1, 0.5, 0.1) == math.inf
    assert prompts_for(1e-8, 0.5, 0.1) == pytest.approx(
        (1.959964 + 0.841621) ** 2 * 0.6 * 1e16, rel=1e-5
    )
