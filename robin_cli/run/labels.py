"""People's labels in a run's labels.csv: a line per label; the last one of a labeller and pair counts."""

from __future__ import annotations

import csv
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import IO, Any

from robin_cli.data.formats import csv_rows
from robin_cli.model.errors import InputError, StorageError
from robin_cli.run.layout import LABELS

if sys.platform != "win32":
    import fcntl

LABEL_COLUMNS = (
    "pair_id",
    "attribute",
    "rating",
    "labeller",
    "labelled_at",
    "probability",
    "comment",
)
"""An empty rating removes the labeller's earlier one; ``best`` marks the best pair of a group."""
_NUMBERS = {"rating", "probability"}
_HEAD = ",".join(LABEL_COLUMNS) + "\n"


def kept_labels(run: Path) -> Path | None:
    """Return the file of labels in ``run``; None if it has none."""
    path = run / LABELS
    return path if path.is_file() else None


def add_labels(run: Path, rows: Iterable[Mapping[str, Any]] = ()) -> None:
    """Append labels, with LABEL_COLUMNS, to the file in ``run``; they are on disk when this returns.

    A last line that a crash cut short is removed: its label was never reported as kept.

    Raises:
        InputError: the file has other columns: another program wrote it.
        StorageError: the disk refuses; nothing was added.
    """
    path, text = run / LABELS, "".join(map(_line, rows))
    try:
        with path.open("a+b") as file, _alone(file):
            end = _sound_end(file, path)
            try:
                file.truncate(end)
                file.write(((_HEAD if end == 0 else "") + text).encode())
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                file.truncate(end)
                raise
    except OSError as error:
        raise StorageError(
            f"{path}: the labels could not be kept ({error.strerror}); make room, and label again"
        ) from error


def remove_label(run: Path, row: Mapping[str, Any]) -> None:
    """Remove the last line that says ``row``. StorageError if the disk refuses."""
    path, line = run / LABELS, _line(row).encode()
    try:
        with path.open("r+b") as file, _alone(file):
            head, found, rest = file.read().rpartition(b"\n" + line)
            if found:
                file.seek(len(head) + 1)
                file.write(rest)
                file.truncate()
                os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(
            f"{path}: the label could not be taken back ({error.strerror}); try again"
        ) from error


def _line(row: Mapping[str, Any]) -> str:
    """Return a line of the file; texts that a spreadsheet may run are behind an apostrophe."""
    text = StringIO()
    writer = csv.DictWriter(
        text, LABEL_COLUMNS, restval="", extrasaction="ignore", lineterminator="\n"
    )
    texts = {name: str(value) for name, value in row.items() if name not in _NUMBERS}
    guarded = {name: f"'{each}" for name, each in texts.items() if re.match(csv_rows.GUARDED, each)}
    writer.writerow({**row, **guarded})
    return text.getvalue()


def _sound_end(file: IO[bytes], path: Path) -> int:
    """Return the offset after the last whole line. InputError for other columns than robin's."""
    file.seek(0)
    content = file.read()
    if not content or not content.strip():
        return 0
    if not content.startswith(_HEAD.encode()):
        raise InputError(
            f"{path}: has other columns than robin's ({', '.join(LABEL_COLUMNS)}), so no label can be added; move it away, and "
            "give it with --labels FILE"
        )
    whole = content.rfind(b"\n") + 1
    rest = content[whole:].decode(errors="replace")
    if rest and len(next(csv.reader([rest]))) == len(
        LABEL_COLUMNS
    ):  # an editor removed the last line end
        file.write(b"\n")
        file.flush()
        return len(content) + 1
    return whole


@contextmanager
def _alone(file: IO[bytes]) -> Iterator[None]:
    """Lock the file: several pages may write at a time."""
    if sys.platform != "win32":
        fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
    yield
