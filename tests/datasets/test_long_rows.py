"""Long texts, which pass through robin in parts."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from robin_cli.model.records import Pair
from robin_cli.storage import files_of_run
from robin_cli.storage.reader import read_run
from robin_cli.storage.store import RunStore
from tests.storage.test_store import judgment, manifest

PEAK = (
    "import sys; from pathlib import Path; from robin_cli.datasets.pairs import load_pairs; "
    "print(len(load_pairs(sys.argv[1]).pairs)); "
    "print(Path('/proc/self/status').read_text().partition('VmHWM:')[2].split()[0])"
)
"""Reads a file; prints its pairs and the most memory, in KiB. The kernel's count begins with the program."""


def test_holds_a_part_of_the_rows_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "pairs.jsonl"
    with path.open("w") as file:
        for n in range(4000):
            file.write(json.dumps({"prompt": f"{n} " * 5000, "response": f"{n}" * 12_000}) + "\n")
    assert path.stat().st_size > 250 * 2**20
    done = subprocess.run([sys.executable, "-c", PEAK, str(path)], capture_output=True, check=True)
    pairs, peak = map(int, done.stdout.split())
    assert pairs == 4000
    assert peak < 400 * 2**10


def test_writes_long_answers_in_row_groups_of_a_bounded_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files_of_run, "GROUP_BYTES", 2**20)
    answers = [replace(judgment(n), text="x" * 2**19) for n in range(9)]
    with RunStore.create(
        tmp_path / "r", manifest(budget=9), [Pair(f"p{n}", "p", "r") for n in range(3)]
    ) as run:
        run.append(answers)
    assert pq.ParquetFile(tmp_path / "r/judgments/00001.parquet").num_row_groups == 5
    assert read_run(tmp_path / "r", ["text"]).judgments["text"].to_pylist() == ["x" * 2**19] * 9
