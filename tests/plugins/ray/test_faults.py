"""Workers, nodes and the deciding process itself go away in the midst of a run: nothing is counted twice, and the run ends."""

from __future__ import annotations

import os
import re
import signal
import stat
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pandas as pd
import pytest

from tests.conftest import environment, plant, robin, wait_until, write_pairs
from tests.plugins.ray.conftest import (
    WITHIN_S,
    Nodes,
    judging_on,
    places_with,
    processes,
    workers_of,
)
from tests.plugins.ray.judge import Asked, judge
from tests.starting import Robin

pytestmark = [pytest.mark.external, pytest.mark.slow]
BUDGET = 200


@contextmanager
def begun(nodes: Nodes, asked: Asked, folder: Path, *more: str) -> Iterator[Robin]:
    """A run under way: its process."""
    data = write_pairs(folder / "pairs.jsonl", 30)
    common = (
        "--run",
        str(folder / "run"),
        "-o",
        str(folder / "s.csv"),
        "--concurrency",
        "16",
        *more,
    )
    command = judging_on(nodes, asked, data, BUDGET, *common)
    with (folder / "said").open("wb") as said:
        process = Robin(
            command,
            cwd=folder,
            env=environment(**nodes.env),
            stdout=subprocess.DEVNULL,
            stderr=said,
        )
    try:
        yield process
    except BaseException:
        print((folder / "said").read_text())
        raise
    finally:
        process.kill()
        process.wait()


def ended(process: Robin, folder: Path) -> str:
    """What a run said by its end, which came."""
    process.wait(timeout=2 * WITHIN_S)
    said = (folder / "said").read_text()
    assert process.returncode == 0, said
    return said


def check_books(asked: Asked, folder: Path, most_lost: int) -> None:
    """Every call of the budget was answered and is kept once; what was asked beside these is what was lost."""
    kept = pd.read_parquet(folder / "run" / "judgments")
    ids = Counter(kept["request_id"])
    assert sum(ids.values()) == BUDGET
    assert set(ids.values()) == {1}, "an answer is there twice"
    assert not kept.duplicated(["pair_id", "draw"]).any()
    assert set(ids) <= set(asked.sent), "an answer is there that nobody gave"
    assert len(asked.arrivals) - BUDGET <= most_lost, "more was asked again than was under way"


def test_spends_its_budget_exactly_through_a_killed_worker_and_a_stop(tmp_path: Path) -> None:
    """One run on a Ray of its own, of which nothing is left, and into which nobody else can look."""
    key = "sk-marked-for-the-search-0123456789"
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    imported = plant(tmp_path, "numpy", "ray", "json", "orjson", "sitecustomize", "usercustomize")
    with judge() as asked, (tmp_path / "said").open("wb") as said:
        asked.held_after = 40
        command = [
            *("judge", str(data), "-a", "helpfulness", "-b", str(BUDGET), "--base-url", asked.url)
        ]
        command += ["--model", "judge", "--ray", "local", "--concurrency", "8", "--run", "run"]
        command += ["--repeat-anyway"]
        env = environment(OPENAI_API_KEY=key)
        with Robin(
            command, cwd=tmp_path, env=env, stdout=subprocess.DEVNULL, stderr=said
        ) as process:
            wait_until(lambda: len(asked.arrivals) == 48, process, WITHIN_S)
            ((raylet, named),) = [
                (pid, name)
                for pid, of, name in processes()
                if of == process.pid and "raylet/" in name
            ]
            folder = Path(re.findall(r"/\S*?/robin-[^/\s]+", named)[0])
            mode = stat.S_IMODE(folder.stat().st_mode)
            (worker,) = workers_of(raylet)
            place = Path(f"/proc/{worker}/cwd").readlink()
            is_empty = not [*place.iterdir()]
            found = set(places_with(key, folder, [raylet]))
            texts = set(places_with("Blue, and 7 more", folder, [raylet]))
            names = set(places_with("ray::Worker", folder, [raylet]))
            os.kill(worker, signal.SIGKILL)
            asked.held_after = 120
            wait_until(lambda: len(asked.arrivals) == 128, process, WITHIN_S)
            process.terminate()
            asked.held_after = None
            assert process.wait(timeout=WITHIN_S) == 130
        kept = len(pd.read_parquet(tmp_path / "run" / "judgments"))
        robin("resume", "run", cwd=tmp_path, OPENAI_API_KEY=key, exits=0)
        check_books(asked, tmp_path, most_lost=8)
    assert kept == 120
    assert (mode, place.is_relative_to(folder), is_empty) == (0o700, True, True)
    assert not folder.exists()
    assert not imported.exists(), "workers import what lies in the folder that robin was started in"
    assert asked.keys == {f"Bearer {key}"}
    assert names  # where it looks, it finds what is there
    assert not found | texts
    lines = [
        line for line in (tmp_path / "said").read_text().splitlines() if " in flight " not in line
    ]
    begin = [
        *("--scheduler auto", "note: --ray: workers are starting", "note: --ray: a worker on node"),
        "stopping: calls under way",
    ]
    begin += [
        "120 of 200 calls spent",
        "12,000 tokens",
        "robin: interrupted; everything received is kept",
    ]
    for line, known in zip(lines, begin, strict=True):  # and nothing of Ray's between
        assert line.startswith(known), lines
    assert "8 calls under way there are made again" in lines[2]


@pytest.mark.whole
def test_goes_on_with_a_run_whose_deciding_process_was_killed(nodes: Nodes, tmp_path: Path) -> None:
    with judge() as asked:
        asked.held_after = 150
        with begun(nodes, asked, tmp_path) as process:
            wait_until(lambda: len(asked.arrivals) == 166, process, WITHIN_S)
            process.kill()
            asked.held_after = None
        wait_until(lambda: not asked.open, nodes.process, WITHIN_S)
        made = len(asked.arrivals)
        robin(
            "resume", tmp_path / "run", "--ray", nodes.address, cwd=tmp_path, **nodes.env, exits=0
        )
        check_books(asked, tmp_path, most_lost=32)
        assert len(asked.arrivals) > made


@pytest.mark.whole
def test_ends_in_good_time_where_the_cluster_goes_away(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.jsonl", 10)
    with judge() as asked, (tmp_path / "said").open("wb") as said:
        asked.held_after = 40
        command = [
            *("judge", str(data), "-a", "helpfulness", "-b", "200", "--base-url", asked.url),
            *("--model", "judge"),
        ]
        command += ["--ray", "local", "--concurrency", "8", "--run", "run"]
        with Robin(command, cwd=tmp_path, env=environment(), stdout=said, stderr=said) as process:
            wait_until(lambda: len(asked.arrivals) == 48, process, WITHIN_S)
            for pid, parent, name in processes():
                if parent == process.pid and "raylet/raylet" in name:
                    os.kill(pid, signal.SIGKILL)
            assert process.wait(timeout=WITHIN_S) == 3
    said_lines = (tmp_path / "said").read_text().splitlines()
    # and nothing of Ray's between
    _, starting, kept, why = (line for line in said_lines if " in flight " not in line)
    assert starting == "note: --ray: workers are starting, which takes some seconds"
    assert kept.endswith("to go on: robin resume run --ray local")
    assert why.startswith(
        "robin: --ray: the cluster is out of reach (Ray's own process on this machine has ended)"
    )
    assert len(pd.read_parquet(tmp_path / "run" / "judgments")) == 40
