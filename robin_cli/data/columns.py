"""The further columns of data: fields of its rows that robin does not judge, kept unchanged and within bounds.

Rows may have new names each, and a column may hold texts of megabytes. Columns past a bound are left out, and reported.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, time
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING

from robin_cli.data.fields import DEPTH
from robin_cli.data.rows import BadRow, Row, is_encodable, not_encodable
from robin_cli.model.errors import shown
from robin_cli.model.records import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from robin_cli.data.fields import Fields

Columns = dict[str, list[Value | None]]
"""Columns by name, a value for each row."""

MOST_COLUMNS = 256
LONGEST_TEXT = 32 * 2**10
"""The most characters that a text may have; a column with a longer one is left out."""
LONGEST_NAME = 200

TOO_MANY = f"at most {MOST_COLUMNS} further columns are kept"
_TOO_LONG = f"a text of more than {LONGEST_TEXT:,} characters"
_TWICE = "two of this name"
_MAPPED = 'another field is mapped to "{}"'
_NO_NAME = "a name that is too long, or no UTF-8"

_MOST_DIGITS, _MOST_BITS = 1000, 2**12
_LEFT_OUT = ""
_NAMED = 3


class FurtherColumns:
    """Decides which further columns of the rows are kept.

    Attributes:
        forgotten: the names of columns that were kept of earlier rows and later turned out to be too much.
    """

    def __init__(self, fields: Fields | None = None) -> None:
        self.forgotten: set[str] = set()
        self._group = fields.group if fields else None
        # A row's group is also kept as the column that it is.
        self._fields = [each for each in fields.all if each is not self._group] if fields else []
        self._systems = [field.name for field in fields.systems if field.mapped] if fields else []
        self._not_read = fields.not_read if fields else frozenset()
        self._inside = {path for field in self._fields for path, steps in field.paths if steps[1:]}
        # A field that is called "reference" without being mapped is a reference if it is a text.
        reference = fields.reference if fields else None
        self._if_text = reference.path if reference and not reference.mapped else None
        self._names: dict[str, str] = {}  # _LEFT_OUT for what is not kept any more
        self._why: dict[str, dict[str, None]] = {}

    def of_rows(
        self, rows: Sequence[Row], systems: Mapping[str, Sequence[str]] | None = None
    ) -> tuple[Columns, dict[int, BadRow]]:
        """Return what is kept of rows that have the same keys, and the bad rows by their places.

        An empty text is no value: CSV cannot write another. A row is bad if a text cannot be stored.

        Args:
            systems: the columns that fields were mapped to.
        """
        columns: Columns = {}
        bad: dict[int, BadRow] = {}
        for name, texts in (systems or {}).items():
            self._keep(columns, name, texts, bad)
        for name in self._names_of(tuple(rows[0])) if rows else ():
            values = [row[name] for row in rows]
            spread = self._spread(name, values, rows) if dict in map(type, values) else {}
            for each, column in (spread or {name: values}).items():
                self._keep(columns, each, column, bad)
        return columns, bad

    def of_row(self, row: Row) -> dict[str, Value]:
        """Return what is kept of one row. BadRow if a text cannot be stored."""
        columns, bad = self.of_rows([row])
        for error in bad.values():
            raise error
        return {name: value for name, (value,) in columns.items() if value is not None}

    def _spread(
        self, name: str, values: Sequence[object], rows: Sequence[Row]
    ) -> dict[str, list[object]]:
        """Return a column of objects as the columns of their members, by names with dots."""
        columns: dict[str, list[object]] = {name: [None] * len(rows)}
        taken = self._inside | self._not_read | rows[0].keys()
        for at, value in enumerate(values):
            if not isinstance(value, dict):
                columns[name][at] = value
                continue
            for leaf, member in _leaves(value, f"{name}.", DEPTH - 1):
                if leaf not in taken:
                    columns.setdefault(leaf, [None] * len(rows))[at] = member
        return columns

    def _keep(
        self, columns: Columns, name: str, values: Sequence[object], bad: dict[int, BadRow]
    ) -> None:
        """Put a column into ``columns`` if it can be kept, and the rows with texts that cannot be stored into ``bad``."""
        kept = self._names.get(name)
        if kept == _LEFT_OUT:
            return
        plain = [value or None if type(value) is str else _plain(value) for value in values]
        texts = [value for value in plain if type(value) is str]
        if texts and name == self._if_text:
            plain = [None if type(value) is str else value for value in plain]
        elif texts and max(map(len, texts)) > LONGEST_TEXT:
            self.leave_out(name, _TOO_LONG)
            return
        elif not is_encodable("".join(texts)):
            called = f'field "{shown(name)}"'
            of_rows = ((at, text) for at, text in enumerate(plain) if type(text) is str)
            bad |= {
                at: not_encodable(text, called) for at, text in of_rows if not is_encodable(text)
            }
        kept = kept or ("" if plain.count(None) == len(plain) else self._admitted(name))
        if kept != _LEFT_OUT:
            columns[kept] = plain

    def wants(self, name: str) -> bool:
        """Return whether a column of this name is kept, as far as is known yet."""
        return (
            bool(name) and name not in self._not_read and self._names.get(name, name) != _LEFT_OUT
        )

    def leave_out(self, name: str, why: str) -> None:
        """Keep nothing under this name, and forget what was kept."""
        self._say(name, why)
        if self._names.get(name):
            self.forgotten.add(name)
        self._names[name] = _LEFT_OUT

    def leave_out_twice(self, names: Iterable[str], but: Collection[str]) -> None:
        """Keep nothing under names that several columns of a table share, except the names in ``but``."""
        for name, count in Counter(names).items():
            if count > 1 and name and name not in but:
                self.leave_out(name, _TWICE)

    @property
    def left_out(self) -> list[str]:
        """The columns that were not kept, for the user: a line for each reason."""
        return [
            f"not kept: column{'s' * (len(names) > 1)} "
            + ", ".join(f'"{shown(name)}"' for name in list(names)[:_NAMED])
            + " and others" * (len(names) > _NAMED)
            + f" ({why})"
            for why, names in self._why.items()
        ]

    def _names_of(self, keys: Iterable[object]) -> tuple[str, ...]:
        """Return those keys of a row whose values may be kept."""
        texts = [key for key in keys if isinstance(key, str)]  # a package's rows may have any
        taken = set(self._not_read)
        for field in self._fields:
            path = next((path for path, _ in field.paths if path in texts), "")
            if path != self._if_text:
                taken.add(path)
        for name in self._systems:
            if name in texts and name not in taken:
                self._say(name, _MAPPED.format(name))
                taken.add(name)
        return tuple(name for name in texts if name and name not in taken)

    def _admitted(self, name: str) -> str:
        """Return the name under which values are kept, one object for all rows; _LEFT_OUT if they cannot be kept."""
        if len(name) > LONGEST_NAME or not is_encodable(name):
            self._say(shown(name), _NO_NAME)
            return _LEFT_OUT
        if len(self._names) >= MOST_COLUMNS:
            self._say(name, TOO_MANY)
            return _LEFT_OUT
        return self._names.setdefault(name, name)

    def _say(self, name: str, why: str) -> None:
        names = self._why.setdefault(why, {})
        if len(names) <= _NAMED:
            names[name] = None


def _plain(value: object) -> Value | None:
    """Return a value as a plain text, number or boolean; None for null, nan, lists, bytes and all else."""
    if isinstance(value, float):
        return None if math.isnan(value) else float(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value) or None
    if isinstance(value, Integral):
        whole = int(value)
        if -(2**63) <= whole < 2**63:
            return whole
        return str(whole) if whole.bit_length() <= _MOST_BITS else None
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        is_whole = value.adjusted() < _MOST_DIGITS and value == int(value)
        return _plain(int(value)) if is_whole else float(value)
    if isinstance(value, Real):
        return _plain(float(value))
    if isinstance(value, (date, time)):
        return value.isoformat().replace("+00:00", "Z")
    return None


def _leaves(value: Row, prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    """Yield the values of an object by names with dots, down to ``depth`` levels."""
    for name, inner in value.items():
        if not isinstance(inner, dict):
            if inner is not None:
                yield f"{prefix}{name}", inner
        elif depth > 1:
            yield from _leaves(inner, f"{prefix}{name}.", depth - 1)
