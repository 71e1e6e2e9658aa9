"""The lock of a run, on its folder and on a file in it: one robin at a time writes to a run.

The folder's lock cannot be deleted under a run. The file is for systems that do not lock folders (Windows, and NFS, which
refuses an exclusive lock on a descriptor opened for reading).
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from filelock import FileLock, Timeout

from robin_cli.model.errors import RunError
from robin_cli.run.layout import LOCK

if sys.platform != "win32":
    import fcntl

_WAIT_S = (
    0.5  # robin runs and robin status hold the lock for a moment, to find out whether it is free
)
_STEP_S = 0.02


class RunLock:
    """The exclusive right to write to a run, until it is released or the process ends."""

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
        """Release the lock."""
        self._file.release()
        self._release_folder()

    def _acquire_file(self, run: Path) -> None:
        try:
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
    """Return whether a process is at work on ``run`` now, as far as locks tell. Write nothing."""
    if sys.platform == "win32":
        return (run / LOCK).exists() and _is_file_locked(run / LOCK)
    return _is_held(run) or _is_held(run / LOCK)


def _locked_folder(run: Path) -> int | None:
    """Return a descriptor of ``run`` that holds its lock; None on systems that lock no folders. RunError if it is taken."""
    if sys.platform == "win32":
        return None
    try:
        descriptor = os.open(run, os.O_RDONLY)
    except OSError as error:
        raise RunError(
            f"{run}: cannot be opened ({error.strerror}); a run needs a folder that can be read"
        ) from error
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
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # it does not exist, or cannot be opened
        return False
    try:
        # A shared lock: two readers do not see each other, and it works in a read-only folder.
        return _locks(descriptor, shared=True) is False
    finally:
        os.close(descriptor)


def _locks(descriptor: int, *, shared: bool = False) -> bool | None:
    """Try to lock a descriptor; return whether it worked, or None if the system cannot lock it."""
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
