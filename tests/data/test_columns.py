"""Further columns of the data: kept beside the pairs, as they came, and within bounds."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import robin_cli
from robin_cli.data.pairs import load_pairs, pair_id_of
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair, as_text
from robin_cli.run.reader import read_run
from robin_cli.run.writer import RunWriter
from tests.conftest import has
from tests.data.writing import (
    WRITERS,
    as_csv,
    as_lines,
    columns_of,
    complaint,
    read,
    refused,
    written,
)
from tests.run.test_store import manifest

Row = Mapping[str, Any]


def row(**more: Any) -> dict[str, Any]:
    return {"prompt": "p", "response": "r", **more}


SYSTEMS: list[Row] = [
    row(id="a", model="small", tokens=3, cost=0.5, safe=True, helpfulness=1),
    {**row(id="b", model="large", tokens=None, cost=2.0, safe=False), "response": "s"},
]


def kept(folder: Path, *rows: Row, suffix: str = ".jsonl", **options: Any) -> list[dict[str, Any]]:
    numbered = [{"id": f"{at}", **each} for at, each in enumerate(rows)]
    path = written(folder, f"pairs{suffix}", WRITERS[suffix](numbered))
    return [columns_of(pair) for pair in load_pairs(path, **options).pairs]


def stored(folder: Path, pairs: Sequence[Pair]) -> Path:
    RunWriter.create(folder / "r", manifest(budget=len(pairs)), pairs).close()
    return folder / "r"


@pytest.mark.parametrize("suffix", sorted(WRITERS))
def test_keeps_what_else_the_rows_hold_whatever_the_format(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path, f"pairs{suffix}", WRITERS[suffix](SYSTEMS))
    found = [
        {name: as_text(value) for name, value in pair.columns.items()}
        for pair in load_pairs(path).pairs
    ]
    words = {"True": "true", "False": "false", "2.0": "2"}  # CSV has texts as they were written
    assert [{name: words.get(text, text) for name, text in each.items()} for each in found] == [
        {"model": "small", "tokens": "3", "cost": "0.5", "safe": "true"},
        {"model": "large", "cost": "2", "safe": "false"},
    ]
    run = read_run(stored(tmp_path, load_pairs(path).pairs))
    assert list(run.column_names) == ["model", "tokens", "cost", "safe"]
    assert run.column("model") == ["small", "large"]
    assert run.column("tokens") == ["3", None]
    assert [columns_of(pair) for pair in run.pairs] == [
        columns_of(pair) for pair in load_pairs(path).pairs
    ]


def test_names_the_columns_of_lists_that_it_does_not_keep(tmp_path: Path) -> None:
    rows = [row(tags=["x"], none=[], people=[{"tone": 3}], chosen=["q"], messages=[{"x": 1}])]
    data = read(tmp_path, rows, columns={"tone": "people.tone"})
    assert data.columns_left_out == ('not kept: columns "tags", "chosen" (lists)',)


def test_names_what_lies_in_objects_with_dots_and_leaves_lists_out(tmp_path: Path) -> None:
    deep = {
        "a": {"b": {"c": {"d": 1, "x": {"y": 1}}, "e": 2}},
        "list": [1],
        "objects": [{"x": 1}],
        "none": None,
        "no": {},
    }
    assert kept(tmp_path, row(**deep), row(**deep, **{"a.b.e": 3})) == [
        {"a.b.c.d": 1, "a.b.e": 2},
        {"a.b.c.d": 1, "a.b.e": 3},  # what is called so comes first
    ]


NAMES = st.text("ab.é ", max_size=4)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=80),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def flat(row: Mapping[str, Any], prefix: str = "", depth: int = 4) -> dict[str, Any]:
    """What is to be kept of a row, by names with dots."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, dict):
            inner = (
                flat(value, f"{prefix}{name}.", depth - 1) if depth > 1 and prefix + name else {}
            )
            found |= {leaf: each for leaf, each in inner.items() if prefix or leaf not in row}
        elif (
            prefix + name
            and not isinstance(value, list)
            and value not in (None, "")
            and value == value
        ):
            big = type(value) is int and value >= 2**63
            found[prefix + name] = str(value) if big else value
    return found


