"""Pools of recorded ratings out of files."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from robin_cli.model.errors import InputError, RunError
from robin_cli.run.pools import load_pools
from tests.conftest import refuses

TABLE = pd.DataFrame(
    {"attribute": ["x", "y", "x", "x"], "pair_id": ["b", "a", "a", "b"], "rating": [1, 2, 3, 4]}
)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "csv.gz", "json", "tsv"])
def test_reads_a_pool_from_any_table(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"p.{suffix}"
    if suffix != "parquet" and "json" not in suffix:
        TABLE.to_csv(file, index=False, sep="\t" if suffix == "tsv" else ",")
    elif suffix != "parquet":
        TABLE.to_json(file, orient="records", lines=suffix == "jsonl")
    else:
        TABLE.to_parquet(file)
    pools = load_pools(file)
    assert list(pools) == ["x", "y"]
    assert pools["x"].pair_ids == ("b", "a")
    assert [each.tolist() for each in pools["x"].ratings] == [[1, 4], [3]]


def test_names_a_pool_without_attributes_after_its_file(tmp_path: Path) -> None:
    file = tmp_path / "nano.csv"
    file.write_text("rating,extra,pair_id\n4,x,a\n,x,a\n0,x,b\n4,x,a\n", encoding="utf-8")
    pools = load_pools(file)
    assert list(pools) == ["nano"]
    assert pools["nano"].pair_ids == ("a", "b")
    assert [each.tolist() for each in pools["nano"].ratings] == [[4, 4], [0]]
    assert pools["nano"].size == 3


@pytest.mark.parametrize("yes", ["1", "1.0", "True", "true"])
def test_reads_which_responses_are_right(tmp_path: Path, yes: str) -> None:
    file = tmp_path / "p.csv"
    file.write_text(f"pair_id,rating,right\na,1,{yes}\nb,2,False\nc,2,\n", encoding="utf-8")
    right = load_pools(file)["p"].right
    assert right is not None
    assert right.tolist() == [True, False, False]


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from(["x", "y"]), st.integers(-9, 9)),
        min_size=1,
    )
)
def test_keeps_every_rating_with_its_pair_in_order(rows: list[tuple[str, str, int]]) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "p.parquet"
        pd.DataFrame(rows, columns=["pair_id", "attribute", "rating"]).to_parquet(file)
        pools = load_pools(file)
    for attribute in {row[1] for row in rows}:
        pool = pools[attribute]
        expected: dict[str, list[int]] = {}
        for pair_id, _, rating in (row for row in rows if row[1] == attribute):
            expected.setdefault(pair_id, []).append(rating)
        assert pool.pair_ids == tuple(expected)
        assert [each.tolist() for each in pool.ratings] == list(expected.values())
    assert sum(pool.size for pool in pools.values()) == len(rows)


def test_keeps_ids_in_csv_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "p.CSV").write_text("pair_id,rating\n007,1\n1e5,2\n", encoding="utf-8")
    assert next(iter(load_pools(tmp_path / "p.CSV").values())).pair_ids == ("007", "1e5")


WRONG = """
p.jsonl → {"attribute": null, "pair_id": "a", "rating": 1}¶ → 1 ratings have no attribute
p.csv → pair_id,rating,attribute¶a,1,¶ → 1 ratings have no attribute
p.csv → pair_id,rating¶,1¶ → 1 rows have no pair_id
p.csv → pair_id,rating,right¶a,1,yes¶ → p.csv:2: "yes" in column "right" is not 1 or 0. Write 1
p.csv → pair,rating¶a,1¶ → no column "pair_id"
p.csv → pair_id,rating¶a,1.5¶ → p.csv:2: the rating in field .* is 1.5. Pools hold whole numbers
p.csv → pair_id,rating¶a,x¶ → whole numbers
p.csv → pair_id,rating¶ → holds no ratings
p.csv → pair_id,rating¶a,¶ → holds no ratings
p.csv →  → the file is empty
p.jsonl → {"pair_id": "a", "rating":  → p.jsonl:1: not valid JSON: .* Correct or remove the row
p.jsonl → {"pair_id": "a", "rating": 1}¶{"attribute": "x", "pair_id": "a", "rating": 1}¶ → 1 ratings have no
p.jsonl → {"pair_id": null, "rating": 1}¶{"pair_id": "a", "rating": 1}¶ → 1 rows have no pair_id
p.csv → pair_id,answer¶a,1¶ → no column "rating"; found pair_id, answer
p.txt →  → the format is not known by this name. Rename or convert the file
p.parquet → no parquet → not a Parquet file that can be read
p.csv → pair_id,rating,rating¶a,1,2¶ → two columns are called "rating". Rename or remove
"""
NO_UTF8 = (b'{"pair_id": "a", "\xd0": 1, "rating": 1}', b'{"pair_id": "\xd0", "rating": 1}')


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        *(line.split(" → ") for line in WRONG.strip().splitlines()),
        *(("p.jsonl", each, "not UTF-8") for each in NO_UTF8),
    ],
)
def test_says_what_is_wrong_with_a_pool(
    tmp_path: Path, name: str, text: str | bytes, said: str
) -> None:
    (tmp_path / name).write_bytes(
        text if isinstance(text, bytes) else text.replace("¶", "\n").encode()
    )
    refuses(InputError, said, load_pools, tmp_path / name)
    refuses(InputError, "no such file", load_pools, tmp_path / "nothing.csv")


def test_finds_no_pool_in_a_folder_without_a_run(tmp_path: Path) -> None:
    refuses(
        RunError,
        r"not a run directory .*; name a folder that robin judge made",
        load_pools,
        tmp_path,
    )
