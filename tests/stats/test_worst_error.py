"""When the expected error of the worst score is as small as was asked for."""

from __future__ import annotations

from robin_cli.goals.watching import ErrorWatch
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import RETIRE_AFTER, Scale
from robin_cli.model.space import ArmSpace


def test_is_not_reached_while_a_score_is_not_known() -> None:
    watch = ErrorWatch(ArmSpace(["p0", "p1"], ["a"], ["m"], [Scale(0, 4)]), 3.9)
    arms = WritableArms(2)
    assert not watch.is_over(arms.read_only())
    for _ in range(50):
        arms.add_rating(0, 2.0)
    assert not watch.is_over(arms.read_only())
    for _ in range(RETIRE_AFTER):
        arms.add_unparsed(1)
    # What was given up without a rating has no score to be off.
    assert watch.is_over(arms.read_only())
