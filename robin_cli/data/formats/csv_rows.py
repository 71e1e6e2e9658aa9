"""CSV and TSV as rows, with any separator and encoding. The first line that is not a title names the columns."""

from __future__ import annotations

import csv
import re
import warnings
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from robin_cli.data import lines
from robin_cli.data.encodings import UTF8, as_utf8
from robin_cli.data.rows import (
    HEADER_WITHIN,
    SPREADSHEET_ERRORS,
    BadRow,
    DecimalMark,
    Format,
    Row,
    Table,
    Wanted,
    header_at,
    not_utf8,
)
from robin_cli.model.errors import InputError, ReadAs, shown
from robin_cli.model.records import number_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_Record = tuple[int, list[str] | BadRow]
"""The line on which a record begins, and its cells."""

_LONGEST_CELL = 2**25
_HEAD_BYTES = 2**16
_PIECES = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_NOT_CLOSED = "a quote opened in this row is never closed"
_QUOTES = 'A cell that holds a quote, a comma or a line break stands in double quotes, and the quotes in it are doubled ("").'
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "strokes"}
_UNSEEN = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
GUARDED = rf"^'*(?:[\x00\t\n\x0b\f\r]|[{_UNSEEN}]*[=+\-@＝＋－＠])"
"""The texts that robin writes to CSV behind an apostrophe, because a spreadsheet may run them: it may drop invisible
characters, and read a full-width sign as the plain one. A text that begins with apostrophes gets one more, and reading removes
one."""

_OWN = ({"pair_id"}, {"chosen", "rejected", "margin"})
"""A table with one of these sets of columns may be written by robin."""


def read_csv(stream: BinaryIO, source: str, wanted: Wanted, delimiter: str = ",") -> Table:
    """Return the rows of a CSV file, quoted as in Excel and RFC 4180. An empty cell is ""; rows of empty cells are skipped.

    The separator is the one that gives the header the most ``wanted`` names, or else the most names; ``delimiter`` wins a tie.
    A warning, ReadAs, reports what is unusual after the last row.

    Raises InputError for a header that cannot be used, and for a quote that does not close: the rows after it are unknown.
    """
    stream, encoding = as_utf8(stream, source, wanted.encoding)
    head = stream.read(_HEAD_BYTES).decode("utf-8", "replace").removeprefix("\ufeff")
    stream.seek(0)
    found = _Dialect(source, delimiter, *_separator(head, delimiter, wanted), encoding)
    records = _records(stream, source, found)
    if found.is_stated:  # in a line before the header
        next(records, None)
    first = list(islice(records, HEADER_WITHIN))
    if not first:
        return Table(None, "line", iter(()))
    at = header_at([[] if isinstance(cells, BadRow) else cells for _, cells in first], wanted.names)
    line, header = first[at]
    if isinstance(header, BadRow):
        raise InputError(f"{source}:{line}: {header}")
    found.header_line = line if at else 0
    found.is_own, found.is_surely = (
        any(ours <= {*header} for ours in _OWN),
        {"pair_id", "attribute"} <= {*header},
    )
    names = [name.strip() for name in found.unguarded(header)]
    check_names(names, f"{source}:{line}", wanted)
    return Table(names, "line", _rows(chain(first[at + 1 :], records), names, found, wanted))


