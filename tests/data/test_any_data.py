"""What holds for any pairs and any bytes."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from robin_cli.data.pairs import Dataset, load_pairs, pair_id_of
from robin_cli.model.errors import InputError
from tests.data.writing import HELPSTEER, WRITERS, Row, as_csv, as_lines, as_parquet, written

# Half a surrogate pair has no UTF-8, in which all of these formats are written; U+FDD0 begins the mark of an image,
# which is refused in a row.
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\ufdd0"))
PROMPT = TEXT.filter(lambda text: bool(text) and not text.isspace())
RATING = st.one_of(st.none(), st.integers(0, 4), st.floats(allow_nan=False, allow_infinity=False))


def pairs_of(
    responses: st.SearchStrategy[str], ids: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[dict[str, Any]]]:
    row = st.fixed_dictionaries(
        {"prompt": PROMPT, "response": responses},
        optional={"helpfulness": RATING, "verbosity": RATING, "id": ids},
    )
    return st.lists(
        row, min_size=1, max_size=8, unique_by=(id_of, lambda row: (row["prompt"], row["response"]))
    )


def id_of(row: Row) -> str:
    return str(row.get("id") or pair_id_of(row["prompt"], row["response"]))


def loaded(name: str, content: bytes, **options: Any) -> Dataset:
    with tempfile.TemporaryDirectory() as folder:
        return load_pairs(written(Path(folder), name, content), **options)


ANY_ID = st.one_of(TEXT.filter(bool), st.integers(1, 2**63))


@pytest.mark.parametrize(
    "suffix", [".jsonl", ".jsonl.gz", ".json", ".csv", ".tsv", ".csv.gz", ".parquet"]
)
@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_reads_any_pairs_back(suffix: str, data: st.DataObject) -> None:
    # a column of Parquet has one type: ids are all text there, and ratings numbers with a point
    rows = data.draw(pairs_of(TEXT, TEXT.filter(bool) if suffix == ".parquet" else ANY_ID))
    if suffix == ".parquet":
        rows = [{k: float(v) if isinstance(v, int) else v for k, v in row.items()} for row in rows]
    found = loaded(f"pairs{suffix}", WRITERS[suffix](rows)).pairs
    assert [(pair.pair_id, pair.prompt, pair.response) for pair in found] == [
        (id_of(row), row["prompt"], row["response"]) for row in rows
    ]
    assert [pair.human for pair in found] == [
        {name: row[name] for name in ("helpfulness", "verbosity") if row.get(name) is not None}
        for row in rows
    ]


def refuses_or_reads(name: str, content: bytes) -> None:
    refused: list[str] = []
    for skip_bad_rows in (False, True):
        try:
            pairs = loaded(name, content, skip_bad_rows=skip_bad_rows).pairs
        except InputError as error:
            refused.append(str(error))
            continue
        assert pairs
        assert all(pair.prompt.encode() for pair in pairs)
    assert not [said for said in refused if "the package" in said]
    assert all(said.isprintable() for said in refused)  # one line, which steers no terminal


@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
@pytest.mark.parametrize("name", ["x.jsonl", "x.csv", "x.parquet", "x.json", "x.jsonl.gz"])
@given(content=st.binary(max_size=200))
def test_meets_any_bytes_with_an_input_error_or_pairs(name: str, content: bytes) -> None:
    refuses_or_reads(name, content)


LINES, TABLE, PARQUET = as_lines(HELPSTEER), as_csv(HELPSTEER), as_parquet(HELPSTEER)


@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
@pytest.mark.parametrize(
    ("name", "content"), [("x.jsonl", LINES), ("x.csv", TABLE), ("x.parquet", PARQUET)]
)
@given(data=st.data())
def test_meets_any_damage_with_an_input_error_or_pairs(
    name: str, content: bytes, data: st.DataObject
) -> None:
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    refuses_or_reads(
        name, bytes(damaged[: data.draw(st.sampled_from([None, len(content) // 2, -1]))])
    )


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(
    values=st.dictionaries(
        st.sampled_from(["prompt", "response", "id", "helpfulness", "info", "summary"]), JSON
    )
)
def test_meets_any_values_with_an_input_error_or_pairs(values: dict[str, Any]) -> None:
    refuses_or_reads("x.jsonl", json.dumps(values).encode())
