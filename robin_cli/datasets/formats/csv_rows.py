"""CSV and TSV as rows, however they are separated and encoded. The first line that is not blank names the columns."""

from __future__ import annotations

import codecs
import csv
import io
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NoReturn
from warnings import warn

from robin_cli.datasets import lines
from robin_cli.datasets.logs import is_log
from robin_cli.datasets.rows import BadRow, Format, Row, Table, Wanted, not_utf8
from robin_cli.model.errors import InputError, ReadAs, shown, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

_Record = tuple[int, list[str] | BadRow]
"""The line a record begins on, and its cells."""

_MOST_CELLS = 2**20
_SHORT = 2**20
_HEAD_BYTES = 2**16
_PIECES = re.compile(rb"[^\r\n]*(?:\r\n?|\n)|[^\r\n]+")
_NOT_CLOSED = "a quote opened in this row is never closed"
_QUOTES = (
    'A cell that holds a quote, a comma or a line break stands in double quotes, and the quotes in it are doubled ("").'
)
_MARKS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "strokes"}
_NUMBER = re.compile(r"\s*[+-]?\d+([.,])\d+\s*")
_UTF8, _WESTERN = "UTF-8", "Windows-1252"
_WIDE = ((rb"\xff\xfe|\xfe\xff", "utf-16"), (rb".\0", "utf-16-le"), (rb"\0.", "utf-16-be"))
"""How UTF-16 begins: with a mark, or with a letter of ASCII."""

_UNSEEN = r"\x00-\x20\x7f-\xa0" + "\u1680\u2000-\u200f\u2028-\u202f\u205f-\u2064\u3000\ufeff"
GUARDED = rf"^'*(?:[\x00\t\n\x0b\f\r]|[{_UNSEEN}]*[=+\-@＝＋－＠])"
"""Before which texts robin puts an apostrophe in CSV: a spreadsheet may run them, for it may leave out what is not seen, and
take a wide sign for the narrow one. Those with apostrophes there already get one more, so that one can be taken off."""

_OWN = frozenset({"pair_id", "chosen"})
"""A table with one of these columns may be robin's."""


def read_csv(stream: BinaryIO, source: str, wanted: Wanted, delimiter: str = ",") -> Table:
    """Rows of cells, quoted as Excel and RFC 4180 have it; an empty cell is an empty text, a row of empty cells no row.

    Cells are separated by what gives the header most of the ``wanted`` names, or most names; by ``delimiter``, where others
    give no more. A file that is not UTF-8 is UTF-16 or Windows-1252. What was found is a warning, ReadAs, behind the last row.

    Raises InputError for a header that cannot be used and for quotes that do not close: where a row ends is not known
    after them.
    """
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    wide = next((name for begin, name in _WIDE if re.match(begin, head, re.DOTALL)), "")
    if wide:
        stream = io.BufferedReader(_AsUtf8(stream, source, wide))
    text = head.decode(wide or "utf-8", "replace").removeprefix("\ufeff")
    found = _Dialect(source, delimiter, *_separator(text, delimiter, wanted), "UTF-16" if wide else "")
    records = lines.filled(_records(stream, source, found), source)
    line, header = next(records, (1, None))
    if found.is_stated:  # in a line before the header
        line, header = next(records, (1, None))
    if header is None:
        return Table(None, "line", iter(()))
    if isinstance(header, BadRow):
        raise InputError(f"{source}:{line}: {header}")
    found.is_own, found.is_surely = bool(_OWN.intersection(header)), {"pair_id", "attribute"} <= {*header}
    names = [name.strip() for name in found.unguarded(header)]
    check_names(names, f"{source}:{line}", wanted)
    return Table(None if is_log(names, wanted, source) else names, "line", _rows(records, names, found, wanted))


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


def _separator(head: str, default: str, wanted: Wanted) -> tuple[str, bool]:
    """What separates cells, and whether a first line ``sep=;`` says so, as Excel has it."""
    first = next(filter(None, (line.strip() for line in re.split(r"[\r\n]+", head))), "")
    if told := re.fullmatch(r"sep=([^\w\"])", first):
        return told[1], True

    def worth(mark: str) -> tuple[int, bool, int]:
        names = [name.strip() for name in next(csv.reader([first], delimiter=mark), [])]
        return len({*names} & {*wanted.names}), mark == default and len(names) > 1, len(names)

    return max((default, *_MARKS), key=worth), False


