"""Exports opened by the programs that people open them with: LibreOffice, DuckDB, pandas, and Python's csv."""

from __future__ import annotations

import csv
import io
import math
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from robin_cli.goals.registry import judgment_table
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair
from robin_cli.show import xlsx
from robin_cli.show.files import export, write_separated
from robin_cli.stats.scores import score
from tests.conftest import missing, robin
from tests.show.tables import make_run, score_rows
from tests.show.test_every_table import HOSTILE

TEXTS = [text for text in HOSTILE if text.strip()]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run whose pairs are named by hostile texts, with ratings that differ."""
    pairs = [
        Pair(text, text, f"{text} said", {"helpfulness": float(k % 5)})
        for k, text in enumerate(TEXTS)
    ]
    make_run(tmp_path / "r", pairs, [[k % 5, (k + 1) % 5, 4] for k in range(len(TEXTS))])
    return tmp_path / "r"


def scores_of(run: Path) -> pa.RecordBatchReader:
    from robin_cli.run.reader import read_run

    data = read_run(run)
    return score_rows(score(data), data)


def office(file: Path, to: str, *options: str) -> Path:
    """``file`` as LibreOffice sees it, saved in the format ``to``."""
    program = shutil.which("soffice")
    if program is None:
        missing("LibreOffice (soffice)", "install_programs.sh")
    out = file.parent / "office"
    profile = f"-env:UserInstallation=file://{file.parent / 'profile'}"
    command = [
        str(program),
        profile,
        "--headless",
        *options,
        *("--convert-to", to, "--outdir", str(out), str(file)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr
    return out / f"{file.stem}.{to.partition(':')[0]}"


def same(cell: Any, value: Any) -> bool:
    """Whether a cell holds a value of the table; an empty one holds what is not there."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return cell in {None, ""}
    if isinstance(value, int | float):
        return math.isclose(float(cell), value, rel_tol=1e-9)
    return str(cell) == str(value)


@pytest.mark.external
def shown(value: Any) -> Any:
    """A value of a cell, as a person sees it."""
    return round(value, 2) if isinstance(value, float) else value


def test_libreoffice_finds_every_value_and_makes_no_formula(run: Path, tmp_path: Path) -> None:
    results = scores_of(run)
    export(results, {"run": "r"}, fmt=None, output=str(tmp_path / "s.xlsx"))
    text = office(
        tmp_path / "s.xlsx", "csv:Text - txt - csv (StarCalc):44,34,76,1,,0,false,false"
    ).read_text("utf-8")
    cells = list(csv.reader(io.StringIO(text, newline="")))
    table = scores_of(run).read_all()
    assert cells[0] == table.column_names
    for row, wanted in zip(cells[1:], table.to_pylist(), strict=True):
        for cell, value in zip(row, wanted.values(), strict=True):
            assert same(
                cell.replace("\r\n", "\n"),
                value.replace("\r", "\n") if isinstance(value, str) else shown(value),
            )

    export(scores_of(run), {}, fmt=None, output=str(tmp_path / "s.csv"))
    opened = office(tmp_path / "s.csv", "xlsx", "--infilter=CSV:44,34,76,1")
    sheet = openpyxl.load_workbook(opened).active
    assert sheet is not None
    rows = list(sheet.iter_rows())
    assert [cell.value for cell in rows[0]] == table.column_names
    assert len(rows) == len(TEXTS) + 1
    for line, wanted in zip(rows[1:], table.to_pylist(), strict=True):
        assert {cell.data_type for cell in line} <= {"s", "n", "inlineStr"}  # never "f"
        assert same(line[2].value, wanted["score"])
        assert same(line[4].value, wanted["variance"])


def test_a_workbook_tells_what_its_numbers_were_made_with(run: Path, tmp_path: Path) -> None:
    assert robin("export", run, "-o", "s.xlsx", cwd=tmp_path).returncode == 0
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    settings = {row[0].value: row[1].value for row in book["settings"].iter_rows()}
    assert {
        "scheduler",
        "model",
        "budget",
        "data (SHA-256)",
        "prompt (SHA-256)",
        "version of robin",
    } <= settings.keys()


