"""Runs in rounds for an engine without a service: files as vllm run-batch reads and writes them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from robin_cli import judge, open_run
from tests.batch_server import batch_server
from tests.conftest import reopen, robin, write_pairs

PAIRS = 6
BUDGET = 40


def judging(folder: Path, *more: str) -> list[str]:
    data = write_pairs(folder / "pairs.jsonl", PAIRS)
    asked = ["judge", str(data), "--budget", str(BUDGET), "-a", "helpfulness", "--model", "org/m", "--seed", "1"]
    return [*asked, "--batch-files", str(folder / "files"), "--run", "run", "-o", "s.csv", *more]


def success(custom_id: str, text: str) -> dict[str, Any]:
    """A line of vLLM's of a request that was answered."""
    message: dict[str, Any] = {
        "role": "assistant",
        "content": text,
        "refusal": None,
        "tool_calls": [],
        "reasoning_content": None,
    }
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop", "stop_reason": None}
    usage = {"prompt_tokens": 400, "total_tokens": 420, "completion_tokens": 20, "prompt_tokens_details": None}
    body = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "org/m",
        "choices": [choice],
        "usage": usage,
    }
    response = {"status_code": 200, "request_id": f"vllm-batch-{custom_id}", "body": body}
    return {"id": f"vllm-{custom_id}", "custom_id": custom_id, "response": response, "error": None}


def failure(custom_id: str, message: str) -> dict[str, Any]:
    """A line of vLLM's of a request that it refused."""
    error = {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400}}
    response = {"status_code": 400, "request_id": f"vllm-batch-{custom_id}", "body": None}
    return {"id": f"vllm-{custom_id}", "custom_id": custom_id, "response": response, "error": error}


def requests(command: str) -> tuple[list[dict[str, Any]], Path]:
    """What the engine is to answer by ``command``, and where it is to write."""
    words = shlex.split(command)
    assert words[:3] == ["vllm", "run-batch", "-i"]
    assert words[4] == "-o"
    assert words[6:] == ["--model", "org/m"]
    lines = Path(words[3]).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], Path(words[5])


def answered(asked: list[dict[str, Any]]) -> list[str]:
    return [
        json.dumps(success(each["custom_id"], f"Feedback: fine.\nRating: {each['body']['seed'] % 5}")) for each in asked
    ]


def check_books(folder: Path) -> pd.DataFrame:
    kept = pd.read_parquet(folder / "run" / "judgments")
    assert len(kept[kept["status"] != "failed"]) == BUDGET
    assert not kept.duplicated(["pair_id", "draw"]).any()
    assert pd.read_csv(folder / "s.csv")["n"].sum() == BUDGET
    return kept


