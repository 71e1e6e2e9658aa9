"""The append-only journal of answers: what makes an answer safe before it counts.

The first line names the segment that the lines after it will become. So a crash between writing that segment and
emptying the journal cannot count an answer twice: a journal whose segment exists is a journal already emptied.

A crash in the middle of an append leaves a torn end. Lines are forgiven only there; a bad line with good ones after it is
damage, and is said, never skipped.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

import orjson

from robin_cli.data.lines import at_most
from robin_cli.errors import StorageError
from robin_cli.files import open_regular, read_at_most, whole_file

_VERSION = 1
_MOST_BYTES = 2**30
"""Many times what a journal holds when it becomes a segment, however long the answers are."""


@dataclass(frozen=True, slots=True)
class JournalContent:
    """What a journal file holds: its segment number, its rows, and the length of its sound part in bytes."""

    segment: int
    rows: list[dict[str, Any]]
    sound_bytes: int


class Journal:
    """An open journal. Every :meth:`append` is on disk when it returns."""

    def __init__(self, path: Path, sound_bytes: int) -> None:
        """Open ``path`` for appending behind its first ``sound_bytes``; what stood after them is cut off."""
        self._path = path
        self._file = _opened(path)
        if os.fstat(self._file.fileno()).st_nlink > 1:  # a hard link: what is appended would be in the other file too
            with self._file, whole_file(path) as own:
                own.write(self._file.read(sound_bytes))
            self._file = _opened(path)
        self._end = sound_bytes
        self._cut_to_end()

    @classmethod
    def create(cls, path: Path, segment: int) -> Journal:
        """Put an empty journal for ``segment`` in the place of whatever stands at ``path``, in one step."""
        header = orjson.dumps({"journal": _VERSION, "segment": segment}) + b"\n"
        try:
            with whole_file(path) as file:
                file.write(header)
        except OSError as error:
            raise StorageError(f"{path}: could not be written ({error.strerror})") from error
        return cls(path, len(header))

    def append(self, records: Sequence[object]) -> None:
        """Write ``records`` (dataclasses or mappings) as lines, all or none, and wait until they are on disk.

        Raises:
            StorageError: the disk would not take them; the journal is as it was before.
        """
        data = b"".join(orjson.dumps(record) + b"\n" for record in records)
        try:
            view = memoryview(data)
            while view:
                view = view[self._file.write(view) :]
            os.fsync(self._file.fileno())
            if not os.fstat(self._file.fileno()).st_nlink:
                raise FileNotFoundError(errno.ENOENT, "the file was deleted, or its folder")
        except OSError as error:
            with suppress(OSError):
                self._cut_to_end()
            raise StorageError(
                f"{self._path}: could not be written ({error.strerror}); all answers before this are kept. "
                f"Make room, then go on with: robin resume {self._path.parent}"
            ) from error
        self._end += len(data)

    def close(self) -> None:
        """Close the file; everything is on disk already."""
        self._file.close()

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _cut_to_end(self) -> None:
        self._file.truncate(self._end)
        self._file.seek(self._end)


def _opened(path: Path) -> FileIO:
    return FileIO(open_regular(path, os.O_RDWR), "r+")


def read_journal(path: Path) -> JournalContent | None:
    """The rows of the journal at ``path``; None if there is none, or if not even its first line was finished.

    Raises:
        StorageError: it cannot be read, a line in the middle is damaged, or a newer robin wrote it.
    """
    try:
        data = read_at_most(path, at_most(_MOST_BYTES))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); restore it from a copy") from error
    rows: list[dict[str, Any]] = []
    start = sound = 0
    bad_line = number = 0
    while (end := data.find(b"\n", start)) >= 0:
        number += 1
        row = read_row(data[start:end])
        if row is None:
            bad_line = bad_line or number
        elif bad_line:
            raise StorageError(
                f"{path}:{bad_line}: this line is damaged, and lines after it are not. Nothing was changed; move the damaged "
                "line out of the file to go on without that answer"
            )
        else:
            rows.append(row)
            sound = end + 1
        start = end + 1
    if not rows:
        return None
    header = rows.pop(0)
    if header.get("journal") != _VERSION or not isinstance(header.get("segment"), int):
        raise StorageError(
            f"{path}:1: not a journal that this version of robin can read; use the version that wrote it"
        )
    return JournalContent(segment=header["segment"], rows=rows, sound_bytes=sound)


def read_row(line: bytes) -> dict[str, Any] | None:
    """The row in one line of a journal; None where it is damaged."""
    try:
        row = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return row if isinstance(row, dict) else None
