"""state.parquet says what a fold of all judgments says, to the bit, where it fits the run; where not, it is not used."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robin_cli.model.arms import Arms
from robin_cli.model.records import Judgment
from robin_cli.run import writer as store
from robin_cli.run.fold import COUNTED, Fold
from robin_cli.run.reader import read_run
from robin_cli.run.segments import judgments_by_arm
from robin_cli.run.state import fold_run
from robin_cli.run.writer import RunWriter
from tests.run.test_store import PAIRS, SETTINGS, judgment, manifest

JUDGES = ("m", "other", "third")
OUTCOMES = [
    ("ok", None),
    ("unparsed", "missing"),
    ("failed", "timeout"),
    ("failed", "context_length"),
]


@st.composite
def requests(draw: st.DrawFn) -> list[list[Judgment]]:
    """What came of some requests, of one to three judges: one judgment or several each."""
    judges = JUDGES[: draw(st.integers(1, 3))]
    made = []
    for number in range(draw(st.integers(1, 30))):
        pair, judge = draw(st.integers(0, 2)), draw(st.sampled_from(judges))
        together: list[Judgment] = []
        for _ in range(draw(st.integers(1, 4))):
            status, reason = draw(st.sampled_from(OUTCOMES))
            expected = draw(st.none() | st.floats(0, 4)) if status == "ok" else None
            cost = draw(st.none() | st.floats(0, 1))
            row = judgment(draw(st.integers(0, 400)), status=status, reason=reason, pair=pair)
            # calls are not answered in their order
            row = replace(row, draw=(4 * number + len(together)) * 37 % 401)
            together.append(
                replace(
                    row,
                    judge=judge,
                    expected_rating=expected,
                    cost_usd=cost,
                    received_at=1.7e9 + number,
                )
            )
        made.append(together)
    return made


def numbers(fold: Fold) -> dict[str, Any]:
    """All that a fold says."""
    arms = {name: list(getattr(fold.arms, name)) for name in Arms.__slots__}
    fitted = None if fold.fitted is None else [each.tolist() for each in fold.fitted]
    spent = {name: each.tolist() for name, each in fold.spent.items()}
    return {
        **arms,
        "reasons": fold.reasons,
        "spent": spent,
        "fitted": fitted,
        "fitted_at": fold.fitted_at,
    }


def of_all(run: Path) -> Fold:
    """The fold of a run's judgments, without its snapshot."""
    fold = Fold(read_run(run).space)
    for arm, judgments in judgments_by_arm(run, fold.space, COUNTED):
        fold.add(arm, judgments)
    return fold


def made(path: Path, requests: list[list[Judgment]]) -> Path:
    """A run with these judgments, and a snapshot of them."""
    judges = [each.judge for request in requests for each in request]
    model = [
        name if name == "m" else f"{name}@http://127.0.0.1:9/v1"
        for name in JUDGES
        if name in {*judges, "m"}
    ]
    of = manifest(
        settings={**SETTINGS, "model": model if len(model) > 1 else model[0]}, budget=1000
    )
    with RunWriter.create(path, of, PAIRS) as opened:
        for request in requests:
            opened.append(request)
    return path


