"""Before ratings repeat, a decision on few levels is in doubt: the ratings look surer than the judge is."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.model.arms import Sums
from robin_cli.model.decision import decision_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.task import Task
from robin_cli.stats.likely_wrong import is_enough_asked, likely_wrong


@pytest.mark.parametrize(("levels", "usual"), [(2, 0.25), (3, 0.125), (5, 16 / 81), (10, 1.0)])
def test_ratings_vary_as_is_usual_for_their_scale(levels: int, usual: float) -> None:
    assert Scale(0, levels - 1).usual_variance == pytest.approx(usual)


def test_one_rating_of_each_pair_by_yes_or_no_leaves_much_wrong() -> None:
    rng, pairs = np.random.default_rng(0), 2_000
    chance = rng.beta(0.5, 0.5, pairs)  # of a yes; most pairs are clear
    ratings = (rng.random(pairs) < chance).astype(np.float64)
    scale = Scale(0, 1)
    space = ArmSpace([str(k) for k in range(pairs)], ["a"], ["j"], [scale])
    task = Task(decision_of("a>=0.5", ["a"], [scale], margin=None, error_rate=None), space)

    stated = likely_wrong(task, Sums(np.ones(pairs), ratings, ratings), np.zeros(pairs, np.bool_))

    margin = task.decision.margins[0]
    wrong = np.where(ratings > 0, chance < 0.5 - margin, chance >= 0.5 + margin).mean()
    assert 0.7 * wrong < stated.mean() < 1.6 * wrong


def test_a_run_ends_once_all_are_rated_and_a_fifth_are_rated_twice() -> None:
    scale = Scale(0, 4)
    space = ArmSpace([str(k) for k in range(11)], ["a"], ["j"], [scale])
    task = Task(decision_of("a>=2", ["a"], [scale], margin=None, error_rate=None), space)
    gone = np.arange(11) == 10
    counts = np.array([2, 2, *[1] * 8, 0])
    assert is_enough_asked(task, counts, gone)
    assert not is_enough_asked(task, counts, np.zeros(11, np.bool_)), "one may still be rated"
    assert not is_enough_asked(task, np.minimum(counts, [2, *[1] * 10]), gone), "one was repeated"
