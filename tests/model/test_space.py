from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace


def space(pairs: int, attributes: int, judges: int) -> ArmSpace:
    scales = [Scale(0, 4 + number % 2) for number in range(attributes)]
    return ArmSpace(
        [f"p{k}" for k in range(pairs)],
        [f"a{k}" for k in range(attributes)],
        [f"j{k}" for k in range(judges)],
        scales,
    )


@given(st.integers(1, 5), st.integers(1, 4), st.integers(1, 4))
def test_finds_an_arm_by_its_coordinates_and_coordinates_by_the_arm(
    pairs: int, attributes: int, judges: int
) -> None:
    arms = space(pairs, attributes, judges)
    # pair by pair
    every = [(p, a, j) for p in range(pairs) for a in range(attributes) for j in range(judges)]
    assert len(arms) == len(every)
    assert list(zip(arms.pair, arms.attribute, arms.judge, strict=True)) == every
    assert arms.arm_at(arms.pair, arms.attribute, arms.judge).tolist() == list(range(len(every)))
    assert [int(arms.arm_at(*at)) for at in every] == list(range(len(every)))
    assert [arm for pair in range(pairs) for arm in arms.arms_of_pair(pair)] == list(
        range(len(every))
    )
    assert all(set(arms.pair[list(arms.arms_of_pair(pair))]) == {pair} for pair in range(pairs))


def test_lays_the_judges_of_a_pair_and_attribute_beside_each_other() -> None:
    arms = space(3, 2, 2)
    beside = arms.by_rater(np.arange(12))
    assert beside.shape == (6, 2)
    assert [set(arms.judge[beside[:, judge]]) for judge in range(2)] == [{0}, {1}]
    assert (arms.pair[beside[:, 0]] == arms.pair[beside[:, 1]]).all()
    assert arms.row_of(beside).tolist() == [[row, row] for row in range(6)]
    assert arms.row_of(np.array([-1, 11])).tolist() == [-1, 5]


def test_names_an_arm_by_what_there_are_several_of() -> None:
    for attributes, judges, label, name in (
        (1, 1, "a0", "p1"),
        (2, 1, "a0", "p1 · a0"),
        (1, 2, "j0", "p1 · j0"),
        (2, 2, "a0 · j0", "p1 · a0 · j0"),
    ):
        arms = space(2, attributes, judges)
        first = arms.arms_of_pair(1)[0]
        assert (arms.label(first), arms.name(first)) == (label, name), (attributes, judges, label)


def test_counts_errors_in_points_of_one_scale_and_in_shares_of_several() -> None:
    one, two = space(2, 1, 1), space(2, 2, 1)
    assert (one.has_several_scales, two.has_several_scales) == (False, True)
    assert one.units.tolist() == [1.0, 1.0]
    assert two.units.tolist() == [4.0, 5.0, 4.0, 5.0]
    assert [each.tolist() for each in two.ends] == [[0.0] * 4, [4.0, 5.0, 4.0, 5.0]]
    assert [(scale, arms.tolist()) for scale, arms in two.by_scale()] == [
        (Scale(0, 4), [0, 2]),
        (Scale(0, 5), [1, 3]),
    ]
