"""Compressed files by the end of their names: gzip, bzip2, xz and Zstandard, read and written as streams."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zlib
from contextlib import AbstractContextManager, nullcontext
from typing import IO, TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable

    from _typeshed import ReadableBuffer, WriteableBuffer

NAMES = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "Zstandard"}
"""The ends of names, and what people call the format."""

MAGIC = {b"\x1f\x8b": ".gz", b"BZh": ".bz2", b"\xfd7zXZ\x00": ".xz", b"\x28\xb5\x2f\xfd": ".zst"}
"""What compressed files begin with."""

DAMAGED = (EOFError, zlib.error, lzma.LZMAError, OSError)
"""What reading raises where the data is cut short or damaged; an OSError with an ``errno`` is the system's, though."""

_BLOCK_BYTES = 2**20
_MOST_WINDOW = 2**27
"""The most memory that unpacking may need, in bytes: ten bytes of a header can ask for gigabytes. As zstd has it."""


def split_suffix(name: str) -> tuple[str, str]:
    """The name without the end that says how the file is compressed, and that end in small letters, or ""."""
    suffix = next((each for each in NAMES if name.lower().endswith(each)), "")
    return name[: len(name) - len(suffix)], suffix


def decompressing(stream: BinaryIO, suffix: str) -> BinaryIO:
    """``stream`` unpacked as it is read, in little memory. Raises one of DAMAGED while it is read."""
    readers: dict[str, Callable[[], Any]] = {
        ".gz": lambda: gzip.GzipFile(fileobj=stream, mode="rb"),
        ".bz2": lambda: bz2.BZ2File(stream),
        ".xz": lambda: _Xz(stream),
        ".zst": lambda: _zstandard("CompressedInputStream", stream, "r"),
    }
    unpacked: BinaryIO = readers[suffix]()
    return unpacked


def compressing(file: IO[bytes], suffix: str) -> AbstractContextManager[IO[bytes]]:
    """A stream whose bytes are written to ``file`` compressed; as they are for ""."""
    writers: dict[str, Callable[[], Any]] = {
        "": lambda: nullcontext(file),
        # No name and no time: the same scores are the same bytes.
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


class _Xz(io.RawIOBase):
    """An xz file, unpacked within _MOST_WINDOW: lzma's own file object knows no limit."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self._decoder = stream, lzma.LZMADecompressor(memlimit=_MOST_WINDOW)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        while True:
            packed = self._decoder.unused_data
            if self._decoder.eof:  # another stream, or zeros to fill up, may follow
                packed = (packed or self._stream.read(_BLOCK_BYTES)).lstrip(b"\0")
                if not packed:
                    return 0
                self._decoder = lzma.LZMADecompressor(memlimit=_MOST_WINDOW)
            elif self._decoder.needs_input and not (packed := self._stream.read(_BLOCK_BYTES)):
                raise EOFError("the end is missing")
            if data := self._decoder.decompress(packed, len(view)):
                view[: len(data)] = data
                return len(data)


class _Lent(io.RawIOBase):
    """Another's stream, which stays open where this is closed: pyarrow's do so when they are collected."""

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