def test_a_workbook_goes_on_in_another_sheet_where_one_is_full(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xlsx, "_SHEET_ROWS", 4)
    export(judgment_table(run).rows(), {}, fmt=None, output=str(tmp_path / "j.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "j.xlsx")
    sheets = [name for name in book.sheetnames if name != "settings"]
    assert len(sheets) == math.ceil(3 * len(TEXTS) / 4)
    assert sum(sum(1 for _ in book[name].iter_rows()) - 1 for name in sheets) == 3 * len(TEXTS)
    assert all(book[name]["A1"].value == "pair_id" for name in sheets)


FORMATTED = "<r></t></is></c><c r='B2'><f>1+1</f></c><c><is><t></r>"
"""What xlsxwriter writes as it stands, when it is asked for a text."""


def test_a_workbook_holds_types_and_filters_and_its_texts_stay_texts(
    run: Path, tmp_path: Path
) -> None:
    moment = datetime(2026, 11, 20, 10, 15, 0, 250_000, UTC)
    texts = pa.array([FORMATTED, "=1+1", "https://example.org", "🦊" * 20_000])
    rows = {
        "text": texts,
        "rating": pa.array([3, None, 0, 1], pa.int32()),
        "usage_estimated": pa.array([True, False, None, True]),
        "received_at": pa.array(
            [moment, moment - timedelta(days=90_000), None, moment], pa.timestamp("us", tz="UTC")
        ),
        FORMATTED: pa.array([0.1, 2.6, float("nan"), 1e300]),
    }
    settings = {
        "budget": 3000,
        "temperature": 0.5,
        "strict": True,
        "base_url": ["http://a/v1", "http://b/v1"],
        "extra_body": {"top_k": 40},
        "limit": None,
        "made": moment,
        "formula": "=1+1",
    }
    export(pa.table(rows).to_reader(), settings, fmt=None, output=str(tmp_path / "s.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "s.xlsx")
    sheet = book["results"]
    assert (sheet.auto_filter.ref, sheet.freeze_panes, sheet["E1"].value) == (
        "A1:E5",
        "A2",
        FORMATTED,
    )
    cells = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=2)]
    assert [row[0] for row in cells[:3]] == [FORMATTED, "=1+1", "https://example.org"]
    assert {sheet.cell(line, 1).data_type for line in range(2, 6)} == {"s"}
    assert sheet["A4"].hyperlink is None
    assert len(str(cells[3][0]).encode("utf-16-le")) // 2 <= 32_767  # as Excel counts
    assert str(cells[3][0]).endswith("(cut: an Excel cell holds no more)")
    assert [row[1:] for row in cells[::3]] == [
        [3, True, moment.replace(tzinfo=None), 0.1],
        [1, True, cells[0][3], 1e300],
    ]
    # before Excel's first day: as text
    assert cells[1][2:] == [False, "1780-06-22 10:15:00.250000+00:00", 2.6]
    assert cells[2][1:] == [0, None, None, None]
    assert {row[0].value: row[1].value for row in book["settings"].iter_rows()} == settings | {
        "base_url": "http://a/v1, http://b/v1",
        "extra_body": '{"top_k":40}',
        "made": moment.replace(tzinfo=None),
    }
    assert book["settings"]["B8"].data_type == "s"


ACTING = [
    *("=1", "+1", "-1", "@A1"),
    "\t=1",
    "\r=1",
    "＝1",
    "＋1",
    "－1",
    "＠A1",
    "\0=1",
    "\0x",
    "\n=1",
    "\nx",
    "\v=1",
    "\fx",
]
ACTING += ["\xa0=1", " =1", "  -2+3", "\u3000＝1", "\ufeff=1", "\u200b+1", "\x1b@A1", "'=1"]
HARMLESS = ["x", "", " x", "1=1", "a-1", "\xa0x", "'x", "−1", "\u3000あ"]


@pytest.mark.parametrize("fmt", ["csv", "tsv", "xlsx"])
def test_marks_what_a_spreadsheet_may_run_and_nothing_else(tmp_path: Path, fmt: str) -> None:
    texts = [*ACTING, *HARMLESS]
    table = pa.table({"＝name": texts, "number": pa.array([-3.0] * len(texts)), "more": texts})
    file = tmp_path / f"s.{fmt}"
    export(table.to_reader(), {}, fmt=None, output=str(file))

    if fmt == "xlsx":  # whose cells are texts by their type, and need no mark
        sheet = openpyxl.load_workbook(file)["results"]
        assert sheet["A1"].value == "＝name"
        assert {cell.data_type for cell in sheet["A"] if cell.value} == {"s"}
        assert {cell.value for cell in sheet["B"][1:]} == {-3}
        return
    with file.open(encoding="utf-8", newline="") as lines:
        names, *rows = csv.reader(lines, delimiter="," if fmt == "csv" else "\t")
    assert names[0] == "'＝name"
    marked = [f"'{text}" for text in ACTING] + HARMLESS
    assert rows == [[text, "-3", text] for text in marked]


def test_refuses_more_columns_than_a_sheet_holds(tmp_path: Path) -> None:
    wide = pa.table({f"c{at}": pa.array([1]) for at in range(16_385)})
    with pytest.raises(InputError, match="a sheet holds 16,384; write csv or parquet"):
        export(wide.to_reader(), {}, fmt=None, output=str(tmp_path / "s.xlsx"))
    assert not list(tmp_path.iterdir())


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1))
@example([2.6, 0.1 + 0.2, 1 / 3, 5e-324, -0.0, 1e22])
def test_writes_floats_in_the_shortest_form_that_reads_back(numbers: list[float]) -> None:
    for separator in (",", "\t"):
        out = io.BytesIO()
        table = pa.table(
            {
                "score": pa.array([*numbers, float("nan")], from_pandas=True),
                "other": pa.array([1, *numbers]),
            }
        )
        write_separated(separator, table.to_reader(), out)
        written = [line.split(separator) for line in out.getvalue().decode().splitlines()[1:]]
        assert [float(score) for score, _ in written[:-1]] == numbers
        assert written[-1][0] == ""
        for (text, _), number in zip(written, numbers, strict=False):
            assert digits(text) == digits(repr(number))  # which is the shortest


def digits(number: str) -> int:
    return len(number.partition("e")[0].replace(".", "").strip("-0"))


def test_leaves_ids_as_they_are_where_asked_and_says_once_where_it_does_not(
    run: Path, tmp_path: Path
) -> None:
    done = robin("export", run, cwd=tmp_path)
    assert done.stderr.count("\n") == 1
    assert 'pair_id "=1+1" and others like it get an apostrophe' in done.stderr
    assert "--raw" in done.stderr
    raw = robin("export", run, "--raw", "-o", "raw.csv", cwd=tmp_path)
    assert raw.stderr == "wrote raw.csv\n"
    with (tmp_path / "raw.csv").open(encoding="utf-8", newline="") as file:
        assert [row["pair_id"] for row in csv.DictReader(file)] == TEXTS
