"""Text files as bytes, with a cap on each line and on the whole, so that no file can fill the memory unannounced."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO

from robin_cli.data.rows import BadRow
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_LINE_BYTES = 32 * 2**20
"""The longest line, in bytes after decompression, its line end included."""

MAX_FILE_BYTES = 16 * 2**30
"""The longest file, in bytes after decompression."""

MOST_UNPACKED = 2**29
"""How much a compressed file may unpack to, in bytes, where that is more than MOST_TIMES its size."""

MOST_TIMES = 100
"""Text that people and models write is packed to a tenth; what unpacks a hundredfold is made to fill the memory."""

LIMIT_ENV = "ROBIN_MAX_UNPACKED_GB"
"""The environment variable that raises the limits on what is unpacked; not a setting, for a folder's robin.toml to raise."""

BOM = b"\xef\xbb\xbf"

_CHUNK_BYTES = 2**20

_FOREIGN = {
    b"\x1f\x8b": "is gzip-compressed. Let its name end in .gz.",
    b"PAR1\x15": "is Parquet. Let its name end in .parquet.",
    b"PK\x03\x04": "is a zip or Excel file. Save it as CSV (UTF-8).",
    b"\xff\xfe": "is UTF-16. Save it as UTF-8.",
    b"\xfe\xff": "is UTF-16. Save it as UTF-8.",
}


def at_most(limit: int) -> int:
    """``limit`` bytes, or what the environment raises it to. InputError if that is no number."""
    wanted = os.environ.get(LIMIT_ENV, "0")
    try:
        return max(limit, int(float(wanted) * 2**30))
    except (ValueError, OverflowError):
        raise InputError(f"{LIMIT_ENV}={wanted[:40]}: must be a number of GiB, for example 4") from None


def check_unpacked(unpacked: int, packed: int, source: str) -> None:
    """InputError if ``packed`` bytes of a file have become more than it may."""
    if unpacked > MOST_UNPACKED and unpacked > MOST_TIMES * packed and unpacked > at_most(MOST_UNPACKED):
        raise InputError(
            f"{source}: unpacks to more than {unpacked / 2**30:.1f} GiB, over {MOST_TIMES} times its size, as files "
            f"made to fill the memory do. If you trust it, allow more: {LIMIT_ENV}=4 (GiB) in the environment"
        )


def numbered_lines(stream: BinaryIO, source: str) -> Iterator[tuple[int, bytes | BadRow]]:
    r"""The lines of a file, from 1, each with its ``\n``; a line that is too long comes as a BadRow, unread.

    Raises InputError for a file that is not text at all, or too long.
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
            yield number, line
        if total > MAX_FILE_BYTES:
            raise file_too_long(source)


def read_whole(stream: BinaryIO, source: str, limit: int) -> bytearray:
    """All of the file without a byte order mark, or InputError past ``limit`` bytes or for what is not text."""
    data = bytearray()
    # In chunks, because read(limit) would set ``limit`` bytes aside before it reads the first.
    while chunk := stream.read(_CHUNK_BYTES):
        data += chunk
        if len(data) > limit:
            raise InputError(
                f"{source}: longer than {limit / 2**30:g} GiB, too long to be read as one JSON array. "
                "Make it JSON lines: jq -c '.[]' FILE.json > FILE.jsonl"
            )
    refuse_foreign(data, source)
    if data.startswith(BOM):
        del data[: len(BOM)]
    return data


def read_piped(stream: BinaryIO, source: str) -> io.BytesIO:
    """All of a stream as it is, from its beginning, or InputError past MAX_FILE_BYTES."""
    data = io.BytesIO()
    while chunk := stream.read(_CHUNK_BYTES):
        data.write(chunk)
        if data.tell() > MAX_FILE_BYTES:
            raise file_too_long(source)
    data.seek(0)
    return data


def refuse_foreign(head: bytes | bytearray, source: str) -> None:
    """InputError if the first bytes are those of another kind of file than its name says."""
    for magic, step in _FOREIGN.items():
        if head.startswith(magic):
            raise InputError(f"{source}: the name says text, but the file {step}")


def file_too_long(source: str) -> InputError:
    """The error for a file past MAX_FILE_BYTES."""
    return InputError(
        f"{source}: more than {MAX_FILE_BYTES / 2**30:g} GiB of data, decompressed. "
        "Split it, or read its first pairs with --limit."
    )


def _skip_line(stream: BinaryIO, line: bytes, most: int) -> int:
    """Read on to the end of a line that is too long, in chunks; how many bytes that took, ``most`` or a little more."""
    skipped = 0
    while line and not line.endswith(b"\n") and skipped <= most:
        line = stream.readline(_CHUNK_BYTES)
        skipped += len(line)
    return skipped


def too_long(unit: str) -> str:
    """What to say of a line or a row past MAX_LINE_BYTES."""
    ends = "check that the file has line ends, " if unit == "line" else ""
    return (
        f"the {unit} is longer than {MAX_LINE_BYTES / 2**20:g} MiB. "
        f"Shorten the row, {ends}or leave such rows out with --skip-bad-rows."
    )
