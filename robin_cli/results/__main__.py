"""``python -m robin_cli.results`` prints docs/columns.md."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from robin_cli.results.columns import JUDGE_SCORES, TABLES

_HEAD = """# Columns

Each table that robin writes, with its columns in their order, for CSV, TSV, JSON lines, Parquet, Excel and Python. Names stay;
columns may be added. An empty cell, NaN in Python, is a value that there is not. Scores and decisions have behind these the
columns [that the data had besides](data-and-rubrics.md#further-columns), then with `--with-text` the texts.
`python -m robin_cli.results` prints this page.
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
        yield from (f"| `{name}` | {table.columns[name].help} |" for name in table.public)
        yield ""


if __name__ == "__main__":
    sys.stdout.write("\n".join(page()).rstrip() + "\n")
