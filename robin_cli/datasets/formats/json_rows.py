"""JSON lines and JSON arrays as rows; also the array of samples in a log that is one JSON object."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, BinaryIO

import orjson

from robin_cli.datasets import lines
from robin_cli.datasets.logs import Log, arrays
from robin_cli.datasets.rows import BadRow, Format, Row, Table, Wanted, kind, not_utf8
from robin_cli.model.errors import InputError, shown, size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CHUNK_BYTES = 2**20
_STEP_BYTES = 2**23
"""The most that is read ahead for one value: rows behind it are then in memory too."""

_HEAD_BYTES = 2**12

_MOST_CONTAINERS = 2**20
"""The most lists and objects in a row: each takes thirty times the memory of its two brackets."""

_NAMED_JSON = " A file that is one JSON array is named .json."
_SPACE = re.compile(r"[ \t\n\r]*")


class NotJSON(Exception):
    """A text is not JSON: the reason, and the line, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def read_json_lines(stream: BinaryIO, source: str, wanted: Wanted) -> Table:  # noqa: ARG001 (a Reader)
    """Return one row per line that is not blank, each a JSON object. Raises InputError as ``numbered_lines`` does."""
    return Table(None, "line", _line_rows(stream, source))


def read_json_array(stream: BinaryIO, source: str, wanted: Wanted) -> Table:  # noqa: ARG001 (a Reader)
    """Return the objects of one JSON array, or JSON lines (as in Summarize From Feedback's .json files), or a log's samples.

    Raises InputError for anything else.
    """
    first = _first_line(stream, source)
    if not first:
        return Table(None, "row", iter(()))
    if first.startswith(b"["):
        return Table(None, "row", _Text(stream, source).elements())
    if first.startswith(b"{") and isinstance(_line_row(first), dict) and _is_followed(stream):
        stream.seek(0)
        return Table(None, "line", _line_rows(stream, source))
    if first.startswith(b"{") and (samples := _samples(stream, source)):
        return Table(None, "row", samples)
    stream.seek(0)
    data = stream.read(lines.MAX_LINE_BYTES + 1).removeprefix(lines.BOM)
    if len(data) > lines.MAX_LINE_BYTES:
        raise InputError(
            f"{source}: longer than {size(lines.MAX_LINE_BYTES)}, too long to be read as one JSON array. "
            "Make it JSON lines: jq -c '.[]' FILE.json > FILE.jsonl"
        )
    try:
        value = parse(data)
    except NotJSON as error:
        raise InputError(f"{source}:{error.line}: {error}") from None
    raise InputError(
        f"{source}: holds {kind(value)}, not an array of rows. "
        "Put the rows in one array, [{…}, {…}], or one object a line."
    )


def _samples(stream: BinaryIO, source: str) -> Iterator[tuple[int, Row | BadRow]] | None:
    """Return the samples of a log, each with the member that holds for all; None if the file is no such log."""
    stream.seek(0)
    stream.seek(len(lines.BOM) if stream.read(len(lines.BOM)) == lines.BOM else 0)
    text, logs = _Text(stream, source), arrays(source)
    try:
        head = text.into_samples(logs)
    except InputError:  # the reader of any object finds this error again
        return None
    if head is None:
        return None
    return (
        (number, row if isinstance(row, BadRow) else {**head, **row})
        for number, row in text.elements(alone=False)
    )


def _first_line(stream: BinaryIO, source: str) -> bytes:
    """Return the first line that is not blank, without leading space; of an array only its bracket. The stream is behind it."""
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


def _is_followed(stream: BinaryIO) -> bool:
    return any(not chunk.isspace() for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""))


