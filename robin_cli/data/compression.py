"""Compressed files by the end of their names: gzip, bzip2, xz and Zstandard, as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import IO, Any, BinaryIO

from robin_cli.model.errors import Damaged, shown

NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""The first bytes of compressed files."""

DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""The errors of cut or damaged data. An OSError with an ``errno`` is the system's instead."""


def split_suffix(name: str) -> tuple[str, str]:
    """Split a name before a compression's end such as .gz, which is returned in small letters."""
    suffix = next((each for each in NAMES if name.lower().endswith(each)), "")
    return name[: len(name) - len(suffix)], suffix


def suffix_of(head: bytes) -> str:
    """Return the end of the name of data that begin so; "" if they are not compressed."""
    return next((suffix for magic, suffix in MAGIC.items() if head.startswith(magic)), "")


@contextmanager
def undamaged(source: str, suffix: str) -> Iterator[None]:
    """Raise DAMAGED errors of the body as Damaged, which names the source."""
    try:
        yield
    except DAMAGED as error:
        if not suffix or (isinstance(error, OSError) and error.errno is not None):
            raise
        name, reason = NAMES[suffix], shown(error, 80)
        raise Damaged(f"{source}: the {name} data is cut short or damaged ({reason})") from None


def decompressing(stream: BinaryIO, suffix: str) -> BinaryIO:
    """Return a stream that unpacks ``stream``, and can seek. It may raise DAMAGED errors."""
    import pyarrow as pa

    openers: dict[str, Any] = {
        "": lambda: stream,
        ".gz": lambda: gzip.GzipFile(fileobj=stream, mode="rb"),
        ".bz2": lambda: bz2.BZ2File(stream),
        ".xz": lambda: lzma.LZMAFile(stream),  # noqa: SIM115  # the caller closes it
        ".zst": lambda: io.BytesIO(
            pa.CompressedInputStream(pa.BufferReader(stream.read()), "zstd").read()
        ),
    }
    unpacked: BinaryIO = openers[suffix]()
    return unpacked


@contextmanager
def compressing(file: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    """Yield a stream that compresses bytes into ``file``; for "" it writes them unchanged."""
    import pyarrow as pa

    buffer = pa.BufferOutputStream()
    packers: dict[str, Any] = {
        "": lambda: nullcontext(file),
        # No name and no time: the same scores give the same bytes.
        ".gz": lambda: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
        ".bz2": lambda: bz2.BZ2File(file, "wb"),
        ".xz": lambda: lzma.LZMAFile(file, "wb"),  # noqa: SIM115  # closed below
        ".zst": lambda: pa.CompressedOutputStream(buffer, "zstd"),
    }
    with packers[suffix]() as packed:
        yield packed
    file.write(buffer.getvalue())
