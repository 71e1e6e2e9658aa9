"""Every judgment of a run as a table, read a part at a time."""

from __future__ import annotations

from pathlib import Path

from robin_cli.results.columns import JUDGMENTS
from robin_cli.results.tables import Table, read_by
from robin_cli.storage.reader import distinct_judgments
from robin_cli.storage.schema import JUDGMENTS as SCHEMA


def judgment_table(path: Path) -> Table:
    """The judgments of the run at ``path``, a segment at a time; files alone have them.

    Raises:
        RunError: no run there, or made by a newer robin. StorageError comes with the rows, where its files are damaged.
    """
    rows = read_by(SCHEMA, distinct_judgments(path))
    return JUDGMENTS.having(lambda: rows)
