"""Sheets of Excel and LibreOffice workbooks as rows.

What a person sees decides: the first visible sheet whose columns fit, below its title, with merged cells filled. A warning,
ReadAs, says what is unusual.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO

from robin_cli.data.formats.csv_rows import check_names
from robin_cli.data.rows import (
    HEADER_WITHIN,
    BadRow,
    DecimalMark,
    Format,
    Row,
    Table,
    Wanted,
    header_at,
)
from robin_cli.data.sheet_layout import Layout, layout_of
from robin_cli.data.workbooks import ENDS, Line, Workbook, file_of
from robin_cli.model.errors import InputError, ReadAs, shown
from robin_cli.model.records import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

CUT = " … (cut: an Excel cell holds no more)"
"""The end of a text that robin cut to fit into a cell."""

_MOST_CHARACTERS = 32_767
_NAMED = 3


def read_sheet(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    """Return the rows of the sheet that ``source`` names, or else of the first visible one whose columns fit.

    An empty cell or an error such as #N/A is None; empty rows are skipped. Whole numbers are ints, times are texts, a formula
    is its value. ``wanted`` columns that are not numbers become texts: an answer may be 42.

    Raises:
        InputError: the workbook cannot be read; there is no such sheet; a formula has no stored value.
    """
    book = Workbook(stream, source)
    sheet, others = source[len(file_of(source)) + 1 :], list[str]()
    if not sheet:
        sheet, others = book.choose(wanted.names)
    if sheet not in book.names:
        known = ", ".join(f'"{shown(name)}"' for name in book.names)
        raise InputError(f'{source}: has no sheet "{shown(sheet)}". There are: {known}')
    layout = layout_of(stream, sheet).without_columns(book.first_column(sheet))
    lines = book.lines(sheet, layout.merged)
    head = list(islice(lines, HEADER_WITHIN))
    if not head:
        return Table(None, "row", iter(()))
    at = header_at([line.cells for line in head], wanted.names)
    names = ["" if cell is None else str(cell).strip() for cell in head[at].cells]
    check_names(names, f"{source}:row {head[at].number}", wanted)
    _check_formulas(layout, names, wanted, source)
    unusual = _Unusual(
        source,
        [
            *([f'sheet "{shown(sheet)}" is read, not {", ".join(others)}'] if others else []),
            *([f"the column names are in row {head[at].number}"] if at else []),
            *_notes_of(layout),
        ],
    )
    more = (islice(book.lines(name), 1, None) for name in book.further(sheet))
    return Table(names, "row", _rows(chain(head[at + 1 :], lines, *more), names, wanted, unusual))


@dataclass
class _Unusual:
    """What is unusual in a sheet, for the user."""

    source: str
    notes: list[str]
    decimal: DecimalMark = field(default_factory=DecimalMark)
    full_cells: int = 0

    def warn(self) -> None:
        if self.decimal.mark == ",":
            self.notes.append("numbers have a decimal comma")
        if self.full_cells:
            cells = number_of(self.full_cells, "cell")
            self.notes.append(
                f"{cells} of exactly {_MOST_CHARACTERS:,} characters, the most that Excel keeps: the end may be missing"
            )
        if self.notes:
            warnings.warn(f"{self.source}: {'; '.join(self.notes)}", ReadAs, stacklevel=1)


def _check_formulas(layout: Layout, names: list[str], wanted: Wanted, source: str) -> None:
    """Raise InputError for a formula without a stored value in a wanted column."""
    for row, column in layout.unsaved:
        if column <= len(names) and (name := names[column - 1]) in wanted.names:
            raise InputError(
                f'{source}:row {row}: column "{shown(name)}" holds a formula without a stored value. Open the file in Excel or '
                "LibreOffice, and save it once."
            )


def _notes_of(layout: Layout) -> Iterator[str]:
    if layout.hidden:
        listed = ", ".join(map(str, layout.hidden[:_NAMED])) + ", …" * (len(layout.hidden) > _NAMED)
        yield f"{number_of(len(layout.hidden), 'hidden row')} ({listed}) read as any other"
    if layout.merged:
        yield "the value of merged cells counts in each of their rows"
    if layout.unsaved:
        yield f"{number_of(len(layout.unsaved), 'formula')} without a stored value, read as empty"


def _rows(
    lines: Iterator[Line], names: list[str], wanted: Wanted, unusual: _Unusual
) -> Iterator[tuple[int, Row | BadRow]]:
    numbers = [name for name in names if name in wanted.numbers]
    texts = [name for name in names if name in wanted.names and name not in wanted.numbers]
    try:
        for number, cells in lines:
            try:
                yield number, _row(dict(zip(names, cells, strict=True)), numbers, texts, unusual)
            except BadRow as bad:
                yield number, bad
    finally:
        unusual.warn()


def _row(row: Row, numbers: list[str], texts: list[str], unusual: _Unusual) -> Row:
    """Return the row with numbers and texts as such. BadRow for a text that robin cut, and for mixed decimal marks."""
    for name in numbers:
        if isinstance(number := row[name], str):
            row[name] = unusual.decimal.number(number)
    for name in texts:
        row[name] = text = _text(row[name])
        if text is None:
            continue
        if text.endswith(CUT):
            raise BadRow(
                f'column "{shown(name)}" holds a text that was cut to fit its cell. Read it from another format.',
                "a text that was cut",
            )
        unusual.full_cells += _is_full(text)
    return row


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).upper() if isinstance(value, bool) else str(value)


def _is_full(text: str) -> bool:
    units = len(text) if 2 * len(text) < _MOST_CHARACTERS else len(text.encode("utf-16-le")) // 2
    return units == _MOST_CHARACTERS


FORMATS = {end: Format(read_sheet, packable=False) for end in ENDS}
