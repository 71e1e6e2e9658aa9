"""JSON lines and JSON arrays as rows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, BinaryIO

import orjson

from robin_cli.data import lines
from robin_cli.data.rows import BadRow, Row, Table, kind, not_utf8
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

_CHUNK_BYTES = 2**20
_HEAD_BYTES = 2**12

_MOST_CONTAINERS = 2**20
"""The most lists and objects in a row: each takes thirty times the memory of its two brackets."""

_SPACE = re.compile(r"[ \t\n\r]*")


class _NotJSON(Exception):
    """Why a text is no JSON, and on which of its lines, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def read_json_lines(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:  # noqa: ARG001 (a Reader)
    """One JSON object a line; blank lines are passed over. Raises InputError as ``numbered_lines`` does."""
    return Table(None, "line", _line_rows(stream, source))


def read_json_array(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:  # noqa: ARG001 (a Reader)
    """One JSON array of objects, an element at a time; or JSON lines, which Summarize From Feedback's .json files hold.

    Raises InputError for anything else.
    """
    first = _first_line(stream, source)
    if not first:
        return Table(None, "row", iter(()))
    if first.startswith(b"["):
        return Table(None, "row", _Array(stream, source).rows())
    if first.startswith(b"{") and isinstance(_line_row(first), dict) and _holds_more(stream):
        stream.seek(0)
        return Table(None, "line", _line_rows(stream, source))
    stream.seek(0)
    data = lines.read_whole(stream, source, lines.MAX_LINE_BYTES)
    try:
        value = _parse(data)
    except _NotJSON as error:
        raise InputError(f"{source}:{error.line}: {error}") from None
    raise InputError(
        f"{source}: holds {kind(value)}, not an array of rows. "
        "Put the rows in one array, [{…}, {…}], or one object a line."
    )


def _first_line(stream: BinaryIO, source: str) -> bytes:
    """The first line that is not blank, from its first mark on, and the stream behind it; of an array only its bracket."""
    head = stream.read(16)
    lines.refuse_foreign(head, source)
    at = len(lines.BOM) if head.startswith(lines.BOM) else 0
    stream.seek(at)
    while chunk := stream.read(_HEAD_BYTES):
        if mark := _first(chunk):
            stream.seek(at + chunk.index(mark))
            return stream.readline(1 if mark == b"[" else lines.MAX_LINE_BYTES)
        at += len(chunk)
        if at > lines.MAX_FILE_BYTES:
            raise lines.file_too_long(source)
    return b""


def _holds_more(stream: BinaryIO) -> bool:
    while chunk := stream.read(_CHUNK_BYTES):
        if not chunk.isspace():
            return True
    return False


class _Array:
    """The elements of a JSON array, read a chunk at a time: whole, a gigabyte of it takes tens of gigabytes."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        here = stream.tell()
        stream.seek(0)
        self._line = 1 + stream.read(here).count(b"\n")  # of the text's beginning
        self._stream, self._source = stream, source
        self._decode = json.JSONDecoder().raw_decode
        self._undecoded, self._text, self._at = b"", "", 0
        self._total = here

    def rows(self) -> Iterator[tuple[int, Row | BadRow]]:
        """The elements, numbered from 1. InputError where the array breaks off or is none."""
        number = 0
        mark = self._mark()
        while mark != "]":
            if number and mark != ",":
                raise self._wrong("Expecting ',' delimiter" if mark else "the array is not closed", self._at)
            if number:
                self._at += 1
            number += 1
            yield number, _object(self._value(number))
            mark = self._mark()
        self._at += 1
        if self._mark():
            raise self._wrong("Extra data", self._at)

    def _value(self, number: int) -> object:
        """The next element."""
        self._mark()
        while True:
            if (size := len(self._text) - self._at) > 2 * _CHUNK_BYTES:  # one element, then, and a chunk
                self._check_size(size, number)
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # What is wrong well before the end stays wrong, whatever comes; but for a string that is not closed yet.
                cut = error.pos > len(self._text) - 100 or error.msg.startswith("Unterminated")
                if not (cut and self._more()):
                    raise self._wrong(error.msg, error.pos) from None
            except (RecursionError, ValueError) as error:
                what = "nested too deeply" if isinstance(error, RecursionError) else "a number in it is too long"
                raise InputError(f"{self._source}:row {number}: not usable JSON: {what}. Correct the row.") from None
            else:
                if end < len(self._text) or not self._more():  # a number's next digits may still come
                    self._at = end
                    return value

    def _check_size(self, size: int, number: int) -> None:
        if size > lines.MAX_LINE_BYTES:
            raise InputError(f"{self._source}:row {number}: {lines.too_long('row')}")
        if _is_crowded(self._text[self._at :].encode()):
            raise InputError(f"{self._source}:row {number}: {_CROWDED} Correct the row.")

    def _mark(self) -> str:
        """The next character that is no white space, and :attr:`_at` on it; "" at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches nothing, too
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read on; False at the end of the file. An element that grows is read in ever larger steps."""
        chunk = self._stream.read(max(_CHUNK_BYTES, len(self._text) - self._at))
        text = self._decoded(chunk)
        if not text:
            return False
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def _decoded(self, chunk: bytes) -> str:
        data = self._undecoded + chunk
        begins = self._total - len(self._undecoded)
        self._total += len(chunk)
        if self._total > lines.MAX_FILE_BYTES:
            raise lines.file_too_long(self._source)
        try:
            self._undecoded = b""
            return data.decode()
        except UnicodeDecodeError as error:
            if chunk and error.start > len(data) - 4:  # a character may be cut in two
                self._undecoded = data[error.start :]
                return data[: error.start].decode() or self._decoded(self._stream.read(_CHUNK_BYTES))
            line = self._line + self._text.count("\n") + data.count(b"\n", 0, error.start)
            raise InputError(f"{self._source}:{line}: {not_utf8(data, error, begins)}") from None

    def _wrong(self, what: str, at: int) -> InputError:
        column = at - self._text.rfind("\n", 0, at)
        line = self._line + self._text.count("\n", 0, at)
        return InputError(f"{self._source}:{line}: not valid JSON: {what} at column {column}.")


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
        return BadRow(f"{error} Correct the line, or leave such rows out with --skip-bad-rows.{hint}", "not JSON")


def _object(value: object) -> Row | BadRow:
    if isinstance(value, dict):
        return value
    hint = " A file that is one JSON array is named .json." if isinstance(value, list) else ""
    return BadRow(
        f'the row is {kind(value)}, not an object. Write it as {{"prompt": …, "response": …}}.{hint}', "not an object"
    )


def _parse(data: bytes | bytearray) -> object:
    """The value of a JSON text, or _NotJSON.

    orjson first, for its speed. What it refuses goes to the standard library, which also takes the NaN that pandas and
    json.dumps write for a missing rating, and half surrogates, so that only the row that holds one is bad.
    """
    if len(data) > _CHUNK_BYTES and _is_crowded(data):
        raise _NotJSON(_CROWDED)
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


_CROWDED = f"not usable JSON: more than {_MOST_CONTAINERS:,} lists and objects in one row."


def _is_crowded(data: bytes | bytearray) -> bool:
    return data.count(b"[") + data.count(b"{") > _MOST_CONTAINERS


def _first(data: bytes) -> bytes:
    """The first byte that is no white space; empty if there is none."""
    found = re.search(rb"\S", data)
    return found.group() if found else b""
