"""People's labels in a report: the judge's accuracy at decisions, and the largest differences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from robin_cli.data.chats import readable_turns
from robin_cli.data.images import named
from robin_cli.goals.found import Found, View
from robin_cli.model.errors import InputError
from robin_cli.show.report.page import Apart, Labelled, Quality, Tile
from robin_cli.show.report.rows import cut
from robin_cli.show.tables import Table

_SHOWN = 10
"""Disagreements with their texts; robin export has all."""
_LONGEST = 2_000
"""Characters of a text."""
_OF_TWO = ("accuracy", "kappa")
_FIGURES = ("accuracy", "tpr", "tnr", "precision", "f1", "kappa", "share", "corrected_share")
_TEXTS = ("prompt", "reference", "response", "response_a", "response_b")


def labelled_in(found: Found) -> Labelled | None:
    """Return the part about people's labels; None if there are none."""
    try:
        apart = found.table("disagreements", View(n=_SHOWN))
    except InputError:  # there is no label
        return None
    several = len(found.run.manifest.attributes) > 1
    furthest = [_apart(row, several=several) for row in apart.records() if row["difference"]]
    try:
        quality, why = (
            list(
                _qualities(
                    found.table("judge-quality", View()), of_two=found.run.manifest.is_pairwise
                )
            ),
            "",
        )
    except InputError as error:
        quality, why = [], str(error)
    return Labelled(quality, why, furthest)


def _qualities(table: Table, *, of_two: bool) -> Iterator[Quality]:
    for row in table.records():
        name = row["attribute"] if of_two else f"{row['attribute']}, threshold {row['threshold']:g}"
        counts = ((row["both"], row["judge_alone"]), (row["people_alone"], row["neither"]))
        tiles = [_tile(table, row, figure) for figure in (_OF_TWO if of_two else _FIGURES)]
        yield Quality(name, tiles, ("A", "B") if of_two else ("keep", "drop"), counts)


def _tile(table: Table, row: dict[str, Any], name: str) -> Tile:
    column, (value, low, high) = (
        table.columns[name],
        (row.get(f"{name}{end}") for end in ("", "_low", "_high")),
    )
    ends = "" if low is None else f"95 % interval {low:z.2f} to {high:z.2f}. "
    return column.header, "–" if value is None else f"{value:z.2f}", f"{ends}{column.help}"


def _apart(row: dict[str, Any], *, several: bool) -> Apart:
    of = f"{row['pair_id']} · {row['attribute']}" if several else row["pair_id"]
    texts = {
        name.replace("_", " ").title(): cut(named(readable_turns(row[name])), _LONGEST)
        for name in _TEXTS
        if row.get(name)
    }
    scale = " (1: A is better, 0: B is)" if "Response A" in texts else ""
    return Apart(of, f"judge {row['score']:.2f}, people {row['label']:.2f}{scale}", texts)
