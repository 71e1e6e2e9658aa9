"""Results as an Excel workbook: typed cells, a sheet of the run's settings, and no text that acts as a formula or link."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any

import orjson
import pyarrow as pa

from robin_cli.data.formats import sheets
from robin_cli.data.local import temporary_folder
from robin_cli.model.decision import BEST, DROP, KEEP, REJECTED, UNDECIDED
from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    from xlsxwriter.format import Format
    from xlsxwriter.workbook import Workbook
    from xlsxwriter.worksheet import Worksheet

_CELL_LIMIT = 32_767
"""UTF-16 units in a cell."""
_SHEET_ROWS = 1_048_575
_SHEET_COLUMNS = 16_384
_TIME = "yyyy-mm-dd hh:mm:ss.000"
_FIRST_YEAR = 1900
_FILTER_ARROW = 3
_DECISION = "decision"
_COLOURS = (
    ("#C6E9DA", "#0B4F33", (KEEP, BEST)),
    ("#F0A890", "#521505", (DROP, REJECTED)),
    ("#FFF3BF", "#5A4300", (UNDECIDED,)),
)
"""Green, red and amber of cells with a decision, and of their text; unlike in lightness, for those who do not see red and green
apart."""
_LONG = frozenset({"prompt", "response", "feedback", "text"})


def write_workbook(
    file: IO[bytes],
    schema: pa.Schema,
    rows: Iterable[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> None:
    """Write ``rows`` to sheets "results", "results 2" and so on, and ``settings`` to a sheet of that name.

    Times are UTC. What is not there is an empty cell.

    Raises:
        InputError: more columns than a sheet holds.
    """
    import xlsxwriter

    if len(schema) > _SHEET_COLUMNS:
        raise InputError(
            f"xlsx: {len(schema):,} columns, and a sheet holds {_SHEET_COLUMNS:,}; write csv or parquet"
        )
    options = {"constant_memory": True, "nan_inf_to_errors": False}
    with (
        temporary_folder() as folder,
        xlsxwriter.Workbook(file, {**options, "tmpdir": str(folder)}) as book,
    ):
        formats = {
            "plain": book.add_format(),
            "number": book.add_format({"num_format": "0.00"}),
            "bold": book.add_format({"bold": True}),
            "left": book.add_format({"align": "left"}),
            "time": book.add_format({"num_format": _TIME}),
            "left time": book.add_format({"num_format": _TIME, "align": "left"}),
        }
        colours = {
            word: book.add_format({"bg_color": ground, "font_color": ink})
            for ground, ink, words in _COLOURS
            for word in words
        }
        sheet, line, number = _new_sheet(book, schema, 1, formats, colours), 0, 1
        for row in rows:
            if line == _SHEET_ROWS:
                sheet.autofilter(0, 0, line, len(schema) - 1)
                number += 1
                sheet, line = _new_sheet(book, schema, number, formats, colours), 0
            line += 1
            for column, value in enumerate(row.values()):
                _write(sheet, line, column, value, formats)
        sheet.autofilter(0, 0, line, len(schema) - 1)
        _write_settings(book.add_worksheet("settings"), settings, formats)


def _new_sheet(
    book: Workbook,
    schema: pa.Schema,
    number: int,
    formats: Mapping[str, Format],
    colours: Mapping[str, Format],
) -> Worksheet:
    """Add a sheet with a header; cells of decisions have ``colours`` by their value, also after an edit."""
    sheet = book.add_worksheet("results" if number == 1 else f"results {number}")
    sheet.freeze_panes(1, 0)
    for column, field in enumerate(schema):
        sheet.set_column(column, column, _width(field))
        _write_text(sheet, 0, column, field.name, formats["bold"])
        if field.name == _DECISION or field.name.endswith(f"_{_DECISION}"):
            for word, colour in colours.items():
                rule = {"type": "cell", "criteria": "==", "value": f'"{word}"', "format": colour}
                sheet.conditional_format(1, column, _SHEET_ROWS, column, rule)
    return sheet


def _width(field: pa.Field) -> int:
    """Return a column's width in characters: usual for its type, and enough for its name with the filter's arrow."""
    if pa.types.is_timestamp(field.type):
        usual = len(_TIME)
    elif pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
        usual = (
            60 if field.name in _LONG else 24 if field.name in {"pair_id", "model", "judge"} else 14
        )
    else:
        usual = 10
    return max(usual, min(40, len(field.name) + _FILTER_ARROW))


def _write_settings(
    sheet: Worksheet, settings: Mapping[str, Any], formats: Mapping[str, Format]
) -> None:
    sheet.set_column(0, 0, 24)
    sheet.set_column(1, 1, 80)
    left = {"plain": formats["left"], "number": formats["left"], "time": formats["left time"]}
    for line, (name, value) in enumerate(settings.items()):
        _write_text(sheet, line, 0, name, formats["plain"])
        _write(sheet, line, 1, _cell(value), left)


def _cell(value: Any) -> Any:
    """Return a setting as a cell's value: several values with commas, a table as JSON."""
    if isinstance(value, list | tuple):
        return ", ".join(str(_cell(each)) for each in value)
    if isinstance(value, Mapping):
        return orjson.dumps(value).decode() if value else None
    return value


def _write(
    sheet: Worksheet, line: int, column: int, value: Any, formats: Mapping[str, Format]
) -> None:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return
    if isinstance(value, bool):
        sheet.write_boolean(line, column, value, formats["plain"])
    elif isinstance(value, int | float):
        style = formats["plain" if isinstance(value, int) else "number"]
        sheet.write_number(line, column, value, style)
    elif isinstance(value, datetime) and value.year >= _FIRST_YEAR:
        moment = value.astimezone(UTC).replace(tzinfo=None)  # a cell's time has no zone
        sheet.write_datetime(line, column, moment, formats["time"])
    else:
        _write_text(sheet, line, column, str(value), formats["plain"])


def _write_text(sheet: Worksheet, line: int, column: int, text: str, style: Format) -> None:
    """Write ``text`` only as text: never write(), which turns some texts into formulas and links."""
    if len(text) > _CELL_LIMIT // 2 and len(units := text.encode("utf-16-le")) > 2 * _CELL_LIMIT:
        text = (
            units[: 2 * (_CELL_LIMIT - len(sheets.CUT))].decode("utf-16-le", "ignore") + sheets.CUT
        )
    if text.startswith("<r>") and text.endswith(
        "</r>"
    ):  # which xlsxwriter takes for the XML of a formatted text
        sheet.write_rich_string(line, column, text[0], style, text[1:])
    else:
        sheet.write_string(line, column, text, style)
