"""Runs that die at a chosen step of writing, many of them, quickly: python crashing.py FOLDER KIND:FIRST:COUNT …

Each run is `robin judge` as the command line runs it, in a forked process, with a judge that answers from memory. It dies at
one of its steps: before or after any fsync and any rename, before or after a segment's bytes, in the middle of a
write to the journal. Then `robin resume` goes on with it. One JSON object a run is printed: what must not be lost, what was
kept, and how it ended.

Runs have numbers, COUNT of them from FIRST on. The number says all: the kinds of step take turns, and so do the shapes of the
run and the calls at a time (1, 4, 64 or 256). Which of its steps of a kind it is, is drawn by the number.

What must not be lost is every answer that the judge returned, but for the one that the process had in hand as it died: the
judge says each before it returns it, and it is said when each is written. If anything could come between, more than one would
be in hand.

A power cut is a SIGKILL after which the journal loses what no fsync had reached; of that, a part may have come to the disk.
There, what must not be lost is what was synced.

Of the kind "full", the disk takes no file beyond a random size until it has refused twice; the run waits, and goes on.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import math
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from robin_cli.cli.app import main as robin
from robin_cli.judges.failover import Failover
from robin_cli.judges.judge import Judge, Notices
from robin_cli.judges.limiter import Limiter
from robin_cli.judges.retrying import Retrying
from robin_cli.model.errors import DiskFull
from robin_cli.model.exchange import Answer, Question, Reply
from robin_cli.model.records import Judgment, Usage
from robin_cli.run import group_commit, journal
from robin_cli.run import writer as store
from robin_cli.session import here
from robin_cli.settings.resolve import Resolved
from tests.starting import load_robin

BUDGET = 61
PAIRS = 6
SEGMENT_ROWS = 10
ARGUMENTS = [
    *("--attribute", "helpfulness", "--base-url", "http://memory/v1", "--model", "m"),
    *("--quiet", "-o", "scores.csv"),
]
PANEL = ["--model", "other@http://memory/v2"]
SAMPLES = ["--samples-per-request", "5"]
LOGPROBS = ["--answers", "logprobs", "--temperature", "1", "--top-p", "1"]
CONCURRENCY = (1, 4, 64, 256)
WRITTEN = "+"
WRITES = (
    "before fsync",
    "after fsync",
    "before replace",
    "after replace",
    "before table",
    "after table",
    "in a line",
)
SHAPES = {
    "one judge": [],
    "a panel": PANEL,
    "five a request": SAMPLES,
    "log probabilities": LOGPROBS,
    "all of these": [*PANEL, *SAMPLES, *LOGPROBS],
}


class MemoryJudge(Judge):
    """Answers after a moment, with an id that no other answer of any process has; ``told`` is called with it."""

    most_samples = 5
    _number = itertools.count()

    def __init__(self, told: Callable[[Iterable[str]], None]) -> None:
        self._told = told

    async def ask(self, question: Question) -> Reply:
        await asyncio.sleep(0.0005 * random.random())
        answers = tuple(_answer(random.randrange(5)) for _ in range(question.samples))
        name = f"{os.getpid()}-{next(self._number)}"
        self._told([name])
        return Reply(answers, "m", Usage(10, 5), name, 0.001)


def _answer(rating: int) -> Answer:
    """One choice, with its tokens and what else the last of them could have been."""
    alternatives = [{"token": str(other), "logprob": math.log(0.2)} for other in range(5)]
    last = {"token": str(rating), "logprob": math.log(0.2), "top_logprobs": alternatives}
    tokens = [{"token": "Feedback: fine.\nRating: ", "logprob": 0.0}, last]
    return Answer(f"Feedback: fine.\nRating: {rating}", "stop", tokens=tokens)


At = tuple[str, int]
"""A kind of step, of WRITES, and which of these."""


class Steps:
    """Counts the steps of writing by kind; ``die`` is called at the one that was chosen."""

    def __init__(self, at: At | None, die: Callable[[], None]) -> None:
        self.counts = dict.fromkeys(WRITES, 0)
        self._at = at
        self._die = die

    def step(self, write: str) -> None:
        self.counts[write] += 1
        if self._at == (write, self.counts[write]):
            self._die()

    def around(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*args: Any, **named: Any) -> Any:
            self.step(f"before {name}")
            result = function(*args, **named)
            self.step(f"after {name}")
            return result

        return stepped


def fill(size: int) -> None:
    """Let no file grow beyond ``size`` bytes; more than that is there again once the store has refused it twice."""
    sys.dont_write_bytecode = True  # else of each module the beginning
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    # python ignores the signal: writing fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, most))
    group_commit.RETRY_S = 0.001
    sync, refused = store.RunWriter.sync, itertools.count(1)

    def synced(self: store.RunWriter) -> None:
        try:
            sync(self)
        except DiskFull:
            if next(refused) == 2:
                resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            raise

    store.RunWriter.sync = synced  # type: ignore[method-assign]


def teller(pipe: int, really: bool) -> Callable[[Iterable[str]], None]:
    """Writes ids to ``pipe``, or nothing."""

    def tell(names: Iterable[str]) -> None:
        if really:
            os.write(pipe, "".join(f"{name}\n" for name in names).encode())

    return tell


def child(
    arguments: list[str],
    at: At | None,
    die: Callable[[], None],
    acknowledged: int,
    *,
    full: int | None,
    power: bool,
    calls: int,
) -> dict[str, int]:
    """Run robin; dies at step ``at``. Ids that must not be lost go down the pipe ``acknowledged``. The steps it took."""
    steps = Steps(at, die)
    safe, told = teller(acknowledged, power), teller(acknowledged, not power)
    tempfile.tempdir = str(Path.cwd() / "tmp")
    os.fsync = steps.around("fsync", os.fsync)
    os.replace = steps.around("replace", os.replace)
    pq.ParquetWriter.write_table = steps.around("table", pq.ParquetWriter.write_table)
    sync, keep, write = store.RunWriter.sync, store.RunWriter.write, journal.Journal.write
    unsynced: list[str] = []

    def torn(self: journal.Journal, records: Sequence[object]) -> None:
        """A step in the middle of the bytes."""
        file = self._file

        class Halves:
            def write(self, data: memoryview) -> int:
                steps.step("in a line")
                return file.write(data[: max(1, len(data) // 2)])

            def __getattr__(self, name: str) -> Any:
                return getattr(file, name)

        self._file = Halves()  # type: ignore[assignment]
        try:
            write(self, records)
        finally:
            self._file = file

    def written(self: store.RunWriter, judgments: Sequence[Judgment]) -> None:
        keep(self, judgments)
        unsynced.extend(str(each.request_id) for each in judgments)
        told([WRITTEN])

    def synced(self: store.RunWriter) -> None:
        names = unsynced[:]
        sync(self)
        del unsynced[: len(names)]
        safe(names)

    journal.Journal.write = torn  # type: ignore[method-assign]
    store.RunWriter.write = written  # type: ignore[method-assign]
    store.RunWriter.sync = synced  # type: ignore[method-assign]
    store.SEGMENT_ROWS = SEGMENT_ROWS if full is None else BUDGET
    setattr(here, "endpoints_of", lambda *given: _endpoints(told, calls, *given))  # noqa: B010  # mypy: no name of its own
    if full is not None and at is not None:
        fill(full)
    sys.argv = ["robin", *arguments]
    try:
        robin()
    except SystemExit as ended:
        if ended.code not in {0, None}:
            os._exit(int(ended.code) if isinstance(ended.code, int) else 1)
    return steps.counts


def _endpoints(
    told: Callable[[Iterable[str]], None], calls: int, resolved: Resolved, *_: object
) -> tuple[list[Failover], list[None]]:
    limiters = [Limiter(calls, ceiling=calls, clock=lambda: 0.0) for _ in resolved.judges]
    notices = Notices("memory", lambda _: None)
    chains = [Retrying(MemoryJudge(told), limiter, notices) for limiter in limiters]
    judges = [Failover([chain]) for chain in chains]
    return judges, [None] * len(judges)


def forked(
    arguments: list[str],
    folder: Path,
    at: At | None = None,
    die: Callable[[], None] = lambda: None,
    *,
    full: int | None = None,
    power: bool = False,
    calls: int = 4,
) -> tuple[int, dict[str, int], list[str]]:
    """Exit status as the shell sees it, steps taken (none if it died), and the ids of what must not be lost."""
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
            taken = child(arguments, at, die, ids_in, full=full, power=power, calls=calls)
            os.write(steps_in, json.dumps(taken).encode())
            os._exit(0)
        except BaseException as error:  # noqa: BLE001  # the child must end here, whatever happened
            os.write(2, f"{error!r}\n".encode())
            os._exit(1)
    os.close(ids_in)
    os.close(steps_in)
    with os.fdopen(ids_out) as ids, os.fdopen(steps_out) as steps:
        acknowledged = ids.read().split()
        taken = json.loads(steps.read() or "{}")
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code < 0 and acknowledged and not power and acknowledged[-1] != WRITTEN:
        acknowledged.pop()  # this one it had in hand
    return (
        (128 - code if code < 0 else code),
        taken,
        [each for each in acknowledged if each != WRITTEN],
    )


def killing(number: int, times: int = 1) -> Callable[[], None]:
    """Send this process the signal ``number``, so many times."""

    def die() -> None:
        for _ in range(times):
            os.kill(os.getpid(), number)

    return die


KINDS: dict[str, Callable[[], None]] = {
    "kill": killing(signal.SIGKILL), "power": killing(signal.SIGKILL), "term": killing(signal.SIGTERM),
    "interrupt": killing(signal.SIGINT), "twice": killing(signal.SIGINT, 2), "full": lambda: None,
}  # fmt: skip


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


def prepared(folder: Path, shape: str) -> list[str]:
    """A folder to judge in, and the command."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "tmp").mkdir(parents=True)
    pairs = [{"id": f"p{k}", "prompt": f"Say {k}.", "response": str(k)} for k in range(PAIRS)]
    (folder / "pairs.jsonl").write_text(
        "".join(json.dumps(each) + "\n" for each in pairs), encoding="utf-8"
    )
    return [
        *("judge", "pairs.jsonl", "--budget", str(BUDGET), "--run", "run"),
        *ARGUMENTS,
        *SHAPES[shape],
    ]


