"""A table as the columns of an HTML page, whose script sorts and draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import IntArray
from robin_cli.results.tables import Column, Table, is_nothing, listed, taken

_KINDS = {"id": "id", "count": "number", "number": "score", "share": "score", "signed": "difference"}


@dataclass(frozen=True, slots=True)
class PageColumn:
    """A column of a page: its name, a value a row, what it ``says``.

    ``kind``: id, text, number, score, difference, range (low and high, or None) or bar (the number of the row's scale).
    """

    name: str
    kind: str
    says: str
    values: Sequence[Any]


def page_columns(table: Table, rows: IntArray, bar: PageColumn) -> list[PageColumn]:
    """Return the columns of ``rows`` that a page shows; ``bar`` takes its place among them."""
    there = {column.name: column for column in table.shown(table.html)}
    return [
        bar if name == bar.kind else _page_column(table, there[name], rows)
        for name in table.html
        if name == bar.kind or name in there
    ]


def _page_column(table: Table, column: Column, rows: IntArray) -> PageColumn:
    values = taken(table.values[column.name], rows)
    if column.high:
        ends = np.column_stack([values, taken(table.values[column.high], rows)])
        return PageColumn(column.header, "range", f"{column.help} Sorts by how wide it is.", cells(ends))
    if column.form == "flag":
        values = ["yes" if each else "" for each in listed(values)]
    says = column.help.removesuffix(".") + "; opens its texts." if column.form == "id" else column.help
    return PageColumn(column.header, _KINDS.get(column.form, "text"), says, cells(values))


def cells(values: Sequence[Any] | NDArray[Any]) -> list[Any]:
    """Values as a page has them: numbers to four places, None for nan; of shape (rows, 2) as ranges."""
    if isinstance(values, np.ndarray) and values.ndim == 2:
        return [None if any(map(is_nothing, ends)) else [round(end, 4) for end in ends] for ends in values.tolist()]
    if isinstance(values, np.ndarray) and values.dtype.kind == "f":
        return [None if math.isnan(value) else round(value, 4) for value in values.tolist()]
    return listed(values)
