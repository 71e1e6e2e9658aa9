"""Pairs in columns are what a list of them would be, wherever their texts lie."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.data import spool
from robin_cli.data.growing_table import GrowingTable
from robin_cli.data.pair_table import PairTable
from robin_cli.data.spool import Spool
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair

TEXT = st.text("ab é\n", max_size=6)
PAIRS = st.builds(
    Pair,
    pair_id=TEXT,
    prompt=TEXT,
    response=TEXT,
    human=st.dictionaries(st.sampled_from(["x", "y"]), st.floats(0, 4), max_size=2),
    reference=st.none() | TEXT,
    group=st.none() | TEXT,
    columns=st.dictionaries(st.sampled_from(["t", "u"]), TEXT.filter(bool), max_size=2),
    other=st.none() | TEXT,
)


@given(
    st.lists(st.lists(PAIRS, min_size=1, max_size=4), max_size=6),
    st.sampled_from([0, 500, 2**25]),
    st.data(),
)
def test_gives_pairs_back_from_memory_and_disk(
    parts: list[list[Pair]], small: int, data: st.DataObject
) -> None:
    with patch.object(spool, "_SMALL_BYTES", small):
        growing = GrowingTable()
        kept: list[Pair] = []
        for part in parts:
            growing.add_pairs(part)
            kept += part
            at = data.draw(st.integers(0, len(kept) - 1))
            assert growing[at] == kept[at]
        table = growing.table()
        assert table == kept
        for at in range(-len(kept), len(kept)):
            assert table[at] == kept[at]
        with pytest.raises(IndexError):
            table[len(kept)]
        assert list(table.ids) == [pair.pair_id for pair in kept]
        assert table.attributes == sorted({name for pair in kept for name in pair.human})
        for name in table.attributes:
            ratings = table.human(name).tolist()
            assert [None if each != each else each for each in ratings] == [
                pair.human.get(name) for pair in kept
            ]
        assert table.empty == sum(not pair.response or pair.other == "" for pair in kept)
        again = PairTable.from_pairs(table.table.to_batches() and list(table))
        assert again.table.equals(table.table)
        assert growing.table(without={"t"}).columns.column_names == [
            name for name in table.columns.column_names if name != "t"
        ]


def test_takes_the_human_ratings_of_another_name() -> None:
    rated: list[dict[str, float]] = [{"x": 1.0, "y": 2.0}, {"y": 3.0}, {"z": 4.0}]
    pairs = [Pair(f"{at}", "p", "r", ratings) for at, ratings in enumerate(rated)]
    table = PairTable.from_pairs(pairs).with_ratings({"z": "x", "w": "y", "v": "nobody's"})
    wanted = [{"x": 1.0, "y": 2.0, "z": 1.0, "w": 2.0}, {"y": 3.0, "w": 3.0}, {"z": 4.0}]
    assert [pair.human for pair in table] == wanted
    assert table.attributes == ["w", "x", "y", "z"]
    assert [table[at] for at in range(3)] == list(table)
    assert table.human("z")[[0, 2]].tolist() == [1.0, 4.0]
    both = table.table.select(["w", "z"]).to_pydict()
    assert both == {"w": [2.0, 3.0, None], "z": [1.0, None, 4.0]}


@pytest.mark.parametrize(
    ("values", "joined"),
    [
        ([1, 0.5], [1.0, 0.5]),
        ([2**60, 0.5], [str(2**60), "0.5"]),
        ([1, "x"], ["1", "x"]),
        ([True, None, 1], ["true", None, "1"]),
        ([None, 7], [None, 7]),
    ],
)
def test_joins_further_columns_whose_type_changes(values: list[Any], joined: list[Any]) -> None:
    growing = GrowingTable()
    for at, value in enumerate(values):
        columns = {} if value is None else {"x": value}
        growing.add_pairs([Pair(str(at), "p", "r", columns=columns)])
    assert growing.table().column("x") == joined


def test_leaves_nothing_where_texts_lay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    rows = Spool()
    rows.add(pa.record_batch({"a": ["x" * 5000]}))
    assert rows.row(0) == {"a": "x" * 5000}
    assert list(tmp_path.iterdir()) == []  # nor while they are there: the file has no name


def test_says_where_there_is_no_room_for_texts() -> None:
    rows = Spool()
    said = r"cannot be put there \(No space left on device\); make room, or .*TMPDIR"
    on_disk = patch.multiple(spool, _SMALL_BYTES=0, _on_disk=_Full)
    with pytest.raises(InputError, match=said), on_disk:
        rows.add(pa.record_batch({"a": ["x"]}))


class _Full:
    closed = False

    def tell(self) -> int:
        return 0

    def seek(self, _offset: int) -> int:
        return 0

    def write(self, _data: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def close(self) -> None:
        pass

    def writable(self) -> bool:
        return True


def test_holds_no_texts_in_memory(tmp_path: Path) -> None:
    count = 50_000
    texts = pa.array([f"{number} " * 180 for number in range(count)])
    pq.write_table(
        pa.table({"prompt": texts, "response": texts, "helpfulness": [3] * count}),
        tmp_path / "p.parquet",
    )
    script = (
        "import resource, sys; from robin_cli.data.pairs import load_pairs;"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss; pairs = load_pairs(sys.argv[1]).pairs;"
        "assert [len(pairs[at].prompt) > 100 for at in range(0, 50_000, 7)].count(False) < 100;"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, pairs.table.nbytes)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, "p.parquet"], capture_output=True, cwd=tmp_path, check=True
    )
    grown_kib, texts_bytes = map(int, done.stdout.split())
    assert texts_bytes > 100e6
    assert grown_kib < 95_000, json.dumps({"grown MiB": grown_kib / 1024})
