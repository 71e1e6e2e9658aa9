"""A budget in US dollars, as a user spends it: whom it asks, when it ends, and how it goes on."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import robin_cli
from robin_cli.model.errors import InputError
from tests.conftest import DEMO, REPLAY_MODEL, has, replaying, robin, write_pairs
from tests.views.test_live import on_a_terminal

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


def test_spends_no_more_than_the_money_and_most_where_a_dollar_buys_most(
    tmp_path: Path, two_judges: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)

    done = robin(
        *judged(two_judges, data, "--budget-usd", "0.2", "--concurrency", "8"),
        cwd=tmp_path,
        exits=0,
    )
    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    (listed,) = (
        json.loads(line) for line in robin("runs", ".", "--json", cwd=tmp_path).stdout.splitlines()
    )

    has(done.stderr, "of $0.2 spent in", "--objective mean-error")
    assert facts["cost_usd"] <= 0.2
    assert facts["cost_usd"] > 0.2 - 0.012  # what a call of the dear one may cost at most
    assert facts["cost_usd"] == pytest.approx(
        pd.read_parquet(tmp_path / "r" / "judgments")["cost_usd"].sum()
    )
    assert (facts["state"], facts["budget_usd"], facts["scheduler"]) == (
        "finished",
        0.2,
        "two-priors",
    )
    assert (listed["state"], listed["budget_usd"]) == ("finished", 0.2)
    dear, cheap = (judge["spent"] for judge in facts["judges"])
    assert cheap / dear == pytest.approx(math.sqrt(20), rel=0.15)
    shown = " ".join(robin("status", "r", cwd=tmp_path).stdout.split())
    assert f"of $0.2 spent in {dear + cheap:,} calls" in shown
    assert "of $0.2 spent in" in robin("report", "r", "-o", "-", cwd=tmp_path).stdout


def test_goes_on_with_more_money_and_only_with_money(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    command = judged(two_judges, data, "--budget-usd", "0.1")
    robin(*command, cwd=tmp_path, exits=0)

    again = robin("resume", "r", cwd=tmp_path, exits=0)
    calls = robin("resume", "r", "--budget", "5000", cwd=tmp_path)
    less = robin("resume", "r", "--budget-usd", "0.05", cwd=tmp_path)
    by_calls = robin(*judged(two_judges, data, "--budget", "5000"), cwd=tmp_path)
    more = robin("resume", "r", "--budget-usd", "0.15", cwd=tmp_path, exits=0)
    same = robin_cli.open_run(tmp_path / "r").resume(budget_usd=0.16, quiet=True)

    has(
        again.stderr,
        "of the budget of $0.1 are spent already",
        "for more: robin resume r --budget-usd MORE",
    )
    for refused in (calls, by_calls):
        assert refused.returncode == 2
        assert (
            "this run has a budget of money, $0.1; raise that: --budget-usd MORE" in refused.stderr
        )
    assert "can be raised, not lowered" in less.stderr
    assert "of $0.15 spent in" in more.stderr
    facts = same.status()
    assert 0.135 < facts["cost_usd"] <= 0.16
    assert facts["budget_usd"] == 0.16


def test_chooses_after_an_interruption_as_it_would_have_without(
    tmp_path: Path, two_judges: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    turn = ("--concurrency", "1", "--seed", "5", "--budget-usd", "0.1")
    for name, limits in (("whole", [()]), ("parts", [("0.03",), ("0.05",), ("0.08",), ("1",)])):
        folder = tmp_path / name
        folder.mkdir()
        for number, limit in enumerate(limits):
            more = ("--max-cost", *limit) if limit else ()
            command = (
                judged(two_judges, data, *turn, *more) if not number else ["resume", "r", *more]
            )
            robin(*command, cwd=folder, exits=4 if limit and limit != ("1",) else 0)

    whole, parts = (
        pd.read_parquet(tmp_path / name / "r" / "judgments") for name in ("whole", "parts")
    )
    shorter = min(len(whole), len(parts))
    assert shorter > 100
    assert (
        abs(len(whole) - len(parts)) <= 8
    )  # the first call of each session is made alone, at whatever it may cost
    # of two judges, who answers first differs from run to run, and with it now and then what is asked next
    asked, again = (each[:shorter].groupby(["pair_id", "judge"]).size() for each in (whole, parts))
    assert asked.sub(again, fill_value=0).abs().sum() <= 8


def test_keeps_to_the_largest_error_where_that_is_asked_for(
    tmp_path: Path, two_judges: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)

    done = robin(
        *judged(two_judges, data, "--budget-usd", "0.1", "--objective", "worst-case"),
        cwd=tmp_path,
        exits=0,
    )
    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)

    assert "--objective mean-error" not in done.stderr
    dear, cheap = (judge["spent"] for judge in facts["judges"])
    assert cheap / dear == pytest.approx(math.sqrt(20), rel=0.3)


def test_ends_when_all_is_decided_or_the_money_is_spent(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)

    done = robin(
        *judged(two_judges, data, "--budget-usd", "0.1", "--decide", "score>=2.1"),
        cwd=tmp_path,
        exits=0,
    )

    has(done.stderr, "of $0.1 spent in", "robin resume r --budget-usd MORE")
    assert (
        json.loads((tmp_path / "r" / "manifest.json").read_text())["settings"]["objective"]
        == "worst-case"
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            ("--budget-usd", "5", "--budget", "5"),
            "--budget and --budget-usd: a budget is of calls, or of money",
        ),
        (
            (),
            "--budget is missing: say how many judge calls to spend, for example --budget 50000, or US dollars",
        ),
        (("--budget-usd", "0.001"), "does not pay for one call for each of 24 pairs × judges"),
        (("--budget-usd", "5", "--mode", "theory"), "--budget-usd: not with --mode theory"),
        (("--budget-usd", "-1"), "US dollars, above 0"),
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
        "judge",
        data,
        "-a",
        "helpfulness",
        "--run",
        "r",
        *asked,
        "--budget-usd",
        "0.02",
        cwd=tmp_path,
        exits=2,
    )
    assert "--budget-usd 0.02: no call was made, as one may cost up to $0.02" in done.stderr

    robin(
        "judge",
        data,
        "-a",
        "helpfulness",
        "--run",
        "r",
        *asked,
        "--budget-usd",
        "0.03",
        cwd=tmp_path,
        exits=0,
    )


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ({}, "--budget-usd: no price is known"),
        ({"price_in": 0, "price_out": 0}, "calls cost nothing"),
    ],
)
def test_refuses_money_where_nothing_has_a_price(
    tmp_path: Path, prices: dict[str, Any], said: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 2)
    with pytest.raises(InputError, match=said):
        robin_cli.judge(
            data, attribute="helpfulness", base_url="http://127.0.0.1:9/v1", model="m", budget_usd=3, quiet=True,
            **prices,
        )  # fmt: skip


def test_says_how_far_it_is_in_dollars_while_it_works(tmp_path: Path) -> None:
    """Of the smaller of the two limits, and never of calls that have no end."""
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    with replaying(DEMO / "ratings.parquet", "--latency-ms", "20") as url:
        for more in ((), ("--max-cost", "0.005")):
            run = tmp_path / f"r{len(more)}"
            price: tuple[str, ...] = (
                "--price-in",
                "1",
                "--price-out",
                "4",
                "--budget-usd",
                "0.01",
                *more,
            )
            command: list[str | Path] = [
                *("judge", data, "-a", "helpfulness", "--run", run, "--base-url", url),
                *("--model", REPLAY_MODEL),
            ]
            code, shown = on_a_terminal(*command, *price, "-o", tmp_path / "s.csv", cwd=tmp_path)
            assert code == (4 if more else 0)
            assert f"% of ${'0.005' if more else '0.01'}" in shown
            assert "4,611" not in shown


def test_gives_no_money_to_a_run_of_calls(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    robin(*judged(two_judges, data, "--budget", "30"), cwd=tmp_path, exits=0)
    refused = robin("resume", "r", "--budget-usd", "3", cwd=tmp_path, exits=2)
    assert "this run has a budget of 30 calls; raise that: --budget MORE" in " ".join(
        refused.stderr.split()
    )


def test_plans_how_many_calls_the_money_pays_for(tmp_path: Path, two_judges: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", PAIRS)
    money = judged(two_judges, data, "--budget-usd", "0.2")
    robin(*money, cwd=tmp_path, exits=0)
    spent = robin_cli.open_run(tmp_path / "r").status()["spent"]
    plan: list[str | Path] = ["plan", *money[1:]]
    plan[plan.index("r")] = "planned"

    known = robin(*plan, "--variances", "r", "--json", cwd=tmp_path, exits=0)
    unknown = robin(*plan, cwd=tmp_path)
    pilot = robin(*plan, "--pilot", "3", cwd=tmp_path, exits=2)

    facts = json.loads(known.stdout)
    (row,) = (row for row in facts["forecast"] if row["budget"] == facts["budget"])
    assert facts["budget"] == pytest.approx(spent, rel=0.15)
    assert facts["budget_usd"] == 0.2
    assert row["cost_usd_at_least"] == row["cost_usd_at_most"] == pytest.approx(0.2, rel=0.01)
    assert "$0.2 (--budget-usd) pay for about" in " ".join(unknown.stdout.split())
    assert "make a run of its own with --budget 72, and plan with --variances RUN" in " ".join(
        pilot.stderr.split()
    )
