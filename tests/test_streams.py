"""What robin may be started with: streams that are closed, full or gone, ignored signals, few open files, an old encoding."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from robin_cli.show.messages import messages_for
from tests.conftest import (
    DEMO,
    at_a_terminal,
    environment,
    has,
    judging,
    lines_of,
    replaying,
    robin,
    robin_afresh,
    wait_until,
)
from tests.starting import Robin

PAIRS = DEMO / "pairs.jsonl"
pytestmark = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs Linux's devices and a POSIX shell"
)


def in_a_shell(
    before: str, *args: str | Path, after: str = "", **named: Any
) -> subprocess.Popen[str]:
    """Robin, started by a shell that does ``before``, with the redirections ``after``."""
    script = f'{before}\nexec "$0" -m robin_cli "$@" {after}'
    command = ["sh", "-c", script, sys.executable, *map(str, args)]
    return subprocess.Popen(command, env=environment(), text=True, **named)


def spent(run: Path) -> int:
    facts = json.loads(robin("status", run, "--json", cwd=run.parent).stdout)
    assert facts["state"] == "finished"
    return int(facts["spent"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, replay_url: str) -> Path:
    """A folder with a finished run, r."""
    folder = tmp_path_factory.mktemp("finished")
    robin(*judging(replay_url, PAIRS, 60, "--limit", "12", "--run", "r", "-q"), cwd=folder, exits=0)
    return folder


@pytest.mark.parametrize("where", ["a full device", "a pipe that nobody reads"])
def test_works_to_the_end_when_its_notes_cannot_be_printed(
    tmp_path: Path, replay_url: str, where: str
) -> None:
    if where == "a full device":
        notes = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, notes = os.pipe()
        os.close(reader)
    command = judging(replay_url, PAIRS, 12, "--limit", "6", "--run", "r", "-o", "scores.csv")
    with Robin(command, cwd=tmp_path, env=environment(), stdout=notes, stderr=notes) as process:
        os.close(notes)

    assert process.returncode == 0
    assert spent(tmp_path / "r") == 12
    assert len(pd.read_csv(tmp_path / "scores.csv")) == 6


def test_works_to_the_end_with_streams_closed_few_open_files_and_signals_ignored(
    tmp_path: Path,
) -> None:
    with replaying(DEMO / "ratings.parquet", "--latency-ms", "100") as url:
        command = judging(url, PAIRS, 90, "--run", "r", "--concurrency", "60")
        before = "ulimit -n 64; trap '' HUP INT TERM"
        where = {"cwd": tmp_path, "stderr": subprocess.PIPE}
        with in_a_shell(before, *command, after="<&- >&-", **where) as process:
            wait_until(lambda: lines_of(tmp_path / "r" / "journal.jsonl") > 20, process)
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                process.send_signal(number)
            _, said = process.communicate(timeout=60)
        again = ("resume", "r", "--budget", "180")
        with in_a_shell("ulimit -Sn 64", *again, after="<&- >&- 2>&-", cwd=tmp_path) as silent:
            wait_until(lambda: lines_of(tmp_path / "r" / "journal.jsonl") > 10, silent)
            # what the system lets it raise by itself, it raises
            raised, _ = resource.prlimit(silent.pid, resource.RLIMIT_NOFILE)

    # the scores were to go to standard output
    assert (process.returncode, silent.returncode) == (1, 1), said
    assert "Traceback" not in said
    assert "standard output: could not be written (it is closed)" in said.splitlines()[-1]
    has(said, "calls at a time, not 60: this process may open 64 files and connections; ulimit -n ")
    assert raised > 64
    assert spent(tmp_path / "r") == 180


def test_keeps_everything_and_says_it_when_the_scores_cannot_be_printed(
    tmp_path: Path, replay_url: str
) -> None:
    command = judging(replay_url, PAIRS, 12, "--limit", "6", "--run", "r")
    full = os.open("/dev/full", os.O_WRONLY)
    with Robin(
        command, cwd=tmp_path, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(full)
        _, said = process.communicate()
    reader, writer = os.pipe()
    os.close(reader)
    with Robin([*command[:-1], "piped"], cwd=tmp_path, env=environment(), stdout=writer) as piped:
        os.close(writer)

    assert process.returncode == 1
    assert "No space left on device" in said
    assert "robin export r -o FILE" in said.splitlines()[-1]
    assert spent(tmp_path / "r") == spent(tmp_path / "piped") == 12
    assert piped.returncode == 0


PRINTED = [
    *(
        "status r",
        "status r --json",
        "export r",
        "export r --format xlsx",
        "export r --format table",
    ),
    *("report r -o -", "parse answers.jsonl", "--help"),
]
PRINTED_TOO = [
    *("runs .", "export r --format parquet --what judgments", "rubrics helpfulness", "--version"),
    f"render {PAIRS} --pair explain-tides-good -a helpfulness",
    f"plan {PAIRS} -a helpfulness -b 120 --json",
    "simulate r --budget 60 --runs 1 --schedulers uniform -q",
]


@pytest.mark.parametrize(
    "command", [*PRINTED, *(pytest.param(each, marks=pytest.mark.whole) for each in PRINTED_TOO)]
)
def test_says_in_one_line_that_nothing_can_be_printed(finished: Path, command: str) -> None:
    (finished / "answers.jsonl").write_text('{"text": "Rating: 3"}\n', encoding="utf-8")
    full = os.open("/dev/full", os.O_WRONLY)
    words = command.split()
    with Robin(
        words, cwd=finished, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(full)
        _, said = process.communicate()

    assert process.returncode == 1
    assert said == (
        "robin: standard output: could not be written (No space left on device); make room, or send it elsewhere\n"
    )


def test_writes_to_a_terminal_of_another_encoding_what_comes_nearest(finished: Path) -> None:
    shown = robin_afresh(
        "export", "r", "--format", "table", cwd=finished, PYTHONIOENCODING="ascii", exits=0
    )

    has(shown.stdout, " - ", "#")
    assert shown.stdout.isascii()


def test_messages_from_python_end_nothing_either(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("/dev/full").open("w", encoding="utf-8", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        messages = messages_for(notebook=True)
        messages.note("said to nobody")
        monkeypatch.undo()
        os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())  # its own close would fail


_ACTING = "\x1b]0;title\x07 \x9b2J \u202eback\u2066 \x08"


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
def test_no_command_lets_data_act_on_a_terminal(tmp_path: Path) -> None:
    """A pipe still gets the data to the letter."""
    rows = [{"id": f"q{n}{_ACTING}", "prompt": "p", "response": _ACTING} for n in range(3)]
    (tmp_path / "pairs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    text = json.dumps({"text": f"{_ACTING}\nRating: 3"}, ensure_ascii=False)
    (tmp_path / "answers.jsonl").write_text(text + "\n", encoding="utf-8")
    (tmp_path / "answers.csv").write_text(
        "id,score,prompt\n" + "".join(f"q{n}{_ACTING},{n},{_ACTING}\n" for n in range(3)),
        encoding="utf-8",
    )
    for command in (
        ("render", "pairs.jsonl", "-a", "helpfulness"),
        ("parse", "answers.jsonl"),
        ("export", "answers.csv", "--scale", "0-4"),
        ("export", "answers.csv", "--scale", "0-4", "--format", "jsonl", "-o", "/dev/stdout"),
        ("results", "answers.csv", "--scale", "0-4"),
    ):
        status, shown = at_a_terminal(*command, cwd=tmp_path)
        assert status == 0, shown
        unstyled = re.sub(r"\x1b\[[?\d;]*[mlhKA]|\r", "", shown)
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", unstyled)
    has(robin("export", "answers.csv", "--scale", "0-4", cwd=tmp_path).stdout, f"q2{_ACTING}")
