"""The further columns of data: fields of its rows that robin does not judge, kept unchanged and within bounds.

Rows may have new names each, and a column may hold texts of megabytes. Columns past a bound are left out, and reported.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, time
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, NamedTuple, cast

from robin_cli.data.fields import DEPTH
from robin_cli.data.rows import BadRow, Columns, Part, Row, is_encodable, not_encodable
from robin_cli.model.errors import shown
from robin_cli.model.records import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from robin_cli.data.fields import Fields

MOST_COLUMNS = 256
LONGEST_TEXT = 32 * 2**10
"""The most characters that a text may have; a column with a longer one is left out."""

TOO_LONG = f"a text of more than {LONGEST_TEXT:,} characters"
TOO_MANY = f"at most {MOST_COLUMNS} further columns are kept"
_TWICE = "two of this name"
_MAPPED = 'another field is mapped to "{}"'
_NO_NAME = "a name that is too long, or no UTF-8"

NO_SYSTEMS: Mapping[str, Sequence[str]] = {}

LONGEST_NAME = 200
_MOST_DIGITS, _MOST_BITS = 1000, 2**12
_LEFT_OUT = ""
_NAMED = 3

_AS_THEY_ARE = {str, type(None)}


class Kept(NamedTuple):
    """The further columns of some rows: values by name, None if there is none; and rows with a text that cannot be stored."""

    rows: int
    columns: dict[str, list[Value | None]]
    bad: dict[int, BadRow]


class FurtherColumns:
    """Decides which further columns of the rows are kept.

    Attributes:
        forgotten: the names of columns that were kept of earlier rows and later turned out to be too much.
    """

    def __init__(self, fields: Fields | None = None) -> None:
        self.forgotten: set[str] = set()
        self._fields = fields.all if fields else ()
        self._group = fields.group if fields else None
        self._systems = [field.name for field in fields.systems] if fields else []
        # A field that is called "reference" without being mapped is a reference if it is a text.
        self._if_text = (
            fields.reference.path
            if fields and fields.reference and not fields.reference.mapped
            else None
        )
        self._not_read = fields.not_read if fields else frozenset()
        self._inside = {
            path
            for field in self._fields
            if field is not self._group
            for path, steps in field.paths
            if steps[1:]
        }
        self._names: dict[str, str] = {}  # _LEFT_OUT for what is not kept any more
        self._why: dict[str, dict[str, None]] = {}

    def wants(self, name: str) -> bool:
        """Return whether a column of this name is kept, as far as is known yet."""
        return (
            bool(name) and name not in self._not_read and self._names.get(name, name) != _LEFT_OUT
        )

    def names_of(self, keys: Iterable[object]) -> tuple[str, ...]:
        """Return those keys of a row whose values may be kept."""
        texts = [key for key in keys if isinstance(key, str)]  # a package's rows may have any
        there, taken = set(texts), set(self._not_read)
        for field in self._fields:
            first = next((path for path, _ in field.paths if path in there), "")
            if field is not self._group and first != self._if_text:
                taken.add(first)
        for name in there.intersection(self._systems) - taken:
            self._say(name, _MAPPED.format(name))
            taken.add(name)
        return tuple(name for name in texts if name and name not in taken)

    def of(self, rows: Part, systems: Mapping[str, Sequence[str]] = NO_SYSTEMS) -> Kept:
        """Return what is kept of rows: values under the rows' own names, and ``systems`` that fields were mapped to."""
        kept = Kept(len(rows), {}, {})
        for name, texts in systems.items():
            self._keep(kept, name, range(len(rows)), texts)
        for keys, (places, columns) in rows.shapes.items():
            for name in self.names_of(keys):
                values = columns[name]
                if any(issubclass(kind, dict) for kind in set(map(type, values))):
                    self._keep_leaves(kept, name, places, columns)
                    values = [None if isinstance(value, dict) else value for value in values]
                self._keep(kept, name, places, values)
        return kept

    def of_row(self, row: Row) -> dict[str, Value]:
        """Return what is kept of one row, by name. BadRow for a text that cannot be stored."""
        kept = self.of(Part([1], [row]))
        for bad in kept.bad.values():
            raise bad
        return {name: value for name, (value,) in kept.columns.items() if value is not None}

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

    def _say(self, name: str, why: str) -> None:
        names = self._why.setdefault(why, {})
        if len(names) <= _NAMED:
            names[name] = None

    def _keep_leaves(self, kept: Kept, name: str, places: Sequence[int], columns: Columns) -> None:
        """Keep the values inside the objects under a name, by names with dots."""
        leaves: dict[str, tuple[list[int], list[object]]] = {}
        for at, value in zip(places, columns[name], strict=True):
            for leaf, inner in (
                _leaves(value, f"{name}.", DEPTH - 1) if isinstance(value, dict) else ()
            ):
                if leaf not in columns and leaf not in self._inside and leaf not in self._not_read:
                    those, values = leaves.setdefault(leaf, ([], []))
                    those.append(at)
                    values.append(inner)
        for leaf, found in leaves.items():
            self._keep(kept, leaf, *found)

    def _keep(self, kept: Kept, name: str, places: Sequence[int], values: Sequence[object]) -> None:
        """Keep values of the rows at ``places``. An empty text is no value: CSV cannot write another."""
        if kept.bad:
            values = [
                None if at in kept.bad else value for at, value in zip(places, values, strict=True)
            ]
        plain = self._plain_values(name, values)
        texts = [value for value in plain if type(value) is str]
        if not all(map(str.isascii, texts)):
            plain = _storable(kept, name, places, plain)
        if plain.count(None) == len(plain):
            return
        if max(map(len, texts), default=0) > LONGEST_TEXT:
            self.leave_out(name, TOO_LONG)
            kept.columns.pop(name, None)
            return
        own = self._names.get(name)
        if own is None:
            own = self._admitted(name)
        if own == _LEFT_OUT:
            return
        if len(places) == kept.rows and own not in kept.columns:
            kept.columns[own] = plain
        else:
            column = kept.columns.setdefault(own, [None] * kept.rows)
            for at, value in zip(places, plain, strict=True):
                column[at] = value if value is not None else column[at]

    def _plain_values(self, name: str, values: Sequence[object]) -> list[Value | None]:
        kinds = set(map(type, values))
        if kinds <= {bool, type(None)}:
            return cast("list[Value | None]", list(values))
        plain = (
            cast("list[Value | None]", list(values))
            if kinds <= _AS_THEY_ARE
            else list(map(_plain, values))
        )
        if name == self._if_text:
            return [None if type(value) is str else value for value in plain]
        return [None if value == "" else value for value in plain] if "" in plain else plain

    def _admitted(self, name: str) -> str:
        """Return the name under which values are kept, one object for all rows; _LEFT_OUT if they cannot be kept."""
        if len(name) > LONGEST_NAME or not is_encodable(name):
            self._say(shown(name), _NO_NAME)
            return _LEFT_OUT
        if len(self._names) >= MOST_COLUMNS:
            self._say(name, TOO_MANY)
            return _LEFT_OUT
        return self._names.setdefault(name, name)


