"""state.parquet says what a fold of all judgments says, to the bit, where it fits the run; where not, it is not used."""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robin_cli.model.arms import Arms, FloatArray
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Judgment
from robin_cli.storage import store
from robin_cli.storage.fold import COUNTED, Fold
from robin_cli.storage.reader import judgments_by_arm, read_run
from robin_cli.storage.snapshot import folded
from robin_cli.storage.store import RunStore
from tests.storage.test_store import PAIRS, SETTINGS, judgment, manifest

JUDGES = ("m", "other", "third")
OUTCOMES = [("ok", None), ("unparsed", "missing"), ("failed", "timeout"), ("failed", "context_length")]


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
            row = replace(row, draw=(4 * number + len(together)) * 37 % 401)  # calls are not answered in their order
            together.append(
                replace(row, judge=judge, expected_rating=expected, cost_usd=cost, received_at=1.7e9 + number)
            )
        made.append(together)
    return made


def numbers(fold: Fold) -> dict[str, Any]:
    """All that a fold says."""
    arms = {name: list(getattr(fold.arms, name)) for name in Arms.__slots__}
    fitted = None if fold.fitted is None else [each.tolist() for each in fold.fitted]
    spent = {name: each.tolist() for name, each in fold.spent.items()}
    fitted_spent = {name: each.tolist() for name, each in fold.fitted_spent.items()}
    spent |= {f"fitted_{name}": each for name, each in fitted_spent.items()}
    return {**arms, "reasons": fold.reasons, "spent": spent, "fitted": fitted, "fitted_at": fold.fitted_at}


def of_all(run: Path) -> Fold:
    """The fold of a run's judgments, without its snapshot."""
    fold = Fold(read_run(run).space)
    for arm, judgments in judgments_by_arm(run, fold.space, COUNTED):
        fold.add(arm, judgments)
    return fold


def made(path: Path, requests: list[list[Judgment]]) -> Path:
    """A run with these judgments, and a snapshot of them."""
    judges = [each.judge for request in requests for each in request]
    model = [name if name == "m" else f"{name}@http://127.0.0.1:9/v1" for name in JUDGES if name in {*judges, "m"}]
    of = manifest(settings={**SETTINGS, "model": model if len(model) > 1 else model[0]}, budget=1000)
    with RunStore.create(path, of, PAIRS) as opened:
        for request in requests:
            opened.append(request)
    return path


@given(requests(), st.integers(1, 12), st.sets(st.integers(0, 29)), st.data())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
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
    opened = RunStore.open(path)
    for number, request in enumerate(requests[1:]):
        # no two requests come at one time: judgments of one arm that do are those of one request
        again = [replace(each, received_at=1.8e9 + number, draw=500 + 500 * number + each.draw) for each in requests[0]]
        opened.append([each for each in request if each.judge in opened.manifest.judges] or again)
        if number in closed_after:
            opened.close()
            opened = RunStore.open(path)
    assert numbers(opened.fold()) == numbers(of_all(path))
    opened.close()
    fold, covered = folded(path, opened.space, opened.manifest.run_id)
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
    with RunStore.open(run) as opened:
        fold, segments = folded(run, opened.space, opened.manifest.run_id)
        assert numbers(fold) == numbers(of_all(run))
    return segments


def rewritten(run: Path, **columns: Any) -> None:
    """Write the snapshot with other columns, and all else as it was."""
    table = pq.read_table(run / "state.parquet")
    for name, values in columns.items():
        table = table.set_column(table.schema.names.index(name), name, pa.array(values))
    pq.write_table(table, run / "state.parquet", compression="zstd")


def signed_anew(run: Path, **changed: Any) -> None:
    """Let the snapshot say other things of what it covers, signed as robin signs them."""
    table = pq.read_table(run / "state.parquet")
    text = orjson.dumps(orjson.loads(table.schema.metadata[b"robin"][64:]) | changed)
    signed = hashlib.sha256(text).hexdigest().encode() + text
    pq.write_table(table.replace_schema_metadata({b"robin": signed}), run / "state.parquet", compression="zstd")


