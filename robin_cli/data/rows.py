"""Rows as the readers of all formats return them: each is a dict, or the reason why it cannot be used."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple

from robin_cli.model.errors import InputError, shown

Row = dict[str, object]

Unit = Literal["line", "row"]


def place(source: str, unit: Unit, number: int) -> str:
    """Return the place of a row, as an error names it."""
    return f"{source}:{number}" if unit == "line" else f"{source}:row {number}"


class BadRow(Exception):
    """One row that cannot be used. Its message is the fact and the next step; whoever knows the file adds the place.

    ``reason`` is the fact in a few words that many rows share: bad rows are counted by it.
    """

    def __init__(self, message: str = "", reason: str = "cannot be read") -> None:
        super().__init__(message)
        self.reason = reason

    def at(self, here: str, step: str) -> InputError:
        """Return the error for callers that leave no rows out: the place, the fact, and ``step`` as the next step."""
        return InputError(f"{here}: {str(self).partition('. ')[0]}. {step}")


class Table(NamedTuple):
    """An open file as rows.

    ``names`` are the columns if the format states them before the first row, else None. Rows are numbered from 1 in
    ``unit``: physical lines of the file, or rows of data or of a sheet.
    """

    names: list[str] | None
    unit: Unit
    rows: Iterator[tuple[int, Row | BadRow]]


class Wanted(NamedTuple):
    """The columns that a reader must return; it need not read others.

    Attributes:
        names: columns that are looked for; they may be paths into objects and lists.
        others: whether other columns of texts and numbers are wanted too.
        numbers: the names whose values are numbers, such as ratings.
        encoding: the encoding of text files; "" to recognise it.
        logs: what the samples of a tool's log are read as; "" to return them as they are.
    """

    names: Collection[str]
    others: bool = False
    numbers: Collection[str] = ()
    encoding: str = ""
    logs: Literal["", "pairs", "scores"] = ""


Reader = Callable[[BinaryIO, str, Wanted], Table]
"""``reader(stream, source, wanted)`` returns the rows of an open file. ``source`` names it in errors.
Raises InputError, at once or while the rows are read, if the whole file cannot be used."""

Scheme = Callable[[str, Wanted], Table]
"""``scheme(address, wanted)`` returns the rows at an address. Raises as a Reader."""


class Format(NamedTuple):
    """A kind of file: its reader, the first bytes that identify it without a name, and whether it may be compressed."""

    read: Reader
    begins: tuple[bytes, ...] = ()
    packable: bool = True


_NUMBER = re.compile(r"\s*[+-]?\d+([.,])\d+\s*")


@dataclass
class DecimalMark:
    """The mark of the decimal numbers that stand as text in a file: a point or a comma, as the first one has it."""

    mark: str = ""

    def number(self, cell: str) -> str:
        """Return a number with a decimal point, other cells unchanged. BadRow if the marks are mixed."""
        found = _NUMBER.fullmatch(cell)
        if found is None:
            return cell
        self.mark = self.mark or found[1]
        if self.mark != found[1]:
            raise BadRow(
                f'"{shown(cell)}" has another decimal mark than the numbers before it. Write all of them with a point.',
                "another decimal mark",
            )
        return cell.replace(",", ".")


_ERRORS = """
    #REF! #NAME? #VALUE! #DIV/0! #N/A #NUM! #NULL! #SPILL! #CALC! #GETTING_DATA
    #BEZUG! #WERT! #NV #ZAHL! #NOM? #VALEUR! #NOMBRE! #NUL! #¡REF! #¿NOMBRE? #¡VALOR! #¡DIV/0! #¡NUM! #¡NULO! #N/D
    #RIF! #NOME? #VALORE! #VALOR! #NÚM! #VERW! #NAAM? #WAARDE! #DEEL/0! #GETAL! #N/B #ADR! #NAZWA? #ARG! #DZIEL/0! #LICZBA!
    #ССЫЛКА! #ИМЯ? #ЗНАЧ! #ДЕЛ/0! #Н/Д #ЧИСЛО! #ПУСТО!
    #ÉRTÉK! #HIV! #NÉV? #ZÉRÓOSZTÓ! #HIÁNYZIK #SZÁM! #DEĞER! #BAŞV! #AD? #SAYI/0! #YOK #SAYI! #HODNOTA! #ODKAZ! #NÁZEV?
    #DĚLENÍ_NULOU! #VÆRDI! #REFERENCE! #NAVN? #DIVISION/0! #I/T #VÄRDEFEL! #REFERENS! #NAMN? #ARVO! #VIITTAUS! #NIMI? #ERROR!
"""
SPREADSHEET_ERRORS = frozenset(_ERRORS.split()) | {f"Err:{number}" for number in range(501, 541)}
"""What spreadsheets in several languages show, and save as CSV, in place of a value: it is missing."""

HEADER_WITHIN = 20
"""The rows among which the header may be."""


def header_at(head: Sequence[Sequence[object]], names: Collection[str]) -> int:
    """Return which of the first rows names the columns: the one with the most ``names``, of two or more.

    Else the first with two cells that are not empty: a title has one. Else the first.
    """
    fits = [len({str(cell).strip() for cell in row if cell} & {*names}) for row in head]
    if max(fits) > 1:
        return fits.index(max(fits))
    return next((at for at, row in enumerate(head) if sum(map(bool, row)) > 1), 0)


_INDEX = re.compile(r"-?\d{1,9}")


def is_index(step: str) -> bool:
    """Return whether a step of a path is an index into a list: from 0, or negative from the end."""
    return _INDEX.fullmatch(step) is not None


def leads_into(path: str, name: str) -> bool:
    """Return whether a path leads into the list ``name``, as choices.0.text and choices.text lead into choices."""
    return path.startswith(f"{name}.")


def kind(value: object) -> str:
    """Return the kind of a value in a user's words, for example "a number"."""
    if value is None:
        return "null"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    words = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "text",
        list: "a list",
        dict: "an object",
    }
    words[bytes] = "binary data"
    return words.get(type(value), f"a {type(value).__name__}")


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
        f"{called} holds half of a surrogate pair (\\u{ord(half):04x}), which no UTF-8 file can store. "
        "Correct the text, or leave such rows out with --skip-bad-rows.",
        "not UTF-8",
    )


def not_utf8(data: bytes | bytearray, error: UnicodeDecodeError) -> str:
    """Return the message for bytes that are not UTF-8."""
    return (
        f"byte 0x{data[error.start]:02X} at offset {error.start} is not UTF-8. "
        "Save the whole file as UTF-8, or name its encoding: --encoding NAME."
    )
