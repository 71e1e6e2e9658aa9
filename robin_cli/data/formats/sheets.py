"""Sheets of Excel and LibreOffice workbooks as rows. The first row that is not empty names the columns."""

from __future__ import annotations

import json
import re
from datetime import date, time, timedelta
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.data import lines
from robin_cli.data.formats.csv_rows import check_names
from robin_cli.data.rows import BadRow, Format, Row, Table, Wanted
from robin_cli.model.errors import Damaged, InputError, shown
from robin_cli.model.records import Scale

if TYPE_CHECKING:
    from collections.abc import Iterator

CUT = " … (cut: an Excel cell holds no more)"
"""The end of a text that robin cut to fit into a cell."""

_Line = tuple[int, list[Any]]
"""A row's number in its sheet, and its cells."""

_ENDS = (".xlsx", ".xlsm", ".ods")

_OURS, _FURTHER = "results", re.compile(r"results \d+")
"""The sheet that robin writes; sheets "results 2" and so on hold more of its rows."""

_WHOLE = 2.0**53


def file_of(name: str) -> str:
    """Return the file of a source: ``data.xlsx`` for ``data.xlsx#Sheet2``."""
    found = re.match(
        rf"(.*?(?:{'|'.join(map(re.escape, _ENDS))})(?:\?[^#]*)?)#", name, re.IGNORECASE | re.DOTALL
    )
    return found[1] if found else name


def read_sheet(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    """Return the rows of the sheet that ``source`` names, or the first one. An empty cell is None; empty rows are skipped.

    Whole numbers are ints, times are texts, a formula is its value. ``wanted`` columns that are not numbers become texts: an
    answer may be 42.

    Raises InputError for a damaged file, and if there is no such sheet.
    """
    rows = _lines(stream, source, source[len(file_of(source)) + 1 :])
    number, header = next(rows, (1, None))
    if header is None:
        return Table(None, "row", iter(()))
    names = ["" if cell is None else str(cell).strip() for cell in header]
    check_names(names, f"{source}:row {number}", wanted)
    return Table(names, "row", _rows(rows, names, wanted))


def scales_in(name: str) -> dict[str, Scale]:
    """Return the scale of each attribute that the sheet "settings" of a workbook by robin says; nothing for other files."""
    path = file_of(name)
    if not path.lower().endswith(_ENDS) or not Path(path).is_file():
        return {}
    with Path(path).open("rb") as stream:
        try:
            cells = dict(line[:2] for _, line in _lines(stream, path, "settings") if len(line) > 1)
            scales = json.loads(str(cells.get("scale") or "{}"))
        except (InputError, ValueError):  # another workbook
            return {}
    ends = {attribute: str(text).rpartition("-") for attribute, text in scales.items()}
    return {attribute: Scale(int(low), int(high)) for attribute, (low, _, high) in ends.items()}


def _rows(
    rows: Iterator[_Line], names: list[str], wanted: Wanted
) -> Iterator[tuple[int, Row | BadRow]]:
    texts = {name for name in names if name in wanted.names and name not in wanted.numbers}
    for number, found in rows:
        row: Row = dict(zip(names, found, strict=True))
        cut = ""
        for name in texts:
            value = row[name]
            if isinstance(value, bool):
                row[name] = str(value).upper()
            elif isinstance(value, (int, float)):
                row[name] = str(value)
            elif isinstance(value, str) and value.endswith(CUT):
                cut = f'column "{shown(name)}" holds a text that was cut to fit its cell. Read it from another format.'
        yield number, BadRow(cut, "a text that was cut") if cut else row


def _lines(stream: BinaryIO, source: str, sheet: str) -> Iterator[_Line]:
    """Yield the sheet's rows that are not empty. InputError if the workbook or the sheet cannot be read."""
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ImportError:
        raise InputError(
            f"{source}: is read by python-calamine, which is not installed. Install it: pip install python-calamine"
        ) from None
    try:
        book = CalamineWorkbook.from_filelike(stream)
        names = book.sheet_names
        if sheet and sheet not in names:
            there = ", ".join(f'"{shown(name)}"' for name in names)
            raise InputError(f'{source}: has no sheet "{shown(sheet)}". There are: {there}')
        rows = book.get_sheet_by_name(sheet or names[0]).iter_rows()
        further = [
            each for each in names[1:] if (sheet or names[0]) == _OURS and _FURTHER.fullmatch(each)
        ]
        # Each further sheet begins with the names of the columns.
        more = (islice(book.get_sheet_by_name(each).iter_rows(), 1, None) for each in further)
        for number, row in enumerate(chain(rows, *more), 1):
            cells = list(map(_plain_cell, row))
            if not lines.is_blank(cells):
                yield number, cells
    except PasswordError:
        raise InputError(
            f"{source}: is protected by a password. Save a copy without one."
        ) from None
    except (CalamineError, IndexError, OSError) as error:
        reason = shown(str(error) or type(error).__name__, 160)
        raise Damaged(f"{source}: not a workbook that can be read: {reason}") from None


def _plain_cell(value: object) -> object:
    """Return a cell's value: a text, a number, a boolean, a time as text, or None for an empty cell."""
    if value == "":
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _WHOLE else value
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else value


FORMATS = {end: Format(read_sheet, packable=False) for end in _ENDS}
