"""The formats that DATA may have: robin's own, in formats/, and those of installed packages.

A package adds a format by an entry point of the group ``robin.datasets``. Its name is the end of a
file's name, with the dot (``.db``), or the scheme of an address (``notion``). It leads to a function
from the path or address to rows, dicts or Pairs; or, for files, to a
:class:`~robin_cli.data.rows.Format`, which can also read data without a name.
"""

from __future__ import annotations

import codecs
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, BinaryIO

from robin_cli.data import compression, remote
from robin_cli.data.formats import csv_rows, hub, json_rows, parquet_rows, sheets
from robin_cli.data.rows import BadRow, Format, Row, RowTable, Wanted, kind
from robin_cli.model.errors import InputError, shown
from robin_cli.model.plugins import Plugin, plugins
from robin_cli.model.records import Pair

GROUP = "robin.datasets"
FORMATS: dict[str, Format] = {
    **csv_rows.FORMATS,
    **json_rows.FORMATS,
    **parquet_rows.FORMATS,
    **sheets.FORMATS,
}
SCHEMES = {"hf": hub.read_hub}

_HEAD_BYTES, _FIRST_BYTES = 2**16, 512


def format_of(name: str) -> tuple[Format, str] | None:
    """Return the format for a file's name, by the longest end that is known, and its compression.

    None if nothing reads such a file.
    """
    whole, packed = compression.split_suffix(name.lower())
    if packed and (found := _by_end(whole, FORMATS)):
        return (found, packed) if found.packable else None
    packages = {end: _format_of_package(plugin) for end, plugin in _plugins().items()}
    found = _by_end(name.lower(), {**packages, **FORMATS})
    return (found, "") if found else None


_ZIP = b"PK\x03\x04"


def format_by_content(stream: BinaryIO, source: str) -> tuple[Format, str]:
    """Return the format of a stream by its first bytes, and its compression."""
    stream.seek(0)
    head = stream.read(_HEAD_BYTES)
    packed = compression.suffix_of(head)
    if packed:
        stream.seek(0)
        with compression.undamaged(source, packed):
            head = compression.decompressing(stream, packed).read(_HEAD_BYTES)
        if again := compression.suffix_of(head):
            name = compression.NAMES[again]
            raise InputError(f"{source}: is compressed twice; unpack it once, as {name}.")
    if head.startswith(_ZIP) and zipfile.is_zipfile(stream):
        with zipfile.ZipFile(stream) as archive:
            if not {"xl/workbook.xml", "content.xml"}.isdisjoint(archive.namelist()):
                return FORMATS[".xlsx"], ""
    text = head.removeprefix(codecs.BOM_UTF8).lstrip()
    fits = {begin: each for each in FORMATS.values() for begin in each.begins}
    begin = max((begin for begin in fits if text.startswith(begin)), key=len)
    if not begin and not packed and b"\0" in head:  # binary: robin has no reader, a package may
        for name, plugin in _plugins().items():
            if name.startswith("."):
                with plugin.loaded(source, "read") as found:
                    if any(map(head.startswith, getattr(found, "begins", ()))):
                        return _format_of_package(plugin), ""
    return fits[begin], packed


def read_stream(
    stream: BinaryIO, source: str, kind: tuple[Format, str], wanted: Wanted
) -> RowTable:
    """Return the rows of a stream in a format and a compression.

    Raises:
        InputError: it is empty, or stands in for data that were not downloaded; or as a Reader.
    """
    form, packed = kind
    _refuse_stand_in(stream, source)
    with compression.undamaged(source, packed):
        unpacked = compression.decompressing(stream, packed)
        if packed:
            _refuse_stand_in(unpacked, source)
        table = form.read(unpacked, source, wanted)

    def rows() -> Iterator[tuple[int, Row | BadRow]]:
        with compression.undamaged(source, packed):
            yield from table.rows

    return table._replace(rows=rows()) if packed else table


