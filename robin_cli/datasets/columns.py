"""The further columns of data: what its rows hold beside what is judged, kept as it came, and never without bounds.

Data are strangers': a row may bring names that no other has, a column texts of megabytes. What is too much is left out, and
said.
"""

from __future__ import annotations

import math
from collections import Counter
from datetime import date, time
from decimal import Decimal
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

from robin_cli.datasets.fields import DEPTH
from robin_cli.datasets.rows import Row, not_encodable
from robin_cli.model.errors import shown
from robin_cli.model.records import NO_COLUMNS, Value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    import pyarrow as pa

    from robin_cli.datasets.fields import Fields

MOST_COLUMNS = 256
LONGEST_TEXT = 32 * 2**10
"""The most characters of a text that is kept."""

MOST_BYTES = 2 * 2**30
"""The most that all that is kept may take in memory, as far as that can be estimated."""

TOO_LONG = f"a text of more than {LONGEST_TEXT:,} characters"
TOO_MANY = f"at most {MOST_COLUMNS} further columns are kept"
TOO_MUCH = "too much memory"
DAMAGED = "damaged, or too much memory to decode"
_TWICE = "two of this name"
_MAPPED = 'another field is mapped to "{}"'
_NO_NAME = "a name that is too long, or no UTF-8"

NO_SYSTEMS: Mapping[str, str] = {}

LONGEST_NAME = 200
_CELL_BYTES = 64
_SHORT = 64
_MOST_SHARED = 2**16
_MOST_DIGITS, _MOST_BITS = 1000, 2**12
_LEFT_OUT = ""
_NAMED = 3


class FurtherColumns:
    """What is kept of the rows that become pairs.

    Attributes:
        forgotten: what was kept of earlier rows and turned out to be too much, by name.
    """

    def __init__(self, fields: Fields | None = None) -> None:
        self.forgotten: set[str] = set()
        self._fields = fields.all if fields else ()
        self._group = fields.group if fields else None
        self._systems = [field.name for field in fields.systems] if fields else []
        # A reference that only happens to be called so is one where it is a text.
        self._if_text = fields.reference.path if fields and fields.reference and not fields.reference.mapped else None
        self._not_read = fields.not_read if fields else frozenset()
        self._inside = {
            path for field in self._fields if field is not self._group for path, steps in field.paths if steps[1:]
        }
        self._names: dict[str, str] = {}  # _LEFT_OUT for what is not kept any more
        self._bytes: dict[str, int] = {}
        self._held = 0
        self._shared: dict[str, str] = {}
        self._why: dict[str, dict[str, None]] = {}

    def wants(self, name: str) -> bool:
        """Whether a column of this name is kept, as far as is known."""
        return bool(name) and name not in self._not_read and self._names.get(name, name) != _LEFT_OUT

    def names_of(self, keys: Iterable[object]) -> tuple[str, ...]:
        """Under which keys of rows that have these there may be something to be kept."""
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

    def of(self, row: Row, names: Iterable[str], systems: Mapping[str, str] = NO_SYSTEMS) -> Mapping[str, Value]:
        """What is kept of a row: what lies under ``names``, and the ``systems`` that fields were mapped to.

        BadRow for a text that cannot be stored.
        """
        found: dict[str, Value] = {}
        for name, system in systems.items():
            self._keep(found, name, system)
        for name in names:
            value = row[name]
            if isinstance(value, dict):
                for leaf, inner in _leaves(value, f"{name}.", DEPTH - 1):
                    if leaf not in row and leaf not in self._inside and leaf not in self._not_read:
                        self._keep(found, leaf, inner)
            elif value is not None:
                self._keep(found, name, value)
        return found or NO_COLUMNS

    def whole(self, columns: Mapping[str, pa.Array], systems: Mapping[str, pa.Array]) -> dict[str, pa.Array]:
        """What is kept of columns with values that are kept as they are, and of the ``systems``; as :meth:`of`."""
        found = dict(systems)
        for name, column in columns.items():
            is_reference = name == self._if_text and column.type == _text()
            if name not in found and not is_reference and column.null_count < len(column):
                found[name] = column
        for name in list(found):
            own = self._names.get(name) or self._admitted(name)
            if own == _LEFT_OUT:
                del found[name]
                continue
            self._bytes[own] += found[name].nbytes
            self._held += found[name].nbytes
        if self._held > MOST_BYTES:
            self._make_room(found)
        return found

    def leave_out(self, name: str, why: str) -> None:
        """Keep nothing under this name, and take back what was kept."""
        self._say(name, why)
        if self._names.get(name):
            self._forget({name})
        self._names[name] = _LEFT_OUT

    def _forget(self, names: set[str]) -> None:
        self.forgotten |= names
        self._held -= sum(map(self._bytes.pop, names))

    def leave_out_twice(self, names: Iterable[str], but: Collection[str]) -> None:
        """Keep nothing under names that several columns of a table have; ``but`` those that are looked for."""
        for name, count in Counter(names).items():
            if count > 1 and name and name not in but:
                self.leave_out(name, _TWICE)

    @property
    def left_out(self) -> list[str]:
        """What a user should know of what was not kept, a line for each reason."""
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

    def _keep(self, found: dict[str, Value], name: str, value: object) -> None:
        """Put a value among those of a row, if it is one to be kept. An empty text is none: CSV has no other."""
        plain = _plain(value)
        if plain is None:
            return
        taken = _CELL_BYTES
        if isinstance(plain, str):
            if name == self._if_text:
                return
            known = self._shared.get(plain)
            if known is not None:
                plain = known
            elif not plain:
                return
            elif len(plain) > LONGEST_TEXT:
                self.leave_out(name, TOO_LONG)
                found.pop(name, None)
                return
            else:
                taken += self._checked(plain, name)
        own = self._names.get(name)
        if own is None:
            own = self._admitted(name)
        if own == _LEFT_OUT:
            return
        found[own] = plain
        self._bytes[own] += taken
        self._held += taken
        if self._held > MOST_BYTES:
            self._make_room(found)

    def _make_room(self, found: dict[str, Any]) -> None:
        """Leave out what takes the most, but for a system that is asked for, until there is room for some time."""
        by_size = sorted(self._bytes, key=lambda name: (name not in self._systems, self._bytes[name]))
        left = self._held
        out = set()
        while by_size and left > MOST_BYTES * 3 // 4:
            out.add(heaviest := by_size.pop())
            left -= self._bytes[heaviest]
            self._say(heaviest, TOO_MUCH)
            self._names[heaviest] = _LEFT_OUT
            found.pop(heaviest, None)
        self._forget(out)

    def _checked(self, text: str, name: str) -> int:
        """The bytes that a text takes beside its cell, if it is one that can be stored; short ones are shared from now on."""
        if not text.isascii():
            try:
                text.encode("utf-8")
            except UnicodeEncodeError as error:
                raise not_encodable(error, f'field "{shown(name)}"') from None
        if len(text) <= _SHORT and len(self._shared) < _MOST_SHARED:
            self._shared[text] = text
        return len(text) if text.isascii() else 4 * len(text)

    def _admitted(self, name: str) -> str:
        """The name under which values are kept, one object for all rows; _LEFT_OUT where there is no place for them."""
        if len(name) > LONGEST_NAME or not _encodable(name):
            self._say(shown(name), _NO_NAME)
            return _LEFT_OUT
        if len(self._names) >= MOST_COLUMNS:
            self._say(name, TOO_MANY)
            return _LEFT_OUT
        self._bytes[name] = 0
        return self._names.setdefault(name, name)


