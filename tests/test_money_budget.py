"""A budget in US dollars, as a user spends it: whom it asks, when it ends, and how it goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli.model.errors import InputError
from tests.conftest import (
    DEMO,
    REPLAY_MODEL,
    at_a_terminal,
    environment,
    has,
    replaying,
    robin,
    wait_until,
    write_pairs,
)
from tests.judges.wire import Answer, completion, serving
from tests.starting import Robin

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")
PAIRS = 12
DEAR, CHEAP = "replay:dear", "replay:cheap"
PRICES = ("--price-in", "2", "--price-in", "0.1", "--price-out", "8", "--price-out", "0.4")


@pytest.fixture(scope="module")
def two_judges(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A replay of two judges that vary alike."""
    rng = np.random.default_rng(2)
    rows = [
        {
            "pair_id": f"p{k}",
            "attribute": name,
            "rating": int(np.clip(round(rng.normal(2, 0.9)), 0, 4)),
        }
        for k in range(30)
        for name in ("dear", "cheap")
        for _ in range(40)
    ]
    pool = tmp_path_factory.mktemp("pool") / "ratings.csv"
    pd.DataFrame(rows).to_csv(pool, index=False)
    with replaying(pool) as url:
        yield url


def judged(url: str, data: Path, *more: str | Path) -> list[str | Path]:
    panel = ("--base-url", url, "--model", DEAR, "--model", CHEAP, *PRICES)
    return ["judge", data, "-a", "helpfulness", "--run", "r", *panel, *more]


def test_spends_the_money_to_the_last_call_where_a_request_asks_for_several(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)

    def answer(number: int, body: dict[str, Any]) -> Answer:
        choices = completion(f"Feedback: fine.\nRating: {number % 5}")["choices"]
        usage = {"prompt_tokens": 100, "completion_tokens": 100 * body.get("n", 1)}
        return completion(choices=choices * body.get("n", 1), usage=usage)

    with serving(answer) as wire:
        prices = ("--price-in", "0", "--price-out", "10", "--max-tokens", "100")
        asked = ("judge", data, "-a", "helpfulness", "--base-url", wire.url, "--model", "m")
        limits = ("-b", "900", "--max-cost", "0.1005", "--concurrency", "1", "--run", "r")
        robin(*asked, *prices, *limits, cwd=tmp_path, exits=4)
    cost = pd.read_parquet(tmp_path / "r" / "judgments")["cost_usd"]
    assert cost.sum() == pytest.approx(0.1), "a call costs at most a tenth of a cent"


def test_spends_no_more_than_the_money_and_is_done(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)

    done = robin(
        *judged(two_judges, data, "--max-cost", "0.1", "--concurrency", "8"), cwd=tmp_path, exits=0
    )
    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    (listed,) = (
        json.loads(line) for line in robin("runs", ".", "--json", cwd=tmp_path).stdout.splitlines()
    )

    assert "of $0.1 spent in" in done.stderr
    has(done.stderr, f"{CHEAP} costs $0.1 a million tokens in, $0.4 out (--price-in, --price-out)")
    assert facts["cost_usd"] <= 0.1
    assert facts["cost_usd"] > 0.1 - 0.012  # what a call of the dear one may cost at most
    assert facts["cost_usd"] == pytest.approx(
        pd.read_parquet(tmp_path / "r" / "judgments")["cost_usd"].sum()
    )
    assert (facts["state"], facts["budget_usd"], facts["scheduler"]) == (
        "finished",
        0.1,
        "two-priors",
    )
    assert (listed["state"], listed["budget_usd"]) == ("finished", 0.1)
    dear, cheap = (judge["spent"] for judge in facts["judges"])
    assert cheap / dear == pytest.approx(1, rel=0.25), "what a call costs does not choose"
    shown = " ".join(robin("status", "r", cwd=tmp_path).stdout.split())
    assert f"of $0.1 spent in {dear + cheap:,} calls" in shown
    assert "of $0.1 spent in" in robin("report", "r", "-o", "-", cwd=tmp_path).stdout


