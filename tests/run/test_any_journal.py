"""The journal reader meets any bytes with judgments or with an error of robin's own."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robin_cli.model.errors import RobinError
from robin_cli.run.journal import Journal, lines_of, read_row
from robin_cli.run.manifest import read_manifest
from robin_cli.run.reader import read_run
from robin_cli.run.schema import JUDGMENTS
from robin_cli.run.writer import RunWriter
from robin_cli.stats.scores import score
from tests.run.test_store import PAIRS, SETTINGS, judgment, manifest


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a journal of six judgments."""
    path = tmp_path_factory.mktemp("journal") / "r"
    settings_ = {**SETTINGS, "temperature": 1.0, "base_url": ["http://x/v1"]}
    RunWriter.create(path, manifest(settings=settings_), PAIRS).close()
    rows = [judgment(k) for k in range(6)]
    Journal.create(path / "journal.jsonl", read_manifest(path).run_id, 1, rows).close()
    return path


def read_with(run: Path, journal: bytes) -> int | None:
    """How many judgments the run has with another journal, scores made of them; None for an error of ours."""
    path = run / "journal.jsonl"
    sound = path.read_bytes()
    path.write_bytes(journal)
    try:
        data = read_run(run, JUDGMENTS.names)
        score(data)
    except RobinError:
        return None
    finally:
        path.write_bytes(sound)
    return len(data.judgments)


anything = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@given(st.binary(max_size=400))
@anything
def test_meets_any_bytes(run: Path, journal: bytes) -> None:
    assert read_with(run, journal) in {0, None}
    found = read_with(run, (run / "journal.jsonl").read_bytes() + journal)
    assert found in {6, None}
    assert found == 6 or b"\n" in journal  # an end that was torn is forgiven


@given(st.integers(0, 2000), st.binary(min_size=1, max_size=4))
@anything
def test_meets_any_damage(run: Path, at: int, damage: bytes) -> None:
    sound = (run / "journal.jsonl").read_bytes()
    at %= len(sound)
    assert read_with(run, sound[:at] + damage + sound[at + len(damage) :]) in {None, *range(8)}
    assert read_with(run, sound) == 6


@given(at=st.integers(0), bit=st.integers(0, 7))
def test_takes_no_line_with_another_bit_for_an_answer(at: int, bit: int) -> None:
    line = lines_of([judgment(1)]).rstrip(b"\n")
    answer, spoilt = read_row(line), bytearray(line)
    spoilt[at % len(line)] ^= 1 << bit
    found = read_row(bytes(spoilt))
    assert answer == orjson.loads(orjson.dumps(judgment(1)))
    assert found is None
