"""Judgments find the arms that they are of, some at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data.texts import Texts
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Scale
from robin_cli.model.space import ArmSpace
from robin_cli.run import lookup
from robin_cli.run.lookup import ArmLookup
from robin_cli.run.schema import judgments_table
from tests.conftest import refuses
from tests.run.test_store import judgment

IDS = st.lists(st.text(max_size=8).filter(str.isprintable), min_size=1, max_size=40, unique=True)


def space_of(ids: Sequence[str], judges: Sequence[str] = ("m",)) -> ArmSpace:
    return ArmSpace(Texts.from_texts(ids), ["helpfulness", "tone"], judges, [Scale(0, 4)] * 2)


@given(data=st.data(), ids=IDS, judges=st.sampled_from([["m"], ["a", "b", "c"]]))
def test_finds_each_judgments_arm_whatever_pairs_are_called(
    data: st.DataObject, ids: list[str], judges: list[str]
) -> None:
    space = space_of(ids, judges)
    arms_of = ArmLookup(space).arms_of
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
        assert arms_of(judgments_table(rows)).tolist() == arms


@pytest.mark.parametrize("bits", [0, 2])
def test_tells_pairs_apart_whose_hashes_are_the_same(
    monkeypatch: pytest.MonkeyPatch, bits: int
) -> None:
    whole = lookup._hashed
    monkeypatch.setattr(lookup, "_hashed", lambda ids: whole(ids) % 2**bits)
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