@given(requests(), st.integers(1, 12), st.sets(st.integers(0, 29)), st.data())
@settings(
    max_examples=6,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_goes_on_from_a_snapshot_as_from_a_fold_of_all(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    requests: list[list[Judgment]],
    rows: int,
    closed_after: set[int],
    data: st.DataObject,
) -> None:
    monkeypatch.setattr(store, "SEGMENT_ROWS", rows)
    monkeypatch.setattr(store, "STATE_EVERY", data.draw(st.integers(1, 30)))
    path = made(tmp_path_factory.mktemp("s") / "r", requests[:1])
    opened = RunWriter.open(path)
    for number, request in enumerate(requests[1:]):
        # no two requests come at one time: judgments of one arm that do are those of one request
        again = [
            replace(each, received_at=1.8e9 + number, draw=500 + 500 * number + each.draw)
            for each in requests[0]
        ]
        opened.append([each for each in request if each.judge in opened.manifest.judges] or again)
        if number in closed_after:
            opened.close()
            opened = RunWriter.open(path)
    assert numbers(opened.fold()) == numbers(of_all(path))
    opened.close()
    fold, covered = fold_run(path, opened.space, opened.manifest.run_id)
    assert covered == len(list((path / "judgments").iterdir()))
    assert numbers(fold) == numbers(of_all(path))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of two segments, whose snapshot fits."""
    monkeypatch.setattr(store, "SEGMENT_ROWS", 8)
    path = made(tmp_path / "r", [[judgment(number)] for number in range(16)])
    assert covered(path) == 2
    return path


def covered(run: Path) -> int:
    """How many segments are taken from the snapshot; what is said must be what the judgments say."""
    with RunWriter.open(run) as opened:
        fold, segments = fold_run(run, opened.space, opened.manifest.run_id)
        assert numbers(fold) == numbers(of_all(run))
    return segments


def test_passes_over_the_snapshot_of_another_run_and_of_other_segments(
    run: Path, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    other = made(tmp_path / "other" / "r", [[judgment(number)] for number in range(16)])
    shutil.copy(other / "state.parquet", run / "state.parquet")
    assert covered(run) == 0
    assert covered(run) == 2, "it was written anew"
    segment = run / "judgments" / "00002.parquet"
    table = pq.read_table(segment)
    metadata = {**table.schema.metadata, b"robin_footer": b""}
    pq.write_table(table.replace_schema_metadata(metadata), segment, compression="none")
    assert covered(run) == 0


def test_passes_over_a_damaged_snapshot_and_one_of_0_1_0(run: Path) -> None:
    sound = (run / "state.parquet").read_bytes()
    # places none of which has pyarrow end the process, as some of a footer do
    rng = np.random.default_rng(6)
    for at in rng.integers(0, len(sound), 8).tolist():
        (run / "state.parquet").write_bytes(
            sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :]
        )
        with RunWriter.open(run) as opened:
            assert numbers(opened.fold()) == numbers(of_all(run))
    old = pq.read_table(run / "state.parquet").select(
        ["pair_id", "attribute", "n", "mean", "m2", "n_unparsed", "retired"]
    )
    pq.write_table(old.replace_schema_metadata(None), run / "state.parquet")
    assert covered(run) == 0
    (run / "state.parquet").write_bytes(b"")
    assert covered(run) == 0


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_names_the_arm_of_each_row_with_its_judge_where_there_are_several(
    tmp_path: Path, judges: int
) -> None:
    rows = [
        [replace(judgment(number, pair=number % 3), judge=JUDGES[number // 3 % judges])]
        for number in range(12)
    ]
    made(tmp_path / "r", rows)
    table = pq.read_table(tmp_path / "r" / "state.parquet")
    names = [name for name in table.schema.names if name in {"pair_id", "attribute", "judge"}]
    assert names == ["pair_id", "attribute", "judge"][: 2 + (judges > 1)]
    told = {tuple(row[name] for name in names): row["n"] for row in table.to_pylist()}
    assert told == Counter((row.pair_id, row.attribute, row.judge)[: len(names)] for (row,) in rows)


def test_a_run_under_way_leaves_a_snapshot_now_and_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SEGMENT_ROWS", 2)
    monkeypatch.setattr(store, "STATE_EVERY", 6)
    opened = RunWriter.create(tmp_path / "r", manifest(), PAIRS)
    for number in range(15):
        opened.append([judgment(number)])
    opened._journal.close()  # as a crash does
    opened._lock.release()
    with RunWriter.open(tmp_path / "r") as again:
        fold, segments = fold_run(tmp_path / "r", again.space, again.manifest.run_id)
        assert (segments, fold.judgments) == (6, 15)
