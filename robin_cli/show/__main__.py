"""Prints docs/columns.md: ``python -m robin_cli.show``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

from robin_cli.show.columns import JUDGE_SCORES, TABLES

_HEAD = """<!-- Generated: python -m robin_cli.show > docs/columns.md -->

# Columns

Every table, with its columns in order. Names stay; columns may be added. An empty cell (NaN in Python) is no value. Scores and
decisions end with [the data's columns](data.md#other-columns) and, with `--with-text`, the texts.
"""


def page() -> Iterator[str]:
    """Yield the lines of docs/columns.md."""
    yield _HEAD
    for table in TABLES:
        title, _, command = table.says.partition(": ")
        yield f"## {title}\n"
        yield f"{command or f'`robin export --what {table.name}`'}. A row: {table.row}.\n"
        if table is JUDGE_SCORES:
            yield "Columns as of the scores.\n"
            continue
        yield "| column | what it is |\n|---|---|"
        public = [table.columns[name] for name in table.public]
        for says, alike in groupby(public, attrgetter("help")):
            yield f"| {', '.join(f'`{column.name}`' for column in alike)} | {says} |"
        yield ""


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()).rstrip() + "\n")
