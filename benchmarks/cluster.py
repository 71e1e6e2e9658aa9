"""What a judge call costs the process that decides where workers make the calls (--ray local), beside all in one process.

    python benchmarks/cluster.py                # about five minutes

CPU is user and system time of robin's own process, without what Ray starts beside it and without the workers. Each way is run
at two numbers of calls, in turn with the other, and the slope between them is what a call costs: start-up is in neither.
Figures are mean ± half the range. --concurrency decides how large the groups become, in which questions and answers travel.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.engine import HERE, _environment, _mean, _spread, bar, stub, write_inputs

BAR_MS = 0.3


@dataclass(slots=True)
class Way:
    """A way to have calls made, and what one cost in each repeat: CPU in ms, and calls a second."""

    name: str
    flags: Sequence[str]
    sizes: tuple[int, int]
    cpu_ms: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)


def measured(way: Way, calls: int, url: str, folder: Path, concurrency: int) -> tuple[float, float]:
    """CPU seconds of robin's own process, and wall seconds, for so many calls."""
    run = Path(tempfile.mkdtemp(dir=folder))
    command = [
        *(
            sys.executable,
            str(HERE / "own_cpu.py"),
            str(run / "cpu"),
            "judge",
            "pairs.jsonl",
            "-a",
            "helpfulness",
        ),
        *(
            "--budget",
            str(calls),
            "--concurrency",
            str(concurrency),
            "--base-url",
            url,
            "--model",
            "stub",
        ),
        *(
            "--run",
            str(run / "run"),
            "--output",
            str(run / "scores.csv"),
            "--quiet",
            "--repeat-anyway",
            "--samples-per-request",
            "1",
            *way.flags,
        ),
    ]
    started = time.perf_counter()
    said = subprocess.run(
        command, check=False, cwd=folder, env=_environment(), capture_output=True, text=True
    )
    if said.returncode:
        raise RuntimeError(f"{way.name}: exit {said.returncode}: {said.stderr[-600:]}")
    return float((run / "cpu").read_text()), time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--concurrency", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.0, help="of the stub server, ms")
    parser.add_argument("--calls", type=int, nargs=2, default=(4_000, 24_000))
    options = parser.parse_args()
    few, many = options.calls
    ways = [
        Way("workers (--ray local)", ("--ray", "local"), (few, many)),
        Way("one process", (), (few, few + (many - few) // 2)),
    ]
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        with stub(folder, options.latency) as url:
            for _ in range(options.repeats):
                for way in ways:
                    (cpu_few, wall_few), (cpu_many, wall_many) = (
                        measured(way, size, url, folder, options.concurrency) for size in way.sizes
                    )
                    calls = way.sizes[1] - way.sizes[0]
                    way.cpu_ms.append(1000 * (cpu_many - cpu_few) / calls)
                    way.rate.append(calls / (wall_many - wall_few))
    print(f"{'':28} {'CPU ms a call':>18} {'calls/s':>14}")
    for way in ways:
        print(
            f"{way.name:28} {_mean(way.cpu_ms):11.3f} ± {_spread(way.cpu_ms):5.3f}"
            f" {_mean(way.rate):8,.0f} ± {_spread(way.rate):3,.0f}"
        )
    workers, alone = ways
    print(f"{'over one process':28} {_mean(workers.cpu_ms) / _mean(alone.cpu_ms):11.2f}\n")
    bar("CPU of the deciding process a call, ms", _mean(workers.cpu_ms), BAR_MS)


if __name__ == "__main__":
    main()
