"""A plan for people: its lines, and the tables of its budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from robin_cli.model.records import number_of
from robin_cli.render.terminal import print_table
from robin_cli.render.text import plain
from robin_cli.results.tables import Column, Table, declared
from robin_cli.results.words import dollars, duration, significant

_STAY = 3
"""Columns that stay on the narrowest terminal; the others go from the last on."""

Part = Table | str
"""A table, or a line."""

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], str]]
"""What people see of a row, by the header above it; "" for what is not known, and columns that know nothing are left out."""


def sheet(rows: Sequence[Row], columns: Columns, files: Table | None = None) -> Table:
    """Return ``rows`` as a table that shows ``columns`` to people.

    Args:
        files: declares what files have of each row; figures of a goal that it does not know are numbers. None: nothing.
    """
    names = [] if files is None else list(rows[0])
    texts = {f"{label} for people": [text(row) for row in rows] for label, text in columns.items()}
    shown = []
    for place, (name, label) in enumerate(zip(texts, columns, strict=True)):
        is_words = not label or (not place and not texts[name][0][:1].isdigit())
        shown.append(
            Column(
                name,
                form="text" if is_words else "word",
                label=label.strip() or " ",
                rank=place if place >= _STAY else 0,
                hide="empty",
                for_people=True,
            )
        )
    table = declared("sheet", "", "row", ()) if files is None else files
    own = [Column(name, form="number") for name in names if name not in table.columns]
    return table.of(
        {**{name: [row[name] for row in rows] for name in names}, **texts},
        *own,
        *shown,
        terminal=list(texts),
        dim=np.array([row.get("within_max_cost") is False for row in rows]),
    )


def print_page(parts: Iterable[Part]) -> None:
    """Print lines and tables."""
    console = Console()
    for part in parts:
        if isinstance(part, Table):
            print_table(console, part)
        else:
            console.print(Text(plain(part)))


def figure(name: str, times: float = 1.0, digits: int = 2, unit: str = "") -> Callable[[Row], str]:
    """Return a column of a figure, with the noise of its simulation if known; with no value, the range that is ruled out."""

    def text(row: Row) -> str:
        value, sem = row[name], row.get(f"{name}_sem")
        many = (
            row.get(f"{name.removesuffix('wrong')}decisions_simulated")
            if name.endswith("wrong")
            else None
        )
        if value is None:
            return ""
        if not value and many:  # none of so many: fewer than 3 in as many, with 95 %
            return f"< {significant(min(times, 3 * times / many), 1)}"
        noise = (
            f" ± {times * sem:.{digits}f}" if sem is not None and round(times * sem, digits) else ""
        )
        return f"{times * value:.{digits}f}{noise}{unit}"

    return text


def whole(name: str) -> Callable[[Row], str]:
    """Return a column of whole numbers."""
    return lambda row: f"{row[name]:,.0f}"


def known(name: str, words: Callable[[Any], str]) -> Callable[[Row], str]:
    """Return a column of values that may be unknown, in words."""
    return lambda row: "" if row[name] is None else words(row[name])


def money(row: Row) -> str:
    """Return a row's cost, from the lowest to the highest; "" without a price."""
    low, high = row["cost_usd_at_least"], row["cost_usd_at_most"]
    if low is None:
        return ""
    return dollars(low) if low == high else f"{_short(low)}–{_short(high)[1:]}"


def money_about(row: Row) -> str:
    """Return a row's cost, as one number and its range; "" without a price."""
    exact = row["cost_usd_at_least"] == row["cost_usd_at_most"]
    return (
        money(row)
        if exact or row["cost_usd_about"] is None
        else f"{money_alone(row)} ({money(row)})"
    )


def _short(amount: float) -> str:
    return f"${amount:,.0f}" if amount >= 10 else f"${amount:.2g}"


money_alone = known("cost_usd_about", _short)
time, time_about = known("seconds", duration), known("seconds_about", duration)
"""How long a row takes, as far as its pace is known; by a pace that is taken for granted where none is known."""


def _way(row: Row) -> str:
    """Return how a row's calls are made."""
    if row["rounds"] is not None:
        return f"--batch, {number_of(row['rounds'], 'round')}"
    return str(row["way"])


def _hours(row: Row) -> str:
    if row["seconds"] is None:
        return ""
    return (
        f"≤ {row['seconds'] / 3600:.0f} h"
        if row["seconds_are"] == "at most"
        else duration(row["seconds"])
    )


def ways_sheet(ways: Sequence[Row], calls: int, columns: Columns) -> list[Part]:
    """Return the cost of the calls one at a time, and by batches, and the assumptions."""
    if not ways:
        return []
    batch = "--batch: each round may take 24 hours, and all of it is chosen by the answers of the rounds before."
    return [
        "",
        sheet(ways, {number_of(calls, "call"): _way, "money": money, "time": _hours, **columns}),
        *[batch] * any(row["rounds"] is not None for row in ways),
    ]


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: "2, 3 and 4"."""
    *most, last = names
    return " and ".join(filter(None, (", ".join(most), last)))
