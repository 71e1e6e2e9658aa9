"""The formats that DATA may have: robin's own, a file each in formats/, and those of installed packages.

A package adds a format by an entry point of the group ``robin.datasets``. Its name is the end of a file's name, with the dot
(``.db``), or the scheme of an address (``notion``). It leads to a function from the path or address to rows, dicts or Pairs;
or, for files, to a :class:`~robin_cli.data.rows.Format`, which can also read data without a name.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, BinaryIO, TypeVar

from robin_cli.data import compression, formats, lines, remote
from robin_cli.data.rows import BadRow, Format, Reader, Row, Scheme, Table, Wanted, kind
from robin_cli.model import plugins
from robin_cli.model.errors import InputError, shown
from robin_cli.model.records import Pair

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

GROUP = "robin.datasets"
EXTRAS = {".eval": "logs"}
"""Ends of names that need an extra of robin, which may not be installed."""

_HEAD_BYTES = 2**16

_Found = TypeVar("_Found")


class Plugin(plugins.Plugin):
    """The formats that installed packages register under one name."""

    def table(self, address: str, source: str, stream: BinaryIO | None, wanted: Wanted) -> Table:
        """Return the package's rows for a path, an address, or a ``stream`` that is at its beginning.

        Raises InputError, which names the package, for all that goes wrong; OSError as the stream raises it.
        """
        with self.loaded(source, "read", OSError) as found:
            if stream is None or not isinstance(found, Format):
                return Table(None, "row", self._rows(address, source))
            table = found.read(stream, source, wanted)
            return table._replace(rows=self._guarded(table.rows, source))

    def begins(self, source: str) -> tuple[bytes, ...]:
        """Return the first bytes by which the package's format is known without a name."""
        with self.loaded(source, "read") as found:
            return found.begins if isinstance(found, Format) else ()

    def _guarded(
        self, rows: Iterator[tuple[int, Row | BadRow]], source: str
    ) -> Iterator[tuple[int, Row | BadRow]]:
        with self.loaded(source, "read", OSError):
            yield from rows

    def _rows(self, address: str, source: str) -> Iterator[tuple[int, Row | BadRow]]:
        with self.loaded(source, "read") as read:
            found = read(address)
            if not isinstance(found, Iterable):
                raise TypeError(f"it gives {kind(found)}, not rows")
            for number, row in enumerate(found, 1):
                yield number, _plain_row(row)


def _plain_row(row: object) -> Row | BadRow:
    if isinstance(row, Pair):
        own: Row = {
            "pair_id": row.pair_id,
            "prompt": row.prompt,
            "response": row.response,
            **row.human,
        }
        more = {"reference": row.reference, "group": row.group}
        return {
            **row.columns,
            **own,
            **{name: value for name, value in more.items() if value is not None},
        }
    if isinstance(row, (dict, BadRow)):
        return row
    return BadRow(f"the row is {kind(row)}, not a dict or a Pair", "not an object")


def format_of(name: str) -> Reader | Plugin | None:
    """Return the reader for a file's name, by the longest end that is known; None if there is none."""
    whole, packed = compression.split_suffix(name.lower())
    if packed and (found := _longest(whole, _own()[0])):
        return _unpacking(found.read, packed) if found.packable else None
    known: dict[str, Format | Plugin] = {**_plugins(), **_own()[0]}
    each = _longest(name.lower(), known)
    return each.read if isinstance(each, Format) else each


def scheme_reader(scheme: str) -> Scheme | Plugin:
    """Return the reader for addresses of a scheme, robin's or a package's. InputError if there is none."""
    found: dict[str, Scheme | Plugin] = {**_plugins(), **_own()[1]}
    if scheme in found:
        return found[scheme]
    others = ", ".join(
        f"{each}://" for each in (*_own()[1], *_plugins()) if not each.startswith(".")
    )
    raise InputError(
        f"{shown(scheme)}://…: nothing reads such addresses. Name a file, or an address by {remote.KNOWN}, or {others}."
    )


def reader_by_content(stream: BinaryIO, source: str) -> Reader | Plugin:
    """Return the reader for a stream by its first bytes, and rewind it. InputError if it is compressed twice."""
    head = stream.read(_HEAD_BYTES)
    packed = compression.suffix_of(head)
    if packed:
        stream.seek(0)
        with compression.undamaged(source, packed):
            head = compression.decompressing(stream, packed).read(_HEAD_BYTES)
        if again := compression.suffix_of(head):
            name = compression.NAMES[again]
            raise InputError(f"{source}: is compressed twice; unpack it once, as {name}.")
    stream.seek(0)
    text = head.removeprefix(lines.BOM).lstrip()
    begins = {begin: each.read for each in _own()[0].values() for begin in each.begins}
    begin = max((begin for begin in begins if text.startswith(begin)), key=len)
    if packed:
        return _unpacking(begins[begin], packed)
    if not begin and b"\0" in head:  # binary: robin has no reader for it, a package may
        for each in _plugins().values():
            if each.name.startswith(".") and any(map(head.startswith, each.begins(source))):
                return each
    return begins[begin]


def unread(name: str) -> str:
    """Return why nothing reads a file of this name, and the next step."""
    for end, extra in EXTRAS.items():
        if name.lower().endswith(end):
            return f"what reads {end} files is not installed. Install it: {plugins.install(extra)}"
    if name.lower().endswith((".xls", ".xlsb")):
        return "is an old kind of Excel workbook. Save it as .xlsx."
    return (
        f"the format is not known by this name. Rename or convert the file: robin reads {known()}."
    )


def known() -> str:
    """Return the known ends of names, for an error's next step."""
    text = [name for name, each in _own()[0].items() if each.packable]
    others = [
        name for name in (*_own()[0], *_plugins()) if name not in text and name.startswith(".")
    ]
    return (
        f"{', '.join(text)} (each also with {', '.join(compression.NAMES)}) and {', '.join(others)}"
    )


def _unpacking(reader: Reader, suffix: str) -> Reader:
    def read(stream: BinaryIO, source: str, wanted: Wanted) -> Table:
        with compression.undamaged(source, suffix):
            table = reader(compression.decompressing(stream, suffix), source, wanted)

        def rows() -> Iterator[tuple[int, Row | BadRow]]:
            with compression.undamaged(source, suffix):
                yield from table.rows

        return table._replace(rows=rows())

    return read


def _longest(name: str, known: Mapping[str, _Found]) -> _Found | None:
    ends = [each for each in known if each.startswith(".") and name.endswith(each)]
    return known[max(ends, key=len)] if ends else None


@cache
def _own() -> tuple[dict[str, Format], dict[str, Scheme]]:
    """Return the formats and the schemes of the modules in formats/."""
    modules = [
        import_module(each.name) for each in iter_modules(formats.__path__, f"{formats.__name__}.")
    ]
    return (
        {name: each for module in modules for name, each in getattr(module, "FORMATS", {}).items()},
        {name: each for module in modules for name, each in getattr(module, "SCHEMES", {}).items()},
    )


def _plugins() -> dict[str, Plugin]:
    found: dict[str, Plugin] = {}
    for each in plugins.plugins(GROUP).values():
        name = each.name.lower().removesuffix("://")
        found[name] = Plugin(name, (*(found[name].entries if name in found else ()), *each.entries))
    return found
