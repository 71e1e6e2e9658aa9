"""What the report of every run shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from robin_cli.goals.judges import cost_of
from robin_cli.model.records import MODEL_PREFIX, counted, in_words, number_of
from robin_cli.results import charts
from robin_cli.results.charts import Chart, chart
from robin_cli.results.words import dollars
from robin_cli.views.report.page import Tile
from robin_cli.views.spent import spent_of_budget, tokens_of


def spending(facts: Mapping[str, Any], noun: str) -> list[Tile]:
    """Return what was spent, and on what in vain; ``noun``: what an answer holds."""
    budget = f"{facts['budget']:,}" if facts["budget_usd"] is None else dollars(facts["budget_usd"])
    return [
        ("calls spent", f"{facts['spent']:,}", f"of a budget of {budget}; {facts['state']}"),
        (
            f"answers without a {noun}",
            f"{sum(facts['unparsed'].values()):,}",
            f"and {sum(facts['failed'].values()):,} failed calls kept",
        ),
        ("cost", cost_of(facts), tokens_of(facts)),
    ]


def answered(facts: Mapping[str, Any], noun: str) -> Iterator[Chart]:
    """Yield what brought no ``noun``, and how often; nothing where all did."""
    troubles = {in_words(name, noun): count for name, count in facts["unparsed"].items()}
    troubles |= {f"{in_words(name)} (failed)": count for name, count in facts["failed"].items()}
    if troubles:
        yield chart(
            f"What brought no {noun}",
            f"Answers without a {noun} are paid for and count; failed calls do not.",
            charts.bars(troubles, "calls"),
        )


def warnings_of(facts: Mapping[str, Any]) -> list[str]:
    """Return what a reader must know of a run before believing its figures."""
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