def _refuse_stand_in(stream: BinaryIO, source: str) -> None:
    stream.seek(0)
    head = stream.read(_FIRST_BYTES)
    stream.seek(0)
    if not head:
        raise InputError(
            f"{source}: the file is empty. Check that it was written or downloaded to its end."
        )
    text = head.removeprefix(codecs.BOM_UTF8).lstrip().lower()
    if text.startswith(b"version https://git-lfs"):
        raise InputError(f"{source}: is a Git LFS pointer, not the data. Fetch these: git lfs pull")
    if text.startswith((b"<!doctype html", b"<html")):
        raise InputError(
            f"{source}: is an HTML page, not data; perhaps it shows an error, or asks to log in. "
            "Download the file itself."
        )


def read_address(address: str, wanted: Wanted) -> tuple[str, RowTable]:
    """Return the name of an address of robin's or a package's scheme in errors, and its rows."""
    scheme = remote.scheme_of(address)
    if scheme in SCHEMES:
        return address, SCHEMES[scheme](address, wanted)
    if scheme in (known := _plugins()):
        source = remote.public_name(address)
        return source, _read_by_package(known[scheme], lambda read: _table(read(address)), source)
    schemes = ", ".join(f"{each}://" for each in (*SCHEMES, *known) if not each.startswith("."))
    raise InputError(
        f"{shown(scheme)}://…: nothing reads such addresses. Name a file, or an address by "
        f"{remote.KNOWN}, or {schemes}."
    )


def unread(name: str) -> str:
    """Return why nothing reads a file of this name, and the next step."""
    if name.lower().endswith((".xls", ".xlsb")):
        return "is an old kind of Excel workbook. Save it as .xlsx."
    text = [each for each, found in FORMATS.items() if found.packable]
    others = [each for each in (*FORMATS, *_plugins()) if each.startswith(".") and each not in text]
    packed = ", ".join(compression.NAMES)
    return (
        "the format is not known by this name. Rename or convert the file: robin reads "
        f"{', '.join(text)} (each also with {packed}) and {', '.join(others)}."
    )


def _by_end(name: str, known: Mapping[str, Format]) -> Format | None:
    ends = [each for each in known if each.startswith(".") and name.endswith(each)]
    return known[max(ends, key=len)] if ends else None


def _plugins() -> dict[str, Plugin]:
    """Return the packages' formats by the ends of names and by schemes, in small letters."""
    return {each.name.lower().removesuffix("://"): each for each in plugins(GROUP).values()}


def _format_of_package(plugin: Plugin) -> Format:
    """Return a package's format. The package is loaded when it reads."""

    def read(stream: BinaryIO, source: str, wanted: Wanted) -> RowTable:
        def table(reader: Format | Callable[[str], Iterable[object]]) -> RowTable:
            if isinstance(reader, Format):
                return reader.read(stream, source, wanted)
            return _table(reader(stream.name))

        return _read_by_package(plugin, table, source)

    return Format(read, packable=False, by_path=True)


def _read_by_package(plugin: Plugin, read: Callable[[Any], RowTable], source: str) -> RowTable:
    """Return the table that a package reads. InputError names the package if it fails."""
    with plugin.loaded(source, "read", OSError) as found:
        table = read(found)

    def rows() -> Iterator[tuple[int, Row | BadRow]]:
        with plugin.loaded(source, "read", OSError):
            yield from table.rows

    return table._replace(rows=rows())


def _table(rows: Iterable[object]) -> RowTable:
    return RowTable(None, "row", enumerate(map(_plain_row, rows), 1))


def _plain_row(row: object) -> Row | BadRow:
    if isinstance(row, Pair):
        of_pair: Row = {"pair_id": row.pair_id, "prompt": row.prompt, "response": row.response}
        more = {"reference": row.reference, "group": row.group}
        texts = {name: value for name, value in more.items() if value is not None}
        return {**row.columns, **of_pair, **row.human, **texts}
    if isinstance(row, (dict, BadRow)):
        return row
    return BadRow(f"the row is {kind(row)}, not a dict or a Pair", "not an object")
