"""What a person sees in a sheet and its cells do not say.

That is hidden rows and columns, merged cells, and formulas without a value.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import BinaryIO, NamedTuple
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

_ROW_OR_COLUMN = re.compile(rb"<(?:\w+:)?(row|col)\b([^>]*)>")
_HIDDEN = re.compile(rb'\bhidden="(?:1|true)"')
_NUMBERS = re.compile(rb'\b(?:r|min|max)="(\d+)"')
_FORMULA = re.compile(
    rb"<(?:\w+:)?c\b([^>]*)>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
"""A cell with a formula and no value."""
_MERGED = re.compile(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]+)(\d+):[A-Z]+(\d+)"')
_ZERO = re.compile(rb"(?<=</f>)<v>0</v>")
"""XlsxWriter's value of all formulas, in workbooks that Excel is to compute when it opens them."""
_TAB, _LINE_BREAK = (re.compile(rb"<text:%b\b[^>]*/>" % name) for name in (b"tab", b"line-break"))
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_VALUE_TYPE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}value-type"
_LAST_ROW, _LAST_COLUMN = 2**20, 2**14


class Layout(NamedTuple):
    """Rows and columns count from 1.

    Attributes:
        hidden: rows.
        hidden_columns: columns.
        merged: the first and the last row of cells that are merged over rows, and their column.
        unsaved: the row and the column of formulas without a stored value.
    """

    hidden: list[int]
    hidden_columns: list[int]
    merged: list[tuple[int, int, int]]
    unsaved: list[tuple[int, int]]


def layout_of(stream: BinaryIO, sheet: str) -> Layout:
    """Return the layout of a sheet of an .xlsx or .ods file, and rewind the stream."""
    try:
        with ZipFile(stream) as archive:
            if "content.xml" in archive.namelist():
                return _of_ods(archive, sheet)
            has_placeholders = b'fullCalcOnLoad="1"' in archive.read("xl/workbook.xml")
            xml = archive.read(path_in(archive, sheet))
            return _of_xlsx(_ZERO.sub(b"", xml) if has_placeholders else xml)
    except (BadZipFile, KeyError, ElementTree.ParseError):  # calamine reads more than this does
        return Layout([], [], [], [])
    finally:
        stream.seek(0)


def with_tabs(stream: BinaryIO) -> BinaryIO:
    """Return a workbook at its beginning, the tabs and line breaks of an .ods file as characters.

    calamine leaves their elements out, so that words on both sides would become one.
    """
    try:
        with ZipFile(stream) as archive:
            names = archive.namelist()
            xml = archive.read("content.xml") if "content.xml" in names else b""
            written = _LINE_BREAK.sub(b"\n", _TAB.sub(b"\t", xml))
            if written != xml:
                copy = BytesIO()
                with ZipFile(copy, "w") as plain:
                    for name in names:
                        plain.writestr(
                            name, written if name == "content.xml" else archive.read(name)
                        )
                stream = copy
    except (BadZipFile, KeyError):  # calamine reads more than this does
        pass
    stream.seek(0)
    return stream


def path_in(archive: ZipFile, sheet: str) -> str:
    """Return the path of a sheet's XML in an .xlsx file. KeyError if there is none."""
    book = ElementTree.fromstring(archive.read("xl/workbook.xml"))  # noqa: S314  # see docs/security.md
    links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))  # noqa: S314
    ids = {
        each.get("name"): value
        for each in book.iter()
        for name, value in each.items()
        if each.tag.endswith("}sheet") and name.endswith("}id")
    }
    path = {each.get("Id"): each.get("Target", "") for each in links}[ids[sheet]]
    return path.removeprefix("/") if path.startswith("/") else f"xl/{path}"


def _of_xlsx(xml: bytes) -> Layout:
    layout, row = Layout([], [], [], []), 0
    for what, attributes in _ROW_OR_COLUMN.findall(xml):
        numbers = [int(number) for number in _NUMBERS.findall(attributes)]
        if what == b"row":
            row = numbers[0] if numbers else row + 1
        if _HIDDEN.search(attributes):
            first, last = (row, row) if what == b"row" else (min(numbers), max(numbers))
            (layout.hidden if what == b"row" else layout.hidden_columns).extend(
                range(first, last + 1)
            )
    for cell in _FORMULA.findall(xml) if b"<f" in xml or b":f" in xml else ():
        name = re.search(rb'\br="([A-Z]+)(\d+)"', cell)
        if name and b't="str"' not in cell:  # the text "" is a value
            layout.unsaved.append((int(name[2]), column_number(name[1])))
    for letters, first, last in _MERGED.findall(xml):
        if int(last) > int(first):
            layout.merged.append((int(first), int(last), column_number(letters)))
    return layout


def column_number(letters: bytes) -> int:
    """Return the number of a column, from 1."""
    number = 0
    for each in letters:
        number = 26 * number + each - ord("A") + 1
    return number


def _of_ods(archive: ZipFile, sheet: str) -> Layout:
    layout, row, column = Layout([], [], [], []), 0, 0
    root = ElementTree.fromstring(archive.read("content.xml"))  # noqa: S314
    table = next(each for each in root.iter(f"{_TABLE}table") if each.get(f"{_TABLE}name") == sheet)
    for each in table.iter(f"{_TABLE}table-column"):
        repeats = int(each.get(f"{_TABLE}number-columns-repeated", 1))
        if _is_hidden(each) and column + repeats < _LAST_COLUMN:
            layout.hidden_columns.extend(range(column + 1, column + repeats + 1))
        column += repeats
    for each in table.iter(f"{_TABLE}table-row"):
        repeats = int(each.get(f"{_TABLE}number-rows-repeated", 1))
        if _is_hidden(each) and row + repeats < _LAST_ROW:
            layout.hidden.extend(range(row + 1, row + repeats + 1))
        column = 0
        for cell in each:
            spanned = int(cell.get(f"{_TABLE}number-rows-spanned", 1))
            if spanned > 1:
                layout.merged.append((row + 1, row + spanned, column + 1))
            if cell.get(f"{_TABLE}formula") and cell.get(_VALUE_TYPE) is None:
                layout.unsaved.append((row + 1, column + 1))
            column += int(cell.get(f"{_TABLE}number-columns-repeated", 1))
        row += repeats
    return layout


def _is_hidden(element: ElementTree.Element) -> bool:
    return element.get(f"{_TABLE}visibility", "visible") != "visible"
