"""Record batches in a temporary file, with random access that takes no memory."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from robin_cli.data.texts import give_back
from robin_cli.model.errors import InputError

_SMALL_BYTES = 2**23
"""The most that waits in memory: a run on few pairs writes no temporary file."""

AROUND_BYTES = 2**16
"""The memory around a row that reading it alone may map."""

_LET_GO_BYTES = 2**25
"""The most mapped memory before it is released."""

_FOR_LONG = Path("/var/tmp")  # noqa: S108  # a file without a name is made in it
"""The folder for large temporary files: it is on disk even if the usual one is in memory."""


class Spool:
    """Record batches in order, with any columns each: in memory while they are few, else on disk.

    A row is found by its place among all rows. The file has no name, so nobody else opens it, and a
    killed process leaves nothing behind. It is memory-mapped.

    Attributes:
        batches: all of them; those on disk take memory only where they are read.
    """

    def __init__(self) -> None:
        self.batches: list[pa.RecordBatch] = []
        self._ends = [0]
        self._waiting_bytes = self._looked_bytes = 0
        self._maps: list[mmap.mmap] = []
        self._written = 0  # batches
        self._file: IO[bytes] | None = None

    @classmethod
    def from_batches(cls, batches: Iterable[pa.RecordBatch]) -> Spool:
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
        self.batches.append(batch)
        self._ends.append(len(self) + batch.num_rows)
        self._waiting_bytes += batch.nbytes
        del batch
        if self._waiting_bytes > _SMALL_BYTES:
            self._write()
            give_back()

    def _write(self) -> None:
        """Move the batches in memory to the disk. InputError if it is full."""
        try:
            if self._file is None:
                self._file = _on_disk()
                weakref.finalize(self, self._file.close)
            start = _aligned(self._file.tell(), mmap.ALLOCATIONGRANULARITY)
            places: list[tuple[int, int]] = []
            for batch in self.batches[self._written :]:
                self._file.seek(_aligned(places[-1][1] if places else start, 64))  # as Arrow does
                offset = self._file.tell()
                with pa.ipc.new_stream(pa.PythonFile(self._file, "w"), batch.schema) as stream:
                    stream.write_batch(batch)
                places.append((offset, self._file.tell()))
            self._file.flush()
            mapped = mmap.mmap(
                self._file.fileno(), places[-1][1] - start, access=mmap.ACCESS_READ, offset=start
            )
        except OSError as error:
            folder = tempfile.gettempdir() if "TMPDIR" in os.environ else _FOR_LONG
            raise InputError(
                f"{folder}: the texts of the data cannot be put there ({error.strerror}); make room, "
                "or name another folder with TMPDIR"
            ) from error
        buffer = pa.py_buffer(mapped)
        for at, (offset, end) in enumerate(places, self._written):
            with pa.ipc.open_stream(buffer.slice(offset - start, end - offset)) as stream:
                self.batches[at] = stream.read_next_batch()
        _let_go(mapped)
        self._maps.append(mapped)
        self._written, self._waiting_bytes = len(self.batches), 0

    def row(self, at: int) -> dict[str, Any]:
        """Return the values of a row. IndexError if there is none."""
        if not 0 <= at < len(self):
            raise IndexError(at)
        number = bisect_right(self._ends, at) - 1
        batch = self.batches[number]
        self.look_at(AROUND_BYTES + batch.nbytes // len(batch))
        (row,) = batch.slice(at - self._ends[number], 1).to_pylist()
        return row  # type: ignore[no-any-return]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield all batches; few of them are in memory at a time."""
        for batch in self.batches:
            yield batch
            self.look_at(batch.nbytes)

    def look_at(self, count: int) -> None:
        """Count mapped bytes that are read, and release them if they are many."""
        self._looked_bytes += count
        if self._looked_bytes >= _LET_GO_BYTES:
            self._looked_bytes = 0
            for mapped in self._maps:
                _let_go(mapped)


def _let_go(mapped: mmap.mmap) -> None:
    """Release a file's pages from memory; the system maps them again on access."""
    if hasattr(mapped, "madvise"):
        mapped.madvise(mmap.MADV_DONTNEED)


def _aligned(offset: int, to: int) -> int:
    return -(-offset // to) * to


def _on_disk() -> IO[bytes]:
    folder = None if "TMPDIR" in os.environ or not os.access(_FOR_LONG, os.W_OK) else _FOR_LONG
    return tempfile.TemporaryFile(dir=folder)
