"""The report of two runs, or of two systems, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

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
from robin_cli.show.report.texts import texts_of_prompts, texts_of_shared
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
    a, b = first.found.run, second.found.run
    scales, differing = shared_scales(a, b), differing_in(a.manifest, b.manifest)
    rows, left_out = side_by_side(a, b), list[str]()
    of_pairs = len(rows) > 0
    if not of_pairs:
        check_systems(a, b, differing)
    found = compared([a, b], left_out.append, as_they_are=True)
    rows = rows if of_pairs else prompts_side_by_side(found)
    if differing:
        left_out.insert(0, f"A and B were not judged in the same way: {'; '.join(differing)}.")
    statuses = {"A": first, "B": second}
    return Page(
        title="Two runs, pair by pair" if of_pairs else "Two systems, prompt by prompt",
        subtitle=" · ".join(
            f"{letter}: {run.name}, {judged_by(run.manifest)}"
            for letter, run in (("A", a), ("B", b))
        ),
        answer=better_lines(found)[:MOST_LINES],
        cost="; ".join(f"{letter}: {each.cost_text}" for letter, each in statuses.items()),
        tables=[systems_table(found)],
        warnings=[
            *(
                f"Run {letter} is {each.work['state']}: {' are '.join(each.spent)}."
                for letter, each in statuses.items()
                if each.work["state"] != "finished"
            ),
            *left_out,
            *(_changed(a, b, len(rows)) if of_pairs else ()),
        ],
        charts=[
            *differences_chart(found),
            *pair_charts(rows, scales, a.pair_ids if of_pairs else None),
        ],
        facts={
            **({"About the comparison": pair_lines(a, rows, scales)} if of_pairs else {}),
            **{f"Run {letter}": each.lines for letter, each in statuses.items()},
        },
        rows=_rows(a, b, found, rows, scales, show, of_pairs=of_pairs),
    )


def _rows(
    a: RunReader,
    b: RunReader,
    found: Compared,
    rows: pa.Table,
    scales: Mapping[str, Scale],
    show: Sequence[str],
    *,
    of_pairs: bool,
) -> Rows:
    what, difference = rows["what"].to_numpy(), rows["difference"].to_numpy()
    scale = np.array([list(scales).index(name) for name in rows["attribute"].to_pylist()], np.intp)
    width = np.array([each.high - each.low for each in scales.values()])[scale]
    hidden = {"what"} if len(a.space.attributes) > 1 else {"what", "attribute"}
    values: dict[str, Any] = {
        name: rows[name].to_numpy() for name in rows.column_names if name not in hidden
    }
    if of_pairs:
        column = Column("pair_id", "The pair's id.", "id", "pair")
        ids = [a.pair_ids[pair] for pair in what.tolist()]
        says = "the line is the interval, the stroke the difference"
        help_ = "The difference and its interval; sorts by how wide that is."
        texts = lambda some: texts_of_shared(a, b, what[some])  # noqa: E731
    else:
        column = Column("prompt", "The prompt, with both answers.", "id")
        ids = [name_of(found.who.prompts[prompt]) for prompt in what.tolist()]
        says, help_ = "its stroke is the difference", "The difference."
        texts = lambda some: texts_of_prompts(found, what[some])  # noqa: E731
    table = SIDE_BY_SIDE.of(
        {column.name: ids, **values},
        column,
        beside=beside(a, what, show) if of_pairs else lambda _: {},
        terminal=[column.name, *SIDE_BY_SIDE.terminal],
    )
    return Rows(
        table,
        Bar(
            heading="difference",
            help=help_,
            says="A bar has 0 in its middle and ends where A would be lower or higher by the whole "
            f"scale: {says}.",
            thick="",
            thin="ci_low",
            tick="difference",
            ring="",
            scales=[(scale.low - scale.high, scale.high - scale.low) for scale in scales.values()],
            scale=scale,
        ),
        {
            "order of the data": None,
            "largest A − B": difference / width,
            "largest difference": np.abs(difference) / width,
        },
        _VIEWS,
        texts,
        WORDS[a.manifest.kind.name],
    )


def _changed(a: RunReader, b: RunReader, shared: int) -> Iterator[str]:
    alone = [len(run.pair_ids) * len(run.space.attributes) - shared for run in (a, b)]
    if any(alone):
        yield (
            f"{shared:,} scores are in both; {alone[0]:,} are in A alone and {alone[1]:,} in B "
            "alone."
        )
    if changed := changed_pairs(a, b):
        yield f"{number_of(changed, 'pair')} of one id have other texts in B than in A."
