"""Whether the worst error is as small as was asked for, told without finding it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.analysis.worst_error import has_reached, worst_error
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import RETIRE_AFTER, Scale
from robin_cli.model.space import ArmSpace

SCALES = [[Scale(0, 4), Scale(0, 4)], [Scale(1, 3), Scale(0, 9)]]


@pytest.mark.parametrize("scales", SCALES, ids=["one-scale", "two-scales"])
@settings(max_examples=10)  # of eight moments each
@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0.01, 0.9))
def test_is_reached_when_the_error_that_the_status_says_is_at_most_the_target(
    scales: list[Scale], seed: int, share: float
) -> None:
    rng = np.random.default_rng(seed)
    space = ArmSpace(["p0", "p1", "p2"], ["a", "b"], ["m"], scales)
    arms = WritableArms(len(space))
    width = 1.0 if space.has_several_scales else 4.0
    for calls in rng.integers(1, 200, 8).tolist():
        for _ in range(calls):
            arm = int(rng.integers(len(space)))
            scale = space.scale_of(arm)
            rating = rng.integers(scale.low, scale.high + 1) if arm % 2 else scale.low + 1
            arms.add_rating(arm, float(rating))
        for _ in range(RETIRE_AFTER * int(rng.integers(0, 2))):
            arms.add_unparsed(0)
        now = worst_error(space, arms.read_only())
        assert has_reached(space, arms.read_only(), share * width) == (now <= share * width)


def test_is_not_reached_while_a_score_is_not_known() -> None:
    space = ArmSpace(["p0", "p1"], ["a"], ["m"], [Scale(0, 4)])
    arms = WritableArms(2)
    assert not has_reached(space, arms.read_only(), 3.9)
    for _ in range(50):
        arms.add_rating(0, 2.0)
    assert not has_reached(space, arms.read_only(), 3.9)
    for _ in range(RETIRE_AFTER):
        arms.add_unparsed(1)
    # What was given up without a rating has no score to be off.
    assert has_reached(space, arms.read_only(), 3.9)
