"""Texts that are alike have one number, and numbers rise as texts first appear."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.datasets.texts import numbered_texts
from robin_cli.model.groups import numbered

TEXTS = st.none() | st.text("ab é\0", max_size=2)


@given(st.lists(st.lists(TEXTS, max_size=5), max_size=5))
def test_numbers_the_texts_of_all_parts_as_of_one_list(parts: list[list[str | None]]) -> None:
    columns = [pa.array(part, pa.large_string()) for part in parts]
    numbers, names = numbered_texts(lambda: columns, str.upper)
    expected, different = numbered(text or "" for part in parts for text in part)
    assert numbers.tolist() == expected.tolist()
    assert names == [text.upper() for text in different]
