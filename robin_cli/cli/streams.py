"""Standard input, output and error made safe: always present, and never the end of a run that is paid for.

Notes that nobody can read any more are dropped. Results that cannot be written are an error, said once, with exit code 1.
"""

from __future__ import annotations

import codecs
import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import Any

from robin_cli.model.errors import InputError, StorageError
from robin_cli.show.text import HarmlessFile

_NEAREST = "robin.nearest"
_ASCII = str.maketrans("–—…×±·█δ²’“”→≥≤⌊⌋", '--~x~.#d2\'"">><||')


def settle_streams() -> None:
    """Replace ``sys.stdin``, ``sys.stdout`` and ``sys.stderr`` with streams that exist, and fail as described in this file."""
    codecs.register_error(_NEAREST, _nearest)
    for number, unusable in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_RDONLY)):
        _occupy(number, unusable)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(_Input(0, closefd=False)), encoding="utf-8")
    sys.stdout = _text_to(_Output(1, "w", closefd=False), sys.stdout)
    if sys.stdout.isatty():
        sys.stdout = _AtTerminal(sys.stdout)
    sys.stderr = _text_to(_Notes(2, "w", closefd=False), sys.stderr)


def finish_output() -> None:
    """Flush standard output, or detach it.

    Raises:
        StorageError: it cannot be written. BrokenPipeError: its reader left.
    """
    try:
        sys.stdout.flush()
    except (StorageError, BrokenPipeError):
        discard_output()
        raise


def discard_output() -> None:
    """Point standard output at nothing; otherwise Python would meet the same error again at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    with suppress(StorageError, OSError):
        sys.stdout.flush()


def _occupy(number: int, unusable: int) -> None:
    """Open a closed descriptor so that it still fails; otherwise the next file opened would get its number."""
    try:
        os.fstat(number)
    except OSError:
        opened = os.open(os.devnull, unusable)
        if opened != number:
            os.dup2(opened, number)
            os.close(opened)


def _text_to(raw: io.FileIO, before: Any) -> io.TextIOWrapper:
    at_lines = before is None or before.line_buffering or before.write_through or raw.isatty()
    encoding = "utf-8" if before is None else before.encoding
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding=encoding, errors=_NEAREST, line_buffering=at_lines
    )


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that an encoding lacks by a look-alike, or else by their number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    alike = error.object[error.start : error.end].translate(_ASCII)
    return alike.encode("ascii", "backslashreplace").decode("ascii"), error.end


class _Input(io.FileIO):
    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer) or 0
        except OSError as error:
            why = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise InputError(f"standard input: cannot be read ({why}); name a file") from error


class _Output(io.FileIO):
    def write(self, data: Any) -> int:
        try:
            while (
                written := super().write(data)
            ) is None:  # somebody made it one that does not wait
                select.select([], [self], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            why = "it is closed" if error.errno == errno.EBADF else error.strerror
            raise StorageError(
                f"standard output: could not be written ({why}); make room, or send it elsewhere"
            ) from error
        return written


class _Terminal(HarmlessFile, _Output):
    """Standard output at a terminal."""


class _AtTerminal(io.TextIOWrapper):
    """Text for a terminal; ``styled`` is for consoles, which write escape sequences around harmless text."""

    def __init__(self, styled: io.TextIOWrapper) -> None:
        raw = _Terminal(1, styled.encoding)
        super().__init__(
            io.BufferedWriter(raw), encoding=styled.encoding, errors=_NEAREST, line_buffering=True
        )
        self.styled = styled


class _Notes(io.FileIO):
    def write(self, data: Any) -> int:
        with suppress(OSError):
            super().write(data)
        return len(data)
