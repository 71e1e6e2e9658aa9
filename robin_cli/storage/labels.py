"""People's labels that a run keeps in its labels.csv: a line each, of which the last one of a labeller and pair counts."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from robin_cli.model.errors import StorageError
from robin_cli.storage.layout import LABELS

LABEL_COLUMNS = ("pair_id", "attribute", "rating", "labeller", "labelled_at", "probability", "comment")
"""A rating that is empty takes the labeller's own back."""
_BEST = ("group", "best")


def kept_labels(run: Path) -> Path | None:
    """Return the file of the labels that ``run`` keeps; None where it has none."""
    path = run / LABELS
    return path if path.is_file() and not path.is_symlink() else None  # a received run may have a link to anywhere


def add_labels(run: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Add labels to those that ``run`` keeps; they are on disk when this returns.

    Args:
        rows: by LABEL_COLUMNS; or ``group`` and ``best``, where the file begins with these.

    Raises:
        StorageError: the disk refuses.
    """
    path, text = run / LABELS, StringIO()
    if path.is_symlink():
        raise StorageError(f"{path}: is a link, through which nothing is written; put a file there")
    rows = list(rows)
    names = (*LABEL_COLUMNS, *(_BEST if any("best" in row for row in rows) else ()))
    writer = csv.DictWriter(text, names, restval="", lineterminator="\n")
    try:
        with path.open("a", encoding="utf-8", newline="") as file:
            if file.tell() == 0:
                writer.writeheader()
            writer.writerows(rows)
            file.write(text.getvalue())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise StorageError(
            f"{path}: the labels could not be kept ({error.strerror}); make room, and label again"
        ) from error
