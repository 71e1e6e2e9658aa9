"""Any table on a terminal: columns fitted to its width, the first rows, and a note on omitted ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from robin_cli.model.arms import IntArray
from robin_cli.model.errors import InputError
from robin_cli.model.records import number_of
from robin_cli.show.fitting import CUT, Cells, FittedTable, fit
from robin_cli.show.tables import Column, Table
from robin_cli.show.text import as_called, one_line, plain, two_digits

MOST_ROWS = 60
"""The rows of a long table that people see."""

DASH = "–"
"""The cell of a missing value."""
_ENDLESS = 10**6
_GAP = 2
"""Cells between two columns."""
_ALL_ROWS = "all rows:"
"""What a note with the command that shows all begins with."""
_BAR = 12
_SHORTEST_BAR = 4
_LEFT = {"id", "name", "text"}
_FORMS = {"count": "{:,.0f}", "number": "{:z.2f}"}


def stdout_console(*, soft_wrap: bool = False) -> Console:
    """Return a console on standard output. It may style what it prints; any other text is made harmless by the stream."""
    return Console(file=getattr(sys.stdout, "styled", None), soft_wrap=soft_wrap)


def print_table(console: Console, table: Table, most: int = MOST_ROWS) -> None:
    """Print the first ``most`` rows of ``table`` in its order; then a note on omitted ones, and how to see them.

    Rows that are equal in that order stay in the order of the data.

    Raises:
        InputError: it is for files alone.
    """
    if not table.terminal:
        raise InputError(
            f"--format table: {table.name} are for files; leave it out, or name another format"
        )
    rows = rows_in_order(table)[:most]
    fitted = fit(_cells(table, rows), console.width, _GAP)
    _print_fitted(console, fitted, table, rows)
    for note in _notes(table, fitted, most, console.width):
        # a command is broken by the terminal alone
        copied = not console.is_terminal or note.startswith(_ALL_ROWS)
        console.print(Text(plain(note)), soft_wrap=copied)


def print_facts(console: Console, facts: Mapping[str, Any], *, a_line_each: bool = False) -> None:
    """Print names and values in two columns; ``a_line_each``: what does not fit in its line is cut, on a terminal alone."""
    grid = Grid.grid(padding=(0, 2))
    for name, value in facts.items():
        text = Text(plain(str(value)), no_wrap=a_line_each, overflow="ellipsis")
        grid.add_row(Text(plain(name), style="bold"), text)
    if a_line_each and not console.is_terminal:
        console.width = _ENDLESS
    console.print(grid)


def _texts(values: pa.ChunkedArray, form: str) -> list[str]:
    """Return the values of a column for people; a dash for a missing one."""
    found = values.to_pylist()
    if form in _LEFT:
        return ["" if value is None else one_line(value) for value in found]
    if form == "flag":
        return ["yes" if value else "" for value in found]
    if form == "word":
        return [one_line(value) if value else DASH for value in found]
    if form == "signed":
        return [DASH if value is None else two_digits(value, "+") for value in found]
    return [DASH if value is None else _FORMS[form].format(value) for value in found]


def rows_in_order(table: Table) -> IntArray:
    """Return the numbers of the rows in the order for people, those without a key last."""
    if table.sort is None:
        return np.arange(len(table))
    return np.argsort(np.nan_to_num(-table.sort.key(), nan=np.inf, posinf=np.inf), kind="stable")


def _cells(table: Table, rows: IntArray) -> list[Cells]:
    shown, data = table.shown(table.terminal), table.data.take(pa.array(rows))
    groups = list(dict.fromkeys(each.group for each in shown if each.group))
    columns = []
    for column in shown:
        numbers = None
        if column.form == "id":
            ids = np.arange(len(table)) + 1 if table.ids is None else table.ids
            numbers = list(ids[rows].tolist())
        elif column.form == "name":
            numbers = _places(data[column.name].to_pylist())
        rank = column.rank
        if column.group:  # the leading column of each group stays longest
            rank = len(groups) - 1 + rank if rank else groups.index(column.group)
        is_left = column.form in _LEFT
        cells, group = cells_of(data, column), one_line(column.group)
        columns.append(Cells(column.header, cells, rank, numbers, group, is_left))
    beside = [
        Cells(
            one_line(name),
            [one_line(text) or DASH for text in texts],
            numbers=_places(texts),
            is_left=True,
        )
        for name, texts in table.beside(rows).items()
    ]
    return [columns[0], *beside, *columns[1:]]


def cells_of(data: pa.Table, column: Column) -> list[str]:
    """Return the cells of a column; of an interval both ends, of equal counts one."""
    texts = _texts(data[column.name], column.form)
    if column.high:
        tops = _texts(data[column.high], column.form)
        is_one, to = column.form == "count", " to " if column.form == "signed" else " – "
        return [
            low if low == DASH or (is_one and low == high) else f"{low}{to}{high}"
            for low, high in zip(texts, tops, strict=True)
        ]
    return texts


def _places(texts: Sequence[str]) -> list[int]:
    """Return a number for each text, from 1; equal texts share theirs."""
    place = {text: number for number, text in enumerate(dict.fromkeys(texts), 1)}
    return [place[text] for text in texts]


def _print_fitted(console: Console, fitted: FittedTable, table: Table, rows: IntArray) -> None:
    """Print the rows, with bars if there is room for them."""
    bar = min(_BAR, console.width - fitted.whole - _GAP)
    width = sum(fitted.widths) + _GAP * (len(fitted.widths) - 1)
    cells = [list(map(Text, column.cells)) for column in fitted.columns]
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, _GAP - 1, 0, 0))
    for column, taken in zip(fitted.columns, fitted.widths, strict=True):
        side: Any = "left" if column.is_left else "right"
        grid.add_column(Text(column.name), justify=side, overflow="fold", width=taken)
    if table.bar is not None and bar >= _SHORTEST_BAR:
        width += bar + _GAP
        grid.add_column("", no_wrap=True, width=bar)
        lengths = bar * table.bar[rows] / max(1, table.bar.max(initial=0))
        cells.append([Text("█" * round(float(length))) for length in lengths])
    grid.width = width
    for row in zip(*cells, strict=True):
        grid.add_row(*row)
    if any(name for name, _ in fitted.groups):
        console.print(
            Text(" " * _GAP).join(_over(name, span) for name, span in fitted.groups), soft_wrap=True
        )
    console.print(grid, crop=False)


def _over(group: str, span: int) -> Text:
    """Return the line of group names over the columns."""
    head = Text(f" {group} " if cell_len(group) + 2 <= span else group, style="bold")
    head.align("center", span, "─" if group else " ")
    return head


def _notes(table: Table, fitted: FittedTable, most: int, width: int) -> list[str]:
    """Return notes on the table, on omissions, and how to see them."""
    notes = []
    if fitted.left_out:
        names = ", ".join(map(one_line, fitted.left_out))
        notes.append(
            f"left out at {width} columns: {names}; wider: -o FILE, or COLUMNS={fitted.all_columns}"
        )
    elif fitted.is_cut:
        notes.append(f"{CUT}: a text goes on; whole: -o FILE")
    notes += table.notes
    first, lines = fitted.columns[0], len(table)
    if table.columns[table.terminal[0]].form == "id" and any(
        cell.endswith(f"#{number}")
        for cell, number in zip(first.cells, first.numbers or (), strict=True)
    ):
        notes.append("#N: the Nth pair of the data, where ids look the same")
    rest = [f"{most:,} of {number_of(lines, table.noun)}"] if most < lines else []
    if table.sort is not None:
        rest.append(table.sort.words)
    if rest:
        notes.append(", ".join(rest))
    if most < lines and table.command:
        notes.append(as_called(f"{_ALL_ROWS} {table.command}{' --wide' * table.is_wide}"))
    return [*notes, *table.footer]