def _read_unnamed(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    header = stream.readline(_HEAD_BYTES)
    stream.seek(0)
    return read_csv(stream, source, wanted, "\t" if b"\t" in header and b"," not in header else ",")


def check_names(names: list[str], place: str, wanted: Wanted) -> None:
    """Raise InputError if two columns share a name that is looked for."""
    twice = sorted({name for name in names if name in wanted.names and names.count(name) > 1})
    if twice:
        raise InputError(
            f'{place}: two columns are called "{shown(twice[0])}". Rename or remove one of them.'
        )


def _separator(head: str, default: str, wanted: Wanted) -> tuple[str, bool]:
    """Return the separator of cells, and whether a first line ``sep=;`` states it, as Excel has it."""
    first, *others = [line for line in re.split(r"[\r\n]+", head) if line.strip()] or [""]
    if stated := re.fullmatch(r"sep=([^\w\"])", first.strip()):
        return stated[1], True

    def worth(mark: str) -> tuple[int, bool, int]:
        cells = [
            next(csv.reader([line], delimiter=mark), [])
            for line in (first, *others[:HEADER_WITHIN])
        ]
        fits = max(len({name.strip() for name in names} & {*wanted.names}) for names in cells)
        return fits, mark == default and len(cells[0]) > 1, len(cells[0])

    return max((default, *_MARKS), key=worth), False


@dataclass
class _Dialect:
    """The dialect of a file, as far as its lines have shown it.

    Attributes:
        usual: the usual separator for the end of the file's name.
        is_stated: the first line states the separator.
        encoding: how the file was read, if it is not UTF-8.
        header_line: the line of the header if others stand before it.
        errors: cells that hold a spreadsheet's error.
        is_own: robin may have written the apostrophes before texts that a spreadsheet may run; ``is_surely``: it has.
    """

    source: str
    usual: str
    delimiter: str
    is_stated: bool
    encoding: str
    header_line: int = 0
    errors: int = 0
    is_own: bool = False
    is_surely: bool = False
    decimal: DecimalMark = field(default_factory=DecimalMark)
    has_unguarded: bool = False

    def unguarded(self, cells: list[str]) -> list[str]:
        """Return the cells without the apostrophes that robin put before texts that a spreadsheet may run."""
        if not self.is_own or not any(cell.startswith("'") for cell in cells):
            return cells
        found = [
            cell[1:] if cell.startswith("'") and re.match(GUARDED, cell) else cell for cell in cells
        ]
        self.has_unguarded = self.has_unguarded or found != cells
        return found

    def warn(self) -> None:
        """Warn the user of what is unusual in the file."""
        unusual = [
            f"separated by {_MARKS.get(self.delimiter, shown(self.delimiter))}"
            * (self.delimiter != self.usual),
            "decimal comma" * (self.decimal.mark == ","),
            f"column names in line {self.header_line}" * bool(self.header_line),
            f"{number_of(self.errors, 'spreadsheet error')} such as #N/A counted as missing"
            * bool(self.errors),
            "without the apostrophes that keep spreadsheets from running a text"
            * (self.has_unguarded and not self.is_surely),
        ]
        if any(unusual) or self.encoding:
            read_as = ", ".join([self.encoding or UTF8, *filter(None, unusual)])
            warnings.warn(f"{self.source}: read as {read_as}", ReadAs, stacklevel=1)


def _rows(
    records: Iterator[_Record], names: list[str], found: _Dialect, wanted: Wanted
) -> Iterator[tuple[int, Row | BadRow]]:
    numbers = [name for name in names if name in wanted.numbers and found.delimiter != ","]
    try:
        for line, cells in records:
            try:
                yield (
                    line,
                    cells if isinstance(cells, BadRow) else _row(cells, names, numbers, found),
                )
            except BadRow as bad:
                yield line, bad
    finally:
        found.warn()


def _row(cells: list[str], names: list[str], numbers: list[str], found: _Dialect) -> Row:
    """Return a record as a row. BadRow if it has too many or too few cells, or numbers with two decimal marks."""
    if len(cells) > len(names) and not any(cells[len(names) :]):
        cells = cells[: len(names)]  # Excel saves empty columns beside a table
    if len(cells) != len(names):
        mark = _MARKS.get(found.delimiter, "").removesuffix("s") or "separator"
        raise BadRow(
            f"the row has {len(cells)} cells, the header {len(names)}. Put cells that hold a {mark} or a line break "
            "in double quotes, or leave such rows out with --skip-bad-rows.",
            "too many or too few cells",
        )
    row: Row = dict(zip(names, found.unguarded(cells), strict=True))
    if not SPREADSHEET_ERRORS.isdisjoint(cells):
        wrong = [name for name, cell in row.items() if cell in SPREADSHEET_ERRORS]
        found.errors += len(wrong)
        row.update(dict.fromkeys(wrong))
    for name in numbers:
        row[name] = found.decimal.number(str(row[name])) if row[name] else row[name]
    return row


def _records(stream: BinaryIO, source: str, found: _Dialect) -> Iterator[_Record]:
    """Yield the rows that have a cell that is not empty."""
    # The module's own limit is 128 KiB. It is one for the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    faults: list[BadRow] = []  # of the lines of the current row
    texts, begin = _texts(stream, source, faults), 1
    reader = csv.reader(texts, delimiter=found.delimiter, strict=True)
    try:
        for cells in reader:
            if faults:
                yield begin, faults[0]
                faults.clear()
            elif any(cells):
                yield begin, cells
            begin = reader.line_num + 1
    except csv.Error as error:
        _raise_not_csv(error, f"{source}:{begin}")


def _texts(stream: BinaryIO, source: str, faults: list[BadRow]) -> Iterator[str]:
    """Yield the lines as texts, with their ends. A line that cannot be decoded adds to ``faults``."""
    for _, line in lines.numbered_lines(stream, source):
        if line.isascii() and (
            b"\r" not in line or line.find(b"\r") == len(line) - 2
        ):  # nearly always
            yield line.decode("ascii")
            continue
        # Old Macs end lines with a carriage return alone, which csv accepts only at the end of a text.
        several = b"\r" in line and not (line.endswith(b"\r\n") and line.count(b"\r") == 1)
        for piece in _PIECES.findall(line) if several else (line,):
            try:
                yield piece.decode()
            except UnicodeDecodeError as error:
                faults.append(BadRow(not_utf8(piece, error), "not UTF-8"))
                yield piece.decode("utf-8", "replace")


def _raise_not_csv(error: csv.Error, place: str) -> NoReturn:
    endless = "end of data" in str(error) or "field limit" in str(error)
    reason = _NOT_CLOSED if endless else f"not valid CSV: {error}"
    raise InputError(f"{place}: {reason}. {_QUOTES}") from None


FORMATS = {
    ".csv": Format(read_csv),
    ".tsv": Format(partial(read_csv, delimiter="\t")),
    "": Format(_read_unnamed, (b"",), packable=False),
}
