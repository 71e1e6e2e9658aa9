"""Answers that are slow to come, at a server."""

from __future__ import annotations

import asyncio
import json
import time
import zlib
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import judging, robin, write_pairs
from tests.judges.wire import completion, serving

SLOW, PAIRS, BUDGET = 3, 120, 300


@pytest.mark.parametrize("scheduler", ["two-priors", "uniform"])
def test_waits_for_slow_first_calls_before_the_last_of_the_budget_goes_elsewhere(
    tmp_path: Path, scheduler: str
) -> None:
    last, asked = 0.0, list[str]()

    async def slow_at_first(number: int, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal last
        last = time.monotonic()
        asked.append(body["messages"][-1]["content"])
        while number < SLOW and time.monotonic() - last < 0.4:  # noqa: ASYNC110  # until robin only waits
            await asyncio.sleep(0.02)
        noise = zlib.crc32(json.dumps([body["messages"], number]).encode())
        return completion(f"Rating: {noise % 5}")

    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    with serving(slow_at_first) as wire:
        command = judging(
            wire.url, data, BUDGET, "--concurrency", "32", "--scheduler", scheduler, "-o", "s.csv"
        )
        robin(*command, cwd=tmp_path, exits=0)
    calls = pd.Series(asked).value_counts()
    assert calls[asked[:SLOW]].sum() >= SLOW * (BUDGET // PAIRS)
    counts = pd.read_csv(tmp_path / "s.csv")["n"]
    assert (counts.sum(), len(asked)) == (BUDGET, BUDGET)
    assert counts.min() >= 1
