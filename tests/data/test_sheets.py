"""Workbooks as data: those of Excel and LibreOffice."""

from __future__ import annotations

import datetime as dt
import re
import zipfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import openpyxl
import pytest
from openpyxl.chart import BarChart

from robin_cli.data.formats.sheets import CUT
from robin_cli.data.pairs import load_pairs
from robin_cli.model.errors import ReadAs
from tests.conftest import has
from tests.data.writing import columns_of, complaint, refused, written
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
    assert columns_of(first) == {"tokens": 1, "when": "2024-05-06", "share": 0.5, "seen": True}
    assert type(first.columns["tokens"]) is int
    assert columns_of(second) == {"tokens": 2**40, "when": "2024-05-06T12:30:00", "seen": False}


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


ODS = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:spreadsheet>
<table:table table:name="S">ROWS</table:table></office:spreadsheet></office:body>
</office:document-content>"""


def test_keeps_tabs_and_line_breaks_of_an_ods_file(tmp_path: Path) -> None:
    cell = '<table:table-cell office:value-type="string"><text:p>{}</text:p></table:table-cell>'
    rows = [("prompt", "response"), ("if x:<text:line-break/><text:tab/>y", "a<text:tab />b")]
    xml = "".join(
        f"<table:table-row>{''.join(map(cell.format, cells))}</table:table-row>" for cells in rows
    )
    with zipfile.ZipFile(tmp_path / "data.ods", "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("content.xml", ODS.replace("ROWS", xml))
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
    (pair,) = load_pairs(tmp_path / "data.ods").pairs
    assert (pair.prompt, pair.response) == ("if x:\n\ty", "a\tb")


def test_reads_a_workbook_that_has_no_name(tmp_path: Path) -> None:
    data = BytesIO(workbook(tmp_path / "data.xlsx").read_bytes())
    assert [pair.response for pair in load_pairs(data, called="standard input").pairs] == [
        "42",
        "0.5",
    ]


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


Sheets = dict[str, list[list[object]]]


def book_of(path: Path, sheets: Sheets) -> openpyxl.Workbook:
    """A workbook with these rows, which is saved, and may be changed and saved again."""
    book = openpyxl.Workbook()
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    del book["Sheet"]
    book.save(path)
    return book


HEAD: list[object] = ["prompt", "response"]


def test_reads_all_sheets_of_robins_own(tmp_path: Path) -> None:
    sheets: Sheets = {
        "results": [HEAD, ["p0", "r"]],
        "results 2": [HEAD, ["p1", "r"]],
        "settings": [["version of robin", "0.2.0"]],
    }
    book_of(tmp_path / "scores.xlsx", sheets)
    assert [pair.prompt for pair in load_pairs(tmp_path / "scores.xlsx").pairs] == ["p0", "p1"]


@pytest.mark.parametrize("wrote", ["a user", "robin"])
def test_joins_no_sheet_of_a_user(tmp_path: Path, wrote: str) -> None:
    second: list[list[object]] = (
        [HEAD, ["p1", "r"]] if wrote == "a user" else [HEAD[::-1], ["r", "p1"]]
    )
    sheets: Sheets = {"results": [HEAD, ["p0", "r"]], "results 2": second}
    if wrote == "robin":
        sheets["settings"] = [["version of robin", "0.2.0"]]
    book_of(tmp_path / "a.xlsx", sheets)
    with pytest.warns(ReadAs, match='sheet "results" is read, not "results 2"$'):
        assert [pair.prompt for pair in load_pairs(tmp_path / "a.xlsx").pairs] == ["p0"]


def test_reads_the_visible_sheet_that_fits_below_its_title_and_names_the_others(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.xlsx"
    sheets: Sheets = {
        "Cover": [["Made in May", "by us"], ["a", "b"]],
        "Old": [HEAD, ["old", "r"]],
        "Data": [["Results of May"], [], HEAD, ["p", "r"], ["q", "s"]],
    }
    book = book_of(path, sheets)
    book["Old"].sheet_state = "hidden"
    chart = book.create_chartsheet("Chart", 0)
    chart.add_chart(BarChart())
    book["Data"].row_dimensions[5].hidden = True
    book.save(path)
    said = (
        r'sheet "Data" is read, not "Cover", "Old" \(hidden\); the column names are in row 3; '
        r"1 hidden row \(5\) read as any other$"
    )
    with pytest.warns(ReadAs, match=said):
        assert [pair.prompt for pair in load_pairs(path).pairs] == ["p", "q"]
    for sheet in ("Cover", "Data"):
        book[sheet].sheet_state = "hidden"
    book.create_chartsheet("Other")
    book.save(path)
    assert complaint(path) == "a.xlsx: has no visible sheet. Name one: FILE#SHEET."


def check_merged(path: Path) -> None:
    with pytest.warns(ReadAs, match="merged cells counts in each.*; numbers have a decimal comma"):
        pairs = load_pairs(path).pairs
    assert [(pair.prompt, pair.human["helpfulness"]) for pair in pairs] == [
        ("Why?", 3.5),
        ("Why?", 2),
        ("How?", 4.5),
    ]


def merged(path: Path) -> Path:
    """A workbook with merged cells, a hidden row, and numbers as text."""
    rows: list[list[object]] = [
        [*HEAD, "helpfulness"],
        ["Why?", "a", "3,5"],
        [None, "b", 2],
        ["How?", "c", "4,5"],
    ]
    book = book_of(path, {"Data": rows})
    book["Data"].merge_cells("A2:A3")
    book["Data"].row_dimensions[4].hidden = True
    book.save(path)
    return path


def test_fills_merged_cells_and_reads_a_decimal_comma(tmp_path: Path) -> None:
    check_merged(merged(tmp_path / "a.xlsx"))


@pytest.mark.external
def test_fills_merged_cells_and_reads_a_decimal_comma_of_libreoffice(tmp_path: Path) -> None:
    path = office(merged(tmp_path / "a.xlsx"), "ods")
    check_merged(path)
    with pytest.warns(ReadAs, match=r"1 hidden row \(4\) read as any other"):
        load_pairs(path)


def test_fills_merged_cells_of_a_table_that_begins_in_another_column(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        [None, "topic", *HEAD],
        [None, "maths", "1+1?", "2"],
        [None, None, "2+2?", "4"],
    ]
    book_of(tmp_path / "a.xlsx", {"Data": rows})
    book = openpyxl.load_workbook(tmp_path / "a.xlsx")
    book["Data"].merge_cells("B2:B3")
    book.save(tmp_path / "a.xlsx")
    with pytest.warns(ReadAs, match="merged"):
        pairs = load_pairs(tmp_path / "a.xlsx").pairs
    assert [(pair.prompt, pair.response) for pair in pairs] == [("1+1?", "2"), ("2+2?", "4")]
    assert [columns_of(pair)["topic"] for pair in pairs] == ["maths", "maths"]


def test_names_a_formula_without_a_stored_value(tmp_path: Path) -> None:
    book_of(tmp_path / "a.xlsx", {"Data": [HEAD, ["p", "r"], ["q", '="a"&1']]})
    assert complaint(tmp_path / "a.xlsx") == (
        'a.xlsx:row 3: column "response" holds a formula without a stored value. Open the file in Excel or LibreOffice, and '
        "save it once."
    )
    book_of(tmp_path / "b.xlsx", {"Data": [[*HEAD, "n"], ["p", "r", "=1+1"]]})
    with pytest.warns(ReadAs, match="1 formula without a stored value, read as empty"):
        assert columns_of(load_pairs(tmp_path / "b.xlsx").pairs[0]) == {}


def test_takes_no_placeholder_for_the_value_of_a_formula(tmp_path: Path) -> None:
    """XlsxWriter writes 0 as the value of every formula."""
    book_of(tmp_path / "a.xlsx", {"Data": [HEAD, ["q", "=1+1"]]})
    with (
        zipfile.ZipFile(tmp_path / "a.xlsx") as before,
        zipfile.ZipFile(tmp_path / "b.xlsx", "w") as after,
    ):
        for name in before.namelist():
            content = before.read(name)
            after.writestr(name, re.sub(rb"(</f>)<v ?/>|(</f>)<v></v>", rb"</f><v>0</v>", content))
    assert "holds a formula without a stored value" in complaint(tmp_path / "b.xlsx")


def test_says_that_a_text_may_have_been_cut(tmp_path: Path) -> None:
    book_of(tmp_path / "a.xlsx", {"Data": [HEAD, ["p", "r" * 32_767], ["q", "r" * 32_766]]})
    with pytest.warns(ReadAs, match="1 cell of exactly 32,767 characters"):
        load_pairs(tmp_path / "a.xlsx")


def test_refuses_ids_that_a_cell_has_rounded(tmp_path: Path) -> None:
    book_of(tmp_path / "a.xlsx", {"Data": [["id", *HEAD], [1234567890123456789, "p", "r"]]})
    said = complaint(tmp_path / "a.xlsx")
    has(said, "a.xlsx:row 2: the id 1.234567890123457e+18 was rounded by a spreadsheet", "as text")
    said = refused(tmp_path, b"id,prompt,response\n1.23457E+18,p,r\n", "a.csv")
    has(said, "a.csv:2: the id 1.23457E+18 was rounded by a spreadsheet")
    rows = "id,topic,prompt,response\na,1.2345678901234568E18,q,r\n"
    (tmp_path / "b.csv").write_text(rows)
    said = complaint(tmp_path / "b.csv", group="topic")
    has(said, "b.csv:2: the group 1.2345678901234568E18 was rounded by a spreadsheet")


@pytest.mark.parametrize("has_password", [True, False])
def test_names_a_password_and_an_old_workbook(tmp_path: Path, has_password: bool) -> None:
    data = b"\xd0\xcf\x11\xe0" + "EncryptedPackage".encode("utf-16-le") * has_password
    said = complaint(written(tmp_path, "a.xlsx", data))
    assert said == (
        "a.xlsx: is protected by a password. Save a copy without one."
        if has_password
        else "a.xlsx: is an old .xls file. Save it as .xlsx."
    )


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


def test_names_hidden_columns_and_the_other_sheets_of_a_refused_workbook(tmp_path: Path) -> None:
    book = book_of(tmp_path / "a.xlsx", {"Data": [HEAD, ["p", "r"]]})
    book["Data"].column_dimensions["B"].hidden = True
    book.save(tmp_path / "a.xlsx")
    with pytest.warns(ReadAs, match=r'1 hidden column \("response"\) read as any other'):
        load_pairs(tmp_path / "a.xlsx")
    book_of(tmp_path / "b.xlsx", {"Old": [["x", "y"], [1, 2]], "New": [["prompt", "z"], ["p", 1]]})
    with pytest.warns(ReadAs, match='sheet "Old" is read, not "New"'):
        assert "no field" in complaint(tmp_path / "b.xlsx")
