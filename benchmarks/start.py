"""How long robin judge takes to its first request on 1,000,000 pairs of 1 KB in Parquet, and how much memory.

    python benchmarks/start.py                  # one file, then eight shards by a glob: about two minutes

The bar is 20 s to the first request and 4 GB of memory, of the process that reads, schedules and asks.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

PAIRS = 1_000_000
SHARDS = 8
BAR_S, BAR_GB = 20, 4


def write_shards(folder: Path) -> None:
    """So many pairs of 1 KB, each text its own, and two human ratings."""
    rng = random.Random(1)
    words = [f"word{number}" for number in range(5_000)]
    for shard in range(SHARDS):
        size = PAIRS // SHARDS
        texts = [" ".join(rng.choices(words, k=55)) for _ in range(2 * size)]
        ratings = [number % 5 for number in range(size)]
        columns = {"prompt": texts[:size], "response": texts[size:], "helpfulness": ratings, "verbosity": ratings}
        pq.write_table(pa.table(columns), folder / f"{shard}.parquet")


def measured(data: list[str], folder: Path) -> tuple[float, float, float]:
    """Seconds to the first request, of the wall's clock and of CPU, and peak memory in GB."""
    asked = threading.Event()

    class Judge(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.set()

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Judge) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/v1"
        command = [sys.executable, "-m", "robin_cli", "judge", *data, "--budget", str(2 * PAIRS), "-a", "helpfulness"]
        run = ["--base-url", url, "--model", "m", "--concurrency", "1", "--run", str(folder / f"run-{len(data[0])}")]
        begun = time.perf_counter()
        with subprocess.Popen([*command, *run], cwd=folder, stdout=subprocess.DEVNULL) as judge:
            while not asked.wait(0.05) and judge.poll() is None:
                pass
            seconds = time.perf_counter() - begun
            cpu, memory = cpu_s(judge.pid), peak_gb(judge.pid)
            judge.kill()
        server.shutdown()
    if not asked.is_set():
        sys.exit("benchmarks/start.py: robin judge ended before it asked")
    return seconds, cpu, memory


def cpu_s(process: int) -> float:
    """CPU that the process has used, in seconds."""
    ticks = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def peak_gb(process: int) -> float:
    """The most memory that the process has held."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 2**20


def main() -> None:
    """Measure both ways of naming the data, and print them beside the bar."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_shards(folder)
        shards = [pq.read_table(folder / f"{shard}.parquet") for shard in range(SHARDS)]
        pq.write_table(pa.concat_tables(shards), folder / "all.parq")
        (folder / "all.parq").rename(folder / "whole.parquet")
        del shards
        for what, data in (("one file", ["whole.parquet"]), (f"{SHARDS} shards by a glob", ["[0-9].parquet"])):
            seconds, cpu, memory = measured(data, folder)
            print(
                f"{what}: {seconds:.1f} s to the first request (bar {BAR_S}), {cpu:.1f} s of CPU; "
                f"{memory:.2f} GB (bar {BAR_GB}); load of the machine {os.getloadavg()[0]:.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
