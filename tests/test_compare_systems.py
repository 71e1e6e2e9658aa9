"""robin judge --decide system as a user runs it: real processes, over HTTP, and in Python."""

from __future__ import annotations

import io
import json
import random
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import robin_cli
from robin_cli import RobinError, open_run
from tests.conftest import refuses, robin
from tests.judges.wire import Answer, completion, error, serving

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")
Rows = list[dict[str, Any]]

PROMPTS = 30
SYSTEMS = ("alpha", "beta")
MEANS = {"alpha": 3.1, "beta": 1.9, "gamma": 1.8}


def rows_of(prompts: int = PROMPTS, systems: tuple[str, ...] = SYSTEMS) -> Rows:
    """The responses of all systems to all prompts, system by system."""
    return [
        {
            "id": f"{name}-{k}",
            "prompt": f"Question {k}?",
            "response": f"Said by {name} on {k}.",
            "model": name,
        }
        for name in systems
        for k in range(prompts)
    ]


def write_rows(path: Path, rows: Rows | None = None) -> Path:
    lines = [json.dumps(row) + "\n" for row in (rows_of() if rows is None else rows)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def asked_of(body: Mapping[str, Any]) -> tuple[int, str]:
    """The prompt and the system that a request is about."""
    found = re.search(r"Said by (\w+) on (\d+)\.", json.dumps(body))
    assert found is not None
    return int(found[2]), found[1]


def rating(prompt: int, system: str, luck: random.Random) -> int:
    """A rating that varies by 0.5 from one of its prompts to the next, and by 0.5 from call to call."""
    mean = MEANS[system] + 0.5 * random.Random(f"{prompt} {system}").gauss(0, 1)
    return min(4, max(0, round(mean + 0.5 * luck.gauss(0, 1))))


def rated() -> Callable[[int, dict[str, Any]], Answer]:
    luck = random.Random(1)
    return lambda _, body: completion(f"Rating: {rating(*asked_of(body), luck)}")


def judging(url: str, budget: int, *more: str) -> list[str]:
    judge = [
        *("judge", "pairs.jsonl", "-a", "helpfulness", "-b", str(budget), "--base-url", url),
        *("--model", "m"),
    ]
    return [*judge, "--columns", "system=model", "--decide", "system", "--run", "r", *more]


def scores_in(text: str) -> pd.DataFrame:
    scores = pd.read_csv(io.StringIO(text))
    scores[["system", "prompt"]] = scores["pair_id"].str.split("-", expand=True)
    return scores


def fewest_and_most(scores: pd.DataFrame) -> set[tuple[int, int]]:
    """How often the responses to a prompt were rated, for each prompt."""
    by_prompt = scores.groupby("prompt")["n"].agg(["min", "max"])
    return {(int(low), int(high)) for low, high in by_prompt.to_numpy()}


def test_asks_about_whole_prompts_and_says_what_it_did_not_reach(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl")
    with serving(rated()) as wire:
        done = robin(*judging(wire.url, 24, "--concurrency", "1"), cwd=tmp_path, exits=0)
        asked = [asked_of(body) for body in wire.bodies]

    said = " ".join(done.stderr.split())
    assert (
        "--scheduler auto: uniform; for --decide system, it asks whole prompts, in random order"
        in said
    )
    assert (
        "the budget of 24 asks about 12 of the 30 prompts that systems are compared on, drawn at random"
        in said
    )
    assert "12 of 30 prompts asked about in full; 36 pairs without a score" in said
    assert re.search(
        r"(alpha|beta) (and|is better than) (alpha|beta) .*\[.*, .*\] \(95 %, over 12 prompts\)",
        said,
    )
    assert re.search("next: robin re(sume r --budget 48|port r -o report.html)$", said)
    assert [prompt for prompt, _ in asked[::2]] == [prompt for prompt, _ in asked[1::2]]
    assert len({prompt for prompt, _ in asked}) == 12
    scores = scores_in(done.stdout)
    assert len(scores) == 60
    assert fewest_and_most(scores) == {(0, 0), (1, 1)}
    settings = json.loads((tmp_path / "r" / "manifest.json").read_text())["settings"]
    assert (settings["decide"], settings["scheduler"]) == ("system", "uniform")
    for command in (
        ("status", "r", "--json"),
        ("report", "r"),
        ("export", "r", "--with-text"),
        ("runs", "."),
    ):
        robin(*command, cwd=tmp_path, exits=0)


@pytest.mark.parametrize("concurrency", ["1", "32"])
def test_ends_at_the_look_that_tells_the_systems_apart(tmp_path: Path, concurrency: str) -> None:
    goal = ("--target-wrong", "0.05", "--concurrency", concurrency)
    for name, systems, spent in (("far", ("alpha", "beta"), 80), ("near", ("beta", "gamma"), 100)):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name / "pairs.jsonl", rows_of(45, systems))
        with serving(rated()) as wire:
            robin(*judging(wire.url, 100, *goal), cwd=tmp_path / name, exits=0)
        told = json.loads(robin("status", "r", "--json", cwd=tmp_path / name).stdout)
        # two systems, and looks at 20, 40 and 45 prompts
        assert (told["spent"], told["state"]) in {(40, "finished"), (spent, "finished")}
        status = robin("status", "r", cwd=tmp_path / name).stdout
        reached = "reached" if spent < 100 else "not reached"
        assert f"every one-sided p at most 0.05 over all looks: {reached}" in " ".join(
            status.split()
        )
    more = robin("resume", "r", "--budget", "200", cwd=tmp_path / "far")
    assert "the run has reached its goal already" in more.stderr
    assert "--target-wrong with a smaller share, or 0" in " ".join(more.stderr.split())


def test_goes_on_with_the_same_order_in_later_sessions(tmp_path: Path) -> None:
    asked: list[list[tuple[int, str]]] = []
    said = ""
    for name, budgets in (("whole", [90]), ("parts", [13, 40, 90])):
        folder = tmp_path / name
        folder.mkdir()
        write_rows(folder / "pairs.jsonl")
        with serving(rated()) as wire:
            first = robin(
                *judging(wire.url, budgets[0], "--concurrency", "1", "--seed", "7"),
                cwd=folder,
                exits=0,
            )
            said = first.stderr
            (folder / "pairs.jsonl").unlink()  # the run has its own copy
            for budget in budgets[1:]:
                robin("resume", "r", "--budget", str(budget), cwd=folder, exits=0)
            asked.append([asked_of(body) for body in wire.bodies])
    whole, parts = asked
    assert whole[:60] == parts[:60]
    assert sorted(whole[:60]) == sorted((k, system) for k in range(PROMPTS) for system in SYSTEMS)
    assert len(parts) == 90
    assert "6 of 30 prompts asked about in full, 1 partly; 47 pairs without a score" in said


def test_leaves_few_prompts_partly_asked_at_many_calls_at_a_time_and_with_failures(
    tmp_path: Path,
) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(100))
    answer, luck = rated(), random.Random(2)

    def flaky(number: int, body: dict[str, Any]) -> Any:
        kind = luck.random()
        if kind < 0.1:
            return error(500, "not now")
        return completion("no idea") if kind < 0.2 else answer(number, body)

    with serving(flaky) as wire:
        done = robin(*judging(wire.url, 120, "--concurrency", "24"), cwd=tmp_path, exits=0)
    by_prompt = scores_in(done.stdout).groupby("prompt")["n"]
    assert by_prompt.min().sum() >= 40
    assert (by_prompt.max() - by_prompt.min()).sum() <= 8
    assert by_prompt.max().max() == 1


