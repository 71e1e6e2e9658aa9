"""Answers that the journal would not take: kept in a file of the run, and taken back when the run goes on.

If the run's own disk takes no file, they go to the folder for temporary files. The error names the file, and where to move it.
What is found in the run is checked before it joins the others: each row says which run it is of, and may have been put there
by someone else. A row that does not fit is set aside in a file of the run, never thrown away.
"""

from __future__ import annotations

import errno
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from robin_cli.datasets.lines import at_most
from robin_cli.files.local import is_ours, open_regular, reading
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
"""Answers that join a run, and lines that cannot, each with its place and the reason."""

_KNOWN_BY = ("pair_id", "attribute", "judge", "draw", "request_id", "received_at")
"""The columns of judgments by which answers are known again."""

_MOST_BYTES = 2**30


def rescue(run: Path, run_id: str, judgments: Sequence[Judgment]) -> Path | None:
    """Add ``judgments`` to a file of their own: in ``run``, or in the folder for temporary files.

    Returns:
        The file, readable by its owner only; None if no place took them.
    """
    rows = ({"run_id": run_id, **{name: getattr(each, name) for name in FIELDS}} for each in judgments)
    data = b"".join(orjson.dumps(row) + b"\n" for row in rows)
    return next((path for path in _places(run, run_id) if _added(path, data)), None)


def _places(run: Path, run_id: str) -> tuple[Path, Path]:
    return run / RESCUED, Path(tempfile.gettempdir()) / f"robin-{run_id}-{RESCUED}"


def find_rescued(run: Path) -> list[tuple[str, bytes]]:
    """Return the lines of the rescued answers of ``run``, each with the file and the line number it is from.

    Raises:
        StorageError: the file is none that can be read.
    """
    path = run / RESCUED
    try:
        with reading(path) as file:
            if os.fstat(file.fileno()).st_size > at_most(_MOST_BYTES):
                raise OSError(errno.EFBIG, "it is longer than rescued answers are")
            return [(f"{path}:{number}", line.rstrip(b"\n")) for number, line in enumerate(file, start=1)]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); move it out of the run") from error


def rescued(run: Path) -> Rescued:
    """Return the rescued answers of ``run`` that join it, and the lines that cannot. StorageError for what cannot be read."""
    lines = find_rescued(run)
    return checked(lines, read_run(run, _KNOWN_BY)) if lines else ([], [])


def checked(lines: Iterable[tuple[str, bytes]], run: RunData) -> Rescued:
    """Divide ``lines`` into answers that join ``run`` and those that cannot, each of these with the reason.

    One that the run has already is in neither.
    """
    known = _known(run)
    check = _Check(run)
    by_money = run.manifest.budget_usd is not None  # what was paid for is here, whatever it was
    left = sys.maxsize if by_money else run.manifest.budget - run.fold.arms.spent
    fit: list[Mapping[str, Any]] = []
    rejected = []
    for place, line in lines:
        row = read_row(line)
        why = "no JSON object" if row is None else check.why_not(row)
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
    """Keep lines that cannot join ``run``, each once, with why and where they were. StorageError if the disk refuses."""
    path = run / REJECTED
    before = _set_aside_lines(run)
    rows = [{"line": line.decode("utf-8", "backslashreplace"), "why": why} for _, line, why in rejected]
    new = [row for row in rows if row["line"] not in before]
    if new and not _added(path, b"".join(orjson.dumps(row) + b"\n" for row in new)):
        raise StorageError(f"{path}: could not be written; make room, or move that file out of the run")


def _set_aside_lines(run: Path) -> set[str]:
    """The lines that were set aside in ``run``. StorageError if they cannot be read."""
    try:
        with reading(run / REJECTED) as file:
            return {str(row.get("line")) for row in map(read_row, file) if row is not None}
    except FileNotFoundError:
        return set()
    except OSError as error:
        raise StorageError(f"{run / REJECTED}: cannot be read ({error.strerror}); move it out of the run") from error


def tally(run: Path, manifest: Manifest) -> dict[str, int]:
    """Count the rescued answers of ``run``: taken back by now, set aside, waiting. StorageError if a file is none to read."""
    waiting = len(find_rescued(run))
    return {"taken_back": manifest.rescued, "set_aside": len(_set_aside_lines(run)), "waiting": waiting}


def _added(path: Path, data: bytes) -> bool:
    """Add ``data`` to a file of this user's own, all or none; False where that cannot be done."""
    try:
        file = open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
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
    """The run's answers by their keys: the request that each came of, and when."""
    rows = run.judgments
    received = rows["received_at"].cast("int64").to_pylist()
    table = rows.select([name for name in _KNOWN_BY if name != "received_at"]).to_pylist()
    return {key_of(row, run.manifest.judges): (row["request_id"], at) for row, at in zip(table, received, strict=True)}


def _answer_of(row: Mapping[str, Any]) -> tuple[Any, int]:
    return row.get("request_id"), round(row["received_at"] * 1e6)


class _Check:
    """Says of a rescued row why it is no judgment of ``run``: what its segments may not hold, this may not."""

    def __init__(self, run: RunData) -> None:
        self._run, self._lookup = run, ArmLookup(run.space)

    def why_not(self, row: Mapping[str, Any]) -> str | None:
        """The reason, None for a row that fits."""
        run_id = self._run.manifest.run_id
        if row.get("run_id", run_id) != run_id:  # files of 0.1.0 say nothing of it
            return "an answer of another run"
        if row.get("judge") not in {None, *self._run.space.judges}:  # which readers do not look at, where there is one
            return "its judge is none of this run's"
        try:
            table = judgments_table([row])
            check_rows(table)
            self._run.fold.check_ratings(self._lookup.arms_of(table), table)
        except NO_JUDGMENT as error:
            return f"no judgment of this run ({str(error)[:200]})"
        return None