def test_writes_each_round_and_takes_in_what_the_engine_wrote(tmp_path: Path) -> None:
    done, rounds = robin(*judging(tmp_path), cwd=tmp_path), 0
    while not (tmp_path / "s.csv").exists():
        assert done.returncode == 0, done.stderr
        assert "robin resume run" in done.stderr
        for command in done.stdout.splitlines():
            asked, place = requests(command)
            assert all(each["method"] == "POST" and each["url"] == "/v1/chat/completions" for each in asked)
            assert all(each["body"]["model"] == "org/m" for each in asked)
            place.write_text("\n".join(answered(asked)), encoding="utf-8")
        rounds += 1
        done = robin("resume", "run", "-o", "s.csv", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert rounds == 4
    check_books(tmp_path)
    assert "cost" not in done.stderr.lower().replace("cost nothing", "")  # an engine of one's own has no price


def test_says_again_what_to_run_while_nothing_came(tmp_path: Path) -> None:
    first = robin(*judging(tmp_path), cwd=tmp_path)
    status = json.loads(robin("status", "run", "--json", cwd=tmp_path).stdout)
    assert status["state"] == "waiting"
    assert [each["command"] for each in status["under_way"]] == first.stdout.splitlines()
    again = robin("resume", "run", "-o", "s.csv", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, first.stdout)
    assert len(list((tmp_path / "files").iterdir())) == 1


STATES: dict[str, Callable[[list[str]], dict[str, list[str]]]] = {
    "the first half": lambda lines: {"a.jsonl": lines[: -(-len(lines) // 2)]},
    "half a line at its end": lambda lines: {
        "a.jsonl": [*lines[:-1], lines[-1][: len(lines[-1]) // (2 if lines[1:] else 1)]]
    },
    "several files": lambda lines: {"a.jsonl": lines[::2], "b.jsonl": lines[1::2]},
    "twice, in another order, broken, and of another run": lambda lines: {
        "a.jsonl": ["no json", "{}", "[]", *lines[::-1]],
        "b.jsonl": [*lines, json.dumps(success("0123456789abcdef-1-0", "Rating: 1"))],
    },
    "hostile lines before each": lambda lines: {
        "a.jsonl": [text for line in lines for text in (*hostile(json.loads(line)["custom_id"]), line)]
    },
}


def hostile(custom_id: str) -> list[str]:
    """Lines that say they are of a request, and say nothing of it that can be used."""
    return [
        "[" * 9000,
        '{"custom_id": "\\ud800", "response": {"status_code": 200}}',
        json.dumps({"custom_id": custom_id, "response": {"status_code": 200, "body": [[[{}]]]}}),
        json.dumps({"custom_id": custom_id, "response": {"status_code": int("9" * 4000), "body": {"error": [1]}}}),
        json.dumps({"custom_id": custom_id, "response": None, "error": {"code": {"a": [1]}, "message": [1]}}),
        f'{{"custom_id": "{custom_id}", "response": {"[" * 300_000}',
    ]


@pytest.mark.parametrize("state", STATES)
def test_takes_outputs_in_in_whatever_state_they_are(state: str, tmp_path: Path) -> None:
    done = robin(*judging(tmp_path), cwd=tmp_path)
    for _ in range(12):
        for command in done.stdout.splitlines():
            asked, place = requests(command)
            for name, lines in STATES[state](answered(asked)).items():
                place.with_name(f"{place.stem}-{name}").write_text("\n".join(lines), encoding="utf-8")
        robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
        if (tmp_path / "s.csv").exists():
            break
    kept = check_books(tmp_path)
    assert kept["rating"].notna().all()


def test_goes_on_after_a_kill_just_before_a_file_is_put_down_as_answered(tmp_path: Path) -> None:
    done = robin(*judging(tmp_path, "--rounds", "1"), cwd=tmp_path)
    asked, place = requests(done.stdout.splitlines()[0])
    place.write_text("\n".join(answered(asked)), encoding="utf-8")
    robin("resume", "run", cwd=tmp_path, exits=0)
    reopen(tmp_path / "run", "written")
    again = robin("resume", "run", "-o", "s.csv", cwd=tmp_path)
    assert (again.returncode, again.stdout) == (0, ""), again.stderr
    check_books(tmp_path)


@pytest.mark.parametrize("way", ["--batch", "--no-batch"])
def test_goes_on_in_another_way_once_the_files_are_answered(way: str, tmp_path: Path) -> None:
    with batch_server() as server:
        first = robin(*judging(tmp_path), cwd=tmp_path)
        elsewhere = ["resume", "run", way, "--base-url", server.url, "-o", "s.csv"]
        waits = robin(*elsewhere, cwd=tmp_path)
        assert (waits.returncode, waits.stdout) == (0, first.stdout), waits.stderr
        asked, place = requests(first.stdout.splitlines()[0])
        place.write_text("\n".join(answered(asked)), encoding="utf-8")
        robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)  # as was wanted of the session that waited
        check_books(tmp_path)
        assert len(server.billed) + len(server.calls) == BUDGET - len(asked)
        assert bool(server.billed) == (way == "--batch")
        more = robin("resume", "run", "--batch-files", "files", "--budget", "60", cwd=tmp_path, exits=0)
        assert more.stdout.startswith("vllm run-batch")


def test_counts_answers_that_come_late_too(tmp_path: Path) -> None:
    done, files = robin(*judging(tmp_path), cwd=tmp_path), []
    for _ in range(2):  # the engine had not ended: of the last pairs there is nothing
        asked, place = requests(done.stdout.splitlines()[0])
        files.append((place, answered(asked)))
        place.write_text("\n".join(files[-1][1][:2]), encoding="utf-8")
        done = robin("resume", "run", cwd=tmp_path)
    asked, place = requests(done.stdout.splitlines()[0])
    for place_of_all, lines in [*files, (place, answered(asked))]:
        place_of_all.write_text("\n".join(lines), encoding="utf-8")
    robin("resume", "run", cwd=tmp_path)
    status = json.loads(robin("status", "run", "--json", cwd=tmp_path).stdout)
    assert status["spent"] == min(BUDGET, sum(len(lines) for _, lines in files) + len(asked))
    assert not pd.read_parquet(tmp_path / "run" / "judgments").duplicated(["pair_id", "draw"]).any()


def test_gives_up_what_the_engine_refuses(tmp_path: Path) -> None:
    done = robin(*judging(tmp_path), cwd=tmp_path)
    while not (tmp_path / "s.csv").exists():
        for command in done.stdout.splitlines():
            asked, place = requests(command)
            lines = answered(asked)
            for number, each in enumerate(asked):
                if "and 3 more" in json.dumps(each):
                    lines[number] = json.dumps(failure(each["custom_id"], "the maximum context length is 100 tokens"))
            place.write_text("\n".join(lines), encoding="utf-8")
        done = robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
    kept = check_books(tmp_path)
    assert set(kept.loc[kept["status"] == "failed", "pair_id"]) == {"p3"}
    assert "given up" in done.stderr or "given up" in robin("status", "run", cwd=tmp_path).stdout


def test_goes_on_from_python(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pairs = [{"prompt": f"q {n}", "response": "a"} for n in range(5)]
    run = judge(
        pd.DataFrame(pairs), budget=20, attribute="helpfulness", model="org/m", seed=1, batch_files="files", run="run"
    )
    for _ in range(9):
        under_way = run.status()["under_way"]
        if not under_way:
            break
        for each in under_way:
            asked, place = requests(each["command"])
            place.write_text("\n".join(answered(asked)), encoding="utf-8")
        run = open_run("run").resume()
    assert "vllm run-batch" in capsys.readouterr().err
    assert run.status()["spent"] == 20


def test_refuses_settings_that_do_not_go_with_files(tmp_path: Path) -> None:
    both = robin(*judging(tmp_path, "--batch"), cwd=tmp_path, exits=2)
    assert "give one" in both.stderr
    tier = robin(*judging(tmp_path, "--service-tier", "flex"), cwd=tmp_path, exits=2)
    assert "--service-tier" in tier.stderr
    command = ["gpt-4.1-nano" if each == "org/m" else each for each in judging(tmp_path, "--max-cost", "1")]
    unpriced = robin(*command, cwd=tmp_path, exits=2)
    assert "--price-in" in unpriced.stderr
