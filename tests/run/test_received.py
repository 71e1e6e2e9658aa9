"""Run directories that came from elsewhere, that are damaged, or that can only be read."""

from __future__ import annotations

import os
import random
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest

from robin_batch.folder import Batches
from robin_cli.api import judge
from robin_cli.goals.gate import check_requirements
from robin_cli.goals.registry import judgment_table
from robin_cli.model.errors import RobinError, RunError, StorageError
from robin_cli.run import reader as reader_module
from robin_cli.run import segments as segments_module
from robin_cli.run import writer as store_module
from robin_cli.run.batches import Submission, read_batches
from robin_cli.run.journal import Journal
from robin_cli.run.locking import is_locked
from robin_cli.run.manifest import read_manifest
from robin_cli.run.pair_files import read_columns
from robin_cli.run.pools import load_pools
from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.tables import write_table
from robin_cli.run.writer import RunWriter
from robin_cli.session.resuming import reopen_run
from robin_cli.settings.table import Settings
from robin_cli.show.report.writing import write_report
from robin_cli.show.run_list import runs_in
from robin_cli.show.status import status_of
from tests.conftest import (
    change_manifest,
    refuses,
    robin,
    robin_apart,
    shared_folder,
    write_pairs,
)
from tests.run.test_store import PAIRS, SETTINGS, judgment, manifest


def made(path: Path, budget: int = 3) -> Path:
    """A finished run."""
    settings = {"base_url": ["http://127.0.0.1:9/v1"], "temperature": 1.0, **SETTINGS}
    with RunWriter.create(path, manifest(settings=settings, budget=budget), PAIRS) as store:
        store.append([judgment(number) for number in range(3)])
    return path


def resumed(run: Path) -> None:
    with RunWriter.open(run) as store:
        store.fold()


def reported(run: Path) -> object:
    return write_report([run], None)


USES: list[Callable[[Path], object]] = [resumed, status_of, reported]
ANSWERS = "judgments/00001.parquet"


ODD: dict[str, tuple[tuple[str | int, ...], object]] = {
    "settings: delta": (("settings", "delta"), "x"),
    "settings: unknown temperatura": (("settings", "temperatura"), 1),
    "its last session: concurrency": (("sessions", 0, "concurrency"), "many"),
    "run_id": (("data", "run_id"), "../../home/me/x"),
    "'tone'": (("attributes",), ["tone"]),
    "unexpected keyword argument 'kind'": (("kind",), 1),
}


