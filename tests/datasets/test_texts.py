"""Texts in columns are what a list of them would be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from robin_cli.datasets.texts import Texts

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(_TEXT, max_size=30), st.data())
def test_reads_texts_in_columns_as_a_list_of_them(texts: list[str], data: st.DataObject) -> None:
    found = Texts.of(texts)
    assert (list(found), len(found)) == (texts, len(texts))
    assert found == texts
    assert found == Texts.of(texts)
    assert found != [*texts, "one more"]
    assert found != [*texts[:-1], *(f"{each}another" for each in texts[-1:])] or not texts
    part = data.draw(st.slices(len(texts)))
    assert list(found[part]) == texts[part]
    for at in range(-len(texts), len(texts)):
        assert found[at] == texts[at]
