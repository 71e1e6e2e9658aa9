"""What a plan of comparisons forecasts, against tournaments that are simulated."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from robin_cli.analysis.clustered import student_factor
from robin_cli.goals.own.prefer import Rank
from robin_cli.model.bradley_terry import chance
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.simulation.forecast import foresee
from robin_cli.simulation.scatter import (
    Scatter,
    VerdictsBelief,
    preference_half_width,
    scatter_of,
    usual_scatter,
    win_rate_half_width,
)
from tests.model.test_matches import matches, tournament
from tests.views.comparing_runs import compared_run


@pytest.mark.parametrize(
    ("systems", "share", "calls"), [(2, 1.0, 1), (4, 1.0, 1), (6, 0.3, 1), (4, 1.0, 5)]
)
def test_foresees_how_far_off_a_win_rate_is(systems: int, share: float, calls: int) -> None:
    prompts, rng = 40, np.random.default_rng(0)
    found = matches(tournament(systems, prompts))
    couples = np.array(list(combinations(range(systems), 2)))
    wins = []
    for _ in range(1500):
        quality = rng.normal(0.0, 0.8, (prompts, systems))
        p = chance(quality[:, couples[:, 0]] - quality[:, couples[:, 1]])
        votes = rng.binomial(2 * calls, p) / (2 * calls)
        asked = (rng.permutation(p.size) < round(share * p.size)).reshape(p.shape)
        mine = asked & (couples == 0).any(axis=1)
        wins.append(np.where(couples[:, 0] == 0, votes, 1.0 - votes)[mine].mean())

    n = share * prompts * (systems - 1)
    expected = student_factor(int(min(prompts, n)), 0.05) * np.std(wins)
    told = win_rate_half_width(usual_scatter(1), found, share * len(found), calls)
    assert told == pytest.approx(expected, rel=0.08)


def test_tells_chance_from_what_varies_over_prompts_by_a_run(tmp_path: Path) -> None:
    # p is .5 for all prompts: nothing varies but the verdicts
    run = compared_run(tmp_path / "r", ["a", "b", "c"], [0, 0, 0], prompts=200, draws=2, ties=0.0)
    found = scatter_of(run)
    assert found is not None
    assert found.comparisons == 600
    assert found.between == pytest.approx(0.0, abs=0.02)
    assert found.within == pytest.approx(0.125, rel=0.15)
    # half of the verdicts go by the order: these are no noise at all, and tell nothing
    swayed = scatter_of(
        compared_run(
            tmp_path / "s", ["a", "b", "c"], [0, 0, 0], prompts=200, draws=2, ties=0.0, first=0.25
        )
    )
    assert swayed is not None
    assert swayed.within == pytest.approx((1 - 0.5**2) / 8, rel=0.15)
    assert swayed.between == pytest.approx(0.0, abs=0.02)


def test_draws_judges_as_preferences_vary_and_as_a_pilot_found_the_systems(tmp_path: Path) -> None:
    found, rng = matches(tournament(3, 40)), np.random.default_rng(0)
    wanted = Scatter(0.04, 0.1)
    alike = VerdictsBelief(Rank(found.space, found), wanted, np.full(len(found), 0.5))
    p = alike.worlds(0, 200, rng)[0].ratings.means.reshape(200, len(found), 2)[:, :, 0] / 2.0
    couple = found.opponents[1]
    within = np.mean([p[:, couple == each].var(axis=1) for each in range(3)])
    assert within == pytest.approx(wanted.between, rel=0.1)
    first_wins = np.where(found.system[:, 0] == 0, 0.9, np.where(found.system[:, 1] == 0, 0.1, 0.5))
    told = VerdictsBelief(Rank(found.space, found), wanted, first_wins).worlds(0, 200, rng)[0]
    p = told.ratings.means.reshape(200, len(found), 2)[:, :, 0] / 2.0
    preferred = np.where(found.system == 0, np.stack([p, 1 - p], axis=2), 0.0).sum(axis=2)[
        :, (found.system == 0).any(axis=1)
    ]
    assert preferred.mean() == pytest.approx(0.85, abs=0.05)  # shrunk a little
    # and the more calls, the less of the order is wrong
    policy = lambda budget, variances, goal: make_policy(  # noqa: E731
        "uniform", Setup(len(goal.space), budget, goal.space.scales[0], matches=goal.matches)
    )
    wrong = [
        each.figure("wrong_mean")
        for each in foresee(alike, policy, [30, 240, 2400], rng).expected.values()
    ]
    assert wrong == sorted(wrong, reverse=True)
    assert wrong[2] < 0.2


def test_takes_too_few_comparisons_for_nothing(tmp_path: Path) -> None:
    assert scatter_of(compared_run(tmp_path / "nine", ["a", "b"], [0, 0], prompts=9)) is None
    assert scatter_of(compared_run(tmp_path / "ten", ["a", "b"], [0, 0], prompts=10)) is not None


def test_knows_a_preference_better_after_more_calls_and_never_worse_than_not_at_all() -> None:
    found = [preference_half_width(Scatter(0.05, 0.1), calls) for calls in (0.1, 1, 4, 100)]
    assert found == sorted(found, reverse=True)
    assert found[0] == 0.5
    assert np.isnan(win_rate_half_width(Scatter(0.05, 0.1), matches(tournament(3, 1)), 3, 1))