def test_says_in_one_line_what_no_manifest_holds(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    session = {"started_at": "2026-11-20T10:00:00+00:00", "model": ["m"], "max_cost": None}
    change_manifest(run, lambda content: content.update(sessions=[session]))
    good = (run / "manifest.json").read_bytes()
    assert status_of(run).facts["state"] == "finished"
    for place, (path, value) in ODD.items():

        def spoil(at: Any, path: tuple[str | int, ...] = path, value: object = value) -> None:
            for name in path[:-1]:
                at = at[name]
            at[path[-1]] = value

        (run / "manifest.json").write_bytes(good)
        change_manifest(run, spoil)
        refuses(RunError, rf"{re.escape(place)}.*; restore the file from a copy", status_of, run)


def test_says_that_a_line_of_a_journal_is_no_judgment(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    row = {**asdict(judgment(9)), "pair_id": 7}
    Journal.create(run / "journal.jsonl", read_manifest(run).run_id, 2, [row]).close()
    for read in (status_of, RunWriter.open):
        refuses(StorageError, "journal.jsonl: holds a line that is not a judgment", read, run)


def test_says_why_it_does_not_go_on_also_where_the_run_is_damaged_besides(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    (run / "state.parquet").unlink()
    (run / "judgments" / "00001.parquet").write_bytes(b"damaged")
    refuses(RunError, "has no template and rubrics", reopen_run, run, Settings())
    assert not is_locked(run)


def test_lets_no_second_process_in_also_when_its_lock_was_deleted(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    with RunWriter.open(run) as store:
        (run / "lock").unlink()
        second = robin_apart("resume", run, cwd=tmp_path)
        assert (
            "another robin is at work on this run; wait for it, or stop it first" in second.stderr
        )
        assert is_locked(run)
        assert status_of(run).facts["state"] == "working"
        store.append([judgment(3)])
    assert not is_locked(run)
    RunWriter.open(run).close()


@contextmanager
def as_another() -> Iterator[None]:
    """Work as a user who is not root: root may write anywhere."""
    is_root = not os.geteuid()
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


@pytest.fixture
def shared() -> Iterator[Path]:
    with shared_folder() as folder:
        yield folder


def test_shows_a_run_that_can_only_be_read_and_says_where_its_report_can_go(
    shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, mine = made(shared / "r"), shared / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(mine))
    commands = (["status"], ["report"], ["report", "-o", "r.html"], ["resume"])
    made(shared / "warm")  # all is loaded while it can be
    for name, *more in commands:
        robin(name, "../warm", *more, cwd=mine)
    (mine / "r.html").unlink()
    for path in (run, *run.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    with as_another():
        status, beside, elsewhere, resumed = (
            robin(name, "../r", *more, cwd=mine) for name, *more in commands
        )
    for path in (run, run / "judgments"):
        path.chmod(0o755)
    each = (status, beside, elsewhere, resumed)
    assert [done.returncode for done in each] == [0, 1, 0, 2], [done.stderr for done in each]
    assert re.search(r"^state +finished *$", status.stdout, re.MULTILINE)
    says = "../r/report.html: cannot be written (Permission denied); name another place: robin report ../r -o r.html"
    assert says in beside.stderr
    assert (mine / "r.html").stat().st_size > 10_000
    assert "a run needs a folder that can be written to" in resumed.stderr


@pytest.mark.parametrize("name", ["judgments/00001.parquet", "pairs.parquet", "columns.parquet"])
def test_notices_every_bit_of_a_table_that_is_not_as_it_was_written(
    tmp_path: Path, name: str
) -> None:
    run, rng = tmp_path / "r", random.Random(8)
    pairs = [
        replace(pair, columns={"system": f"s{number}", "n": number})
        for number, pair in enumerate(PAIRS)
    ]
    with RunWriter.create(run, manifest(budget=300), pairs) as store:
        store.append([replace(judgment(number), rating=rng.randrange(5)) for number in range(300)])

    def read() -> list[object]:
        data = read_run(run, JUDGMENTS.names)
        return [data.judgments, data.fold.arms.total.tolist(), list(data.pairs), data.pairs.columns]

    good, data, noticed = read(), (run / name).read_bytes(), 0
    for _ in range(60):
        flipped = bytearray(data)
        flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        (run / name).write_bytes(flipped)
        said = ""
        try:
            assert read() == good
        except RobinError as error:
            said = str(error)
            noticed += 1
        assert not said or re.search(rf"{name}: .*restore it from a copy", said, re.IGNORECASE)
    assert noticed > 40


READERS: list[Callable[[Path], object]] = [
    *(status_of, RunWriter.open, load_pools, reported),
    lambda run: list(judgment_table(run).rows()),
    lambda run: check_requirements(run, ["mean(helpfulness) > 1"], margin=None, error_rate=0.05),
]


@pytest.mark.parametrize(
    "name", ["judgments/00001.parquet", "judgments/00002.parquet", "journal.jsonl"]
)
def test_gives_no_result_of_a_run_without_some_of_its_answers(tmp_path: Path, name: str) -> None:
    run = made(tmp_path / "r", budget=9)
    with RunWriter.open(run) as store:
        store.append([judgment(3)])
    (run / name).rename(tmp_path / "away")
    for read in READERS:
        refuses(StorageError, rf"{name}.* is missing.*Restore it from a copy", read, run)
    (listed,) = runs_in(tmp_path)
    assert "missing" in listed["error"]


def ended(run: Path, count: int, *, closes: bool) -> bytes:
    """Have a session add ``count`` answers to ``run``; the journal as it was before. ``closes``: it was not killed then."""
    old = (run / "journal.jsonl").read_bytes()
    store = RunWriter.open(run)
    store.begin({})
    store.append([judgment(number) for number in range(3, 3 + count)])
    store.end(in_flight=0)
    if closes:
        store.close()
    else:
        store._journal.close()
        store._lock.release()
    return old


@pytest.mark.parametrize(
    "how", ["cut at a line end", "put back", "cut to nothing", "segment of another session"]
)
def test_gives_no_result_of_fewer_answers_than_there_were_as_a_session_ended(
    tmp_path: Path, how: str
) -> None:
    run = made(tmp_path / "r", budget=9)
    old = ended(run, 4, closes="segment" in how)
    journal = run / "journal.jsonl"
    assert len(read_run(run).judgments) == 7
    if how == "cut at a line end":
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:-1]))
    elif how == "put back":
        journal.write_bytes(old)
    elif how == "cut to nothing":
        journal.write_bytes(b"")
    else:
        few = pq.read_table(run / "judgments/00002.parquet").slice(0, 2)
        write_table(few, run / "judgments/00002.parquet")
    for read in READERS:
        refuses(
            StorageError, r"when the last session ended|is missing, or has no first line", read, run
        )
    assert "Restore it from a copy" in runs_in(tmp_path)[0]["error"]


def test_refuses_a_journal_that_is_older_than_the_segments_beside_it(tmp_path: Path) -> None:
    run = made(tmp_path / "r", budget=20)
    copy = (run / "journal.jsonl").read_bytes()
    for number in range(3, 6):
        with RunWriter.open(run) as store:
            store.append([judgment(number)])
    (run / "journal.jsonl").write_bytes(copy)
    refuses(StorageError, "is older than the segments beside it", read_run, run)
    refuses(StorageError, "is older than the segments beside it", RunWriter.open, run)


def test_takes_no_segment_for_another(tmp_path: Path) -> None:
    run = made(tmp_path / "r", budget=9)
    with RunWriter.open(run) as store:
        store.append([judgment(number) for number in range(3, 6)])
    shutil.copy(run / "judgments/00001.parquet", run / "judgments/00002.parquet")
    refuses(
        StorageError,
        r"00002.parquet: is a copy of segment 1. Restore it from a copy",
        read_run,
        run,
    )


def test_lets_readers_be_while_sessions_begin_seal_and_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "SEGMENT_ROWS", 3)
    run = made(tmp_path / "r", budget=1000)
    counts = []

    def looking(function: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*args: Any, **named: Any) -> Any:
            counts.append(len(read_run(run).judgments))
            result = function(*args, **named)
            counts.append(len(read_run(run).judgments))
            return result

        return looked

    def between(read: Callable[..., Any]) -> Callable[..., Any]:
        """A reader that has read one thing, and reads the next after another session."""

        def later(*args: Any) -> Any:
            result = read(*args)
            if waiting:
                waiting.pop()()
            return result

        return later

    def session(start: int) -> None:
        with RunWriter.open(run) as store:
            store.begin({})
            for number in range(start, start + 4):
                store.append([judgment(number)])
            store.end(in_flight=0)

    waiting: list[Callable[[], None]] = []
    with monkeypatch.context() as patch:
        for module, name in ((os, "fsync"), (os, "replace")):
            patch.setattr(module, name, looking(getattr(module, name)))
        session(3)
    assert counts == sorted(counts)
    assert counts[-1] == 7
    with monkeypatch.context() as patch:
        for place, name in enumerate(("read_manifest", "segment_count", "read_journal")):
            module = reader_module if name == "read_manifest" else segments_module
            patch.setattr(module, name, between(getattr(module, name)))
            waiting.append(partial(session, 7 + 4 * place))
            assert len(read_run(run).judgments) >= 7 + 4 * place
    assert len(read_run(run).judgments) == 19


@pytest.mark.parametrize(
    ("name", "said"),
    [(ANSWERS, "is a segment of another run"), ("journal.jsonl", "is of another run")],
)
def test_takes_no_answers_of_another_run(tmp_path: Path, name: str, said: str) -> None:
    run, other = made(tmp_path / "r"), made(tmp_path / "s")
    (run / "state.parquet").unlink()
    shutil.copyfile(other / name, run / name)
    for use in USES:
        refuses(StorageError, f"{name}.*{said}", use, run)


def test_refuses_a_manifest_in_which_one_bit_is_not_as_it_was_written(tmp_path: Path) -> None:
    run = made(tmp_path / "r")
    change_manifest(run, lambda content: content.update(budget_usd=2.5))
    sound, written = (run / "manifest.json").read_bytes(), read_manifest(run)
    for at in range(len(sound)):
        flipped = bytearray(sound)
        flipped[at] ^= 1 << at % 7
        (run / "manifest.json").write_bytes(flipped)
        with suppress(RunError):  # white space may differ
            assert read_manifest(run) == written


def test_says_of_any_damaged_ledger_which_file_it_is_and_what_to_do(tmp_path: Path) -> None:
    run, rng = made(tmp_path / "r"), random.Random(3)
    (run / "batches").mkdir()
    ledger = run / "batches" / "00001.json"
    sound = msgspec.json.encode(Submission(1, "m", 1, 3, "submitted", "http://127.0.0.1:9/v1"))
    damaged = [rng.randbytes(rng.randrange(99)) for _ in range(50)]
    damaged += [sound[:at] for at in range(len(sound))]
    damaged += [sound.replace(b"3", odd) for odd in (b"null", b"1.5", b'""', b"[]", b"1e99")]
    for data in damaged:
        ledger.write_bytes(data)
        refuses(StorageError, rf"{re.escape(str(ledger))}: .*restore it", read_batches, run)
    for read in (status_of, lambda run: Batches(run, "0" * 16, 3)):
        refuses(StorageError, "00001.json: cannot be read .*; restore it from a copy", read, run)
    assert "restore it from a copy" in runs_in(tmp_path)[0]["error"]
    ledger.unlink()
    ledger.mkdir()
    refuses(StorageError, rf"{ledger}: cannot be read \([^\[\]]+\); restore it", read_batches, run)
    (run / "pairs.parquet").write_bytes(b"damaged")
    refuses(StorageError, r"r/pairs\.parquet: .*[Rr]estore it from a copy", read_columns, run)


def test_says_in_the_manifest_how_many_answers_there_were_as_a_session_ended(
    tmp_path: Path,
) -> None:
    data, run = write_pairs(tmp_path / "p.jsonl", 3), tmp_path / "r"
    judge(data, attribute="helpfulness", budget=6, judge=lambda _: "Rating: 3", run=run, quiet=True)
    assert read_manifest(run).kept == (0, 6)
    (run / "judgments/00001.parquet").unlink()
    Journal.create(run / "journal.jsonl", read_manifest(run).run_id, 1).close()
    refused = robin("gate", run, "--require", "mean(helpfulness)>=0", cwd=tmp_path)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "holds 0 judgments, but 6 were there when the last session ended" in refused.stderr
