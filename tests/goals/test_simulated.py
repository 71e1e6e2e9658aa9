"""What goals measure of simulated runs, and say of them, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.analysis.court import Snapshot
from robin_cli.goals.base import Goal
from robin_cli.goals.own.compare import Compare
from robin_cli.goals.own.estimate import Estimate
from robin_cli.goals.own.preferred import Preferred
from robin_cli.goals.own.rank import Rank
from robin_cli.goals.own.threshold import Threshold
from robin_cli.model.arms import FloatArray
from robin_cli.model.matches import Matches
from tests.model.test_matches import matches, tournament


def preferring(found: Matches, *order: str) -> FloatArray:
    """Points of each arm where the systems that come first in ``order`` win."""
    place = np.array([order.index(name) for name in found.names])
    a_wins = place[found.system[:, 0]] < place[found.system[:, 1]]
    return np.repeat(np.where(a_wins, 2.0, 0.0), found.space.arms_per_pair)


def after(estimates: FloatArray) -> Snapshot:
    runs = np.zeros(len(estimates))
    return Snapshot(4, np.ones(estimates.shape, dtype=np.int64), estimates, runs, runs)


def test_counts_couples_of_systems_in_the_wrong_order() -> None:
    found = matches(tournament(3, 5))
    first, second, third = found.names
    truth, other = preferring(found, first, second, third), preferring(found, second, first, third)
    loss = Rank(found.space, found).loss(after(np.stack([truth, other])), np.stack([truth, truth]))
    assert loss["wrong"].tolist() == [0, pytest.approx(1 / 3)]
    assert (loss["any"].tolist(), loss["asked"].tolist()) == ([0, 1], [1, 1])
    unknown = np.full((1, len(truth)), np.nan)
    assert Rank(found.space, found).loss(after(unknown), truth[None])["wrong"] == 0.5  # what is not known is half wrong
    turned = 2.0 - truth
    asked = matches(tournament(3, 5), wants_best=True)
    best = Preferred(asked.space, asked)
    assert best.loss(after(np.stack([truth, turned])), np.stack([truth, truth]))["wrong"].tolist() == [0, 1]


@pytest.mark.parametrize(
    ("goal", "row", "says"),
    [
        (
            Estimate,
            {"worst_error": 0.5, "mean_error": 0.1},
            "the worst score is off by about 0.5, the average one by 0.1",
        ),
        (Estimate, {"worst_error": None, "mean_error": None}, ""),
        (Threshold, {"wrong": 0.004, "certified": 0.5}, "0.4 % of the decisions are wrong, and 50 % are certified"),
        (Threshold, {"wrong": 0.0, "certified": 0.0}, "none of the decisions are wrong, and none are certified"),
        (Compare, {"prompts": 20, "shows": 0.2}, "a difference of 0.2 between two systems shows, over 20 prompts"),
        (Compare, {"prompts": 1, "shows": None}, "which difference shows over 1 prompt is not known"),
    ],
)
def test_says_what_is_known_then(goal: type[Goal], row: dict[str, float | None], says: str) -> None:
    assert goal.known_then(goal.__new__(goal), row, lambda error: f"{error:g}") == says
