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

_WAIT_S = 0.5
"""robin runs and robin status hold the lock for a moment, to find out whether it is free."""
_STEP_S = 0.02


class RunLock:
    """The exclusive right to write to a run, until it is released or the process ends."""

    def __init__(self, run: Path) -> None:
        """Take the lock of ``run``, a folder.

        Raises:
            RunError: another robin has it, or the folder cannot be locked.
        """
        self._folder: int | None = None
        self._file = FileLock(run / LOCK, timeout=_WAIT_S, mode=0o600)
        try:
            if sys.platform != "win32":
                self._folder = os.open(run, os.O_RDONLY)
                _lock_folder(self._folder)
            self._file.acquire()
        except (BlockingIOError, Timeout):
            self.release()
            raise RunError(
                f"{run}: another robin is at work on this run; wait for it, or stop it first"
            ) from None
        except OSError as error:
            self.release()
            raise RunError(
                f"{run}: cannot be locked ({error.strerror}); a run needs a folder that can be written to"
            ) from error

    def release(self) -> None:
        """Release the lock."""
        self._file.release()
        if self._folder is not None:
            os.close(self._folder)
            self._folder = None


def _lock_folder(descriptor: int) -> None:
    """Lock a folder, if the system locks folders at all. BlockingIOError if another process has it."""
    deadline = time.monotonic() + _WAIT_S
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise
            time.sleep(_STEP_S)
        except OSError:  # the lock of the file decides
            return
        else:
            return


def is_locked(run: Path) -> bool:
    """Return whether a process is at work on ``run`` now, as far as locks tell. Write nothing."""
    if sys.platform == "win32":
        if not (run / LOCK).exists():
            return False
        try:
            with FileLock(run / LOCK, timeout=0):
                return False
        except (Timeout, OSError):
            return True
    return _is_held(run) or _is_held(run / LOCK)


def _is_held(path: Path) -> bool:
    """Return whether a shared lock is refused: readers do not see each other, and a read-only folder has one."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # it does not exist, or cannot be opened
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a system without such locks
        return False
    finally:
        os.close(descriptor)
    return False
