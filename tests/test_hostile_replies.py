"""No reply of an endpoint fills the memory, stops the run from hearing, or is lost without a word."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment, has, robin, write_pairs
from tests.starting import Robin

MOST_MB = 600
MEMORY = """
import atexit, os

def say():
    with open("/proc/self/status") as file:
        most = next(line.split()[1] for line in file if line.startswith("VmHWM"))
    with open(os.environ["MEMORY_LOG"], "w") as file:
        file.write(most)

atexit.register(say)
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    command = [sys.executable, str(ROOT / "tests" / "hostile_server.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}"
        server.kill()


def command(url: str, budget: int) -> list[str]:
    limits = ["--concurrency", "64", "--max-retries", "3", "--timeout", "60"]
    judge = ["--base-url", url, "--model", "m", "--run", "r"]
    return ["judge", "pairs.jsonl", "-b", str(budget), "-a", "helpfulness", *judge, *limits]


@pytest.mark.skipif(sys.platform != "linux", reason="reads the memory used from /proc")
def test_bounds_what_any_reply_costs(tmp_path: Path, address: str) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 64)
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(MEMORY, encoding="utf-8")
    log = tmp_path / "memory"
    paths = f"{tmp_path / 'site'}:{ROOT}"
    done = robin(
        *command(f"{address}/mixed/v1", 70),
        cwd=tmp_path,
        PYTHONPATH=paths,
        MEMORY_LOG=str(log),
        exits=0,
    )
    assert int(log.read_text()) < MOST_MB * 1024
    has(
        done.stderr,
        "a reply cannot be read, and counts as paid for",
        "answers without a rating: 25 unreadable",
    )
    facts = json.loads(robin("status", "r", "--json", cwd=tmp_path).stdout)
    assert facts["spent"] == 70


def test_hears_that_it_is_to_end_while_long_errors_come(tmp_path: Path, address: str) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 64)
    args = [
        *command(f"{address}/50-mb-error/v1", 500),
        *("--max-retries", "50", "--concurrency", "8"),
    ]
    with Robin(args, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any("trying again" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert any("stopping" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 130
