"""CSV and TSV as rows. The first line that is not blank names the columns."""

from __future__ import annotations

import csv
import re
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from robin_cli.datasets import lines
from robin_cli.datasets.rows import BadRow, Format, Row, Table, Wanted, not_utf8
from robin_cli.model.errors import InputError, shown, size

if TYPE_CHECKING:
    from collections.abc import Iterator

_Record = tuple[int, list[str] | BadRow]
"""The line a record begins on, and its cells."""

_MOST_CELLS = 2**20
_SHORT = 2**20
_PIECES = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_NOT_CLOSED = "a quote opened in this row is never closed"
_QUOTES = (
    'A cell that holds a quote, a comma or a line break stands in double quotes, and the quotes in it are doubled ("").'
)


def read_csv(stream: BinaryIO, source: str, wanted: Wanted, delimiter: str = ",") -> Table:
    """Rows of cells, quoted as Excel and RFC 4180 have it; an empty cell is an empty text, a row of empty cells no row.

    Raises InputError for a header that cannot be used and for quotes that do not close: where a row ends is not known
    after them.
    """
    records = _records(stream, source, delimiter)
    line, header = next(records, (1, None))
    if header is None:
        return Table(None, "line", iter(()))
    if isinstance(header, BadRow):
        raise InputError(f"{source}:{line}: {header}")
    names = [name.strip() for name in header]
    check_names(names, f"{source}:{line}", wanted)
    _check_delimiter(names, f"{source}:{line}", delimiter)
    return Table(names, "line", _rows(records, names))


def _read_unnamed(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    header = stream.readline(_SHORT)
    stream.seek(0)
    return read_csv(stream, source, wanted, "\t" if b"\t" in header and b"," not in header else ",")


def check_names(names: list[str], place: str, wanted: Wanted) -> None:
    """InputError where two columns have a name that is looked for; of others of one name nothing is kept."""
    twice = sorted({name for name in names if name in wanted.names and names.count(name) > 1})
    if twice:
        raise InputError(f'{place}: two columns are called "{shown(twice[0])}". Rename or remove one of them.')
    if wanted.further:
        wanted.further.leave_out_twice(names, wanted.names)


def _check_delimiter(names: list[str], place: str, delimiter: str) -> None:
    other = next((mark for mark in ",;\t|" if mark != delimiter and mark in names[0]), None)
    if len(names) == 1 and other:
        mark, own = ("a tab" if each == "\t" else f'"{each}"' for each in (other, delimiter))
        raise InputError(
            f"{place}: the columns seem to be separated by {mark}, not {own}. "
            "Save the file with commas as .csv, or with tabs as .tsv."
        )


def _rows(records: Iterator[_Record], names: list[str]) -> Iterator[tuple[int, Row | BadRow]]:
    for line, cells in records:
        if isinstance(cells, BadRow):
            yield line, cells
        elif len(cells) != len(names):
            bad = f"the row has {len(cells)} cells, the header {len(names)}. Put cells that hold a comma or a line break in "
            step = "double quotes, or leave such rows out with --skip-bad-rows."
            yield line, BadRow(bad + step, "too many or too few cells")
        else:
            yield line, dict(zip(names, cells, strict=True))


def _records(stream: BinaryIO, source: str, delimiter: str) -> Iterator[_Record]:
    # The module's own limit is 128 KiB. It is one for the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), lines.MAX_LINE_BYTES))
    text = _Text(stream, source, delimiter)
    reader = csv.reader(text.lines(), delimiter=delimiter, strict=True)
    blank = filled = 0
    while True:
        text.begin = begin = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            _raise_not_csv(error, f"{source}:{begin}")
        text.size = text.marks = 0
        if cells is None:
            return
        if text.faults:
            yield begin, text.faults[0]
            text.faults.clear()
        elif any(cells):
            filled += 1
            yield begin, cells
        else:
            blank += 1
            lines.check_idle(blank, filled, source, "rows of empty cells")


class _Text:
    """The lines of a file as text, and how long the row is that they are part of.

    What is wrong with a line is put into ``faults``, for the reader knows what row it belongs to. Quotes may spread a row over
    many lines; past MAX_LINE_BYTES, or _MOST_CELLS and lines, it is an InputError.
    """

    def __init__(self, stream: BinaryIO, source: str, delimiter: str) -> None:
        self.faults: list[BadRow] = []
        # Where the row begins; its bytes, and its delimiters and lines behind the first _SHORT of these.
        self.begin, self.size, self.marks = 1, 0, 0
        self._stream, self._source, self._delimiter = stream, source, delimiter.encode()

    def lines(self) -> Iterator[str]:
        """The lines, with their ends."""
        for number, line in lines.numbered_lines(self._stream, self._source):
            if isinstance(line, BadRow):  # whether it ends inside a quoted cell is not known
                raise InputError(f"{self._source}:{number}: {line}")
            # Old Macs end lines with a carriage return alone, which csv accepts only as the end of what it is given.
            several = b"\r" in line and not (line.endswith(b"\r\n") and line.count(b"\r") == 1)
            for piece in map(re.Match.group, _PIECES.finditer(line)) if several else (line,):
                self.size += len(piece)
                if self.size > _SHORT:
                    self._check(piece)
                try:
                    yield piece.decode("utf-8")
                except UnicodeDecodeError as error:
                    self.faults[:] = self.faults or [BadRow(not_utf8(piece, error), "not UTF-8")]
                    yield piece.decode("utf-8", "replace")

    def _check(self, piece: bytes) -> None:
        self.marks += 1 + piece.count(self._delimiter)
        if self.size > lines.MAX_LINE_BYTES or self.marks > _MOST_CELLS:
            what = size(lines.MAX_LINE_BYTES) if self.marks <= _MOST_CELLS else f"{_MOST_CELLS:,} cells and lines"
            raise InputError(
                f"{self._source}:{self.begin}: {_NOT_CLOSED}, or the row is longer than {what}. {_QUOTES} Else shorten the row."
            )


def _raise_not_csv(error: csv.Error, place: str) -> NoReturn:
    endless = "end of data" in str(error) or "field limit" in str(error)
    reason = _NOT_CLOSED if endless else f"not valid CSV: {error}"
    raise InputError(f"{place}: {reason}. {_QUOTES}") from None


FORMATS = {
    ".csv": Format(read_csv),
    ".tsv": Format(partial(read_csv, delimiter="\t")),
    "": Format(_read_unnamed, (b"",), packable=False),
}
