"""CSV and TSV as rows, with any separator and encoding. The header is the first line but titles.

A row is bad if it has too many or too few cells: ``row_of``.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, Literal

from robin_cli.data.cells import HEADER_WITHIN, SPREADSHEET_ERRORS, Notes, RowOf, table_of
from robin_cli.data.encodings import WRONG_BYTES, Text, called, or_name_it, text_of
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted
from robin_cli.model.errors import InputError, shown

_HEAD = 2**16
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "strokes"}
_QUOTES = (
    "A cell that holds a quote, a comma or a line break stands in double quotes, and the quotes in "
    'it are doubled ("").'
)
_UNSEEN = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
GUARDED = rf"^'*(?:[\x00\t\n\x0b\f\r]|[{_UNSEEN}]*[=+\-@＝＋－＠])"
"""The texts that robin writes to CSV behind an apostrophe, because a spreadsheet may run them.

A spreadsheet may drop invisible characters, and read a full-width sign as the plain one. A text
that begins with apostrophes gets one more, and reading removes one."""

_OWN = ({"pair_id"}, {"chosen", "rejected", "margin"})
"""A table with one of these sets of columns may be written by robin."""

_ERRORS = ("spreadsheet error", "such as #N/A counted as missing")
_UNGUARDED = ("row", "without the apostrophes that keep spreadsheets from running a text")


def read_csv(stream: BinaryIO, source: str, wanted: Wanted, usual: str = ",") -> RowTable:
    """Return the rows of a CSV file, quoted as in Excel and RFC 4180. An empty cell is "".

    The separator is the one that gives the header the most ``wanted`` names, or else the most
    names; ``usual`` wins a tie.

    Raises:
        InputError: the header cannot be used, or a quote does not close: what follows is unknown.
    """
    # The module's own limit is 128 KiB. It is one for the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), 2**25))
    text, encoding = text_of(stream, source, wanted.encoding)
    head = text.read(_HEAD)
    separator, is_stated = _separator(head, usual, wanted)
    notes = Notes()
    if separator != usual:
        name = _MARKS.get(separator, shown(separator))
        notes.facts.append(f"read as {encoding or 'UTF-8'}, separated by {name}")
    elif encoding:
        notes.facts.append(f"read as {encoding}")
    quoting = _quoting(text, separator)
    if quoting == csv.QUOTE_NONE:
        notes.facts.append("quotes are read as they are, because they do not pair up")
    text.seek(0)
    is_spaced = _is_spaced(head, separator)
    reader = csv.reader(
        text, delimiter=separator, quoting=quoting, skipinitialspace=is_spaced, strict=True
    )
    records = _records(reader, source)
    if is_stated:  # in a line before the header
        next(records, None)
    columns = partial(_columns, separator=separator, text=text, wanted=wanted, notes=notes)
    return table_of(records, columns, source, "line", wanted, notes)


def _read_unnamed(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:
    header = stream.readline(_HEAD)
    stream.seek(0)
    return read_csv(stream, source, wanted, "\t" if b"\t" in header and b"," not in header else ",")


def _separator(head: str, usual: str, wanted: Wanted) -> tuple[str, bool]:
    """Return the separator, and whether a first line ``sep=;`` states it, as Excel has it."""
    first, *others = [line for line in re.split(r"[\r\n]+", head) if line.strip()] or [""]
    if stated := re.fullmatch(r"sep=([^\w\"])", first.strip()):
        return stated[1], True

    def worth(mark: str) -> tuple[int, bool, int]:
        lines = (first, *others[:HEADER_WITHIN])
        cells = [next(csv.reader([line], delimiter=mark), []) for line in lines]
        fits = max(len({name.strip() for name in names} & {*wanted.names}) for names in cells)
        return fits, mark == usual and len(cells[0]) > 1, len(cells[0])

    return max((usual, *_MARKS), key=worth), False


def _is_spaced(head: str, separator: str) -> bool:
    """Return whether a space follows each separator of the first line: it is no part of a cell."""
    _, *names = head.lstrip().partition("\n")[0].split(separator)
    return bool(names) and all(name.startswith(" ") and name.strip() for name in names)


def _quoting(text: Text, separator: str) -> Literal[0, 3]:
    """Return whether cells are quoted: in TSV a quote may be a character like any other.

    It is one if quotes do not pair up, and none is doubled.
    """
    text.seek(0)
    try:
        for _ in csv.reader(text, delimiter=separator, strict=True) if separator == "\t" else ():
            pass
    except csv.Error:
        text.seek(0)
        return csv.QUOTE_MINIMAL if any('""' in line for line in text) else csv.QUOTE_NONE
    return csv.QUOTE_MINIMAL


def _records(reader: Any, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the cells of each row that has some, with the line on which it begins."""
    line = 1
    try:
        for cells in reader:
            if any(cells):
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        fact = f"not valid CSV: {error}"
        if re.search("end of data|field limit", fact):
            fact = "a quote opened in this row is never closed"
        raise InputError(f"{source}:{line}: {fact}. {_QUOTES}") from None


