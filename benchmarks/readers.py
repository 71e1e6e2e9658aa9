"""What it takes to read a run of 10,000 to 10,000,000 pairs: seconds of CPU and the most memory of each command.

    python -m benchmarks.readers                                          # 10,000 to 1,000,000 pairs: a few minutes
    python -m benchmarks.readers --pairs 10000000 --only status,export    # some minutes and 4 GB of disk
    python -m benchmarks.readers --pairs 100000 --each 100                # 10,000,000 judgments

Runs are made, not judged: pairs of 200 characters, each with a prompt of its own, and one judgment each, or as many as --each
says. Each command is a process of its own. What grew is said over the size before.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.growth import make_run

PAIRS = (10_000, 100_000, 1_000_000)
COMMANDS: Mapping[str, Sequence[str]] = {
    "status": ("status", "{run}", "--json"),
    "export": ("export", "{run}", "-o", "{out}.csv"),
    "with text": ("export", "{run}", "--with-text", "-o", "{out}.csv"),
    "judgments": ("export", "{run}", "--what", "judgments", "-o", "{out}.csv"),
    "table": ("export", "{run}", "--format", "table"),
    "report": ("report", "{run}", "-o", "{out}.html"),
}

_MEASURE = """
import os, subprocess, sys
with subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL) as process:
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 2**20, process.returncode)
"""
"""In a small process of its own: as a child it would begin with the memory of this one."""


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Seconds of CPU and the most memory in GB of a robin command. SystemExit where it fails."""
    words = [sys.executable, "-c", _MEASURE, sys.executable, "-m", "robin_cli", *command]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    cpu, memory, code = done.stdout.split()
    if int(code):
        sys.exit(f"robin {' '.join(command)}: {done.stderr[-2000:]}")
    return float(cpu), float(memory)


def main() -> None:
    """Measure each command at each size, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs", default=",".join(map(str, PAIRS)), help="sizes, with commas between"
    )
    parser.add_argument("--only", default=",".join(COMMANDS), help=f"of {', '.join(COMMANDS)}")
    parser.add_argument("--each", type=int, default=1, help="judgments of each pair")
    given = parser.parse_args()
    before: dict[str, tuple[float, float]] = {}
    print(
        f"{given.each:,} judgments of each pair\n{'pairs':>10}  {'command':<10} {'CPU s':>8} {'GB':>6}"
    )
    for pairs in map(int, given.pairs.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            run = make_run(Path(folder), pairs, pairs * given.each)
            for name in given.only.split(","):
                found = measured(
                    [word.format(run=run, out=Path(folder) / "out") for word in COMMANDS[name]]
                )
                grew = [now / then for now, then in zip(found, before.get(name, ()), strict=False)]
                told = f"  × {grew[0]:.1f} and × {grew[1]:.1f}" if grew else ""
                print(f"{pairs:>10,}  {name:<10} {found[0]:8.1f} {found[1]:6.2f}{told}", flush=True)
                before[name] = found


if __name__ == "__main__":
    main()