def test_asks_all_attributes_of_all_judges_about_each_prompt(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(systems=("alpha", "beta", "gamma")))
    more = ("-a", "helpfulness,verbosity", "--model", "other", "--concurrency", "1")
    with serving(rated()) as wire:
        done = robin(*judging(wire.url, 18 * 12, *more), cwd=tmp_path, exits=0)
        asked = [asked_of(body)[0] for body in wire.bodies]
        judges = [body["model"] for body in wire.bodies]
    assert len(set(asked)) == 18
    assert all(len(set(asked[k : k + 12])) == 1 for k in range(0, len(asked), 12))
    assert judges.count("m") == judges.count("other")
    assert fewest_and_most(scores_in(done.stdout)) == {(0, 0), (2, 2)}
    assert "18 of 30 prompts asked about in full" in done.stderr


ROWS = rows_of()
ALPHA = rows_of(systems=("alpha",))
NO_MODEL = [{name: value for name, value in row.items() if name != "model"} for row in ROWS]
OWN_COLUMN = [{**row, **({"system": row["model"]} if k else {})} for k, row in enumerate(ROWS)]
OWN_PROMPTS = [{**row, "prompt": row["prompt"] + row["model"]} for row in ROWS]
BY_ID = ("--columns", "id=id")
BAD: list[tuple[str, tuple[str, ...], Rows, str]] = [
    ("no column", BY_ID, ROWS, "(it also has model); name the column that does: --columns"),
    ("no further column", BY_ID, NO_MODEL, "(it has no further columns)"),
    ("one system", (), ALPHA, 'all pairs are of one system, "alpha"'),
    ("some without", BY_ID, OWN_COLUMN, "1 of 60 pairs do not say which system answered"),
    ("few prompts", (), ALPHA + ROWS[-4:], "answered 4 of 30 prompts, and at least 5"),
    ("other prompts", (), OWN_PROMPTS, "answered 0 of 60 prompts"),
    ("margin", ("--margin", "0.1"), ROWS, "not with --margin"),
    ("target", ("--target-error", "0.3"), ROWS, "--target-error"),
    ("theory", ("--mode", "theory"), ROWS, "not with --mode theory"),
    ("scheduler", ("--scheduler", "two-priors"), ROWS, "leave --scheduler two-priors out"),
    (
        "budget",
        ("--budget", "9"),
        ROWS,
        "the fewest that systems are compared on; raise it to 10 or more",
    ),
]


