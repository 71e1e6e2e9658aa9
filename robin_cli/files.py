"""Opening files where others may have put something: no link is followed that a user did not name, and nothing is half written.

A folder that was received, or that others may write to, can hold a link, a pipe or a device in the place of any file. What
robin keeps for itself is opened by :func:`open_regular` and written by :func:`whole_file`; what a user names to be written,
by :func:`output_file`.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

if sys.platform != "win32":
    import fcntl

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: to open a pipe must not wait for its other end; of regular files it says nothing.
_FLAGS = _NOFOLLOW | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))
_NAME_KEPT = 40
_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)
_STALE_S = 3600.0
"""A temporary file beside an output that nothing was written to for so long is of a process that was killed."""

_OF_A_RUN = frozenset(
    {"journal.jsonl", "lock", "manifest.json", "pairs.parquet", "rescued.jsonl", "state.parquet", "variances.parquet"}
)
_SEGMENTS = "judgments"

_DESCRIPTORS = re.compile(r"/dev/fd|/proc/(?P<process>\d+)(/task/\d+)?/fd")


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open the regular file at ``path``; a descriptor. With O_CREAT in ``flags``, for its owner only.

    Raises:
        OSError: as os.open; or it is a link, or no regular file: ``strerror`` says so.
    """
    if not _NOFOLLOW and path.is_symlink():
        raise OSError(errno.ELOOP, "it is a link, and none is followed here", str(path))
    try:
        descriptor = os.open(path, flags | _FLAGS, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise OSError(errno.EINVAL, "it is no regular file", str(path)) from None
        if error.errno in {errno.ELOOP, errno.EMLINK}:
            raise OSError(errno.ELOOP, "it is a link, and none is followed here", str(path)) from None
        raise
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no regular file", str(path))


def reading(path: Path) -> IO[bytes]:
    """Open the regular file at ``path`` to be read. OSError as :func:`open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_at_most(path: Path, limit: int) -> bytes:
    """Read the regular file at ``path``. OSError as :func:`open_regular`, and where it has more than ``limit`` bytes."""
    with reading(path) as file:
        if os.fstat(file.fileno()).st_size > limit:  # before memory is set aside; a file may hold holes
            raise OSError(errno.EFBIG, f"it is longer than {limit / 2**20:,.0f} MiB", str(path))
        return file.read(limit)


def is_ours(info: os.stat_result) -> bool:
    """Whether a file is this user's own, under one name, and nobody else can have written to it."""
    return info.st_nlink == 1 and not info.st_mode & 0o022 and _is_owner(info)


@contextmanager
def whole_file(path: Path, *, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a file that appears at ``path`` whole or not at all, in the place of what is there; a link there is not followed.

    Args:
        mode: its permissions, of which the umask is taken; at first for its owner only, for prompts may be confidential.
    """
    temporary, descriptor = _temporary(path, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105  # the tests of crashes put a step around it
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def check_whole_file(path: Path) -> None:
    """Raise what :func:`whole_file` would, as far as can be known without writing; OSError."""
    temporary, descriptor = _temporary(path, 0o600)
    os.close(descriptor)
    temporary.unlink()


@contextmanager
def output_file(name: str | Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open what a user named to be written to; it may not be able to seek.

    A device, a pipe or a descriptor (/dev/stdout, /dev/fd/3) is written through, a link is followed. A regular file appears
    whole or not at all, with the permissions of the one before it.

    Args:
        mode: the permissions of a new file, of which the umask is taken.

    Raises:
        OSError: it cannot be written; ``strerror`` says why.
    """
    stream = _stream(Path(name))
    if stream is not None:
        with stream:
            yield stream
        return
    path = _kept_from_runs(Path(os.path.realpath(name)))
    remove_leftovers(path.parent, of=lambda found: found == path.name[:_NAME_KEPT], older_than_s=_STALE_S)
    try:
        before = path.stat()
    except FileNotFoundError:
        before = None
    with whole_file(path, mode=mode if before is None else 0o600) as file:
        yield file
        if before is not None:
            _become_like(file.fileno(), before)


def check_output_file(name: str | Path) -> None:
    """Raise what :func:`output_file` would, as far as can be known without writing; OSError."""
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
        check_whole_file(_kept_from_runs(Path(os.path.realpath(name))))


def added_to(name: str | Path) -> IO[bytes]:
    """Open what a user named to be added to, unbuffered; new, it is for its owner only. A pipe that nobody reads is no such.

    Raises:
        OSError: it cannot be written, or a run is kept in it.
    """
    path = _kept_from_runs(Path(os.path.realpath(name))) if _kind(Path(name)) in {None, stat.S_IFREG} else Path(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (_FLAGS & ~_NOFOLLOW)
    descriptor = os.open(path, flags, 0o600)
    os.set_blocking(descriptor, True)
    return os.fdopen(descriptor, "ab", 0)


def is_temporary(name: str) -> bool:
    """Whether :func:`whole_file` gives its temporary files such names."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_leftovers(folder: Path, *, of: Callable[[str], bool], older_than_s: float = 0.0) -> None:
    """Remove temporary files of :func:`whole_file` in ``folder`` that a killed process left, as far as they are ours.

    Args:
        of: which, by the name of the file that it was to become, or the first 40 characters of it.
        older_than_s: those to which nothing was written for so long.
    """
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            found = _TEMPORARY.fullmatch(entry.name)
            if found is None or not of(found["name"]):
                continue
            with suppress(OSError):
                info = entry.stat(follow_symlinks=False)
                if _is_owner(info) and time.time() - info.st_mtime >= older_than_s:
                    Path(entry.path).unlink()


def others_may_write(folder: Path) -> bool:
    """Whether anyone but this user and root may put other files in the place of those in ``folder``."""
    info = folder.stat()
    shared = bool(info.st_mode & 0o022) and not info.st_mode & stat.S_ISVTX
    return os.name != "nt" and (shared or not (_is_owner(info) or info.st_uid == 0))


def _is_owner(info: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or info.st_uid == os.geteuid()


def _temporary(path: Path, mode: int) -> tuple[Path, int]:
    """A new file beside ``path``, under a name that nobody could have taken, and its descriptor."""
    # A name with a dot in front is passed over by what reads all files of a folder, as pandas does.
    temporary = path.with_name(f".{path.name[:_NAME_KEPT]}.{secrets.token_hex(8)}.tmp")
    return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable."""
    if os.name == "nt":  # Windows has no handle on a folder to sync
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _become_like(descriptor: int, before: os.stat_result) -> None:
    """Give an open file owner and permissions of the one that it replaces, as far as this user may."""
    if os.name == "nt":
        return
    now = os.fstat(descriptor)
    with suppress(OSError):
        if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & 0o777)


def _kept_from_runs(path: Path) -> Path:
    """``path``; OSError where a run is kept in it: written over, answers that were paid for would be lost."""
    in_segments = path.parent.name == _SEGMENTS
    run = path.parent.parent if in_segments else path.parent
    is_own = in_segments or path.name in _OF_A_RUN or path.name.endswith(("rescued.jsonl", "rescued-rejected.jsonl"))
    if is_own and (run / "manifest.json").exists() and (run / "pairs.parquet").exists():
        raise OSError(errno.EEXIST, "a run is kept in it", str(path))
    return path


def _kind(path: Path) -> int | None:
    """What stands at ``path`` or where it leads, as stat.S_IFMT says; None for nothing. OSError for what can hold no output."""
    try:
        kind = stat.S_IFMT(path.stat().st_mode)  # also where the system lets nobody follow a link, as others' in /tmp
    except FileNotFoundError:
        return None
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    if kind == stat.S_IFSOCK:
        raise OSError(errno.ENXIO, "it is a socket", str(path))
    return kind


def _stream(path: Path) -> IO[bytes] | None:
    """What ``path`` names, to be written through; None for a regular file and for nothing."""
    descriptor = _descriptor(path)
    if descriptor is not None:
        sys.stdout.flush()  # it may be the same
        return os.fdopen(os.dup(descriptor), "wb")
    if _kind(path) in {None, stat.S_IFREG}:
        return None
    return os.fdopen(os.open(path, os.O_WRONLY | getattr(os, "O_NOCTTY", 0)), "wb")


def _descriptor(path: Path) -> int | None:
    """The open file of this process that ``path`` names, as /dev/stdout and /dev/fd/3 do; None for any other path.

    A shell's >(…) is such a path too. To open it by name would begin a redirected file anew, or put another in its place.

    Raises:
        OSError: no such file was open when this process was started: what has the number now is robin's own.
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
        path = path.parent / os.readlink(path)  # noqa: PTH115  # Path.readlink would do, but for the type of its error
    return None
