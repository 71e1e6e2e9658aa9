"""What grows with the calls and with the pairs of a run: CPU a call, memory, disk, snapshots, and what it takes to go on.

    python -m benchmarks.growth                                      # all parts: about half an hour
    python -m benchmarks.growth calls --pairs 100000 --judgments 100000000
    python -m benchmarks.growth choices --choices 100000000

choices: the scheduler alone, which asks and is told, without a call: µs of CPU a choice, of the first million and of the last.

calls: a run of so many pairs (200 characters each) and so many judgments is made, and gone on with against the stub server
as far as ten segments of 10,000. CPU ms a call is the slope from the first new segment to the last; "to go on" is all CPU
until the first answer is kept. Of the same run, "fold" reads all judgments, where there is no snapshot; "snapshot" is what a
run under way takes to seal a segment and write one, while its calls wait, and the memory that comes on top. Each
segment is a file: 10^8 judgments take 16 GB.

disk: bytes a call in segments and in the journal, by the length of the answers; these are of words drawn from robin's own
documentation, by themselves, which Parquet packs a little worse than sentences.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import robin_cli
from benchmarks.engine import HERE, _environment, stub
from benchmarks.start import cpu_s, memory_gb, peak_gb, texts
from robin_cli.data.local import whole_file
from robin_cli.model.arms import WritableArms
from robin_cli.model.records import Judgment, Pair, Scale
from robin_cli.policies.base import Setup
from robin_cli.policies.registry import make_policy
from robin_cli.run.journal import Journal
from robin_cli.run.layout import JOURNAL, PAIRS, STATE, segment_path
from robin_cli.run.manifest import read_manifest
from robin_cli.run.pair_files import PAIRS_AT_A_TIME
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import write_segment
from robin_cli.run.writer import SEGMENT_ROWS, RunWriter
from robin_cli.session.planner import Planner

BUDGET = 400_000_000
SEGMENTS = 10
LENGTHS = (100, 400, 1_600)
_SCALE = Scale(0, 4)
_MILLION = 1_000_000


def choices(pairs: list[int], count: int) -> None:
    """Print what a choice costs, early in a run and late."""
    print(
        f"{'scheduler':12} {'pairs':>10} {'µs, first million':>18} {'µs, last million':>17} {'choices':>12} {'GB':>6}"
    )
    for name in ("robin-hood", "two-priors"):
        for arms in pairs:
            first, last = _choices(name, arms, count)
            gb = memory_gb(os.getpid())
            print(
                f"{name:12} {arms:>10,} {first:18.2f} {last:17.2f} {count:>12,} {gb:6.2f}",
                flush=True,
            )


def _choices(name: str, count: int, choices: int) -> tuple[float, float]:
    """µs of CPU a choice of the first million and of the last, of so many that a scheduler makes over new arms."""
    rng = np.random.default_rng(1)
    arms, likely = WritableArms(count), rng.random(count) ** 3
    planner = Planner(
        arms, make_policy(name, Setup(count, BUDGET, _SCALE)), budget=BUDGET, closely=True
    )
    costs = []
    for _ in range(max(1, choices // _MILLION)):
        drawn = rng.random(_MILLION).tolist()
        spent = time.process_time()
        for each in drawn:
            ticket = planner.plan()
            assert ticket is not None  # noqa: S101  # the budget has no end
            planner.tell(ticket, (4.0 * (each < likely.item(ticket.arm)),))
        costs.append(time.process_time() - spent)
    return costs[0], costs[-1]


def make_run(folder: Path, pairs: int, judgments: int) -> Path:
    """A run of so many pairs and judgments, with a budget for more, without a snapshot."""
    few = [Pair(f"p{number}", f"prompt {number}", "response") for number in range(2)]
    run = folder / "run"
    robin_cli.judge(
        few,
        judge=_rating,
        attribute="helpfulness",
        run=run,
        budget=2,
        scheduler="uniform",
        quiet=True,
    )
    manifest = read_manifest(run)
    settings = {**manifest.settings, "judge": "openai", "model": "stub", "scheduler": "robin-hood"}
    session = {**manifest.sessions[0], "model": ["stub"]}
    data = {**manifest.data, "pairs": pairs}
    replace(manifest, settings=settings, budget=BUDGET, data=data, sessions=(session,)).write(run)
    (run / STATE).unlink()
    rng = np.random.default_rng(1)
    ids = _write_pairs(run, pairs, rng)
    segment_path(run, 1).unlink()
    _write_judgments(run, manifest.run_id, ids, judgments, rng)
    last = judgments // SEGMENT_ROWS
    Journal.create(run / JOURNAL, manifest.run_id, last + 1).close()
    return run


def _rating(_messages: object) -> str:
    return "Rating: 3"


def _write_pairs(run: Path, pairs: int, rng: np.random.Generator) -> pa.ChunkedArray:
    schema = pa.schema(
        [pa.field(name, pa.large_string()) for name in ("pair_id", "prompt", "response")]
    )
    ids = []
    with (
        whole_file(run / PAIRS) as file,
        pq.ParquetWriter(file, schema, write_batch_size=64) as writer,
    ):
        for start in range(0, pairs, PAIRS_AT_A_TIME):
            count = min(PAIRS_AT_A_TIME, pairs - start)
            names = [f"p{number:08}" for number in range(start, start + count)]
            ids.append(pa.array(names, pa.string()))
            both = [texts(rng, count, 100) for _ in range(2)]
            writer.write_table(pa.table([ids[-1].cast(pa.large_string()), *both], schema=schema))
    return pa.chunked_array(ids)


def _write_judgments(
    run: Path, run_id: str, ids: pa.ChunkedArray, judgments: int, rng: np.random.Generator
) -> None:
    """Segments that go round the pairs; when they come to the same pairs again all but the number of the call is the same."""
    quality = rng.random(len(ids), np.float32)
    own = max(1, len(ids) // SEGMENT_ROWS)  # segments that differ
    for number in range(judgments // SEGMENT_ROWS):
        if number >= own:
            table = pq.ParquetFile(segment_path(run, number % own + 1)).read()
            draws = pa.array([number // own] * SEGMENT_ROWS, pa.int64())
            field = table.schema.field("draw")
            table = table.set_column(table.schema.names.index("draw"), field, draws)
            write_segment(table, run, run_id, number + 1)
            continue
        pair = (number * SEGMENT_ROWS + np.arange(SEGMENT_ROWS)) % len(ids)
        rating = np.clip(
            np.round(4 * quality[pair] + rng.normal(0, 0.7, SEGMENT_ROWS)), 0, 4
        ).astype(np.int32)
        values = {
            "pair_id": ids.take(pa.array(pair)).combine_chunks(),
            "rating": rating,
            "feedback": texts(rng, SEGMENT_ROWS, 60),
            "text": texts(rng, SEGMENT_ROWS, 80),
            "prompt_tokens": rng.integers(50, 400, SEGMENT_ROWS),
            "completion_tokens": rng.integers(5, 40, SEGMENT_ROWS),
            "latency_s": rng.random(SEGMENT_ROWS),
            "received_at": pa.array(
                int(1.7e15) + np.arange(SEGMENT_ROWS), pa.timestamp("us", tz="UTC")
            ),
        }
        same = {
            "attribute": "helpfulness",
            "status": "ok",
            "model": "stub",
            "judge": "stub",
            "finish_reason": "stop",
        }
        same |= {"draw": number // own, "usage_estimated": False, "scoring": "text"}
        columns = [
            _column(field, values.get(field.name), same.get(field.name)) for field in JUDGMENTS
        ]
        write_segment(pa.table(columns, schema=JUDGMENTS), run, run_id, number + 1)


def _column(field: pa.Field[Any], values: Any, same: Any) -> pa.Array:
    if values is None:
        return pa.array([same] * SEGMENT_ROWS, field.type)
    return values.cast(field.type) if isinstance(values, pa.Array) else pa.array(values, field.type)


def calls(sizes: list[tuple[int, int]], at_a_time: int, latency_ms: float) -> None:
    """Print what it takes to go on with runs of so many pairs and judgments."""
    columns = ("fold s", "snapshot s", "its GB", "to go on s", "GB", "CPU ms a call", "GB later")
    print(
        f"{'pairs':>10} {'judgments':>12} " + " ".join(f"{name:>13}" for name in columns),
        flush=True,
    )
    for pairs, judgments in sizes:
        with tempfile.TemporaryDirectory() as name, stub(Path(name), latency_ms) as url:
            run = make_run(Path(name), pairs, judgments)
            figures = [*_in_a_process(run), *_gone_on(run, url, at_a_time)]
            print(
                f"{pairs:>10,} {judgments:>12,} " + " ".join(f"{each:13.3f}" for each in figures),
                flush=True,
            )


def _in_a_process(run: Path) -> tuple[float, float, float]:
    """CPU of a fold of all judgments, and of a snapshot, with its memory, by the part ``store`` of this script."""
    command = [sys.executable, "-m", "benchmarks.growth", "store", "--run", str(run)]
    said = subprocess.run(
        command, check=True, capture_output=True, text=True, env=_environment()
    ).stdout.split()
    fold_s, snapshot_s, snapshot_gb = map(float, said)
    return fold_s, snapshot_s, snapshot_gb


def store(run: Path) -> None:
    """Print the CPU that a fold of all judgments takes, and sealing a segment with a snapshot, and GB more for that."""
    with RunWriter.open(run) as opened:
        judgment = _judgment(opened.space.pair_ids[0], "Rating: 3")
        started = time.process_time()
        opened.fold()
        folded_at = time.process_time()
    with RunWriter.open(run) as opened:
        opened.fold()  # as a session does; it knows what is there from here on
        opened.write([judgment] * (SEGMENT_ROWS - 1))
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins anew
        held, closing = memory_gb(os.getpid()), time.process_time()
    closed = time.process_time()
    print(folded_at - started, closed - closing, peak_gb(os.getpid()) - held)


def _judgment(pair_id: str, text: str) -> Judgment:
    return Judgment(
        pair_id=pair_id,
        attribute="helpfulness",
        rating=3,
        status="ok",
        reason=None,
        feedback=text,
        text=f"Feedback: {text}\nRating: 3",
        model="gpt-6-luna",
        finish_reason="stop",
        prompt_tokens=412,
        completion_tokens=103,
        cost_usd=0.0000824,
        latency_s=1.234567,
        request_id="chatcmpl-0123456789abcdef0123456789",
        received_at=1.8e9,
        draw=0,
        usage_estimated=False,
        judge="gpt-6-luna",
    )


def _gone_on(run: Path, url: str, at_a_time: int) -> tuple[float, float, float, float]:
    """CPU until an answer is kept, memory then, CPU ms a call from there, and memory at the end."""
    command = [sys.executable, "-m", "robin_cli", "resume", str(run), "--base-url", url, "--quiet"]
    last = len(list((run / "judgments").iterdir()))
    journal, log = run / JOURNAL, run.parent / "log"
    began = journal.stat().st_size if journal.exists() else 0
    with (
        log.open("wb") as out,
        subprocess.Popen(
            [*command, "--concurrency", str(at_a_time)],
            cwd=run.parent,
            stdout=out,
            stderr=out,
            env=_environment(),
        ) as robin,
    ):

        def wait(until: Any) -> tuple[float, float]:
            while not until():
                if robin.poll() is not None:
                    sys.exit(
                        f"benchmarks/growth.py: {' '.join(command)}: {log.read_text(errors='replace')[-600:]}"
                    )
                time.sleep(0.01)
            return cpu_s(robin.pid), memory_gb(robin.pid)

        started, held = wait(lambda: journal.stat().st_size > began + 200)
        first, _ = wait(segment_path(run, last + 1).exists)
        ended, later = wait(segment_path(run, last + SEGMENTS + 1).exists)
        robin.kill()
    return started, held, 1000 * (ended - first) / (SEGMENTS * SEGMENT_ROWS), later


def disk() -> None:
    """Print the bytes a call takes on disk."""
    rng = np.random.default_rng(1)
    words = [
        word
        for page in sorted((HERE.parent / "docs").glob("*.md"))
        for word in page.read_text().split()
    ]
    few = [
        Pair(f"{number:016x}", "prompt", "response")
        for number in rng.integers(0, 2**62, 10_000).tolist()
    ]
    print(f"{'characters':>10} {'segment, bytes a call':>22} {'journal, bytes a call':>22}")
    for length in LENGTHS:
        with tempfile.TemporaryDirectory() as name:
            run = Path(name) / "run"
            options: dict[str, Any] = {
                "attribute": "helpfulness",
                "budget": len(few),
                "quiet": True,
            }
            robin_cli.judge(few, judge=_rating, run=run, scheduler="uniform", **options)
            with RunWriter.open(run) as opened:
                header = (run / JOURNAL).stat().st_size
                opened.write(list(_answers([pair.pair_id for pair in few], length, words, rng)))
                journal = (run / JOURNAL).stat().st_size - header
                with suppress(StopIteration):
                    opened.sync()
            print(
                f"{length:>10,} {segment_path(run, 2).stat().st_size / len(few):22.0f} {journal / len(few):22.0f}"
            )


def _answers(
    ids: list[str], length: int, words: list[str], rng: np.random.Generator
) -> Iterator[Judgment]:
    at = 1.8e9
    for number, pair_id in enumerate(ids):
        chosen = rng.integers(0, len(words), length // 4)
        text = " ".join(words[each] for each in chosen)[:length]
        at += float(rng.exponential(0.01))
        rating = int(rng.integers(0, 5))
        yield replace(
            _judgment(pair_id, text),
            rating=rating,
            text=f"Feedback: {text}\nRating: {rating}",
            prompt_tokens=int(rng.integers(100, 900)),
            completion_tokens=length // 4,
            cost_usd=float(rng.random()) * 1e-4,
            latency_s=float(rng.lognormal()),
            request_id=f"chatcmpl-{rng.integers(0, 2**62):016x}{rng.integers(0, 2**62):016x}",
            received_at=at,
            draw=number % 7,
        )


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "part", nargs="?", choices=("choices", "calls", "disk", "store"), help="all for none"
    )
    parser.add_argument("--pairs", help="numbers of pairs, by commas")
    parser.add_argument("--judgments", help="numbers of judgments that runs have, by commas")
    parser.add_argument("--choices", type=int, default=10 * _MILLION)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--latency", type=float, default=0.0, help="of the stub server, ms")
    parser.add_argument("--run", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part == "store":
        store(given.run)
        return
    pairs = [int(each) for each in (given.pairs or "1000,100000,1000000").split(",")]
    if given.part in {None, "choices"}:
        choices(pairs, given.choices)
    if given.part in {None, "disk"}:
        disk()
    if given.part in {None, "calls"}:
        judgments = [
            int(each) for each in (given.judgments or "100000,1000000,10000000").split(",")
        ]
        sizes = [(each, done) for each in pairs for done in judgments if done >= each]
        calls(sizes, given.concurrency, given.latency)


if __name__ == "__main__":
    main()
