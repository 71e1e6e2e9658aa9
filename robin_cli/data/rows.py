"""Rows as the readers of all formats return them: each is a dict, or the reason why it cannot be used."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator
from typing import BinaryIO, Literal, NamedTuple

from robin_cli.model.errors import InputError

Row = dict[str, object]

Unit = Literal["line", "row"]


def place(source: str, unit: Unit, number: int) -> str:
    """Return the place of a row, as an error names it."""
    return f"{source}:{number}" if unit == "line" else f"{source}:row {number}"


class BadRow(Exception):
    """One row that cannot be used. The message is the fact and the next step, without the place.

    ``reason`` is the fact in a few words that many rows share: bad rows are counted by it.
    """

    def __init__(self, message: str = "", reason: str = "cannot be read") -> None:
        super().__init__(message)
        self.reason = reason

    def at(self, here: str, step: str) -> InputError:
        """Return the error for callers that skip no rows: place, fact, and ``step`` to do next."""
        return InputError(f"{here}: {str(self).partition('. ')[0]}. {step}")


class RowTable(NamedTuple):
    """An open file as rows.

    Attributes:
        names: the columns if the format states them before the first row, else None.
        unit: what the numbers of rows count from 1: lines of the file, or rows.
        notes: returns what is unusual in the file, for the user, once the rows are read.
        header: the number of the row with the names, if the format has one.
        sheet: the sheet that was read of a workbook.
    """

    names: list[str] | None
    unit: Unit
    rows: Iterator[tuple[int, Row | BadRow]]
    notes: Callable[[], list[str]] = list
    header: int = 0
    sheet: str = ""


class Wanted(NamedTuple):
    """The columns that a reader must return; it need not read others.

    Attributes:
        names: columns that are looked for; they may be paths into objects and lists.
        others: whether other columns of texts and numbers are wanted too.
        numbers: the names whose values are numbers, such as ratings.
        encoding: the encoding of text files; "" to recognise it; None if no flag can name it.
        logs: what the samples of a tool's log are read as; "" to return them as they are.
    """

    names: Collection[str]
    others: bool = False
    numbers: Collection[str] = ()
    encoding: str | None = None
    logs: Literal["", "pairs", "scores"] = ""


Reader = Callable[[BinaryIO, str, Wanted], RowTable]
"""``reader(stream, source, wanted)`` returns the rows of an open file, which errors call
``source``. It raises InputError, also while rows are read, if the whole file cannot be used."""


class Format(NamedTuple):
    """A kind of file.

    Attributes:
        begins: the first bytes that identify it without a name.
        packable: whether it may be compressed.
        by_path: whether the reader opens ``stream.name`` itself.
    """

    read: Reader
    begins: tuple[bytes, ...] = ()
    packable: bool = True
    by_path: bool = False


def leads_into(path: str, name: str) -> bool:
    """Return whether a path leads into a list, as choices.0.text leads into choices."""
    return path.startswith(f"{name}.")


def is_index(step: str) -> bool:
    """Return whether a step of a path is an index into a list: from 0, or negative from the end."""
    return re.fullmatch(r"-?\d{1,9}", step) is not None


_KINDS = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
    bytes: "binary data",
}


def kind(value: object) -> str:
    """Return the kind of a value in a user's words, for example "a number"."""
    if value is None:
        return "null"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def is_encodable(text: str) -> bool:
    """Return whether a text holds no half of a surrogate pair."""
    try:
        return text.isascii() or text.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False


def check_encodable(text: str, called: str) -> None:
    """Raise BadRow if a text, which its message calls ``called``, cannot be encoded as UTF-8."""
    if not is_encodable(text):
        raise not_encodable(text, called)


def not_encodable(text: str, called: str) -> BadRow:
    """Return the error of a text with half of a surrogate pair."""
    half = next(each for each in text if "\ud800" <= each <= "\udfff")
    return BadRow(
        f"{called} holds half of a surrogate pair (\\u{ord(half):04x}), which no UTF-8 file can "
        "store. Correct the text, or leave such rows out with --skip-bad-rows.",
        "not UTF-8",
    )
