"""Safe opening of local files: links that the user did not name are not followed, and no file is half written.

A folder by somebody else, or that others may write to, can hold a link, a pipe or a device instead of any file.
"""

from __future__ import annotations

import errno
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
# O_NONBLOCK: opening a pipe must not wait for its other end; regular files ignore it.
FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY", "O_BINARY"))

NAME_KEPT = 40
"""The number of characters of a file's name in that of its temporary file."""

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{16}\.tmp", re.DOTALL)

_FOLDER = "robin-tmp-"
"""The beginning of the names of :func:`temporary_folder`; it is short, because sockets are made in them."""

MOST_TEXT_BYTES = 2**20
"""The longest rubric, template or settings file."""

WAIT_S = 10.0
"""How long a pipe may take to deliver its text and end."""


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open the regular file at ``path``; return a descriptor. O_CREAT in ``flags`` makes it for its owner only.

    Raises:
        OSError: as os.open; or, by its ``strerror``, the path is a link, or not a regular file.
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
    """Open the regular file at ``path`` for reading. OSError as :func:`open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_at_most(path: Path, limit: int) -> bytes:
    """Read the regular file at ``path``. OSError as :func:`open_regular`, and if it has more than ``limit`` bytes."""
    with reading(path) as file:
        if (
            os.fstat(file.fileno()).st_size > limit
        ):  # before memory is allocated; a sparse file may be huge
            raise OSError(errno.EFBIG, f"it is longer than {size(limit)}", str(path))
        return file.read(limit)


def read_small_file(path: Path, called: str) -> str:
    """Read a text, UTF-8 with or without a byte order mark, from a regular file or a pipe.

    A pipe, such as ``<(…)`` or /dev/stdin, must end within WAIT_S seconds. ``called``, the flag and the name, begins errors.

    Raises:
        InputError: it is longer than MOST_TEXT_BYTES, neither a file nor a pipe, not UTF-8, or a pipe that does not end.
        OSError: it cannot be opened or read; the caller adds the next step.
    """
    data, end = bytearray(), time.monotonic() + WAIT_S
    file = os.open(path, os.O_RDONLY | FLAGS)
    try:
        mode = os.fstat(file).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode)):
            what = "a folder" if stat.S_ISDIR(mode) else "a device or a socket"
            raise InputError(f"{called}: {what}, not a file; name a text file, or a pipe that ends")
        while True:
            if (
                stat.S_ISFIFO(mode)
                and not select.select([file], [], [], max(0.0, end - time.monotonic()))[0]
            ):
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
        return (
            data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
        )  # as text files are read
    except UnicodeDecodeError:
        raise InputError(f"{called}: is not UTF-8; save it as UTF-8") from None


def is_ours(info: os.stat_result) -> bool:
    """Return whether a file belongs to this user, has one name, and only its owner can write to it."""
    return info.st_nlink == 1 and not info.st_mode & 0o022 and _is_owner(info)


@contextmanager
def whole_file(path: Path, *, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a file that appears at ``path`` whole or not at all, and replaces what is there; a link there is not followed.

    Args:
        mode: its permissions before the umask; by default for its owner only, because prompts may be confidential.
    """
    temporary, descriptor = _temporary(path, mode)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)  # noqa: PTH105  # the crash tests wrap it
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def check_whole_file(path: Path) -> None:
    """Raise the OSError that :func:`whole_file` would, as far as it is known without writing."""
    temporary, descriptor = _temporary(path, 0o600)
    os.close(descriptor)
    temporary.unlink()


def is_temporary(name: str) -> bool:
    """Return whether ``name`` is that of a temporary file of :func:`whole_file`."""
    return _TEMPORARY.fullmatch(name) is not None


def remove_leftovers(folder: Path, *, of: Callable[[str], bool], older_than_s: float = 0.0) -> None:
    """Remove this user's temporary files of :func:`whole_file` that killed processes left in ``folder``.

    Args:
        of: returns whether to remove one, by the first NAME_KEPT characters of its final name.
        older_than_s: the least time since its last write.
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
    """Make a private folder in ``parent``, or where temporary files go; it is removed with its content afterwards.

    A lock on it shows that its process is alive: :func:`sweep_temporary` removes folders of killed processes.
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
    """Remove this user's folders of :func:`temporary_folder` that killed processes left."""
    for parent in {os.environ.get("TMPDIR") or "/tmp", "/tmp"}:  # noqa: S108  # gettempdir() would write a test file
        with suppress(OSError), os.scandir(parent) as entries:
            for entry in entries:
                if entry.name.startswith(_FOLDER):
                    _sweep(entry)


def _sweep(entry: os.DirEntry[str]) -> None:
    with suppress(OSError):
        if not (
            entry.is_dir(follow_symlinks=False) and _is_owner(entry.stat(follow_symlinks=False))
        ):
            return
        lock = _locked(Path(entry.path), wait=False)
        if lock is not None:
            shutil.rmtree(entry.path, ignore_errors=True)
            _unlock(lock)


def _locked(folder: Path, *, wait: bool) -> int | None:
    """Lock a folder until its descriptor, which is returned, is closed; None if another process has it, or without locks."""
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
    """Return whether anyone but this user and root may replace files in ``folder``."""
    info = folder.stat()
    shared = bool(info.st_mode & 0o022) and not info.st_mode & stat.S_ISVTX
    return os.name != "nt" and (shared or not (_is_owner(info) or info.st_uid == 0))


def _is_owner(info: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or info.st_uid == os.geteuid()


def _temporary(path: Path, mode: int) -> tuple[Path, int]:
    """Make a file beside ``path`` with a random name; return its path and descriptor."""
    # Tools that read all files of a folder, such as pandas, skip names with a leading dot.
    temporary = path.with_name(f".{path.name[:NAME_KEPT]}.{secrets.token_hex(8)}.tmp")
    return temporary, os.open(
        temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | FLAGS | _NOFOLLOW, mode
    )


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
    """Return the folder ``name`` ("prompts" or "configs") of the wheel, or of the checkout if this is one."""
    package = Path(__file__).parent.parent
    checkout = package.parent / name
    is_checkout = (package.parent / "pyproject.toml").is_file() and checkout.is_dir()
    return checkout if is_checkout else package / "_shipped" / name
