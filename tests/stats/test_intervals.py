"""Intervals that hold although the ratings decided how many there are."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.stats.intervals import Part, log_sum_evidence, mean_intervals, sum_intervals

SPREADS = {
    "constant": [0, 0, 0, 1, 0],
    "coin": [0.5, 0, 0, 0, 0.5],
    "rare": [0.97, 0, 0, 0, 0.03],
    "even": [0.2] * 5,
    "high": [0, 0, 0.05, 0.25, 0.7],
}

some_counts = st.lists(st.lists(st.integers(0, 40), min_size=5, max_size=5), min_size=1, max_size=6)


@given(some_counts)
@settings(max_examples=12)
def test_gives_intervals_around_the_mean_that_are_never_points(rows: list[list[int]]) -> None:
    counts = np.array(rows)
    low, high = mean_intervals(counts, 0, 4)
    n = counts.sum(axis=1)
    mean = (counts @ np.arange(5))[n > 0] / n[n > 0]
    assert np.all((low[n > 0] <= mean + 1e-9) & (mean <= high[n > 0] + 1e-9))
    assert np.all(high - low > 1e-3)
    assert np.all((low >= 0) & (high <= 4))
    assert np.all((low[n == 0] == 0) & (high[n == 0] == 4))


@given(some_counts)
@settings(max_examples=12)
def test_treats_both_ends_of_the_scale_alike(rows: list[list[int]]) -> None:
    counts = np.array(rows)
    low, high = mean_intervals(counts, 0, 4)
    mirrored_low, mirrored_high = mean_intervals(counts[:, ::-1], 0, 4)
    assert np.allclose(low, 4 - mirrored_high)
    assert np.allclose(high, 4 - mirrored_low)


def test_narrows_with_more_ratings_as_the_root_of_their_number() -> None:
    counts = np.array([[20, 10, 0, 10, 20]]) * np.array([[1], [16], [256]])
    low, high = mean_intervals(counts, 0, 4)
    width = high - low
    assert 3 < width[0] / width[1] < 5
    assert 3 < width[1] / width[2] < 5


# What the module's text calls a fixed grid: stakes even in log-odds from 1:e³ to e⁴:1, each with money in proportion, 70 % of
# all, and the rest on ratings that all agree.
SMALLER = [1 / (1 + math.exp(-k)) for k in range(-3, 5)]
BETS = [(stake, 0.7 * stake / sum(SMALLER)) for stake in SMALLER] + [(1 - 1e-9, 0.3)]


def wealth(ratings: list[float], m: float) -> float:
    """By the definition: what the bets that the mean of the ratings, shares of the scale, is above m have come to."""
    return sum(money * math.prod(1 + stake * (x / m - 1) for x in ratings) for stake, money in BETS)


def lower_end(ratings: list[float], alpha: float) -> float:
    """The smallest m against which the bets have not come to 2/α."""
    mean = sum(ratings) / len(ratings)
    if not mean:
        return 0.0
    return float(
        optimize.brentq(
            lambda m: math.log(wealth(ratings, m) * alpha / 2), 1e-12 * mean, mean, xtol=1e-14
        )
    )


SEQUENCES = [
    [0, 4, 4, 1, 2, 4, 3],
    [4] * 20,
    [0, 0],
    [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
    [2],
    [3, 4, 3, 3, 2, 3, 3, 4] * 4,
]


def counted(sequences: list[list[int]], levels: int = 5) -> IntArray:
    return np.array([np.bincount(each, minlength=levels) for each in sequences])


def test_gives_the_means_that_no_bet_has_won_against() -> None:
    for alpha in (0.05, 0.2):
        for bottom, top in ((0, 4), (1, 5), (-2, 2), (10, 18)):
            low, high = mean_intervals(counted(SEQUENCES), bottom, top, alpha=alpha)
            for place, ratings in enumerate(SEQUENCES):
                shares = [rating / 4 for rating in ratings]
                assert low[place] == pytest.approx(
                    bottom + (top - bottom) * lower_end(shares, alpha), abs=1e-6
                ), (alpha, bottom, top)
                mirrored = lower_end([1 - share for share in shares], alpha)
                assert high[place] == pytest.approx(top - (top - bottom) * mirrored, abs=1e-6), (
                    alpha,
                    bottom,
                    top,
                )


def least_sum(
    a: list[float], b: list[float], weights: tuple[float, float], alpha: float, unbet: float
) -> float:
    """The smallest sum of two means, shares of the scale, against which the product of the bets has not come to 2/α."""

    def kept(ratings: list[float], m: float) -> float:  # with the part of the money that is not bet
        return unbet + (1 - unbet) * wealth(ratings, m)

    def other(m: float) -> float:  # the smallest mean of b that goes with the mean m of a
        def left(mean: float) -> float:
            return math.log(kept(a, m)) + math.log(kept(b, mean)) - math.log(2 / alpha)

        return (
            2.0
            if left(1.0) > 0
            else 0.0
            if left(1e-9) < 0
            else float(optimize.brentq(left, 1e-9, 1.0))
        )

    def both(m: float) -> float:
        return weights[0] * m + weights[1] * other(m)

    coarse = np.linspace(1e-6, 1.0, 201)
    near = min(coarse, key=both)
    return min(both(min(max(m, 1e-6), 1.0)) for m in np.linspace(near - 0.01, near + 0.01, 81))


@pytest.mark.parametrize(("first", "second"), [(5, 1)])
def test_a_sum_of_means_is_held_by_the_product_of_the_bets(first: int, second: int) -> None:
    a, b = SEQUENCES[first], SEQUENCES[second]
    shares_a, shares_b = ([x / 4 for x in each] for each in (a, b))
    mirrored_a, mirrored_b = ([1 - x / 4 for x in each] for each in (a, b))
    parts = [Part(counted([a]), 0, 4, 0.5), Part(counted([b]), 0, 4, 0.5)]
    (low,), (high,) = sum_intervals(parts, alpha=0.1)
    lowest = 4 * least_sum(shares_a, shares_b, (0.5, 0.5), 0.1, 0.15)
    highest = 4 - 4 * least_sum(mirrored_a, mirrored_b, (0.5, 0.5), 0.1, 0.15)
    # never inside, and hardly outside: it goes by tangents and a grid
    assert lowest - 0.01 * (highest - lowest) <= low <= lowest + 0.002
    assert highest - 0.002 <= high <= highest + 0.01 * (highest - lowest)

    (low,), (high,) = sum_intervals(
        [replace(parts[0], weight=-1.0), replace(parts[1], weight=1.0)], alpha=0.1
    )
    lowest = 4 * least_sum(mirrored_a, shares_b, (1.0, 1.0), 0.1, 0.3) - 4
    highest = 4 - 4 * least_sum(shares_a, mirrored_b, (1.0, 1.0), 0.1, 0.3)
    assert lowest - 0.01 * (highest - lowest) <= low <= lowest + 0.004
    assert highest - 0.004 <= high <= highest + 0.01 * (highest - lowest)


def test_a_sum_of_one_mean_is_that_mean_but_for_what_is_kept() -> None:
    low, high = sum_intervals([Part(counted(SEQUENCES), 1, 5, 1.0)], alpha=0.1)
    # 0.15 + 0.85 W < 2/0.1 where W < 2/α for this α
    exact_low, exact_high = mean_intervals(
        counted(SEQUENCES), 1, 5, alpha=2 * 0.85 / (2 / 0.1 - 0.15)
    )
    assert np.all((exact_low - 0.01 * (exact_high - exact_low) <= low) & (low <= exact_low + 1e-6))
    assert np.all(
        (exact_high - 1e-6 <= high) & (high <= exact_high + 0.01 * (exact_high - exact_low))
    )


def test_a_sum_of_what_nobody_rated_may_be_anything() -> None:
    nothing = np.zeros((2, 5))
    low, high = sum_intervals([Part(nothing, 1, 5, 0.5), Part(nothing, 1, 5, 0.5)])
    assert (low.tolist(), high.tolist()) == ([1.0, 1.0], [5.0, 5.0])


@pytest.mark.parametrize("levels", [5, 41])
def test_a_sum_over_many_arms_is_that_of_each_to_the_last_bit(levels: int) -> None:
    """Whatever rows stand beside a row: a run that is resumed looks at others together."""
    rng = np.random.default_rng(2)
    some = [
        (rng.multinomial(rng.integers(0, 12, 300), rng.dirichlet(np.full(levels, 0.4), 300)), w)
        for w in (-1.0, 1.0)
    ]

    def found(rows: slice) -> list[FloatArray]:
        parts = [Part(counts[rows], 0, levels - 1, weight) for counts, weight in some]
        evidence = [log_sum_evidence(parts, -0.1, enough=enough) for enough in (-math.inf, 1.0)]
        return [*sum_intervals(parts), *evidence, *mean_intervals(some[0][0][rows], 0, levels - 1)]

    every = found(slice(None))
    for row in (0, 1, 7, 150, 299):
        assert [each[row] for each in every] == [each[0] for each in found(slice(row, row + 1))]


def test_products_are_much_narrower_than_sums_of_intervals() -> None:
    rng = np.random.default_rng(3)
    p, q = (rng.dirichlet(np.full(5, 0.5), 200) for _ in range(2))
    for few, many, most in ((5, 5, 0.82), (20, 20, 0.82), (20, 100, 0.9)):
        a, b = rng.multinomial(few, p), rng.multinomial(many, q)
        low, high = sum_intervals([Part(a, 0, 4, -1.0), Part(b, 0, 4, 1.0)])
        (low_a, high_a), (low_b, high_b) = (
            mean_intervals(each, 0, 4, alpha=0.025) for each in (a, b)
        )
        assert (high - low).mean() < most * (high_a - low_a + high_b - low_b).mean()


@pytest.mark.parametrize(
    "spread",
    [
        "coin",
        "rare",
        *(pytest.param(name, marks=pytest.mark.whole) for name in ("constant", "even", "high")),
    ],
)
def test_covers_whoever_stops_when(spread: str) -> None:
    # Simulated: 400 sequences, looked at after every rating of the first 40, then after every fifth; the share in which the
    # true mean was ever outside must be at most 5 %. By chance alone it passes 5 % + 3 s.e. = 8.3 % once in a thousand.
    rng = np.random.default_rng(11)
    p = np.array(SPREADS[spread])
    mean = p @ np.arange(5)
    counts = np.zeros((400, 5), dtype=np.int64)
    missed = np.zeros(400, dtype=bool)
    for number in range(1, 301):
        counts[np.arange(400), rng.choice(5, size=400, p=p)] += 1
        if number <= 40 or number % 5 == 0:
            low, high = mean_intervals(counts, 0, 4)
            missed |= (mean < low - 1e-9) | (mean > high + 1e-9)
    assert missed.mean() <= 0.083


@pytest.mark.parametrize("alpha", [0.0, 1.0, -0.1, float("nan")])
def test_refuses_a_level_that_is_none(alpha: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_intervals(np.ones((1, 5), dtype=np.int64), 0, 4, alpha=alpha)


@given(
    st.lists(
        st.lists(st.sampled_from([0.0, 1.0, 2.0, 5.0, 0.25]), min_size=3, max_size=3),
        min_size=1,
        max_size=8,
    )
)
@settings(max_examples=12)
@example(
    [[0.25, 0.5, 0.75], [0.5, 0.25, 0.25]]
)  # no whole number among them, as where a curve spreads ratings evenly
def test_says_of_many_arms_what_it_says_of_each_alone(rows: list[list[float]]) -> None:
    counts = np.array(rows)
    alone = [mean_intervals(row[None], 1, 3) for row in counts]
    low, high = mean_intervals(counts, 1, 3)
    assert list(zip(low, high, strict=True)) == [(each[0][0], each[1][0]) for each in alone]


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 10)])
@pytest.mark.parametrize("weights", [(1.0, -1.0), (0.5, 0.5), (0.5, 0.5, -0.5, -0.5)])
def test_evidence_is_the_same_where_it_is_enough_and_below_that_is_said_to_be_below(
    weights: tuple[float, ...], low: int, high: int
) -> None:
    rng = np.random.default_rng(0)
    rows = 400

    def counts(side: float) -> IntArray:
        p = rng.dirichlet(np.linspace(0.2, 1.5, high - low + 1)[:: 1 if side > 0 else -1], rows)
        return np.array(
            [rng.multinomial(n, each) for n, each in zip(rng.integers(0, 50, rows), p, strict=True)]
        )

    parts = [Part(counts(weight), low, high, weight) for weight in weights]
    at = (low + high) / 2 if sum(weights) else -0.1

    exact = log_sum_evidence(parts, at)
    for enough in (1.0, 3.0, 6.0):
        found = log_sum_evidence(parts, at, enough=enough)
        is_enough = exact >= enough
        assert 0.02 < is_enough.mean() < 0.95
        np.testing.assert_allclose(found[is_enough], exact[is_enough], rtol=1e-9)
        assert (found[~is_enough] < enough).all()
        assert (found >= exact - 1e-9).all()
