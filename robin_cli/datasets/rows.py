"""What the readers of every format hand on: rows, each a dict or the reason it cannot be used."""

from __future__ import annotations

import gc
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO, Literal, NamedTuple

from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    from robin_cli.datasets.columns import FurtherColumns

Row = dict[str, object]
Columns = Mapping[str, Sequence[object]]

_VALUE_BYTES = 64

Unit = Literal["line", "row"]


def place(source: str, unit: Unit, number: int) -> str:
    """Where a row stands, for an error."""
    return f"{source}:{number}" if unit == "line" else f"{source}:row {number}"


class BadRow(Exception):
    """One row that cannot be used: the fact and the next step. The place is put before it where the file is known.

    ``reason`` is the fact in a few words, without what is particular to the row, for counting.
    """

    def __init__(self, said: str = "", reason: str = "cannot be read") -> None:
        super().__init__(said)
        self.reason = reason

    def at(self, here: str, step: str) -> InputError:
        """The error where rows are not left out: the fact, behind its place, and another step."""
        return InputError(f"{here}: {str(self).partition('. ')[0]}. {step}")


class Passed(BadRow):
    """A row that is none of the data, as of a log what is no answer: it is left out in any case, and counted."""


class Part:
    """Some rows of a source, one behind the other, with their numbers there: by column, or as they are, bad ones among them."""

    def __init__(
        self, numbers: Sequence[int], rows: Sequence[Row | BadRow] = (), columns: Columns | None = None
    ) -> None:
        self.numbers, self._rows, self._columns = numbers, rows, columns

    @classmethod
    def of(cls, numbered: Iterable[tuple[int, Row | BadRow]]) -> Part:
        """Rows with their numbers."""
        numbers, rows = zip(*numbered, strict=True)
        return cls(numbers, rows)

    def __len__(self) -> int:
        return len(self.numbers)

    def take(self, places: Sequence[int]) -> Part:
        """The rows at these places."""
        return Part([self.numbers[at] for at in places], [self.rows[at] for at in places])

    @cached_property
    def rows(self) -> Sequence[Row | BadRow]:
        """The rows as they are."""
        if self._columns is None:
            return self._rows
        return [dict(zip(self._columns, row, strict=True)) for row in zip(*self._columns.values(), strict=True)]

    @cached_property
    def shapes(self) -> Mapping[tuple[str, ...], tuple[Sequence[int], Columns]]:
        """The good rows by their keys: the places of those that have the same, and what they hold by name."""
        if self._columns is not None:
            return {tuple(self._columns): (range(len(self)), self._columns)}
        places: dict[tuple[str, ...], list[int]] = {}
        for at, row in enumerate(self._rows):
            if type(row) is dict:
                places.setdefault(tuple(row), []).append(at)
        values = {keys: zip(*(self._rows[at].values() for at in some), strict=True) for keys, some in places.items()}  # type: ignore[union-attr]  # these are dicts
        return {keys: (some, dict(zip(keys, values[keys], strict=True))) for keys, some in places.items()}


class Table(NamedTuple):
    """An open file as rows.

    ``names`` are the columns where the format states them before the first row, else None. ``unit`` says what the
    numbers before the rows count, from 1: physical lines of the file, rows of data, or of a sheet.
    """

    names: list[str] | None
    unit: Unit
    rows: Iterator[tuple[int, Row | BadRow]]
    told_by: Collection[str] | None = None
    """The fields by which data that have no bytes to hash are known again; None for all."""
    parts: Iterator[Part] | None = None
    """The same rows in parts, where the format has columns: what takes them takes no rows."""


class Wanted(NamedTuple):
    """Of which columns of a table the values are wanted; those of others need not be read.

    ``names`` are looked for, and may be paths into objects and lists. ``further`` says which others are kept, as far as they
    hold texts and numbers; None where none is. ``numbers`` are those of the names whose values are ratings and the like.
    """

    names: Collection[str]
    further: FurtherColumns | None = None
    numbers: Collection[str] = ()


Reader = Callable[[BinaryIO, str, Wanted], Table]
"""``reader(stream, source, wanted)``: the rows of an open file. ``source`` names it in errors.
Raises InputError, at once or while the rows are read, for what spoils the whole file."""

Scheme = Callable[[str, Wanted], Table]
"""``scheme(address, wanted)``: the rows at an address. Raises as a Reader."""


class Format(NamedTuple):
    """A kind of file: what reads it, how its bytes begin where they come without a name, and whether it may be compressed."""

    read: Reader
    begins: tuple[bytes, ...] = ()
    packable: bool = True


@contextmanager
def no_collector() -> Iterator[None]:
    """No cyclic garbage collection: it would go through millions of new pairs, and take a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


_INDEX = re.compile(r"-?\d{1,9}")


def is_index(step: str) -> bool:
    """Whether a step of a path is the place of an item in a list: from 0, or from the end with a minus."""
    return _INDEX.fullmatch(step) is not None


def leads_into(path: str, name: str) -> bool:
    """Whether a path goes on into the list that is called so, as choices.0.text into choices."""
    return path.startswith(f"{name}.") and is_index(path[len(name) + 1 :].partition(".")[0])


def weight(row: object, most: int) -> int:
    """Return about how many bytes a row takes in memory; past ``most``, anything from there on."""
    if type(row) is not dict:
        return 0
    found, inner = 0, [row]
    for values in inner:
        found += _VALUE_BYTES * len(values)
        if found >= most:  # or the list of a row's many values would take as much again
            break
        for value in values.values() if type(values) is dict else values:
            kind = type(value)
            if kind is str:
                found += len(value)
            elif kind is dict or kind is list:
                inner.append(value)
    return found


def kind(value: object) -> str:
    """What a value is, in a user's words."""
    if value is None:
        return "null"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    words = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "an object"}
    words[bytes] = "binary data"
    return words.get(type(value), f"a {type(value).__name__}")


def is_encodable(text: str) -> bool:
    """Whether a text holds no half of a surrogate pair."""
    try:
        return text.isascii() or text.encode("utf-8") is not None
    except UnicodeEncodeError:
        return False


def not_encodable(error: UnicodeEncodeError, called: str) -> BadRow:
    """What is wrong with a row in which the text of what is ``called`` so cannot be encoded."""
    return BadRow(
        f"{called} holds half of a surrogate pair (\\u{ord(error.object[error.start]):04x}), "
        "which no UTF-8 file can store. Correct the text, or leave such rows out with --skip-bad-rows.",
        "not UTF-8",
    )


def not_utf8(data: bytes | bytearray, error: UnicodeDecodeError, before: int = 0) -> str:
    """What to say of bytes that are not UTF-8; the offset counts from 0, ``before`` bytes before ``data``."""
    return (
        f"byte 0x{data[error.start]:02X} at offset {before + error.start} is not UTF-8. "
        "Save the file as UTF-8 (iconv -f latin1 -t utf-8, if that is what it is)."
    )
