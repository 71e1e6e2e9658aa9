"""The report of two runs, or of two systems, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from robin_cli.data.groups import name_of
from robin_cli.goals.differences import better_lines
from robin_cli.goals.result import judged_by
from robin_cli.goals.rows import beside
from robin_cli.model.records import Scale, number_of
from robin_cli.run.reader import RunReader
from robin_cli.show.columns import SIDE_BY_SIDE
from robin_cli.show.report.page import WORDS, Bar, Page, Rows, Test
from robin_cli.show.report.systems import differences_chart, pair_charts, pair_lines, systems_table
from robin_cli.show.report.texts import texts_of_two
from robin_cli.show.status import Status
from robin_cli.show.tables import Column
from robin_cli.show.words import MOST_LINES
from robin_cli.stats.run_compare import Compared, compared, differing_in
from robin_cli.stats.side_by_side import (
    changed_pairs,
    check_systems,
    prompts_side_by_side,
    shared_scales,
    side_by_side,
)

_VIEWS: dict[str, Test] = {
    "differ beyond noise": ("differ", pc.equal, True),
    "A higher": ("difference", pc.greater, 0.0),
    "B higher": ("difference", pc.less, 0.0),
}


def comparison_of(first: Status, second: Status, *, show: Sequence[str] = ()) -> Page:
    """Return the page for two runs: A, B, and A − B.

    Args:
        show: columns of A's data beside pairs of both.

    Raises:
        InputError: they have no pair and no prompt in common, or rate on different scales; or other
            responses by other judges.
    """
    a, b = first.result.run, second.result.run
    scales, differing = shared_scales(a, b), differing_in(a.manifest, b.manifest)
    rows, notes = side_by_side(a, b), list[str]()
    of_pairs = len(rows) > 0
    if not of_pairs:
        check_systems(a, b, differing)
    if differing:
        notes.append(f"A and B were not judged in the same way: {'; '.join(differing)}.")
    found = compared([a, b], notes.append, as_they_are=True)
    rows = rows if of_pairs else prompts_side_by_side(found)
    charts = [
        *differences_chart(found),
        *pair_charts(rows, scales, a.pair_ids if of_pairs else None),
    ]
    title, facts = "Two systems, prompt by prompt", dict[str, Mapping[str, str]]()
    if of_pairs:
        title = "Two runs, pair by pair"
        notes += _changed(a, b, len(rows))
        facts["About the comparison"] = pair_lines(a, rows, scales)
    names, costs, unfinished = [], [], []
    for letter, status in (("A", first), ("B", second)):
        run = status.result.run
        names.append(f"{letter}: {run.name}, {judged_by(run.manifest)}")
        costs.append(f"{letter}: {status.cost_text}")
        facts[f"Run {letter}"] = status.lines
        if (state := status.work["state"]) != "finished":
            unfinished.append(f"Run {letter} is {state}: {' are '.join(status.spent)}.")
    return Page(
        title,
        " · ".join(names),
        better_lines(found)[:MOST_LINES],
        "; ".join(costs),
        [*unfinished, *notes],
        _rows(found, rows, scales, show, of_pairs=of_pairs),
        [systems_table(found)],
        charts,
        facts,
    )


def _rows(
    comparison: Compared,
    rows: pa.Table,
    scales: Mapping[str, Scale],
    show: Sequence[str],
    *,
    of_pairs: bool,
) -> Rows:
    a = comparison.runs[0]
    what, difference = rows["what"].to_numpy(), rows["difference"].to_numpy()
    scale = np.array([list(scales).index(name) for name in rows["attribute"].to_pylist()], np.intp)
    width = np.array([each.high - each.low for each in scales.values()])[scale]
    hidden = {"what"} if len(a.space.attributes) > 1 else {"what", "attribute"}
    values = {name: rows[name].to_numpy() for name in rows.column_names if name not in hidden}
    column = Column("prompt", "The prompt, with both answers.", "id")
    names = [name_of(each) for each in comparison.who.prompts]
    says, help_ = "", "The difference."
    if of_pairs:
        column, names = Column("pair_id", "The pair's id.", "id", "pair"), list(a.pair_ids)
        says = "the thick line is the interval, "
        help_ = "The difference and its interval; sorts by how wide that is."
    table = SIDE_BY_SIDE.with_values(
        {column.name: [names[each] for each in what.tolist()], **values},
        column,
        beside=beside(a, what, show) if of_pairs else lambda _: {},
        terminal=[column.name, *SIDE_BY_SIDE.terminal],
    )
    bar = Bar(
        "difference",
        help_,
        "A bar has 0 in its middle and ends where A would be lower or higher by the whole scale: "
        f"{says}the stroke the difference.",
        "difference",
        [(each.low - each.high, each.high - each.low) for each in scales.values()],
        scale,
    )
    orders = {
        "order of the data": None,
        "largest A − B": difference / width,
        "largest difference": np.abs(difference) / width,
    }
    texts = lambda some: texts_of_two(comparison, what[some], of_pairs=of_pairs)  # noqa: E731
    words = WORDS[a.manifest.kind.name if of_pairs else "prompts"]
    return Rows(table, bar, orders, _VIEWS, texts, words)


def _changed(a: RunReader, b: RunReader, shared: int) -> Iterator[str]:
    alone = [len(run.pair_ids) * len(run.space.attributes) - shared for run in (a, b)]
    if any(alone):
        yield (
            f"{shared:,} scores are in both; {alone[0]:,} are in A alone and {alone[1]:,} in B "
            "alone."
        )
    if changed := changed_pairs(a, b):
        yield f"{number_of(changed, 'pair')} of one id have other texts in B than in A."
