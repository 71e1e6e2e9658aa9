"""Sheets of Excel and LibreOffice workbooks as rows. The first row that is not empty names the columns."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any, BinaryIO

import orjson

from robin_cli.datasets import cells, lines
from robin_cli.datasets.formats.csv_rows import check_names
from robin_cli.datasets.rows import BadRow, Format, Row, Table, Wanted
from robin_cli.model.errors import Damaged, InputError, shown, size

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES = 3 * 2**28
"""The most memory for reading a workbook, in bytes, if the system can limit a process."""

CUT = " … (cut: an Excel cell holds no more)"
"""The end of a text that robin cut to fit into a cell."""

_Line = tuple[int, "list[Any] | BadRow"]
"""A row's number in its sheet, and its cells."""

_ENDS = (".xlsx", ".xlsm", ".ods")


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

    Raises InputError for a damaged file, for one that takes too much memory, and if there is no such sheet.
    """
    rows = lines.filled(_lines(stream, source, source[len(file_of(source)) + 1 :]), source)
    number, header = next(rows, (1, None))
    if header is None:
        return Table(None, "row", iter(()))
    if isinstance(header, BadRow):
        raise InputError(f"{source}:row {number}: {header}")
    names = ["" if cell is None else str(cell).strip() for cell in header]
    check_names(names, f"{source}:row {number}", wanted)
    return Table(names, "row", _rows(rows, names, wanted))


def _rows(
    rows: Iterator[_Line], names: list[str], wanted: Wanted
) -> Iterator[tuple[int, Row | BadRow]]:
    texts = {name for name in names if name in wanted.names and name not in wanted.numbers}
    for number, found in rows:
        if isinstance(found, BadRow):
            yield number, found
            continue
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
    """Yield the sheet's rows, read by :mod:`robin_cli.datasets.cells` in a process of its own."""
    command = [
        sys.executable,
        "-I",
        "-S",
        cells.__file__,
        sheet,
        str(lines.at_most(MOST_BYTES)),
        *sys.path,
    ]
    packed = stream.seek(0, 2)
    with subprocess.Popen(  # noqa: S603
        command, stdin=stream, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as child:
        try:
            before = 0
            for number, line in lines.numbered_lines(child.stdout, source):  # type: ignore[arg-type]  # it is a pipe
                found = (
                    BadRow(lines.too_long("row"))
                    if isinstance(line, BadRow)
                    else orjson.loads(line)
                )
                if isinstance(found, dict):
                    _check(found, source, sheet, packed)
                    before = number
                else:
                    yield number - before, found
            if child.wait():
                most = size(lines.at_most(MOST_BYTES))
                raise InputError(
                    f"{source}: takes more than {most} of memory to read, or minutes, or is damaged. Save the sheet as CSV "
                    f"or Parquet; or, if you trust it, allow more: {lines.LIMIT_ENV}=4 (GiB) in the environment"
                )
        finally:
            child.kill()


def _check(about: dict[str, Any], source: str, sheet: str, packed: int) -> None:
    """Raise InputError if the report on a workbook is that its sheet cannot be read."""
    lines.check_unpacked(about.get("unpacked", 0), packed, source)
    names = about.get("sheets")
    if names is not None and sheet and sheet not in names:
        there = ", ".join(f'"{shown(name)}"' for name in names)
        raise InputError(f'{source}: has no sheet "{shown(sheet)}". There are: {there}')
    if "error" in about:
        raise InputError(f"{source}: {about['error']}")
    if "damaged" in about:
        raise Damaged(f"{source}: not a workbook that can be read: {shown(about['damaged'], 160)}")


FORMATS = {end: Format(read_sheet, packable=False) for end in _ENDS}
