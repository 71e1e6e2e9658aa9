"""--target-error: the run ends once its worst error is small enough, and says what that took."""

from __future__ import annotations

import hashlib
import json
import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import robin_cli
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair
from robin_cli.run.fold import COUNTED, Fold
from robin_cli.run.reader import read_run
from tests.conftest import (
    DEMO,
    environment,
    has,
    judging,
    refuses,
    replaying,
    robin,
    wait_until,
    write_pairs,
)
from tests.judges.wire import completion, serving
from tests.recorder import recorded
from tests.starting import Robin
from tests.test_own_prompts import STARS
from tests.test_own_prompts import pairs as two_scale_pairs

pytestmark = pytest.mark.usefixtures("few_resamples", "no_pictures")
PAIRS = [Pair(f"p{k}", f"prompt {k}", f"response {k}") for k in range(6)]


class Judge:
    """Rates by a digest of the prompt and of how often it was asked: the same numbers in the same order, whoever asks."""

    name = "by-digest"

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, messages: list[Mapping[str, str]]) -> str:
        self.asked += 1
        spread = 1 + hashlib.sha256(messages[-1]["content"].encode()).digest()[0] % 3
        draw = hashlib.sha256(str(self.asked).encode()).digest()[0]
        return f"Feedback: fine.\nRating: {2 + draw % (spread + 1) - spread // 2}"


def judged(run: Path, judge: Judge | None = None, **settings: Any) -> robin_cli.Run:
    given = {
        "attribute": "helpfulness",
        "budget": 5000,
        "quiet": True,
        "concurrency": "1",
        **settings,
    }
    return robin_cli.judge(PAIRS, run=str(run), judge=judge or Judge(), **given)


def looks(until: int) -> list[int]:
    """The numbers of calls at which a run that makes one at a time looks."""
    at, found = 0, []
    for spent in range(until + 1):
        if spent >= at:
            found.append(spent)
            at = max(spent + 1, spent * 1.01)  # type: ignore[assignment]  # it may fall between
    return found


def errors_at_looks(run: Path, *, until: float) -> dict[int, float]:
    """The error that the run's status would have told at each look, by the calls made by then, until it is ``until``."""
    from robin_cli.stats.worst_error import worst_error

    data = read_run(run, COUNTED)
    found: dict[int, float] = {}
    fold, folded = Fold(data.space), 0
    for calls in looks(len(data.judgments)):
        fold.add(data.arm[folded:calls], data.judgments.slice(folded, calls - folded))
        folded = calls
        found[calls] = now = worst_error(data.space, fold.arms.sums, ~fold.arms.is_retired)
        if now <= until:
            break
    return found


def test_ends_at_the_first_look_at_which_the_error_is_small_enough_and_goes_on_with_a_smaller_one(
    tmp_path: Path,
) -> None:
    first, then = 0.8, 0.6
    judge, whole = Judge(), judged(tmp_path / "whole", budget=150, scheduler="two-priors")
    errors = errors_at_looks(whole.path, until=then)
    expected = {
        error: next(calls for calls, now in errors.items() if now <= error)
        for error in (first, then)
    }

    run = judged(tmp_path / "r", judge, target_error=first)
    status = run.status()
    assert 0 < judge.asked == status["spent"] == expected[first]
    assert (status["state"], status["target_reached"]) == ("finished", True)
    assert status["target_error"] == first
    assert status["worst_error"] == pytest.approx(errors[expected[first]])

    run.resume(judge=judge, budget=6000)
    assert judge.asked == expected[first]  # the old target is reached: nothing is sent
    run.resume(judge=judge, target_error=then)
    status = run.status()
    assert expected[first] < judge.asked == status["spent"]
    # looks go by the calls at which a session began
    assert status["spent"] <= expected[then] * 1.02 + 1
    assert status["worst_error"] <= then
    assert (status["target_error"], status["state"]) == (then, "finished")


def test_says_what_it_took_and_how_to_go_on(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 8)

    done = robin(
        *judging(replay_url, data, 4000, "--run", "r", "--target-error", "0.5"),
        cwd=tmp_path,
        exits=0,
    )
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    shown = " ".join(robin("status", "r", cwd=tmp_path).stdout.split())
    again = robin("resume", "r", cwd=tmp_path, exits=0)
    listed = robin("runs", ".", "--json", cwd=tmp_path)
    report = robin("report", "r", "-o", "-", cwd=tmp_path)

    spent, error = status["spent"], status["worst_error"]
    assert error <= 0.5
    reached, took = (
        f"the target error of 0.5 is reached (about {error:.3g}, an estimate: ",
        f"{spent:,} of 4,000 calls spent",
    )
    has(done.stderr, reached, took)
    assert "--scheduler auto: two-priors; it asks where ratings vary" in done.stderr
    has(again.stderr, reached, f"nothing was sent: the run has reached its goal already, {took}")
    assert again.stdout == done.stdout  # the scores are delivered all the same
    assert status["sessions"] == 1
    has(shown, "state finished", reached, "next: robin report r")
    assert json.loads(listed.stdout)["state"] == "finished"
    assert "This run is" not in report.stdout


def test_says_that_the_budget_was_spent_first(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 20)

    done = robin(
        *judging(replay_url, data, 60, "--run", "r", "--target-error", "0.2"), cwd=tmp_path, exits=0
    )
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    again = robin("resume", "r", cwd=tmp_path, exits=0)
    larger = robin("resume", "r", "--target-error", "3.9", cwd=tmp_path)
    after = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)

    now = f"(about {status['worst_error']:.3g})"
    go_on = "next: robin resume r --budget 120\n"
    for each in (done, again):
        assert each.stderr.endswith(f"the target error of 0.2 is not reached {now}\n{go_on}")
    assert (status["state"], status["target_reached"]) == ("finished", False)
    assert "nothing was sent: the budget of 60 calls is spent already" in again.stderr
    has(larger.stderr, "nothing was sent", "the target error of 3.9 is reached (about ")
    assert (after["target_error"], after["target_reached"], after["sessions"]) == (3.9, True, 1)


