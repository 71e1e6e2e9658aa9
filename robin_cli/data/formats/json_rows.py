"""JSON lines and JSON arrays as rows; also the array of samples in a log that is one JSON object.

Lines are read one by one, and an array as a whole.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import BinaryIO

import orjson

from robin_cli.data.encodings import or_name_it, utf8_of
from robin_cli.data.logs import arrays
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted, kind
from robin_cli.model.errors import InputError

_NAMED_JSON = " A file that is one JSON array is named .json."


class NotJSON(Exception):
    """A text is not JSON: the reason, and the line, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def read_json_lines(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:
    """Return one row per line that is not blank, each a JSON object."""
    stream = utf8_of(stream, source, wanted.encoding)
    return RowTable(None, "line", _line_rows(stream, or_name_it(wanted.encoding)))


def read_json_array(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:
    """Return the objects of one JSON array, a log's samples, or JSON lines.

    Summarize From Feedback's .json files are JSON lines. InputError for anything else.
    """
    stream, advice = utf8_of(stream, source, wanted.encoding), or_name_it(wanted.encoding)
    data = stream.read().removeprefix(codecs.BOM_UTF8)
    if not data or data.isspace():
        return RowTable(None, "row", iter(()))
    try:
        value = parse(data, advice)
    except NotJSON as error:
        first, _, others = data.lstrip().partition(b"\n")
        if others.strip() and isinstance(_line_row(first, advice), dict):
            stream.seek(0)
            return RowTable(None, "line", _line_rows(stream, advice))
        raise InputError(f"{source}:{error.line}: {error}") from None
    rows: Iterator[Row | BadRow] | None = None
    if isinstance(value, list):
        rows = map(_object, value)
    elif isinstance(value, dict):
        rows = _samples(value, source)
    if rows is None:
        raise InputError(
            f"{source}: holds {kind(value)}, not an array of rows. "
            "Put the rows in one array, [{…}, {…}], or one object a line."
        )
    return RowTable(None, "row", enumerate(rows, 1))


def _samples(value: Row, source: str) -> Iterator[Row | BadRow] | None:
    """Return the samples of a log, each with the log's head; None if the object is no log."""
    holders = [value, *(inner for inner in value.values() if isinstance(inner, dict))]
    for name, log in arrays(source).items():
        for holder in holders:
            samples, head = holder.get(name), holder.get(log.head)
            head = head if isinstance(head, dict) else {}
            if isinstance(samples, list) and head.keys() >= log.head_keys:
                shared: Row = {log.head: head} if log.head else {}
                rows = map(_object, samples)
                return (row if isinstance(row, BadRow) else {**shared, **row} for row in rows)
    return None


def _line_rows(stream: BinaryIO, advice: str) -> Iterator[tuple[int, Row | BadRow]]:
    for number, line in enumerate(stream, 1):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if type(row) is dict:
            yield number, row
        elif text := line.removeprefix(codecs.BOM_UTF8).rstrip():  # joined files have one each
            yield number, _line_row(text, advice)


def _line_row(line: bytes, advice: str) -> Row | BadRow:
    try:
        return _object(parse(line, advice))
    except NotJSON as error:
        fact = f"{error} Correct the line, or leave such rows out with --skip-bad-rows."
        return BadRow(fact + _NAMED_JSON * line.lstrip().startswith(b"["), "not JSON")


def _object(value: object) -> Row | BadRow:
    if isinstance(value, dict):
        return value
    fact = f'the row is {kind(value)}, not an object. Write it as {{"prompt": …, "response": …}}.'
    return BadRow(fact + _NAMED_JSON * isinstance(value, list), "not an object")


def parse(data: bytes | bytearray, advice: str = "") -> object:
    """Return the value of a JSON text. NotJSON if it is none.

    orjson goes first, for speed. The standard library then also takes the NaN that pandas and
    json.dumps write for a missing rating, and half surrogate pairs, so that only their row is bad.

    Args:
        advice: the end of the error for bytes that are not UTF-8.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        fact = f"byte 0x{data[error.start]:02X} at offset {error.start} is not UTF-8. Save the "
        fact += f"whole file as UTF-8{advice}."
        raise NotJSON(fact, data.count(b"\n", 0, error.start) + 1) from None
    except json.JSONDecodeError as error:
        fact = f"not valid JSON: {error.msg} at column {error.colno}."
        raise NotJSON(fact, error.lineno) from None
    except RecursionError:
        raise NotJSON("not usable JSON: nested too deeply.") from None
    except ValueError:  # an integer of thousands of digits, which int() refuses
        raise NotJSON("not usable JSON: a number in it is too long.") from None


FORMATS = {
    ".jsonl": Format(read_json_lines, (b"{",)),
    ".ndjson": Format(read_json_lines),
    ".json": Format(read_json_array, (b"[",)),
}
