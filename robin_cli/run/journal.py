"""The append-only journal of answers, which makes an answer safe before it counts.

An answer is handed to the operating system the moment it arrives, so that it outlives the process. It counts once it is synced,
so that it outlives the machine.

The first line names the run, and the segment that the lines after it will become. So a crash between writing that segment and
emptying the journal cannot count an answer twice: if the segment exists, its rows are the first lines.

A crash in the middle of a write leaves a last line without its end, or zeros, which are cut off. Any other bad line is damage,
and an error.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import Any
from zlib import crc32

import orjson

from robin_cli.data.local import whole_file
from robin_cli.model.errors import StorageError, typed, unwritten, writing

_VERSION = 1
_CHECKED_BY = b',"crc32":'


@dataclass(frozen=True, slots=True)
class JournalContent:
    """The content of a journal: its run's id, its segment number, its rows, and the length of its sound part in bytes."""

    run_id: str
    segment: int
    rows: list[dict[str, Any]]
    sound_bytes: int


class Journal:
    """An open journal; one thread at a time may :meth:`write`, while another may :meth:`sync`.

    Attributes:
        end: the length of what was written, in bytes.
    """

    def __init__(self, path: Path, end: int) -> None:
        """Open ``path`` for appending after its first ``end`` bytes, and cut off the rest."""
        self._path, self.end = path, end
        self._file = FileIO(path, "r+")
        self._file.truncate(end)

    @classmethod
    def create(
        cls, path: Path, run_id: str, segment: int, records: Sequence[object] = ()
    ) -> Journal:
        """Replace the file at ``path`` by a journal for ``segment`` of a run with ``records``, in one step."""
        header = {"journal": _VERSION, "run_id": run_id, "segment": segment}
        lines = lines_of([header, *records])
        with writing(path), whole_file(path) as file:
            file.write(lines)
        return cls(path, len(lines))

    def write(self, records: Sequence[object]) -> None:
        """Hand ``records`` (dataclasses or mappings) to the operating system as lines, all or none.

        Raises:
            StorageError: it refused them; the journal is unchanged.
        """
        view = memoryview(lines_of(records))
        size = len(view)
        try:
            self._file.seek(self.end)
            while view:
                view = view[self._file.write(view) :]
        except OSError as error:
            self.cut(self.end)
            raise self._refused(error) from error
        self.end += size

    def sync(self) -> None:
        """Wait until all that was written before is on disk.

        Raises:
            StorageError: the disk refused it, or the file was deleted.
        """
        try:
            os.fsync(self._file.fileno())
            if not os.fstat(self._file.fileno()).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "the file was deleted, or its folder")
        except OSError as error:
            raise self._refused(error) from error

    def cut(self, end: int) -> None:
        """Remove what was written after ``end``, if the disk allows it; the next write goes there."""
        self.end = end
        with suppress(OSError):
            self._file.truncate(end)

    def close(self) -> None:
        """Close the file without a sync."""
        self._file.close()

    def _refused(self, error: OSError) -> StorageError:
        step = (
            "; all answers before this are kept. Make room, then go on with: "
            f"robin resume {typed(self._path.parent)}"
        )
        return unwritten(self._path, error, step)


def lines_of(records: Sequence[object]) -> bytes:
    """Return records (dataclasses or mappings) as lines of a journal, each with its checksum."""
    lines = map(orjson.dumps, records)
    return b"".join(b"%b%b%d}\n" % (line[:-1], _CHECKED_BY, crc32(line)) for line in lines)


def read_journal(path: Path) -> JournalContent | None:
    """Read the journal at ``path``; return None if there is none, or its first line was not finished.

    Raises:
        StorageError: it cannot be read, a line is damaged, or a newer robin wrote it.
    """
    try:
        with path.open("rb") as file:
            data = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read ({error.strerror}); restore it from a copy"
        ) from error
    rows: list[dict[str, Any]] = []
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        row = read_row(data[start:end])
        if row is None and not data[start:].strip(b"\0\n"):
            break  # a power cut leaves zeros in place of what was not synced
        if row is None:
            raise StorageError(
                f"{path}:{len(rows) + 1}: this line is damaged. Nothing was changed; move the line out of the file to go on "
                "without that answer"
            )
        rows.append(row)
        start = end + 1
    if not rows:
        return None
    header = rows.pop(0)
    run_id, segment = header.get("run_id"), header.get("segment")
    if header.get("journal") != _VERSION or type(run_id) is not str or type(segment) is not int:
        raise StorageError(
            f"{path}:1: not a journal that this version of robin can read; use the version that wrote it"
        )
    return JournalContent(run_id, segment, rows, sound_bytes=start)


def read_row(line: bytes) -> dict[str, Any] | None:
    """Return the row in a line of a journal; None if it is damaged."""
    whole, checked, checksum = line.rpartition(_CHECKED_BY)
    if not checked or checksum != b"%d}" % crc32(whole + b"}"):
        return None
    try:
        row = orjson.loads(whole + b"}")
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None
