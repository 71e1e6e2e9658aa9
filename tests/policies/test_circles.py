"""Systems that go in a circle, against the normal distributions that the evidence is a ratio of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.policies.bradley_terry import PRIOR, fit, wins_of
from robin_cli.policies.circles import ALARM, circle

MATCHUPS = np.array([(i, j) for i in range(4) for j in range(i + 1, 4)])


def votes(chances: list[float], times: int, seed: int) -> tuple[FloatArray, IntArray]:
    """Preferences of the four systems' matchups for the first, and for which."""
    rng = np.random.default_rng(seed)
    system, p = np.tile(MATCHUPS, (times, 1)), np.tile(chances, times)
    y, swap = rng.binomial(2, p) / 2, rng.random(len(p)) < 0.5
    return np.where(swap, 1 - y, y), np.where(swap[:, None], system[:, ::-1], system)


def test_finds_three_systems_that_go_in_a_circle_by_the_ratio_of_two_normal_distributions() -> None:
    # 0 beats 1, 1 beats 2, 2 beats 0, and all beat 3
    y, system = votes([0.7, 0.3, 0.9, 0.7, 0.9, 0.9], 40, 0)
    wins = wins_of(y, system, 4)
    strength = fit(wins + 0.5 * PRIOR * (1 - np.eye(4))).values
    rows = np.eye(4)[MATCHUPS[:, 0]] - np.eye(4)[MATCHUPS[:, 1]]
    p = expit(rows @ strength)
    rate = np.array([wins[i, j] / (wins[i, j] + wins[j, i]) for i, j in MATCHUPS])
    alike = np.sort(system, axis=1)[:, None] == MATCHUPS
    matchup = alike.all(axis=2).argmax(axis=1)
    for_low = np.where(system[:, 0] < system[:, 1], y, 1 - y)
    phi = (((for_low - rate[matchup]) ** 2).sum() + 4) / ((39 * p * (1 - p)).sum() + 4)
    variance, residual = phi / (40 * p * (1 - p)), (rate - p) / (p * (1 - p))

    def density(effect: float) -> float:
        covariance = np.diag(variance + effect**2) + 16 * rows @ rows.T
        return float(stats.multivariate_normal(np.zeros(6), covariance).pdf(residual))

    found = circle(np.append(y, np.nan), np.concatenate([system, [[0, 1]]]), 4)
    assert found is not None
    assert found.evidence == pytest.approx(
        np.mean([density(each) / density(0.0) for each in (0.25, 0.5, 1.0)])
    )
    assert found.evidence > 1 / ALARM
    start = found.systems.index(0)
    assert (*found.systems[start:], *found.systems[:start]) == (0, 1, 2)
    assert found.rates == pytest.approx(
        [wins[i, j] / 40 for i, j in zip(found.systems, np.roll(found.systems, -1), strict=True)]
    )


@pytest.mark.parametrize("top", [0.0, 2.0])
def test_finds_nothing_where_strengths_explain_the_verdicts(top: float) -> None:
    strength = np.linspace(top, -top, 4)
    chances = expit(strength[MATCHUPS[:, 0]] - strength[MATCHUPS[:, 1]]).tolist()
    assert [seed for seed in range(40) if circle(*votes(chances, 30, seed), 4) is not None] == []


def test_names_no_circle_where_strengths_fail_without_one() -> None:
    # who is further off wins less, yet nobody is in a circle
    sure = circle(*votes([0.9, 0.55, 0.9, 0.9, 0.55, 0.9], 80, 1), 4)
    assert sure is not None
    assert (sure.systems, sure.rates) == ((), ())


def test_needs_more_matchups_than_strengths() -> None:
    system = np.array([[0, 1], [1, 2], [2, 3]] * 50)
    assert circle(np.tile([1.0, 1.0, 0.0], 50), system, 4) is None
