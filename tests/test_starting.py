"""robin in the process of the tests, forked from a helper and started by an interpreter are one to whoever runs it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import DEMO, environment, judging, replaying, write_pairs
from tests.starting import Robin, run_here

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere every start is an interpreter's"
)


PIPE = subprocess.PIPE
NOWHERE = ["--model", "m", "--base-url", "http://[::1]:9/v1", "--max-retries", "1"]


def ending(
    *args: str, cwd: Path, afresh: bool, stdin: bytes = b"", **env: str
) -> tuple[int, bytes, bytes]:
    with Robin(
        args, cwd=cwd, env=environment(**env), afresh=afresh, stdin=PIPE, stdout=PIPE, stderr=PIPE
    ) as process:
        out, err = process.communicate(stdin, timeout=60)
    assert process.is_forked is not afresh
    return process.returncode, out, err


@pytest.mark.parametrize(
    ("args", "status"),
    [
        (["--version"], 0),
        pytest.param(*(["judge", "--help"], 0), marks=pytest.mark.whole),
        (["jugde"], 2),
        pytest.param(*(["status", "nowhere"], 2), marks=pytest.mark.whole),
        (["parse", "-", "--scale", "0-4"], 0),
        pytest.param(*(["render", "p.jsonl", "--pair", "p1", "--attribute", "verbosity"], 0), marks=pytest.mark.whole),
        pytest.param(*(["judge", "p.jsonl", "--budget", "9", "-a", "helpfulness"], 2), marks=pytest.mark.whole),
        pytest.param(*(["judge", "p.jsonl", "-b", "9", "-a", "helpfulness", *NOWHERE], 3), marks=pytest.mark.whole),
        pytest.param(
            ["simulate", "pool.parquet", "--budget", "600", "--limit", "5", "--runs", "2"], 0, marks=pytest.mark.whole
        ),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)  # fmt: skip
def test_says_and_ends_alike(tmp_path: Path, args: list[str], status: int) -> None:
    write_pairs(tmp_path / "p.jsonl", 3)
    (tmp_path / "pool.parquet").symlink_to(DEMO / "ratings.parquet")
    said, stdin = {}, '{"text": "Rating: 3 – é"}\n'.encode()
    for afresh in (False, True):
        said[afresh] = ending(
            *args, cwd=tmp_path, afresh=afresh, stdin=stdin, COLUMNS="81", OPENAI_API_KEY=""
        )
        for run in (tmp_path / "runs").glob("*"):
            for place in sorted(run.rglob("*"), reverse=True):
                place.rmdir() if place.is_dir() else place.unlink()
            run.rmdir()
    here = run_here(
        args, cwd=tmp_path, env=environment(COLUMNS="81", OPENAI_API_KEY=""), stdin=stdin
    )
    assert here is not None
    for each in (here, said[True]):
        assert each[:2] == said[False][:2] == (status, said[False][1])
        if status != 3:  # which names the run's folder by the second
            assert each[2] == said[False][2]


def test_leaves_this_process_as_it_was(tmp_path: Path) -> None:
    def state() -> list[object]:
        handlers = [
            signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        ]
        files = [os.fstat(number).st_ino for number in range(3)]
        return [Path.cwd(), dict(os.environ), sys.argv, sys.stdout, sys.stderr, handlers, files]

    before = state()
    data = write_pairs(tmp_path / "p.jsonl", 5)
    with replaying(DEMO / "ratings.parquet") as url:
        command = judging(url, data, 20, "--run", "r")
        made = run_here(command, cwd=tmp_path, env=environment(NO_COLOR="", OTHER_KEY="x"))
    assert made is not None
    assert made[0] == 0
    assert b"20 of 20 calls spent" in made[2]
    assert state() == before


def test_the_installed_command_is_this_one(tmp_path: Path) -> None:
    program = Path(sys.executable).parent / "robin"
    installed = subprocess.run(
        [program, "--version"], cwd=tmp_path, env=environment(), stdout=PIPE, check=True
    )
    assert installed.stdout == ending("--version", cwd=tmp_path, afresh=False)[1]
