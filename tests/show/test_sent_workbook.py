"""A workbook that was judged comes back as its sender's own, with scores beside its rows."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import orjson
import pytest
import xlsxwriter
from openpyxl.chart import BarChart, Reference
from openpyxl.styles import Font
from openpyxl.worksheet.worksheet import Worksheet

from robin_cli.data.pairs import load_pairs
from robin_cli.goals.registry import goal_of_run
from robin_cli.goals.result import View
from robin_cli.model.errors import ReadAs
from robin_cli.run.reader import read_run
from robin_cli.show.sent_workbook import NotReturned, sent_workbook
from tests.conftest import DEMO, judging, robin
from tests.show.test_spreadsheets import office

PAIRS = [orjson.loads(line) for line in (DEMO / "pairs.jsonl").read_bytes().splitlines()][:6]


def write_answers(path: Path, *, ids: bool = False) -> None:
    """Write a workbook as people make them: a title, formulas, formats, a filter, hidden columns, a chart."""
    book = openpyxl.Workbook()
    sheet = book.active
    assert isinstance(sheet, Worksheet)
    sheet.title = "July"
    sheet["A1"] = "Answers of our bot"
    sheet.merge_cells("A1:D1")
    sheet.append([])
    sheet.append(["id" if ids else "No", "prompt", "response", "length", "score"])
    sheet["E3"].font = Font(bold=True)
    for number, pair in enumerate(PAIRS, 1):
        row = number + 3
        name = f"a-{number}" if ids else number
        sheet.append([name, pair["prompt"], pair["response"], f"=LEN(C{row})", number / 3])
        sheet.cell(row, 5).number_format = "0.000"
    sheet.column_dimensions["B"].width = 50
    sheet.column_dimensions.group("F", "XFD", hidden=True)
    sheet.auto_filter.ref, sheet.freeze_panes = "A3:E9", "A4"
    notes = book.create_sheet("Summary")
    chart = BarChart()
    chart.add_data(Reference(sheet, min_col=5, min_row=3, max_row=9), titles_from_data=True)
    notes.add_chart(chart, "C3")
    book.save(path)


def rows_of(path: Path, sheet: str) -> list[tuple[Any, ...]]:
    return list(openpyxl.load_workbook(path)[sheet].iter_rows(values_only=True))


@pytest.mark.parametrize("ids", [False, True])
def test_returns_the_workbook_with_scores_beside_its_rows(
    replay_url: str, tmp_path: Path, ids: bool
) -> None:
    write_answers(tmp_path / "answers.xlsx", ids=ids)
    sent = (tmp_path / "answers.xlsx").read_bytes()
    done = robin(
        *judging(replay_url, "answers.xlsx", 18, "--run", "r", "-o", "scored.xlsx"),
        cwd=tmp_path,
        exits=0,
    )
    assert "wrote scored.xlsx" in done.stderr
    assert (tmp_path / "answers.xlsx").read_bytes() == sent
    book = openpyxl.load_workbook(tmp_path / "scored.xlsx")
    assert book.sheetnames == ["July", "Summary", "summary 2"]
    before, after = (
        rows_of(tmp_path / "answers.xlsx", "July"),
        rows_of(tmp_path / "scored.xlsx", "July"),
    )
    assert [row[:5] for row in after] == [row[:5] for row in before]
    assert after[2][5:] == ("robin score", "n", "ci_low", "ci_high")
    scores = openpyxl.load_workbook(tmp_path / "scored.xlsx")["July"]
    table = robin("export", "r", "--format", "jsonl", cwd=tmp_path, exits=0).stdout
    expected = [orjson.loads(line) for line in table.splitlines()]
    for row, score in zip(after[3:], expected, strict=True):
        assert row[5:] == pytest.approx(
            [score[name] for name in ("score", "n", "ci_low", "ci_high")]
        )
    sheet = book["July"]
    assert [str(each) for each in sheet.merged_cells.ranges] == ["A1:D1"]
    assert (sheet.column_dimensions["B"].width, sheet.freeze_panes) == (50, "A4")
    assert sheet.auto_filter.ref == "A3:E9"
    assert (sheet["E4"].number_format, scores["F4"].number_format) == ("0.000", "0.00")
    assert sheet["F3"].font.bold
    assert not sheet.column_dimensions["F"].hidden
    assert len(book["Summary"]._charts) == 1  # type: ignore[attr-defined]
    summary = dict(row[:2] for row in rows_of(tmp_path / "scored.xlsx", "summary 2"))
    assert str(summary["answer"]).startswith("mean helpfulness")
    assert summary["helpfulness: n pairs"] == 6
    assert {"helpfulness: mean", "judge", "budget", "cost", "run"} <= summary.keys()
    # What comes back can be judged again.
    with pytest.warns(ReadAs):
        assert len(load_pairs(tmp_path / "scored.xlsx").pairs) == 6


@pytest.mark.external
def test_returns_stored_values_and_a_file_that_office_programs_open(
    replay_url: str, tmp_path: Path
) -> None:
    write_answers(tmp_path / "answers.xlsx")
    shutil.copy(office(tmp_path / "answers.xlsx", "xlsx"), tmp_path / "saved.xlsx")
    robin(
        *judging(replay_url, "saved.xlsx#July", 12, "--run", "r", "-o", "scored.xlsx"),
        cwd=tmp_path,
        exits=0,
    )
    values = openpyxl.load_workbook(tmp_path / "scored.xlsx", data_only=True)["July"]
    assert values["D4"].value == len(PAIRS[0]["response"])
    again = openpyxl.load_workbook(office(tmp_path / "scored.xlsx", "xlsx"))
    assert again.sheetnames == ["July", "Summary", "summary 2"]
    assert again["July"]["F4"].value == values["F4"].value


def test_returns_decisions_several_attributes_and_rows_that_were_not_judged(
    replay_url: str, tmp_path: Path
) -> None:
    book = xlsxwriter.Workbook(tmp_path / "a.xlsx")
    sheet = book.add_worksheet()
    for number, row in enumerate(
        [["prompt", "response"], *([each["prompt"], each["response"]] for each in PAIRS), ["", "x"]]
    ):
        sheet.write_row(number, 0, row)
    book.close()
    command = judging(replay_url, "a.xlsx", 24, "--run", "r", "-o", "b.xlsx", "--skip-bad-rows")
    robin(*command, "--decide", "score>=3", cwd=tmp_path, exits=0)
    header, *rows = rows_of(tmp_path / "b.xlsx", "Sheet1")
    assert header[2:] == ("score", "n", "ci_low", "ci_high", "decision", "likely_wrong")
    assert {row[6] for row in rows[:6]} <= {"keep", "drop"}
    assert rows[6][2:] == (None,) * 6
    command[command.index("helpfulness")] = "helpfulness,verbosity"
    command[command.index("r")] = "r2"
    robin(*command, cwd=tmp_path, exits=0)
    header, *rows = rows_of(tmp_path / "b.xlsx", "Sheet1")
    assert [name for name in header if str(name).endswith("score")] == [
        "helpfulness_score",
        "verbosity_score",
    ]


def test_names_the_systems_of_responses_side_by_side(replay_url: str, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (
        ["prompt", "gpt", "llama"],
        *([each["prompt"], each["response"], f"No {each['id']}"] for each in PAIRS[:3]),
    ):
        assert isinstance(book.active, Worksheet)
        book.active.append(row)
    book.save(tmp_path / "a.xlsx")
    robin(
        *judging(replay_url, "a.xlsx", 12, "--run", "r", "-o", "b.xlsx"),
        *("--columns", "response=gpt|llama"),
        cwd=tmp_path,
        exits=0,
    )
    header, *rows = rows_of(tmp_path / "b.xlsx", "Sheet")
    assert header[3::4] == ("gpt score", "llama score")
    assert all(isinstance(cell, int | float) for row in rows for cell in row[3:])


def test_writes_the_results_alone_where_the_workbook_cannot_come_back(
    replay_url: str, tmp_path: Path
) -> None:
    write_answers(tmp_path / "a.xlsx")
    robin(*judging(replay_url, "a.xlsx", 6, "--run", "r"), cwd=tmp_path, exits=0)
    resume = ("resume", "r", "--budget", "7", "-o", "b.xlsx")
    (tmp_path / "a.xlsx").rename(tmp_path / "c.xlsx")
    done = robin(*resume, cwd=tmp_path, exits=0)
    assert "b.xlsx has the results alone: a.xlsx is not there" in done.stderr
    assert openpyxl.load_workbook(tmp_path / "b.xlsx").sheetnames == ["results", "settings"]
    # robin's own workbook: its rows may go on in another sheet.
    export = ("export", "r", "--with-text", "-o", "own.xlsx")
    robin(*export, cwd=tmp_path, exits=0)
    done = robin(
        *judging(replay_url, "own.xlsx", 6, "--run", "own", "-o", "b.xlsx"), cwd=tmp_path, exits=0
    )
    assert "alone" not in done.stderr
    assert openpyxl.load_workbook(tmp_path / "b.xlsx").sheetnames == ["results", "settings"]


def test_places_no_scores_in_a_workbook_that_changed_meanwhile(
    replay_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_answers(tmp_path / "a.xlsx")
    robin(*judging(replay_url, "a.xlsx", 6, "--run", "r"), cwd=tmp_path, exits=0)
    write_answers(tmp_path / "a.xlsx", ids=True)
    monkeypatch.chdir(tmp_path)
    run = read_run(Path("r"))
    with pytest.raises(NotReturned, match=r"a\.xlsx has changed since it was judged"):
        sent_workbook(goal_of_run(run).result(run), View())


def test_refuses_to_write_over_the_workbook_that_it_reads(replay_url: str, tmp_path: Path) -> None:
    write_answers(tmp_path / "a.xlsx")
    done = robin(*judging(replay_url, "a.xlsx", 6, "-o", "a.xlsx"), cwd=tmp_path, exits=2)
    assert "is read in this command, and would be lost" in done.stderr


def test_says_that_a_workbook_is_laid_out_in_another_way(replay_url: str, tmp_path: Path) -> None:
    write_answers(tmp_path / "a.xlsx")
    with zipfile.ZipFile(tmp_path / "a.xlsx") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["xl/styles.xml"] = parts["xl/styles.xml"].replace(b"cellXfs", b"x:cellXfs")
    with zipfile.ZipFile(tmp_path / "a.xlsx", "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    done = robin(*judging(replay_url, "a.xlsx", 6, "--run", "r", "-o", "b.xlsx"), cwd=tmp_path)
    assert "b.xlsx has the results alone: a.xlsx is not laid out as Excel does it" in done.stderr
