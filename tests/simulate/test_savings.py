"""How many of uniform's calls a scheduler saves, against curves whose savings are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from robin_cli.simulate.experiment import Row
from robin_cli.simulate.savings import Saving, saved


def exact(scheduler: str, budget: int, error: float, runs: int = 30) -> Row:
    """All runs came to the same error."""
    return Row("a", scheduler, budget, runs, measured={"wce": np.full(runs, error)})


def saved_by(evenly: list[Row], row: Row) -> Saving:
    return saved([*evenly, row], row)


EVENLY = [
    exact("uniform", budget, 40 / budget**0.5) for budget in (250, 500, 1000, 2000, 4000, 8000)
]


def test_reads_the_share_off_uniforms_curve_straight_in_logarithms() -> None:
    for budget, worth in ((1000, 1000), (1000, 2000), (1000, 3000), (600, 7000), (500, 260)):
        told = saved_by(EVENLY, exact("other", budget, 40 / worth**0.5))
        assert told.share == pytest.approx(1 - budget / worth)
        assert (told.low, told.high) == pytest.approx((told.share, told.share))


def test_an_error_that_uniform_never_comes_to_says_no_share() -> None:
    for error in (0.1, 100.0):
        assert math.isnan(saved_by(EVENLY, exact("other", 1000, error)).share)


def test_a_point_of_uniforms_curve_that_noise_lifted_does_not_count() -> None:
    rising = [exact("uniform", 1000, 2.0), exact("uniform", 2000, 2.2), exact("uniform", 4000, 1.0)]
    # from 2.0 at 2,000 calls to 1.0 at 4,000
    way = (math.log(2.0) - math.log(1.5)) / (math.log(2.0) - math.log(1.0))
    told = saved_by(rising, exact("other", 500, 1.5))
    assert told.share == pytest.approx(1 - 500 / (2000 * 2**way))


@pytest.mark.parametrize(("runs", "is_significant"), [(9, False), (10, True)])
def test_tells_no_interval_of_few_runs(runs: int, is_significant: bool) -> None:
    few = [exact("uniform", budget, 40 / budget**0.5, runs) for budget in (1000, 2000, 4000)]
    told = saved_by(few, exact("other", 1000, 40 / 2000**0.5, runs))
    assert (not math.isnan(told.low)) == told.is_significant == is_significant


def test_an_interval_that_holds_0_tells_nothing() -> None:
    assert [
        Saving(0.1, low, high).is_significant
        for low, high in ((0.01, 0.2), (-0.2, -0.01), (0.0, 0.2), (-0.1, 0.0))
    ] == [True, True, False, False]


def test_says_what_is_saved_with_its_error_and_leaves_out_noise() -> None:
    rng = np.random.default_rng(0)

    def row(scheduler: str, budget: int, error: float) -> Row:
        return Row(
            "a", scheduler, budget, 30, measured={"wce": error * rng.lognormal(0.0, 0.2, size=30)}
        )

    covered = told = 0
    uniform: list[Row] = []
    for _ in range(8):
        uniform = [
            row("uniform", budget, 40 / budget**0.5)
            for budget in (250, 500, 1000, 2000, 4000, 8000)
        ]
        # as uniform with twice the calls
        half = saved_by(uniform, row("good", 1000, 40 / 2000**0.5))
        same = saved_by(uniform, row("same", 1000, 40 / 1000**0.5))
        covered += half.low < 0.5 < half.high
        told += same.is_significant
        assert half.low < half.share < half.high

    assert covered >= 6
    assert told <= 2
    assert np.isnan(saved_by(uniform, row("best", 1000, 0.1)).share)
    # by hand: the 2.5 % and 97.5 % quantiles of resampled runs lie this far apart, about 4 standard errors of the share
    spread = math.exp(2 * 0.2 * math.sqrt(2 / 30)) - 1
    found = saved_by(uniform, row("half", 1000, 40 / 2000**0.5))
    assert 0.6 * 2 * 1.96 * 0.5 * spread < found.high - found.low < 1.5 * 2 * 1.96 * 0.5 * spread


@pytest.mark.parametrize("calls", [1000, 2000])
def test_the_interval_holds_95_percent_of_what_other_runs_would_say(calls: int) -> None:
    # half of the runs came to one error and half to another, so of as many drawn again a binomial number is of the first kind
    runs = 1000
    wces = np.repeat([1.2, 0.8], runs // 2) * 40 / calls**0.5
    evenly = [
        exact("uniform", budget, 40 / budget**0.5, runs)
        for budget in (250, 500, 1000, 2000, 4000, 8000)
    ]
    told = saved_by(evenly, Row("a", "other", 1000, runs, measured={"wce": wces}))
    drawn = stats.binom(runs, 0.5)
    ends = [drawn.ppf(0.025), drawn.ppf(0.975)]
    errors = [(1.2 * (runs - low) + 0.8 * low) / runs * 40 / calls**0.5 for low in ends]
    exact_low, exact_high = (1 - 1000 * error**2 / 1600 for error in errors)
    assert told.low == pytest.approx(exact_low, abs=0.04 * (exact_high - exact_low))
    assert told.high == pytest.approx(exact_high, abs=0.04 * (exact_high - exact_low))
