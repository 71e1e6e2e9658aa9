"""``robin compare``: comparisons of systems, printed and as JSON."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from robin_cli.goals.differences import (
    all_differences,
    at_most,
    better_lines,
    by_people,
    letters_of,
    next_step,
    verdict,
)
from robin_cli.show.columns import DIFFERENCES
from robin_cli.show.tables import Table
from robin_cli.show.terminal import print_table
from robin_cli.show.text import as_called, one_line
from robin_cli.show.words import finite
from robin_cli.stats.labelled import Corrected
from robin_cli.stats.paired import Difference
from robin_cli.stats.run_compare import Compared


def print_comparison(console: Console, comparison: Compared, table: Table) -> None:
    """Print which system is better, the systems, a table of all pairs, and notes on the numbers."""
    console.print(
        Text("\n".join([*at_most(better_lines(comparison), "see the table"), ""])),
        soft_wrap=not console.is_terminal,
    )
    for name, letter in letters_of(comparison.systems).items():
        console.print(Text(f"{letter}  {one_line(name)}"), soft_wrap=True)
    console.print()
    print_table(console, table, len(table))
    if step := next_step(comparison):
        console.print(Text(as_called(f"next: {one_line(step)}")), soft_wrap=True)


def facts_of(comparison: Compared, table: Table) -> dict[str, Any]:
    """Return the comparison as JSON values."""
    none = dict.fromkeys(DIFFERENCES.public) | {"n_labels": 0}
    return {
        "runs": [run.name for run in comparison.runs],
        "by": comparison.who.by,
        "match": comparison.match,
        "first_ratings": comparison.by_first,
        "unrated": comparison.unrated,
        "next": next_step(comparison) or None,
        "comparisons": [
            none | row | _further(comparison, one, people, (row["a"], row["b"]))
            for row, (_, one, people) in zip(
                table.records(), all_differences(comparison), strict=True
            )
        ],
    }


def _further(
    comparison: Compared, difference: Difference, people: Corrected | None, sides: tuple[str, str]
) -> dict[str, Any]:
    """Return the JSON values of a row that are not columns."""
    carriers, carried = difference.carriers()
    return {
        "carried_by": [comparison.who.prompts[each] for each in carriers],
        "carried_share": carried or None,
        "shorter_by_five_calls": finite(difference.shorter),
        "settled": difference.is_settled,
        "better": _name(verdict(difference, sides)),
        "better_by_labels": None
        if people is None or people.why
        else _name(by_people(people, sides)),
        "judge_relied_on": None if people is None else finite(people.lam),
        "labels_why": None if people is None else people.why,
    }


def _name(verdict: str) -> str | None:
    return None if verdict == "not settled" else verdict
