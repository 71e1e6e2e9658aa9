"""The scores and the state of a run, for people at a terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.output.scores import Scores
from robin_cli.output.text import plain
from robin_cli.records import MODEL_PREFIX
from robin_cli.runs.manifest import Manifest
from robin_cli.runs.reading import RunData

_ROWS = 60
_BAR = 12
_GAP = 3
_NARROWEST = 12
_DASH = "–"


def print_scores(console: Console, scores: Scores, run: RunData) -> None:
    """Print the first rows of ``scores`` as a table, under it who judged, and where the other rows are."""
    rows = range(min(len(scores), _ROWS))
    shown = _cells(scores, run, rows)
    calls = np.asarray(scores.columns["n"])

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    widths = {name: max(map(len, (name, *cells))) for name, cells in shown.items()}
    texts = [name for name in shown if name in {"pair", "attribute", "judge"}]
    bar_width = _BAR // 2 if "judge_spread" in scores.columns else _BAR
    others = sum(width + _GAP for name, width in widths.items() if name not in texts) + bar_width + _GAP
    for name, width in widths.items():
        if name in texts:  # gives way where the terminal is narrow
            share = (console.width - others) // len(texts) - _GAP
            table.add_column(name, no_wrap=True, width=max(_NARROWEST, min(width, share)))
        else:
            table.add_column(name, justify="right", no_wrap=True, width=width)
    table.add_column("", no_wrap=True, min_width=bar_width)
    for row in rows:
        bar = "█" * round(bar_width * calls[row] / max(1, calls.max()))
        table.add_row(
            *(Text(values[row]) for values in shown.values()), Text(bar), style="dim" if scores.retired[row] else ""
        )
    console.print(table)
    console.print(Text(plain(f"judge: {judged_by(run.manifest)}")), soft_wrap=True)
    if len(scores) > _ROWS:
        console.print(Text(f"{len(scores) - _ROWS:,} more rows: robin export {run.path}"), soft_wrap=True)


def _cells(scores: Scores, run: RunData, rows: range) -> dict[str, list[str]]:
    """The cells of ``rows`` by column, as text."""
    columns = scores.columns
    shown: dict[str, list[str]] = {"pair": [_text(columns["pair_id"][row]) for row in rows]}
    if len(run.manifest.attributes) > 1:
        shown["attribute"] = [_text(columns["attribute"][row]) for row in rows]
    if "judge" in columns:
        shown["judge"] = [_text(columns["judge"][row]) for row in rows]
    shown["score"] = [_number(columns["score"][row]) for row in rows]
    shown["95 % interval"] = [f"{_number(columns['ci_low'][row])} – {_number(columns['ci_high'][row])}" for row in rows]
    if "judge_spread" in columns:
        shown["judges ±"] = [_number(columns["judge_spread"][row]) for row in rows]
    else:
        shown["variance"] = [_number(columns["variance"][row]) for row in rows]
    for name in ("human", "n_unparsed"):  # only where there are any
        values = np.asarray(columns[name], dtype=np.float64)
        if np.any(values > 0) or (name == "human" and not np.all(np.isnan(values))):
            shown[name] = [_number(columns[name][row]) for row in rows]
    if any(columns["given_up"]):
        shown["given up"] = [_text(columns["given_up"][row]) for row in rows]
    shown["ratings"] = [f"{count:,}" for count in np.asarray(columns["n"])[rows.start : rows.stop]]
    return shown


def judged_by(manifest: Manifest) -> str:
    """Who gave the ratings; says it where nobody read the responses."""
    replays = [model.startswith(MODEL_PREFIX) for model in manifest.models]
    who = "no model" if all(replays) else "those models did not"
    replay = f" (recorded ratings, replayed: {who} read these responses)" if any(replays) else ""
    settings = manifest.settings
    judges = ", ".join(manifest.judges)
    return f"{judges}{replay}, {settings['scheduler']}, temperature {settings['temperature']:g}"


def print_facts(console: Console, facts: Mapping[str, Any]) -> None:
    """Print names and values in two columns."""
    grid = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(Text(plain(name), style="bold"), Text(plain(str(value))))
    console.print(grid)


def _text(value: object) -> str:
    return plain(str(value), keep="")


def _number(value: object) -> str:
    number = float(str(value))
    if math.isnan(number):
        return _DASH
    return f"{number:.0f}" if number.is_integer() else f"{number:.2f}"