def test_goes_on_to_the_target_after_the_money_ended_it(tmp_path: Path, replay_url: str) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 8)
    priced = ["--price-in", "1", "--price-out", "1", "--target-error", "0.5", "--run", "r"]

    robin(*judging(replay_url, data, 4000, *priced, "--max-cost", "0.015"), cwd=tmp_path, exits=4)
    stopped = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    rich = robin("resume", "r", "--max-cost", "50", cwd=tmp_path, exits=0)
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)

    assert (stopped["state"], stopped["target_error"], stopped["target_reached"]) == (
        "stopped",
        0.5,
        False,
    )
    assert "the target error of 0.5 is reached (" in rich.stderr
    assert (status["state"], status["target_reached"]) == ("finished", True)
    assert status["cost_usd"] < 50


def test_holds_after_kills_at_any_concurrency(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    with replaying(DEMO / "ratings.parquet") as url, recorded(url) as record:
        command = [
            *judging(
                record.url, data, 20_000, "--run", "r", "--concurrency", "16", "-q", "-o", "s.csv"
            )
        ]
        for answers, next_one in (
            (20, ["resume", "r", "-q", "-o", "s.csv"]),
            (45, ["resume", "r"]),
        ):
            command += ["--target-error", "0.4"] * (command[0] == "judge")
            with Robin(command, env=environment(), cwd=tmp_path) as process:
                wait_until(lambda answers=answers: len(record.sent) >= answers, process)  # type: ignore[misc]
                process.send_signal(signal.SIGKILL)
            command = next_one
            stopped = robin("status", "r", cwd=tmp_path).stdout
            has(stopped, "not reached", "robin resume r")
        done = robin(*command, cwd=tmp_path, exits=0)

    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert status["worst_error"] <= status["target_error"]
    assert (status["state"], status["target_reached"], status["sessions"]) == ("finished", True, 3)
    assert status["spent"] < 20_000
    assert "is reached (" in done.stderr


def test_stops_attributes_of_several_scales_at_a_share_of_each(tmp_path: Path) -> None:
    def rated(number: int, body: dict[str, Any]) -> dict[str, Any]:
        low, high = (6, 8) if "an integer between 1 and 10" in json.dumps(body) else (1, 3)
        return completion(f"Feedback: ok.\nRating: {low if number % 2 else high}")

    (tmp_path / "stars.toml").write_text(STARS, encoding="utf-8")
    two_scale_pairs(tmp_path)
    asked = [
        *("judge", "pairs.jsonl", "-a", "helpfulness,stars", "--rubric", "stars.toml", "-b"),
        "20000",
    ]
    with serving(rated) as wire:
        where = ["--model", "m", "--base-url", wire.url, "--run", "r"]
        wrong = robin(*asked, *where, "--target-error", "1", cwd=tmp_path, exits=2)
        sent = len(wire.bodies)
        done = robin(*asked, *where, "--target-error", "0.2", cwd=tmp_path, exits=0)

    assert (
        "--target-error 1: is a share of each attribute's scale, as there are several, so above 0 and below 1"
        in wrong.stderr
    )
    assert sent == 0
    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert status["worst_error"] <= 0.2
    assert status["spent"] < 20_000
    assert re.search(
        r"the target error of 20 % of the scale is reached \(about [\d.]+ % of the scale",
        done.stderr,
    )


def test_stops_a_panel_when_the_scores_of_every_judge_are_good_enough(tmp_path: Path) -> None:
    ratings = {"steady": "2", "rough": "0"}

    def rated(number: int, body: dict[str, Any]) -> dict[str, Any]:
        rating = ratings[body["model"]] if number % 3 else "3"
        return completion(f"Feedback: ok.\nRating: {rating}", model=body["model"])

    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    with serving(rated) as wire:
        asked = [
            *("judge", str(data), "-a", "helpfulness", "-b", "20000", "--base-url", wire.url),
            *("--run", "r"),
        ]
        robin(
            *asked,
            *("--model", "steady", "--model", "rough", "--target-error", "0.5"),
            cwd=tmp_path,
            exits=0,
        )

    status = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert status["worst_error"] <= 0.5
    assert status["spent"] < 20_000
    assert all(judge["spent"] > 0 for judge in status["judges"])


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"target_error": 4.0},
            "--target-error 4: is in points of the scale 0-4, so above 0 and below 4",
        ),
        ({"target_error": 0.0}, "--target-error 0: must be an error above 0"),
        ({"target_error": float("nan")}, "must be an error above 0"),
    ],
)
def test_refuses_an_error_that_there_cannot_be_before_anything_is_made(
    tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    judge = Judge()
    refuses(InputError, re.escape(said), judged, tmp_path / "r", judge, **settings)
    assert not (tmp_path / "r").exists()
    run = judged(tmp_path / "s", judge, budget=24)
    asked = judge.asked
    refuses(InputError, re.escape(said), run.resume, judge=judge, budget=48, **settings)
    assert judge.asked == asked
    assert run.status()["budget"] == 24


def test_warns_where_the_scheduler_of_a_run_may_never_come_down_to_it(
    tmp_path: Path, replay_url: str
) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 4)
    asked = judging(
        replay_url, data, 200, "--run", "r", "--target-error", "0.05", "--scheduler", "robin-hood"
    )

    done = robin(*asked, cwd=tmp_path)

    assert (
        "--scheduler robin-hood, which this run has, may never ask a pair again after its first ratings"
        in done.stderr
    )
