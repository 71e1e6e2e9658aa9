"""What a plan says to people: a screen that begins with the answer, and details for those who ask for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from robin_cli.model.records import number_of
from robin_cli.render.text import plain
from robin_cli.results.words import dollars, duration

Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], str]]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table: what each column says of a row. Columns that are nowhere known are left out, and the row planned stands out."""

    rows: Sequence[Row]
    columns: Columns
    is_planned: Callable[[Row], bool]

    def table(self) -> Table:
        """The table as a terminal has it."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        texts = {name: [text(row) for row in self.rows] for name, text in self.columns.items()}
        shown = {name: each for name, each in texts.items() if any(cell != UNKNOWN for cell in each)}
        for place, name in enumerate(shown):
            is_words = not place and not shown[name][0][:1].isdigit()
            table.add_column(name.strip(), justify="left" if is_words or not name else "right", no_wrap=True)
        for place, row in enumerate(self.rows):
            style = "bold" if self.is_planned(row) else "dim" if row.get("within_max_cost") is False else ""
            table.add_row(*(each[place] for each in shown.values()), style=style)
        return table


def show(parts: Iterable[Sheet | str]) -> None:
    """Print lines and tables."""
    console = Console()
    for part in parts:
        console.print(part.table() if isinstance(part, Sheet) else Text(plain(part)))


UNKNOWN = "–"


def figure(name: str, times: float = 1.0, digits: int = 2, unit: str = "") -> Callable[[Row], str]:
    """Return a column of a figure, with the noise of its simulation where that is known; of none, how few it may be."""

    def text(row: Row) -> str:
        value, sem = row[name], row.get(f"{name}_sem")
        many = row.get(f"{name.removesuffix('wrong')}decisions_simulated") if name.endswith("wrong") else None
        if value is None:
            return UNKNOWN
        if not value and many:  # none of so many: fewer than 3 in as many, with 95 %
            return f"< {3 * times / many:.1g}"
        noise = f" ± {times * sem:.{digits}f}" if sem is not None and round(times * sem, digits) else ""
        return f"{times * value:.{digits}f}{noise}{unit}"

    return text


def money(row: Row) -> str:
    """What a row costs, from the least to the most."""
    low, high = row["cost_usd_at_least"], row["cost_usd_at_most"]
    if low is None:
        return UNKNOWN
    return dollars(low) if low == high else f"{_short(low)}–{_short(high)[1:]}"


def money_about(row: Row) -> str:
    """What a row costs, in one number and its range; UNKNOWN without a price."""
    about = row["cost_usd_about"]
    if about is None:
        return UNKNOWN
    return money(row) if row["cost_usd_at_least"] == row["cost_usd_at_most"] else f"{_short(about)} ({money(row)})"


def money_alone(row: Row) -> str:
    """What a row costs, in one number."""
    return UNKNOWN if row["cost_usd_about"] is None else _short(row["cost_usd_about"])


def _short(amount: float) -> str:
    return f"${amount:,.0f}" if amount >= 10 else f"${amount:.2g}"


def time(row: Row) -> str:
    """How long a row takes, as far as its pace is known."""
    return UNKNOWN if row["seconds"] is None else duration(row["seconds"])


def time_about(row: Row) -> str:
    """How long a row takes, by a pace that is taken for granted where none is known."""
    return UNKNOWN if row["seconds_about"] is None else duration(row["seconds_about"])


def _way(row: Row) -> str:
    """How the calls of a row are made."""
    if row["rounds"] is not None:
        return f"--batch, {number_of(row['rounds'], 'round')}"
    return f"--service-tier {row['way']}" if row["way"] == "flex" else str(row["way"])


def _hours(row: Row) -> str:
    if row["seconds"] is None:
        return "slower" if row["way"] == "flex" else UNKNOWN
    return f"≤ {row['seconds'] / 3600:.0f} h" if row["seconds_are"] == "at most" else duration(row["seconds"])


def ways_sheet(ways: Sequence[Row], calls: int, columns: Columns) -> list[Sheet | str]:
    """The same calls one at a time, by flex and by batches, and what is taken for granted of these."""
    if not ways:
        return []
    parts: list[Sheet | str] = [
        "",
        Sheet(ways, {number_of(calls, "call"): _way, "money": money, "time": _hours, **columns}, _is_planned),
        "--service-tier flex: slower than the normal tier, by how much nobody says; a request may take 15 minutes.",
    ]
    for row in ways:
        if row["rounds"] is not None:
            by = f", by {row['scheduler']}" if row.get("scheduler") != ways[0].get("scheduler") else ""
            parts.append(
                "--batch: each round may take 24 hours, and all of it is chosen by the answers of the rounds before"
                f"{by}."
            )
    return parts


def _is_planned(row: Row) -> bool:
    return bool(row["is_planned"])


def listed(names: Iterable[str]) -> str:
    """Names as a sentence has them: "2, 3 and 4"."""
    *most, last = names
    return " and ".join(filter(None, (", ".join(most), last)))
