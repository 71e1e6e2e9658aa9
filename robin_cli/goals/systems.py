"""The systems of a run beside the best one, by the figures of ``robin compare``: a table for papers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from robin_cli.analysis.paired import by_prompt
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
    for name, of_attribute in groupby(table_of(found).records(), itemgetter("attribute")):
        listed, answers = list(of_attribute), found.responses[name]
        each = [by_prompt(answers, system) for system in range(len(found.systems))]
        own: dict[str, dict[str, Any]] = {
            system: {
                "system": system,
                "mean": float(of_its.score.mean()),
                "n_prompts": len(of_its.prompt),
            }
            for system, of_its in zip(found.systems, each, strict=True)
            if len(of_its.prompt)
        }
        best, *others = sorted(own, key=lambda system: -own[system]["mean"])
        beside = {
            row["a"] if row["b"] == best else row["b"]: row
            for row in listed
            if best in {row["a"], row["b"]}
        }
        rows.append({"attribute": name, **own[best]})
        rows += [_beside(beside[system], best) | own[system] for system in others]
        if len({one.prompt.tobytes() for one in each}) > 1:
            view.notify(
                f"{name}: not all systems answered the same prompts; a difference is over those that both answered, and need "
                "not be that of the means"
            )
    return SYSTEMS.of({name: [row.get(name) for row in rows] for name in SYSTEMS.columns})


def _beside(row: Mapping[str, Any], best: str) -> dict[str, Any]:
    """Return the row of a system with its difference from the best one; none if they share too few prompts."""
    sign = -1.0 if row["a"] == best else 1.0
    value, *ends = (
        None if row[name] is None else sign * row[name]
        for name in ("difference", "ci_low", "ci_high")
    )
    known = sorted(end for end in ends if end is not None)
    figures = dict(zip(("difference_low", "difference_high"), known, strict=False))
    return {**row, "difference": value, **figures}
