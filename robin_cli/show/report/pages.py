"""The page of one run, or of two."""

from __future__ import annotations

from collections.abc import Sequence

from robin_cli.goals.found import View, judged_by
from robin_cli.model.records import MODEL_PREFIX, counted, number_of
from robin_cli.run.reader import RunData
from robin_cli.show.report import pairwise, single  # noqa: F401  # which say what their runs show
from robin_cli.show.report.comparison import comparison_of
from robin_cli.show.report.page import Page, cost_text, sections_of
from robin_cli.show.report.people import labelled_in
from robin_cli.show.report.systems import charts_of, headline_of, notes_on, systems_in
from robin_cli.show.status import Status, standing


def page_of(runs: Sequence[RunData], working: Sequence[bool], view: View | None = None) -> Page:
    """Return the page of one run, or of two.

    Args:
        working: whether a process is at work on each.
        view: the options of the rows; columns of the data are those of the first run.

    Raises:
        InputError: two runs cannot be compared.
    """
    view = view or View()
    if len(runs) > 1:
        return comparison_of(*runs, working=(working[0], working[1]), show=view.show)
    (run,), (at_work,) = runs, working
    status = standing(run, working=at_work)
    said = sections_of(status.found, view)
    systems, left_out = systems_in(run, status.found.goal)
    tiles, charts = ([*headline_of(systems)], [*charts_of(systems)]) if systems else ([], [])
    notes = {"systems": " ".join(notes_on(systems))} if systems else {}
    return Page(
        title=said.title,
        subtitle=f"judged by {judged_by(run.manifest)} · {status.cost.data} · {status.cost.created_at}",
        answer=status.found.answer,
        sure=said.sure,
        cost=cost_text(status),
        warnings=[*_warnings_of(status), *left_out, *said.warnings],
        charts=[*charts, *said.charts] if said.systems_first else [*said.charts, *charts],
        headline=[*tiles, *said.headline] if said.systems_first else [*said.headline, *tiles],
        facts={"About this run": {**status.lines, **notes}},
        listing=said.listing,
        labelled=labelled_in(status.found),
    )


def _warnings_of(status: Status) -> list[str]:
    """Return warnings that a reader needs before the figures."""
    found, work, judges = list[str](), status.work, status.found.run.space.judges
    replays = [judge for judge in judges if judge.startswith(MODEL_PREFIX)]
    if replays and len(replays) == len(judges):
        found.append(
            "These are recorded ratings, replayed: no model read the responses, and the scores say nothing about them."
        )
    elif replays:
        found.append(
            f"The ratings of {', '.join(replays)} are recorded ones, replayed: no model read the responses for them, and "
            "scores that they are part of say that much less."
        )
    if work.state != "finished":
        under_way = sum(each.requests for each in work.under_way)
        batches = (
            f" {number_of(under_way, 'request')} are under way in batches; robin resume takes them in."
            * bool(under_way)
        )
        found.append(f"This run is {work.state}: {' are '.join(status.spent)}.{batches}")
    if work.arms_retired:
        reasons = counted(work.retired_reasons)
        found.append(
            f"{work.arms_retired:,} of {work.arms:,} could not be rated and were given up: {reasons}."
        )
    return found
