"""Whole runs with cached prompts, against a stub that says how many tokens it had cached."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from tests.conftest import robin, write_pairs
from tests.judges.wire import Answer, completion, serving

RUN = ("-a", "helpfulness", "--model", "judge", "--run", "r", "--concurrency", "4")
USAGE = {
    "prompt_tokens": 2000,
    "completion_tokens": 100,
    "prompt_tokens_details": {"cached_tokens": 500},
}
PRICES = ("--price-in", "1", "--price-out", "2", "--price-cached", "0.2")


def caching(number: int, _: dict[str, Any]) -> Answer:
    return completion(f"Feedback: answer {number}.\nRating: {number % 5}", usage=USAGE)


def test_counts_and_prices_cached_tokens(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    with serving(caching) as wire:
        url = ("--base-url", wire.url)
        done = robin("judge", data, "-b", "36", *RUN, *PRICES, *url, cwd=tmp_path, exits=0)
    assert "72,000 tokens in (25 % of them cached), 3,600 out" in done.stderr
    judgments = read_run(tmp_path / "r", JUDGMENTS.names).judgments.to_pandas()
    assert set(judgments["cached_tokens"]) == {500}
    each = (1500 * 1.0 + 500 * 0.2 + 100 * 2.0) / 1e6
    assert judgments["cost_usd"].sum() == pytest.approx(36 * each)
    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert (facts["cached_share"], facts["failed"]) == (0.25, {})


def test_refuses_a_price_of_cached_tokens_alone(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    more = ("-a", "helpfulness", "--run", "r", "--price-cached", "1", "--model", "m")
    done = robin("judge", data, "-b", "4", *more, cwd=tmp_path, OPENAI_API_KEY="sk-x", exits=2)
    assert "give --price-in and --price-out too" in " ".join(done.stderr.split())


def test_refuses_a_price_of_cached_tokens_above_that_of_any_judge(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    more = ("-a", "helpfulness", "--run", "r", "--model", "m", "--model", "o")
    prices = ("--price-in", "2", "--price-in", "1", "--price-out", "3", "--price-cached", "1.5")
    done = robin(
        "judge", data, "-b", "4", *more, *prices, cwd=tmp_path, OPENAI_API_KEY="sk-x", exits=2
    )
    assert "is more than --price-in" in " ".join(done.stderr.split())


def gaps(bodies: list[dict[str, Any]]) -> list[int]:
    """Return how many requests after the one before of its pair each came, but the first two of each pair."""
    last: dict[str, list[int]] = {}
    for number, body in enumerate(bodies):
        last.setdefault(body["messages"][-1]["content"], []).append(number)
    return [after - before for places in last.values() for before, after in pairwise(places[1:])]


def test_asks_a_pair_again_soon_so_that_an_endpoint_still_has_it_cached(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 240)
    judged = ("judge", data, "-b", "720", *RUN, "--scheduler", "uniform")
    with serving(caching) as wire:
        robin(*judged, "--base-url", wire.url, cwd=tmp_path, exits=0)
    with serving(caching) as other:  # --max-cost may end it early: then all are to be as far
        run = ("--run", "limited", "--max-cost", "50", *PRICES)
        robin(*judged, "--base-url", other.url, *run, cwd=tmp_path, exits=0)
    assert max(gaps(wire.bodies)) < 150
    assert median(gaps(other.bodies)) > 200
    assert set(read_run(tmp_path / "r").fold.arms.n.tolist()) == {3}
