"""The scores and the state of a run, for people at a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.output.scores import COLUMNS, Scores
from robin_cli.output.text import plain

_ROWS = 60
_TEXT_COLUMNS = frozenset({"pair_id", "attribute"})
_DASH = "–"


def print_scores(console: Console, scores: Scores, more: str) -> None:
    """Print the first rows of ``scores`` as a table; ``more`` says where the others are."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in COLUMNS:
        table.add_column(name, justify="left" if name in _TEXT_COLUMNS else "right", no_wrap=name not in _TEXT_COLUMNS)
    for row in range(min(len(scores), _ROWS)):
        cells = [Text(_cell(scores.columns[name][row])) for name in COLUMNS]
        table.add_row(*cells, style="dim" if scores.retired[row] else "")
    console.print(table)
    if len(scores) > _ROWS:
        console.print(Text(f"{len(scores) - _ROWS:,} more rows: {more}"))


def print_facts(console: Console, facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(Text(name, style="bold"), Text(plain(str(value))))
    console.print(grid)


def _cell(value: object) -> str:
    if isinstance(value, str):
        return plain(value, keep="")
    if isinstance(value, float):
        return _DASH if math.isnan(value) else f"{value:.3g}" if value.is_integer() else f"{value:.3f}"
    return str(value)
