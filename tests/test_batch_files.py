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
from tests.judges.test_batch_lines import VLLM_BODY, VLLM_CHOICE, VLLM_MESSAGE, of_vllm

Capture = pytest.CaptureFixture[str]
PAIRS = 6
BUDGET = 40


def judging(folder: Path, *more: str) -> list[str]:
    data = write_pairs(folder / "pairs.jsonl", PAIRS)
    asked = [
        "judge",
        str(data),
        "--budget",
        str(BUDGET),
        "-a",
        "helpfulness",
        "--model",
        "org/m",
        "--seed",
        "1",
    ]
    return [*asked, "--batch-files", str(folder / "files"), "--run", "run", "-o", "s.csv", *more]


def requests(command: str) -> tuple[list[dict[str, Any]], Path]:
    """What the engine is to answer by ``command``, and where it is to write."""
    words = shlex.split(command)
    assert words[:3] == ["vllm", "run-batch", "-i"]
    assert words[4] == "-o"
    assert words[6:] == ["--model", "org/m"]
    lines = Path(words[3]).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines], Path(words[5])


def answered(asked: list[dict[str, Any]]) -> list[str]:
    """What vLLM writes of requests, one line each."""
    return [
        success(each["custom_id"], f"Feedback: fine.\nRating: {each['body']['seed'] % 5}")
        for each in asked
    ]


def success(custom_id: str, text: str) -> str:
    choices = [{**VLLM_CHOICE, "message": {**VLLM_MESSAGE, "content": text}}]
    return of_vllm(custom_id, 200, {**VLLM_BODY, "choices": choices}, None).decode().rstrip("\n")


def engine(commands: str, write: Callable[[list[dict[str, Any]]], list[str]] = answered) -> None:
    """Do what the commands are to do."""
    for command in commands.splitlines():
        asked, place = requests(command)
        place.write_text("\n".join(write(asked)), encoding="utf-8")


def check_books(folder: Path) -> pd.DataFrame:
    kept = pd.read_parquet(folder / "run" / "judgments")
    assert len(kept[kept["status"] != "failed"]) == BUDGET
    assert not kept.duplicated(["pair_id", "draw"]).any()
    assert pd.read_csv(folder / "s.csv")["n"].sum() == BUDGET
    return kept


def test_writes_each_round_and_takes_in_what_the_engine_wrote(tmp_path: Path) -> None:
    done, rounds = robin(*judging(tmp_path), cwd=tmp_path, exits=0), 0
    while not (tmp_path / "s.csv").exists():
        assert "robin resume run" in done.stderr
        for command in done.stdout.splitlines():
            asked, _ = requests(command)
            assert all(
                each["method"] == "POST" and each["url"] == "/v1/chat/completions" for each in asked
            )
            assert all(each["body"]["model"] == "org/m" for each in asked)
        engine(done.stdout)
        rounds += 1
        done = robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
    assert rounds == 4
    check_books(tmp_path)
    assert "cost" not in done.stderr.lower().replace(
        "cost nothing", ""
    )  # an engine of one's own has no price


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
        "b.jsonl": [*lines, success("0123456789abcdef-1-0", "Rating: 1")],
    },
    "hostile lines before each": lambda lines: {
        "a.jsonl": [
            text for line in lines for text in (*hostile(json.loads(line)["custom_id"]), line)
        ]
    },
}


def hostile(custom_id: str) -> list[str]:
    """Lines that say they are of a request, and say nothing of it that can be used."""
    return [
        "[" * 9000,
        '{"custom_id": "\\ud800", "response": {"status_code": 200}}',
        json.dumps({"custom_id": custom_id, "response": {"status_code": 200, "body": [[[{}]]]}}),
        json.dumps(
            {
                "custom_id": custom_id,
                "response": {"status_code": int("9" * 4000), "body": {"error": [1]}},
            }
        ),
        json.dumps(
            {
                "custom_id": custom_id,
                "response": None,
                "error": {"code": {"a": [1]}, "message": [1]},
            }
        ),
        f'{{"custom_id": "{custom_id}", "response": {"[" * 300_000}',
    ]


@pytest.mark.parametrize("state", STATES)
def test_takes_outputs_in_in_whatever_state_they_are(state: str, tmp_path: Path) -> None:
    done = robin(*judging(tmp_path), cwd=tmp_path)
    for _ in range(12):
        for command in done.stdout.splitlines():
            asked, place = requests(command)
            for name, lines in STATES[state](answered(asked)).items():
                place.with_name(f"{place.stem}-{name}").write_text(
                    "\n".join(lines), encoding="utf-8"
                )
        done = robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
        if (tmp_path / "s.csv").exists():
            break
    kept = check_books(tmp_path)
    assert kept["rating"].notna().all()


def test_goes_on_after_a_kill_just_before_a_file_is_put_down_as_answered(tmp_path: Path) -> None:
    engine(robin(*judging(tmp_path, "--rounds", "1"), cwd=tmp_path).stdout)
    robin("resume", "run", cwd=tmp_path, exits=0)
    reopen(tmp_path / "run", "written")
    again = robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
    assert again.stdout == ""
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
        robin(
            "resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0
        )  # as was wanted of the session that waited
        check_books(tmp_path)
        assert len(server.billed) + len(server.calls) == BUDGET - len(asked)
        assert bool(server.billed) == (way == "--batch")
        more = robin(
            "resume", "run", "--batch-files", "files", "--budget", "60", cwd=tmp_path, exits=0
        )
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
    def refusing(asked: list[dict[str, Any]]) -> list[str]:
        said = {
            "error": {
                "message": "the maximum context length is 100 tokens",
                "type": "BadRequestError",
                "code": 400,
            }
        }
        return [
            of_vllm(each["custom_id"], 400, None, said).decode().strip()
            if "and 3 more" in json.dumps(each)
            else line
            for each, line in zip(asked, answered(asked), strict=True)
        ]

    done = robin(*judging(tmp_path), cwd=tmp_path)
    while not (tmp_path / "s.csv").exists():
        engine(done.stdout, refusing)
        done = robin("resume", "run", "-o", "s.csv", cwd=tmp_path, exits=0)
    kept = check_books(tmp_path)
    assert set(kept.loc[kept["status"] == "failed", "pair_id"]) == {"p3"}
    assert "given up" in done.stderr or "given up" in robin("status", "run", cwd=tmp_path).stdout


def test_goes_on_from_python(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame([{"prompt": f"q {n}", "response": "a"} for n in range(5)])
    run = judge(
        frame,
        budget=20,
        attribute="helpfulness",
        model="org/m",
        seed=1,
        batch_files="files",
        run="run",
    )
    for _ in range(9):
        under_way = run.status()["under_way"]
        if not under_way:
            break
        engine("\n".join(each["command"] for each in under_way))
        run = open_run("run").resume()
    assert "vllm run-batch" in capsys.readouterr().err
    assert run.status()["spent"] == 20


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--batch",), "give one"),
        (("--max-cost", "1", "--model", "gpt-4.1-nano"), "--price-in"),
    ],
)
def test_refuses_settings_that_do_not_go_with_files(
    tmp_path: Path, more: tuple[str, ...], said: str
) -> None:
    command = judging(tmp_path, *more)
    if "gpt-4.1-nano" in more:
        at = command.index("org/m")
        command[at - 1 : at + 1] = []
    assert said in robin(*command, cwd=tmp_path, exits=2).stderr
