"""One robin at a time on a run: its folder is locked, and a file in it.

The lock on the folder itself cannot be deleted under a run. The file is for systems that do not lock folders (Windows, and NFS,
which takes a lock for writing on nothing that was opened for reading only), and for robin 0.1.0, which knows only it.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from robin_cli.files.local import open_regular
from robin_cli.model.errors import RunError
from robin_cli.storage.layout import LOCK

if sys.platform != "win32":
    import fcntl

_WAIT_S = 0.5  # robin runs and robin status hold a lock for a moment, to see whether anyone does
_STEP_S = 0.02


class RunLock:
    """The right to write to a run, until it is released or the process ends."""

    def __init__(self, run: Path) -> None:
        """Take the lock of ``run``, a folder.

        Raises:
            RunError: another robin has it, or the folder cannot be locked.
        """
        self._folder = _locked_folder(run)
        self._file = FileLock(run / LOCK, timeout=_WAIT_S, mode=0o600)
        try:
            self._acquire_file(run)
        except BaseException:
            self._release_folder()
            raise

    def release(self) -> None:
        """Let others in."""
        self._file.release()
        self._release_folder()

    def _acquire_file(self, run: Path) -> None:
        try:
            with suppress(FileNotFoundError):
                info = (run / LOCK).lstat()
                if not stat.S_ISREG(info.st_mode) or info.st_nlink > 1:
                    raise RunError(f"{run / LOCK}: no file of this run's own, but a link or the like; delete it")
            self._file.acquire()
        except Timeout:
            raise _at_work(run) from None
        except OSError as error:
            raise RunError(
                f"{run}: cannot be locked ({error.strerror}); a run needs a folder that can be written to"
            ) from error

    def _release_folder(self) -> None:
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def is_locked(run: Path) -> bool:
    """Whether a process is at work on ``run`` now, as far as can be told; writes nothing."""
    if sys.platform == "win32":
        return (run / LOCK).exists() and _is_file_locked(run / LOCK)
    return _is_held(run) or _is_held(run / LOCK)


@contextmanager
def left_alone(run: Path) -> Iterator[None]:
    """Let nobody begin to work on ``run`` as long as the context lasts, as far as its folder can be locked; writes nothing.

    Raises:
        RunError: a process is at work on it.
    """
    if is_locked(run):
        raise _at_work(run)
    descriptor = None
    if sys.platform != "win32":
        with suppress(OSError):
            descriptor = os.open(run, os.O_RDONLY)
    try:
        if descriptor is not None and _locks(descriptor, shared=True) is False:
            raise _at_work(run)
        yield
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _locked_folder(run: Path) -> int | None:
    """A descriptor of ``run`` that holds its lock; None on systems that lock no folders. RunError if another holds it."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(run, os.O_RDONLY)
    except OSError as error:
        raise RunError(f"{run}: cannot be opened ({error.strerror}); a run needs a folder that can be read") from error
    deadline = time.monotonic() + _WAIT_S
    while (is_ours := _locks(descriptor)) is False and time.monotonic() <= deadline:
        time.sleep(_STEP_S)
    if is_ours:
        return descriptor
    os.close(descriptor)
    if is_ours is None:
        return None
    raise _at_work(run)


def _is_held(path: Path) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY) if path.is_dir() else open_regular(path)
    except OSError:  # none there, or none that could be looked at
        return False
    try:
        # Shared, so that those who look do not see each other, and also works in a folder that can only be read.
        return _locks(descriptor, shared=True) is False
    finally:
        os.close(descriptor)


def _locks(descriptor: int, *, shared: bool = False) -> bool | None:
    """Lock what is open, if nobody else holds it: whether that could be done; None where the system locks no such thing."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _is_file_locked(path: Path) -> bool:
    lock = FileLock(path, timeout=0)
    try:
        lock.acquire()
    except (Timeout, OSError):
        return True
    lock.release()
    return False


def _at_work(run: Path) -> RunError:
    return RunError(f"{run}: another robin is at work on this run; wait for it, or stop it first")
