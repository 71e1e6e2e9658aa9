"""Sheets of Excel and LibreOffice workbooks as rows.

What a person sees decides: the first visible sheet whose columns fit, below its title, with merged
cells filled.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain, islice
from typing import Any, BinaryIO

from robin_cli.data.cells import Notes, RowOf, table_of
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted
from robin_cli.data.sheet_layout import Layout, layout_of
from robin_cli.data.workbooks import ENDS, Workbook, file_of
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import number_of

CUT = " … (cut: an Excel cell holds no more)"
"""The end of a text that robin cut to fit into a cell."""

_MOST_CHARACTERS = 32_767
_FULL = (
    "cell",
    f"of exactly {_MOST_CHARACTERS:,} characters, the most that Excel keeps: the end may be missing",
)
_NAMED = 3


def read_sheet(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:
    """Return the rows of the sheet that ``source`` names, or of the first visible one that fits.

    An empty cell or an error such as #N/A is None; empty rows are skipped. Whole numbers are ints,
    times are texts, a formula is its value. ``wanted`` columns that are not numbers become texts:
    an answer may be 42.

    Raises:
        InputError: the workbook cannot be read; there is no such sheet; a formula has no value.
    """
    book = Workbook(stream, source)
    sheet, others = source[len(file_of(source)) + 1 :], list[str]()
    if not sheet:
        sheet, others = book.choose(wanted.names)
    if sheet not in book.names:
        known = ", ".join(f'"{shown(name)}"' for name in book.names)
        raise InputError(f'{source}: has no sheet "{shown(sheet)}". There are: {known}')
    layout = layout_of(stream, sheet)
    notes = Notes()
    if others:
        notes.facts.append(f'sheet "{shown(sheet)}" is read, not {", ".join(others)}')
    more = (islice(book.lines(name), 1, None) for name in book.further(sheet))
    records = chain(book.lines(sheet, layout.merged), *more)
    columns = partial(_columns, layout=layout, source=source, wanted=wanted, notes=notes)
    table = table_of(records, columns, source, "row", wanted, notes)
    notes.facts.extend(_notes_of(layout, table.names or []))
    return table._replace(sheet=sheet)


def _columns(
    names: list[str], layout: Layout, source: str, wanted: Wanted, notes: Notes
) -> tuple[list[str], RowOf]:
    """Return the names of the columns, and what makes a row of cells."""
    for row, column in layout.unsaved:
        if column <= len(names) and (name := names[column - 1]) in wanted.names:
            raise InputError(
                f'{source}:row {row}: column "{shown(name)}" holds a formula without a stored value. '
                "Open the file in Excel or LibreOffice, and save it once."
            )
    numbers = [name for name in names if name in wanted.numbers]
    texts = [name for name in names if name in wanted.names and name not in wanted.numbers]

    def row_of(cells: list[Any]) -> Row:
        row: Row = dict(zip(names, cells, strict=True))
        for name in numbers:
            if isinstance(number := row[name], str):
                row[name] = notes.number(number)
        for name in texts:
            if (value := row[name]) is None:
                continue
            row[name] = text = str(value).upper() if isinstance(value, bool) else str(value)
            if text.endswith(CUT):
                raise BadRow(
                    f'column "{shown(name)}" holds a text that was cut to fit its cell. Read it '
                    "from another format.",
                    "a text that was cut",
                )
            if len(text.encode("utf-16-le", "surrogatepass")) == 2 * _MOST_CHARACTERS:
                notes.counts[_FULL] += 1
        return row

    return names, row_of


def _notes_of(layout: Layout, names: list[str]) -> Iterator[str]:
    if layout.hidden:
        listed = ", ".join(map(str, layout.hidden[:_NAMED])) + ", …" * (len(layout.hidden) > _NAMED)
        yield f"{number_of(len(layout.hidden), 'hidden row')} ({listed}) read as any other"
    hidden = [names[at - 1] for at in layout.hidden_columns if 0 < at <= len(names)]
    if hidden := [f'"{shown(name)}"' for name in hidden if name]:
        listed = ", ".join(hidden[:_NAMED]) + ", …" * (len(hidden) > _NAMED)
        yield f"{number_of(len(hidden), 'hidden column')} ({listed}) read as any other"
    if layout.merged:
        yield "the value of merged cells counts in each of their rows"
    if layout.unsaved:
        yield f"{number_of(len(layout.unsaved), 'formula')} without a stored value, read as empty"


FORMATS = {end: Format(read_sheet, packable=False) for end in ENDS}