class _Text:
    """A JSON array or object, decoded a chunk at a time: a gigabyte decoded at once takes tens of gigabytes."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        here = stream.tell()
        stream.seek(0)
        self._line = 1 + stream.read(here).count(b"\n")  # of the text's beginning
        self._stream, self._source = stream, source
        self._decode = json.JSONDecoder().raw_decode
        self._utf8 = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at, self._total = "", 0, here

    def into_samples(self, logs: Mapping[str, Log]) -> Row | None:
        """Enter the array of samples of a log; return the member that holds for all samples, or None if this is no log.

        Raises InputError for a text that is not JSON, or too long.
        """
        heads: dict[str, object] = {}
        self._mark()
        self._at += 1  # the brace
        while self._mark() == '"':
            name = str(self._value("the name of a member"))
            if self._mark() != ":":
                raise self._wrong("Expecting ':' delimiter", self._at)
            self._at += 1
            log = logs.get(name)
            head = (heads.get(log.head) if log.head else {}) if log else None
            if log and isinstance(head, dict) and head.keys() >= log.told and self._mark() == "[":
                self._at += 1
                return {log.head: head} if log.head else {}
            value = self._value(f'member "{shown(name)}"')
            if name in {each.head for each in logs.values()}:
                heads[name] = value
            if self._mark() != ",":
                break
            self._at += 1
        return None

    def elements(self, *, alone: bool = True) -> Iterator[tuple[int, Row | BadRow]]:
        """Yield the elements of the array, from 1. InputError if it is damaged, or not ``alone`` in the file."""
        number = 0
        mark = self._mark()
        while mark != "]":
            if number and mark != ",":
                raise self._wrong(
                    "Expecting ',' delimiter" if mark else "the array is not closed", self._at
                )
            if number:
                self._at += 1
            number += 1
            yield number, _object(self._value(f"row {number}"))
            mark = self._mark()
        self._at += 1
        if alone and self._mark():
            raise self._wrong("Extra data", self._at)

    def _value(self, called: str) -> object:
        self._mark()
        while True:
            if (
                length := len(self._text) - self._at
            ) > 2 * _CHUNK_BYTES:  # one value, then, and a step at most
                self._check_size(length - _STEP_BYTES, called)
            try:
                value, end = self._decode(self._text, self._at)
            except json.JSONDecodeError as error:
                # An error well before the end is real; near the end, or in an open string, more text may mend it.
                cut = error.pos > len(self._text) - 100 or error.msg.startswith("Unterminated")
                if not (cut and self._more()):
                    raise self._wrong(error.msg, error.pos) from None
            except (RecursionError, ValueError) as error:
                what = (
                    "nested too deeply"
                    if isinstance(error, RecursionError)
                    else "a number in it is too long"
                )
                raise InputError(
                    f"{self._source}:{called}: not usable JSON: {what}. Correct the row."
                ) from None
            else:
                if (
                    end < len(self._text) or not self._more()
                ):  # a number's next digits may still come
                    self._check_length(end - self._at, called)
                    self._at = end
                    return value

    def _check_length(self, length: int, called: str) -> None:
        if length > lines.MAX_LINE_BYTES:
            raise InputError(f"{self._source}:{called}: {lines.too_long('row')}")

    def _check_size(self, length: int, called: str) -> None:
        self._check_length(length, called)
        if self._text.count("[", self._at) + self._text.count("{", self._at) > _MOST_CONTAINERS:
            raise InputError(f"{self._source}:{called}: {_CROWDED} Correct the row.")

    def _mark(self) -> str:
        """Move to the next character that is not white space, and return it; "" at the end."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]  # it matches nothing, too
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def _more(self) -> bool:
        """Read the next chunk, a larger one for a long element; return False at the end of the file."""
        chunk = self._stream.read(min(max(_CHUNK_BYTES, len(self._text) - self._at), _STEP_BYTES))
        text = self._decoded(chunk)
        if not text:
            return False
        self._line += self._text.count("\n", 0, self._at)
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def _decoded(self, chunk: bytes) -> str:
        begins = self._total - len(
            self._utf8.getstate()[0]
        )  # with the half of a character that was left
        self._total += len(chunk)
        if self._total > lines.MAX_FILE_BYTES:
            raise lines.file_too_long(self._source)
        try:
            text = self._utf8.decode(chunk, final=not chunk)
        except UnicodeDecodeError as error:
            line = self._line + self._text.count("\n") + error.object.count(b"\n", 0, error.start)
            raise InputError(
                f"{self._source}:{line}: {not_utf8(error.object, error, begins)}"
            ) from None
        return text or (self._decoded(self._stream.read(_CHUNK_BYTES)) if chunk else "")

    def _wrong(self, what: str, at: int) -> InputError:
        column = at - self._text.rfind("\n", 0, at)
        line = self._line + self._text.count("\n", 0, at)
        return InputError(f"{self._source}:{line}: not valid JSON: {what} at column {column}.")


def _line_rows(stream: BinaryIO, source: str) -> Iterator[tuple[int, Row | BadRow]]:
    blank = 0
    for number, line in lines.numbered_lines(stream, source):
        if isinstance(line, BadRow):
            yield number, line
        elif line.isspace():
            blank += 1
            lines.check_idle(blank, number - blank, source)
        else:
            held = [_line_row(line)]
            del line  # a name would keep line or row in memory while the row is worked on: each may take 100 MB
            yield number, held.pop()


def _line_row(line: bytes) -> Row | BadRow:
    try:
        try:
            return _object(parse(line))
        except NotJSON:
            return _object(parse(line.rstrip()))  # or the line end would count as line 2
    except NotJSON as error:
        said = f"{error} Correct the line, or leave such rows out with --skip-bad-rows."
        return BadRow(said + _NAMED_JSON * (_first(line) == b"["), "not JSON")


def _object(value: object) -> Row | BadRow:
    if isinstance(value, dict):
        return value
    said = f'the row is {kind(value)}, not an object. Write it as {{"prompt": …, "response": …}}.'
    return BadRow(said + _NAMED_JSON * isinstance(value, list), "not an object")


def parse(data: bytes | bytearray) -> object:
    """Return the value of a JSON text. NotJSON if it is none.

    orjson goes first, for speed. The standard library then also takes the NaN that pandas and json.dumps write for a missing
    rating, and half surrogate pairs, so that only the row with one is bad.
    """
    if len(data) > _CHUNK_BYTES and _is_crowded(data):
        raise NotJSON(_CROWDED)
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        pass
    try:
        return json.loads(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise NotJSON(not_utf8(data, error), data.count(b"\n", 0, error.start) + 1) from None
    except json.JSONDecodeError as error:
        raise NotJSON(
            f"not valid JSON: {error.msg} at column {error.colno}.", error.lineno
        ) from None
    except RecursionError:
        raise NotJSON("not usable JSON: nested too deeply.") from None
    except ValueError:  # an integer of thousands of digits, which int() refuses
        raise NotJSON("not usable JSON: a number in it is too long.") from None


_CROWDED = f"not usable JSON: more than {_MOST_CONTAINERS:,} lists and objects in one row."


def _is_crowded(data: bytes | bytearray) -> bool:
    return data.count(b"[") + data.count(b"{") > _MOST_CONTAINERS


def _first(data: bytes) -> bytes:
    """Return the first byte that is not white space; b"" if there is none."""
    found = re.search(rb"\S", data)
    return found.group() if found else b""


FORMATS = {
    ".jsonl": Format(read_json_lines, (b"{",)),
    ".ndjson": Format(read_json_lines),
    ".json": Format(read_json_array, (b"[",)),
}
