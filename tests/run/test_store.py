"""The run directory: every answer kept, once, through crashes at any point."""

from __future__ import annotations

import json
import re
import resource
import stat
import threading
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robin_cli.model.arms import Arms, WritableArms
from robin_cli.model.errors import RunError, StorageError
from robin_cli.model.outcome import outcome_of
from robin_cli.model.records import Judgment, Pair, Scale
from robin_cli.run import writer as store_module
from robin_cli.run.journal import Journal, read_journal
from robin_cli.run.manifest import Manifest, differences, ends_of, read_manifest
from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.segments import write_segment
from robin_cli.run.writer import RunWriter
from tests.conftest import refuses, robin

PAIRS = [Pair(f"p{k}", f"prompt {k}", f"response {k}", {"helpfulness": float(k)}) for k in range(3)]
RUN_ID = "0" * 16
SETTINGS = {"scheduler": "uniform", "delta": 0.007, "mode": "practice", "model": "m"}
SETTINGS |= {
    "base_url": ["http://127.0.0.1:9/v1"],
    "temperature": 1.0,
    "top_p": 1.0,
    "max_tokens": 9,
    "extra_body": {},
}


def manifest(**change: object) -> Manifest:
    values: dict[str, object] = {
        "settings": SETTINGS,
        "budget": 100,
        "attributes": ("helpfulness",),
        "scale": (0, 4),
        "data": {"source": "x", "sha256": "0", "pairs": 3, "skipped": 0, "run_id": RUN_ID},
        "prompt": {"sha256": "1"},
        "seed": None,
    }
    values |= change
    if isinstance(values["scale"], tuple):
        values["scale"] = dict.fromkeys(values["attributes"], values["scale"])  # type: ignore[call-overload]
    return Manifest(**values)  # type: ignore[arg-type]


def judgment(
    number: int, *, status: str = "ok", reason: str | None = None, pair: int | None = None
) -> Judgment:
    rated = status == "ok"
    of: dict[str, Any] = {
        "pair_id": f"p{number % 3 if pair is None else pair}",
        "attribute": "helpfulness",
        "judge": "m",
    }
    said: dict[str, Any] = {
        "feedback": "é\u2028\x00",
        "text": f"answer {number}",
        "model": "m",
        "finish_reason": "stop",
    }
    took: dict[str, Any] = {
        "prompt_tokens": 10,
        "completion_tokens": None,
        "cost_usd": None,
        "latency_s": 0.5,
    }
    return Judgment(
        draw=number // 3 if pair is None else number,
        rating=number % 5 if rated else None,
        status=status,  # type: ignore[arg-type]
        reason=None if rated else reason or "missing",
        request_id=f"r{number}",
        received_at=1.7e9 + number,
        **of,
        **said,
        **took,
    )


def ids(path: Path) -> list[str]:
    found: list[str] = read_run(path, JUDGMENTS.names).judgments["request_id"].to_pylist()
    return found


def test_has_a_column_for_each_field_of_a_judgment() -> None:
    assert {field.name for field in fields(Judgment)} == set(JUDGMENTS.names)


def test_keeps_what_it_was_given_in_order(tmp_path: Path) -> None:
    given_ = [judgment(k) for k in range(10)]
    with RunWriter.create(tmp_path / "r", manifest(), PAIRS) as store:
        store.append(given_[:4])
        store.append(given_[4:])
        assert ids(tmp_path / "r") == [f"r{k}" for k in range(10)]

    run = read_run(tmp_path / "r", JUDGMENTS.names)
    assert list(run.pairs) == PAIRS
    assert run.judgments.num_rows == 10
    row = run.judgments.slice(7, 1).to_pylist()[0]
    assert (row["text"], row["rating"], row["feedback"], row["draw"]) == (
        "answer 7",
        2,
        "é\u2028\x00",
        2,
    )
    assert row["received_at"].timestamp() == 1.7e9 + 7


