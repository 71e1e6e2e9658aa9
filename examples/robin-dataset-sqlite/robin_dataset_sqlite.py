"""Pairs in an SQLite file: the rows of its table, or view, ``pairs``."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path


def rows(path: str) -> Iterator[dict[str, object]]:
    """Each row as a dict of its columns; the flags that robin has for other files, as --columns, are for these, too."""
    with closing(
        sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)
    ) as database:
        database.row_factory = sqlite3.Row
        for row in database.execute("SELECT * FROM pairs"):
            yield dict(row)
