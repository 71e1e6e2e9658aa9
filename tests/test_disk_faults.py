"""Disks and folders that fail under a run: a clear message, the right exit code, and nothing lost that has a place."""

from __future__ import annotations

import itertools
import os
import re
import resource
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import robin_cli
from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.session import opening
from tests.conftest import environment, has, robin, wait_until, write_pairs
from tests.judges.wire import Answer, Wire, completion, serving
from tests.starting import Robin


@contextmanager
def judge() -> Iterator[tuple[Wire, list[str]]]:
    """A judge over HTTP, and the ids of the answers that it gave."""
    given: list[str] = []
    lock = threading.Lock()

    def answer(number: int, body: dict[str, Any]) -> Answer:
        with lock:
            given.append(f"id-{number}")
        return completion(
            f"Feedback: number {number}, and so on.\nRating: {number % 5}", id=f"id-{number}"
        )

    with serving(answer) as wire:
        yield wire, given


def command(url: str, run: str | Path, budget: int, *more: str) -> list[str]:
    """To judge pairs.jsonl, eight calls at a time."""
    base = [
        *("judge", "pairs.jsonl", "-b", str(budget), "-a", "helpfulness", "--base-url", url),
        *("--model", "judge"),
    ]
    return [*base, "--run", str(run), "--concurrency", "8", "-o", "scores.csv", *more]


def kept(run: Path) -> list[str]:
    ids: list[str] = read_run(run, JUDGMENTS.names).judgments["request_id"].to_pylist()
    return ids


@contextmanager
def on_a_full_disk(url: str, folder: Path, given: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A run whose files cannot grow once some answers came, and that has said so."""
    write_pairs(folder / "pairs.jsonl", 10)
    with Robin(
        command(url, "r", 150), cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: len(given) >= 40, process)
        limit(process, 1)
        assert process.stderr is not None
        said = next(line for line in process.stderr if "could not be written" in line)
        has(said, "r/journal.jsonl", "robin tries again every 5 s: make room")
        yield process


def limit(process: subprocess.Popen[str], size: int) -> None:
    """Let no file of ``process`` grow beyond ``size`` bytes: python ignores the signal, and writing fails."""
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_waits_on_a_full_disk_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    with judge() as (wire, given), on_a_full_disk(wire.url, tmp_path, given) as process:
        assert len(given) < 100, "it asks on"
        limit(process, resource.RLIM_INFINITY)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 0, said
    has(said, "there is room again: the run goes on")
    ids = kept(tmp_path / "r")
    assert len(ids) == len(given) == 150
    assert set(ids) == set(given)


def test_counts_what_is_lost_when_it_is_stopped_on_a_full_disk(tmp_path: Path) -> None:
    with judge() as (wire, given):
        with on_a_full_disk(wire.url, tmp_path, given) as process:
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=60)
        assert process.returncode == 1, said
        lost = re.search(r"robin resume r\. Lost: (\d+) answers?$", said, re.MULTILINE)
        assert lost is not None, said
        assert "Traceback" not in said
        assert len(given) - len(kept(tmp_path / "r")) == int(lost[1]) > 0
        robin("resume", "r", "-o", "scores.csv", cwd=tmp_path, exits=0)
    ids = kept(tmp_path / "r")
    assert len(ids) == len(set(ids)) == 150


def test_counts_what_is_lost_with_a_folder_that_was_deleted(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 10)
    with judge() as (wire, given):
        words = command(wire.url, "r", 100_000)
        with Robin(
            words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
        ) as process:
            wait_until(lambda: len(given) >= 50, process)
            shutil.rmtree(tmp_path / "r")
            _, said = process.communicate(timeout=60)
    assert process.returncode == 1, said
    has(said, "deleted", "Lost: ")
    assert "Traceback" not in said


def test_says_where_no_run_can_be_kept(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 2)
    (tmp_path / "file").write_text("")
    for place in ("/proc/robin", "file/run"):
        done = robin(*command("http://127.0.0.1:9/v1", place, 10), cwd=tmp_path, exits=2)
        assert "--run" in done.stderr


def test_goes_on_with_a_run_that_was_copied_to_another_machine(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    write_pairs(here / "pairs.jsonl", 10)
    with judge() as (wire, _):
        robin(*command(wire.url, "r", 30), cwd=here, exits=0)
        shutil.copytree(here / "r", there / "copied")
        shutil.rmtree(here)
        robin("resume", "copied", "--budget", "60", "-o", "scores.csv", cwd=there, exits=0)
    assert len(kept(there / "copied")) == 60


def test_gives_two_runs_of_one_second_a_folder_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Any:
            return datetime(2026, 1, 1, tzinfo=tz)

    monkeypatch.setattr(opening, "datetime", Stopped)
    monkeypatch.chdir(tmp_path)
    data = write_pairs(tmp_path / "pairs.jsonl", 3)
    with judge() as (wire, _):
        runs = [
            robin_cli.judge(
                data,
                attribute="helpfulness",
                budget=9,
                base_url=wire.url,
                model="judge",
                quiet=True,
            )
            for _ in range(2)
        ]
    names = sorted(path.name for path in (tmp_path / "runs").iterdir())
    assert names == ["20260101T000000Z-helpfulness", "20260101T000000Z-helpfulness-2"]
    assert [len(kept(run.path)) for run in runs] == [9, 9]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="a terminal that closes is a POSIX thing")
def test_stops_like_ctrl_c_when_its_terminal_closes(tmp_path: Path) -> None:
    write_pairs(tmp_path / "pairs.jsonl", 10)
    with judge() as (wire, given):
        words = command(wire.url, "r", 100_000)
        with Robin(
            words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True
        ) as process:
            wait_until(lambda: len(given) >= 100, process)
            os.kill(process.pid, signal.SIGHUP)
            process.communicate(timeout=60)
        assert process.returncode == 130
        assert set(kept(tmp_path / "r")) == set(given)


def test_minds_no_clock_that_goes_backwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, run = write_pairs(tmp_path / "pairs.jsonl", 5), tmp_path / "r"
    hours, now = itertools.count(), time.time
    with judge() as (wire, given), monkeypatch.context() as patch:
        patch.setattr(time, "time", lambda: now() - 3600 * next(hours))
        endpoint: dict[str, Any] = {"base_url": wire.url, "model": "judge", "concurrency": 8}
        robin_cli.judge(data, attribute="helpfulness", budget=30, run=run, quiet=True, **endpoint)
        robin_cli.open_run(run).resume(budget=45, quiet=True)
    assert sorted(kept(run)) == sorted(given)
    when = read_run(run, JUDGMENTS.names).judgments["received_at"].to_pylist()
    assert when[-1] < when[0]  # it did go backwards
    robin("status", "r", cwd=tmp_path, exits=0)
