"""Runs that die at every step of writing: nothing that was safe is lost, nothing is there twice, the budget is met."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT, environment

BUDGET = 61  # as in crashing.py


def scenarios(kind: str, count: int, folder: Path) -> list[dict[str, Any]]:
    """So many runs that died of ``kind`` at a random step and were resumed."""
    script = ROOT / "tests" / "storage" / "crashing.py"
    done = subprocess.run(
        [sys.executable, str(script), kind, str(count), "7", str(folder)],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "count", "endings"),
    [
        # 0: answers came in larger batches this time, so that it was done before the step at which it was to die; and a
        # stop that comes when all is done, or before the work has begun, ends as those do
        ("kill", 50, {137, 0}),
        ("power", 20, {137, 0}),
        ("term", 10, {130, 0, 143}),
        ("interrupt", 10, {130, 0}),
        ("twice", 10, {130, 0}),
        ("full", 15, {1, 0}),
    ],
)
def test_resumes_whatever_it_died_of_at_whatever_step(tmp_path: Path, kind: str, count: int, endings: set[int]) -> None:
    died = scenarios(kind, count, tmp_path / "runs")
    assert len(died) == count
    for each in died:
        assert each["first"] in endings, each
        assert each["second"] == 0, each
        assert each["budget"] == BUDGET, each
        kept = Counter(each["kept"])
        assert sum(kept.values()) == BUDGET, each
        assert set(kept.values()) == {1}, f"an answer is there twice: {each}"
        ratings = Counter(each["requests"])
        assert set(each["acknowledged"]) <= ratings.keys(), f"an answer that was safe is lost: {each}"
        told = Counter(each["acknowledged"])
        assert kind == "full" or all(told[name] <= ratings[name] for name in told), (
            f"a part of a request is lost: {each}"
        )
        assert not each["left"], f"rescued answers were not taken back: {each}"
    assert len({each["at"] for each in died}) > count / 3
    # What is under way when a run is asked to stop may finish: that may be all that is left, where a request brings five.
    assert sum(each["first"] != 0 for each in died) >= (0.8 if kind in {"kill", "power", "full"} else 0.4) * count
    assert kind != "full" or {place for each in died for place in each["rescued"]} == {".", "run", "tmp"}
