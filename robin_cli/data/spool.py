"""Record batches in a temporary file, with random access that takes no memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from robin_cli.data.texts import give_back
from robin_cli.model.errors import InputError

_LONG_BYTES = 2**20
"""A row of so many bytes is long: memory that Arrow keeps after reading it would exceed all else."""

_AROUND_BYTES = 2**16
"""The memory around a row that reading it alone may map."""

_LET_GO_BYTES = 2**25
"""The most mapped memory before it is released."""

_SMALL_BYTES = 2**25
"""The most that stays in memory: a run on few pairs writes no temporary file."""

_FOR_LONG = Path("/var/tmp")  # noqa: S108  # a file without a name is made in it
"""The folder for large temporary files: it is on disk even if the usual one is in memory."""


class Spool:
    """Record batches in order, with any columns each: in memory while they are few, else in a file.

    A row is found by its place among all rows. The file has no name, so nobody else opens it, and a killed process leaves
    nothing behind. It is memory-mapped.
    """

    def __init__(self) -> None:
        self._opened: dict[int, pa.RecordBatch] = {}
        self._ends = [0]
        self._row_bytes: list[int] = []  # of each batch, on average
        self._places: list[tuple[int, int]] = []  # offset and length of the batches in the file
        self._file: IO[bytes] | None = None
        self._mapped: mmap.mmap | None = None
        self._bytes = self._looked = 0  # of all batches, and, about, of the mapped rows

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Spool:
        """Make a spool of batches, and release their memory. InputError if the disk is full."""
        spool = cls()
        for batch in batches:
            spool.add(batch)
            del batch  # or it would be held while the next one is made
        give_back()
        return spool

    def __len__(self) -> int:
        return self._ends[-1]

    def add(self, batch: pa.RecordBatch) -> None:
        """Append rows. InputError if the disk is full."""
        if not batch.num_rows:
            return
        self._opened[len(self._ends) - 1] = batch
        self._ends.append(len(self) + batch.num_rows)
        self._bytes += batch.nbytes
        self._row_bytes.append(batch.nbytes // batch.num_rows)
        is_long = self._row_bytes[-1] >= _LONG_BYTES
        del batch
        if self._bytes > _SMALL_BYTES:
            self._write()
        if is_long:
            give_back()

    def _write(self) -> None:
        """Move the batches in memory to the disk. InputError if it is full."""
        try:
            if self._file is None:
                self._file = _on_disk()
                weakref.finalize(self, self._file.close)
            for number in range(len(self._places), len(self._ends) - 1):
                offset, batch = self._file.tell(), self._opened.pop(number)
                with pa.ipc.new_stream(pa.PythonFile(self._file, "w"), batch.schema) as stream:
                    stream.write_batch(batch)
                self._file.flush()
                end = self._file.tell()
                self._file.seek(-(-end // 64) * 64)  # Arrow aligns its buffers to 64 bytes
                self._places.append((offset, end - offset))
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir() if 'TMPDIR' in os.environ else _FOR_LONG}: the texts of the data cannot be put there "
                f"({error.strerror}); make room, or name another folder with TMPDIR"
            ) from error

    def at(self, row: int) -> tuple[pa.RecordBatch, int]:
        """Return the batch of a row, and the row's place there. IndexError if there is none."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        number = bisect_right(self._ends, row) - 1
        self._looked += _AROUND_BYTES + self._row_bytes[number]
        if self._looked >= _LET_GO_BYTES:
            self._let_go()
        return self._batch(number), row - self._ends[number]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches, one in memory at a time."""
        for number in range(len(self._ends) - 1):
            yield self._batch(number)
            self._let_go()

    def batches(self) -> list[pa.RecordBatch]:
        """Return all batches, mapped from the file."""
        return [self._batch(number) for number in range(len(self._ends) - 1)]

    def _batch(self, number: int) -> pa.RecordBatch:
        found = self._opened.get(number)
        if found is None:
            offset, length = self._places[number]
            assert self._file is not None  # noqa: S101  # for the types
            if self._mapped is None or len(self._mapped) < offset + length:
                self._mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
                self._opened = {}  # batches opened before hold the old mapping
            with pa.ipc.open_stream(pa.py_buffer(self._mapped).slice(offset, length)) as stream:
                found = self._opened[number] = stream.read_next_batch()
        return found

    def _let_go(self) -> None:
        """Release the file's pages from memory; the system maps them again on access."""
        self._looked = 0
        if self._mapped is not None and hasattr(self._mapped, "madvise"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def _on_disk() -> IO[bytes]:
    folder = None if "TMPDIR" in os.environ or not os.access(_FOR_LONG, os.W_OK) else _FOR_LONG
    return tempfile.TemporaryFile(dir=folder)
