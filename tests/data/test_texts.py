"""Texts in columns are what a list of them would be, and so are columns of names and of numbers of texts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data.groups import numbered
from robin_cli.data.texts import Texts, numbered_texts
from robin_cli.stats.scores import texts_at

_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


@given(st.lists(_TEXT, max_size=30), st.data())
def test_reads_texts_in_columns_as_a_list_of_them(texts: list[str], data: st.DataObject) -> None:
    found = Texts.from_texts(texts)
    assert (list(found), len(found)) == (texts, len(texts))
    assert found == texts
    assert found == Texts.from_texts(texts)
    assert found != [*texts, "one more"]
    assert found != [*texts[:-1], *(f"{each}another" for each in texts[-1:])] or not texts
    part = data.draw(st.slices(len(texts)))
    assert list(found[part]) == texts[part]
    for at in range(-len(texts), len(texts)):
        assert found[at] == texts[at]


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.data(), st.booleans())
def test_gives_names_by_their_places(names: list[str], data: st.DataObject, as_texts: bool) -> None:
    places = data.draw(
        st.lists(st.integers(0, len(names) - 1), max_size=12) | st.just(list(range(len(names))))
    )
    said = [names[place] for place in places]
    found = texts_at(
        Texts.from_texts(names) if as_texts else names, np.array(places, dtype=np.int64)
    )
    assert list(found) == said
    assert found == said
    assert found != [*said, "a"]
    assert found.column.to_pylist() == said
    assert [found[at] for at in range(len(said))] == said
    part = data.draw(st.slices(len(said)))
    assert list(found[part]) == said[part]


TEXTS = st.none() | st.text("ab é\0", max_size=2)


@given(st.lists(st.lists(TEXTS, max_size=5), max_size=5))
def test_numbers_the_texts_of_all_parts_as_of_one_list(parts: list[list[str | None]]) -> None:
    columns = [pa.array(part, pa.large_string()) for part in parts]
    numbers, names = numbered_texts(lambda: columns, str.upper)
    expected, different = numbered(text or "" for part in parts for text in part)
    assert numbers.tolist() == expected.tolist()
    assert names == [text.upper() for text in different]
