"""Which arms a decision hangs on."""

from __future__ import annotations

import numpy as np
import pytest

from robin_cli.model.decision import decision_of
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.policies.task import Task


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([1_001, 2], "a group has 1,001 responses, and at most 1,000 can be compared"),
        (
            [1_000, *[2] * 20_000],
            "the largest of 20,001 groups has 1,000 responses, the others 2.0 on average",
        ),
    ],
)
def test_refuses_groups_whose_comparison_would_take_all_memory(sizes: list[int], said: str) -> None:
    group = np.repeat(np.arange(len(sizes)), sizes)
    space = ArmSpace([str(pair) for pair in range(len(group))], ["a"], ["j"], [Scale(0, 4)])
    decision = decision_of("best", ["a"], [Scale(0, 4)], margin=None, error_rate=0.05)

    with pytest.raises(InputError, match=said):
        _ = Task(decision, space, group).contests


def test_compares_groups_that_are_a_little_unequal() -> None:
    group = np.repeat(np.arange(4), [1_000, 2, 1, 2])
    space = ArmSpace([str(pair) for pair in range(len(group))], ["a"], ["j"], [Scale(0, 4)])
    decision = decision_of("best", ["a"], [Scale(0, 4)], margin=None, error_rate=0.05)

    assert (Task(decision, space, group).contests >= 0).sum(axis=(1, 2)).tolist() == [
        1_000,
        2,
        2,
        1,
    ]
