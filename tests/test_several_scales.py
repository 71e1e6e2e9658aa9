"""Attributes of one run on scales of their own: one budget, from the question to the report."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import robin
from tests.judges.wire import Wire, completion, serving
from tests.test_own_prompts import STARS, pairs

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")
ARGUMENTS = [
    *("-a", "helpfulness,stars", "--rubric", "stars.toml", "--model", "m", "--scheduler"),
    "two-priors",
]


def rated(number: int, body: dict[str, Any]) -> dict[str, Any]:
    """Stars between 6 and 8 of ten, helpfulness 0 or 4 of four: the shares of the scale differ, and which of them varies."""
    low, high = (6, 8) if "an integer between 1 and 10" in json.dumps(body) else (0, 4)
    return completion(json.dumps({"feedback": "ok", "rating": low if number % 2 else high}))


@pytest.fixture
def wire() -> Iterator[Wire]:
    with serving(rated) as wire:
        yield wire


def test_rates_attributes_on_their_own_scales_under_one_budget(tmp_path: Path, wire: Wire) -> None:
    (tmp_path / "stars.toml").write_text(STARS, encoding="utf-8")
    pairs(tmp_path)
    asked = [
        *ARGUMENTS,
        *("--base-url", wire.url, "--answers", "json", "--run", "r", "--concurrency", "1"),
    ]

    done = robin("judge", "pairs.jsonl", *asked, "-b", "180", "--seed", "1", cwd=tmp_path, exits=0)

    scores = pd.read_csv(io.StringIO(done.stdout)).set_index(["attribute", "pair_id"])
    stars, helpful = scores.loc["stars"], scores.loc["helpfulness"]
    assert stars["score"].between(6, 8).all()
    assert stars["ci_low"].min() >= 1
    assert stars["ci_high"].max() > 4
    assert helpful["ci_high"].max() <= 4
    # a spread of 2 of 9 points is less of its scale than 4 of 4: there the calls go
    assert helpful["n"].min() > 2 * stars["n"].max()
    levels = {
        json.dumps(body["response_format"]["json_schema"]["schema"]["properties"]["rating"])
        for body in wire.bodies
    }
    assert {len(json.loads(each)["enum"]) for each in levels} == {5, 10}

    state = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert state["errors_are"] == "shares of the scale"
    assert 0 < state["worst_error"] < 1
    assert f"about {100 * state['worst_error']:.1f} % of the scale" in re.sub(
        r"\s+", " ", robin("status", "r", "--details", cwd=tmp_path).stdout
    )

    robin("resume", "r", "-b", "200", cwd=tmp_path, exits=0)
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["scale"] == {
        "helpfulness": [0, 4],
        "stars": [1, 10],
    }
    planned = robin(
        *("plan", "pairs.jsonl", *asked[:-4], "--variances", "r"),
        *("--target-error", "0.2", "--json"),
        cwd=tmp_path,
        exits=0,
    )
    assert all(0 < row["worst_error"] <= 1 for row in json.loads(planned.stdout)["forecast"])
    assert 0 < json.loads(planned.stdout)["goal"]["calls"] <= 2000
    for runs, words in ((["r"], "mean stars"), (["r", "r"], "stars: r and r (2)")):
        page = robin("report", *runs, "-o", "-", cwd=tmp_path, exits=0)
        assert words in page.stdout
