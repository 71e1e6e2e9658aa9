"""The page of one run, or of two."""

from __future__ import annotations

from collections.abc import Sequence

from robin_cli.goals.judges import judged_by
from robin_cli.storage.reader import RunData
from robin_cli.views.report import pairwise, single  # noqa: F401  # which say what their runs show
from robin_cli.views.report.comparison import comparison_of
from robin_cli.views.report.page import Page, sections_of
from robin_cli.views.report.parts import answered, warnings_of
from robin_cli.views.report.systems import charts_of, headline_of, systems_in
from robin_cli.views.status import standing


def page_of(runs: Sequence[RunData], working: Sequence[bool]) -> Page:
    """Return what the report of one run shows, or of two; ``working``: whether a process is at work on each.

    Raises:
        InputError: two runs cannot be compared.
    """
    if len(runs) > 1:
        return comparison_of(*runs, working=(working[0], working[1]))
    (run,), (at_work,) = runs, working
    status = standing(run, working=at_work)
    facts, said = status.facts, sections_of(status.found, status.facts)
    systems, left_out = systems_in(run, status.found.goal)
    return Page(
        title=said.title,
        subtitle=f"judged by {judged_by(run.manifest)} · {facts['data']} · {facts['created_at']}",
        headline=[*(headline_of(systems) if systems else ()), *said.headline],
        warnings=[*warnings_of(facts), *left_out, *said.warnings],
        charts=[*(charts_of(systems) if systems else ()), *said.charts, *answered(facts, status.found.goal.noun)],
        facts={"About this run": {**status.lines, **said.further}},
        listing=said.listing,
    )
