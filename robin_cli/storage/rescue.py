"""Rescued answers: the journal could not take them, so they are kept in a file of the run until the run goes on.

If the run's disk is full, they go to the folder for temporary files; the error names the file, and where to move it. Rescued
answers are checked before they join the run: each names its run, and somebody else may have put it there. A row that does not
fit is set aside in a file of the run, never deleted.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from robin_cli.files.local import is_ours
from robin_cli.model.errors import StorageError
from robin_cli.model.records import Judgment
from robin_cli.storage.journal import read_row
from robin_cli.storage.layout import REJECTED, RESCUED
from robin_cli.storage.lookup import ArmLookup
from robin_cli.storage.manifest import Manifest
from robin_cli.storage.reader import RunData, read_run
from robin_cli.storage.schema import FIELDS, JudgmentKey, judgments_table, key_of
from robin_cli.storage.segments import NO_JUDGMENT, check_rows

Rescued = tuple[list[Mapping[str, Any]], list[tuple[str, bytes, str]]]
"""Answers that join a run, and lines that cannot, each as its place, the line and the reason."""

_KNOWN_BY = ("pair_id", "attribute", "judge", "draw", "request_id", "received_at")
"""The columns of judgments that identify an answer."""


def rescue(run: Path, run_id: str, judgments: Sequence[Judgment]) -> Path | None:
    """Append ``judgments`` to a file for rescued answers: in ``run``, or in the folder for temporary files.

    Returns:
        The file, readable by its owner only; None if neither could be written.
    """
    rows = (
        {"run_id": run_id, **{name: getattr(each, name) for name in FIELDS}} for each in judgments
    )
    data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    return next((path for path in _places(run, run_id) if _added(path, data)), None)


def _places(run: Path, run_id: str) -> tuple[Path, Path]:
    return run / RESCUED, Path(tempfile.gettempdir()) / f"robin-{run_id}-{RESCUED}"


def find_rescued(run: Path) -> list[tuple[str, bytes]]:
    """Return the lines of the rescued answers of ``run``, each with its file and line number.

    Raises:
        StorageError: the file cannot be read.
    """
    path = run / RESCUED
    try:
        with path.open("rb") as file:
            return [
                (f"{path}:{number}", line.rstrip(b"\n"))
                for number, line in enumerate(file, start=1)
            ]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read ({error.strerror}); move it out of the run"
        ) from error


def rescued(run: Path) -> Rescued:
    """Return the rescued answers of ``run`` that join it, and the lines that cannot. StorageError if they cannot be read."""
    lines = find_rescued(run)
    return checked(lines, read_run(run, _KNOWN_BY)) if lines else ([], [])


def checked(lines: Iterable[tuple[str, bytes]], run: RunData) -> Rescued:
    """Divide ``lines`` into answers that join ``run``, and lines that cannot. Answers that the run has already are dropped."""
    known = _known(run)
    check = _Check(run)
    by_money = (
        run.manifest.budget_usd is not None
    )  # answers were paid for: none is left out for the budget
    left = sys.maxsize if by_money else run.manifest.budget - run.fold.arms.spent
    fit: list[Mapping[str, Any]] = []
    rejected = []
    for place, line in lines:
        row = read_row(line)
        why = "not a JSON object" if row is None else check.why_not(row)
        if row is None or why:
            rejected.append((place, line, why or ""))
            continue
        key, answer = key_of(row, run.manifest.judges), _answer_of(row)
        counts = row["status"] != "failed"
        if key in known:
            if known[key] != answer:
                rejected.append((place, line, "the run has another answer in its place"))
        elif counts and left < 1:
            rejected.append((place, line, "the run's budget is spent"))
        else:
            left -= counts
            known[key] = answer
            fit.append({name: row.get(name) for name in FIELDS})
    return fit, rejected


def set_aside(run: Path, rejected: Iterable[tuple[str, bytes, str]]) -> None:
    """Keep lines that cannot join ``run``, each once and with the reason. StorageError if the disk refuses."""
    path = run / REJECTED
    before = _set_aside_lines(run)
    rows = [
        {"line": line.decode("utf-8", "backslashreplace"), "why": why} for _, line, why in rejected
    ]
    new = [row for row in rows if row["line"] not in before]
    if new and not _added(path, b"".join(orjson.dumps(row) + b"\n" for row in new)):
        raise StorageError(
            f"{path}: could not be written; make room, or move that file out of the run"
        )


def _set_aside_lines(run: Path) -> set[str]:
    """Return the lines that were set aside in ``run``. StorageError if they cannot be read."""
    try:
        with (run / REJECTED).open("rb") as file:
            return {str(row.get("line")) for row in map(read_row, file) if row is not None}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise StorageError(
            f"{run / REJECTED}: cannot be read ({error.strerror}); move it out of the run"
        ) from error


def tally(run: Path, manifest: Manifest) -> dict[str, int]:
    """Count the rescued answers of ``run``: taken back, set aside, waiting. StorageError if a file cannot be read."""
    waiting = len(find_rescued(run))
    return {
        "taken_back": manifest.rescued,
        "set_aside": len(_set_aside_lines(run)),
        "waiting": waiting,
    }


def _added(path: Path, data: bytes) -> bool:
    """Append ``data`` to a file of this user, all or nothing; return whether it worked."""
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError:
        return False
    try:
        before = os.fstat(file).st_size
        if not is_ours(os.fstat(file)):
            return False
        try:
            whole = os.write(file, data) == len(data)
            os.fsync(file)
        except OSError:
            whole = False
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


def _known(run: RunData) -> dict[JudgmentKey, tuple[Any, int]]:
    """Return the run's answers by key, each as its request and the time it came, in µs."""
    rows = run.judgments
    received = rows["received_at"].cast("int64").to_pylist()
    table = rows.select([name for name in _KNOWN_BY if name != "received_at"]).to_pylist()
    return {
        key_of(row, run.manifest.judges): (row["request_id"], at)
        for row, at in zip(table, received, strict=True)
    }


def _answer_of(row: Mapping[str, Any]) -> tuple[Any, int]:
    return row.get("request_id"), round(row["received_at"] * 1e6)


class _Check:
    """Checks rescued rows as strictly as the segments of ``run``."""

    def __init__(self, run: RunData) -> None:
        self._run, self._lookup = run, ArmLookup(run.space)

    def why_not(self, row: Mapping[str, Any]) -> str | None:
        """Return the reason why a row is not a judgment of the run; None if it is one."""
        run_id = self._run.manifest.run_id
        if row.get("run_id", run_id) != run_id:  # files of 0.1.0 do not name it
            return "an answer of another run"
        if row.get("judge") not in {
            None,
            *self._run.space.judges,
        }:  # readers of a run with one judge do not check it
            return "its judge is not one of this run's"
        try:
            table = judgments_table([row])
            check_rows(table)
            self._run.fold.check_ratings(self._lookup.arms_of(table), table)
        except NO_JUDGMENT as error:
            return f"not a judgment of this run ({str(error)[:200]})"
        return None
