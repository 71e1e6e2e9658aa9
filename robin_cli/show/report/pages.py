"""The page of one run, or of two."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any

from robin_cli.data.chats import readable_turns
from robin_cli.data.images import named
from robin_cli.goals.result import Result, View, judged_by
from robin_cli.goals.systems import SystemsResult
from robin_cli.model.errors import InputError
from robin_cli.model.records import MODEL_PREFIX, counted, number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.report import preferences, rating_charts, ratings
from robin_cli.show.report.comparison import comparison_of
from robin_cli.show.report.page import Labelled, Page
from robin_cli.show.report.systems import differences_chart, systems_in, systems_table
from robin_cli.show.report.texts import cut
from robin_cli.show.status import Status, standing
from robin_cli.show.tables import Table

_TEXTS = ("prompt", "reference", "response", "response_a", "response_b")
_MOST_APART = 10  # labelled things with their texts; robin export has all
_LONGEST = 2_000  # characters of a text


def page_of(runs: Sequence[RunReader], working: Sequence[bool], view: View | None = None) -> Page:
    """Return the page of one run, or of two.

    Args:
        working: whether a process is at work on each.
        view: the options of the rows; columns of the data are those of the first run.

    Raises:
        InputError: two runs cannot be compared.
    """
    view = view or View()
    statuses = [standing(run, working=at_work) for run, at_work in zip(runs, working, strict=True)]
    if len(runs) > 1:
        return comparison_of(*statuses, show=view.show)
    (status,) = statuses
    found: Any = status.result
    is_pairwise = found.run.manifest.is_pairwise
    of_kind: Any = preferences if is_pairwise else ratings
    charts = [*(preferences if is_pairwise else rating_charts).charts_of(found)]
    tables: list[Table] = []
    with suppress(InputError):  # a warning says why there is no ranking
        tables.append(found.table("ranking" if is_pairwise else "summary", View()))
    compared, left_out = systems_in(found)
    if compared is not None:
        of_systems, drawn = systems_table(compared), [*differences_chart(compared)]
        is_first = isinstance(found, SystemsResult)
        tables = [of_systems, *tables] if is_first else [*tables, of_systems]
        charts = [*drawn, *charts] if is_first else [*charts, *drawn]
    manifest = found.run.manifest
    data = f"{manifest.data['source']} · {manifest.created_at}"
    return Page(
        title=of_kind.title_of(found),
        subtitle=f"judged by {judged_by(manifest)} · {data}",
        answer=found.answer,
        sure=of_kind.sure_of(found),
        cost=status.cost_text,
        warnings=[*_warnings_of(status), *left_out, *of_kind.warnings_of(found)],
        charts=charts,
        tables=tables,
        facts={"About this run": status.lines},
        rows=of_kind.rows_of(found, view),
        labelled=_labelled_in(found),
    )


def _warnings_of(status: Status) -> Iterator[str]:
    judges, facts = status.result.run.space.judges, status.work
    replays = [judge for judge in judges if judge.startswith(MODEL_PREFIX)]
    if replays and len(replays) == len(judges):
        yield (
            "These are recorded ratings, replayed: no model read the responses, and the scores say "
            "nothing about them."
        )
    elif replays:
        yield (
            f"The ratings of {', '.join(replays)} are recorded ones, replayed: no model read the "
            "responses for them, and scores that they are part of say that much less."
        )
    if facts["state"] != "finished":
        batches = ""
        if requests := sum(each["requests"] for each in facts["under_way"]):
            sent = number_of(requests, "request")
            batches = f" {sent} are under way in batches; robin resume takes them in."
        yield f"This run is {facts['state']}: {' are '.join(status.spent)}.{batches}"
    if facts["arms_retired"]:
        reasons = counted(facts["retired_reasons"])
        yield (
            f"{facts['arms_retired']:,} of {facts['arms']:,} could not be rated and were given up: "
            f"{reasons}."
        )


def _labelled_in(result: Result) -> Labelled | None:
    """Return the part about people's labels; None if there are none."""
    try:
        table = result.table("disagreements", View(n=_MOST_APART))
    except InputError:  # there is no label
        return None
    apart = []
    for row in filter(lambda row: row["difference"], table.records()):
        texts = {
            name.replace("_", " ").title(): cut(named(readable_turns(row[name])), _LONGEST)
            for name in _TEXTS
            if row.get(name)
        }
        of = f" · {row['attribute']}" * (len(result.run.manifest.attributes) > 1)
        scale = " (1: A is better, 0: B is)" * ("Response A" in texts)
        says = f"judge {row['score']:.2f}, people {row['label']:.2f}{scale}"
        apart.append((f"{row['pair_id']}{of}", says, texts))
    try:
        return Labelled([result.table("judge-quality", View())], "", apart)
    except InputError as error:
        return Labelled([], str(error), apart)
