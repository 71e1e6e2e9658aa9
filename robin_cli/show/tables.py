"""Tables: columns declared once, and their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.model.arms import FloatArray, IntArray

Hide = Literal["", "empty", "zero"]
Form = Literal["id", "name", "text", "word", "flag", "count", "number", "signed"]
"""How people see a column.

``id``: a text that differs from row to row. ``name``: one of a few texts. ``text``, ``word``: one that is never cut, aligned
left or right. ``flag``: yes, or nothing. ``count``: a whole number. ``number``: two decimals, also in the report. ``signed``:
two decimals with their sign. The minus is the plain one, which spreadsheets and scripts read.
"""
Beside = Callable[[IntArray], Mapping[str, Sequence[str]]]
"""Reads further texts of some rows, by header."""
TEXTS = frozenset({"id", "name", "text", "word"})
_TYPES = {"flag": pa.bool_(), "count": pa.int64(), "number": pa.float64(), "signed": pa.float64()}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its names, its meaning, and how people see it.

    Attributes:
        name: in files, JSON and Python.
        help: its meaning, in a sentence; '' for a column of the data.
        form: how people see its values.
        label: its header for people; '' for its name.
        high: the column of the upper end, if this one is the lower end of an interval: people see both as one.
        rank: without enough room, columns go from the highest rank down; those of 0 stay.
        hide: people do not see a column that is ``empty``, or all ``zero``.
        for_people: whether files leave it out.
        returned: whether a workbook that was judged comes back with it.
        group: the common header above this column and those beside it.
    """

    name: str
    help: str = ""
    form: Form = "text"
    label: str = ""
    high: str = ""
    rank: int = 0
    hide: Hide = ""
    for_people: bool = False
    returned: bool = False
    group: str = ""

    @property
    def header(self) -> str:
        """Its header for people."""
        return self.label or self.name.replace("_", " ")


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of rows: the largest ``key`` first, rows without one last; ``words`` name it."""

    words: str
    key: Callable[[], FloatArray]


@dataclass(frozen=True, slots=True)
class Table:
    """A result as rows. A declaration has no ``data``; :meth:`of` fills it.

    Attributes:
        name: its name, also on the command line.
        says: its content, in a sentence.
        row: the content of a row.
        columns: by name.
        terminal: names of the columns that people see, in their order.
        data: the values, in the order of the files; null for none.
        noun: a row, in a word.
        ids: a number for each row that tells it apart if its id looks like another, shape (rows,).
        bar: for each row, shown as a bar if there is room, shape (rows,).
        sort: the order in which people see the rows; None to leave them as they are.
        notes, footer: lines under the table, before and behind those on omitted rows and columns.
        command: the command line that shows it.
        further: returns the rows for files, if these have more columns.
        beside: reads texts that people see behind the first column, for the rows shown alone.
        is_wide: whether :meth:`wide` returned it.
    """

    name: str
    says: str
    row: str
    columns: Mapping[str, Column]
    terminal: Sequence[str] = ()
    data: pa.Table = field(default_factory=partial(pa.table, {}))
    noun: str = "row"
    ids: IntArray | None = None
    bar: FloatArray | IntArray | None = None
    sort: Sort | None = None
    notes: Sequence[str] = ()
    footer: Sequence[str] = ()
    command: str = ""
    further: Callable[[], pa.RecordBatchReader] | None = None
    beside: Beside = lambda _rows: {}
    is_wide: bool = False

    @property
    def public(self) -> list[str]:
        """The names of the columns of files, JSON and Python."""
        return [name for name, column in self.columns.items() if not column.for_people]

    def __len__(self) -> int:
        return int(self.data.num_rows)

    def with_values(self, values: Mapping[str, Any], *more: Column, **about: Any) -> Table:
        """Return the table with ``values``, a list or an array for each column, in the order of the files.

        Args:
            more: columns named by the data.
            about: further attributes.
        """
        columns = {**self.columns, **{each.name: each for each in more}}
        if unknown := values.keys() - columns.keys():
            raise ValueError(f"{self.name} declares no {', '.join(sorted(unknown))}")
        data = pa.table(
            {name: _in_arrow(each, columns[name].form) for name, each in values.items()}
        )
        return replace(self, columns=columns, data=data, **about)

    def arrow(self) -> pa.Table:
        """Return the columns of files, in memory."""
        return self.data.select(
            [name for name in self.data.column_names if not self.columns[name].for_people]
        )

    def rows(self) -> pa.RecordBatchReader:
        """Return the rows of files, some at a time."""
        return self.arrow().to_reader() if self.further is None else self.further()

    def having(self, further: Callable[[], pa.RecordBatchReader]) -> Table:
        """Return the table with the rows of ``further`` for files, which have more columns."""
        return replace(self, further=further)

    def records(self) -> list[dict[str, Any]]:
        """Return a dict for each row, as in JSON."""
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return rows

    def shown(self, names: Sequence[str]) -> list[Column]:
        """Return the columns of these names that are not hidden."""
        return [
            self.columns[name]
            for name in names
            if name in self.data.column_names and self._says(name)
        ]

    def _says(self, name: str) -> bool:
        """Return whether people see a column: whether it has a value, unless it always shows."""
        values, column = self.data[name], self.columns[name]
        if column.hide == "empty":
            is_text = column.form in TEXTS
            return bool(
                pc.any(pc.not_equal(values, "")).as_py()
                if is_text
                else values.null_count < len(values)
            )
        return not column.hide or bool(
            pc.any(pc.greater(pc.cast(values, pa.float64()), 0.0)).as_py()
        )

    def wide(self, rows: IntArray, facets: Sequence[str], once: Sequence[str]) -> Table:
        """Return a row for each line of ``rows``, shape (lines, facets), in which each facet has columns of its own.

        Args:
            facets: their names.
            once: columns that all facets of a line share; all but the first, the id, for people alone.
        """
        shared = [name for name in once if name in self.data.column_names]
        data = self.data.select(shared).take(pa.array(rows[:, 0]))
        columns = {name: replace(self.columns[name], for_people=name != once[0]) for name in shared}
        names = [
            name for name in self.data.column_names if name not in {once[0], "attribute", "judge"}
        ]
        shown = [
            name
            for name in self.terminal
            if name in names and name not in once and self._says(name)
        ]
        for facet, lines in zip(facets, rows.T, strict=True):
            of_facet = self.data.select(names).take(pa.array(lines))
            for name in names:
                data = data.append_column(f"{facet}_{name}", of_facet[name])
                columns[f"{facet}_{name}"] = _of_facet(self.columns[name], facet)
        return replace(
            self,
            columns=columns,
            data=data,
            is_wide=True,
            beside=lambda lines: self.beside(rows[lines, 0]),
            terminal=[
                *(name for name in self.terminal if name in shared),
                *(f"{facet}_{name}" for facet in facets for name in shown),
            ],
            ids=None if self.ids is None else self.ids[rows[:, 0]],
            bar=None if self.bar is None else self.bar[rows].sum(axis=1),
            sort=self.sort and replace(self.sort, key=_of_lines(self.sort.key, rows)),
        )


def read_by(schema: pa.Schema, tables: Iterable[pa.Table]) -> pa.RecordBatchReader:
    """Return the rows of ``tables``, which have the columns of ``schema``, read one table after another."""
    batches = (batch for table in tables for batch in table.to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def declared(name: str, says: str, row: str, columns: Iterable[Column], **shown: Any) -> Table:
    """Return a table without values."""
    return Table(name, says, row, {each.name: each for each in columns}, **shown)


def _of_facet(column: Column, facet: str) -> Column:
    """Return the column of one facet: its header stays, its name and the names it refers to get the facet's prefix."""
    name, high = (each and f"{facet}_{each}" for each in (column.name, column.high))
    return replace(column, name=name, label=column.header, high=high, group=facet, hide="")


def _of_lines(key: Callable[[], FloatArray], rows: IntArray) -> Callable[[], FloatArray]:
    """Return the key of lines of several rows: the largest of theirs."""
    return lambda: np.asarray(np.nan_to_num(key(), nan=-np.inf, posinf=np.inf)[rows].max(axis=1))


def _in_arrow(values: Any, form: Form) -> pa.Array | pa.ChunkedArray:
    """Return the values in Arrow, nan as null; texts may take more than the 2 GB of a short column."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "column"):  # names that are in Arrow already
        return values.column
    is_typed = isinstance(values, np.ndarray) and values.dtype != object
    return pa.array(
        values, None if is_typed else _TYPES.get(form, pa.large_string()), from_pandas=True
    )
