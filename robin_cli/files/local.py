"""Opening files where others may have put something: no link is followed that a user did not name, nothing is half written.

A folder that was received, or that others may write to, can hold a link, a pipe or a device in the place of any file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import select
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from robin_cli.model.errors import InputError, size

if sys.platform != "win32":
    import fcntl

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
# O_NONBLOCK: to open a pipe must not wait for its other end; of regular files it says nothing.
FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))

NAME_KEPT = 40
"""How much of a file's name its temporary file has."""

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)

_FOLDER = "robin-tmp-"
"""What the names of :func:`temporary_folder` begin with: short, for sockets are made in them."""

MOST_TEXT_BYTES = 2**20
"""The longest rubric, template or settings file."""

WAIT_S = 10.0
"""How long a pipe may take to bring its text and end."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open the regular file at ``path``; a descriptor. With O_CREAT in ``flags``, for its owner only.

    Raises:
        OSError: as os.open; or it is a link, or no regular file: ``strerror`` says so.
    """
    link = OSError(errno.ELOOP, "it is a link, and none is followed here", str(path))
    not_regular = OSError(errno.EINVAL, "it is no regular file", str(path))
    if not _NOFOLLOW and path.is_symlink():
        raise link
    try:
        descriptor = os.open(path, flags | FLAGS | _NOFOLLOW, 0o600)
    except OSError as error:
        if error.errno == errno.ENXIO:  # a pipe that nobody reads
            raise not_regular from None
        if error.errno in {errno.ELOOP, errno.EMLINK}:
            raise link from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise not_regular
    return descriptor


def reading(path: Path) -> IO[bytes]:
    """Open the regular file at ``path`` to be read. OSError as :func:`open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_at_most(path: Path, limit: int) -> bytes:
    """Read the regular file at ``path``. OSError as :func:`open_regular`, and where it has more than ``limit`` bytes."""
    with reading(path) as file:
        if os.fstat(file.fileno()).st_size > limit:  # before memory is set aside; a file may hold holes
            raise OSError(errno.EFBIG, f"it is longer than {size(limit)}", str(path))
        return file.read(limit)


def sha256_of(path: Path, most: int) -> str:
    """Hash the regular file at ``path``, or where a link there leads; "" for one of more than ``most`` bytes, and for no file.

    Raises:
        OSError: it cannot be read, or not without waiting, as some under /proc.
    """
    digest, left, file = hashlib.sha256(), most, os.open(path, os.O_RDONLY | FLAGS)
    try:
        info = os.fstat(file)
        if not stat.S_ISREG(info.st_mode) or info.st_size > most:  # a file may hold holes
            return ""
        while chunk := os.read(file, 2**20):
            digest.update(chunk)
            left -= len(chunk)
            if left < 0:
                return ""
    finally:
        os.close(file)
    return digest.hexdigest()


def read_small_file(path: Path, called: str) -> str:
    """Read a text, UTF-8 with or without a byte order mark, from a regular file or from a pipe.

    A pipe, as ``<(…)`` and /dev/stdin are, must end within WAIT_S seconds; one that nobody writes to does not block. ``called``
    begins the errors: the flag and the name.

    Raises:
        InputError: it is longer than MOST_TEXT_BYTES, neither a file nor a pipe, not UTF-8, or a pipe that does not end.
        OSError: it cannot be opened or read; the caller knows what else the name could have been.
    """
    data, end = bytearray(), time.monotonic() + WAIT_S
    file = os.open(path, os.O_RDONLY | FLAGS)
    try:
        mode = os.fstat(file).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            what = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
            raise InputError(f"{called}: {what}, not a file; name a text file, or a pipe that ends")
        while True:
            if stat.S_ISFIFO(mode) and not select.select([file], [], [], max(0.0, end - time.monotonic()))[0]:
                raise InputError(
                    f"{called}: a pipe that has not ended after {WAIT_S:g} s; let its writer finish, or save the text to a file"
                )
            if not (chunk := os.read(file, 2**16)):
                break
            data += chunk
            if len(data) > MOST_TEXT_BYTES:
                limit = size(MOST_TEXT_BYTES)
                raise InputError(
                    f"{called}: longer than {limit}, too long for such a file; check that it is the right one"
                )
    finally:
        os.close(file)
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")  # as text files are read
    except UnicodeDecodeError:
        raise InputError(f"{called}: is not UTF-8; save it as UTF-8") from None


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
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105  # the tests of crashes put a step around it
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def check_whole_file(path: Path) -> None:
    """Raise what :func:`whole_file` would, as far as can be known without writing; OSError."""
    temporary, descriptor = _temporary(path, 0o600)
    os.close(descriptor)
    temporary.unlink()


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


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """Make a folder for this user only in ``parent``, or where temporary files go; it and all in it go afterwards.

    A lock on it says that its process lives: :func:`sweep_temporary` removes one that a killed process left.
    """
    sweep_temporary()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_FOLDER, dir=parent))
        with suppress(FileNotFoundError):
            lock = _locked(folder, wait=True)
            if folder.exists():
                break
            _unlock(lock)  # it was swept before it was locked
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _unlock(lock)


def sweep_temporary() -> None:
    """Remove folders of :func:`temporary_folder` that a killed process of this user left."""
    for parent in {os.environ.get("TMPDIR") or "/tmp", "/tmp"}:  # noqa: S108  # gettempdir() writes there to see whether it can
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(_FOLDER):
                    _sweep(entry)


def _sweep(entry: os.DirEntry[str]) -> None:
    with suppress(OSError):
        if not (entry.is_dir(follow_symlinks=False) and _is_owner(entry.stat(follow_symlinks=False))):
            return
        lock = _locked(Path(entry.path), wait=False)
        if lock is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            _unlock(lock)


def _locked(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until its descriptor is closed, or the process ends; None where another has it, or there are no locks."""
    if sys.platform == "win32":
        return None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | FLAGS | _NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)


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
    temporary = path.with_name(f".{path.name[:NAME_KEPT]}.{secrets.token_hex(8)}.tmp")
    return temporary, os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS | _NOFOLLOW, mode)


def sync_folder(folder: Path) -> None:
    """Wait until the names in ``folder`` are on disk."""
    if os.name == "nt":  # Windows has no handle on a folder to sync
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def shipped(name: str) -> Path:
    """The folder ``name`` ("prompts" or "configs"), in the wheel or in a checkout, whose own takes effect at once."""
    package = Path(__file__).parent.parent
    checkout = package.parent / name
    is_checkout = (package.parent / "pyproject.toml").is_file() and checkout.is_dir()
    return checkout if is_checkout else package / "_shipped" / name
