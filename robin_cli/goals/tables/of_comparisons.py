"""The tables that a pairwise run has, by name."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from robin_cli.goals.checks import check_view
from robin_cli.goals.found import Builder, View
from robin_cli.goals.tables.comparisons import comparison_table
from robin_cli.goals.tables.preferences import preferred_table
from robin_cli.goals.tables.ranking import ranking_table
from robin_cli.goals.tables.summary import labels_wanted_table, summary_table
from robin_cli.results.tables import Table

if TYPE_CHECKING:
    from robin_cli.goals.preferences import Preferences


def _comparisons(found: Preferences, view: View, *, by_judge: bool) -> Table:
    check_view(sort=view.sort, wide=view.wide)
    return comparison_table(found, with_text=view.with_text, by_judge=by_judge)


TABLES: Mapping[str, Builder] = {
    "scores": partial(_comparisons, by_judge=False),
    "judge-scores": partial(_comparisons, by_judge=True),
    "ranking": lambda found, view: ranking_table(
        found, view.notify, by_length=view.length_control, in_python=view.in_python
    ),
    "preferences": lambda found, view: preferred_table(found, view.notify, messages=view.messages),
    "summary": summary_table,
    "labels-wanted": labels_wanted_table,
}
