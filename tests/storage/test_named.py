"""Columns of names by number are what a list of them would be."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.datasets.texts import Texts
from robin_cli.storage.named import Named


@given(st.lists(st.text("ab", max_size=3), min_size=1, max_size=5), st.data(), st.booleans())
def test_gives_names_by_their_places(names: list[str], data: st.DataObject, as_texts: bool) -> None:
    places = data.draw(st.lists(st.integers(0, len(names) - 1), max_size=12) | st.just(list(range(len(names)))))
    said = [names[place] for place in places]
    found = Named(Texts.of(names) if as_texts else names, np.array(places, dtype=np.int64))
    assert list(found) == said
    assert found == said
    assert found != [*said, "a"]
    assert found.column.to_pylist() == said
    assert np.array(found).tolist() == said
    assert [found[at] for at in range(len(said))] == said
    part = data.draw(st.slices(len(said)))
    assert list(found[part]) == said[part]
