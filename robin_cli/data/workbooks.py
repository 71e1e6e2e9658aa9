"""Workbooks of Excel and LibreOffice: which sheet to read, and its rows of cells."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, time, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.data.cells import HEADER_WITHIN, SPREADSHEET_ERRORS, header_at
from robin_cli.data.sheet_layout import with_tabs
from robin_cli.model.errors import Damaged, InputError, shown
from robin_cli.model.records import Scale

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

ENDS = (".xlsx", ".xlsm", ".ods")

_OLD = b"\xd0\xcf\x11\xe0"
"""The first bytes of a .xls file, and of an .xlsx file with a password."""

_OURS, _FURTHER, _SETTINGS = "results", re.compile(r"results \d+"), "settings"
"""The sheets that robin writes; "results 2" and so on hold more rows."""

_WHOLE = 2.0**53
_SHEET = re.compile(r"(.*?(?:\.xlsx|\.xlsm|\.ods)(?:\?[^#]*)?)#", re.IGNORECASE | re.DOTALL)

Line = tuple[int, list[Any]]
"""A row of a sheet: its number there, and its cells."""


class Workbook:
    """An open workbook. InputError, also while its rows are read, if it cannot be read."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        from python_calamine import CalamineWorkbook

        self._source = source
        if stream.read(len(_OLD)) == _OLD:
            if "EncryptedPackage".encode("utf-16-le") in stream.read():
                raise self._protected()
            raise InputError(f"{source}: is an old .xls file. Save it as .xlsx.")
        with self._reading():
            self._book = CalamineWorkbook.from_filelike(with_tabs(stream))
        self.names = self._book.sheet_names
        self._sheets: dict[str, CalamineSheet] = {}

    def lines(self, sheet: str, merged: Sequence[tuple[int, int, int]] = ()) -> Iterator[Line]:
        """Yield the rows that are not empty. A merged cell has its value in each of its rows.

        Args:
            merged: the first and the last row of merged cells, and their column.
        """
        starts = {(first, column): last for first, last, column in merged}
        filling: dict[int, tuple[int, Any]] = {}
        table = self._sheet(sheet)
        before = [None] * (table.start or (0, 0))[1]  # calamine leaves out empty columns here
        for number, row in enumerate(table.iter_rows(), 1):
            cells = before + list(map(_plain_cell, row))
            for column, (last, value) in filling.items():
                if number <= last and column <= len(cells):
                    cells[column - 1] = value
            for column, cell in enumerate(cells, 1) if starts else ():
                if (number, column) in starts:
                    filling[column] = starts[number, column], cell
            if cells.count(None) < len(cells):
                yield number, cells

    def choose(self, wanted: Collection[str]) -> tuple[str, list[str]]:
        """Return the first visible sheet with ``wanted`` columns, and the names of the others.

        If no sheet has two of these, it is the first one that looks like a table.
        """
        from python_calamine import SheetTypeEnum, SheetVisibleEnum

        kinds = {each.name: each for each in self._book.sheets_metadata}
        sheets = [name for name, each in kinds.items() if each.typ == SheetTypeEnum.WorkSheet]
        visible = [name for name in sheets if kinds[name].visible == SheetVisibleEnum.Visible]
        if not visible:
            raise InputError(f"{self._source}: has no visible sheet. Name one: FILE#SHEET.")
        fits = {name: self._fit(name, wanted) for name in visible}
        best = max(visible, key=fits.__getitem__)
        joined = {_SETTINGS, *self.further(best)} if self.settings else set()
        others = [
            f'"{shown(name)}"' + " (hidden)" * (name not in visible)
            for name in sheets
            if name not in (best, *joined) and any(self.lines(name))
        ]
        return best, others

    def _fit(self, sheet: str, wanted: Collection[str]) -> int:
        """Return 2 for a sheet with at least two wanted columns, 1 for another table, else 0."""
        head = [cells for _, cells in islice(self.lines(sheet), HEADER_WITHIN)]
        header = head[header_at(head, wanted)] if head else []
        names = {str(cell).strip() for cell in header if cell is not None}
        return 2 if len(names & {*wanted}) > 1 else int(len(names) > 1)

    @cached_property
    def settings(self) -> dict[Any, Any]:
        """The settings that robin writes beside its results; none in another workbook."""
        if _SETTINGS not in self.names:
            return {}
        settings = dict(cells[:2] for _, cells in self.lines(_SETTINGS) if len(cells) > 1)
        return settings if "version of robin" in settings else {}

    def further(self, sheet: str) -> list[str]:
        """Return the sheets that go on with the rows of robin's first one: of the same header."""
        if sheet != _OURS or not self.settings:
            return []
        header = next(self.lines(sheet), None)
        further = filter(_FURTHER.fullmatch, self.names)
        return [name for name in further if next(self.lines(name), None) == header]

    def _sheet(self, name: str) -> CalamineSheet:
        with self._reading():
            if name not in self._sheets:  # to parse one takes most of the time
                self._sheets[name] = self._book.get_sheet_by_name(name)
        return self._sheets[name]

    def _protected(self) -> InputError:
        return InputError(f"{self._source}: is protected by a password. Save a copy without one.")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        from python_calamine import CalamineError, PasswordError

        try:
            yield
        except PasswordError:
            raise self._protected() from None
        except (CalamineError, IndexError, OSError) as error:
            reason = shown(str(error) or type(error).__name__, 160)
            raise Damaged(f"{self._source}: not a workbook that can be read: {reason}") from None


def file_of(name: str) -> str:
    """Return the file of a source: ``data.xlsx`` for ``data.xlsx#Sheet2``."""
    found = _SHEET.match(name)
    return found[1] if found else name


def scales_in(name: str) -> dict[str, Scale]:
    """Return each attribute's scale that a workbook by robin says; nothing for other files."""
    path = file_of(name)
    if not path.lower().endswith(ENDS) or not Path(path).is_file():
        return {}
    with Path(path).open("rb") as stream:
        try:
            scales = json.loads(str(Workbook(stream, path).settings.get("scale") or "{}"))
        except (InputError, ValueError):  # another workbook
            return {}
    named = scales.items() if isinstance(scales, dict) else ()
    ends = {name: re.fullmatch(r"(-?\d+)-(-?\d+)", str(text)) for name, text in named}
    return {name: Scale(int(each[1]), int(each[2])) for name, each in ends.items() if each}


def _plain_cell(value: object) -> object:
    """Return a cell's value, a time as text; None for an empty cell or an error."""
    if value == "" or (isinstance(value, str) and value in SPREADSHEET_ERRORS):
        return None
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _WHOLE else value
    if isinstance(value, (date, time)):
        return value.isoformat()
    return str(value) if isinstance(value, timedelta) else value
