"""A table as the columns of an HTML page, which a script sorts and draws."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from robin_cli.model.arms import IntArray
from robin_cli.show.tables import Column, Table

OF_DATA = "From the data."
_KINDS = {"id": "id", "count": "number", "number": "score", "signed": "difference"}


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column of a page: its name, a value for each row, its description ``says``.

    ``kind``: id, text, number, score, difference, range (low and high, or None), bar (the number of the row's scale) or hidden,
    which can be looked for and is not shown.
    """

    name: str
    kind: str
    says: str
    values: Sequence[Any]


def page_columns(table: Table, rows: IntArray, bar: PageColumn) -> list[PageColumn]:
    """Return the page's columns for ``rows``; ``bar`` is placed among them."""
    there, data = (
        {column.name: column for column in table.shown(table.html)},
        table.data.take(pa.array(rows)),
    )
    first, *others = [
        bar if name == bar.kind else _page_column(data, there[name])
        for name in table.html
        if name == bar.kind or name in there
    ]
    return [first, *own_columns(table.beside(rows), [first, *others], "text"), *others]


def own_columns(
    texts: Mapping[str, Sequence[str]], there: Sequence[PageColumn], kind: str
) -> list[PageColumn]:
    """Return columns of the data as a page's columns; one named like a column in ``there`` becomes ``data.NAME``."""
    taken = {"attribute", *(each.name for each in there)}  # the script goes by this one
    return [
        PageColumn(f"data.{name}" if name in taken else name, kind, OF_DATA, values)
        for name, values in texts.items()
    ]


def _page_column(data: pa.Table, column: Column) -> PageColumn:
    values: list[Any] = data[column.name].to_pylist()
    if column.high:
        ends = zip(values, data[column.high].to_pylist(), strict=True)
        ranges = [
            None if low is None or high is None else [_rounded(low), _rounded(high)]
            for low, high in ends
        ]
        return PageColumn(column.header, "range", f"{column.help} Sorts by how wide it is.", ranges)
    if column.form == "flag":
        values = ["yes" if value else "" for value in values]
    says = (
        column.help.removesuffix(".") + "; opens its texts." if column.form == "id" else column.help
    )
    return PageColumn(
        column.header, _KINDS.get(column.form, "text"), says, [_rounded(value) for value in values]
    )


def _rounded(value: Any) -> Any:
    """Return ``value`` with few digits; the script rounds it to two like the terminal, so no value is left halfway."""
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    few = round(value, 4)
    return round(value, 2) if round(abs(few) * 10_000) % 100 == 50 else few
