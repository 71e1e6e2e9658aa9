"""Records of cells, as CSV and spreadsheets have them, as rows of named values."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from robin_cli.data.rows import BadRow, Row, RowTable, Unit, Wanted, place
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import number_of

HEADER_WITHIN = 20
"""The records among which the header may be."""

_NUMBER = re.compile(r"\s*[+-]?\d+([.,])\d+\s*")

_ERRORS = """
    #REF! #NAME? #VALUE! #DIV/0! #N/A #NUM! #NULL! #SPILL! #CALC! #GETTING_DATA #BEZUG! #WERT! #NV
    #ZAHL! #NOM? #VALEUR! #NOMBRE! #NUL! #¡REF! #¿NOMBRE? #¡VALOR! #¡DIV/0! #¡NUM! #¡NULO! #N/D
    #RIF! #NOME? #VALORE! #VALOR! #NÚM! #VERW! #NAAM? #WAARDE! #DEEL/0! #GETAL! #N/B #ADR! #NAZWA?
    #ARG! #DZIEL/0! #LICZBA! #ССЫЛКА! #ИМЯ? #ЗНАЧ! #ДЕЛ/0! #Н/Д #ЧИСЛО! #ПУСТО! #ÉRTÉK! #HIV! #NÉV?
    #ZÉRÓOSZTÓ! #HIÁNYZIK #SZÁM! #DEĞER! #BAŞV! #AD? #SAYI/0! #YOK #SAYI! #HODNOTA! #ODKAZ! #NÁZEV?
    #DĚLENÍ_NULOU! #VÆRDI! #REFERENCE! #NAVN? #DIVISION/0! #I/T #VÄRDEFEL! #REFERENS! #NAMN? #ARVO!
    #VIITTAUS! #NIMI? #ERROR!
"""
SPREADSHEET_ERRORS = frozenset(_ERRORS.split()) | {f"Err:{number}" for number in range(501, 541)}
"""What spreadsheets in several languages show, and save as CSV, in place of a missing value."""


RowOf = Callable[[list[Any]], Row]
"""Makes a row of a record's cells; it may raise BadRow."""


class Notes:
    """What is unusual in a file, for the user; it grows while the rows are read.

    Attributes:
        counts: how often each unusual thing was met, by its noun and what happens to it.
        decimal_mark: the mark of the first decimal number that stands as text.
    """

    def __init__(self) -> None:
        self.facts: list[str] = []
        self.counts: Counter[tuple[str, str]] = Counter()
        self.decimal_mark = ""

    def number(self, cell: str) -> str:
        """Return a number with a decimal point, other cells unchanged. BadRow if marks are mixed."""
        number = _NUMBER.fullmatch(cell)
        if number is None:
            return cell
        self.decimal_mark = self.decimal_mark or number[1]
        if self.decimal_mark != number[1]:
            raise BadRow(
                f'"{shown(cell)}" has another decimal mark than the numbers before it. '
                "Write all of them with a point.",
                "another decimal mark",
            )
        return cell.replace(",", ".")

    def texts(self) -> list[str]:
        commas = ["numbers have a decimal comma"] * (self.decimal_mark == ",")
        counted = [f"{number_of(n, noun)} {what}" for (noun, what), n in self.counts.items()]
        return [*self.facts, *commas, *counted]


def table_of(
    records: Iterator[tuple[int, list[Any]]],
    columns: Callable[[list[str]], tuple[list[str], RowOf]],
    source: str,
    unit: Unit,
    wanted: Wanted,
    notes: Notes,
) -> RowTable:
    """Return records of cells as rows: the header is among the first ones, below any title.

    Args:
        records: the number of each record, and its cells; none is empty.
        columns: takes the header; returns the columns' names, and what makes a row of cells.

    Raises:
        InputError: the header cannot be used.
    """
    first = list(islice(records, HEADER_WITHIN))
    if not first:
        return RowTable(None, unit, iter(()))
    at = header_at([cells for _, cells in first], wanted.names)
    number, header = first[at]
    last = header[-1]  # to compare one cell is faster
    header = _names(header)
    names, row_of = columns(header)
    check_names(names, place(source, unit, number), wanted)
    if at:
        notes.facts.append(f"the column names are in {unit} {number}")

    def rows() -> Iterator[tuple[int, Row | BadRow]]:
        for number, cells in chain(first[at + 1 :], records):
            if cells[-1] == last and _names(cells) == header:
                notes.counts["row", "with the column names again left out"] += 1
                continue
            try:
                yield number, row_of(cells)
            except BadRow as bad:
                yield number, bad

    return RowTable(names, unit, rows(), notes.texts, number)


def _names(cells: Sequence[Any]) -> list[str]:
    """Return cells as names of columns, without the byte order marks of files that were joined."""
    return ["" if cell is None else str(cell).strip("\ufeff").strip() for cell in cells]


def header_at(head: Sequence[Sequence[Any]], names: Collection[str]) -> int:
    """Return which of the first records is the header: the one with most of ``names``, at least 2.

    Else the first with two cells that are not empty: a title has one. Else the first.
    """
    fits = [len({str(cell).strip() for cell in cells if cell} & {*names}) for cells in head]
    if max(fits) > 1:
        return fits.index(max(fits))
    return next((at for at, cells in enumerate(head) if sum(map(bool, cells)) > 1), 0)


def check_names(names: Sequence[str], here: str, wanted: Wanted) -> None:
    """Raise InputError if two columns share a name that is looked for."""
    twice = sorted({name for name in names if name in wanted.names and names.count(name) > 1})
    if twice:
        raise InputError(
            f'{here}: two columns are called "{shown(twice[0])}". Rename or remove one of them.'
        )
