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
_HEAD = ",".join(LABEL_COLUMNS).encode() + b"\n"


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
    with _locked(run, "the labels could not be kept", "make room, and label again") as file:
        content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        end, before = len(whole), b""
        if not content.strip():
            end, before = 0, _HEAD
        elif not content.startswith(_HEAD):
            raise InputError(
                f"{run / LABELS}: has other columns than robin's ({', '.join(LABEL_COLUMNS)}), so no label can be added; move "
                "it away, and give it with --labels FILE"
            )
        elif content[end:].count(b",") >= len(LABEL_COLUMNS) - 1:  # an editor took its line end
            end, before = len(content), b"\n"
        try:
            file.truncate(end)
            file.write(before + b"".join(map(_line, rows)))
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            file.truncate(end)
            raise


def remove_label(run: Path, row: Mapping[str, Any]) -> None:
    """Remove the last line that says ``row``. StorageError if the disk refuses."""
    with _locked(run, "the label could not be taken back", "try again") as file:
        head, newline, rest = file.read().rpartition(b"\n" + _line(row))
        if newline:
            file.truncate(len(head) + 1)
            file.write(rest)
            file.flush()
            os.fsync(file.fileno())


def _line(row: Mapping[str, Any]) -> bytes:
    """Return a line of the file; texts that a spreadsheet may run are behind an apostrophe."""
    line = StringIO()
    writer = csv.DictWriter(
        line, LABEL_COLUMNS, restval="", extrasaction="ignore", lineterminator="\n"
    )
    texts = {name: str(value) for name, value in row.items() if name not in _NUMBERS}
    guarded = {name: f"'{text}" for name, text in texts.items() if re.match(csv_rows.GUARDED, text)}
    writer.writerow({**row, **guarded})
    return line.getvalue().encode()


@contextmanager
def _locked(run: Path, failure: str, step: str) -> Iterator[IO[bytes]]:
    """Open the file of labels for this process alone: several pages may write at a time."""
    path = run / LABELS
    try:
        with path.open("a+b") as file:
            if sys.platform != "win32":
                fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            file.seek(0)
            yield file
    except OSError as error:
        raise StorageError(f"{path}: {failure} ({error.strerror}); {step}") from error
