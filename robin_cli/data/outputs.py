"""Outputs that a user named: regular files, which appear whole or not at all, devices and pipes; never over a run."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from robin_cli.data.local import check_whole_file, whole_file
from robin_cli.data.remote import scheme_of

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


@contextmanager
def output_file(name: str | Path, *, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """Open an output that a user named; it may not be seekable.

    Devices and pipes are written directly, and links are followed. A regular file appears whole or not at all, and keeps the
    owner and permissions of the one it replaces.

    Args:
        mode: the permissions of a new file before the umask.

    Raises:
        OSError: it cannot be written, for the reason in ``strerror``.
    """
    before = _stat(Path(name))
    if before is not None and not stat.S_ISREG(before.st_mode):
        with Path(name).open("wb") as stream:
            yield stream
        return
    with whole_file(_real(name), mode=mode if before is None else 0o600) as file:
        yield file
        if before is not None and os.name != "nt":
            with suppress(OSError):  # this user may not be allowed to
                os.fchown(file.fileno(), before.st_uid, before.st_gid)
            os.fchmod(file.fileno(), before.st_mode & 0o777)


def check_output_file(name: str | Path) -> None:
    """Raise the OSError that :func:`output_file` would, as far as it is known without writing."""
    if scheme_of(str(name)):
        raise OSError(errno.EINVAL, "it is an address, and robin writes to this machine", str(name))
    before = _stat(Path(name))
    if before is not None and not os.access(name, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
    if before is None or stat.S_ISREG(before.st_mode):
        check_whole_file(_real(name))


def _stat(path: Path) -> os.stat_result | None:
    """Return the status of a file, links followed; None if it does not exist. OSError for a folder."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", str(path))
    return found


def _real(name: str | Path) -> Path:
    """Return the real path of a regular file. OSError if it belongs to a run: paid answers would be lost."""
    path = Path(os.path.realpath(name))
    run = path.parent.parent if path.parent.name == "judgments" else path.parent
    may_belong = path.name in _OF_A_RUN or run != path.parent
    if may_belong and all((run / each).exists() for each in ("manifest.json", "pairs.parquet")):
        raise OSError(errno.EEXIST, "a run is kept in it", str(path))
    return path
