"""robin plan as a user meets it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from robin_cli.settings.table import Settings
from robin_cli.views.plan import plan as plan_views
from robin_cli.views.plan.forecast import Plan
from tests.conftest import DEMO, REPLAY_MODEL, free_port, judging, replaying, robin, write_pairs

RESPONSES = DEMO / "responses.jsonl"
DECISION = ("--decide", "score>=3", "--margin", "0.2")
PRICES = ("--price-in", "1", "--price-out", "1")
OPENAI = ("--base-url", "https://api.openai.com/v1", "--model", "gpt-5-mini")

COMMON = """attributes budget_usd completion_tokens completion_tokens_at_most forecast judges max_cost_usd pilot price
    prompt_tokens scheduler scheduler_asked scheduler_because tokens_from ways"""
OF_RATINGS = """arms below_warm_up budget by_text calls_an_arm calls_for decide errors_are for_error max_cost_calls_at_least
    max_cost_calls_at_most pairs ratings_known ratings_vary_as simulated_runs target_error variances_from"""
OF_VERDICTS = "budget calls_a_comparison calls_once comparisons decide pairwise preferences_vary prompts ranks_systems systems"
OF_SYSTEMS = """alpha budget calls_a_prompt cheapest compare differences_are known_from pairs power prompts rows spreads systems
    times_as_many"""


def plan(data: Path, budget: int, *more: str | Path) -> list[str | Path]:
    return ["plan", data, "--budget", str(budget), "-a", "helpfulness", *more]


def facts_of(folder: Path, *command: str | Path) -> dict[str, Any]:
    done = robin(*command, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def said_by(folder: Path, *command: str | Path) -> str:
    done = robin(*command, "--details", cwd=folder, COLUMNS="200")
    assert done.returncode == 0, done.stderr
    return " ".join(done.stdout.split())


@pytest.fixture
def planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was planned is not simulated again for another form of it: as text, with --details, as JSON, in a file."""
    known: dict[str, Plan] = {}
    make = plan_views.plan_of

    def plan_of(config: Settings, *rest: Any, **named: Any) -> Plan:
        of = repr((replace(config, output=None), named))
        known[of] = known.get(of) or make(config, *rest, **named)
        return known[of]

    monkeypatch.setattr(plan_views, "plan_of", plan_of)


