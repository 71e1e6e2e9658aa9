"""Answers that the run's own disk would not take: kept wherever there is room, and taken back when the run goes on."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from robin_cli.errors import StorageError
from robin_cli.runs.journal import read_row

FILE = "rescued.jsonl"


def rescue(run: Path, records: Sequence[object]) -> Path | None:
    """Add ``records`` (dataclasses) to a file of their own: in ``run``, beside it, or in the folder for temporary files.

    Returns:
        The file, readable by its owner only; None if no place took them.
    """
    data = b"".join(orjson.dumps(record) + b"\n" for record in records)
    name = f"{run.name}-{FILE}"
    for path in (run / FILE, run.parent / name, Path(tempfile.gettempdir()) / name):
        if _added(path, data):
            return path
    return None


def rescued(run: Path) -> list[Mapping[str, Any]]:
    """The answers in the rescue file of ``run``; empty where there is none.

    Raises:
        StorageError: a line of it is no judgment.
    """
    path = run / FILE
    if not path.exists():
        return []
    rows: list[Mapping[str, Any]] = []
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        row = read_row(line)
        if row is None or "draw" not in row:
            raise StorageError(f"{path}:{number}: this line is no answer; move it out of the file to go on without it")
        rows.append(row)
    return rows


def _added(path: Path, data: bytes) -> bool:
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    except OSError:
        return False
    before = os.fstat(file).st_size
    try:
        whole = os.write(file, data) == len(data)
        os.fsync(file)
    except OSError:
        whole = False
    try:
        if not whole:
            os.ftruncate(file, before)
            if not before:
                path.unlink()
    except OSError:
        return False
    else:
        return whole
    finally:
        os.close(file)