def test_goes_on_with_more_money_and_only_with_money(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    command = judged(two_judges, data, "--max-cost", "0.05")
    robin(*command, cwd=tmp_path, exits=0)

    again = robin("resume", "r", cwd=tmp_path, exits=0)
    calls = robin("resume", "r", "--budget", "5000", cwd=tmp_path)
    less = robin("resume", "r", "--max-cost", "0.02", cwd=tmp_path)
    by_calls = robin(*judged(two_judges, data, "--budget", "5000"), cwd=tmp_path)
    more = robin("resume", "r", "--max-cost", "0.06", cwd=tmp_path, exits=0)
    same = robin_cli.open_run(tmp_path / "r").resume(max_cost=0.07, quiet=True)

    has(
        again.stderr,
        "of the budget of $0.05 is spent already",
        "for more: robin resume r --max-cost 0.1",
    )
    for refused in (calls, by_calls):
        assert refused.returncode == 2
        assert "this run has a budget of money, $0.05; raise that: --max-cost 0.1" in refused.stderr
    assert "can be raised, not lowered" in less.stderr
    assert "of $0.06 spent in" in more.stderr
    facts = same.status()
    assert 0.058 < facts["cost_usd"] <= 0.07
    assert facts["budget_usd"] == 0.07


def test_ends_when_all_is_decided_or_the_money_is_spent(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)

    done = robin(
        *judged(two_judges, data, "--max-cost", "0.05", "--decide", "score>=2.1"),
        cwd=tmp_path,
        exits=0,
    )

    has(done.stderr, "of $0.05 spent in", "robin resume r --max-cost 0.1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            (),
            "--budget is missing: say how many judge calls to spend, for example --budget 50000, or US dollars",
        ),
        (("--max-cost", "0.001"), "does not pay for one call for each of 24 pairs × judges"),
        (("--max-cost", "5", "--mode", "theory"), "--max-cost: no budget for --mode theory"),
        (("--max-cost", "-1"), "US dollars, above 0"),
    ],
)
def test_refuses_what_is_no_budget_before_anything_is_sent(
    tmp_path: Path, given: tuple[str, ...], said: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    done = robin(*judged("http://127.0.0.1:9/v1", data, *given), cwd=tmp_path, exits=2)
    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "r").exists()