def together(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows as a run gives them back: columns that hold several kinds of values hold texts."""
    kinds: dict[str, set[type]] = {}
    for name, value in ((name, value) for row in rows for name, value in row.items()):
        kinds.setdefault(name, set()).add(type(value))
    exact = {
        name
        for name, found in kinds.items()
        if found == {int, float}
        and all(abs(row.get(name, 0)) <= 2**53 for row in rows if type(row.get(name)) is int)
    }
    whole = {name for name, found in kinds.items() if len(found) == 1} | exact
    return [
        {name: value if name in whole else as_text(value) for name, value in row.items()}
        for row in rows
    ]


@given(rows=st.lists(st.dictionaries(NAMES, VALUES, max_size=4), min_size=1, max_size=6))
@example([{"a": 1}, {"a": 0.5}, {"a": 2**53 + 1}])
@example([{"a": {"b": {"a": {"b": 1, "a": {"b": 2}}}}, "a.b": [1]}, {"": {"a": 1}, "b": ""}])
@example([{"a": True}, {"a": 1}, {"a": "x"}, {"a": float("inf")}])
def test_gives_any_rows_back_as_they_came(rows: list[dict[str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        numbered = [row(id=f"{at}", **each) for at, each in enumerate(rows)]
        pairs = load_pairs(written(folder, "pairs.jsonl", as_lines(numbered))).pairs
        assert [columns_of(pair) for pair in pairs] == together([flat(each) for each in rows])
        run = read_run(stored(folder, pairs))
        assert [columns_of(pair) for pair in run.pairs] == together([flat(each) for each in rows])
        for each in run.column_names:
            texts = [
                as_text(pair.columns[each]) if each in pair.columns else None for pair in run.pairs
            ]
            assert run.column(each) == texts
        assert (folder / "r" / "columns.parquet").exists() == any(map(flat, rows))


TYPED = {
    "text": st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    "whole": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(),
    "flag": st.booleans(),
}


@settings(max_examples=12, deadline=None)
@given(
    rows=st.lists(
        st.fixed_dictionaries({name: st.none() | each for name, each in TYPED.items()}), min_size=1
    )
)
def test_gives_the_columns_of_any_table_back(rows: list[dict[str, Any]]) -> None:
    types = {"text": pa.string(), "whole": pa.int64(), "number": pa.float64(), "flag": pa.bool_()}
    table = {name: pa.array([each[name] for each in rows], kind) for name, kind in types.items()}
    table["text"] = table["text"].dictionary_encode()  # as pandas writes categories
    table["in"] = pa.StructArray.from_arrays([table["whole"], table["flag"]], ["whole", "flag"])
    sink = io.BytesIO()
    texts = pa.array([f"p{at}" for at in range(len(rows))])
    pq.write_table(pa.table({"prompt": texts, "response": texts, **table}), sink, row_group_size=3)
    with tempfile.TemporaryDirectory() as name:
        pairs = load_pairs(written(Path(name), "pairs.parquet", sink.getvalue())).pairs
        run = read_run(stored(Path(name), pairs))
        wanted = [
            flat({**each, "in": {"whole": each["whole"], "flag": each["flag"]}}) for each in rows
        ]
        assert [columns_of(pair) for pair in pairs] == wanted
        assert [columns_of(pair) for pair in run.pairs] == wanted


def test_keeps_times_as_iso_texts_and_decimals_as_numbers(tmp_path: Path) -> None:
    noon = datetime(2024, 5, 6, 12, 0, 0, 250_000, tzinfo=UTC)
    table = {
        "day": pa.array([date(2024, 5, 6)]),
        "at": pa.array([noon], pa.timestamp("us", "Europe/Paris")),
        "local": pa.array([noon.replace(tzinfo=None, microsecond=0)], pa.timestamp("ns")),
        "hour": pa.array([time(7, 30)]),
        "never": pa.array([2**62]).cast(pa.timestamp("us")),
        "cost": pa.array([Decimal("0.25")]),
        "id_number": pa.array([Decimal(10**30)]),
        "bytes": pa.array([b"x"]),
        "took": pa.array([5], pa.duration("s")),
        "vector": pa.array([[0.5] * 4]),
        "big": pa.array([2**64 - 1], pa.uint64()),
        "meta": pa.array([{"seen": noon.replace(tzinfo=None), "list": [1]}]),
    }
    sink = io.BytesIO()
    pq.write_table(pa.table({"prompt": ["p"], "response": ["r"], **table}), sink)
    (pair,) = load_pairs(written(tmp_path, "pairs.parquet", sink.getvalue())).pairs
    assert columns_of(pair) == {
        "day": "2024-05-06", "at": "2024-05-06T12:00:00.250000Z", "local": "2024-05-06T12:00:00",
        "hour": "07:30:00", "never": f"<value out of range: {2**62}>", "cost": 0.25, "id_number": str(10**30),
        "big": str(2**64 - 1), "meta.seen": "2024-05-06T12:00:00.250000",
    }  # fmt: skip


def test_keeps_the_columns_of_frames_and_of_pairs_made_by_hand(tmp_path: Path) -> None:
    frame = pd.DataFrame(SYSTEMS)
    pairs = robin_cli.load_pairs(frame)
    assert [pair.columns["model"] for pair in pairs] == ["small", "large"]
    given_: dict[str, Any] = {"attribute": "helpfulness", "budget": 9, "judge": rate, "quiet": True}
    run = robin_cli.judge(frame, run=str(tmp_path / "frame"), **given_)
    assert read_run(run.path).column("model") == ["small", "large"]
    own = {"odd": [1], "system": "mine", "big": 10**30, "none": None, "whole": 3}
    made = robin_cli.judge([Pair("a", "p", "r", columns=own)], run=str(tmp_path / "own"), **given_)  # type: ignore[arg-type]
    assert read_run(made.path).pairs[0].columns == {
        "system": "mine",
        "big": str(10**30),
        "whole": 3,
    }
    with pytest.raises(InputError, match="made with other settings"):
        robin_cli.judge(
            [Pair("a", "p", "r", columns={"system": "else"})], run=str(tmp_path / "own"), **given_
        )


def rate(_messages: list[Mapping[str, str]]) -> str:
    return "Feedback: fine.\nRating: 3"


def test_takes_a_field_as_the_system_that_answered(tmp_path: Path) -> None:
    rows = [
        row(model={"name": "small", "size": 7}, system="a prompt"),
        row(model={"name": 4}, prompt="q"),
    ]
    path = written(tmp_path, "pairs.jsonl", as_lines(rows))
    data = load_pairs(path, columns={"system": "model.name"})
    assert [columns_of(pair) for pair in data.pairs] == [
        {"system": "small", "model.size": 7},
        {"system": "4"},
    ]
    assert data.columns_left_out == (
        'not kept: column "system" (another field is mapped to "system")',
    )
    assert [pair.human for pair in data.pairs] == [{}, {}]
    assert [columns_of(pair) for pair in load_pairs(path, columns={"system": "-"}).pairs][1] == {
        "model.name": "4"
    }


@pytest.mark.parametrize("suffix", [".jsonl", ".csv", ".parquet"])
def test_refuses_rows_without_the_system_that_was_named(tmp_path: Path, suffix: str) -> None:
    path = written(
        tmp_path, f"pairs{suffix}", WRITERS[suffix]([row(model="small"), row(prompt="q", model="")])
    )
    said = complaint(path, columns={"system": "model"})
    assert (
        'the system in field "model" is null or empty. Name the system, or leave such rows out'
        in said
    )
    assert load_pairs(path, columns={"system": "model"}, skip_bad_rows=True).left_out == {
        "no system": 1
    }
    said = complaint(path, columns={"system": "modle"})
    has(said, 'no field "modle" (--columns system=modle)', "--columns system=model")
    said = complaint(path, columns={"sytem": "modle"})
    assert 'no field "modle" (--columns sytem=modle; did you mean "system"?)' in said
    path = written(tmp_path, "q.jsonl", as_lines([{"question": "q", "response": "r"}]))
    assert "did you mean prompt=question?" in complaint(path, columns={"question": "prompt"})
    data = written(tmp_path, "x.jsonl", as_lines([row(model=0.5)]))
    assert "is a number, not text or a whole number" in complaint(data, columns={"system": "model"})


def test_keeps_what_is_named_twice_or_not_taken(tmp_path: Path) -> None:
    both = row(pair_id="a", id=7, reference=42, messages="none", set="x")
    path = written(tmp_path, "pairs.jsonl", as_lines([both]))
    (pair,) = load_pairs(path, group="set").pairs
    assert (pair.pair_id, pair.reference, pair.group) == ("a", None, "x")
    assert columns_of(pair) == {"id": 7, "reference": 42, "messages": "none", "set": "x"}
    (pair,) = load_pairs(path, columns={"prompt": "messages", "id": "-", "set": "-"}).pairs
    assert columns_of(pair) == {"prompt": "p", "reference": 42}
    path = written(tmp_path, "text.jsonl", as_lines([row(answer="gold", reference="gold")]))
    # also where the text is another column's, too
    assert columns_of(load_pairs(path).pairs[0]) == {"answer": "gold"}
    path = written(tmp_path, "text.jsonl", as_lines([row(reference="gold", x={"y": 1})]))
    (pair,) = load_pairs(path).pairs
    assert (pair.reference, columns_of(pair)) == ("gold", {"x.y": 1})


def test_keeps_the_rest_of_rows_with_conversations_and_axes(tmp_path: Path) -> None:
    chat = {
        "messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}],
        "model": "m",
    }
    axes = {
        "info": {"id": "t3", "post": "p", "title": "T"},
        "summary": {"text": "s", "policy": "sup2", "axes": {"overall": 3, "note": "n"}},
        "worker": "w",
    }
    path = written(tmp_path, "pairs.jsonl", as_lines([chat, axes, {**axes, "worker": "v"}]))
    first, second = load_pairs(path).pairs
    assert columns_of(first) == {"model": "m"}
    assert columns_of(second) == {
        "info.id": "t3", "info.title": "T", "summary.policy": "sup2", "summary.axes.note": "n", "worker": "w"
    }  # fmt: skip


def test_leaves_out_columns_beyond_what_a_run_keeps_and_says_so(tmp_path: Path) -> None:
    rows = [row(id=f"{at}", system="s", **{f"name {at}": at}) for at in range(300)]
    data = load_pairs(written(tmp_path, "pairs.jsonl", as_lines(rows)))
    assert len({name for pair in data.pairs for name in pair.columns}) == 256
    assert data.columns_left_out == (
        'not kept: columns "name 255", "name 256", "name 257" and others (at most 256 further columns are kept)',
    )
    wide = written(tmp_path, "pairs.csv", as_csv([{name: "x" for each in rows for name in each}]))
    data = load_pairs(wide)
    assert len(data.pairs[0].columns) == 256
    assert "at most 256 further columns are kept" in data.columns_left_out[0]


def test_leaves_out_a_column_with_a_long_text_from_all_rows(tmp_path: Path) -> None:
    rows = [
        row(id="a", page="short", model="m"),
        row(id="b", page="x" * (32 * 2**10 + 1)),
        row(id="c", page="y"),
    ]
    for suffix in (".jsonl", ".csv", ".parquet"):
        path = written(
            tmp_path,
            f"pairs{suffix}",
            WRITERS[suffix]([{"page": "", "model": "", **each} for each in rows]),
        )
        data = load_pairs(path)
        assert [columns_of(pair) for pair in data.pairs] == [{"model": "m"}, {}, {}]
        assert data.columns_left_out == (
            'not kept: column "page" (a text of more than 32,768 characters)',
        )
    rows[1]["page"] = "é" * 32 * 2**10
    assert [len(each.get("page", "")) for each in kept(tmp_path, *rows)] == [5, 32 * 2**10, 1]


def test_refuses_texts_that_cannot_be_stored_and_leaves_such_names_out(tmp_path: Path) -> None:
    path = written(
        tmp_path, "pairs.jsonl", b'{"prompt": "p", "response": "r", "x": {"y": "\\ud800"}}\n'
    )
    said = 'pairs.jsonl:1: field "x.y" holds half of a surrogate pair (\\ud800), which no UTF-8 file can store. Correct'
    assert complaint(path).startswith(said)
    name = json.dumps({"\ud800": 1, "x" * 300: 2, "z": 3})[1:-1]
    path = written(
        tmp_path, "pairs.jsonl", f'{{"prompt": "p", "response": "r", {name}}}\n'.encode()
    )
    data = load_pairs(path)
    assert columns_of(data.pairs[0]) == {"z": 3}
    has(data.columns_left_out[0], '"\\ud800", "xxx', "(a name that is too long, or no UTF-8)")


def test_keeps_no_column_whose_name_stands_twice(tmp_path: Path) -> None:
    data = load_pairs(written(tmp_path, "pairs.csv", b"prompt,response,x,y,x,,\np,r,1,2,3,4,5\n"))
    assert columns_of(data.pairs[0]) == {"y": "2"}
    assert data.columns_left_out == ('not kept: column "x" (two of this name)',)
    sink = io.BytesIO()
    pq.write_table(
        pa.table([["p"], ["r"], [1], [2], [3]], ["prompt", "response", "x", "y", "x"]), sink
    )
    data = load_pairs(written(tmp_path, "pairs.parquet", sink.getvalue()))
    assert columns_of(data.pairs[0]) == {"y": 2}
    assert data.columns_left_out == ('not kept: column "x" (two of this name)',)


def bytes_of(path: Path, column: str) -> slice:
    """Where the bytes of a column of a Parquet file are."""
    group = pq.ParquetFile(path).metadata.row_group(0)
    (chunk,) = (
        group.column(at)
        for at in range(group.num_columns)
        if group.column(at).path_in_schema.startswith(column)
    )
    start = chunk.dictionary_page_offset or chunk.data_page_offset
    return slice(start, start + chunk.total_compressed_size)


def test_reads_no_vectors_and_no_bytes(tmp_path: Path) -> None:
    rows = [row(id=f"{at}", vector=[0.5] * 64, image=b"PNG" * 99, model="m") for at in range(50)]
    path = written(tmp_path, "pairs.parquet", WRITERS[".parquet"](rows))
    data = bytearray(path.read_bytes())
    for column in ("vector", "image"):
        place = bytes_of(path, column)
        data[place] = b"\xff" * (place.stop - place.start)
    assert [
        columns_of(pair)
        for pair in load_pairs(written(tmp_path, "damaged.parquet", bytes(data))).pairs
    ] == [{"model": "m"}] * 50


def test_two_systems_may_give_one_answer_and_each_is_a_pair(tmp_path: Path) -> None:
    rows = [
        {"prompt": "2 + 2?", "response": "4", "model": model}
        for model in ("large", "small", "large-2")
    ]
    pairs = read(tmp_path, rows, columns={"system": "model"}).pairs
    assert [pair.columns["system"] for pair in pairs] == ["large", "small", "large-2"]
    assert len({pair.pair_id for pair in pairs}) == 3
    assert pairs[0].pair_id == pair_id_of("2 + 2?", "4")
    assert "one that names these (--columns system=NAME)" in refused(tmp_path, rows)
    said = refused(tmp_path, [*rows, rows[1]], columns={"system": "model"})
    assert said.startswith("pairs.jsonl:4: the same prompt and response as line 2")


def test_workers_ratings_of_one_summary_by_two_policies_stay_apart(tmp_path: Path) -> None:
    rows = [
        {
            "info": {"post": "A long post."},
            "summary": {"text": "Short.", "policy": policy, "axes": {"overall": rating}},
        }
        for policy, rating in (("sup4", 2), ("ppo", 5), ("sup4", 4))
    ]
    pairs = read(tmp_path, rows, columns={"system": "summary.policy"}, ratings=["overall"]).pairs
    assert [(pair.columns["system"], pair.human["overall"]) for pair in pairs] == [
        ("sup4", 3.0),
        ("ppo", 5.0),
    ]
