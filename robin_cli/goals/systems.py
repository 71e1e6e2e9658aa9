"""The systems of a run beside the best one, by the figures of ``robin compare``: a table for papers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from robin_cli.analysis.run_compare import compared
from robin_cli.goals.differences import table_of
from robin_cli.goals.summary import given_labels
from robin_cli.model.records import SYSTEM_COLUMN
from robin_cli.results.columns import SYSTEMS
from robin_cli.results.tables import Table

if TYPE_CHECKING:
    from robin_cli.goals.found import Found, View


def systems_table(ran: Found, view: View) -> Table:
    """Return a row for each attribute and system, the highest mean first, with its difference from that one.

    Raises:
        InputError: there is no column of systems, or they share too few prompts.
    """
    given = given_labels(view.labels, ran.run)
    found = compared([ran.run], view.notify, by=view.by or SYSTEM_COLUMN, given=given)
    rows: list[dict[str, Any]] = []
    for _, of_attribute in groupby(table_of(found).records(), itemgetter("attribute")):
        listed = list(of_attribute)
        means = {row[side]: row[f"mean_{side}"] for row in listed for side in "ab"}
        best = max(means, key=means.__getitem__)
        beside = [_beside(row, best) for row in listed if best in {row["a"], row["b"]}]
        first = {**listed[0], "system": best, "mean": means[best], "p_adjusted": None}
        rows += [
            first | {"difference": None},
            *sorted(beside, key=itemgetter("mean"), reverse=True),
        ]
    return SYSTEMS.of({name: [row.get(name) for row in rows] for name in SYSTEMS.columns})


def _beside(row: Mapping[str, Any], best: str) -> dict[str, Any]:
    """Return the row of a system with its difference from the best one."""
    side, sign = ("b", -1.0) if row["a"] == best else ("a", 1.0)
    ends = sorted(sign * row[end] for end in ("ci_low", "ci_high") if row[end] is not None)
    figures = dict(zip(("difference_low", "difference_high"), ends, strict=False))
    names = {"system": row[side], "mean": row[f"mean_{side}"]}
    return {**row, **names, "difference": sign * row["difference"], **figures}
