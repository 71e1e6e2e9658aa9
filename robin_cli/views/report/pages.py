"""The page of one run, or of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from robin_cli.goals.judges import judged_by
from robin_cli.model.records import MODEL_PREFIX, counted, in_words, number_of
from robin_cli.results.charts import Chart, bars, chart
from robin_cli.storage.reader import RunData
from robin_cli.views.report import pairwise, single  # noqa: F401  # which say what their runs show
from robin_cli.views.report.comparison import comparison_of
from robin_cli.views.report.page import Page, sections_of
from robin_cli.views.report.systems import charts_of, headline_of, systems_in
from robin_cli.views.spent import spent_of_budget
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
        warnings=[*_warnings_of(facts), *left_out, *said.warnings],
        charts=[*(charts_of(systems) if systems else ()), *said.charts, *_answered(facts, status.found.goal.noun)],
        facts={"About this run": {**status.lines, **said.further}},
        listing=said.listing,
    )


def _answered(facts: Mapping[str, Any], noun: str) -> Iterator[Chart]:
    """What brought no ``noun``, and how often; nothing where all did."""
    troubles = {in_words(name, noun): count for name, count in facts["unparsed"].items()}
    troubles |= {f"{in_words(name)} (failed)": count for name, count in facts["failed"].items()}
    if troubles:
        yield chart(
            f"What brought no {noun}",
            f"Answers without a {noun} are paid for and count; failed calls do not.",
            bars(troubles, "calls"),
        )


def _warnings_of(facts: Mapping[str, Any]) -> list[str]:
    """What a reader must know of a run before believing its figures."""
    found = []
    judges = [judge["judge"] for judge in facts["judges"]]
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
    if facts["state"] != "finished":
        under_way = sum(each["requests"] for each in facts["under_way"])
        batches = f" {number_of(under_way, 'request')} are under way in batches; robin resume takes them in." * bool(
            under_way
        )
        found.append(f"This run is {facts['state']}: {' are '.join(spent_of_budget(facts))}.{batches}")
    if facts["arms_retired"]:
        reasons = counted(facts["retired_reasons"])
        found.append(f"{facts['arms_retired']:,} of {facts['arms']:,} could not be rated and were given up: {reasons}.")
    return found
