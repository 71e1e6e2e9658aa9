"""A long run under faults: 100,000 calls, 256 at a time, one answer in five a fault. Is everything kept, and nothing leaked?

    python benchmarks/soak.py [CALLS]

Memory and open files of the robin process are read twice a second. The bars: memory within 10 % of what it was after the
first 10,000 calls, no more files open at the end than then (connections that faults closed are opened again, so their
number may be anything up to the calls at a time), and exactly as many answers kept as the budget says, each once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from benchmarks.engine import stub, write_inputs

AT_A_TIME = 256
FAULTS = 20
SEGMENT = 10_000


@dataclass(frozen=True, slots=True)
class Sample:
    """The process at one moment: answers in segments, memory, files open other than sockets, sockets."""

    kept: int
    rss_mb: float
    files: int
    sockets: int


def look(pid: int, run: Path) -> Sample:
    """Read the process and its run directory."""
    status = Path(f"/proc/{pid}/status").read_text()
    rss = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    links = []
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            links.append(os.readlink(entry))  # noqa: PTH115  # of a socket there is no path
        except OSError:  # closed meanwhile
            continue
    sockets = sum(link.startswith("socket:") for link in links)
    segments = len(list((run / "judgments").glob("*.parquet")))
    return Sample(segments * SEGMENT, rss / 1024, len(links) - sockets, sockets)


def main() -> None:
    """Run, watch, and print."""
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as name, stub(Path(name), 5, FAULTS) as url:
        folder, run = Path(name), Path(name) / "run"
        write_inputs(folder, pairs=2_000)
        command = [
            *(
                sys.executable,
                "-m",
                "robin_cli",
                "judge",
                "pairs.jsonl",
                "-a",
                "helpfulness",
                "-b",
                str(calls),
            ),
            *(
                "--concurrency",
                str(AT_A_TIME),
                "--max-retries",
                "20",
                "--base-url",
                url,
                "--model",
                "stub",
            ),
            *("--run", str(run), "-o", "scores.csv", "--quiet"),
        ]
        started = time.monotonic()
        samples = []
        with subprocess.Popen(command, cwd=folder) as process:
            while process.poll() is None:
                time.sleep(0.5)
                try:
                    samples.append(look(process.pid, run))
                except (OSError, StopIteration):  # it has just ended
                    break
        took_s = time.monotonic() - started
        table = pq.read_table(run / "judgments", columns=["status", "request_id"])
        answered = table.filter([status != "failed" for status in table["status"].to_pylist()])
        distinct = len(set(answered["request_id"].to_pylist()))
    # without connections it is no longer asking: it makes the scores then, from all answers at once
    working = [each for each in samples if each.kept >= SEGMENT and each.sockets]
    first, most = working[0], max(each.rss_mb for each in working)
    print(
        f"{calls:,} calls, {AT_A_TIME} at a time, {FAULTS} % faults: {took_s:.0f} s, exit {process.returncode}"
    )
    print(f"answers kept {len(answered):,}, of different requests {distinct:,}")
    print(
        f"memory after {first.kept:,} calls {first.rss_mb:.0f} MB, at most later {most:.0f} MB ({most / first.rss_mb - 1:+.1%})"
    )
    each_ten = {each.kept: f"{each.rss_mb:.0f}" for each in working}
    print(
        f"memory (MB) by thousands of answers: {', '.join(f'{kept // 1000}: {mb}' for kept, mb in each_ten.items())}"
    )
    print(
        f"files open after {first.kept:,} calls {first.files} and {first.sockets} sockets, at most later "
        f"{max(each.files for each in working)} and {max(each.sockets for each in working)}, at last "
        f"{working[-1].files} and {working[-1].sockets}"
    )
    holds = (
        process.returncode == 0
        and len(answered) == distinct == calls
        and most <= 1.1 * first.rss_mb
        and max(each.files for each in working)
        <= first.files + 2  # a segment and the journal, while they are written
        and max(each.sockets for each in working) <= AT_A_TIME + 8
    )
    print("holds" if holds else "DOES NOT HOLD")


if __name__ == "__main__":
    main()
