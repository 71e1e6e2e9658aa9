"""What goals measure of simulated runs, and say of them, by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

from robin_cli.goals.base import Goal, Words
from robin_cli.goals.best import BestGoal
from robin_cli.goals.keep import DecisionsGoal
from robin_cli.goals.ranking import RankingGoal
from robin_cli.goals.scores import ScoresGoal
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.matches import Matches
from robin_cli.policies.registry import make_policy
from robin_cli.simulate.experiment import RecordedSet, conduct
from robin_cli.simulate.forecast import Forecast, Known
from robin_cli.simulate.settings import SimulationSettings
from robin_cli.stats.court import Snapshot
from tests.policies.test_matches import matches, tournament


def preferring(found: Matches, *order: str) -> FloatArray:
    """Points of each arm where the systems that come first in ``order`` win."""
    place = np.array([order.index(name) for name in found.names])
    a_wins = place[found.system[:, 0]] < place[found.system[:, 1]]
    return np.repeat(np.where(a_wins, 2.0, 0.0), found.space.arms_per_pair)


def after(estimates: FloatArray) -> Snapshot:
    runs = np.zeros(len(estimates))
    return Snapshot(
        4,
        np.full(len(estimates), 4),
        np.ones(estimates.shape, dtype=np.int64),
        estimates,
        estimates,
        runs,
        runs,
    )


def test_counts_matchups_of_systems_in_the_wrong_order() -> None:
    found = matches(tournament(3, 5))
    first, second, third = found.names
    truth, other = preferring(found, first, second, third), preferring(found, second, first, third)
    loss = RankingGoal(found.space, found).loss(
        after(np.stack([truth, other])), np.stack([truth, truth])
    )
    assert loss["wrong"].tolist() == [0, pytest.approx(1 / 3)]
    assert (loss["any"].tolist(), loss["asked"].tolist()) == ([0, 1], [1, 1])
    unknown = np.full((1, len(truth)), np.nan)
    # what is not known is half wrong
    assert RankingGoal(found.space, found).loss(after(unknown), truth[None])["wrong"] == 0.5
    turned = 2.0 - truth
    asked = matches(tournament(3, 5), wants_best=True)
    best = BestGoal(asked.space, asked)
    assert best.loss(after(np.stack([truth, turned])), np.stack([truth, truth]))[
        "wrong"
    ].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("goal", "row", "says"),
    [
        (
            ScoresGoal,
            {"worst_error": 0.5, "mean_error": 0.1},
            "the expected error of the worst score is about 0.5, of the average one 0.1",
        ),
        (DecisionsGoal, {"wrong": 0.004, "decisions": 400.0}, "0.4 % of the decisions are wrong"),
        (
            DecisionsGoal,
            {"wrong": 0.0, "decisions": 750.0},
            "fewer than 0.4 % of the decisions are wrong",
        ),
    ],
)
def test_says_what_is_known_then(goal: type[Goal], row: dict[str, float], says: str) -> None:
    assert goal.known_then(goal.__new__(goal), row, lambda error: f"{error:g}") == says


@dataclass(frozen=True)
class ShareAbove(ScoresGoal):
    """A goal of its own, in one class: the share of scores above the middle of the scale."""

    columns = ("share_mean", "share_sem")
    figures: ClassVar[Mapping[str, str]] = {"share_off": "share_mean"}

    def loss(self, found: Snapshot, truth: FloatArray) -> dict[str, FloatArray]:
        above = [(each > 2).mean(axis=1) for each in (found.estimates, truth)]
        return {"share": np.abs(above[0] - above[1])}

    def known_then(self, row: Mapping[str, Any], words: Words) -> str:
        return f"the share is off by about {words(row['share_off'])}"


def test_a_goal_of_its_own_is_simulated_and_forecast_by_what_it_says_is_wrong() -> None:
    rng = np.random.default_rng(0)
    space = ArmSpace([str(each) for each in range(40)], ["a"], ["j"], [Scale(0, 4)])
    goal = ShareAbove(space)
    subject = RecordedSet("pool", tuple(rng.integers(0, 5, (40, 9))), goal)
    settings = SimulationSettings(schedulers=("uniform",), budget=(40, 4000), runs=20)
    few, many = conduct([subject], settings, lambda *_: None)
    assert few.columns == ("share_mean", "share_sem")
    assert few.figure("share_mean") > 1.5 * many.figure("share_mean")
    known = [Known.nothing(40, Scale(0, 4), "helpfulness")]
    own = {"delta": 0.01, "mode": "practice", "margin": None}
    policy = make_policy("uniform", goal.setup(own, 4000))
    rows = Forecast(known, goal).expected(lambda *_: policy, [40, 4000])
    figures = [
        {name: each.figure(column) for name, column in goal.figures.items()}
        for each in rows.values()
    ]
    assert figures[0]["share_off"] > 1.5 * figures[1]["share_off"]
