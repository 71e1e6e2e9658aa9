"""Judgments find the arms that they are of, some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data.texts import Texts
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run import seen
from robin_cli.run.lookup import CALLS_OF_AN_ARM, ArmLookup, Draws
from robin_cli.run.schema import judgments_table
from robin_cli.run.seen import Seen
from tests.conftest import refuses
from tests.run.test_store import judgment

IDS = st.lists(st.text(max_size=8).filter(str.isprintable), min_size=1, max_size=40, unique=True)


def space_of(ids: Sequence[str], judges: Sequence[str] = ("m",)) -> ArmSpace:
    return ArmSpace(Texts.of(ids), ["helpfulness", "tone"], judges, [Scale(0, 4)] * 2)


@given(data=st.data(), ids=IDS, judges=st.sampled_from([["m"], ["a", "b", "c"]]))
def test_finds_each_judgments_arm_whatever_pairs_are_called(
    data: st.DataObject, ids: list[str], judges: list[str]
) -> None:
    space = space_of(ids, judges)
    lookup = ArmLookup(space)
    for _ in range(2):  # a run is read in parts
        arms = data.draw(st.lists(st.integers(0, len(space) - 1), max_size=60))
        rows = [
            replace(
                judgment(0),
                pair_id=ids[space.pair[arm]],
                attribute=space.attribute_of(arm),
                judge=space.judge_of(arm),
            )
            for arm in arms
        ]
        assert lookup.arms_of(judgments_table(rows)).tolist() == arms


@pytest.mark.parametrize("bits", [0, 2])
def test_tells_pairs_apart_whose_hashes_are_the_same(
    monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    whole = seen._hashed
    monkeypatch.setattr(seen, "_hashed", lambda ids: whole(ids) % np.uint64(2**bits) + np.uint64(1))
    ids = [f"p{number}" for number in range(20)]
    space = space_of(ids)
    asked = [19, 3, 3, 0, 12]
    table = judgments_table([judgment(0, pair=pair) for pair in asked])

    assert ArmLookup(space).arms_of(table).tolist() == [2 * pair for pair in asked]


@pytest.mark.parametrize(
    ("name", "value"), [("pair_id", "p2"), ("attribute", "wit"), ("judge", "d")]
)
def test_refuses_judgments_of_what_the_run_does_not_have(name: str, value: str) -> None:
    table = judgments_table([judgment(0)])
    at = table.schema.get_field_index(name)
    changed = table.set_column(at, table.schema.field(name), pa.array([value]))

    refuses(
        StorageError,
        "not of one run",
        ArmLookup(space_of(["p0", "p1"], ["a", "b"])).arms_of,
        changed,
    )


def test_knows_of_every_call_whether_it_came_before() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        draws, seen = Draws(np.zeros(3, np.int64)), set[tuple[int, int]]()
        for _ in range(12):
            arm, draw = rng.integers(0, 3, 9), rng.integers(0, 5 + 40 * (seed % 2), 9)
            wanted = []
            for call in zip(arm.tolist(), draw.tolist(), strict=True):
                wanted.append(call not in seen)
                seen.add(call)
            assert draws.first(arm, draw).tolist() == wanted
        begin, end = draws.missing
        missing = {
            number
            for each in zip(begin.tolist(), end.tolist(), strict=True)
            for number in range(*each)
        }
        calls = {
            arm * CALLS_OF_AN_ARM + draw for arm in range(3) for draw in range(draws.next[arm])
        }
        assert missing == calls - {arm * CALLS_OF_AN_ARM + draw for arm, draw in seen}


@given(
    st.lists(st.lists(st.text("ab", max_size=3), max_size=8), max_size=8),
    st.sampled_from([1, 2, 64]),
)
def test_finds_each_id_that_there_was(parts: list[list[str]], smallest: int) -> None:
    with patch.object(seen, "_SMALLEST", smallest):
        known, rows = Seen(), dict[str, int]()
        for part in parts:
            found = known.find(part).tolist()
            assert found == [rows.get(each, -1) for each in part]
            new = [each for each in dict.fromkeys(part) if each not in rows]
            known.add(new, len(rows))
            rows |= {each: len(rows) + at for at, each in enumerate(new)}
        assert known.find(list(rows)).tolist() == list(rows.values())
