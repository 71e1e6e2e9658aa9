"""Frames of any library in, and tables that they take out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from robin_cli import Pair, RobinError, judge, load_pairs
from tests.conftest import refuses, write_pairs
from tests.test_api import settings

FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "pandas, with an index": lambda table: table.to_pandas().set_index(
        pd.Index(["x", "y"], name="row")
    ),
    "polars": pl.from_arrow,
    "polars, lazy": lambda table: pl.DataFrame(table).lazy(),
    "polars, categories": lambda table: pl.DataFrame(table).with_columns(
        pl.col("system").cast(pl.Categorical)
    ),
    "pyarrow": lambda table: table,
    "record batches": lambda table: table.to_reader(max_chunksize=1),
    "a dictionary": lambda table: table.set_column(
        4, "system", table["system"].dictionary_encode()
    ),
    "duckdb": duckdb.from_arrow,
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_takes_a_frame_of_any_library(frame: Callable[[pa.Table], Any]) -> None:
    talk = [
        {"role": "user", "content": "Hé?"},
        {"role": "assistant", "content": "Ha."},
        {"role": "user", "content": "?"},
    ]
    table = pa.table(
        {
            "id": ["a", "b"],
            "prompt": [talk, talk[:1]],
            "response": ["Ho ∎", ""],
            "helpfulness": [3.5, None],
            "system": ["wren", "crow"],
            "year": [2024, None],
        }
    )

    first, second = load_pairs(frame(table), columns={"helpfulness": "helpfulness"})

    assert first == Pair(
        *("a", "User: Hé?\n\nAssistant: Ha.\n\nUser: ?", "Ho ∎"),
        {"helpfulness": 3.5},
        columns={"system": "wren", "year": 2024},
    )
    assert second == Pair("b", "Hé?", "", {}, columns={"system": "crow"})


@pytest.mark.parametrize("frame", [pl.DataFrame, pd.DataFrame, pa.table])
def test_names_the_row_of_a_frame_that_cannot_be_used(frame: Callable[[Any], Any]) -> None:
    data = frame({"prompt": ["p", "q"], "response": ["r", None]})
    called = type(data).__name__

    refuses(RobinError, f"^{called}:row 2: .*response.*null", load_pairs, data)
    assert len(load_pairs(data, skip_bad_rows=True)) == 1
    refuses(RobinError, "^int: no data; give a file, pairs, or a frame of", load_pairs, 42)


def test_gives_tables_that_other_libraries_take(tmp_path: Path, replay_url: str) -> None:
    run = judge(
        write_pairs(tmp_path / "pairs.jsonl", 3), budget=6, **settings(replay_url, tmp_path / "r")
    )

    scores = pl.DataFrame(run.arrow())
    pd.testing.assert_frame_equal(
        run.arrow("scores", with_text=True).to_pandas(), run.scores(with_text=True)
    )
    assert scores["pair_id"].to_list() == list(run.scores()["pair_id"])
    assert scores["n"].sum() == run.arrow("judgments").num_rows == 6
    labels = pl.DataFrame(run.arrow("labels-wanted", n=2)).with_columns(label=pl.lit("3"))
    pd.testing.assert_frame_equal(
        run.summary(labels=labels), run.summary(labels=labels.to_pandas())
    )
    refuses(RobinError, "no human ratings", run.arrow, "calibration")