def scenario(
    kind: str, number: int, steps: Mapping[str, dict[str, int]], folder: Path
) -> dict[str, Any]:
    """The run of this number, which dies at a step and is resumed until it is done; ``steps``: of whole runs, by shape."""
    generator = random.Random(f"{kind} {number}")
    shape, write = list(SHAPES)[number % len(SHAPES)], WRITES[number % len(WRITES)]
    at = write, generator.randint(1, steps[shape][write])
    judge = prepared(folder, shape)
    # The journal of a whole run takes some 30,000 bytes, and the most that wait for one write, eight requests' answers, 20,000.
    full = generator.randint(21_000, 26_000) if kind == "full" else None
    calls = 4 if full else CONCURRENCY[number % len(CONCURRENCY)]
    first, _, acknowledged = forked(
        judge, folder, at, KINDS[kind], full=full, power=kind == "power", calls=calls
    )
    if kind == "power":
        lose_power(folder / "run", acknowledged, generator)
    made = (folder / "run" / "manifest.json").exists()
    again = ["resume", "run", "--quiet", "-o", "scores.csv"] if made else judge
    second, _, later = forked(again, folder, full=full, calls=calls)
    table = pq.read_table(folder / "run" / "judgments") if second == 0 else None
    keys = (
        [] if table is None else table.select(["pair_id", "attribute", "judge", "draw"]).to_pylist()
    )
    return {
        "kind": kind,
        "shape": shape,
        "calls": calls,
        "at": at,
        "first": first,
        "second": second,
        "acknowledged": acknowledged + later,
        "kept": [" ".join(map(str, key.values())) for key in keys],
        "requests": [] if table is None else table["request_id"].to_pylist(),
        "budget": json.loads((folder / "run" / "manifest.json").read_text())["budget"]
        if made or second == 0
        else None,
        "log": (folder / "log").read_text() if second else "",
    }


def main(folder: Path, *wanted: str) -> None:
    """Print one line a scenario."""
    load_robin()
    folder.mkdir(exist_ok=True)
    steps = {}
    for shape in SHAPES:
        ended, steps[shape], _ = forked(prepared(folder / "whole", shape), folder / "whole")
        assert ended == 0, (folder / "whole" / "log").read_text()
    for each in wanted:
        kind, first, count = each.split(":")
        for number in range(int(first), int(first) + int(count)):
            print(json.dumps(scenario(kind, number, steps, folder / "run")), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
