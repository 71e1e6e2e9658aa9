"""How many prompts a difference needs, against the power of the noncentral t."""

from __future__ import annotations

import math

import pytest
from scipy import stats

from robin_cli.stats.paired import prompts_for


def power_of(prompts: float, difference: float, variance: float, alpha: float) -> float:
    """The chance that a two-sided t test of the paired differences sees it."""
    freedom, off = prompts - 1, abs(difference) / math.sqrt(variance / prompts)
    limit = stats.t.ppf(1 - alpha / 2, freedom)
    return float(stats.nct.sf(limit, freedom, off) + stats.nct.cdf(-limit, freedom, off))


def test_takes_as_many_prompts_as_the_noncentral_t_but_for_one_or_two() -> None:
    for alpha in (0.01, 0.05):
        for difference in (0.05, -0.2, 1.0, 3.0):
            found = prompts_for(difference, 0.7, alpha=alpha)
            exact = next(
                n
                for n in range(max(2, int(found) - 5), 10**6)
                if power_of(n, difference, 0.7, alpha) >= 0.8
            )
            assert -1 <= found - exact <= 2, (alpha, difference)
            assert found == int(found), (alpha, difference)


def test_needs_endless_prompts_for_no_difference_and_two_where_nothing_varies() -> None:
    assert prompts_for(0.0, 0.5, alpha=0.05) == math.inf
    assert prompts_for(0.1, 0.0, alpha=0.05) == 2
    assert prompts_for(1e-8, 0.6, alpha=0.05) == pytest.approx(
        (1.959964 + 0.841621) ** 2 * 0.6 * 1e16, rel=1e-5
    )
