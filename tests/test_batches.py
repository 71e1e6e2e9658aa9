"""Runs in rounds at a batch service: nothing is lost or paid twice, and the budget is exact, whatever happens there."""

from __future__ import annotations

import dataclasses
import json
import os
import pty
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import robin_cli
from robin_batch import sending as at_service
from robin_batch.service import MOST_REQUESTS
from tests.batch_server import Answer, BatchServer, Fate, Fault, Json, batch_server
from tests.conftest import environment, has, reopen, robin, wait_until, write_pairs
from tests.starting import Robin

AT_WORK = ("GET", "/batches/[^/]+")
FINE = "Feedback: fine.\nRating: 3"
PAIRS = 6
BUDGET = 60


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with batch_server() as running:
        yield running


def judging(
    server: BatchServer,
    folder: Path,
    *more: str,
    budget: int = BUDGET,
    pairs: int = PAIRS,
    samples: str = "1",
) -> list[str]:
    data = write_pairs(folder / "pairs.jsonl", pairs)
    asked = [
        *("judge", str(data), "--budget", str(budget), "-a", "helpfulness", "--base-url"),
        server.url,
    ]
    return [
        *asked,
        *("--model", "m", "--batch", "--samples-per-request", samples, "--run"),
        str(folder / "run"),
        "-o",
        str(folder / "s.csv"),
        *more,
    ]


def resuming(folder: Path, *more: str) -> list[str]:
    return ["resume", str(folder / "run"), "-o", str(folder / "s.csv"), *more]


def judgments(folder: Path) -> pd.DataFrame:
    return pd.read_parquet(folder / "run" / "judgments")


def check_books(server: BatchServer, folder: Path, budget: int = BUDGET) -> pd.DataFrame:
    """The budget is spent exactly, each answer that was paid is there once, and no call was made twice."""
    kept = judgments(folder)
    counted = kept[kept["status"] != "failed"]
    assert len(counted) == budget
    assert not kept.duplicated(["pair_id", "attribute", "judge", "draw"]).any()
    assert max(Counter(server.billed).values()) == 1
    return kept


def goes_on(server: BatchServer, folder: Path, *more: str) -> str:
    """Have the run go on to its end; what it says. All that was paid counts then."""
    said = robin(*resuming(folder, *more), cwd=folder, exits=0).stderr
    check_books(server, folder)
    assert len(server.billed) == BUDGET
    return said


def started(server: BatchServer, folder: Path, **streams: Any) -> Robin:
    quiet = () if streams else ("--quiet",)
    return Robin(judging(server, folder, *quiet), env=environment(), cwd=folder, **streams)


def killed(server: BatchServer, folder: Path, *held: Any) -> None:
    """A run that was killed while the request ``held`` was under way, or else while its batch was at work."""
    if held:
        server.fail(*held)
    with nullcontext() if held else server.pause(), started(server, folder) as process:
        wait_until(server.held.is_set if held else lambda: server.asked(*AT_WORK) > 0, process)
        process.send_signal(signal.SIGKILL)
    server.release()


