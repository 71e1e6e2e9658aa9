"""JSON lines and JSON arrays as rows; also the array of samples in a log that is one JSON object.

Lines are read one by one, and an array as a whole.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, BinaryIO

import orjson

from robin_cli.data import lines
from robin_cli.data.encodings import in_utf8
from robin_cli.data.logs import arrays
from robin_cli.data.rows import BadRow, Format, Row, Table, Wanted, kind, not_utf8
from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAMED_JSON = " A file that is one JSON array is named .json."


class NotJSON(Exception):
    """A text is not JSON: the reason, and the line, from 1."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def read_json_lines(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    """Return one row per line that is not blank, each a JSON object. Raises InputError as ``numbered_lines`` does."""
    return Table(None, "line", _line_rows(in_utf8(stream, source, wanted.encoding), source))


def read_json_array(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
    """Return the objects of one JSON array, or JSON lines (as in Summarize From Feedback's .json files), or a log's samples.

    Raises InputError for anything else.
    """
    stream = in_utf8(stream, source, wanted.encoding)
    whole = stream.read()
    lines.refuse_foreign(whole[:16], source)
    data = whole.removeprefix(lines.BOM)
    if not data or data.isspace():
        return Table(None, "row", iter(()))
    try:
        value = parse(data)
    except NotJSON as error:
        if _begins_with_an_object(data):
            stream.seek(0)
            return Table(None, "line", _line_rows(stream, source))
        raise InputError(f"{source}:{error.line}: {error}") from None
    if isinstance(value, list):
        return Table(None, "row", enumerate(map(_object, value), 1))
    samples = _samples(value, source) if isinstance(value, dict) else None
    if samples is not None:
        return Table(None, "row", enumerate(samples, 1))
    raise InputError(
        f"{source}: holds {kind(value)}, not an array of rows. "
        "Put the rows in one array, [{…}, {…}], or one object a line."
    )


def _begins_with_an_object(data: bytes) -> bool:
    """Return whether the first line that is not blank is a JSON object, and others follow."""
    first, _, rest = data.lstrip().partition(b"\n")
    return bool(rest.strip()) and isinstance(_line_row(first), dict)


def _samples(value: Row, source: str) -> Iterable[Row | BadRow] | None:
    """Return the samples of a log, each with the member that holds for all; None if the object is no such log."""
    for name, log in arrays(source).items():
        samples, head = value.get(name), value.get(log.head) if log.head else {}
        if isinstance(samples, list) and isinstance(head, dict) and head.keys() >= log.told:
            shared: Row = {log.head: head} if log.head else {}
            rows = map(_object, samples)
            return (row if isinstance(row, BadRow) else {**shared, **row} for row in rows)
    return None


def _line_rows(stream: BinaryIO, source: str) -> Iterator[tuple[int, Row | BadRow]]:
    for number, line in lines.numbered_lines(stream, source):
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError:
            row = None
        if type(row) is dict:
            yield number, row
        elif not line.isspace():
            yield number, _line_row(line)


def _line_row(line: bytes) -> Row | BadRow:
    try:
        try:
            return _object(parse(line))
        except NotJSON:
            return _object(parse(line.rstrip()))  # or the line end would count as line 2
    except NotJSON as error:
        said = f"{error} Correct the line, or leave such rows out with --skip-bad-rows."
        return BadRow(said + _NAMED_JSON * line.lstrip().startswith(b"["), "not JSON")


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


FORMATS = {
    ".jsonl": Format(read_json_lines, (b"{",)),
    ".ndjson": Format(read_json_lines),
    ".json": Format(read_json_array, (b"[",)),
}