def _storable(
    kept: Kept, name: str, places: Sequence[int], values: list[Value | None]
) -> list[Value | None]:
    """Return the values without texts that cannot be stored; the rows of these become bad."""
    found = list(values)
    for place, (at, value) in enumerate(zip(places, values, strict=True)):
        try:
            if isinstance(value, str) and len(value) <= LONGEST_TEXT:
                value.encode("utf-8")
        except UnicodeEncodeError as error:
            kept.bad[at] = not_encodable(error, f'field "{shown(name)}"')
            found[place] = None
    return found


def _plain(value: object) -> Value | None:
    """Return a value as a plain text, number or boolean; None for null, nan, lists, bytes and all else."""
    kind = type(value)
    if kind is str or kind is bool:
        return cast("Value", value)
    if isinstance(value, str):
        return str.__str__(value)
    if kind is int or isinstance(value, Integral):
        whole: int = int(value)  # type: ignore[call-overload]
        if -(2**63) <= whole < 2**63:
            return whole
        return str(whole) if whole.bit_length() <= _MOST_BITS else None
    if isinstance(value, Decimal):
        if not value.is_finite():
            return None
        return (
            _plain(int(value))
            if value.adjusted() < _MOST_DIGITS and value == int(value)
            else float(value)
        )
    if isinstance(value, Real):
        number = float(value)
        return None if math.isnan(number) else number
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
