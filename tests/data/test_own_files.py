"""What robin writes, robin reads: scores as data, judgments as a pool, labels filled in, in any format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import openpyxl
import pytest

import robin_cli
from robin_cli.data.labels import load_labels
from robin_cli.data.pairs import load_pairs
from robin_cli.data.pools import load_pools
from robin_cli.model.records import Scale
from tests.conftest import robin

PAIRS = [
    robin_cli.Pair(f"{'='[: number % 2]}q{number}", f"- prompt {number}", f"'+{number}")
    for number in range(6)
]


@pytest.mark.parametrize("fmt", ["csv", "jsonl", "parquet", "xlsx"])
@pytest.mark.filterwarnings("ignore::robin_cli.model.errors.ReadAs")
def test_reads_its_own_files(tmp_path: Path, fmt: str) -> None:
    def judge(_: Any) -> str:
        return "Feedback: =fine\nRating: 3"

    robin_cli.judge(
        PAIRS,
        judge=judge,
        attribute="helpfulness",
        budget=12,
        run=str(tmp_path / "run"),
        scheduler="uniform",
        quiet=True,
    )
    for what, more in (
        ("scores", ["--with-text"]),
        ("judgments", []),
        ("labels-wanted", ["--n", "4"]),
    ):
        robin("export", "run", "--what", what, *more, "-o", f"{what}.{fmt}", cwd=tmp_path, exits=0)
    found = load_pairs(tmp_path / f"scores.{fmt}").pairs
    assert [(pair.pair_id, pair.prompt, pair.response) for pair in found] == [
        (pair.pair_id, pair.prompt, pair.response) for pair in PAIRS
    ]
    pool = load_pools(tmp_path / f"judgments.{fmt}", grouped=False)["helpfulness"]
    assert {*pool.pair_ids} == {pair.pair_id for pair in PAIRS}
    assert pool.size == 12
    wanted = tmp_path / f"labels-wanted.{fmt}"
    if fmt == "xlsx":  # as people fill it in
        book = openpyxl.load_workbook(wanted)
        sheet = book["results"]
        column = [cell.value for cell in sheet[1]].index("label") + 1
        for row in range(2, 6):
            sheet.cell(row, column, 2.5)
        book.save(wanted)
    labels = load_labels(wanted, {pair.pair_id for pair in PAIRS}, {"helpfulness": Scale(0, 4)})
    assert [label.value for label in labels.by_attribute["helpfulness"].values()] == [2.5] * 4 * (
        fmt == "xlsx"
    )
