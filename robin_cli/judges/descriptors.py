"""The number of connections that this process may hold open."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_RESERVED = 24
"""Descriptors kept free for a run's own files, and for looking up names."""


def most_connections(wanted: int, notify: Callable[[str], None]) -> int:
    """Return how many of the ``wanted`` connections can be open at a time, at least 1; notify if these are fewer.

    Raises the process's own limit as far as needed and allowed.
    """
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = 3 + _RESERVED
    with suppress(OSError):
        taken = sum(1 for _ in Path("/dev/fd").iterdir()) + _RESERVED
    needed = taken + wanted
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return wanted
    raised = needed if hard == resource.RLIM_INFINITY else min(hard, needed)
    with suppress(OSError, ValueError):  # a system may allow less than it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        soft = raised
    can = max(1, min(wanted, soft - taken))
    if can < wanted:
        notify(
            f"at most {can:,} calls at a time, not {wanted:,}: this process may open {soft:,} files and connections; "
            "ulimit -n raises that"
        )
    return can
