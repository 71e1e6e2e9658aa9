"""The systems of a run beside the best one, by the figures of ``robin compare``: a table for papers."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from robin_cli.goals.differences import table_of
from robin_cli.goals.summary import given_labels
from robin_cli.model.records import SYSTEM_COLUMN
from robin_cli.show.columns import SYSTEMS
from robin_cli.show.tables import Table
from robin_cli.stats.paired import by_prompt
from robin_cli.stats.run_compare import Compared, compared

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
        own = _own_rows(found, name)
        best, *others = own
        beside = {
            row["a"] if row["b"] == best else row["b"]: _beside(row, best)
            for row in of_attribute
            if best in {row["a"], row["b"]}
        }
        rows += [{"attribute": name, **own[best]}, *(beside[each] | own[each] for each in others)]
    shared = min(one.n_prompts for listed in found.differences.values() for one in listed)
    if shared < max(row["n_prompts"] for row in rows):
        view.notify(
            "a mean is over all prompts of its system, a difference over those that both answered"
        )
    return SYSTEMS.of({name: [row.get(name) for row in rows] for name in SYSTEMS.columns})


def _own_rows(found: Compared, attribute: str) -> dict[str, dict[str, Any]]:
    """Return the name, mean and prompts of each system that answered any, the highest mean first."""
    own: dict[str, dict[str, Any]] = {}
    for number, system in enumerate(found.systems):
        answers = by_prompt(found.responses[attribute], number)
        if len(answers.prompt):
            mean, prompts = float(answers.score.mean()), len(answers.prompt)
            own[system] = {"system": system, "mean": mean, "n_prompts": prompts}
    return dict(sorted(own.items(), key=lambda each: -each[1]["mean"]))


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