def _columns(
    header: list[str], separator: str, text: Text, wanted: Wanted, notes: Notes
) -> tuple[list[str], RowOf]:
    """Return the names of the columns, and what makes a row of cells."""
    is_own = any(columns <= {*header} for columns in _OWN)
    names = _unguarded(header) if is_own else header
    numbers = [name for name in names if name in wanted.numbers and separator != ","]
    is_sound = text.errors == "strict"

    def row_of(cells: list[str]) -> Row:
        if len(cells) > len(names) and not any(cells[len(names) :]):
            cells = cells[: len(names)]  # Excel saves empty columns beside a table
        if len(cells) != len(names):
            raise _uneven(len(cells), len(names), separator)
        if is_own and cells != (plain := _unguarded(cells)):
            if not {"pair_id", "attribute"} <= {*header}:  # else robin surely wrote it
                notes.counts[_UNGUARDED] += 1
            cells = plain
        row: Row = dict(zip(names, cells, strict=True))
        if not is_sound:
            _check_bytes(row, text.encoding, wanted.encoding)
        if not SPREADSHEET_ERRORS.isdisjoint(cells):
            wrong = [name for name, cell in row.items() if cell in SPREADSHEET_ERRORS]
            notes.counts[_ERRORS] += len(wrong)
            row.update(dict.fromkeys(wrong))
        for name in numbers:
            if number := row[name]:
                row[name] = notes.number(str(number))
        return row

    return names, row_of


def _uneven(cells: int, names: int, separator: str) -> BadRow:
    mark = _MARKS.get(separator, "").removesuffix("s") or "separator"
    return BadRow(
        f"the row has {cells} cells, the header {names}. Put cells that hold a {mark} or a line "
        "break in double quotes, or leave such rows out with --skip-bad-rows.",
        "too many or too few cells",
    )


def _check_bytes(row: Row, encoding: str, choice: str | None) -> None:
    """Raise BadRow if a cell, or a column's name, has a byte that is not in the file's encoding."""
    for name, cell in row.items():
        if wrong := re.search(f"[{WRONG_BYTES}]", f"{name}{cell}"):
            raise BadRow(
                f'byte 0x{ord(wrong[0]) - 0xDC00:02X} in column "{shown(name)}" is not {called(encoding)}. Save the '
                f"whole file as UTF-8{or_name_it(choice)}.",
                "not UTF-8",
            )


def _unguarded(cells: list[str]) -> list[str]:
    """Return the cells without the apostrophes that robin put before texts to guard them."""
    return [
        cell[1:] if cell.startswith("'") and re.match(GUARDED, cell) else cell for cell in cells
    ]


FORMATS = {
    ".csv": Format(read_csv),
    ".tsv": Format(partial(read_csv, usual="\t")),
    "": Format(_read_unnamed, (b"",), packable=False),
}
