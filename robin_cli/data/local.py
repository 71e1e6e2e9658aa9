"""Files that appear whole or not at all, and small texts."""

from __future__ import annotations

import os
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from robin_cli.model.errors import InputError

_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_BINARY"))

NAME_KEPT = 40
"""The number of characters of a file's name in that of its temporary file."""

TEMPORARY = ".*.tmp"
"""The pattern of the names of temporary files."""


def read_small_file(path: Path, called: str) -> str:
    """Read a text, UTF-8 with or without a byte order mark, from a file or a pipe such as ``<(…)`` or /dev/stdin.

    Raises:
        InputError: it is not UTF-8; ``called``, the flag and the name, begins the error.
        OSError: it cannot be opened or read; the caller adds the next step.
    """
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{called}: is not UTF-8; save it as UTF-8") from None


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


def _temporary(path: Path, mode: int) -> tuple[Path, int]:
    """Make a file beside ``path``; return its path and descriptor."""
    # Tools that read all files of a folder, such as pandas, skip names with a leading dot.
    temporary = path.with_name(f".{path.name[:NAME_KEPT]}.{secrets.token_hex(8)}.tmp")
    return temporary, os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, mode)


@contextmanager
def temporary_folder(parent: str | None = None) -> Iterator[Path]:
    """Make a private folder in ``parent``, or where temporary files go; it is removed with its content afterwards."""
    with tempfile.TemporaryDirectory(
        prefix="robin-", dir=parent, ignore_cleanup_errors=True
    ) as name:
        yield Path(name)


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
