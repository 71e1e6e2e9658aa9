"""The formats robin reads, by the end of a file's name."""

from __future__ import annotations

import gzip
import io
import zlib
from typing import TYPE_CHECKING, BinaryIO

from robin_cli.data.csv_rows import read_csv, read_tsv
from robin_cli.data.json_rows import read_json_array, read_json_lines
from robin_cli.data.lines import BOM, check_unpacked
from robin_cli.data.parquet_rows import read_parquet
from robin_cli.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Collection

    from _typeshed import WriteableBuffer

    from robin_cli.data.rows import Reader, Table

_BUFFER_BYTES = 2**20
HEAD_BYTES = 2**16
"""As much of a stream as tells its format."""

_TEXT: dict[str, Reader] = {
    ".jsonl": read_json_lines,
    ".ndjson": read_json_lines,
    ".json": read_json_array,
    ".csv": read_csv,
    ".tsv": read_tsv,
}


def _gunzipped(reader: Reader) -> Reader:
    def read(stream: BinaryIO, source: str, wanted: Collection[str]) -> Table:
        # GzipFile's own readline is Python; a buffer around it makes lines in C.
        return reader(io.BufferedReader(_Unzipped(stream, source), _BUFFER_BYTES), source, wanted)

    return read


class _Unzipped(gzip.GzipFile):
    """A gzip file that stops where it has become far more than a text would."""

    def __init__(self, stream: BinaryIO, source: str) -> None:
        self._packed, self._source = stream.seek(0, io.SEEK_END), source
        stream.seek(0)
        super().__init__(fileobj=stream, mode="rb")

    def readinto(self, buffer: WriteableBuffer) -> int:
        count = super().readinto(buffer)
        check_unpacked(self.tell(), self._packed, self._source)
        return count


_GZIP = b"\x1f\x8b"

READERS: dict[str, Reader] = {
    **_TEXT,
    **{f"{suffix}.gz": _gunzipped(reader) for suffix, reader in _TEXT.items()},
    ".parquet": read_parquet,
}
"""What reads a file, by the end of its name in small letters."""

KNOWN = f"{', '.join(_TEXT)} (each also with .gz) and .parquet"
"""The ends of names robin knows, for an error's next step."""


def reader_by_content(head: bytes) -> Reader:
    """What reads a stream that begins with ``head``, a few kilobytes; CSV where it is nothing else."""
    if head.startswith(_GZIP):
        unzipped = zlib.decompressobj(wbits=31).decompress(head, HEAD_BYTES)
        if unzipped.startswith(_GZIP):
            raise InputError("standard input: is gzipped twice; unzip it once: gunzip | robin judge - …")
        return _gunzipped(reader_by_content(unzipped))
    if head.startswith(b"PAR1"):
        return read_parquet
    text = head.removeprefix(BOM).lstrip()
    if text.startswith((b"{", b"[")):
        return read_json_lines if text.startswith(b"{") else read_json_array
    header = text.partition(b"\n")[0]
    return read_tsv if b"\t" in header and b"," not in header else read_csv


def reader_of(name: str) -> Reader | None:
    """What reads a file of this name, or None."""
    return next((reader for suffix, reader in READERS.items() if name.lower().endswith(suffix)), None)
