"""The further columns of data: fields of its rows that robin does not judge, kept unchanged and within bounds.

Rows may have new names each, and a column may hold texts of megabytes. Columns past a bound are left out, and reported.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, time
from decimal import Decimal
from functools import lru_cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from robin_cli.data.fields import CHATS, DEPTH
from robin_cli.data.rows import Row, check_encodable, is_encodable
from robin_cli.model.errors import shown
from robin_cli.model.records import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from robin_cli.data.fields import Fields

MOST_COLUMNS = 256
LONGEST_TEXT = 32 * 2**10
"""The most characters that a text may have; a column with a longer one is left out."""
LONGEST_NAME = 200
_WHOLE = 2**63
"""Whole numbers below it, and not below its negative, have 64 bits."""

_LISTED = 3


class FurtherColumns:
    """Decides which further columns of the rows are kept.

    Attributes:
        forgotten: the names of columns that were kept of earlier rows and later turned out to be too much.
    """

    def __init__(self, fields: Fields | None = None) -> None:
        self.forgotten: set[str] = set()
        self._kept: dict[str, bool] = {}  # by name; False for what is not kept any more
        self._why: dict[str, dict[str, None]] = {}
        self.enter(fields)

    def enter(self, fields: Fields | None) -> None:
        """Keep of the next rows what these fields do not hold."""
        # A row's group is also kept as the column that it is.
        self._fields = (
            [field for field in fields.all if field is not fields.group] if fields else []
        )
        self._systems = [field.name for field in fields.systems if field.mapped] if fields else []
        self._not_read = fields.not_read if fields else frozenset()
        # A field that is called "reference" without being mapped is a reference if it is a text.
        reference = fields.reference if fields else None
        self._if_text = reference.path if reference and not reference.mapped else None
        paths = [path for field in self._fields for path in field.paths]
        self._inside = {path for path in paths if "." in path}
        self._lists = {*CHATS, *(path.partition(".")[0] for path in self._inside)}
        self._names_in = lru_cache(1024)(self._find_names)

    def of_row(self, row: Row) -> dict[str, Value]:
        """Return what is kept of a row. BadRow if a text cannot be stored."""
        columns: dict[str, Value] = {}
        names, taken = self._names_in(tuple(row))
        for name in names:
            value: Any = row[name]
            if type(value) is str:
                is_plain = value.isascii() and 0 < len(value) <= LONGEST_TEXT
            else:
                is_plain = type(value) is int and -_WHOLE <= value < _WHOLE
            if is_plain and self._kept.get(name) and name != self._if_text:  # nearly always
                columns[name] = value
                continue
            if isinstance(value, dict):
                for leaf, member in _leaves(value, f"{name}.", DEPTH - 1):
                    if leaf not in taken:
                        self._keep(columns, leaf, member)
            else:
                self._keep(columns, name, value)
        return columns

    def _find_names(self, keys: tuple[object, ...]) -> tuple[tuple[str, ...], Collection[str]]:
        """Return the keys of a row whose values may be kept, and the names that no member of an object may have."""
        texts = [key for key in keys if isinstance(key, str)]  # a package's rows may have any
        used = {next((path for path in field.paths if path in texts), "") for field in self._fields}
        taken = {*self._not_read, "", *(used - {self._if_text})}
        for name in self._systems:
            if name in texts and name not in taken:
                self._say(name, f'another field is mapped to "{name}"')
                taken.add(name)
        names = tuple(name for name in texts if name not in taken)
        return names, self._inside | self._not_read | {*texts}

    def _keep(self, columns: dict[str, Value], name: str, value: object) -> None:
        """Put a value into ``columns`` if its column is kept. An empty text is no value: CSV cannot write another."""
        is_kept = self._kept.get(name)
        if is_kept is False or (type(value) is str and name == self._if_text):
            return
        if type(value) is str:
            if len(value) > LONGEST_TEXT:
                self.leave_out(name, f"a text of more than {LONGEST_TEXT:,} characters")
                return
            if not value.isascii():
                check_encodable(value, f'field "{shown(name)}"')
        elif type(value) is not int or not -_WHOLE <= value < _WHOLE:
            if isinstance(value, list) and value and name not in self._lists:
                self._say(name, "lists")
            value = _plain(value)
        if value is not None and value != "" and (is_kept or self._admit(name)):
            columns[name] = value

    def _admit(self, name: str) -> bool:
        """Return whether a column of this name, which no earlier row has, can be kept."""
        if len(name) > LONGEST_NAME or not is_encodable(name):
            self._say(shown(name), "a name that is too long, or no UTF-8")
        elif len(self._kept) >= MOST_COLUMNS:
            self._say(name, f"at most {MOST_COLUMNS} further columns are kept")
        else:
            self._kept[name] = True
        return name in self._kept

    def leave_out(self, name: str, why: str) -> None:
        """Keep nothing under this name, and forget what was kept."""
        self._say(name, why)
        if self._kept.get(name):
            self.forgotten.add(name)
        self._kept[name] = False

    def leave_out_twice(self, names: Iterable[str], but: Collection[str]) -> None:
        """Keep nothing under names that several columns of a table share, except the names in ``but``."""
        for name, count in Counter(names).items():
            if count > 1 and name and name not in but:
                self.leave_out(name, "two of this name")

    @property
    def left_out(self) -> list[str]:
        """The columns that were not kept, for the user: a line for each reason."""
        return [
            f"not kept: column{'s' * (len(names) > 1)} "
            + ", ".join(f'"{shown(name)}"' for name in list(names)[:_LISTED])
            + " and others" * (len(names) > _LISTED)
            + f" ({why})"
            for why, names in self._why.items()
        ]

    def _say(self, name: str, why: str) -> None:
        names = self._why.setdefault(why, {})
        if len(names) <= _LISTED:
            names[name] = None


def _plain(value: object) -> Value | None:
    """Return a value as a plain text, number or boolean; None for null, nan, lists, bytes and all else."""
    if isinstance(value, (bool, str)):
        return value if isinstance(value, bool) else str(value)
    if isinstance(value, Decimal) and value.is_finite() and value == int(value):
        value = int(value)
    if isinstance(value, Integral):
        whole = int(value)
        return whole if -_WHOLE <= whole < _WHOLE else str(whole)
    if isinstance(value, (Real, Decimal)):
        return None if math.isnan(value) else float(value)
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
