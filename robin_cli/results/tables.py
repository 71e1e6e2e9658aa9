"""Tables: columns that are declared once, and their values."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray

Hide = Literal["", "empty", "zero"]
Form = Literal["id", "name", "text", "word", "flag", "count", "number", "share", "signed"]
"""How people read a column.

``id``: a text of its own in each row. ``name``: one of a few texts. ``text``, ``word``: one that is never cut, on the left or
on the right. ``flag``: yes, or
nothing. ``count``: a whole number. ``number``: two decimals, whole numbers without. ``share``: two decimals. ``signed``: two
decimals, with their sign.
"""
TEXTS = frozenset({"id", "name", "text", "word"})
_TYPES = {
    "flag": pa.bool_(),
    "count": pa.int64(),
    "number": pa.float64(),
    "share": pa.float64(),
    "signed": pa.float64(),
}

_FEW = 10_000
"""Rows that are picked one by one out of many names rather than all in Arrow."""

Values: TypeAlias = Any
"""A value a row: an array of numpy or Arrow, a list, or names that are in Arrow already, as their ``column``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column: what it is called, what it says, and how people see it.

    Attributes:
        name: in files, JSON and Python.
        help: what it says, in a sentence; '' for a column of the data.
        form: how people read it.
        label: its header for people; '' for its name.
        high: the column of the upper end, where this one is the lower end of an interval: people see both as one.
        rank: where there is no room, columns go from the highest rank down; those of 0 stay.
        hide: people do not see a column that is ``empty``, or all ``zero``.
        mark: the flag column whose rows have a star behind the value.
        for_people: files do not have it.
        group: what this column has in common with those beside it, above their headers.
    """

    name: str
    help: str = ""
    form: Form = "text"
    label: str = ""
    high: str = ""
    rank: int = 0
    hide: Hide = ""
    mark: str = ""
    for_people: bool = False
    group: str = ""

    @property
    def header(self) -> str:
        """What people see above it."""
        return self.label or self.name.replace("_", " ")

    @property
    def own_name(self) -> str:
        """Its name without the group's."""
        return self.name.removeprefix(f"{self.group}_") if self.group else self.name


@dataclass(frozen=True, slots=True)
class Sort:
    """An order of rows: the largest ``key`` first, rows without one last. ``column`` is shown for it; ``words`` say it."""

    words: str
    key: Callable[[], FloatArray]
    column: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """Rows in parts, so that no more than one has to be in memory; all parts have the columns of ``schema``."""

    schema: pa.Schema
    parts: Iterable[pa.Table]

    @classmethod
    def of(cls, table: pa.Table) -> Self:
        """Rows in one part."""
        return cls(table.schema, [table])

    def whole(self) -> pa.Table:
        """All of them in one table."""
        return pa.concat_tables([self.schema.empty_table(), *self.parts])