@pytest.mark.parametrize(
    ("given", "rows", "said"), [each[1:] for each in BAD], ids=[each[0] for each in BAD]
)
def test_refuses_what_cannot_be_compared_before_anything_is_sent_or_made(
    tmp_path: Path, given: tuple[str, ...], rows: Rows, said: str
) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows)

    done = robin(*judging("http://127.0.0.1:9/v1", 100, *given), cwd=tmp_path, exits=2)

    assert said in " ".join(done.stderr.split())
    assert not (tmp_path / "r").exists()


def test_says_beforehand_that_too_few_prompts_end_no_run(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of(19))
    asked = ("plan", *judging("http://127.0.0.1:9/v1", 100, "--target-wrong", "0.05")[1:])
    done = robin(*asked, cwd=tmp_path, exits=0)
    assert "--target-wrong: ends no run of 19 prompts" in " ".join(done.stderr.split())


def test_keeps_to_comparing_when_it_goes_on(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl")
    with serving(rated()) as wire:
        robin(*judging(wire.url, 20), cwd=tmp_path, exits=0)
        target = robin(
            "resume", "r", "--budget", "40", "--target-error", "0.3", cwd=tmp_path, exits=2
        )
        other = robin(*judging(wire.url, 60, "--decide", "score>=3"), cwd=tmp_path, exits=2)
        again = robin(*judging(wire.url, 40), cwd=tmp_path, exits=0)
        spent = robin("resume", "r", cwd=tmp_path)
    assert "--target-error: this run compares systems" in target.stderr
    assert "decide: the run has system" in other.stderr
    for each in (again, spent):
        assert "20 of 30 prompts asked about in full" in each.stderr


def test_says_what_to_do_where_a_run_lost_its_systems(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl")
    with serving(rated()) as wire:
        robin(*judging(wire.url, 20), cwd=tmp_path, exits=0)
        (tmp_path / "r" / "columns.parquet").unlink()
        done = robin("resume", "r", "--budget", "40", cwd=tmp_path)
    assert done.returncode != 0
    assert "columns.parquet is missing; restore it from a copy" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_counts_prompts_of_one_system_and_asks_them_last(tmp_path: Path) -> None:
    write_rows(tmp_path / "pairs.jsonl", rows_of() + rows_of(40, ("alpha",))[30:])
    with serving(rated()) as wire:
        done = robin(*judging(wire.url, 64, "--concurrency", "1"), cwd=tmp_path, exits=0)
        asked = [asked_of(body)[0] for body in wire.bodies]
    assert "one system alone answered 10 of 40 prompts" in done.stderr
    assert max(asked[:60]) < 30 <= min(asked[60:])
    assert "30 of 30 prompts asked about in full; 6 pairs without a score" in done.stderr


def test_simulates_no_comparison_and_says_what_does(tmp_path: Path) -> None:
    (tmp_path / "pool.csv").write_text(
        "pair_id,rating\n" + "".join(f"p{k % 5},{k % 4}\n" for k in range(40))
    )
    done = robin(
        "simulate", "pool.csv", "--budget", "20", "--decide", "system", cwd=tmp_path, exits=2
    )
    assert "robin compare" in done.stderr


LUCK = random.Random(3)


def here(messages: list[Mapping[str, str]]) -> str:
    """The same judge as a function."""
    return f"Rating: {rating(*asked_of({'messages': messages}), LUCK)}"


def in_python(run: Path, budget: int, **settings: Any) -> dict[str, Any]:
    asked = {
        "attribute": "helpfulness",
        "judge": here,
        "columns": {"system": "model"},
        "decide": "system",
    }
    return {**asked, "run": run, "budget": budget, **settings}


def test_goes_on_and_refuses_in_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = write_rows(tmp_path / "pairs.jsonl")

    run = robin_cli.judge(data, **in_python(tmp_path / "r", 30))
    assert run.scores()["score"].notna().sum() == 30
    again = open_run(tmp_path / "r").resume(budget=70, judge=here)

    assert again.scores()["score"].notna().all()
    said = capsys.readouterr().err
    assert "15 of 30 prompts asked about in full; 30 pairs without a score\n" in said
    assert "30 of 30 prompts asked about in full\n" in said
    assert said.count("next: robin ") == 2
    one = write_rows(tmp_path / "one.jsonl", rows_of(systems=("alpha",)))
    refuses(
        RobinError,
        "all pairs are of one system",
        robin_cli.judge,
        one,
        **in_python(tmp_path / "one", 60),
    )
