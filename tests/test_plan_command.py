"""robin plan as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tests.conftest import REPLAY_MODEL, free_port, judging, robin, write_pairs


def plan(data: Path, budget: int, *more: str | Path) -> list[str | Path]:
    return ["plan", data, "--budget", str(budget), "-a", "helpfulness", *more]


def test_plans_a_budget_and_sends_nothing(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 50)
    url = f"http://127.0.0.1:{free_port()}/v1"  # nobody listens
    command = plan(data, 4000, "--base-url", url, "--model", "m", "--price-in", "1", "--price-out", "2", "--rpm", "600")

    shown = robin(*command, cwd=tmp_path)
    facts = json.loads(robin(*command, "--json", cwd=tmp_path).stdout)

    assert shown.returncode == 0, shown.stderr
    assert "Nothing was sent" in shown.stdout
    assert "For a largest error of 0.3 you need" in shown.stdout
    assert "--pilot" in shown.stdout
    assert "--max-cost" not in shown.stdout
    assert (facts["arms"], facts["calls_an_arm"], facts["pilot"]) == (50, 80, None)
    assert [row["budget"] for row in facts["forecast"]] == [2000, 4000, 8000, 16000]
    errors = [row["worst_error"] for row in facts["forecast"]]
    assert errors == sorted(errors, reverse=True)
    assert all(row["mean_error"] < row["worst_error"] for row in facts["forecast"])
    assert {row["bound"] for row in facts["forecast"]} == {None}  # practice mode has none
    assert 300 < facts["prompt_tokens"] / 4000 < 900
    at = facts["forecast"][1]
    assert at["seconds"] == 400
    assert at["cost_usd_at_least"] == pytest.approx(facts["prompt_tokens"] / 1e6)
    assert at["cost_usd_at_most"] - at["cost_usd_at_least"] == pytest.approx(2 * 1024 * 4000 / 1e6)
    assert list(tmp_path.iterdir()) == [data]


def test_says_the_papers_bound_where_its_theorem_holds(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)

    shown = robin(*plan(data, 8000, "--mode", "theory"), cwd=tmp_path)

    assert shown.returncode == 0, shown.stderr
    assert "Theorem 2, with B − K·t0 for B" in " ".join(shown.stdout.split())


def test_a_pilot_is_a_run_whose_calls_count(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 40)
    judge = ("--base-url", replay_url, "--model", REPLAY_MODEL, "--price-in", "1", "--price-out", "1", "--run", "r")

    done = robin(*plan(data, 1600, *judge, "--pilot", "4", "--json"), cwd=tmp_path)
    again = robin(*plan(data, 1600, *judge, "--pilot", "4"), cwd=tmp_path)
    resumed = robin("resume", "r", "--budget", "1600", cwd=tmp_path)
    after = robin(*plan(data, 3200, *judge, "--pilot", "4"), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "spread evenly" not in done.stderr  # that a pilot is small is no surprise
    facts = json.loads(done.stdout)
    assert facts["pilot"] == {"run": "r", "spent": 160}
    assert facts["scheduler"] == "robin-hood"  # by the budget that is planned for, and not by the pilot's
    assert json.loads((tmp_path / "r" / "manifest.json").read_text())["settings"]["scheduler"] == "robin-hood"
    answers = pd.read_parquet(tmp_path / "r" / "judgments").iloc[:160]
    row = facts["forecast"][1]
    assert row["cost_usd_at_least"] == row["cost_usd_at_most"]
    assert row["cost_usd_at_most"] == pytest.approx(10 * answers["cost_usd"].sum())
    assert row["seconds"] > 0
    assert again.returncode == 0, again.stderr
    assert "robin resume r --budget 1600" in again.stdout
    assert "nothing was sent" in again.stderr
    assert resumed.returncode == 0, resumed.stderr
    assert "taken as it is" in after.stderr
    assert "1,600 calls count" in after.stdout
    assert len(pd.read_parquet(tmp_path / "r" / "judgments")) == 1600


def test_finds_the_budget_for_an_error_without_a_guess(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    command = ("plan", data, "-a", "helpfulness", "--scheduler", "uniform", "--price-in", "1", "--price-out", "1")

    facts = json.loads(robin(*command, "--for-error", "0.15", "--json", cwd=tmp_path).stdout)
    shown = robin(*command, "--for-error", "0.15", cwd=tmp_path, COLUMNS="200").stdout

    target = facts["for_error"]
    assert target["calls"] == facts["budget"] > 1500
    assert target["calls_low"] < target["calls"] < target["calls_high"]
    (row,) = (row for row in facts["forecast"] if row["budget"] == facts["budget"])
    assert row["worst_error"] == pytest.approx(0.15, rel=0.15)
    assert row["cost_usd_at_least"] > 0
    assert shown.startswith(
        f"For a largest error of 0.15 you need about {target['calls']:,} calls "
        f"(95 %: {target['calls_low']:,} to {target['calls_high']:,}).\n"
    )


def test_never_plans_less_than_a_pilot_spent_and_says_where_the_money_ends(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    judge = ("--base-url", replay_url, "--model", REPLAY_MODEL, "--price-in", "1", "--price-out", "1", "--run", "r")

    piloted = robin(*plan(data, 900, *judge, "--pilot", "20", "--max-cost", "0.4", "--json"), cwd=tmp_path)
    refused = robin(*plan(data, 300, *judge, "--pilot", "2"), cwd=tmp_path)
    target = robin("plan", data, "-a", "helpfulness", *judge, "--pilot", "2", "--for-error", "2", cwd=tmp_path)
    whole = robin("resume", "r", "--budget", "900", "--max-cost", "0.4", cwd=tmp_path)

    facts = json.loads(piloted.stdout)
    answers = pd.read_parquet(tmp_path / "r" / "judgments")
    pilot, spent = answers.iloc[:400], answers["cost_usd"].sum()
    assert facts["pilot"]["spent"] == 400
    assert facts["forecast"][0]["budget"] >= 400
    assert facts["forecast"][0]["cost_usd_at_least"] >= pilot["cost_usd"].sum()
    assert facts["prompt_tokens"] >= pilot["prompt_tokens"].sum()
    assert refused.returncode == 2
    assert "the pilot r has spent 400 calls already; plan for more" in refused.stderr
    assert "at most 400 calls" in target.stdout

    assert whole.returncode == 4, whole.stderr
    assert spent <= 0.4
    bought = facts["max_cost_calls_at_least"]
    assert bought == facts["max_cost_calls_at_most"]
    assert bought == pytest.approx(len(answers), rel=0.02)
    assert {row["budget"]: row["within_max_cost"] for row in facts["forecast"]} == {
        450: True,
        bought: True,
        **dict.fromkeys((900, 1800, 3600), False),
    }


def test_says_where_a_budget_does_not_reach(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)

    shown = robin(*plan(data, 120, "--scheduler", "robin-hood"), cwd=tmp_path).stdout

    assert "below ROBIN-HOOD's warm-up" in shown
    assert "For a largest error of 0.1 you need more than 480 calls (spread evenly: more than 480)." in shown


def test_plans_by_the_ratings_of_an_earlier_run(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)
    alike = [(f"p{k}", 3) for k in range(30) for _ in range(20)]
    varied = [(f"p{k}", rating) for k in range(30) for rating in [0, 4] * 10]
    for name, rows in {"alike": alike, "varied": varied}.items():
        pd.DataFrame(rows, columns=["pair_id", "rating"]).to_csv(tmp_path / f"{name}.csv", index=False)

    calm, wild = (
        json.loads(robin(*plan(data, 900, "--variances", f"{name}.csv", "--json"), cwd=tmp_path).stdout)
        for name in ("alike", "varied")
    )

    assert calm["forecast"][1]["worst_error"] < 0.15
    assert wild["forecast"][1]["worst_error"] > 0.4
    assert "varied.csv" in wild["ratings_vary_as"]


def test_counts_a_prompt_for_each_request_that_the_planned_run_makes(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    evenly = ("--scheduler", "uniform")
    robin(
        *judging(replay_url, data, 30, *evenly, "--samples-per-request", "3", "--run", "r"), cwd=tmp_path
    )  # ten requests
    sent = pd.read_parquet(tmp_path / "r" / "judgments")["prompt_tokens"].sum()

    one, two = (
        json.loads(
            robin(
                *plan(data, 90, *evenly, "--variances", "r", "--samples-per-request", n, "--json"), cwd=tmp_path
            ).stdout
        )
        for n in ("1", "2")
    )

    assert one["prompt_tokens"] == pytest.approx(sent / 10 * 90, rel=0.01)
    assert two["prompt_tokens"] == pytest.approx(sent / 10 * 50, rel=0.01)  # nine by twos: five requests a pair


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
        (("--decide", "best"), "name the column that says which responses belong together with --group"),
        (("--decide", "best", "--group", "system"), '"system"'),
        (("--decide", "score>=3", "--group", "id"), "--group: is for --decide best"),
        (("--decide", "score>=3", "--scheduler", "lucb"), "needs groups"),
        (("--decide", "score>=3", "--pilot", "100"), "make the pilot smaller"),
    ],
)
def test_refuses_a_plan_that_could_not_be_run(tmp_path: Path, more: tuple[str, ...], step: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)

    refused = robin(*plan(data, 900, *more), cwd=tmp_path)

    assert refused.returncode == 2
    assert step in refused.stderr
    assert list(tmp_path.iterdir()) == [data]


DECISION = ("--decide", "score>=3", "--margin", "0.2")


def write_groups(path: Path, count: int) -> Path:
    rows = [
        {"id": f"p{k}", "prompt": f"Name {k // 4} colours.", "response": f"Blue, and {k} more."} for k in range(count)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_plans_decisions_and_says_when_everything_is_decided(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 60)
    command = plan(data, 600, *DECISION, "--price-in", "1", "--price-out", "1")

    shown = robin(*command, cwd=tmp_path, COLUMNS="200")
    facts = json.loads(robin(*command, "--json", cwd=tmp_path).stdout)

    assert shown.returncode == 0, shown.stderr
    decide, rows = facts["decide"], facts["forecast"]
    assert (facts["scheduler"], facts["scheduler_asked"]) == ("apt", "auto")
    assert (decide["of"], decide["decisions"], decide["margins"]) == ("pairs", 60, {"helpfulness": 0.2})
    assert shown.stdout.startswith(
        f"To decide everything (score>=3, for 60 pairs) takes about {decide['calls_to_end']:,} calls "
        f"(95 %: {decide['calls_to_end_low']:,} to {decide['calls_to_end_high']:,}; spread evenly: "
    )
    assert decide["calls_to_end_low"] < decide["calls_to_end"] < decide["calls_to_end_high"]
    assert decide["calls_to_end"] < decide["even_calls_to_end"]
    assert [row["budget"] for row in rows] == [300, 600, 1200, 2400]
    assert [row["wrong"] for row in rows] == sorted((row["wrong"] for row in rows), reverse=True)
    assert rows[0]["wrong"] < rows[0]["even_wrong"]
    assert (rows[0]["calls"], rows[0]["certified"]) == (300, pytest.approx(0, abs=0.05))
    assert rows[-1]["certified"] == 1
    assert rows[-1]["calls"] < 2000  # a run ends before its budget is spent, and costs less
    a_call = rows[0]["cost_usd_at_least"] / 300
    assert rows[-1]["cost_usd_at_least"] == pytest.approx(a_call * rows[-1]["calls"], rel=0.01)
    assert [each["wrong"] for each in facts["calls_for"]] == [0.01, 0.001]
    assert facts["calls_for"][0]["calls"] < facts["calls_for"][0]["even_calls"]
    assert "600 calls at most" in shown.stdout
    assert "rough forecast" in shown.stdout
    for not_of_decisions in ("largest error", "paper's bound", "worst"):
        assert not_of_decisions not in shown.stdout


def test_plans_decisions_without_a_budget_up_to_their_end(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 30)

    facts = json.loads(robin("plan", data, "-a", "helpfulness", *DECISION, "--json", cwd=tmp_path).stdout)

    assert facts["budget"] == pytest.approx(facts["decide"]["calls_to_end"], rel=0.15)


def test_plans_the_best_of_groups_as_an_earlier_run_rated_them(tmp_path: Path) -> None:
    data = write_groups(tmp_path / "pairs.jsonl", 16)
    clear = [(f"p{k}", rating) for k in range(16) for rating in ([4] * 9 + [3] if k % 4 == 0 else [0, 1] * 5)]
    alike = [(f"p{k}", rating) for k in range(16) for rating in [1, 2, 3] * 4]
    for name, rows in {"clear": clear, "alike": alike}.items():
        pd.DataFrame(rows, columns=["pair_id", "rating"]).to_csv(tmp_path / f"{name}.csv", index=False)

    def planned(name: str) -> tuple[dict[str, Any], str]:
        done = robin(*plan(data, 160, "--decide", "best", "--variances", f"{name}.csv", "--json"), cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout), done.stderr

    (easy, said), (hard, _) = planned("clear"), planned("alike")

    assert easy["scheduler"] == "lucb"
    assert (easy["decide"]["of"], easy["decide"]["decisions"]) == ("groups", 4)
    assert easy["forecast"][1]["wrong"] == 0
    assert easy["decide"]["calls_to_end"] < 480 < hard["decide"]["calls_to_end"]
    assert easy["variances_from"] is None
    assert "lucb begins with none" in said


def test_a_pilot_of_decisions_is_the_beginning_of_the_run_and_tells_how_long_it_takes(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 100)
    judge = ("--base-url", replay_url, "--model", REPLAY_MODEL, "--price-in", "1", "--price-out", "1", "--run", "r")

    piloted = robin(*plan(data, 20_000, *judge, *DECISION, "--pilot", "6", "--json"), cwd=tmp_path)
    other = robin(*plan(data, 20_000, *judge, "--pilot", "3"), cwd=tmp_path)
    whole = robin("resume", "r", "--budget", "20000", cwd=tmp_path)
    after = robin(*plan(data, 20_000, *judge, *DECISION, "--pilot", "6"), cwd=tmp_path)

    assert piloted.returncode == 0, piloted.stderr
    facts = json.loads(piloted.stdout)
    assert facts["pilot"] == {"run": "r", "spent": 600}
    assert facts["decide"]["by_pilot"] is False
    assert "decide" in other.stderr  # the run at r is to decide something, and this plan is of another
    assert other.returncode == 2
    assert whole.returncode == 0, whole.stderr
    spent = len(pd.read_parquet(tmp_path / "r" / "judgments"))
    assert spent < 10_000
    assert spent == pytest.approx(facts["decide"]["calls_to_end"], rel=0.5)
    assert "taken as it is" in after.stderr
    assert "The pilot decided everything" in after.stdout


def test_takes_every_flag_of_judge(tmp_path: Path) -> None:
    def flags(command: str) -> set[str]:
        return {
            word.strip(",.") for word in robin(command, "--help", cwd=tmp_path).stdout.split() if word.startswith("--")
        }

    assert flags("judge") <= flags("plan")


OPENAI = ("--base-url", "https://api.openai.com/v1", "--model", "gpt-5-mini")


def test_compares_the_ways_to_make_the_same_calls(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 50)
    command = plan(data, 1000, *OPENAI, "--rpm", "500")

    shown = robin(*command, cwd=tmp_path)
    facts = json.loads(robin(*command, "--json", cwd=tmp_path).stdout)
    batched = json.loads(robin(*command, "--batch", "--rounds", "6", "--json", cwd=tmp_path).stdout)

    assert shown.returncode == 0, shown.stderr
    assert "--batch, 4 rounds" in shown.stdout
    assert "≤ 96 h" in shown.stdout
    alone, flex, batch = facts["ways"]
    assert [each["way"] for each in facts["ways"]] == ["one call at a time", "flex", "batch"]
    assert [each["is_planned"] for each in facts["ways"]] == [True, False, False]
    assert flex["cost_usd_at_most"] == batch["cost_usd_at_most"] == pytest.approx(alone["cost_usd_at_most"] / 2)
    assert [each["seconds"] for each in facts["ways"]] == [120, None, 4 * 24 * 3600]
    assert alone["worst_error"] == facts["forecast"][1]["worst_error"] == flex["worst_error"]
    assert batch["worst_error"] == pytest.approx(alone["worst_error"], rel=0.2)
    assert batch["worst_error"] != alone["worst_error"]
    assert [each["is_planned"] for each in batched["ways"]] == [False, False, True]
    assert batched["ways"][2]["worst_error"] == batched["forecast"][1]["worst_error"]
    assert (batched["ways"][2]["rounds"], batched["forecast"][1]["seconds"]) == (6, None)
    assert batched["forecast"][1]["cost_usd_at_most"] == batch["cost_usd_at_most"]


def test_says_that_a_large_budget_in_rounds_is_by_another_scheduler(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)

    shown = robin(*plan(data, 1000, *OPENAI), cwd=tmp_path)
    batched = robin(*plan(data, 1000, *OPENAI, "--batch"), cwd=tmp_path)
    evenly = robin(*plan(data, 1000, *OPENAI, "--batch", "--scheduler", "uniform"), cwd=tmp_path)

    assert "by the answers of the rounds before, by two-priors" in " ".join(shown.stdout.split())
    assert "--scheduler auto: calls go out in rounds, where it does better than robin-hood." in batched.stdout
    assert "--batch, 1 round" in evenly.stdout


def test_compares_no_ways_where_there_is_one(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)
    local = ("--base-url", "http://127.0.0.1:9/v1", "--model", "m")

    unpriced = json.loads(robin(*plan(data, 100, *local, "--json"), cwd=tmp_path).stdout)
    given = robin(*plan(data, 100, *local, "--price-in", "1", "--price-out", "1"), cwd=tmp_path)

    assert unpriced["ways"] == []
    assert "Where the endpoint has them: they are taken to cost half." in given.stdout
