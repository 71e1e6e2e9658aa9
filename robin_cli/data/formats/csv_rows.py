"""CSV and TSV as rows, with any separator and encoding. The first line that is not blank names the columns."""

from __future__ import annotations

import csv
import io
import re
import warnings
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from robin_cli.data import lines
from robin_cli.data.rows import BadRow, Format, Row, Table, Wanted, not_utf8
from robin_cli.model.errors import InputError, ReadAs, shown

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
_NUMBER = re.compile(r"\s*[+-]?\d+([.,])\d+\s*")
_UTF8, _WESTERN = "UTF-8", "Windows-1252"
_WIDE = ((rb"\xff\xfe|\xfe\xff", "utf-16"), (rb".\0", "utf-16-le"), (rb"\0.", "utf-16-be"))
"""The first two bytes of UTF-16: a byte order mark, or an ASCII letter."""

_UNSEEN = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
GUARDED = rf"^'*(?:[\x00\t\n\x0b\f\r]|[{_UNSEEN}]*[=+\-@＝＋－＠])"
"""The texts that robin writes to CSV behind an apostrophe, because a spreadsheet may run them: it may drop invisible
characters, and read a full-width sign as the plain one. A text that begins with apostrophes gets one more, and reading removes
one."""

_OWN = frozenset({"pair_id", "chosen"})
"""A table with one of these columns may be written by robin."""


def read_csv(stream: BinaryIO, source: str, wanted: Wanted, delimiter: str = ",") -> Table:
    """Return the rows of a CSV file, quoted as in Excel and RFC 4180. An empty cell is ""; rows of empty cells are skipped.

    The separator is the one that gives the header the most ``wanted`` names, or else the most names; ``delimiter`` wins a tie.
    A file that is not UTF-8 is read as UTF-16 or Windows-1252. A warning, ReadAs, reports what was found after the last row.

    Raises InputError for a header that cannot be used, and for a quote that does not close: the rows after it are unknown.
    """
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    wide = next((name for begin, name in _WIDE if re.match(begin, head, re.DOTALL)), "")
    if wide:
        stream = _as_utf8(stream, source, wide)
    text = head.decode(wide or "utf-8", "replace").removeprefix("\ufeff")
    found = _Dialect(
        source, delimiter, *_separator(text, delimiter, wanted), "UTF-16" if wide else ""
    )
    records = _records(stream, source, found)
    line, header = next(records, (1, None))
    if found.is_stated:  # in a line before the header
        line, header = next(records, (1, None))
    if header is None:
        return Table(None, "line", iter(()))
    if isinstance(header, BadRow):
        raise InputError(f"{source}:{line}: {header}")
    found.is_own, found.is_surely = (
        bool(_OWN.intersection(header)),
        {"pair_id", "attribute"} <= {*header},
    )
    names = [name.strip() for name in found.unguarded(header)]
    check_names(names, f"{source}:{line}", wanted)
    return Table(names, "line", _rows(records, names, found, wanted))


