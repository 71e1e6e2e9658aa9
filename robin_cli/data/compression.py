"""Compressed files by the end of their names: gzip, bzip2, xz and Zstandard, read and written as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import IO, TYPE_CHECKING, Any, BinaryIO

from robin_cli.model.errors import Damaged, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import ReadableBuffer, WriteableBuffer

NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
"""The formats' names, by the end of a file's name."""

MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""The first bytes of compressed files."""

DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""The errors for data that are cut short or damaged. An OSError with an ``errno`` is the system's instead."""


def split_suffix(name: str) -> tuple[str, str]:
    """Split a name into the part before a compression's end, such as .gz, and that end in small letters, or ""."""
    suffix = next((each for each in NAMES if name.lower().endswith(each)), "")
    return name[: len(name) - len(suffix)], suffix


def suffix_of(head: bytes) -> str:
    """Return the end of the name of data that begin so; "" if they are not compressed."""
    return next((suffix for magic, suffix in MAGIC.items() if head.startswith(magic)), "")


@contextmanager
def undamaged(source: str, suffix: str) -> Iterator[None]:
    """Raise DAMAGED errors as Damaged, which names the source."""
    try:
        yield
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        name, reason = NAMES[suffix], shown(error, 80)
        raise Damaged(f"{source}: the {name} data is cut short or damaged ({reason})") from None


def decompressing(stream: BinaryIO, suffix: str) -> BinaryIO:
    """Return a stream that unpacks ``stream``, and can seek. To make it or to read it raises DAMAGED errors."""
    readers: dict[str, Callable[[], Any]] = {
        ".gz": lambda: gzip.GzipFile(fileobj=stream, mode="rb"),
        ".bz2": lambda: bz2.BZ2File(stream),
        ".xz": lambda: lzma.LZMAFile(stream),  # noqa: SIM115  # the caller closes it
        ".zst": lambda: io.BytesIO(_zstandard("CompressedInputStream", stream, "r").read()),
    }
    unpacked: BinaryIO = readers[suffix]()
    return unpacked


def compressing(file: IO[bytes], suffix: str) -> AbstractContextManager[IO[bytes]]:
    """Return a stream that compresses bytes into ``file``; for "" it writes them unchanged."""
    writers: dict[str, Callable[[], Any]] = {
        "": lambda: nullcontext(file),
        # No name and no time: the same scores give the same bytes.
        ".gz": lambda: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
        ".bz2": lambda: bz2.BZ2File(file, "wb"),
        ".xz": lambda: lzma.LZMAFile(file, "wb"),  # noqa: SIM115  # the caller closes it
        ".zst": lambda: _zstandard("CompressedOutputStream", file, "w"),
    }
    packed: AbstractContextManager[IO[bytes]] = writers[suffix]()
    return packed


def _zstandard(kind: str, stream: IO[bytes], mode: str) -> Any:
    import pyarrow as pa

    return getattr(pa, kind)(pa.PythonFile(_Lent(stream), mode), "zstd")


class _Lent(io.RawIOBase):
    """A stream of the caller that stays open when this is closed: pyarrow closes its streams when they are collected."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._stream.readinto(buffer)  # type: ignore[attr-defined,no-any-return]  # every binary stream has it

    def write(self, data: ReadableBuffer) -> int:
        return self._stream.write(data)