@dataclass(frozen=True, slots=True)
class Table:
    """A result as rows. Without values it is a declaration, which :meth:`of` fills.

    Attributes:
        name: what it is called, also on the command line.
        says: what it is, in a sentence; what ``row`` a row is.
        columns: by name.
        terminal, html: names of the columns that people see there, in their order.
        values: by the names of columns, in the order of the files.
        noun: what a row is, in a word.
        ids: a number per row that tells it apart where its id looks like another, shape (rows,).
        bar: per row, shown as a bar where there is room, shape (rows,).
        dim: rows that matter less, shape (rows,).
        sorts: the orders that people may choose, by name; without any the rows stay as they are.
        notes, footer: lines under the table, before and behind those on rows and columns that are left out.
        command: the command line that shows it.
        further: the rows for files, where these have more columns.
    """

    name: str
    says: str
    row: str
    columns: Mapping[str, Column]
    terminal: Sequence[str] = ()
    html: Sequence[str] = ()
    values: Mapping[str, Values] = field(default_factory=dict)
    noun: str = "row"
    ids: IntArray | None = None
    bar: FloatArray | IntArray | None = None
    dim: NDArray[np.bool_] | None = None
    sorts: Mapping[str, Sort] = field(default_factory=dict)
    notes: Sequence[str] = ()
    footer: Sequence[str] = ()
    command: str = ""
    further: Callable[[], Parts] | None = None

    @property
    def public(self) -> list[str]:
        """The names of the columns that files, JSON and Python have."""
        return [name for name, column in self.columns.items() if not column.for_people]

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def of(self, values: Mapping[str, Values], *more: Column, **about: Any) -> Table:
        """The table with these values, in the order in which files have them.

        Args:
            more: columns that the data names.
            about: further attributes.
        """
        columns = {**self.columns, **{each.name: each for each in more}}
        if unknown := values.keys() - columns.keys():
            raise ValueError(f"{self.name} declares no {', '.join(sorted(unknown))}")
        return replace(self, columns=columns, values=values, **about)

    def arrow(self) -> pa.Table:
        """The columns of files."""
        mine = {name: each for name, each in self.values.items() if not self.columns[name].for_people}
        return pa.table({name: arrow_of(each, self.columns[name].form) for name, each in mine.items()})

    def parts(self) -> Parts:
        """The rows as files have them."""
        return Parts.of(self.arrow()) if self.further is None else self.further()

    def having(self, further: Callable[[], Parts]) -> Table:
        """The same, of which files have more columns."""
        return replace(self, further=further)

    def records(self) -> list[dict[str, Any]]:
        """A row each, as JSON has them: None for what is not there."""
        rows: list[dict[str, Any]] = self.arrow().to_pylist()
        return rows

    def shown(self, names: Sequence[str]) -> Iterator[Column]:
        """Of the columns of these names those that say something."""
        for name in names:
            if name in self.values and not _says_nothing(self.values[name], self.columns[name].hide):
                yield self.columns[name]

    def wide(self, rows: IntArray, facets: Sequence[str], once: Sequence[str] = ("pair_id",)) -> Table:
        """A row for each row of ``rows``, shape (lines, facets), in which each facet has columns of its own.

        Args:
            facets: their names.
            once: for people, columns that are the same in all facets of a line.
        """
        first = rows[:, 0]
        own = [name for name in self.values if name not in {"pair_id", "attribute", "judge"}]
        columns = {name: self.columns[name] for name in once}
        values: dict[str, Values] = {name: taken(self.values[name], first) for name in once if name in self.values}
        if "pair_id" not in once:
            raise ValueError("a wide table has an id a line")
        columns |= {name: replace(columns[name], for_people=True) for name in once if name != "pair_id"}
        terminal = [name for name in self.terminal if name in values]
        for facet, mine in zip(facets, rows.T, strict=True):
            for name in own:
                columns[f"{facet}_{name}"] = _of_facet(self.columns[name], facet)
                values[f"{facet}_{name}"] = taken(self.values[name], mine)
            terminal += [f"{facet}_{name}" for name in self.terminal if name in own and name not in once]
        hidden = {name for name in own if _says_nothing(self.values[name], self.columns[name].hide)}
        return replace(
            self,
            columns=columns,
            values=values,
            terminal=[name for name in terminal if columns[name].own_name not in hidden],
            ids=None if self.ids is None else self.ids[first],
            bar=None if self.bar is None else self.bar[rows].sum(axis=1),
            dim=None if self.dim is None else np.asarray(self.dim[rows].any(axis=1)),
            sorts={name: replace(each, key=_of_lines(each.key, rows)) for name, each in self.sorts.items()},
        )


def declared(name: str, says: str, row: str, columns: Iterable[Column], **shown: Any) -> Table:
    """A table without values."""
    return Table(name, says, row, {each.name: each for each in columns}, **shown)


def _of_facet(column: Column, facet: str) -> Column:
    """The column of one facet; its headers stay, its name and those it refers to are the facet's."""
    high, mark = (name and f"{facet}_{name}" for name in (column.high, column.mark))
    name = f"{facet}_{column.name}"
    return replace(column, name=name, label=column.header, high=high, mark=mark, group=facet, hide="")


def _of_lines(key: Callable[[], FloatArray], rows: IntArray) -> Callable[[], FloatArray]:
    """The key of lines of several rows: that of the first of them."""
    return lambda: np.asarray(np.nan_to_num(key(), nan=-np.inf, posinf=np.inf)[rows].max(axis=1))


def taken(values: Values, rows: IntArray) -> Values:
    """Return the values of ``rows``."""
    if isinstance(values, np.ndarray):
        return values[rows]
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values.take(pa.array(rows))
    if hasattr(values, "column") and len(rows) > _FEW:
        return values.column.take(pa.array(rows))
    return [values[row] for row in rows.tolist()]


def listed(values: Values) -> list[Any]:
    """Return the values as Python has them."""
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    return values.to_pylist() if isinstance(values, pa.Array | pa.ChunkedArray) else list(values)


def arrow_of(values: Values, form: Form = "text") -> pa.Array | pa.ChunkedArray:
    """The values in Arrow, nan as null; texts may take more than the 2 GB of a short column."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if hasattr(values, "column"):
        return values.column
    of_list = pa.large_string() if form in TEXTS else _TYPES[form]
    return pa.array(values, of_list if isinstance(values, list | tuple) else None, from_pandas=True)


def _says_nothing(values: Values, hide: str) -> bool:
    if not hide:
        return False
    if isinstance(values, np.ndarray) and values.dtype.kind in "fiub":
        numbers = values.astype(np.float64)
        return bool(np.isnan(numbers).all() if hide == "empty" else not np.any(numbers > 0))
    return not any(listed(values))


def is_nothing(value: object) -> bool:
    """Whether there is no value."""
    return value is None or (isinstance(value, float) and math.isnan(value))