def test_passes_over_a_snapshot_that_gives_money_or_calls_back(run: Path) -> None:
    signed_anew(run)
    assert covered(run) == 2, "what is signed as it was fits"
    spent = orjson.loads(pq.read_schema(run / "state.parquet").metadata[b"robin"][64:])["spent"]
    for name, values in {"cost_usd": [-1000.0], "unpriced_prompt_tokens": [-(2**40)]}.items():
        signed_anew(run, spent=spent | {name: values})
        assert covered(run) == 0
    n = pq.read_table(run / "state.parquet")["n"].to_pylist()
    nothing = [0.0, 0.0, 0.0]
    rewritten(run, n=[0, 0, 0], n_failed=n, total=nothing, total_sq=nothing)
    signed_anew(run, fitted_at=0)
    assert covered(run) == 0


def test_passes_over_the_snapshot_of_another_run_and_of_other_judgments(run: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = made(tmp_path / "other" / "r", [[judgment(number)] for number in range(16)])
    shutil.copy(other / "state.parquet", run / "state.parquet")
    assert covered(run) == 0
    assert covered(run) == 2, "it was written anew"
    for name in ("00001.parquet", "00002.parquet"):  # the same judgments, but one of them is another
        table = pq.read_table(run / "judgments" / name)
        changed = table.set_column(2, "rating", pa.array([4, *table["rating"].to_pylist()[1:]], pa.int32()))
        pq.write_table(changed, run / "judgments" / name, compression="zstd")
        assert covered(run) == 0
    (run / "judgments" / "00002.parquet").unlink()
    (run / "journal.jsonl").write_text('{"journal":1,"segment":2}\n')
    assert covered(run) == 0


def test_passes_over_a_damaged_snapshot_and_one_of_0_1_0(run: Path) -> None:
    sound = (run / "state.parquet").read_bytes()
    rng = np.random.default_rng(6)  # places none of which has pyarrow end the process, as some of a footer do
    for at in rng.integers(0, len(sound), 60).tolist():
        (run / "state.parquet").write_bytes(sound[:at] + bytes([sound[at] ^ 0x55]) + sound[at + 1 :])
        with RunStore.open(run) as opened:
            assert numbers(opened.fold()) == numbers(of_all(run))
    old = pq.read_table(run / "state.parquet").select(
        ["pair_id", "attribute", "n", "mean", "m2", "n_unparsed", "retired"]
    )
    pq.write_table(old.replace_schema_metadata(None), run / "state.parquet")
    assert covered(run) == 0
    (run / "state.parquet").write_bytes(b"")
    assert covered(run) == 0


@pytest.mark.parametrize("said", [{"version": 2}, {"version": "1"}, {"segments": "2"}])
def test_passes_over_a_snapshot_of_another_version_or_form(run: Path, said: dict[str, Any]) -> None:
    signed_anew(run, **said)
    assert covered(run) == 0


ODD: dict[str, list[Any]] = {
    "n": [-1, 12, 5],
    "total": [float("nan"), 10.0, 10.0],
    "total_sq": [0.0, 0.0, 0.0],
    "streak": [1.5, 0.0, 0.0],
    "n_failed": [1, 0, 0],
    "next_draw": [2**60, 0, 0],
    "pair_id": ["p1", "p0", "p2"],
    "attribute": ["helpfulness", "helpfulness", "tone"],
    "fitted_n": [1e300, 0.0, 0.0],
}


@pytest.mark.parametrize("name", ODD)
def test_passes_over_a_snapshot_that_says_what_no_fold_would(run: Path, name: str) -> None:
    rewritten(run)
    assert covered(run) == 2, "what is written as it was fits"
    rewritten(run, **{name: ODD[name]})
    assert covered(run) == 0


@pytest.mark.parametrize(("low", "high"), [(0, 4), (1, 5), (-4, -1), (-3, 2), (-2, 3)])
def test_takes_from_a_snapshot_just_the_sums_that_ratings_on_the_scale_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, low: int, high: int
) -> None:
    monkeypatch.setattr(store, "SEGMENT_ROWS", 6)
    of_pair = [[low] * 4, [high] * 4, [low, high, low, high]]  # sums and squares at their ends
    rows = [
        replace(judgment(number), rating=of_pair[number % 3][number // 3], draw=number // 3) for number in range(12)
    ]
    with RunStore.create(tmp_path / "r", manifest(scale=(low, high)), PAIRS) as opened:
        for row in rows:
            opened.append([row])
        space, run_id = opened.space, opened.manifest.run_id
    as_it_was = pq.read_table(tmp_path / "r" / "state.parquet")
    total = np.array([float(sum(each)) for each in of_pair])
    total_sq = np.array([float(sum(x * x for x in each)) for each in of_pair])
    assert as_it_was["total"].to_pylist() == total.tolist()

    def is_taken(total: FloatArray, total_sq: FloatArray) -> bool:
        pq.write_table(as_it_was, tmp_path / "r" / "state.parquet")
        rewritten(tmp_path / "r", total=total, total_sq=total_sq)
        return folded(tmp_path / "r", space, run_id)[1] == 2

    assert is_taken(total, total_sq)
    for pair, rating in enumerate((low, high)):
        for off in (-0.01, 0.01):
            # four ratings alike that are a little beside the end: inside it is a sum of expected ratings, beyond it none
            beside = rating + off
            one = np.arange(3) == pair
            changed = np.where(one, 4 * beside, total), np.where(one, 4 * beside**2, total_sq)
            assert is_taken(*changed) == (low <= beside <= high)
            # and the sum of squares alone, less than ratings of this sum can have
            assert not is_taken(total, np.where(one, total_sq - 0.01, total_sq))
    widest = 4 * max(low**2, high**2)
    assert is_taken(total, np.array([*total_sq[:2], widest]))
    assert not is_taken(total, np.array([*total_sq[:2], widest + 0.01]))


def test_follows_no_link_to_a_snapshot_and_reads_none_that_unpacks_to_a_giant(run: Path, tmp_path: Path) -> None:
    shutil.move(run / "state.parquet", tmp_path / "elsewhere")
    (run / "state.parquet").symlink_to(tmp_path / "elsewhere")
    assert covered(run) == 0
    metadata = pq.read_schema(run / "state.parquet").metadata
    giant = pa.DictionaryArray.from_arrays(pa.array([0, 0, 0], pa.int8()), pa.array(["x" * 2**20]))
    pq.write_table(pa.table({"pair_id": giant}).replace_schema_metadata(metadata), run / "state.parquet")
    assert covered(run) == 0


def test_signs_what_the_snapshot_covers(run: Path) -> None:
    table = pq.read_table(run / "state.parquet")
    signed = table.schema.metadata[b"robin"]
    covers = orjson.loads(signed[64:])
    covers["spent"]["cost_usd"] = [-1e6]
    pq.write_table(table.replace_schema_metadata({b"robin": signed[:64] + orjson.dumps(covers)}), run / "state.parquet")
    assert covered(run) == 0


@pytest.mark.parametrize("judges", [1, 2, 3])
def test_names_the_arm_of_each_row_with_its_judge_where_there_are_several(tmp_path: Path, judges: int) -> None:
    rows = [[replace(judgment(number, pair=number % 3), judge=JUDGES[number // 3 % judges])] for number in range(12)]
    made(tmp_path / "r", rows)
    table = pq.read_table(tmp_path / "r" / "state.parquet")
    names = [name for name in table.schema.names if name in {"pair_id", "attribute", "judge"}]
    assert names == ["pair_id", "attribute", "judge"][: 2 + (judges > 1)]
    told = {tuple(row[name] for name in names): row["n"] for row in table.to_pylist()}
    assert told == Counter((row.pair_id, row.attribute, row.judge)[: len(names)] for (row,) in rows)


def test_a_run_under_way_leaves_a_snapshot_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SEGMENT_ROWS", 2)
    monkeypatch.setattr(store, "STATE_EVERY", 6)
    opened = RunStore.create(tmp_path / "r", manifest(), PAIRS)
    for number in range(15):
        opened.append([judgment(number)])
    opened._journal.close()  # as a crash does
    opened._lock.release()
    with RunStore.open(tmp_path / "r") as again:
        fold, segments = folded(tmp_path / "r", again.space, again.manifest.run_id)
        assert (segments, fold.judgments) == (6, 15)


def test_reads_no_segment_again_for_the_snapshots_of_a_run_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SEGMENT_ROWS", 2)
    monkeypatch.setattr(store, "STATE_EVERY", 4)
    opened = RunStore.create(tmp_path / "r", manifest(), PAIRS)
    for number in range(4):
        opened.append([judgment(number)])
    first = tmp_path / "r" / "judgments" / "00001.parquet"
    whole = first.read_bytes()
    first.write_bytes(b"changed behind its back")
    for number in range(4, 12):
        opened.append([judgment(number)])
    opened.close()
    with pytest.raises(StorageError, match="judgments"), RunStore.open(tmp_path / "r") as again:
        again.fold()  # it is noticed by who opens the run next
    first.write_bytes(whole)
    assert covered(tmp_path / "r") == 6