def test_says_what_a_call_may_cost_where_the_budget_pays_for_none(
    tmp_path: Path, two_judges: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    asked = ("--base-url", two_judges, "--model", DEAR, "--price-in", "1", "--price-out", "20")
    done = robin(
        *("judge", data, "-a", "helpfulness", "--run", "r"),
        *asked,
        "--max-cost",
        "0.02",
        cwd=tmp_path,
        exits=2,
    )
    assert "--max-cost 0.02: no call was made, as one may cost up to $0.02" in done.stderr

    robin(
        *("judge", data, "-a", "helpfulness", "--run", "r"),
        *asked,
        "--max-cost",
        "0.03",
        cwd=tmp_path,
        exits=0,
    )


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ({}, "--max-cost: no price is known"),
        ({"price_in": 0, "price_out": 0}, "calls cost nothing"),
    ],
)
def test_refuses_money_where_nothing_has_a_price(
    tmp_path: Path, prices: dict[str, Any], said: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with pytest.raises(InputError, match=said):
        robin_cli.judge(
            data, attribute="helpfulness", base_url="http://127.0.0.1:9/v1", model="m", max_cost=3, quiet=True,
            **prices,
        )  # fmt: skip


def test_says_how_far_it_is_in_dollars_while_it_works(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    with replaying(DEMO / "ratings.parquet", "--latency-ms", "20") as url:
        command: list[str | Path] = [
            *("judge", data, "-a", "helpfulness", "--run", tmp_path / "r", "--base-url", url),
            *("--model", REPLAY_MODEL, "--price-in", "1", "--price-out", "4"),
            *("--max-cost", "0.01", "-o", tmp_path / "s.csv"),
        ]
        code, shown = at_a_terminal(*map(str, command), cwd=tmp_path, TERM="xterm-256color")
    assert code == 0
    assert " of $0.01" in shown
    assert "4,611" not in shown  # no calls without an end


def test_names_where_prices_come_from(
    tmp_path: Path, two_judges: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    (tmp_path / "mine.toml").write_text("price_in = 2\nprice_out = 8\n")
    asked = (data, "-a", "helpfulness", "--max-cost", "0.1")
    listed = robin("plan", *asked, "--model", "gpt-4o-mini", cwd=tmp_path)
    by_file = ("--base-url", two_judges, "--model", CHEAP, "--config", "mine.toml", "--run", "r")
    judged_here = robin("judge", *asked, *by_file, cwd=tmp_path, exits=0)
    resumed = robin("resume", "r", "--max-cost", "0.11", cwd=tmp_path, exits=0)
    assert "(list price of gpt-4o-mini, genai-prices)" in " ".join(listed.stdout.split())
    assert "(--config mine.toml)" in judged_here.stderr
    assert "(recorded in r, which was made here)" in resumed.stderr
    mine, more = str(tmp_path / "mine.toml"), {"attribute": "helpfulness", "max_cost": 0.1}
    named: Any = more | {"base_url": two_judges, "model": CHEAP, "run": str(tmp_path / "p")}
    robin_cli.judge(data, config=mine, **named)
    assert f"(config={mine!r})" in capsys.readouterr().err.replace("\n", "")


def test_leaves_a_run_of_calls_its_budget(tmp_path: Path, two_judges: str) -> None:
    """With --budget, --max-cost only cuts short: exit 4, and more money goes on to the budget."""
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    short = robin(
        *judged(two_judges, data, "--budget", "100", "--max-cost", "0.025"), cwd=tmp_path, exits=4
    )
    assert short.stderr.count("robin resume") == 1
    assert "next: robin resume r --max-cost 0.05\n" in short.stderr
    alone = robin(*judged(two_judges, data, "--max-cost", "3"), cwd=tmp_path, exits=2)
    assert "this run has a budget of 100 calls; give that too" in " ".join(alone.stderr.split())
    robin("resume", "r", "--max-cost", "3", cwd=tmp_path, exits=0)
    facts = robin_cli.open_run(tmp_path / "r").status()
    assert (facts["spent"], facts["budget_usd"]) == (100, None)


def test_holds_the_money_through_kills_although_answers_are_lost(tmp_path: Path) -> None:
    """The server's bill counts, not the answers that were kept."""
    each = 0.25  # dollars

    async def answer(number: int, _: dict[str, Any]) -> dict[str, Any]:
        if number % 40 >= 24 and number < 80:  # under way when robin is killed
            await asyncio.sleep(1)
        return completion(usage={"prompt_tokens": 4000, "completion_tokens": 1})

    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    with serving(answer) as wire:
        command: list[str | Path] = [
            *("judge", data, "-a", "helpfulness", "--run", "r", "--base-url", wire.url),
            *("--model", "m", "--price-in", "62.5", "--price-out", "0", "--max-cost", "30"),
            *("--concurrency", "16", "--repeat-anyway", "--quiet"),
        ]

        def has_asked(least: int) -> bool:
            return len(wire.bodies) >= least

        for least in (40, 80):
            with Robin(command, cwd=tmp_path, env=environment()) as working:
                wait_until(partial(has_asked, least), working)
                working.kill()
            command = ["resume", "r", "--quiet"]
        ended = robin("resume", "r", cwd=tmp_path, exits=0)
    facts = robin_cli.open_run(tmp_path / "r").status()
    # 88 calls are answered, whatever was under way at the kills: 32 count as lost, $8 of the 30
    assert 22 <= each * len(wire.bodies) <= 30
    has(ended.stderr, "answers of earlier sessions may be lost, and count $8.0")
    assert (facts["state"], facts["budget_usd"]) == ("finished", 30)
