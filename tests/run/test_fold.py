"""From judgments to numbers where ratings are expectations, and where several judges gave them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.arms import IntArray, WritableArms
from robin_cli.model.outcome import outcome_of
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run.fold import Fold
from robin_cli.run.schema import judgments_table
from tests.run.test_store import judgment

FIVE = Scale(0, 4)
SPACE = ArmSpace(["p0", "p1", "p2"], ["helpfulness"], ["m"], [FIVE])
VALUES = st.lists(
    st.tuples(st.integers(0, 2), st.none() | st.integers(0, 4 * 4096)), min_size=1, max_size=40
)


def folded(arm: IntArray, judgments: pa.Table, scale: Scale = FIVE) -> Fold:
    fold = Fold(replace(SPACE, scales=[scale]))
    fold.add(arm, judgments)
    return fold


@given(VALUES)
def test_sums_are_the_same_in_every_order(values: list[tuple[int, int | None]]) -> None:
    rows = [
        replace(
            judgment(number, pair=arm),
            expected_rating=None if expected is None else expected / 4096,
        )
        for number, (arm, expected) in enumerate(values)
    ]
    arm = np.array([each for each, _ in values])
    together, one_by_one = folded(arm, judgments_table(rows)).arms, WritableArms(3)
    for each, row in sorted(
        zip(arm.tolist(), rows, strict=True), key=lambda pair: -pair[1].received_at
    ):
        one_by_one.add(each, outcome_of([row]))

    assert together.total.tolist() == list(one_by_one.total)
    assert together.total_sq.tolist() == list(one_by_one.total_sq)


def test_says_why_each_arm_was_given_up_and_of_no_other() -> None:
    unread = [judgment(0, status="unparsed", pair=pair) for pair in range(3)]
    rows = [
        judgment(
            0, status="failed", reason="context_length", pair=0
        ),  # which no further call would change
        *(*[unread[1]] * 4, judgment(0, status="failed", reason="timeout", pair=1)),
        *(*[unread[2]] * 4, judgment(0, pair=2), *[unread[2]] * 4),
    ]
    arm = np.array([int(row.pair_id[1:]) for row in rows])
    fold = folded(arm, judgments_table(rows))
    assert fold.reasons == {0: "context_length", 1: "timeout"}
    assert fold.arms.is_retired.tolist() == [True, True, False]
    fold.add(np.array([1, 2]), judgments_table([judgment(0, pair=1), unread[2]]))
    assert fold.reasons == {0: "context_length", 2: "missing"}
