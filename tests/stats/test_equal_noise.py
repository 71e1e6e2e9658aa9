"""Whether the noise of all pairs hardly differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from robin_cli.goals.making import goal_of_run
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Pair
from robin_cli.run.reader import RunData
from robin_cli.show.words import EQUALLY_NOISY
from robin_cli.stats.equal_noise import noise_moments, spread_limit
from tests.run.test_store import SETTINGS
from tests.show.tables import make_run


def test_estimates_the_moments_of_noise_by_fishers_k_statistics() -> None:
    counts = np.random.default_rng(0).multinomial(7, [0.1, 0.2, 0.4, 0.2, 0.1], 20).astype(float)
    variance, squared = noise_moments(counts, np.arange(5.0))
    for row, mine in enumerate(counts):
        x = np.repeat(np.arange(5), mine.astype(int))
        k2, k4 = stats.kstat(x, 2), stats.kstat(x, 4)
        assert variance[row] == pytest.approx(k2)
        assert squared[row] == pytest.approx((k2**2 - k4 / 7) * 6 / 8)


def limits(shares: FloatArray, calls: int, runs: int = 100) -> FloatArray:
    rng, levels = np.random.default_rng(1), np.arange(5.0)
    drawn = (rng.multinomial(calls, shares).astype(float) for _ in range(runs))
    return np.array([spread_limit(*noise_moments(each, levels)) for each in drawn])


def test_the_limit_is_below_the_true_spread_one_time_in_twenty() -> None:
    flips = np.linspace(0.1, 0.5, 300)[:, None]
    variance = 4 * (flips * (1 - flips))[:, 0]
    spread = variance.var() / variance.mean() ** 2
    shares = np.hstack([flips, 0 * flips, 1 - flips, 0 * flips, 0 * flips])
    assert (limits(shares, 8) < spread).mean() <= 0.1
    assert (limits(np.tile([0.3, 0.4, 0.3, 0, 0], (300, 1)), 8) <= 0.25).mean() > 0.9


def rated(path: Path, loud: float, scheduler: str) -> RunData:
    rng = np.random.default_rng(2)
    noise = np.where(np.arange(60) % 10 == 0, loud, 0.7)[:, None]
    ratings = np.clip(np.round(rng.normal(2, noise, (60, 12))), 0, 4).astype(int)
    pairs = [Pair(f"p{k}", f"x{k}", "y") for k in range(60)]
    settings = {**SETTINGS, "temperature": 1.0, "scheduler": scheduler}
    return make_run(path, pairs, ratings.tolist(), settings=settings)


@pytest.mark.parametrize(
    ("loud", "scheduler", "says"),
    [(0.7, "two-priors", True), (2.0, "two-priors", False), (0.7, "uniform", False)],
)
def test_says_that_noise_hardly_differs_only_where_it_does_and_calls_could_follow_it(
    tmp_path: Path, loud: float, scheduler: str, *, says: bool
) -> None:
    run = rated(tmp_path / "r", loud, scheduler)
    assert (EQUALLY_NOISY in goal_of_run(run).found(run).answer) == says
