"""Whether the worst error is as small as was asked for, told without finding it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.analysis import worst_error
from robin_cli.analysis.level_counts import LevelCounts
from robin_cli.analysis.worst_error import Target
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import RETIRE_AFTER, Scale
from robin_cli.model.space import ArmSpace

SCALES = [[Scale(0, 4), Scale(0, 4)], [Scale(1, 3), Scale(0, 9)]]


@pytest.mark.parametrize("scales", SCALES, ids=["one-scale", "two-scales"])
@pytest.mark.parametrize("guaranteed", [False, True])
@settings(max_examples=10)  # of eight moments each
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 0.9))
def test_is_reached_when_the_error_that_the_status_says_is_at_most_the_target(
    scales: list[Scale], guaranteed: bool, seed: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    space = ArmSpace(["p0", "p1", "p2"], ["a", "b"], ["m"], scales)
    arms, counts = WritableArms(len(space)), LevelCounts(space)
    width = 1.0 if space.has_several_scales else 4.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worst_error, "_ROWS_AT_A_TIME", 2)
        target = Target(space, share * width, counts if guaranteed else None)
        for calls in rng.integers(1, 200, 8).tolist():
            for _ in range(calls):
                arm = int(rng.integers(len(space)))
                scale = space.scale_of(arm)
                rating = (
                    float(rng.integers(scale.low, scale.high + 1))
                    if arm % 2
                    else float(scale.low + 1)
                )
                arms.add_rating(arm, rating)
                counts.add(arm, [rating])
            for _ in range(RETIRE_AFTER * int(rng.integers(0, 2))):
                arms.add_unparsed(0)
            aim = target.aim(arms)
            assert target.is_reached(arms) == (aim.now <= share * width) == aim.reached


@pytest.mark.parametrize("guaranteed", [False, True])
def test_is_not_reached_while_a_score_is_not_known(guaranteed: bool) -> None:
    space = ArmSpace(["p0", "p1"], ["a"], ["m"], [Scale(0, 4)])
    arms, counts = WritableArms(2), LevelCounts(space)
    target = Target(space, 3.9, counts if guaranteed else None)
    assert not target.is_reached(arms)
    for _ in range(50):
        arms.add_rating(0, 2.0)
        counts.add(0, [2.0])
    assert not target.is_reached(arms)
    for _ in range(RETIRE_AFTER):
        arms.add_unparsed(1)
    assert target.is_reached(arms)  # what was given up without a rating has no score to be off