def write_answers(path: Path, prompts: int) -> Path:
    """Responses of two systems to each prompt."""
    rows = [
        {
            "id": f"p{k}",
            "prompt": f"Name {k // 2} colours.",
            "response": f"Blue, and {k} more.",
            "system": "ab"[k % 2],
        }
        for k in range(2 * prompts)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.mark.usefixtures("rough_forecasts", "planned_once")
@pytest.mark.parametrize(
    ("given", "keys", "begins", "knows"),
    [
        (
            ("--budget", "400"),
            OF_RATINGS,
            "400 calls cost about $",
            "the worst score is off by about",
        ),
        (
            ("--for-error", "0.4"),
            OF_RATINGS,
            "For a largest error of 0.4 you need",
            "the worst score is off by about",
        ),
        (
            ("--budget", "400", *DECISION),
            OF_RATINGS,
            "To decide everything (score>=3",
            "of the decisions are wrong",
        ),
        (
            ("--budget", "200", *DECISION, "--batch"),
            OF_RATINGS,
            "To decide everything (score>=3",
            "are certified",
        ),
        (
            ("--compare", "0.5"),
            OF_SYSTEMS,
            "To see a difference of 0.5 between a and b",
            "a difference of",
        ),
        (
            ("--objective", "compare", "--budget", "80"),
            OF_SYSTEMS,
            "80 calls cost about $",
            "a difference of",
        ),
        (
            ("--budget", "600", "--batch"),
            OF_RATINGS,
            "600 calls cost about $",
            "the worst score is off by about",
        ),
        (
            ("--max-cost", "0.2"),
            OF_RATINGS,
            "$0.2 (--max-cost) pay for about",
            "the worst score is off by about",
        ),
    ],
)
def test_says_first_what_was_asked_for_and_keeps_to_fifteen_lines(
    tmp_path: Path, given: tuple[str, ...], keys: str, begins: str, knows: str
) -> None:
    data = write_answers(tmp_path / "pairs.jsonl", 20)
    url = f"http://127.0.0.1:{free_port()}/v1"  # nobody listens
    command: list[str | Path] = [
        "plan",
        data,
        "-a",
        "helpfulness",
        *given,
        "--base-url",
        url,
        "--model",
        "m",
        *PRICES,
    ]

    shown = robin(*command, cwd=tmp_path, COLUMNS="80")
    facts = facts_of(tmp_path, *command)

    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    said = " ".join(shown.stdout.split())
    assert said.startswith(begins)
    assert len(lines) <= 15
    for part in (
        knows,
        "Nothing was sent.",
        "assumed: as with the two judges of the paper",
        "--details",
    ):
        assert part in said
    assert {*COMMON.split(), *keys.split()} <= {*facts}
    budget = facts["budget"] if isinstance(facts["budget"], int) else facts["forecast"][1]["budget"]
    (row,) = (row for row in facts["forecast"] if row["budget"] == budget)
    assert row["known_then"] in said
    assert row["cost_usd_at_least"] <= row["cost_usd_about"] <= row["cost_usd_at_most"]
    assert sum(re.match(r" *[\d,]+ ", line) is not None for line in lines[-6:]) == 3  # of the table
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.usefixtures("planned_once")
def test_plans_a_budget_with_its_tokens_money_and_time(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    command = plan(
        data, 1600, "--model", "m", "--price-in", "1", "--price-out", "2", "--rpm", "600"
    )

    facts, said = facts_of(tmp_path, *command), said_by(tmp_path, *command)

    assert "For a largest error of 0.3 you need" in said
    assert "--pilot" in said
    assert "--max-cost" not in said
    assert (facts["arms"], facts["calls_an_arm"], facts["pilot"]) == (20, 80, None)
    assert [row["budget"] for row in facts["forecast"]] == [800, 1600, 3200, 6400]
    errors = [row["worst_error"] for row in facts["forecast"]]
    assert errors == sorted(errors, reverse=True)
    assert all(row["mean_error"] < row["worst_error"] for row in facts["forecast"])
    assert 300 < facts["prompt_tokens"] / 1600 < 900
    at = facts["forecast"][1]
    assert at["seconds"] == at["seconds_about"] == 160
    assert at["cost_usd_at_least"] == pytest.approx(facts["prompt_tokens"] / 1e6)
    assert at["cost_usd_at_most"] - at["cost_usd_at_least"] == pytest.approx(2 * 1024 * 1600 / 1e6)


def test_a_pilot_is_a_run_whose_calls_count(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    judge = ("--base-url", replay_url, "--model", REPLAY_MODEL, *PRICES, "--run", "r")

    done = robin(*plan(data, 800, *judge, "--pilot", "4", "--json"), cwd=tmp_path)
    again = robin(*plan(data, 800, *judge, "--pilot", "4"), cwd=tmp_path)
    resumed = robin("resume", "r", "--budget", "800", cwd=tmp_path)
    after = robin(*plan(data, 1600, *judge, "--pilot", "4"), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "spread evenly" not in done.stderr  # that a pilot is small is no surprise
    facts = json.loads(done.stdout)
    assert facts["pilot"] == {"run": "r", "spent": 80}
    # by the budget that is planned for, and not by the pilot's
    assert (
        facts["scheduler"]
        == json.loads((tmp_path / "r" / "manifest.json").read_text())["settings"]["scheduler"]
    )
    answers = pd.read_parquet(tmp_path / "r" / "judgments").iloc[:80]
    row = facts["forecast"][1]
    assert row["cost_usd_at_least"] == row["cost_usd_at_most"] == row["cost_usd_about"]
    assert row["cost_usd_at_most"] == pytest.approx(10 * answers["cost_usd"].sum())
    assert row["seconds"] > 0
    assert again.returncode == 0, again.stderr
    assert "robin resume r --budget 800" in again.stdout
    assert "nothing was sent" in again.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert "taken as it is" in after.stderr
    assert "800 calls count" in after.stdout
    assert len(pd.read_parquet(tmp_path / "r" / "judgments")) == 800


@pytest.mark.usefixtures("planned_once")
def test_finds_the_budget_for_an_error_without_a_guess(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    command = (
        "plan",
        data,
        "-a",
        "helpfulness",
        "--scheduler",
        "uniform",
        *PRICES,
        "--for-error",
        "0.15",
    )

    facts, said = facts_of(tmp_path, *command), said_by(tmp_path, *command)

    target = facts["for_error"]
    assert target["calls"] == facts["budget"] > 1500
    assert target["calls_low"] < target["calls"] < target["calls_high"]
    (row,) = (row for row in facts["forecast"] if row["budget"] == facts["budget"])
    assert row["worst_error"] == pytest.approx(0.15, rel=0.15)
    assert said.startswith(
        f"For a largest error of 0.15 you need about {target['calls']:,} calls "
        f"(95 %: {target['calls_low']:,} to {target['calls_high']:,}). "
    )


def test_never_plans_less_than_a_pilot_spent_and_says_where_the_money_ends(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    judge = ("--base-url", replay_url, "--model", REPLAY_MODEL, *PRICES, "--run", "r")

    facts = facts_of(tmp_path, *plan(data, 900, *judge, "--pilot", "20", "--max-cost", "0.4"))
    refused = robin(*plan(data, 300, *judge, "--pilot", "2"), cwd=tmp_path)
    target = robin(
        "plan", data, "-a", "helpfulness", *judge, "--pilot", "2", "--for-error", "2", cwd=tmp_path
    )
    whole = robin("resume", "r", "--budget", "900", "--max-cost", "0.4", cwd=tmp_path)

    answers = pd.read_parquet(tmp_path / "r" / "judgments")
    pilot = answers.iloc[:400]
    assert facts["pilot"]["spent"] == 400
    assert facts["forecast"][0]["budget"] >= 400
    assert facts["forecast"][0]["cost_usd_at_least"] >= pilot["cost_usd"].sum()
    assert facts["prompt_tokens"] >= pilot["prompt_tokens"].sum()
    assert refused.returncode == 2
    assert "the pilot r has spent 400 calls already; plan for more" in refused.stderr
    assert "at most 400 calls" in target.stdout

    assert whole.returncode == 4, whole.stderr
    assert answers["cost_usd"].sum() <= 0.4
    bought = facts["max_cost_calls_at_least"]
    assert bought == facts["max_cost_calls_at_most"]
    assert bought == pytest.approx(len(answers), rel=0.02)
    assert {row["budget"]: row["within_max_cost"] for row in facts["forecast"]} == {
        450: True,
        bought: True,
        **dict.fromkeys((900, 1800, 3600), False),
    }


def test_says_where_a_budget_does_not_reach(tmp_path: Path) -> None:
    said = said_by(
        tmp_path, *plan(write_pairs(tmp_path / "pairs.jsonl", 30), 120, "--scheduler", "robin-hood")
    )
    assert "below ROBIN-HOOD's warm-up" in said
    assert (
        "For a largest error of 0.1 you need more than 480 calls (spread evenly: more than 480)."
        in said
    )


def write_pool(path: Path, ratings: dict[int, list[int]], pairs: int) -> None:
    """Ratings of each pair: those of the first number that divides its own."""
    rows = [
        (f"p{k}", each)
        for k in range(pairs)
        for each in next(values for of, values in ratings.items() if k % of == 0)
    ]
    pd.DataFrame(rows, columns=["pair_id", "rating"]).to_csv(path, index=False)


def test_plans_by_the_ratings_of_an_earlier_run(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    write_pool(tmp_path / "alike.csv", {1: [3] * 20}, 30)
    write_pool(tmp_path / "varied.csv", {1: [0, 4] * 10}, 30)

    calm, wild = (
        facts_of(tmp_path, *plan(data, 900, "--variances", f"{name}.csv"))
        for name in ("alike", "varied")
    )

    assert calm["forecast"][1]["worst_error"] < 0.15
    assert wild["forecast"][1]["worst_error"] > 0.4
    assert "varied.csv" in wild["ratings_vary_as"]


def test_counts_a_prompt_for_each_request_that_the_planned_run_makes(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    evenly = ("--scheduler", "uniform")
    asked = judging(replay_url, data, 30, *evenly, "--samples-per-request", "3", "--run", "r")
    robin(*asked, cwd=tmp_path)  # ten requests
    sent = pd.read_parquet(tmp_path / "r" / "judgments")["prompt_tokens"].sum()

    one, two = (
        facts_of(tmp_path, *plan(data, 90, *evenly, "--variances", "r", "--samples-per-request", n))
        for n in "12"
    )

    assert one["prompt_tokens"] == pytest.approx(sent / 10 * 90, rel=0.01)
    assert two["prompt_tokens"] == pytest.approx(
        sent / 10 * 50, rel=0.01
    )  # nine by twos: five requests a pair


@pytest.mark.parametrize(
    ("more", "step"),
    [
        (("--budget", "10"), "--limit 10"),
        (("--pilot", "100"), "make the pilot smaller"),
        (("--pilot", "1"), "2"),
        (("--pilot", "3", "--mode", "theory", "--budget", "300000"), "practice mode"),
        (("--scheduler", "robin"), "--variances RUN"),
        (("--pilot", "2"), "no endpoint is configured"),
        (("--scheduler", "robins"), "known schedulers"),
        (("--variances", "pairs.jsonl"), "no pair has two ratings"),
        (("--for-error", "4"), "below 4"),
        (("--decide", "score>=3", "--for-error", "0.2"), "leave one of the two out"),
        (("--decide", "score>=9"), "not inside the scale"),
        (
            ("--decide", "best"),
            "name the column that says which responses belong together with --group",
        ),
        (("--decide", "best", "--group", "system"), '"system"'),
        (("--decide", "score>=3", "--group", "id"), "--group: is for --decide best"),
        (("--decide", "score>=3", "--pilot", "100"), "make the pilot smaller"),
    ],
)
def test_refuses_a_plan_that_could_not_be_run(
    tmp_path: Path, more: tuple[str, ...], step: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    refused = robin(*plan(data, 900, *more), cwd=tmp_path)
    assert refused.returncode == 2
    assert step in refused.stderr
    assert list(tmp_path.iterdir()) == [data]


@pytest.mark.usefixtures("rough_forecasts", "planned_once")
def test_plans_decisions_and_says_when_everything_is_decided(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 60)
    command = plan(data, 600, *DECISION, *PRICES)

    facts, said = facts_of(tmp_path, *command), said_by(tmp_path, *command)

    decide, rows = facts["decide"], facts["forecast"]
    assert (facts["scheduler"], facts["scheduler_asked"]) == ("auto", "auto")
    assert (decide["of"], decide["decisions"], decide["margins"]) == (
        "pairs",
        60,
        {"helpfulness": 0.2},
    )
    assert said.startswith(
        f"To decide everything (score>=3, for 60 pairs) takes about {decide['calls_to_end']:,} calls or fewer in 9 of 10 cases "
        f"(95 %: {decide['calls_to_end_low']:,} to {decide['calls_to_end_high']:,}; spread evenly: "
    )
    assert decide["calls_to_end_low"] < decide["calls_to_end"] < decide["calls_to_end_high"]
    assert decide["calls_to_end"] < decide["even_calls_to_end"]
    assert [row["budget"] for row in rows] == [300, 600, 1200, 2400]
    assert all(
        later["wrong"] < row["wrong"] + 0.003 for row, later in pairwise(rows)
    )  # one of 480 decisions
    assert rows[0]["wrong"] < rows[0]["even_wrong"]
    assert rows[0]["calls"] == 300
    assert rows[0]["certified"] < rows[1]["certified"] < 1
    assert rows[-1]["certified"] == 1
    assert rows[-1]["calls"] < 2000  # a run ends before its budget is spent, and costs less
    a_call = rows[0]["cost_usd_at_least"] / 300
    assert rows[-1]["cost_usd_at_least"] == pytest.approx(a_call * rows[-1]["calls"], rel=0.01)
    assert [each["wrong"] for each in facts["calls_for"]] == [0.01, 0.001]
    assert facts["calls_for"][0]["calls"] < facts["calls_for"][0]["even_calls"]
    assert "600 calls at most" in said
    assert "rough forecast" in said
    for not_of_decisions in ("largest error", "worst"):
        assert not_of_decisions not in said


@pytest.mark.usefixtures("rough_forecasts")
def test_plans_the_best_of_groups_as_an_earlier_run_rated_them(tmp_path: Path) -> None:
    rows = [
        {"id": f"p{k}", "prompt": f"Name {k // 4} colours.", "response": f"{k} more."}
        for k in range(8)
    ]
    data = tmp_path / "pairs.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_pool(tmp_path / "clear.csv", {4: [4] * 9 + [3], 1: [0, 1] * 5}, 8)
    write_pool(tmp_path / "alike.csv", {4: [3, 3, 4] * 4, 1: [1, 2, 3] * 4}, 8)
    easy, hard = (
        robin(
            *plan(data, 80, "--decide", "best", "--variances", f"{name}.csv", "--json"),
            cwd=tmp_path,
        )
        for name in ("clear", "alike")
    )
    facts = json.loads(easy.stdout)
    assert facts["scheduler"] == "auto"
    assert (facts["decide"]["of"], facts["decide"]["decisions"]) == ("groups", 2)
    assert facts["forecast"][1]["wrong"] == 0
    assert facts["decide"]["calls_to_end"] < 80 < json.loads(hard.stdout)["decide"]["calls_to_end"]
    assert facts["variances_from"] is None


@pytest.mark.usefixtures("rough_forecasts")
def test_a_pilot_of_decisions_is_the_beginning_of_the_run_and_tells_how_long_it_takes(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    judge = (
        "--base-url",
        replay_url,
        "--model",
        REPLAY_MODEL,
        *PRICES,
        "--seed",
        "3",
        "--run",
        "r",
    )
    decision = ("--decide", "score>=3", "--margin", "0.5")

    facts = facts_of(tmp_path, *plan(data, 4_000, *judge, *decision, "--pilot", "6"))
    other = robin(*plan(data, 4_000, *judge, "--pilot", "3"), cwd=tmp_path)
    whole = robin("resume", "r", "--budget", "4000", cwd=tmp_path)
    after = robin(*plan(data, 4_000, *judge, *decision, "--pilot", "6"), cwd=tmp_path)

    assert facts["pilot"] == {"run": "r", "spent": 180}
    assert facts["decide"]["by_pilot"] is False
    assert (
        "decide" in other.stderr
    )  # the run at r is to decide something, and this plan is of another
    assert other.returncode == 2
    assert whole.returncode == 0, whole.stderr
    spent = len(pd.read_parquet(tmp_path / "r" / "judgments"))
    assert spent < 2_000
    assert spent == pytest.approx(facts["decide"]["calls_to_end"], rel=0.5)
    assert "taken as it is" in after.stderr
    assert "The pilot decided everything" in after.stdout


def test_takes_every_flag_of_judge(tmp_path: Path) -> None:
    def flags(command: str) -> set[str]:
        return {
            word.strip(",.")
            for word in robin(command, "--help-all", cwd=tmp_path).stdout.split()
            if word.startswith("--")
        }

    assert flags("judge") <= flags("plan")


@pytest.mark.usefixtures("planned_once")
def test_compares_the_ways_to_make_the_same_calls(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 50)
    command = plan(data, 1000, *OPENAI, "--rpm", "500")

    said, facts = said_by(tmp_path, *command), facts_of(tmp_path, *command)
    batched = facts_of(tmp_path, *command, "--batch", "--rounds", "6")

    assert "--batch, 4 rounds" in said
    assert "≤ 96 h" in said
    alone, flex, batch = facts["ways"]
    assert [each["way"] for each in facts["ways"]] == ["one call at a time", "flex", "batch"]
    assert [each["is_planned"] for each in facts["ways"]] == [True, False, False]
    assert (
        flex["cost_usd_at_most"]
        == batch["cost_usd_at_most"]
        == pytest.approx(alone["cost_usd_at_most"] / 2)
    )
    assert [each["seconds"] for each in facts["ways"]] == [120, None, 4 * 24 * 3600]
    assert alone["worst_error"] == facts["forecast"][1]["worst_error"] == flex["worst_error"]
    assert batch["worst_error"] == pytest.approx(alone["worst_error"], rel=0.2)
    assert batch["worst_error"] != alone["worst_error"]
    assert [each["is_planned"] for each in batched["ways"]] == [False, False, True]
    assert batched["ways"][2]["worst_error"] == batched["forecast"][1]["worst_error"]
    assert (batched["ways"][2]["rounds"], batched["forecast"][1]["seconds"]) == (6, None)
    assert batched["forecast"][1]["cost_usd_at_most"] == batch["cost_usd_at_most"]


def test_says_how_the_ways_differ_and_names_none_where_there_is_one(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    local = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")
    assert "by the answers of the rounds before." in said_by(tmp_path, *plan(data, 1000, *OPENAI))
    batched = said_by(tmp_path, *plan(data, 1000, *OPENAI, "--batch"))
    assert "--scheduler auto: two-priors; it asks where ratings vary" in batched
    assert "--batch, 1 round" in said_by(
        tmp_path, *plan(data, 1000, *OPENAI, "--batch", "--scheduler", "uniform")
    )
    given = said_by(tmp_path, *plan(data, 100, *local, "--price-in", "1", "--price-out", "1"))
    assert "Where the endpoint has them: they are taken to cost half." in given
    assert facts_of(tmp_path, *plan(data, 100, *local))["ways"] == []


PAIRWISE = ("plan", RESPONSES, "--pairwise")


@pytest.mark.usefixtures("rough_forecasts", "planned_once")
def test_says_how_many_comparisons_a_budget_asks_and_sends_nothing(tmp_path: Path) -> None:
    few = tmp_path / "few.jsonl"  # of twelve prompts
    few.write_text(
        "".join(RESPONSES.read_text(encoding="utf-8").splitlines(keepends=True)[: 12 * 6]),
        encoding="utf-8",
    )
    command = ("plan", few, "--pairwise", "--budget", "180", "--model", "gpt-4.1-mini")
    shown = robin(*command, cwd=tmp_path, COLUMNS="80")
    assert shown.returncode == 0, shown.stderr
    assert len(shown.stdout.splitlines()) <= 15
    said = said_by(tmp_path, *command)
    for part in (
        *(
            "180 calls cost about $",
            "180 comparisons of 6 systems",
            "To ask all once takes 360 calls: 2 orders.",
        ),
        *(
            "--scheduler auto: with 6 systems it asks what settles most of their order",
            "Nothing was sent.",
            "not all comparisons need be asked",
        ),
        "each system's win rate is known to ± ",
    ):
        assert part in said
    assert "error" not in said

    facts = facts_of(tmp_path, *command)
    rows = facts["forecast"]
    assert {*COMMON.split(), *OF_VERDICTS.split()} <= {*facts}
    assert [row["budget"] for row in rows] == [90, 180, 360, 720]
    assert [row["comparisons_asked"] for row in rows] == [45, 90, 180, 180]
    assert [row["calls_of_each"] for row in rows] == [1, 1, 1, 2]
    wins = [row["win_rate_half_width"] for row in rows]
    assert wins == sorted(wins, reverse=True)
    assert rows[2]["wrong"] < rows[0]["wrong"] < 0.3
    assert rows[2]["wrong"] < rows[2]["even_wrong"] + 2 * rows[2]["even_wrong_sem"]
    assert [row["cost_usd_at_least"] for row in rows] == sorted(
        row["cost_usd_at_least"] for row in rows
    )
    ways = {row["way"]: row for row in facts["ways"]}
    assert ways["batch"]["cost_usd_at_least"] == pytest.approx(
        0.5 * ways["one call at a time"]["cost_usd_at_least"]
    )
    assert ways["batch"]["seconds"] == 4 * 24 * 3600

    written = robin(*command, "-o", "plan.csv", cwd=tmp_path)
    assert (written.returncode, written.stdout) == (0, "")
    table = pd.read_csv(tmp_path / "plan.csv")
    assert list(table) == list(rows[0])
    assert table["win_rate_half_width"].tolist() == pytest.approx(wins)
    assert table["known_then"].tolist() == [row["known_then"] for row in rows]


def test_plans_to_ask_all_once_where_no_budget_is_given(tmp_path: Path) -> None:
    two = tmp_path / "two.jsonl"
    rows = [json.loads(line) for line in RESPONSES.read_text(encoding="utf-8").splitlines()]
    two.write_text(
        "".join(json.dumps(row) + "\n" for row in rows if row["system"] in {"amber", "birch"}),
        "utf-8",
    )
    facts = facts_of(tmp_path, "plan", two, "--pairwise", "--model", "a", "--model", "b")
    assert (facts["comparisons"], facts["calls_a_comparison"], facts["budget"]) == (40, 4, 160)
    assert facts["scheduler"] == "uniform"
    assert facts["preferences_vary"]["told_by"] == 0
    best = facts_of(tmp_path, *PAIRWISE, "--decide", "best", "--model", "m", "--budget", "400")
    assert best["scheduler"] == "auto"
    assert "of the best responses are wrong" in best["forecast"][2]["known_then"]


@pytest.mark.usefixtures("rough_forecasts")
def test_plans_comparisons_by_a_pilot_that_is_the_beginning_of_the_run(tmp_path: Path) -> None:
    with replaying(DEMO / "votes.parquet") as url:
        judge = ("--base-url", url, "--model", "replay:votes", "--run", "r", "--limit", "12")
        said = said_by(tmp_path, *PAIRWISE, "--budget", "300", "--pilot", "50", *judge)
        told = re.search(r"as in (\d+) comparisons of the pilot", said)
        assert told is not None
        assert 40 <= int(told[1]) <= 50  # some may be asked twice
        assert "The pilot's 100 calls count" in said
        assert "To spend it: robin resume r --budget 300" in said
        again = robin("resume", "r", "--budget", "300", "--base-url", url, cwd=tmp_path)
        assert again.returncode == 0, again.stderr
        assert "300 of 300 calls spent, 200 verdicts in this session" in again.stderr
        few = robin(*PAIRWISE, "--pilot", "5", *judge, cwd=tmp_path)
    assert few.returncode == 2
    assert "20 are needed; give more" in few.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--for-error", "0.2"), "leave one of the two out"),
        (("--compare", "0.1"), "leave one of the two out"),
        (("--budget", "4"), "raise it to 10 or more"),
        (("--target-error", "0.1"), "leave one of the two out"),
    ],
)
def test_refuses_what_comparisons_do_not_have(
    tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    done = robin(*PAIRWISE, "--model", "m", *more, cwd=tmp_path)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