def column_of(values: list[Any]) -> pa.Array | None:
    """Values as a column, absent ones null; None where they are not of one type, or one is to be looked at by itself.

    UnicodeEncodeError for a text that cannot be stored.
    """
    import pyarrow as pa

    kinds = {*map(type, values)} - {type(None)}
    if kinds == {str}:
        if max(map(len, filter(None, values)), default=0) > LONGEST_TEXT:
            return None
        return pa.array([value or None for value in values], _text())
    if kinds == {float}:
        return pa.array([None if value != value else value for value in values], pa.float64())  # nan is none
    if kinds <= {bool}:
        return pa.array(values, pa.bool_())
    if kinds != {int} or not all(value is None or -(2**63) <= value < 2**63 for value in values):
        return None
    return pa.array(values, pa.int64())


def column_in(values: pa.Array) -> pa.Array | None:
    """The same of values that stand in a column of any type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        if (pc.max(pc.utf8_length(values)).as_py() or 0) > LONGEST_TEXT:
            return None
        if pc.any(pc.equal(pc.binary_length(values), 0)).as_py():
            values = pc.if_else(pc.equal(pc.binary_length(values), 0), None, values)
        return values.cast(_text())
    if pa.types.is_floating(kind):
        values = values.cast(pa.float64())
        return pc.if_else(pc.is_nan(values), None, values) if pc.any(pc.is_nan(values)).as_py() else values
    if pa.types.is_boolean(kind):
        return values
    return values.cast(pa.int64()) if pa.types.is_integer(kind) and kind != pa.uint64() else None


def _text() -> pa.DataType:
    import pyarrow as pa

    return pa.large_string()


def _plain(value: object) -> Value | None:
    """A value in plain words, also a package's or a library's; None for null, nan, lists, bytes and whatever else."""
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
        return _plain(int(value)) if value.adjusted() < _MOST_DIGITS and value == int(value) else float(value)
    if isinstance(value, Real):
        number = float(value)
        return None if math.isnan(number) else number
    if isinstance(value, (date, time)):
        return value.isoformat().replace("+00:00", "Z")
    return None


def _leaves(value: Row, prefix: str, depth: int) -> Iterator[tuple[str, object]]:
    """What an object holds, by names with dots; objects that lie deeper than ``depth`` are left out."""
    for name, inner in value.items():
        if not isinstance(inner, dict):
            if inner is not None:
                yield f"{prefix}{name}", inner
        elif depth > 1:
            yield from _leaves(inner, f"{prefix}{name}.", depth - 1)


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True
