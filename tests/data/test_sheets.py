"""Workbooks as data: those of Excel and LibreOffice."""

from __future__ import annotations

import datetime as dt
import zipfile
from collections.abc import Sequence
from pathlib import Path

import openpyxl
import pytest

from robin_cli.data.formats.sheets import CUT
from robin_cli.data.pairs import load_pairs
from tests.conftest import has
from tests.data.writing import complaint, written
from tests.show.test_spreadsheets import office

HEADER = ("prompt", "response", "helpfulness", "tokens", "when", "share", "seen")
CELLS = [
    (2, HEADER),
    (3, ("What is 6 times 7?", 42, 4, 1.0, dt.date(2024, 5, 6), 0.5, True)),
    (
        5,
        (
            " And 1 / 2? ",
            0.5,
            None,
            2**40,
            dt.datetime.fromisoformat("2024-05-06T12:30:00"),
            None,
            False,
        ),
    ),
]


def workbook(
    path: Path, cells: Sequence[tuple[int, tuple[object, ...]]] = CELLS, sheet: str = "Data"
) -> Path:
    """A workbook whose first sheet has these rows from its second column on, and whose second is called Empty."""
    book = openpyxl.Workbook()
    first = book.active
    assert first is not None
    first.title = sheet
    for row, values in cells:
        for column, value in enumerate(values, 2):
            first.cell(row, column, value)  # type: ignore[call-overload]
    book.create_sheet("Empty")
    book.save(path)
    return path


def check_as_written(path: Path) -> None:
    first, second = load_pairs(path).pairs
    assert (first.prompt, first.response, first.human) == (
        "What is 6 times 7?",
        "42",
        {"helpfulness": 4.0},
    )
    assert (second.prompt, second.response, second.human) == (" And 1 / 2? ", "0.5", {})
    assert dict(first.columns) == {"tokens": 1, "when": "2024-05-06", "share": 0.5, "seen": True}
    assert type(first.columns["tokens"]) is int
    assert dict(second.columns) == {"tokens": 2**40, "when": "2024-05-06T12:30:00", "seen": False}


def test_reads_the_first_sheet_wherever_its_cells_begin(tmp_path: Path) -> None:
    check_as_written(workbook(tmp_path / "data.xlsx"))


@pytest.mark.external
def test_reads_what_libreoffice_writes(tmp_path: Path) -> None:
    path = workbook(tmp_path / "data.xlsx", [*CELLS, (6, ("Sum?", "=6*7", "=1+1"))])
    for end in ("ods", "xlsx"):
        found = load_pairs(office(path, end).rename(tmp_path / f"office.{end}"))
        assert [(pair.response, pair.human) for pair in found.pairs][2:] == [
            ("42", {"helpfulness": 2.0})
        ]
        assert len(found.pairs) == 3


def test_reads_the_sheet_that_is_named(tmp_path: Path) -> None:
    path = workbook(tmp_path / "c#.xlsx", sheet="Mine #2")
    check_as_written(Path(f"{path}#Mine #2"))
    assert (
        complaint(Path(f"{path}#mine"))
        == 'c#.xlsx#mine: has no sheet "mine". There are: "Mine #2", "Empty"'
    )
    assert complaint(Path(f"{path}#Empty")).startswith("c#.xlsx#Empty: the file has no rows.")


def test_names_the_row_as_the_program_does(tmp_path: Path) -> None:
    path = workbook(tmp_path / "data.xlsx", [*CELLS, (9, ("A prompt",))])
    assert complaint(path).startswith('data.xlsx:row 9: field "response" is null.')
    assert len(load_pairs(path, skip_bad_rows=True).pairs) == 2
    twice = workbook(tmp_path / "twice.xlsx", [(4, ("prompt", "response", "prompt"))])
    assert (
        complaint(twice)
        == 'twice.xlsx:row 4: two columns are called "prompt". Rename or remove one of them.'
    )
    has(
        complaint(workbook(tmp_path / "cut.xlsx", [*CELLS, (6, ("p", "r" + CUT))])),
        'cut.xlsx:row 6: column "response"',
    )


def test_reads_all_sheets_of_robins_own(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for number, name in enumerate(["results", "results 2", "settings"]):
        sheet = book.create_sheet(name)
        sheet.append(["prompt", "response"])
        sheet.append([f"p{number}", "r"])
    del book["Sheet"]
    book.save(tmp_path / "scores.xlsx")
    found = load_pairs(tmp_path / "scores.xlsx", skip_bad_rows=True)
    assert [pair.prompt for pair in found.pairs] == ["p0", "p1"]


@pytest.mark.parametrize("name", ["text.xlsx", "text.ods", "cut.xlsx", "zip.ods"])
def test_says_that_it_is_no_workbook(tmp_path: Path, name: str) -> None:
    data = {
        "text": b"prompt,response\n",
        "cut": workbook(tmp_path / "whole.xlsx").read_bytes()[:-300],
    }
    if name == "zip.ods":
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("a.txt", "a")
    else:
        written(tmp_path, name, data[name.partition(".")[0]])
    said = complaint(tmp_path / name)
    has(said, f"{name}: not a workbook that can be read", "Write or download it again")
