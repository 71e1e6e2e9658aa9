"""How long do a run that ranks many systems, and what is read of it, take?

    python -m benchmarks.systems [--systems 100,300,1000] [--calls 20] [--among 20]

As many prompts as systems, each answered by ``--among`` of them, drawn at random; so many calls a system, 8 at a time, to a
judge that answers at once, by Bradley and Terry. ``gap``: the longest time for which the event loop did not turn while calls
were made. Each command is a process of its own: seconds that passed, and seconds of the processors.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import robin_cli

BEAT_S = 0.01


class Judge:
    """Answers at once, and measures the loop from its first call to its last."""

    def __init__(self, strength: list[float]) -> None:
        self._strength = strength
        self._random = random.Random(2)
        self._heart: asyncio.Task[None] | None = None
        self._gap_s = 0.0
        self.gap_s = self.began = self.ended = 0.0

    async def __call__(self, messages: list[dict[str, str]]) -> str:
        """The verdict on two responses."""
        if self._heart is None:
            self.began, self._heart = time.perf_counter(), asyncio.create_task(self._beat())
        self.ended, self.gap_s = time.perf_counter(), self._gap_s
        a, b = (int(each) for each in re.findall(r"Said by s(\d+)\.", messages[-1]["content"]))
        return f"Verdict: {'A' if self._random.random() < self._chance(a, b) else 'B'}"

    def _chance(self, a: int, b: int) -> float:
        return 1.0 / (1.0 + math.exp(self._strength[b] - self._strength[a]))

    async def _beat(self) -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(BEAT_S)
            self._gap_s = max(self._gap_s, time.perf_counter() - before - BEAT_S)


def write_rows(path: Path, systems: int, among: int, rng: np.random.Generator) -> None:
    """The responses, a row each."""
    with path.open("w", encoding="utf-8") as file:
        for prompt in range(systems):
            for each in rng.permutation(systems)[:among].tolist():
                row = {
                    "prompt": f"Question {prompt}?",
                    "response": f"Said by s{each}.",
                    "system": f"s{each}",
                }
                file.write(json.dumps(row) + "\n")


def seconds_of(*command: str) -> str:
    """How long a command of robin takes: seconds that pass, and of the processors."""
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "robin_cli", *command], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    return f"{command[0]} {time.perf_counter() - began:.1f} s ({cpu:.1f})"


def measure(folder: Path, systems: int, calls: int, among: int) -> None:
    """Make a run, read it, and print what that took."""
    rng = np.random.default_rng(1)
    data, run = str(folder / f"{systems}.jsonl"), str(folder / f"{systems}")
    write_rows(Path(data), systems, min(among, systems), rng)
    judge = Judge(rng.normal(0.0, 1.0, systems).tolist())
    began = time.perf_counter()
    robin_cli.judge(
        data, pairwise=True, judge=judge, budget=calls * systems, run=run, quiet=True, concurrency=8
    )
    ended = time.perf_counter()
    pace = calls * systems / (judge.ended - judge.began)
    print(
        f"{systems:5} systems: before the first call {judge.began - began:.1f} s, {pace:.0f} calls/s, gap {judge.gap_s:.3f} s, "
        f"after the last {ended - judge.ended:.1f} s",
        flush=True,
    )
    commands = (
        ("plan", data, "--pairwise", "--budget", str(calls * systems)),
        ("status", run),
        ("export", run, "--what", "ranking", "-o", str(folder / f"{systems}.csv")),
        ("report", run, "-o", str(folder / f"{systems}.html")),
    )
    print("      " + ", ".join(seconds_of(*command) for command in commands), flush=True)


def main() -> None:
    """Print two lines for each number of systems."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--systems", default="100,300,600,1000,2000")
    parser.add_argument("--calls", type=int, default=20, help="a system")
    parser.add_argument("--among", type=int, default=20, help="systems that answer a prompt")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for systems in map(int, told.systems.split(",")):
            measure(Path(folder), systems, told.calls, told.among)


if __name__ == "__main__":
    main()
