"""Small text files that a user names: rubrics, templates, settings. Whatever the name leads to, reading it ends soon."""

from __future__ import annotations

import os
import select
import stat
import time
from typing import TYPE_CHECKING

from robin_cli.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 2**20
"""The longest such file."""

WAIT_S = 10.0
"""How long a pipe may take to bring its text and end."""


def read_small_file(path: Path, called: str) -> str:
    """Read a text, UTF-8 with or without a byte order mark, from a regular file or from a pipe.

    A pipe, as ``<(…)`` and /dev/stdin are, must end within WAIT_S seconds; one that nobody writes to does not block. ``called``
    begins the errors: the flag and the name.

    Raises:
        InputError: it is longer than MOST_BYTES, neither a file nor a pipe, not UTF-8, or a pipe that does not end.
        OSError: it cannot be opened or read; the caller knows what else the name could have been.
    """
    # Not blocking: else to open a pipe that nobody writes to would take forever.
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    try:
        mode = os.fstat(file).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            what = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
            raise InputError(f"{called}: {what}, not a file; name a text file, or a pipe that ends")
        data = _all_of(file, called, is_pipe=stat.S_ISFIFO(mode))
    finally:
        os.close(file)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")  # as text files are read
    except UnicodeDecodeError:
        raise InputError(f"{called}: is not UTF-8; save it as UTF-8") from None


def _all_of(file: int, called: str, *, is_pipe: bool) -> bytes:
    data = bytearray()
    end = time.monotonic() + WAIT_S
    while True:
        if is_pipe and not select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
            raise InputError(
                f"{called}: a pipe that has not ended after {WAIT_S:g} s; let its writer finish, or save the text to a file"
            )
        chunk = os.read(file, 2**16)
        if not chunk:
            return bytes(data)
        data += chunk
        if len(data) > MOST_BYTES:
            raise InputError(
                f"{called}: longer than {MOST_BYTES / 2**20:g} MiB, too long for such a file; check that it is the right one"
            )
