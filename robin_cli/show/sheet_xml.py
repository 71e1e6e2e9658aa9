"""New columns and a new sheet in the parts of an .xlsx file, of which all else stays as it is.

A LookupError says that the parts are not laid out as Excel does it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any
from xml.sax.saxutils import escape

from robin_cli.data.sheet_layout import column_number

Parts = dict[str, bytes]
"""The parts of the file by name."""

Cells = Mapping[int, Sequence[Any]]
"""The values of new cells by the number of their row; None for an empty cell."""

_ROW = re.compile(r'<row\b([^>]*?\br="(\d+)"[^>]*?)(?:/>|>(.*?)</row>)', re.DOTALL)
_CELL = re.compile(r'<c\b([^>]*?\br="([A-Z]+)\d+"[^>]*?)(?:/>|>(.*?)</c>)', re.DOTALL)
_COLUMNS = re.compile(r'<col\b[^>]*?\bmax="(\d+)"[^>]*>')
_NO_TEXT = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""The characters that XML cannot hold."""

_SCHEMAS = "http://schemas.openxmlformats.org"
_MAIN = f"{_SCHEMAS}/spreadsheetml/2006/main"
_LINKS = f"{_SCHEMAS}/officeDocument/2006/relationships"
_PACKAGE = f"{_SCHEMAS}/package/2006"
_SHEET = "application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"


def add_columns(parts: Parts, place: str, cells: Cells, header: int) -> None:
    """Write ``cells`` right of all that the sheet in the part ``place`` holds; those of the row ``header`` look like it."""
    decimals = _add_two_decimals(parts)
    xml = parts[place].decode()
    held = (cell[2] for cell in _CELL.finditer(xml) if re.search("<(v|is|f)\\b", cell[3] or ""))
    first = 1 + max(map(_number, held), default=0)
    missing = {*cells}

    def with_cells(row: re.Match[str]) -> str:
        number = int(row[2])
        if number not in cells:
            return row[0]
        missing.discard(number)
        kept = [cell for cell in _CELL.finditer(row[3] or "") if _number(cell[2]) < first]
        look = re.search(r'\ss="\d+"', kept[-1][1]) if number == header and kept else None
        new = _row(number, cells[number], first, look[0] if look else decimals)
        attributes = re.sub(r'\sspans="[^"]*"', "", row[1])  # which would have to be wider
        return f"<row{attributes}>{''.join(cell[0] for cell in kept)}{new}</row>"

    def shown(columns: re.Match[str]) -> str:
        hidden = r'\shidden="\w+"' if int(columns[1]) >= first else "^$"
        return re.sub(hidden, "", columns[0])  # all columns right of a table may be hidden

    xml = _ROW.sub(with_cells, _COLUMNS.sub(shown, xml))
    if missing:
        raise LookupError(f"no row {min(missing)}")
    parts[place] = re.sub(r"<dimension\b[^>]*/>", "", xml, count=1).encode()


def add_sheet(parts: Parts, name: str, cells: Cells) -> None:
    """Add a sheet called ``name``, with a number behind it if there is one."""
    book = parts["xl/workbook.xml"].decode()
    number = next(each for each in count(1) if f"xl/worksheets/sheet{each}.xml" not in parts)
    path, link = f"worksheets/sheet{number}.xml", f"robin{number}"
    taken = {each.lower() for each in re.findall(r'sheet\b[^>]*?\bname="([^"]*)"', book)}
    names = (name if each == 1 else f"{name} {each}" for each in count(1))
    title = next(each for each in names if each not in taken)
    sheet_id = 1 + max(map(int, re.findall(r'\bsheetId="(\d+)"', book)), default=0)
    widths = '<col min="1" max="1" width="24"/><col min="2" max="2" width="80"/>'
    rows = "".join(f'<row r="{at}">{_row(at, row)}</row>' for at, row in cells.items())
    parts[f"xl/{path}"] = (
        '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
        f'<worksheet xmlns="{_MAIN}"><cols>{widths}</cols><sheetData>{rows}</sheetData></worksheet>'
    ).encode()
    spaces = f'xmlns="{_MAIN}" xmlns:r="{_LINKS}"'
    sheet = f'<sheet {spaces} name="{title}" sheetId="{sheet_id}" r:id="{link}"/>'
    _insert(parts, "xl/workbook.xml", "sheets", sheet)
    linked = f'Id="{link}" Type="{_LINKS}/worksheet" Target="{path}"'
    relationship = f'<Relationship xmlns="{_PACKAGE}/relationships" {linked}/>'
    _insert(parts, "xl/_rels/workbook.xml.rels", "Relationships", relationship)
    typed = f'PartName="/xl/{path}" ContentType="{_SHEET}"'
    override = f'<Override xmlns="{_PACKAGE}/content-types" {typed}/>'
    _insert(parts, "[Content_Types].xml", "Types", override)


def _add_two_decimals(parts: Parts) -> str:
    """Add the format 0.00 to the styles; return the attribute of a cell that has it."""
    styles = parts["xl/styles.xml"].decode()
    formats = styles.partition("<cellXfs")[2].partition("</cellXfs>")[0]
    number = len(re.findall(r"<xf\b", formats))
    style = '<xf numFmtId="2" fontId="0" fillId="0" borderId="0" xfId="0" applyNumberFormat="1"/>'
    _insert(parts, "xl/styles.xml", "cellXfs", style)
    return f' s="{number}"'


def _insert(parts: Parts, part: str, element: str, child: str) -> None:
    """Insert the last child of an element, whose ``count`` grows."""
    before, end, after = parts[part].decode().partition(f"</{element}>")
    if not end:
        raise LookupError(f"no {element} in {part}")
    counted = rf'(<{element}\b[^>]*?\bcount=")(\d+)'
    before = re.sub(counted, lambda count: f"{count[1]}{int(count[2]) + 1}", before)
    parts[part] = (before + child + end + after).encode()


def _row(number: int, values: Sequence[Any], first: int = 1, look: str = "") -> str:
    """Return the cells of a row from the column ``first`` on. A text stays one, and is no formula."""
    cells = []
    for column, value in enumerate(values, first):
        if value is None or (isinstance(value, float) and not math.isfinite(value)):
            continue
        if isinstance(value, bool):
            kind, content = ' t="b"', f"<v>{value:d}</v>"
        elif isinstance(value, int | float):
            kind, content = look * isinstance(value, float), f"<v>{value!r}</v>"
        else:
            text = escape(_NO_TEXT.sub("", str(value)))
            kind = f'{look} t="inlineStr"'
            content = f'<is><t xml:space="preserve">{text}</t></is>'
        cells.append(f'<c r="{_letters(column)}{number}"{kind}>{content}</c>')
    return "".join(cells)


def _number(letters: str) -> int:
    return column_number(letters.encode())


def _letters(column: int) -> str:
    letters = ""
    while column:
        column, last = divmod(column - 1, 26)
        letters = chr(ord("A") + last) + letters
    return letters
