"""Text files as bytes, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.data import compression
from robin_cli.model.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

BOM = b"\xef\xbb\xbf"

_FOREIGN = {
    **{
        magic: f"is {compression.NAMES[end]}-compressed. Let its name end in {end}."
        for magic, end in compression.MAGIC.items()
    },
    b"PAR1\x15": "is Parquet. Let its name end in .parquet.",
    b"PK\x03\x04": "is a zip or Excel file. Let its name end in .xlsx or .ods, if that is what it is.",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook, or one with a password. Save it as .xlsx, without a password.",
}


def numbered_lines(stream: BinaryIO, source: str) -> Iterator[tuple[int, bytes]]:
    r"""Yield the lines of a file, numbered from 1, each with its ``\n``. Raises InputError for a file that is not text."""
    for number, line in enumerate(stream, 1):
        if number > 1:
            yield number, line
        else:
            refuse_foreign(line, source)
            yield number, line.removeprefix(BOM)  # Excel and Notepad write one


def is_blank(cells: list[Any]) -> bool:
    """Return whether a row of a table has only empty cells."""
    return cells.count(None) + cells.count("") == len(cells)


def refuse_stand_in(head: bytes, source: str) -> None:
    """Raise InputError if the first bytes are those of what stands in for data that were not downloaded."""
    begin = head.removeprefix(BOM).lstrip().lower()
    if begin.startswith(b"version https://git-lfs"):
        raise InputError(f"{source}: is a Git LFS pointer, not the data. Fetch these: git lfs pull")
    if begin.startswith((b"<!doctype html", b"<html")):
        raise InputError(
            f"{source}: is an HTML page, not data; perhaps it shows an error, or asks to log in. Download the file itself."
        )


def refuse_foreign(head: bytes, source: str) -> None:
    """Raise InputError if the first bytes are those of another kind of file than its name says."""
    for magic, step in _FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{source}: the name says text, but the file {step}")
