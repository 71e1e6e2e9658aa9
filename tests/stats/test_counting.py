"""Numbers are counted where they are small, and sorted where they are not: what comes of it is the same."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.stats.counting import distinct, renumbered

NUMBERS = st.lists(
    st.one_of(st.integers(0, 9), st.integers(-3, 200), st.integers(-(2**62), 2**62)), max_size=60
)


@given(numbers=NUMBERS)
def test_are_those_that_sorting_finds(numbers: list[int]) -> None:
    values = np.array(numbers, dtype=np.int64)
    different, first, which = np.unique(values, return_index=True, return_inverse=True)

    assert distinct(values) == len(different)
    found = renumbered(values)
    assert found[0].tolist() == first.tolist()
    assert found[1].tolist() == which.tolist()
