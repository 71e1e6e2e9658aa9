"""Pools of recorded ratings out of files."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from robin_cli.data.pools import load_pools
from robin_cli.errors import InputError

TABLE = pd.DataFrame({"attribute": ["x", "y", "x", "x"], "pair_id": ["b", "a", "a", "b"], "rating": [1, 2, 3, 4]})


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_reads_a_pool_from_any_table(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"p.{suffix}"
    if suffix == "csv":
        TABLE.to_csv(file, index=False)
    elif suffix == "jsonl":
        TABLE.to_json(file, orient="records", lines=True)
    else:
        TABLE.to_parquet(file)
    pools = load_pools(file)
    assert list(pools) == ["x", "y"]
    assert pools["x"].pair_ids == ("b", "a")
    assert [each.tolist() for each in pools["x"].ratings] == [[1, 4], [3]]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("p.csv", "pair,rating\na,1\n", 'no column "pair_id"'),
        ("p.csv", "pair_id,rating\na,1.5\n", "whole numbers"),
        ("p.csv", "pair_id,rating\na,x\n", "whole numbers"),
        ("p.csv", "pair_id,rating\n", "holds no ratings"),
        ("p.txt", "", "a .parquet, .csv or .jsonl file, or a run directory"),
        ("p.parquet", "no parquet", "cannot be read"),
    ],
)
def test_says_what_is_wrong_with_a_pool(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        load_pools(tmp_path / name)
    with pytest.raises(InputError, match="no such file"):
        load_pools(tmp_path / "nothing.csv")
