"""Outputs that a user named: paths, devices, pipes and open descriptors; never over a run."""

from __future__ import annotations

import errno
import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from robin_cli.data.local import check_whole_file, whole_file
from robin_cli.data.remote import scheme_of

if sys.platform != "win32":
    import fcntl

_OF_A_RUN = frozenset(
    {
        "columns.parquet",
        "journal.jsonl",
        "lock",
        "manifest.json",
        "pairs.parquet",
        "state.parquet",
        "variances.parquet",
    }
)

_DESCRIPTORS = re.compile(r"/dev/fd|/proc/(?P<process>\d+)(/task/\d+)?/fd")


@contextmanager
def output_file(name: str | Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open an output that a user named; it may not be seekable.

    Devices, pipes and descriptors (/dev/stdout, /dev/fd/3) are written directly, and links are followed. A regular file
    appears whole or not at all, and keeps the permissions of the one it replaces.

    Args:
        mode: the permissions of a new file before the umask.

    Raises:
        OSError: it cannot be written, for the reason in ``strerror``.
    """
    stream = _stream(Path(name))
    if stream is not None:
        with stream:
            yield stream
        return
    path = _real(name)
    try:
        before = path.stat()
    except FileNotFoundError:
        before = None
    with whole_file(path, mode=mode if before is None else 0o600) as file:
        yield file
        if before is not None:
            _become_like(file.fileno(), before)


def check_output_file(name: str | Path) -> None:
    """Raise the OSError that :func:`output_file` would, as far as it is known without writing."""
    if scheme_of(str(name)):
        raise OSError(errno.EINVAL, "it is an address, and robin writes to this machine", str(name))
    path = Path(name)
    descriptor = _descriptor(path)
    if descriptor is not None and sys.platform != "win32":
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise PermissionError(errno.EACCES, "it is open for reading only", str(name))
        return
    kind = _kind(path)
    if kind is not None and not os.access(path, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
    if kind in {None, stat.S_IFREG}:
        check_whole_file(_real(name))


def _become_like(descriptor: int, before: os.stat_result) -> None:
    """Give an open file the owner and permissions of the one that it replaces, as far as this user may."""
    if os.name == "nt":
        return
    now = os.fstat(descriptor)
    with suppress(OSError):
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o777)


def _real(name: str | Path) -> Path:
    """Return the real path of a regular file. OSError if it belongs to a run."""
    path = Path(os.path.realpath(name))
    _refuse_file_of_run(path)
    return path


def _refuse_file_of_run(path: Path) -> None:
    """Raise OSError if ``path`` is a run's own file: answers that were paid for would be lost."""
    run = path.parent.parent if path.parent.name == "judgments" else path.parent
    own = path.name in _OF_A_RUN
    if (own or run != path.parent) and all(
        (run / each).exists() for each in ("manifest.json", "pairs.parquet")
    ):
        raise OSError(errno.EEXIST, "a run is kept in it", str(path))


def _kind(path: Path) -> int | None:
    """Return the kind of the file at ``path``, links followed, by stat.S_IFMT; None if it does not exist.

    Raises OSError for a folder, a socket, or a link that the system does not follow, such as another user's in /tmp.
    """
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError:
        return None
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if kind == stat.S_IFSOCK:
        raise OSError(errno.ENXIO, "it is a socket", str(path))
    return kind


def _stream(path: Path) -> IO[bytes] | None:
    """Open the device, pipe or descriptor that ``path`` names; return None for a regular or missing file."""
    descriptor = _descriptor(path)
    if descriptor is not None:
        sys.stdout.flush()  # it may be the same
        return os.fdopen(os.dup(descriptor), "wb")
    if _kind(path) in {None, stat.S_IFREG}:
        return None
    return os.fdopen(os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), "wb")


def _descriptor(path: Path) -> int | None:
    """Return the descriptor that ``path`` names, as /dev/stdout, /dev/fd/3 and a shell's >(…) do; None for other paths.

    Opening such a path by name would truncate or replace a redirected file.

    Raises:
        OSError: the descriptor was not open when this process started: the number may now be one of robin's own files.
    """
    for _ in range(40):  # as many links as a system follows
        folder = _DESCRIPTORS.fullmatch(os.path.realpath(path.parent))
        if folder and path.name.isdecimal() and folder["process"] in {None, str(os.getpid())}:
            descriptor = int(path.name)
            if descriptor > 2 and not os.get_inheritable(descriptor):
                raise OSError(errno.EBADF, os.strerror(errno.EBADF), str(path))
            os.fstat(descriptor)
            return descriptor
        if not path.is_symlink():
            return None
        path = path.parent / os.readlink(path)  # noqa: PTH115
    return None
