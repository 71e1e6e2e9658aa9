"""Intervals that hold although the ratings decided how many there are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.statistics.intervals import mean_intervals

SPREADS = {
    "constant": [0, 0, 0, 1, 0],
    "coin": [0.5, 0, 0, 0, 0.5],
    "rare": [0.97, 0, 0, 0, 0.03],
    "even": [0.2] * 5,
    "high": [0, 0, 0.05, 0.25, 0.7],
}

some_counts = st.lists(st.lists(st.integers(0, 40), min_size=5, max_size=5), min_size=1, max_size=6)


@given(some_counts)
@settings(deadline=None)
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
@settings(deadline=None)
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


@pytest.mark.slow
@pytest.mark.parametrize("spread", SPREADS)
def test_covers_whoever_stops_when(spread: str) -> None:
    # Simulated: 400 sequences, looked at after every rating; the share in which the true mean was ever outside
    # must be at most 5 %. By chance alone it passes 5 % + 3 s.e. = 8.3 % once in a thousand.
    rng = np.random.default_rng(11)
    p = np.array(SPREADS[spread])
    mean = p @ np.arange(5)
    counts = np.zeros((400, 5), dtype=np.int64)
    missed = np.zeros(400, dtype=bool)
    for _ in range(300):
        counts[np.arange(400), rng.choice(5, size=400, p=p)] += 1
        low, high = mean_intervals(counts, 0, 4)
        missed |= (mean < low - 1e-9) | (mean > high + 1e-9)
    assert missed.mean() <= 0.083


def test_refuses_a_level_that_is_none() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        mean_intervals(np.ones((1, 5), dtype=np.int64), 0, 4, alpha=0.0)
