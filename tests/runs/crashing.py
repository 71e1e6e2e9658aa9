"""Runs that die at a chosen step of writing, many of them, quickly: python crashing.py KIND COUNT SEED FOLDER.

Each run is `robin judge` as the command line runs it, in a forked process, with a judge that answers from memory. It dies at
a random one of its steps: before or after any fsync and any rename, before or after a segment's bytes, in the middle of an
append to the journal. Then `robin resume` goes on with it. One JSON object a run is printed: what was acknowledged as safe
(told to the scheduler), what was kept, and how it ended.

A power cut is a SIGKILL after which the journal loses what no fsync had reached; of that, a part may have come to the disk.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from robin_cli.cli.app import main as robin
from robin_cli.judging.endpoints import Endpoints, Member
from robin_cli.judging.judge import Answer, Question, Reply
from robin_cli.judging.pacing import Pacer
from robin_cli.records import Judgment, Usage
from robin_cli.runs import journal, store, work
from tests.starting import load_robin

BUDGET = 61
PAIRS = 6
SEGMENT_ROWS = 10
ARGUMENTS = [
    "--attribute",
    "helpfulness",
    "--base-url",
    "http://memory/v1",
    "--model",
    "m",
    "--quiet",
    "-o",
    "scores.csv",
]


class MemoryJudge:
    """Answers after a moment, with an id that no other answer of any process has."""

    most_samples = 1

    def __init__(self) -> None:
        self._number = itertools.count()

    def most_cost(self, question: Question) -> float:
        return 0.0

    async def ask(self, question: Question) -> Reply:
        await asyncio.sleep(0.0005 * random.random())
        text = f"Feedback: fine.\nRating: {random.randrange(5)}"
        return Reply((Answer(text, "stop"),), "m", Usage(10, 5), f"{os.getpid()}-{next(self._number)}", 0.001)

    async def aclose(self) -> None:
        """Nothing to close."""


class Steps:
    """Counts the steps of writing; ``die`` is called at the one that was chosen."""

    def __init__(self, at: int, die: Callable[[], None]) -> None:
        self.count = 0
        self._at = at
        self._die = die

    def step(self) -> None:
        self.count += 1
        if self.count == self._at:
            self._die()

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **named: Any) -> Any:
            self.step()
            result = function(*args, **named)
            self.step()
            return result

        return stepped


def child(arguments: list[str], at: int, die: Callable[[], None], acknowledged: int) -> int:
    """Run robin; dies at step ``at``. Ids that are safe on disk go down the pipe ``acknowledged``. The steps it took."""
    steps = Steps(at, die)
    os.fsync = steps.around(os.fsync)
    os.replace = steps.around(os.replace)
    pq.write_table = steps.around(pq.write_table)
    append, write = store.RunStore.append, journal.Journal.append

    def torn(self: journal.Journal, records: Sequence[object]) -> None:
        """A step in the middle of the bytes."""
        file = self._file

        class Halves:
            def write(self, data: memoryview) -> int:
                steps.step()
                return file.write(data[: max(1, len(data) // 2)])

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        self._file = Halves()  # type: ignore[assignment]
        try:
            write(self, records)
        finally:
            self._file = file

    def appended(self: store.RunStore, judgments: Sequence[Judgment]) -> None:
        append(self, judgments)
        os.write(acknowledged, "".join(f"{each.request_id}\n" for each in judgments).encode())

    journal.Journal.append = torn  # type: ignore[method-assign]
    store.RunStore.append = appended  # type: ignore[method-assign]
    store.SEGMENT_ROWS = SEGMENT_ROWS
    setattr(work, "endpoints_of", _endpoints)  # noqa: B010  # mypy: no name of its own
    sys.argv = ["robin", *arguments]
    try:
        robin()
    except SystemExit as ended:
        if ended.code not in {0, None}:
            os._exit(int(ended.code) if isinstance(ended.code, int) else 1)
    return steps.count


def _endpoints(*_: object) -> tuple[list[Endpoints], list[None]]:
    pacer = Pacer(4, ceiling=4, clock=lambda: 0.0)
    return [Endpoints([Member("memory", MemoryJudge(), pacer)], clock=lambda: 0.0, notify=lambda _: None)], [None]


def forked(
    arguments: list[str], folder: Path, at: int = 0, die: Callable[[], None] = lambda: None
) -> tuple[int, int, list[str]]:
    """Exit status as the shell sees it, steps taken (0 if it died), and the ids that were acknowledged."""
    ids_out, ids_in = os.pipe()
    steps_out, steps_in = os.pipe()
    pid = os.fork()
    if not pid:
        os.chdir(folder)
        random.seed()
        null = os.open(os.devnull, os.O_RDWR)
        log = os.open("log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(null, 1)
        os.dup2(log, 2)
        try:
            os.write(steps_in, str(child(arguments, at, die, ids_in)).encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  # the child must end here, whatever happened
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    os.close(ids_in)
    os.close(steps_in)
    with os.fdopen(ids_out) as ids, os.fdopen(steps_out) as steps:
        acknowledged = ids.read().split()
        taken = int(steps.read() or 0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    return (128 - code if code < 0 else code), taken, acknowledged


def killing(number: int, times: int = 1) -> Callable[[], None]:
    """Send this process the signal ``number``, so many times."""

    def die() -> None:
        for _ in range(times):
            os.kill(os.getpid(), number)

    return die


KINDS: dict[str, Callable[[], None]] = {
    "kill": killing(signal.SIGKILL),
    "power": killing(signal.SIGKILL),
    "term": killing(signal.SIGTERM),
    "interrupt": killing(signal.SIGINT),
    "twice": killing(signal.SIGINT, 2),
}


def lose_power(run: Path, acknowledged: list[str], generator: random.Random) -> None:
    """Cut the journal somewhere behind the last line that was acknowledged: no fsync had reached what stands there."""
    path = run / "journal.jsonl"
    if not path.exists():
        return
    data = path.read_bytes()
    safe = len(data.split(b"\n", 1)[0]) + 1  # the header came with a rename
    safe = max([safe, *(data.rfind(f'"{each}"'.encode()) for each in acknowledged)])
    safe = data.find(b"\n", safe) + 1 if safe > len(data.split(b"\n", 1)[0]) + 1 else safe
    path.write_bytes(data[: generator.randint(min(safe, len(data)), len(data))])


def scenario(kind: str, at: int, folder: Path, generator: random.Random) -> dict[str, Any]:
    """One run that dies at step ``at``, and is resumed until it is done."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pairs = [{"id": f"p{k}", "prompt": f"Say {k}.", "response": str(k)} for k in range(PAIRS)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pairs), encoding="utf-8")
    judge = ["judge", "pairs.jsonl", "--budget", str(BUDGET), "--run", "run", *ARGUMENTS]
    first, _, acknowledged = forked(judge, folder, at, KINDS[kind])
    if kind == "power":
        lose_power(folder / "run", acknowledged, generator)
    made = (folder / "run" / "manifest.json").exists()
    again = ["resume", "run", "--quiet", "-o", "scores.csv"] if made else judge
    second, _, later = forked(again, folder)
    table = pq.read_table(folder / "run" / "judgments") if second == 0 else None
    return {
        "at": at,
        "first": first,
        "second": second,
        "acknowledged": acknowledged + later,
        "kept": [] if table is None else table["request_id"].to_pylist(),
        "budget": json.loads((folder / "run" / "manifest.json").read_text())["budget"] if made or second == 0 else None,
        "log": (folder / "log").read_text() if second else "",
    }


def main(kind: str, count: int, seed: int, folder: Path) -> None:
    """Print one line a scenario."""
    load_robin()
    generator = random.Random(seed)
    folder.mkdir(exist_ok=True)
    whole = scenario("kill", 0, folder / "whole", generator)
    assert whole["first"] == 0, whole
    shutil.rmtree(folder / "whole")
    (folder / "count").mkdir()
    pairs = [{"id": f"p{k}", "prompt": f"Say {k}.", "response": str(k)} for k in range(PAIRS)]
    (folder / "count" / "pairs.jsonl").write_text("".join(json.dumps(each) + "\n" for each in pairs))
    judge = ["judge", "pairs.jsonl", "--budget", str(BUDGET), "--run", "run", *ARGUMENTS]
    _, steps, _ = forked(judge, folder / "count")
    for _ in range(count):
        print(json.dumps(scenario(kind, generator.randint(1, steps), folder / "run", generator)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
