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
    b"\xff\xfe": "is UTF-16. Save it as UTF-8.",
    b"\xfe\xff": "is UTF-16. Save it as UTF-8.",
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


def refuse_foreign(head: bytes, source: str) -> None:
    """Raise InputError if the first bytes are those of another kind of file than its name says."""
    for magic, step in _FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{source}: the name says text, but the file {step}")
