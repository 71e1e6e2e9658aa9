"""The runs made here: the hosts that each may send to, kept in the user's state folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

Sending = tuple[str, str]
"""A host, and the variable of the key that goes there, or ``-``."""


def is_made_here(run_id: str) -> bool:
    """Return whether robin worked on a run here, by the user's own settings."""
    return any(known == run_id for known, *_ in _kept())


def kept_sendings(run_id: str) -> frozenset[Sending]:
    """Return the hosts of a run made here, with the variables of their keys."""
    return frozenset((host, variable) for known, host, variable in _kept() if known == run_id)


def keep_sendings(run_id: str, sendings: Iterable[Sending]) -> None:
    """Keep the hosts of a run with the variables of their keys; nothing without a state folder."""
    known, file = kept_sendings(run_id), _state_file()
    new = [sending for sending in dict.fromkeys(sendings) if sending not in known]
    if file is None or not new:
        return
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "a") as out:
            out.write("".join(f"{run_id} {host} {variable}\n" for host, variable in new))


def _kept() -> list[list[str]]:
    """Return the lines of the state file: run id, host, variable."""
    file = _state_file()
    try:
        text = "" if file is None else file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return [words for words in map(str.split, text.splitlines()) if len(words) == 3]


def _state_file() -> Path | None:
    """Return the file of runs made here; None without a state folder. Never in the working folder."""
    base = os.environ.get("XDG_STATE_HOME", "")
    if not Path(base).is_absolute():
        base = os.path.expanduser("~/.local/state")  # noqa: PTH111  # Path's raises without a home
    return Path(base) / "robin" / "runs" if Path(base).is_absolute() else None