@dataclass
class _Dialect:
    """How a file is written, as far as its lines have said it.

    Attributes:
        usual: what separates the cells of files that end so.
        is_stated: whether its first line says what does.
        is_own: whether apostrophes before what a spreadsheet may run may be robin's; ``is_surely``, whether they must be.
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
        """A line as text: as the first one that is not ASCII, Windows-1252 where that is not UTF-8 and mostly ASCII."""
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
                f"the line is UTF-8, and an earlier one {_WESTERN}. Save the file as UTF-8, all of it.", "not UTF-8"
            )
        self.encoding = self.encoding or encoding
        return text

    def number(self, cell: str) -> str:
        """A number with a point for its decimal comma; all else as it is. BadRow for a mark that others do not have."""
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
        """The cells without the apostrophe that robin puts before what a spreadsheet may run."""
        if not self.is_own or not any(cell.startswith("'") for cell in cells):
            return cells
        found = [cell[1:] if cell.startswith("'") and re.match(GUARDED, cell) else cell for cell in cells]
        self.has_unguarded = self.has_unguarded or found != cells
        return found

    def say(self) -> None:
        """Warn of what is not as usual."""
        said = [
            f"separated by {_MARKS.get(self.delimiter, shown(self.delimiter))}" * (self.delimiter != self.usual),
            "decimal comma" * (self.point == ","),
            "without the apostrophes that keep spreadsheets from running a text"
            * (self.has_unguarded and not self.is_surely),
        ]
        if any(said) or self.encoding not in ("", _UTF8):
            warn(
                f"{self.source}: read as {', '.join([self.encoding or _UTF8, *filter(None, said)])}",
                ReadAs,
                stacklevel=1,
            )


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
                    row |= {name: found.number(str(row[name])) for name in numbers}
                except BadRow as bad_row:
                    yield line, bad_row
                else:
                    yield line, row
    finally:
        found.say()


def _records(stream: BinaryIO, source: str, found: _Dialect) -> Iterator[_Record]:
    # The module's own limit is 128 KiB. It is one for the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), lines.MAX_LINE_BYTES))
    text = _Text(stream, source, found)
    reader = csv.reader(text.lines(), delimiter=found.delimiter, strict=True)
    while True:
        text.begin = begin = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            _raise_not_csv(error, f"{source}:{begin}")
        text.size = text.marks = 0
        if cells is None:
            return
        yield begin, text.faults.pop() if text.faults else cells


class _Text:
    """The lines of a file as text, and how long the row is that they are part of.

    What is wrong with a line is put into ``faults``, for the reader knows what row it belongs to. Quotes may spread a row over
    many lines; past MAX_LINE_BYTES, or _MOST_CELLS and lines, it is an InputError.
    """

    def __init__(self, stream: BinaryIO, source: str, found: _Dialect) -> None:
        self.faults: list[BadRow] = []
        # Where the row begins; its bytes, and its delimiters and lines behind the first _SHORT of these.
        self.begin, self.size, self.marks = 1, 0, 0
        self._stream, self._source, self._found, self._delimiter = stream, source, found, found.delimiter.encode()

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
                text = self._found.decoded(piece)
                if isinstance(text, BadRow):
                    self.faults[:] = self.faults or [text]
                    text = piece.decode("utf-8", "replace")
                yield text

    def _check(self, piece: bytes) -> None:
        self.marks += 1 + piece.count(self._delimiter)
        if self.size > lines.MAX_LINE_BYTES or self.marks > _MOST_CELLS:
            what = size(lines.MAX_LINE_BYTES) if self.marks <= _MOST_CELLS else f"{_MOST_CELLS:,} cells and lines"
            raise InputError(
                f"{self._source}:{self.begin}: {_NOT_CLOSED}, or the row is longer than {what}. {_QUOTES} Else shorten the row."
            )


class _AsUtf8(io.RawIOBase):
    """A file of UTF-16, read as UTF-8."""

    def __init__(self, stream: BinaryIO, source: str, encoding: str) -> None:
        self._stream, self._source = stream, source
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """As of any stream. InputError for what is no UTF-16."""
        chunk = b"-"
        while chunk and not self._left:
            chunk = self._stream.read(_HEAD_BYTES)
            try:
                self._left = self._decoder.decode(chunk, final=not chunk).encode()
            except UnicodeDecodeError as error:
                raise InputError(
                    f"{self._source}: begins as UTF-16, and is cut short or damaged ({error.reason}). Save it as UTF-8."
                ) from None
        view = memoryview(buffer).cast("B")
        count = min(len(view), len(self._left))
        view[:count], self._left = self._left[:count], self._left[count:]
        return count


def _raise_not_csv(error: csv.Error, place: str) -> NoReturn:
    endless = "end of data" in str(error) or "field limit" in str(error)
    reason = _NOT_CLOSED if endless else f"not valid CSV: {error}"
    raise InputError(f"{place}: {reason}. {_QUOTES}") from None


FORMATS = {
    ".csv": Format(read_csv),
    ".tsv": Format(partial(read_csv, delimiter="\t")),
    "": Format(_read_unnamed, (b"",), packable=False),
}