def _read_unnamed(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    header = stream.readline(_HEAD_BYTES)
    stream.seek(0)
    return read_csv(stream, source, wanted, "\t" if b"\t" in header and b"," not in header else ",")


def check_names(names: list[str], place: str, wanted: Wanted) -> None:
    """Raise InputError if two columns share a name that is looked for. Other columns that share a name are not kept."""
    twice = sorted({name for name in names if name in wanted.names and names.count(name) > 1})
    if twice:
        raise InputError(
            f'{place}: two columns are called "{shown(twice[0])}". Rename or remove one of them.'
        )
    if wanted.further:
        wanted.further.leave_out_twice(names, wanted.names)


def _separator(head: str, default: str, wanted: Wanted) -> tuple[str, bool]:
    """Return the separator of cells, and whether a first line ``sep=;`` states it, as Excel has it."""
    first = next(filter(None, (line.strip() for line in re.split(r"[\r\n]+", head))), "")
    if stated := re.fullmatch(r"sep=([^\w\"])", first):
        return stated[1], True

    def worth(mark: str) -> tuple[int, bool, int]:
        names = [name.strip() for name in next(csv.reader([first], delimiter=mark), [])]
        return len({*names} & {*wanted.names}), mark == default and len(names) > 1, len(names)

    return max((default, *_MARKS), key=worth), False


@dataclass
class _Dialect:
    """The dialect of a file, as far as its lines have shown it.

    Attributes:
        usual: the usual separator for the end of the file's name.
        is_stated: the first line states the separator.
        is_own: robin may have written the apostrophes before texts that a spreadsheet may run; ``is_surely``: it has.
    """

    source: str
    usual: str
    delimiter: str
    is_stated: bool
    encoding: str
    is_own: bool = False
    is_surely: bool = False
    point: str = ""
    has_unguarded: bool = False

    def decoded(self, line: bytes) -> str | BadRow:
        """Decode a line in the encoding of the first line that is not ASCII: UTF-8, or Windows-1252 if it is mostly ASCII."""
        if line.isascii():
            return line.decode("ascii")
        try:
            text, encoding = line.decode("utf-8"), _UTF8
        except UnicodeDecodeError as error:
            wrong = BadRow(not_utf8(line, error), "not UTF-8")
            foreign = sum(byte > 0x7F for byte in line[:_HEAD_BYTES])
            letters = sum(map(str.isalpha, line[:_HEAD_BYTES].decode("ascii", "ignore")))
            if self.encoding not in ("", _WESTERN) or foreign > max(8, letters):
                return wrong
            try:
                text, encoding = line.decode("cp1252"), _WESTERN
            except UnicodeDecodeError:
                return wrong
        if self.encoding == _WESTERN != encoding:
            return BadRow(
                f"the line is UTF-8, and an earlier one {_WESTERN}. Save the file as UTF-8, all of it.",
                "not UTF-8",
            )
        self.encoding = self.encoding or encoding
        return text

    def number(self, cell: str) -> str:
        """Return a number with a decimal point instead of a comma, other cells unchanged. BadRow if the marks are mixed."""
        found = _NUMBER.fullmatch(cell)
        if found is None:
            return cell
        self.point = self.point or found[1]
        if self.point != found[1]:
            raise BadRow(
                f'"{shown(cell)}" has another decimal mark than the numbers before it. Write all of them with a point.',
                "another decimal mark",
            )
        return cell.replace(",", ".")

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
            "decimal comma" * (self.point == ","),
            "without the apostrophes that keep spreadsheets from running a text"
            * (self.has_unguarded and not self.is_surely),
        ]
        if any(unusual) or self.encoding not in ("", _UTF8):
            read_as = ", ".join([self.encoding or _UTF8, *filter(None, unusual)])
            warnings.warn(f"{self.source}: read as {read_as}", ReadAs, stacklevel=1)


def _rows(
    records: Iterator[_Record], names: list[str], found: _Dialect, wanted: Wanted
) -> Iterator[tuple[int, Row | BadRow]]:
    numbers = [name for name in names if name in wanted.numbers and found.delimiter != ","]
    try:
        for line, cells in records:
            if isinstance(cells, BadRow):
                yield line, cells
            elif len(cells) != len(names):
                mark = _MARKS.get(found.delimiter, "").removesuffix("s") or "separator"
                bad = f"the row has {len(cells)} cells, the header {len(names)}. Put cells that hold a {mark} or a line break "
                step = "in double quotes, or leave such rows out with --skip-bad-rows."
                yield line, BadRow(bad + step, "too many or too few cells")
            else:
                row: Row = dict(zip(names, found.unguarded(cells), strict=True))
                try:
                    for name in numbers:
                        row[name] = found.number(str(row[name]))
                except BadRow as bad_row:
                    yield line, bad_row
                else:
                    yield line, row
    finally:
        found.warn()


def _records(stream: BinaryIO, source: str, found: _Dialect) -> Iterator[_Record]:
    """Yield the rows that have a cell that is not empty."""
    # The module's own limit is 128 KiB. It is one for the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), _LONGEST_CELL))
    faults: list[BadRow] = []  # of the lines of the current row
    texts, begin = _texts(stream, source, found, faults), 1
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


def _texts(stream: BinaryIO, source: str, found: _Dialect, faults: list[BadRow]) -> Iterator[str]:
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
            text = found.decoded(piece)
            if isinstance(text, BadRow):
                faults.append(text)
                text = piece.decode("utf-8", "replace")
            yield text


def _as_utf8(stream: BinaryIO, source: str, encoding: str) -> BinaryIO:
    """Return a UTF-16 file as UTF-8. InputError for bytes that are not UTF-16."""
    try:
        return io.BytesIO(stream.read().decode(encoding).encode())
    except UnicodeDecodeError as error:
        raise InputError(
            f"{source}: begins as UTF-16, and is cut short or damaged ({error.reason}). Save it as UTF-8."
        ) from None


def _raise_not_csv(error: csv.Error, place: str) -> NoReturn:
    endless = "end of data" in str(error) or "field limit" in str(error)
    reason = _NOT_CLOSED if endless else f"not valid CSV: {error}"
    raise InputError(f"{place}: {reason}. {_QUOTES}") from None


FORMATS = {
    ".csv": Format(read_csv),
    ".tsv": Format(partial(read_csv, delimiter="\t")),
    "": Format(_read_unnamed, (b"",), packable=False),
}
