"""JSON lines and JSON arrays as rows."""

from __future__ import annotations

import io
import json
import re
from typing import TYPE_CHECKING, BinaryIO

import orjson

from robin_cli.data import lines
from robin_cli.data.rows import BadRow, Row, Table, kind, not_utf8
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

MAX_ARRAY_BYTES = 2 * 2**30
"""The longest JSON array, in bytes after decompression: unlike lines it has to be in memory whole."""


class _NotJSON(Exception):
    """Why a text is no JSON, and on which of its lines, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def read_json_lines(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:  # noqa: ARG001 (a Reader)
    """One JSON object a line; blank lines are passed over. Raises InputError as ``numbered_lines`` does."""
    return Table(None, "line", _line_rows(stream, source))


def read_json_array(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:  # noqa: ARG001 (a Reader)
    """One JSON array of objects, or JSON lines, which Summarize From Feedback's .json files hold.

    Raises InputError for anything else, and above MAX_ARRAY_BYTES.
    """
    data = lines.read_whole(stream, source, MAX_ARRAY_BYTES)
    if not _first(data):
        return Table(None, "row", iter(()))
    try:
        value = _parse(data)
    except _NotJSON as error:
        if _first(data) == b"{" and isinstance(_line_row(bytes(data[: data.find(b"\n")])), dict):
            return Table(None, "line", _line_rows(io.BytesIO(data), source))
        raise InputError(f"{source}:{error.line}: {error}") from None
    if not isinstance(value, list):
        raise InputError(
            f"{source}: holds {kind(value)}, not an array of rows. "
            "Put the rows in one array, [{…}, {…}], or one object a line."
        )
    return Table(None, "row", ((number, _object(item)) for number, item in enumerate(value, 1)))


def _line_rows(stream: BinaryIO, source: str) -> Iterator[tuple[int, Row | BadRow]]:
    for number, line in lines.numbered_lines(stream, source):
        if isinstance(line, BadRow):
            yield number, line
        elif not line.isspace():
            yield number, _line_row(line)


def _line_row(line: bytes) -> Row | BadRow:
    try:
        return _object(_parse(line.rstrip()))  # or the line end would count as line 2
    except _NotJSON as error:
        hint = " A file that is one JSON array is named .json." if _first(line) == b"[" else ""
        return BadRow(f"{error} Correct the line, or leave such rows out with --skip-bad-rows.{hint}")


def _object(value: object) -> Row | BadRow:
    if isinstance(value, dict):
        return value
    hint = " A file that is one JSON array is named .json." if isinstance(value, list) else ""
    return BadRow(f'the row is {kind(value)}, not an object. Write it as {{"prompt": …, "response": …}}.{hint}')


def _parse(data: bytes | bytearray) -> object:
    """The value of a JSON text, or _NotJSON.

    orjson first, for its speed. What it refuses goes to the standard library, which also takes the NaN that pandas and
    json.dumps write for a missing rating, and half surrogates, so that only the row that holds one is bad.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _NotJSON(*_utf8_fault(data, error)) from None
    except json.JSONDecodeError as error:
        raise _NotJSON(f"not valid JSON: {error.msg} at column {error.colno}.", error.lineno) from None
    except RecursionError:
        raise _NotJSON("not usable JSON: nested too deeply.") from None
    except ValueError:  # an integer of thousands of digits, which int() refuses
        raise _NotJSON("not usable JSON: a number in it is too long.") from None


def _utf8_fault(data: bytes | bytearray, error: UnicodeDecodeError) -> tuple[str, int]:
    return not_utf8(data, error), data.count(b"\n", 0, error.start) + 1


def _first(data: bytes | bytearray) -> bytes:
    """The first byte that is no white space, without a copy of what may be gigabytes; empty if there is none."""
    found = re.search(rb"\S", data)
    return found.group() if found else b""
