"""Text files as bytes, line by line, unpacked if they are compressed."""

from __future__ import annotations

import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

from robin_cli.data import compression
from robin_cli.model.errors import Damaged, InputError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

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


class Unpacked(io.RawIOBase):
    """A compressed file that is unpacked as it is read. Damage raises Damaged, which names the file."""

    def __init__(self, stream: BinaryIO, source: str, suffix: str) -> None:
        self._packed, self._source, self._suffix = stream, source, suffix
        self._begin()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset from the beginning. The file is unpacked again up to there."""
        assert whence == io.SEEK_SET  # noqa: S101  # no reader needs another
        self._begin()
        at = 0
        while at < offset and (skipped := self.read(offset - at)):
            at += len(skipped)
        return at

    def readinto(self, buffer: WriteableBuffer) -> int:
        with self._data_errors():
            count: int = self._stream.readinto(buffer)  # type: ignore[attr-defined]  # every such stream has it
        return count

    def _begin(self) -> None:
        self._packed.seek(0)
        with self._data_errors():
            self._stream = compression.decompressing(self._packed, self._suffix)

    @contextmanager
    def _data_errors(self) -> Iterator[None]:
        try:
            yield
        except compression.DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise Damaged(
                f"{self._source}: the {compression.NAMES[self._suffix]} data is cut short or damaged ({shown(error, 80)})"
            ) from None


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
