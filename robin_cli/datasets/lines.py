"""Text files as bytes. Each line and the whole file have a cap, so that no file can fill the memory."""

from __future__ import annotations

import io
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from robin_cli.datasets.rows import BadRow
from robin_cli.files import compression
from robin_cli.model.errors import Damaged, InputError, shown, size

Cells = TypeVar("Cells", bound=list[Any])

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from _typeshed import WriteableBuffer

MAX_LINE_BYTES = 32 * 2**20
"""The longest line, in bytes after decompression, its line end included."""

MAX_FILE_BYTES = 16 * 2**30
"""The longest file, in bytes after decompression."""

MOST_UNPACKED = 2**29
"""The most bytes that a compressed file may unpack to if that is more than MOST_TIMES its size."""

MOST_TIMES = 100
"""Text by people and models shrinks to about a tenth; a file that unpacks a hundredfold is made to fill the memory."""

MOST_IDLE = 2**20
"""The most blank lines, or rows that cannot be used, that a file may have if they are more than MOST_TIMES the others."""

LIMIT_ENV = "ROBIN_MAX_UNPACKED_GB"
"""The environment variable that raises the limits on unpacking. Not a setting: a stranger's robin.toml must not raise them."""

BOM = b"\xef\xbb\xbf"

_CHUNK_BYTES = 2**20

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


def at_most(limit: int) -> int:
    """Return ``limit`` bytes, or the higher limit that the environment sets. InputError if it is not a number."""
    wanted = os.environ.get(LIMIT_ENV, "0")
    try:
        return max(limit, int(float(wanted) * 2**30))
    except (ValueError, OverflowError):
        raise InputError(
            f"{LIMIT_ENV}={wanted[:40]}: must be a number of GiB, for example 4"
        ) from None


def check_unpacked(unpacked: int, packed: int, source: str) -> None:
    """Raise InputError if ``packed`` bytes of a file unpack to more than they may."""
    if (
        unpacked > MOST_UNPACKED
        and unpacked > MOST_TIMES * packed
        and unpacked > at_most(MOST_UNPACKED)
    ):
        raise InputError(
            f"{source}: unpacks to more than {size(unpacked)}, over {MOST_TIMES} times its size, as files "
            f"made to fill the memory do. If you trust it, allow more: {LIMIT_ENV}=4 (GiB) in the environment"
        )


def check_idle(idle: int, others: int, source: str, what: str = "blank lines") -> None:
    """Raise InputError if a file holds little but ``what``: a megabyte can unpack to a billion of them, and take minutes."""
    if idle > MOST_IDLE and idle > MOST_TIMES * others:
        raise InputError(
            f"{source}: has {idle:,} {what} and {others:,} with data, and was not read further. Write the file without them."
        )


class Unpacked(io.RawIOBase):
    """A compressed file that is unpacked as it is read, within the limits of :func:`check_unpacked`."""

    def __init__(self, stream: BinaryIO, source: str, suffix: str) -> None:
        self._packed, self._size = stream, stream.seek(0, io.SEEK_END)
        self._source, self._suffix = source, suffix
        self._begin()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to an offset from the beginning or from here. To go back, the file is unpacked again."""
        wanted = offset + (self._at if whence == io.SEEK_CUR else 0)
        if wanted < self._at:
            self._begin()
        while self._at < wanted and self.read(min(_CHUNK_BYTES, wanted - self._at)):
            pass
        return self._at

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read as from any stream. InputError if the data are damaged, or unpack to too much."""
        with self._data_errors():
            count: int = self._stream.readinto(buffer)  # type: ignore[attr-defined]  # each of them has it
        self._at += count
        check_unpacked(self._at, self._size, self._source)
        return count

    def _begin(self) -> None:
        self._packed.seek(0)
        self._at = 0
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


def numbered_lines(stream: BinaryIO, source: str) -> Iterator[tuple[int, bytes | BadRow]]:
    r"""Yield the lines of a file, numbered from 1, each with its ``\n``; a line that is too long is a BadRow.

    Raises InputError for a file that is not text, or too long.
    """
    number = total = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        total += len(line)
        if number == 1:
            refuse_foreign(line, source)
            line = line.removeprefix(BOM)  # Excel and Notepad write one
        if len(line) > MAX_LINE_BYTES:
            yield number, BadRow(too_long("line"), "too long")
            total += _skip_line(stream, line, MAX_FILE_BYTES - total)
        else:
            held = [line]
            del line
            yield (
                number,
                held.pop(),
            )  # a local name would keep the line in memory while its row is worked on
        if total > MAX_FILE_BYTES:
            raise file_too_long(source)


def filled(
    rows: Iterable[tuple[int, Cells | BadRow]], source: str
) -> Iterator[tuple[int, Cells | BadRow]]:
    """Yield the rows that have a cell that is not empty."""
    blank = count = 0
    for number, cells in rows:
        if isinstance(cells, BadRow) or cells.count(None) + cells.count("") < len(cells):
            count += 1
            yield number, cells
        else:
            blank += 1
            check_idle(blank, count, source, "rows of empty cells")


def read_piped(stream: BinaryIO, source: str) -> io.BytesIO:
    """Read a whole stream into memory. InputError past MAX_FILE_BYTES."""
    data = io.BytesIO()
    while chunk := stream.read(_CHUNK_BYTES):
        data.write(chunk)
        if data.tell() > MAX_FILE_BYTES:
            raise file_too_long(source)
    data.seek(0)
    return data


def refuse_foreign(head: bytes | bytearray, source: str) -> None:
    """Raise InputError if the first bytes are those of another kind of file than its name says."""
    for magic, step in _FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{source}: the name says text, but the file {step}")


def file_too_long(source: str) -> InputError:
    """Return the error for a file past MAX_FILE_BYTES."""
    return InputError(
        f"{source}: more than {size(MAX_FILE_BYTES)} of data, decompressed. "
        "Split it, or read its first pairs with --limit."
    )


def _skip_line(stream: BinaryIO, line: bytes, most: int) -> int:
    """Skip the rest of a line that is too long; return the bytes skipped, at most little more than ``most``."""
    skipped = 0
    while line and not line.endswith(b"\n") and skipped <= most:
        line = stream.readline(_CHUNK_BYTES)
        skipped += len(line)
    return skipped


def too_long(unit: str) -> str:
    """Return the message for a line or a row past MAX_LINE_BYTES."""
    ends = "check that the file has line ends, " if unit == "line" else ""
    return (
        f"the {unit} is longer than {size(MAX_LINE_BYTES)}. "
        f"Shorten the row, {ends}or leave such rows out with --skip-bad-rows."
    )
