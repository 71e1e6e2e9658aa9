"""Record batches on their way through: in memory while they are few, else in a file that goes with the process."""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO

import pyarrow as pa

from robin_cli.datasets.texts import give_back
from robin_cli.model.errors import InputError

IN_MEMORY_BYTES = 2**26
"""So much is held; what is more lies on disk, and in memory as far as the system has room."""

_ROWS = 2**13
"""That are written together, but for where their columns change."""

_BYTES = 2**24
"""Of rows, that are written together before there are so many."""

_FEW = 16
"""Rows that make a group are long: what Arrow keeps of the memory that they were read in is more than all the rest."""

_MOST_WAITING = 1
"""Groups of rows that are held while they wait to be written."""

_AROUND_BYTES = 2**16
"""What a row that is read by itself may bring into this process's memory beside itself."""

_LET_GO_BYTES = 2**25
"""How much of that may be there at a time."""

_FOR_LONG = Path("/var/tmp")  # noqa: S108  # a file without a name is made in it
"""Where systems keep large temporary files on disk, though the usual place be memory."""


class Spool:
    """Record batches in the order they came, of any columns each.

    A row is found by its place among all. The file has no name, so nobody else opens it, and a killed process leaves nothing.
    """

    def __init__(self) -> None:
        self._pending: list[pa.RecordBatch] = []  # of the same columns
        self._pending_rows = self._pending_bytes = 0
        self._held: list[pa.RecordBatch | None] = []  # None: in the file, and not opened by now
        self._places: list[tuple[int, int]] = []  # offset and length in the file
        self._starts: list[int] = []
        self._ends = [0]
        self._nbytes = 0  # of all rows
        self._file: IO[bytes] | None = None
        self._thread: ThreadPoolExecutor | None = None  # that writes, while the next rows are looked at
        self._writing: deque[Future[None]] = deque()
        self._mapped: mmap.mmap | None = None
        self._looked = 0  # bytes, about

    def __len__(self) -> int:
        return self._ends[-1] + self._pending_rows

    def add(self, batch: pa.RecordBatch) -> None:
        """Put rows behind those there are. InputError where the disk does not take them."""
        if self._pending and self._pending[0].schema != batch.schema:
            self._write()
        self._pending.append(batch)
        self._nbytes += batch.nbytes
        self._pending_rows += batch.num_rows
        self._pending_bytes += batch.nbytes
        if self._pending_rows >= _ROWS or self._pending_bytes >= _BYTES:
            self._write()

    def extend(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Put the rows of several batches behind those there are; none of them is held by a name when this returns."""
        for batch in batches:
            self.add(batch)

    def at(self, row: int) -> tuple[pa.RecordBatch, int]:
        """The batch that holds the row, and its place there. IndexError where there is none."""
        if not 0 <= row < len(self):
            raise IndexError(row)
        self._settle()
        number = bisect_right(self._starts, row) - 1
        if self._places:
            self._looked += _AROUND_BYTES + self._places[number][1] // (self._ends[number + 1] - self._starts[number])
            if self._looked >= _LET_GO_BYTES:
                self._let_go()
        return self._batch(number), row - self._starts[number]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """All batches, one after the other; those in the file are in memory only while they are looked at."""
        self._settle()
        for number, held in enumerate(self._held):
            yield self._batch(number) if held is None else held
            self._let_go()

    def batches(self) -> list[pa.RecordBatch]:
        """All batches, over the file where they lie there: what is looked at comes into memory, and may leave it again."""
        self._settle()
        return [self._batch(number) for number in range(len(self._held))]

    def _write(self) -> None:
        """Put what came since together, and where it belongs."""
        if not self._pending:
            return
        batches, self._pending = self._pending, []
        is_long = self._pending_rows <= _FEW
        self._starts.append(self._ends[-1])
        self._ends.append(self._ends[-1] + self._pending_rows)
        self._pending_rows = self._pending_bytes = 0
        if self._nbytes <= IN_MEMORY_BYTES:
            self._held.append(_one(batches))
            return
        if self._file is None:
            self._file, self._thread = _nameless(), ThreadPoolExecutor(1)
            weakref.finalize(self, _end, self._thread, self._file)
            held, self._held = self._held, []
            for each in held:
                self._spill([each] if each is not None else [])
        assert self._thread is not None  # noqa: S101  # for the types
        self._writing.append(self._thread.submit(self._spill, batches))
        del batches
        if len(self._writing) > (0 if is_long else _MOST_WAITING):
            self._writing.popleft().result()
        if is_long:
            give_back()

    def _settle(self) -> None:
        """Wait until all is where it belongs; InputError where the disk does not take it."""
        self._write()
        while self._writing:
            self._writing.popleft().result()

    def _spill(self, batches: list[pa.RecordBatch]) -> None:
        assert self._file is not None  # noqa: S101  # for the types
        batch = _one(batches)
        try:
            offset = self._file.tell()
            with pa.ipc.new_stream(pa.PythonFile(self._file, "w"), batch.schema) as stream:
                stream.write_batch(batch)
            self._file.flush()
            end = self._file.tell()
            self._file.seek(-(-end // 64) * 64)  # Arrow wants its buffers at such places
        except OSError as error:
            raise InputError(
                f"{tempfile.gettempdir() if 'TMPDIR' in os.environ else _FOR_LONG}: the texts of the data cannot be put there "
                f"({error.strerror}); make room, or name another folder with TMPDIR"
            ) from error
        self._places.append((offset, end - offset))
        self._held.append(None)

    def _batch(self, number: int) -> pa.RecordBatch:
        held = self._held[number]
        if held is not None:
            return held
        offset, length = self._places[number]
        if self._mapped is None or len(self._mapped) < offset + length:
            assert self._file is not None  # noqa: S101  # for the types
            self._mapped = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
            self._held = [None] * len(self._places)  # those opened before keep what was mapped then
        with pa.ipc.open_stream(pa.py_buffer(self._mapped).slice(offset, length)) as stream:
            batch = stream.read_next_batch()
        self._held[number] = batch
        return batch

    def _let_go(self) -> None:
        """Have the pages of the file leave this process's memory; the system gives them back when they are looked at."""
        self._looked = 0
        if self._mapped is not None and hasattr(self._mapped, "madvise"):
            self._mapped.madvise(mmap.MADV_DONTNEED)


def _one(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches with the same columns."""
    if len(batches) == 1:
        return batches[0]
    (batch,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    return batch


def _end(thread: ThreadPoolExecutor, file: IO[bytes]) -> None:
    thread.shutdown(wait=False, cancel_futures=True)  # it may be the one that runs this
    file.close()


def _nameless() -> IO[bytes]:
    folder = None if "TMPDIR" in os.environ or not os.access(_FOR_LONG, os.W_OK) else _FOR_LONG
    return tempfile.TemporaryFile(dir=folder)
