"""Whole runs at a service tier and with cached prompts, against a stub that has room now and then."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from robin_cli import open_run
from robin_cli.runner.connection import endpoint_at
from robin_cli.settings.table import Settings
from robin_cli.storage.reader import read_run
from robin_cli.storage.schema import JUDGMENTS
from tests.conftest import robin, write_pairs
from tests.judges.wire import Answer, completion, error, serving

RUN = ("-a", "helpfulness", "--model", "judge", "--run", "r", "--concurrency", "4")
USAGE = {
    "prompt_tokens": 2000,
    "completion_tokens": 100,
    "prompt_tokens_details": {"cached_tokens": 500},
}
PRICES = ("--price-in", "1", "--price-out", "2", "--price-cached", "0.2")


def often_full(number: int, body: dict[str, Any]) -> Answer:
    """Flex has room for two requests of three."""
    if body.get("service_tier") == "flex" and number % 3 == 0:
        return error(429, "Resource unavailable", code="resource_unavailable")
    text = f"Feedback: this is answer {number}.\nRating: {number % 5}"
    return completion(
        text, id=f"id-{number}", usage=USAGE, service_tier=body.get("service_tier", "default")
    )


def facts(cwd: Path) -> dict[str, Any]:
    return dict(json.loads(robin("status", "r", "--json", cwd=cwd).stdout))


def test_runs_at_flex_and_tells_prices_tiers_and_cached_tokens(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    with serving(often_full) as wire:
        tier = ("--base-url", wire.url, "--service-tier", "flex")
        done = robin("judge", data, "-b", "36", *RUN, *PRICES, *tier, cwd=tmp_path, exits=0)
    assert done.stderr.count("no room at the service tier flex") == 1
    assert "service tier: 36 answers at flex, 0 at the normal tier" in done.stderr
    assert "72,000 tokens in (25 % of them cached), 3,600 out" in done.stderr
    judgments = read_run(tmp_path / "r", JUDGMENTS.names).judgments.to_pandas()
    assert set(judgments["service_tier"]) == {"flex"}
    assert set(judgments["cached_tokens"]) == {500}
    each = (1500 * 1.0 + 500 * 0.2 + 100 * 2.0) / 1e6
    assert judgments["cost_usd"].sum() == pytest.approx(36 * each)
    told = facts(tmp_path)
    assert (told["cached_share"], told["answers_at_tier"], told["failed"]) == (0.25, 36, {})
    assert open_run(tmp_path / "r").status()["cached_share"] == 0.25


def test_counts_what_fell_back_to_the_normal_tier_at_its_price(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    flex = ("--service-tier", "flex", "--tier-fallback", "--max-cost", "1")
    with serving(often_full) as wire:
        done = robin(
            "judge",
            data,
            "-b",
            "36",
            *RUN,
            *PRICES,
            "--base-url",
            wire.url,
            *flex,
            cwd=tmp_path,
            exits=0,
        )
    told = facts(tmp_path)
    assert told["answers_at_tier"] + told["answers_at_normal_tier"] == 36
    assert told["answers_at_normal_tier"] > 5
    assert f"{told['answers_at_normal_tier']} at the normal tier" in done.stderr
    each = (1500 * 1.0 + 500 * 0.2 + 100 * 2.0) / 1e6
    assert told["cost_usd"] == pytest.approx(
        each * (told["answers_at_tier"] + 2 * told["answers_at_normal_tier"])
    )
    robin("report", "r", "-o", "r.html", cwd=tmp_path, exits=0)
    assert (
        f"{told['answers_at_normal_tier']} at the normal tier" in (tmp_path / "r.html").read_text()
    )


def test_counts_no_answers_by_tier_where_the_endpoint_does_not_say_at_which_they_came(
    tmp_path: Path,
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    with serving(lambda number, _: completion(f"Rating: {number % 5}")) as wire:
        done = robin(
            "judge",
            data,
            "-b",
            "6",
            *RUN,
            "--base-url",
            wire.url,
            "--service-tier",
            "flex",
            cwd=tmp_path,
            exits=0,
        )
    assert "service tier: flex; no answer says at which it came" in done.stderr


def test_goes_on_at_another_tier_than_before(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 6)
    with serving(often_full) as wire:
        robin("judge", data, "-b", "12", *RUN, "--base-url", wire.url, cwd=tmp_path, exits=0)
        more = robin("resume", "r", "--budget", "24", "--service-tier", "flex", cwd=tmp_path)
        normal = robin("resume", "r", "--budget", "36", "--service-tier", "default", cwd=tmp_path)
    assert more.returncode == normal.returncode == 0, more.stderr + normal.stderr
    told = facts(tmp_path)
    assert (told["answers_at_tier"], told["answers_at_normal_tier"]) == (12, 24)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("--service-tier", "flex", "--max-cost", "1", "--model", "gpt-4.1-nano"),
            "at the service tier flex",
        ),
        (("--price-cached", "1", "--model", "m"), "give --price-in and --price-out too"),
        (
            ("--service-tier", "flex", "--extra-body", '{"service_tier": "flex"}', "--model", "m"),
            "leave one of the two out",
        ),
        (("--service-tier", "flex", "--judge", "length"), "--service-tier: is for endpoints"),
    ],
)
def test_refuses_before_anything_is_sent(tmp_path: Path, given: tuple[str, ...], said: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    more = ("-a", "helpfulness", "--run", "r", *given)
    done = robin(
        "judge", data, "-b", "4", *more, cwd=tmp_path, OPENAI_API_KEY="sk-none-of-ours", exits=2
    )
    assert said in " ".join(done.stderr.split())


def test_plans_with_the_price_of_the_tier_and_says_the_other(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)
    plan = ("plan", data, "--details", "-b", "40", "-a", "helpfulness", "--model", "gpt-5-mini")
    flex = robin(*plan, "--service-tier", "flex", cwd=tmp_path).stdout
    normal = robin(*plan, cwd=tmp_path).stdout
    assert (
        "$0.125 a million tokens in, $1 out (genai-prices, flex); $0.25 in, $2 out at the normal tier"
        in flex
    )
    assert (
        "$0.25 a million tokens in, $2 out (genai-prices); $0.125 in, $1 out by --service-tier flex"
        in normal
    )


def gaps(bodies: list[dict[str, Any]]) -> list[int]:
    """How many requests after the one before of its pair each came, but the first two of each pair."""
    last: dict[str, list[int]] = {}
    for number, body in enumerate(bodies):
        last.setdefault(body["messages"][-1]["content"], []).append(number)
    return [after - before for places in last.values() for before, after in pairwise(places[1:])]


def test_asks_a_pair_again_soon_so_that_an_endpoint_still_has_it_cached(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 240)
    judged = ("judge", data, "-b", "720", *RUN, "--scheduler", "uniform")
    with serving(often_full) as wire:
        closely = robin(*judged, "--base-url", wire.url, cwd=tmp_path)
    with serving(often_full) as other:
        run = (
            "--run",
            "limited",
            "--max-cost",
            "50",
            *PRICES,
        )  # which may end it early: then all are to be as far
        evenly = robin(*judged, "--base-url", other.url, *run, cwd=tmp_path)
    assert closely.returncode == evenly.returncode == 0, closely.stderr + evenly.stderr
    assert max(gaps(wire.bodies)) < 150
    assert min(gaps(other.bodies)) > 200
    assert set(read_run(tmp_path / "r").fold.arms.counts.tolist()) == {3}


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        ({}, 120.0),
        ({"service_tier": "flex"}, 900.0),
        ({"service_tier": "flex", "timeout": 30.0}, 30.0),
    ],
)
def test_gives_a_request_at_flex_fifteen_minutes_unless_told_otherwise(
    given: dict[str, Any], seconds: float
) -> None:
    settings = Settings(model=("m",), **given)
    assert endpoint_at("http://localhost/v1", "m", "none", settings).timeout_s == seconds