def batches(folder: Path) -> list[dict[str, Any]]:
    files = sorted((folder / "run" / "batches").glob("*.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


@pytest.mark.parametrize(("samples", "lines"), [("1", 60), ("auto", 18)])
def test_spends_the_budget_in_rounds_at_the_batch_service(
    server: BatchServer, tmp_path: Path, samples: str, lines: int
) -> None:
    done = robin(*judging(server, tmp_path, samples=samples), cwd=tmp_path, exits=0)
    check_books(server, tmp_path)
    assert len(server.billed) == lines
    assert not server.calls  # one at a time
    assert len(server.batches) == 4
    assert pd.read_csv(tmp_path / "s.csv")["n"].sum() == BUDGET
    has(done.stderr, "round 4 of 4", f"{BUDGET} of {BUDGET} calls spent")
    # prompts are not left there
    assert not server.files.keys() & {each.input_file for each in server.batches.values()}
    assert not list((tmp_path / "run" / "batches").glob("*.jsonl"))


def test_asks_most_where_the_ratings_vary_also_in_rounds(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> str:
        varies = "pair 3 " in json.dumps(body) + " "
        return f"Feedback: fine.\nRating: {body['seed'] % 5 if varies else 2}"

    with batch_server(answer=answer) as server:
        data = tmp_path / "pairs.jsonl"
        rows = [{"id": str(n), "prompt": f"of pair {n} ", "response": "yes"} for n in range(10)]
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        asked = [
            *("judge", str(data), "--budget", "200", "-a", "helpfulness", "--base-url", server.url),
            *("--model", "m"),
        ]
        robin(
            *(*asked, "--batch", "--rounds", "3", "--seed", "1", "-o", "s.csv"),
            *("--samples-per-request", "1"),
            cwd=tmp_path,
            exits=0,
        )
    scores = pd.read_csv(tmp_path / "s.csv", dtype={"pair_id": str}).set_index("pair_id")
    assert scores["n"].sum() == 200
    assert scores["n"].idxmax() == "3"
    assert int(scores["n"].to_numpy()[3]) > 40
    assert len(server.batches) == 3


MOMENTS = {
    "before the file is up": ("POST", "/files", "hold"),
    "after the file is up": ("POST", "/files", "hold after"),
    "before the batch is made": ("POST", "/batches", "hold"),
    "after the batch is made": ("POST", "/batches", "hold after"),
    "while it works": ("GET", "/batches/.+", "hold"),
    "after it was asked": ("GET", "/batches/[^/]+", "hold after"),
    "before the answers come": ("GET", "/files/[^/]+/content", "hold"),
    "after the answers came": ("GET", "/files/[^/]+/content", "hold after"),
    "after all is kept": ("DELETE", "/files/[^/]+", "hold"),
}
OFTEN = ("before the file is up", "before the answers come")


@pytest.mark.parametrize(
    ("moment", "named"),
    [
        *(
            pytest.param(each, {}, marks=[pytest.mark.whole] * (each not in OFTEN))
            for each in MOMENTS
        ),
        ("after the batch is made", {"keeps_metadata": False}),
        ("while it works", {"ids": "{}s/0@{}"}),  # as Gemini's and Vertex AI's have slashes
        ("just before it is put down as over", {}),
    ],
)
def test_picks_the_same_batch_up_after_a_kill(
    moment: str, named: dict[str, Any], tmp_path: Path
) -> None:
    with batch_server(**named) as server:
        killed(server, tmp_path, *MOMENTS.get(moment, MOMENTS["after all is kept"]))
        wait_until_quiet(server)
        if moment not in MOMENTS:
            reopen(tmp_path / "run", "submitted")
        goes_on(server, tmp_path)
        assert len(server.batches) == 4


def wait_until_quiet(server: BatchServer) -> None:
    """What was held has been worked on by now."""
    while server.at_work:
        time.sleep(0.002)


def test_is_killed_again_and_again(server: BatchServer, tmp_path: Path) -> None:
    command, kills = judging(server, tmp_path, "--quiet"), 0
    while True:
        with Robin(command, env=environment(), cwd=tmp_path) as process:
            enough = len(server.requests) + 2 + kills
            while process.poll() is None and len(server.requests) < enough:
                time.sleep(0.01)
            process.send_signal(signal.SIGKILL)
        if process.returncode == 0:
            break
        kills += 1
        command = resuming(tmp_path, "--quiet")
    assert kills > 3
    check_books(server, tmp_path)
    assert len(server.billed) == BUDGET


TRAPS = {
    "ended early": [Fate(end="expired", done=5), Fate(end="cancelled", done=7)],
    "expired before anything": [Fate(end="expired", done=0)],
    "output null": [Fate(), Fate(no_output=None)],
    "output empty": [Fate(), Fate(no_output="")],
    "status 0": [Fate(unsaid=3), Fate(strings=True), Fate(order="reversed")],
    "all status 0": [Fate(), Fate(unsaid=10**6)],
    "lines missing": [Fate(lost=4), Fate(twice=6), Fate(strange=5)],
    "broken lines": [Fate(broken=3), Fate(latin=True)],
}


SAID = {
    "expired; its answers so far are taken in": "ended early",
    "3 lines that cannot be read, not counted": "broken lines",
    "with bytes that are not UTF-8, read as �": "broken lines",
}


@pytest.mark.parametrize("trap", TRAPS)
def test_takes_what_came_and_asks_for_the_rest_again(
    trap: str, server: BatchServer, tmp_path: Path
) -> None:
    server.fates += TRAPS[trap]
    done = robin(*judging(server, tmp_path), cwd=tmp_path)
    if done.returncode == 3:  # nothing of it was answered: whether to go on is the user's to say
        assert "a whole round brought nothing" in done.stderr
        done = robin(*resuming(tmp_path), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    kept = check_books(server, tmp_path)
    lost = len(server.billed) - BUDGET
    assert lost == {"lines missing": 4}.get(trap, lost if trap.startswith("output") else 0)
    for said, name in SAID.items():
        assert (said in done.stderr) == (trap == name)
    assert kept["rating"].notna().sum() == BUDGET


@pytest.mark.parametrize(
    ("fates", "said"),
    [
        ([Fate(refused="invalid_model")], ("refused a batch of", "refused by the tests")),
        ([Fate(), Fate(quota=5)], ("quota or credit", "robin resume")),
    ],
)
def test_says_why_no_more_is_to_be_had_keeps_what_came_and_goes_on_later(
    server: BatchServer, tmp_path: Path, fates: list[Fate], said: tuple[str, ...]
) -> None:
    server.fates += fates
    has(robin(*judging(server, tmp_path), cwd=tmp_path, exits=3).stderr, *said)
    if server.billed:
        assert (judgments(tmp_path)["status"] == "ok").sum() == len(server.billed)
    goes_on(server, tmp_path)


def too_long(body: Json) -> Answer:
    error = {"message": "maximum context length", "code": "context_length_exceeded"}
    return (400, {"error": error}) if "and 3 more" in json.dumps(body) else FINE


def some_fail(body: Json) -> Answer:
    return (500, {"error": {"message": "oops"}}) if body["seed"] % 4 == 0 else FINE


def no_n(body: Json) -> Answer:
    return (400, {"error": {"message": "One at a time, please."}}) if "n" in body else FINE


def no_max_tokens(body: Json) -> Answer:
    said = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
    error = {"message": said, "code": "unsupported_parameter", "param": "max_tokens"}
    return (400, {"error": error}) if "max_tokens" in body else FINE


def no_maximum(body: Json) -> Answer:
    error = {
        "message": "Unsupported parameter",
        "code": "unsupported_parameter",
        "param": "max_tokens",
    }
    return (400, {"error": error}) if any(name.startswith("max_") for name in body) else FINE


# the service, the answers that fail, and what is said
SERVICES: dict[str, tuple[dict[str, Any], bool, str]] = {
    "few may be enqueued, which validation says": ({"cap": 10}, False, "no room"),
    "few may be enqueued, which creation says": (
        {"cap": 10, "cap_at": "creation"},
        False,
        "no room",
    ),
    "a clock of three days ago, and a parameter that it does not take": (
        {"answer": no_max_tokens, "skew_s": -3 * 86_400.0, "fates": [Fate(polls=4)]},
        False,
        "max_completion_tokens",
    ),
    "a pair that the model cannot take": ({"answer": too_long}, True, "given up"),
    "a batch that is made late": ({"faults": [Fault("POST", "/batches", "late")]}, False, ""),
}


@pytest.mark.parametrize("name", SERVICES)
def test_spends_the_budget_at_any_service(tmp_path: Path, name: str) -> None:
    service, are_failures, said = SERVICES[name]
    with batch_server(**service) as server:
        done = robin(*judging(server, tmp_path), cwd=tmp_path, exits=0)
        kept = check_books(server, tmp_path)
    assert said in done.stderr
    assert (kept["status"] == "ok").all() != are_failures
    assert "late" not in name or len(server.batches) == 4


def test_gives_no_pair_up_some_of_whose_calls_fail(tmp_path: Path) -> None:
    with batch_server(answer=some_fail) as server:
        done = robin(
            *judging(server, tmp_path, "--rounds", "1", "--seed", "1", budget=240),
            cwd=tmp_path,
            exits=0,
        )
        assert "given up" not in done.stderr
        check_books(server, tmp_path, 240)


def test_asks_for_one_rating_a_line_where_the_service_refuses_several(tmp_path: Path) -> None:
    with batch_server(answer=no_n) as server:
        command = judging(server, tmp_path, "--repeat-anyway", samples="auto")
        done = robin(*command, cwd=tmp_path, exits=0)
        kept = check_books(server, tmp_path)
        assert len(server.billed) == BUDGET
    assert "given up" not in done.stderr
    assert set(kept["status"]) == {"ok"}


def test_asks_each_judge_of_a_panel_in_batches_of_its_own(
    server: BatchServer, tmp_path: Path
) -> None:
    command = judging(server, tmp_path, "--model", "n", "--concurrency", "1", budget=240)
    robin(*command, "--repeat-anyway", cwd=tmp_path, exits=0)
    kept = check_books(server, tmp_path, 240)
    assert set(kept["judge"]) == {"m", "n"}
    assert len(server.billed) == 240
    for batch in server.batches.values():
        asked = {each["judge"] for each in batches(tmp_path) if each["batch_id"] == batch.id}
        assert len(asked) == 1


@pytest.mark.parametrize("samples", ["1", "auto"])
def test_spends_no_more_money_than_it_may(
    server: BatchServer, tmp_path: Path, samples: str
) -> None:
    prices = ("--price-in", "1", "--price-out", "1000", "--max-tokens", "20", "--repeat-anyway")
    command = judging(server, tmp_path, *prices, "--max-cost", "0.5", samples=samples)
    robin(*command, cwd=tmp_path, exits=4)
    kept = judgments(tmp_path)
    assert 0.25 < kept["cost_usd"].sum() <= 0.5
    assert len(server.billed) == kept["request_id"].nunique()
    more = ("--max-cost", "100", "--repeat-anyway")
    robin(*resuming(tmp_path, *more), cwd=tmp_path, exits=0)
    check_books(server, tmp_path)


def test_goes_on_one_call_at_a_time_once_the_batch_is_read(
    server: BatchServer, tmp_path: Path
) -> None:
    killed(server, tmp_path, *AT_WORK, "hold")
    robin(*resuming(tmp_path, "--no-batch"), cwd=tmp_path, exits=0)
    assert len(judgments(tmp_path)) == BUDGET == len(server.billed) + len(server.calls)
    assert server.billed
    assert server.calls


def test_takes_up_the_batch_at_work_and_not_one_that_was_refused(
    server: BatchServer, tmp_path: Path
) -> None:
    killed(server, tmp_path)
    (batch,) = server.batches.values()
    full = [{"code": "token_limit_exceeded", "message": "Enqueued token limit reached"}]
    refused = dataclasses.replace(
        batch, id="batch-refused", status="failed", errors=full, billed=[]
    )
    server.batches[refused.id] = refused  # which this service lists first
    reopen(tmp_path / "run", "creating", "submitted")
    goes_on(server, tmp_path)
    assert len(server.batches) == 4 + 1


def test_chooses_calls_anew_whose_requests_are_gone_before_they_were_sent(
    server: BatchServer, tmp_path: Path
) -> None:
    killed(server, tmp_path, "POST", "/files", "hold")
    (tmp_path / "run" / "batches" / "00001.jsonl").unlink()
    assert "00001.jsonl: is gone" in goes_on(server, tmp_path)


def test_ends_where_answers_cannot_be_kept_short_and_the_budget_is_of_money(tmp_path: Path) -> None:
    with batch_server(answer=no_maximum) as server:
        done = robin(*spending(server, tmp_path), cwd=tmp_path, exits=3)
    assert "no limit on money holds" in done.stderr


def test_looks_for_a_batch_at_its_own_address_alone(server: BatchServer, tmp_path: Path) -> None:
    killed(server, tmp_path, *AT_WORK, "hold")
    both = ("--base-url", server.url, "--base-url", "http://127.0.0.1:9/v1")
    refused = robin(*resuming(tmp_path, "--no-batch", *both), cwd=tmp_path, exits=2)
    assert "m has 2 addresses" in refused.stderr
    with batch_server() as other:
        elsewhere = robin(*resuming(tmp_path, "--base-url", other.url), cwd=tmp_path, exits=2)
        assert f"--base-url {server.url}" in elsewhere.stderr
        assert not other.batches
    goes_on(server, tmp_path, "--base-url", server.url)


def test_leaves_a_batch_running_when_it_is_stopped(server: BatchServer, tmp_path: Path) -> None:
    with server.pause():
        with started(server, tmp_path, stderr=subprocess.PIPE, text=True) as process:
            wait_until(lambda: server.asked(*AT_WORK) > 0, process)
            process.send_signal(signal.SIGINT)
            said = process.communicate(timeout=60)[1]
        assert process.returncode == 130
        assert "left at the service" in said
        assert next(iter(server.batches.values())).status == "validating"
    goes_on(server, tmp_path)


@pytest.mark.parametrize("where", ["no network", "a service that does not answer"])
def test_stops_at_once_also_where_nothing_answers(
    where: str, server: BatchServer, tmp_path: Path
) -> None:
    server.fates.append(Fate(polls=10**6))
    with (
        started(server, tmp_path, stderr=subprocess.PIPE, text=True) as process,
        ExitStack() as stack,
    ):
        wait_until(lambda: server.asked("GET", "/batches/.+") > 0, process)
        if where == "no network":
            stack.enter_context(server.away())
            assert process.stderr is not None
            while "trying again" not in process.stderr.readline():
                pass
        else:
            server.fail("GET", "/batches/.+", "hold")
            wait_until(server.held.is_set, process)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=60)[1]
        server.release()
    assert process.returncode == 130
    assert "left at the service" in said
    for batch in server.batches.values():
        batch.fate = Fate()
    goes_on(server, tmp_path)


@pytest.mark.parametrize("answer", ["c", "", "f"])
def test_asks_on_a_terminal_whether_to_cancel(
    answer: str, server: BatchServer, tmp_path: Path
) -> None:
    ours, theirs = pty.openpty()
    server.fates.append(Fate(polls=10**6))
    with Robin(
        judging(server, tmp_path),
        env=environment(TERM="xterm"),
        cwd=tmp_path,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        wait_until(lambda: server.asked("GET", "/batches/[^/]+") > 1, process)
        process.send_signal(signal.SIGINT)
        said = b""
        while b"[Enter/c/f]" not in said:
            said += os.read(ours, 4096)
        os.write(ours, answer.encode() + b"\n")
        while process.poll() is None:
            try:
                said += os.read(ours, 4096)
            except OSError:
                break
    assert process.returncode == 130, said
    (batch,) = server.batches.values()
    assert batch.status == ("cancelled" if answer == "c" else "in_progress")
    kept = len(judgments(tmp_path)) if answer == "c" else 0
    assert kept == len(server.billed)
    if answer:
        assert bool(kept) == (answer == "c")
        robin(*resuming(tmp_path), cwd=tmp_path, exits=0)
        check_books(server, tmp_path)
        assert len(server.billed) == BUDGET
    os.close(ours)


def test_splits_what_is_too_much_for_a_batch(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MOST_REQUESTS == 50_000  # OpenAI's limit
    monkeypatch.setattr(at_service, "MOST_REQUESTS", 25)
    server.most_requests = 25
    pairs = robin_cli.load_pairs(write_pairs(tmp_path / "pairs.jsonl", PAIRS))
    asked: dict[str, Any] = {
        "attribute": "helpfulness",
        "base_url": server.url,
        "model": "m",
        "batch": True,
        "samples_per_request": 1,
    }
    run = robin_cli.judge(pairs, budget=BUDGET, rounds=1, run=str(tmp_path / "run"), **asked)
    assert run.status()["spent"] == BUDGET
    assert sorted(len(batch.custom_ids) for batch in server.batches.values()) == [10, 25, 25]
    check_books(server, tmp_path)


def test_sends_a_batch_again_that_had_no_room_beside_one_that_has_ended_since(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_service, "MOST_REQUESTS", 1)
    pairs = robin_cli.load_pairs(write_pairs(tmp_path / "pairs.jsonl", 2))
    server.fates = [Fate(refused="token_limit_exceeded")]
    with ThreadPoolExecutor() as threads:

        def wait_until_so(met: Callable[[], bool]) -> None:
            while not met() and not work.done():
                time.sleep(0.002)

        with server.pause():
            asked: dict[str, Any] = {"base_url": server.url, "model": "m", "batch": True}
            asked |= {"budget": 2, "rounds": 1, "run": str(tmp_path / "run")}
            work = threads.submit(robin_cli.judge, pairs, attribute="helpfulness", **asked)
            wait_until_so(lambda: len(server.batches) == 2)
            (refused,) = (each.id for each in server.batches.values() if each.fate.refused)
            server.fail("GET", f"/batches/{refused}", "hold after")
        wait_until_so(lambda: "done" in {batch["state"] for batch in batches(tmp_path)})
        server.release()
        assert work.result().status()["spent"] == 2
    check_books(server, tmp_path, 2)


def test_does_not_make_a_run_anew_whose_batch_is_under_way(
    server: BatchServer, tmp_path: Path
) -> None:
    killed(server, tmp_path)
    other = robin(*judging(server, tmp_path, "--temperature", "0.5"), cwd=tmp_path, exits=2)
    assert "temperature" in other.stderr
    status = json.loads(robin("status", tmp_path / "run", "--json", cwd=tmp_path).stdout)
    assert (status["state"], status["under_way"][0]["batch"]) == (
        "waiting",
        next(iter(server.batches)),
    )
    goes_on(server, tmp_path)


def test_does_not_take_up_batches_that_are_none_of_the_run(
    server: BatchServer, tmp_path: Path
) -> None:
    killed(server, tmp_path)
    file = tmp_path / "run" / "batches" / "00001.json"
    sound = file.read_text(encoding="utf-8")
    odd = {
        "batch_id": "../../files/x",
        "judge": "another",
        "requests": 10**6,
        "number": 7,
        "state": "lost",
    }
    for name, value in odd.items():
        file.write_text(json.dumps({**json.loads(sound), name: value}), encoding="utf-8")
        seen = len(server.requests)
        forged = robin(*resuming(tmp_path), cwd=tmp_path)
        assert forged.returncode in {1, 2}, (name, forged.stderr)
        assert "Traceback" not in forged.stderr
        assert len(server.requests) == seen
    file.write_text(sound, encoding="utf-8")
    goes_on(server, tmp_path)


def spending(server: BatchServer, folder: Path) -> list[str]:
    """The command with a budget of money."""
    command = judging(server, folder, "--price-in", "1", "--price-out", "10", "--max-tokens", "40")
    at = command.index("--budget")
    return [*command[:at], "--max-cost", "0.2", *command[at + 2 :]]


def test_spends_a_budget_of_money_in_rounds(server: BatchServer, tmp_path: Path) -> None:
    robin(*spending(server, tmp_path), "--repeat-anyway", cwd=tmp_path, exits=0)
    kept = judgments(tmp_path)
    assert 0.17 < kept["cost_usd"].sum() <= 0.2
    assert len(server.billed) == len(kept)
    assert json.loads(robin("status", "run", "--json", cwd=tmp_path).stdout)["state"] == "finished"
    robin(*resuming(tmp_path, "--max-cost", "0.3"), cwd=tmp_path, exits=0)
    assert 0.25 < judgments(tmp_path)["cost_usd"].sum() <= 0.3
