"""What a person sees in a sheet and its cells do not say: hidden rows, merged cells, and formulas without a value."""

from __future__ import annotations

import re
from typing import BinaryIO, NamedTuple
from xml.etree import ElementTree
from zipfile import BadZipFile, ZipFile

_ROW = re.compile(rb"<(?:\w+:)?row\b[^>]*>")
_HIDDEN = re.compile(rb'\bhidden="(?:1|true)"')
_NUMBER = re.compile(rb'\br="[A-Z]*(\d+)"')
_FORMULA = re.compile(
    rb"<(?:\w+:)?c\b([^>]*)>\s*<(?:\w+:)?f\b(?:[^>]*/>|[^>]*>[^<]*</(?:\w+:)?f>)\s*"
    rb"(?:<(?:\w+:)?v\s*/>|<(?:\w+:)?v>\s*</(?:\w+:)?v>)?\s*</(?:\w+:)?c>"
)
"""A cell with a formula and no value."""
_ZERO = re.compile(rb"(?<=</f>)<v>0</v>")
"""The value that XlsxWriter gives to all formulas, in workbooks that Excel is to compute when it opens them."""
_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_VALUE_TYPE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}value-type"
_LAST_ROW = 2**20


class Layout(NamedTuple):
    """Rows and columns count from 1.

    Attributes:
        hidden: rows.
        merged: the first and the last row of cells that are merged over several rows, and their column.
        unsaved: the row and the column of formulas without a stored value.
    """

    hidden: list[int]
    merged: list[tuple[int, int, int]]
    unsaved: list[tuple[int, int]]

    def without_columns(self, count: int) -> Layout:
        """Return the layout of the sheet without its first ``count`` columns."""
        merged = [(first, last, column - count) for first, last, column in self.merged]
        return Layout(self.hidden, merged, [(row, column - count) for row, column in self.unsaved])


def layout_of(stream: BinaryIO, sheet: str) -> Layout:
    """Return the layout of a sheet of an .xlsx or .ods file, and rewind the stream."""
    try:
        with ZipFile(stream) as archive:
            if "content.xml" in archive.namelist():
                return _of_ods(archive, sheet)
            has_placeholders = b'fullCalcOnLoad="1"' in archive.read("xl/workbook.xml")
            xml = archive.read(_path_in(archive, sheet))
            return _of_xlsx(_ZERO.sub(b"", xml) if has_placeholders else xml)
    except (BadZipFile, KeyError, ElementTree.ParseError):  # calamine reads more than this does
        return Layout([], [], [])
    finally:
        stream.seek(0)


def _path_in(archive: ZipFile, sheet: str) -> str:
    """Return the path of a sheet's XML. KeyError if there is none."""
    sheets = ElementTree.fromstring(archive.read("xl/workbook.xml"))  # noqa: S314  # see docs/security.md
    found = next(
        (
            each
            for each in sheets.iter()
            if each.get("name") == sheet and each.tag.endswith("}sheet")
        ),
        None,
    )
    own_id = (
        next((value for name, value in found.items() if name.endswith("}id")), "")
        if found is not None
        else ""
    )
    links = ElementTree.fromstring(archive.read("xl/_rels/workbook.xml.rels"))  # noqa: S314
    paths = {each.get("Id"): each.get("Target", "") for each in links}
    path = paths[own_id]
    return path.removeprefix("/") if path.startswith("/") else f"xl/{path}"


def _of_xlsx(xml: bytes) -> Layout:
    hidden, number = [], 0
    for tag in _ROW.findall(xml):
        found = _NUMBER.search(tag)
        number = int(found[1]) if found else number + 1
        if _HIDDEN.search(tag):
            hidden.append(number)
    unsaved = []
    for cell in _FORMULA.findall(xml) if b"<f" in xml or b":f" in xml else ():
        name = re.search(rb'\br="([A-Z]+)(\d+)"', cell)
        if name and b't="str"' not in cell:  # the text "" is a value
            unsaved.append((int(name[2]), _column(name[1].decode())))
    merged = []
    for area in re.findall(rb'<(?:\w+:)?mergeCell\b[^>]*\bref="([A-Z]+)(\d+):[A-Z]+(\d+)"', xml):
        first, last = int(area[1]), int(area[2])
        if last > first:
            merged.append((first, last, _column(area[0].decode())))
    return Layout(hidden, merged, unsaved)


def _column(letters: str) -> int:
    number = 0
    for each in letters:
        number = 26 * number + ord(each) - ord("A") + 1
    return number


def _of_ods(archive: ZipFile, sheet: str) -> Layout:
    layout, row = Layout([], [], []), 0
    root = ElementTree.fromstring(archive.read("content.xml"))  # noqa: S314
    table = next(each for each in root.iter(f"{_TABLE}table") if each.get(f"{_TABLE}name") == sheet)
    for each in table.iter(f"{_TABLE}table-row"):
        repeats = int(each.get(f"{_TABLE}number-rows-repeated", 1))
        if each.get(f"{_TABLE}visibility", "visible") != "visible" and row + repeats < _LAST_ROW:
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
