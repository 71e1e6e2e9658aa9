"""CSV and TSV as rows. The first line that is not blank names the columns."""

from __future__ import annotations

import csv
from typing import TYPE_CHECKING, BinaryIO, NoReturn

from robin_cli.data import lines
from robin_cli.data.rows import BadRow, Row, Table, not_utf8, shown
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_Record = tuple[int, list[str] | BadRow]
"""The line a record begins on, and its cells."""


def read_csv(stream: BinaryIO, source: str, wanted: Collection[str], delimiter: str = ",") -> Table:
    """Rows of cells, quoted as Excel and RFC 4180 have it; an empty cell is null, a row of empty cells no row.

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
    _check_header(names, f"{source}:{line}", wanted, delimiter)
    return Table(names, "line", _rows(records, names))


def read_tsv(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:
    """As ``read_csv``, with tabs between the cells."""
    return read_csv(stream, source, wanted, "\t")


def _check_header(names: list[str], place: str, wanted: Collection[str], delimiter: str) -> None:
    twice = sorted({name for name in names if name in wanted and names.count(name) > 1})
    if twice:
        raise InputError(f'{place}: two columns are called "{shown(twice[0])}". Rename or remove one of them.')
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
            yield (
                line,
                BadRow(
                    f"the row has {len(cells)} cells, the header {len(names)}. Put cells that hold a comma or a "
                    "line break in double quotes, or leave such rows out with --skip-bad-rows."
                ),
            )
        else:
            # CSV cannot tell an empty text from no text; a null is the reading that costs nobody a judge call.
            yield line, {name: cell or None for name, cell in zip(names, cells, strict=True)}


def _records(stream: BinaryIO, source: str, delimiter: str) -> Iterator[_Record]:
    # The module's own limit is 128 KiB. It is one for the process, so it is only ever raised.
    csv.field_size_limit(max(csv.field_size_limit(), lines.MAX_LINE_BYTES))
    faults: list[BadRow] = []
    reader = csv.reader(_decoded(stream, source, faults), delimiter=delimiter, strict=True)
    while True:
        begin = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            _raise_not_csv(error, f"{source}:{begin}")
        if cells is None:
            return
        if faults:
            yield begin, faults[0]
            faults.clear()
        elif any(cells):
            yield begin, cells


def _decoded(stream: BinaryIO, source: str, faults: list[BadRow]) -> Iterator[str]:
    """The lines as text. What is wrong with one is put into ``faults``, for the reader knows what row it belongs to."""
    for number, line in lines.numbered_lines(stream, source):
        if isinstance(line, BadRow):
            raise InputError(f"{source}:{number}: {line}")  # whether it ends inside a quoted cell is not known
        # Old Macs end lines with a carriage return alone, which csv accepts only as the end of what it is given.
        for piece in line.splitlines(keepends=True) if b"\r" in line else (line,):
            try:
                yield piece.decode("utf-8")
            except UnicodeDecodeError as error:
                faults.append(BadRow(not_utf8(piece, error)))
                yield piece.decode("utf-8", "replace")


def _raise_not_csv(error: csv.Error, place: str) -> NoReturn:
    endless = "end of data" in str(error) or "field limit" in str(error)
    reason = "a quote opened in this row is never closed" if endless else f"not valid CSV: {error}"
    raise InputError(
        f"{place}: {reason}. A cell that holds a quote, a comma or a line break stands in double quotes, "
        'and the quotes in it are doubled ("").'
    ) from None