def test_forgives_a_torn_last_line_wherever_it_was_torn(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(Journal.create(path, RUN_ID, 1)) as journal:
        journal.write([judgment(0), judgment(1)])
        sound = path.stat().st_size
        journal.write([judgment(2)])
    whole = path.read_bytes()
    for length in range(sound, len(whole)):
        path.write_bytes(whole[:length])
        content = read_journal(path)
        assert content is not None
        assert ([row["request_id"] for row in content.rows], content.sound_bytes) == (
            ["r0", "r1"],
            sound,
        )
        with closing(Journal(path, content.sound_bytes)) as journal:
            journal.write([judgment(3)])
        again = read_journal(path)
        assert again is not None
        assert [row["request_id"] for row in again.rows] == ["r0", "r1", "r3"]


def test_forgives_an_end_of_zeros_after_a_power_cut(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(Journal.create(path, RUN_ID, 1)) as journal:
        journal.write([judgment(0)])
    path.write_bytes(path.read_bytes() + bytes(500) + b"\n" + bytes(20))
    content = read_journal(path)
    assert content is not None
    assert len(content.rows) == 1


@pytest.mark.parametrize("line", [3, 4])
def test_names_a_damaged_line_also_if_it_is_the_last(tmp_path: Path, line: int) -> None:
    path = tmp_path / "journal.jsonl"
    with closing(Journal.create(path, RUN_ID, 1)) as journal:
        journal.write([judgment(k) for k in range(3)])
    lines = path.read_bytes().split(b"\n")
    lines[line - 1] = lines[line - 1].replace(b"r", b"s", 1)
    path.write_bytes(b"\n".join(lines))
    refuses(StorageError, rf"journal\.jsonl:{line}: this line is damaged", read_journal, path)


@given(
    batches=st.lists(st.integers(1, 6), max_size=12),
    drops=st.sets(st.integers(0, 11)),
    rows=st.integers(1, 9),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=6)
def test_holds_exactly_what_was_appended_whenever_it_was_dropped(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    batches: list[int],
    drops: set[int],
    rows: int,
) -> None:
    monkeypatch.setattr(store_module, "SEGMENT_ROWS", rows)
    path = tmp_path_factory.mktemp("s") / "r"
    store = RunWriter.create(path, manifest(), PAIRS)
    count = 0
    for number, size in enumerate(batches):
        store.append([judgment(k) for k in range(count, count + size)])
        count += size
        if number in drops:  # as a crash does: nothing is sealed, only the lock goes
            store._journal.close()
            store._lock.release()
            store = RunWriter.open(path)
        assert ids(path) == [f"r{k}" for k in range(count)]
    store.close()
    assert ids(path) == [f"r{k}" for k in range(count)]


def test_counts_nothing_twice_after_a_crash_between_sealing_and_emptying(tmp_path: Path) -> None:
    path = tmp_path / "r"
    with RunWriter.create(path, manifest(), PAIRS) as store:
        store.append([judgment(k) for k in range(5)])
        journal = (path / "journal.jsonl").read_bytes()
    # sealed, but the journal still holds the same answers
    (path / "journal.jsonl").write_bytes(journal)

    assert ids(path) == [f"r{k}" for k in range(5)]
    with RunWriter.open(path) as store:
        store.append([judgment(5)])
    assert ids(path) == [f"r{k}" for k in range(6)]


def test_folds_a_table_as_it_folds_one_by_one(tmp_path: Path) -> None:
    kinds = [
        ("ok", None),
        ("unparsed", "missing"),
        ("failed", "timeout"),
        ("failed", "context_length"),
        ("ok", None),
    ]
    rng = np.random.default_rng(3)
    given_ = []
    for number in range(400):
        status, reason = kinds[rng.integers(len(kinds))]
        made = judgment(number, status=status, reason=reason, pair=int(rng.integers(3)))
        scoring = "decisions" if number % 7 == 0 else "text"
        given_.append(replace(made, scoring=scoring))
    with RunWriter.create(tmp_path / "r", manifest(budget=1_000), PAIRS) as store:
        store.append(given_)
    folded = read_run(tmp_path / "r").fold.arms

    single = WritableArms(3)
    for each in given_:
        arm = int(each.pair_id[1:])
        single.add(arm, outcome_of([each]))
        single.next_draw[arm] = max(single.next_draw[arm], each.draw + 1)
    for name in Arms.__slots__:
        assert list(getattr(folded, name)) == list(getattr(single, name)), name


def test_shows_readers_a_whole_prefix_while_it_seals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "SEGMENT_ROWS", 4)
    path = tmp_path / "r"
    store = RunWriter.create(path, manifest(budget=100_000), PAIRS)
    wrong: list[object] = []
    over = threading.Event()

    def read() -> None:
        while not over.is_set():
            try:
                seen = ids(path)
            except Exception as error:  # noqa: BLE001  # whatever a reader meets is the finding
                wrong.append(error)
                return
            if seen != [f"r{k}" for k in range(len(seen))]:
                wrong.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(150):
        store.append([judgment(number)])
    over.set()
    reader.join()
    store.close()
    assert not wrong


def test_keeps_earlier_answers_when_the_disk_is_full_and_goes_on_later(tmp_path: Path) -> None:
    store = RunWriter.create(tmp_path / "r", manifest(), PAIRS)
    store.append([judgment(0)])
    size = (tmp_path / "r" / "journal.jsonl").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # python ignores the signal: writing fails instead
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 50, before[1]))
    try:
        refuses(StorageError, "could not be written", store.append, [judgment(1), judgment(2)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ids(tmp_path / "r") == ["r0"]
    store.write([judgment(3)])
    assert ids(tmp_path / "r") == ["r0"]
    store.sync()
    assert ids(tmp_path / "r") == ["r0", "r1", "r2", "r3"]
    store.close()
    assert ids(tmp_path / "r") == ["r0", "r1", "r2", "r3"]


def test_writes_again_what_the_journal_refused_while_a_segment_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = RunWriter.create(tmp_path / "r", manifest(), PAIRS)

    def refuse(_: object) -> None:
        raise StorageError("full")

    def seal(*args: Any) -> None:
        write_segment(*args)
        with monkeypatch.context() as patch:
            patch.setattr(store._journal, "write", refuse)
            store.write([judgment(2)])

    with monkeypatch.context() as patch:
        patch.setattr(store_module, "SEGMENT_ROWS", 2)
        patch.setattr(store_module, "write_segment", seal)
        store.append([judgment(0), judgment(1)])
    store.sync()
    assert ids(tmp_path / "r") == ["r0", "r1", "r2"]
    store.close()


def test_keeps_files_to_their_owner(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "r", manifest(), PAIRS) as store:
        store.append([judgment(0)])
    for path in [tmp_path / "r", *(tmp_path / "r").rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_says_what_is_wrong_with_a_run_directory(tmp_path: Path) -> None:
    refuses(
        RunError,
        r"not a run directory.*; robin runs lists those in \./runs",
        RunWriter.open,
        tmp_path,
    )
    RunWriter.create(tmp_path / "runs" / "first", manifest(), PAIRS).close()
    refuses(
        RunError,
        r'not a run directory.*did you mean "first"',
        RunWriter.open,
        tmp_path / "runs" / "frist",
    )
    (tmp_path / "file").write_text("x", encoding="utf-8")
    refuses(
        RunError,
        r"name another folder with --run",
        RunWriter.create,
        tmp_path / "file",
        manifest(),
        PAIRS,
    )
    refuses(RunError, "not empty, and not a run", RunWriter.create, tmp_path, manifest(), PAIRS)
    RunWriter.create(tmp_path / "r", manifest(), PAIRS).close()
    (tmp_path / "r" / "manifest.json").write_text(
        '{"format": 99, "versions": {"robin": "9.9"}}', encoding="utf-8"
    )
    refuses(RunError, r"made by robin 9\.9.*upgrade", read_run, tmp_path / "r")


@pytest.mark.parametrize(("version", "number"), [("0.1.0", 1), ("0.2.0", 2)])
def test_refuses_a_run_of_an_unreleased_version_and_says_how_to_read_its_ratings(
    tmp_path: Path, version: str, number: int
) -> None:
    with RunWriter.create(tmp_path / "r", manifest(), PAIRS) as store:
        store.append([judgment(0)])
    path = tmp_path / "r" / "manifest.json"
    content = json.loads(path.read_bytes())
    path.write_text(json.dumps({**content, "format": number, "versions": {"robin": version}}))

    done = robin("status", "r", cwd=tmp_path, exits=2)

    said = re.search(
        r'made by robin (\S+) .* Its ratings: (pd\.read_parquet\("r/judgments"\))', done.stderr
    )
    assert said is not None
    assert said[1] == version
    assert len(pd.read_parquet(tmp_path / "r" / "judgments")) == 1


def test_rebuilds_a_run_whose_folder_was_made_but_not_finished(tmp_path: Path) -> None:
    RunWriter.create(tmp_path / "r", manifest(), PAIRS).close()
    (tmp_path / "r" / "manifest.json").unlink()
    (tmp_path / "r" / "state.parquet").unlink()
    with RunWriter.create(tmp_path / "r", manifest(), PAIRS) as store:
        store.append([judgment(0)])
    assert ids(tmp_path / "r") == ["r0"]


@pytest.mark.parametrize("is_sealed", [False, True])
def test_writes_no_new_run_over_answers_whose_manifest_is_lost(
    tmp_path: Path, *, is_sealed: bool
) -> None:
    store = RunWriter.create(tmp_path / "r", manifest(), PAIRS)
    store.append([judgment(0)])
    if is_sealed:
        store.close()
    else:  # as a crash does
        store._journal.close()
        store._lock.release()
    (tmp_path / "r" / "manifest.json").unlink()
    lost = r"holds answers, and no manifest\.json; restore it from a copy"
    refuses(RunError, lost, RunWriter.create, tmp_path / "r", manifest(), PAIRS)


def test_lists_what_differs_between_two_runs_of_which_one_may_go_on_elsewhere() -> None:
    other = manifest(settings={**SETTINGS, "model": "other"}, seed=5, budget=7)
    assert differences(manifest(), other) == [
        "model: the run has m, now other",
        "seed: the run has None, now 5",
    ]
    assert (
        differences(
            manifest(), manifest(settings={**SETTINGS, "base_url": ["http://127.0.0.1:10/v1"]})
        )
        == []
    )
    hotter = manifest(settings={**SETTINGS, "temperature": 0.5})
    assert differences(manifest(), hotter) == ["temperature: the run has 1.0, now 0.5"]


def test_knows_whether_it_ever_kept_an_answer(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "r", manifest(), PAIRS) as store:
        kept = [store.has_answers]
        store.append([judgment(0)])
        kept.append(store.has_answers)
    assert kept == [False, True]
    with RunWriter.open(tmp_path / "r") as store:
        assert store.has_answers  # in a segment, and none in the journal


def test_removes_what_killed_processes_left_and_nothing_else(tmp_path: Path) -> None:
    run = tmp_path / "r"
    RunWriter.create(run, manifest(), PAIRS).close()
    left = [
        run / ".manifest.json.0a.tmp",
        run / ".report.html.0b.tmp",
        run / "judgments" / ".00001.parquet.0c.tmp",
    ]
    kept = [run / "notes.txt", run / "mine.tmp", run / "judgments" / "notes.txt"]
    for path in (*left, *kept):
        path.write_text("x")
    RunWriter.open(run).close()
    assert [path.exists() for path in (*left, *kept)] == [False] * 3 + [True] * 3

    unfinished = tmp_path / "s"
    unfinished.mkdir()
    (unfinished / ".manifest.json.0a.tmp").write_text("x")
    RunWriter.create(unfinished, manifest(), PAIRS).close()
    foreign = tmp_path / "t"
    foreign.mkdir()
    (foreign / "mine.tmp").write_text("x")
    refuses(RunError, r"it holds mine\.tmp", RunWriter.create, foreign, manifest(), PAIRS)


@pytest.mark.parametrize("content", ["[]", '"text"', "{}", '{"format": "1"}', "3"])
def test_says_that_a_manifest_is_none_of_robins(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    refuses(RunError, "not a manifest that robin wrote", read_manifest, tmp_path)


def test_reads_back_the_manifest_it_wrote_with_the_scale_of_each_attribute(tmp_path: Path) -> None:
    written = manifest().with_session(base_url=["http://u/v1"]).with_session_end(in_flight=2)
    written.write(tmp_path)
    assert read_manifest(tmp_path) == written
    names, scales = ("helpfulness", "tone"), (Scale(0, 4), Scale(1, 10))
    manifest(attributes=names, scale=ends_of(names, scales)).write(tmp_path)
    assert read_manifest(tmp_path).scales == scales
