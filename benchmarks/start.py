"""How long robin judge takes to its first request on 10,000 to 10,000,000 pairs, how much memory, and how both grow.

    python -m benchmarks.start                              # all sizes once: about five minutes, 7 GB of disk
    python -m benchmarks.start --pairs 10000,100000,1000000 --repeats 3

Pairs of 200 characters, and of 1,000 where there are 1,000,000, in one Parquet file; each text is its own. To the first
request everything is read, checked, copied into the run and scheduled. Time is of the wall's clock and of the process's own
CPU, memory the most that the process held. Figures are mean ± half the range. What grew is said over the size before.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.engine import _mean, _spread

PAIRS = (10_000, 100_000, 1_000_000, 10_000_000)
SHORT, LONG = 200, 1_000
LONG_PAIRS = 1_000_000
BARS = {(LONG_PAIRS, LONG): (12, 1), (10_000_000, SHORT): (180, 4)}
"""Seconds to the first request, and GB, by pairs and characters of each."""

_AT_A_TIME = 100_000
_LETTERS = np.frombuffer(b"etaoinshrdlu cmfwypvbgkqjxz " * 9 + b"    ", np.uint8)


def texts(rng: np.random.Generator, count: int, characters: int) -> pa.Array:
    """So many texts of random letters, each its own."""
    letters = _LETTERS[rng.integers(0, len(_LETTERS), count * characters, dtype=np.uint8)]
    ends = np.arange(0, (count + 1) * characters, characters, dtype=np.int64)
    return pa.LargeStringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(letters))


def write_pairs(path: Path, pairs: int, characters: int) -> None:
    """So many pairs, half of the characters in the prompt, and a human rating each; a part at a time."""
    rng = np.random.default_rng(1)
    text = pa.large_string()
    schema = pa.schema([("prompt", text), ("response", text), ("helpfulness", pa.int64())])
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, pairs, _AT_A_TIME):
            count = min(_AT_A_TIME, pairs - start)
            both = [texts(rng, count, characters // 2) for _ in range(2)]
            writer.write_table(pa.table([*both, np.arange(count) % 5], schema=schema))


def measured(data: Path, pairs: int, folder: Path) -> tuple[float, float, float]:
    """Seconds to the first request, of the wall's clock and of CPU, and peak memory in GB."""
    asked = threading.Event()

    class Judge(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()

        def log_message(self, *args: object) -> None:
            pass

    with (
        HTTPServer(("127.0.0.1", 0), Judge) as server,
        tempfile.TemporaryDirectory(dir=folder) as name,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        command = [
            sys.executable,
            "-m",
            "robin_cli",
            "judge",
            str(data),
            "--budget",
            str(2 * pairs),
            "-a",
            "helpfulness",
        ]
        run = [
            "--base-url",
            url,
            "--model",
            "m",
            "--concurrency",
            "1",
            "--run",
            str(Path(name) / "run"),
            "--quiet",
        ]
        begun = time.perf_counter()
        with subprocess.Popen([*command, *run], cwd=name, stdout=subprocess.DEVNULL) as judge:
            while not asked.wait(0.02) and judge.poll() is None:
                pass
            seconds = time.perf_counter() - begun
            cpu, memory = (
                (0.0, 0.0) if judge.poll() is not None else (cpu_s(judge.pid), peak_gb(judge.pid))
            )
            judge.kill()
        server.shutdown()
    if not asked.is_set():
        sys.exit("benchmarks/start.py: robin judge ended before it asked")
    return seconds, cpu, memory


def cpu_s(process: int) -> float:
    """CPU that the process has used, in seconds."""
    ticks = (
        Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    )
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def peak_gb(process: int) -> float:
    """The most memory that the process has held."""
    return memory_gb(process, "VmHWM:")


def memory_gb(process: int, what: str = "VmRSS:") -> float:
    """The memory that the process holds."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition(what)[2].split()[0]) / 2**20


def main() -> None:
    """Measure each size, and print a line for each."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--pairs", default=",".join(map(str, PAIRS)), help="numbers of pairs, rising, by commas"
    )
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    wanted = [(int(pairs), SHORT) for pairs in options.pairs.split(",")]
    if any(pairs >= LONG_PAIRS for pairs, _ in wanted):
        wanted.append((LONG_PAIRS, LONG))
    print(
        f"{'pairs':>10} {'characters':>10} {'s':>13} {'CPU s':>13} {'GB':>12}  growth, bar",
        flush=True,
    )
    before: tuple[float, ...] | None = None
    for pairs, characters in wanted:
        with tempfile.TemporaryDirectory() as name:
            data = Path(name) / "pairs.parquet"
            write_pairs(data, pairs, characters)
            each = [measured(data, pairs, Path(name)) for _ in range(options.repeats)]
        columns = [list(column) for column in zip(*each, strict=True)]
        means = [_mean(column) for column in columns]
        said = []
        if before is not None and characters == SHORT:
            more, cpu, memory = (
                now - then for now, then in zip((pairs, *means[1:]), before, strict=True)
            )
            each_s, each_b = 1e6 * cpu / more, 2**30 * memory / more
            times = [f"{now / then:.2f}" for now, then in zip(means[1:], before[1:], strict=True)]
            said.append(
                f"CPU × {times[0]}, memory × {times[1]}; a pair more {each_s:.1f} µs, {each_b:,.0f} bytes"
            )
        if (bar := BARS.get((pairs, characters))) is not None:
            holds = all(
                figure <= most for figure, most in zip((means[0], means[2]), bar, strict=True)
            )
            said.append(f"bar {bar[0]} s, {bar[1]} GB: {'holds' if holds else 'DOES NOT HOLD'}")
        figures = "  ".join(
            f"{mean:6.2f} ± {_spread(column):4.2f}"
            for mean, column in zip(means, columns, strict=True)
        )
        print(f"{pairs:>10,} {characters:>10,} {figures}  {'; '.join(said)}", flush=True)
        before = pairs, *means[1:]


if __name__ == "__main__":
    main()
