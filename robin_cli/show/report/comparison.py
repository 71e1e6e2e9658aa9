"""The report of two runs, or of two systems, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from robin_cli.data.groups import name_of
from robin_cli.goals.found import judged_by
from robin_cli.goals.rows import beside
from robin_cli.model.records import Scale, number_of
from robin_cli.run.reader import RunData
from robin_cli.show.charts import Chart, against, chart, histogram, marks_of
from robin_cli.show.columns import SIDE_BY_SIDE
from robin_cli.show.report.page import (
    WORDS,
    Bar,
    Filter,
    Listing,
    Order,
    Page,
    Tile,
    coefficient_tile,
    cost_text,
)
from robin_cli.show.report.rows import texts_of_prompts, texts_of_shared
from robin_cli.show.report.systems import answer_of, charts_of, headline_of, notes_on
from robin_cli.show.status import Status, standing
from robin_cli.show.tables import Beside, Column, Table
from robin_cli.stats.agreement import agreement
from robin_cli.stats.run_compare import compared, differing_in
from robin_cli.stats.side_by_side import (
    changed_pairs,
    check_systems,
    prompts_side_by_side,
    shared_scales,
    side_by_side,
)

_BINS = 48
_LETTERS = ("A", "B")


def comparison_of(
    a: RunData, b: RunData, *, working: tuple[bool, bool], show: Sequence[str] = ()
) -> Page:
    """Return the page for two runs: A, B, and A − B; ``show``: columns of A's data beside pairs of both.

    Raises:
        InputError: they have no pair and no prompt in common, or rate on different scales; or other responses by other judges.
    """
    scales, differing = shared_scales(a, b), differing_in(a.manifest, b.manifest)
    rows, left_out = side_by_side(a, b), list[str]()
    of_pairs = len(rows) > 0
    if not of_pairs:
        check_systems(a, b, differing)
    found = compared([a, b], left_out.append, as_they_are=True)
    if of_pairs:
        ids = (
            Column("pair_id", "The pair's id.", "id", "pair"),
            [a.pair_ids[pair] for pair in rows["what"].to_pylist()],
        )
    else:
        rows = prompts_side_by_side(found)
        prompts = [name_of(found.who.prompts[prompt]) for prompt in rows["what"].to_pylist()]
        ids = Column("prompt", "The prompt, with both answers.", "id"), prompts
    what = rows["what"].to_numpy()
    each = [standing(run, working=at) for run, at in zip((a, b), working, strict=True)]
    return Page(
        title="Two runs, pair by pair" if of_pairs else "Two systems, prompt by prompt",
        subtitle=f"A: {a.name}, {judged_by(a.manifest)} · B: {b.name}, {judged_by(b.manifest)}",
        answer=answer_of(found),
        sure=[],
        cost="; ".join(
            f"{letter}: {cost_text(status)}" for letter, status in zip(_LETTERS, each, strict=True)
        ),
        headline=[*headline_of(found), *(_pair_headline(a, rows, scales) if of_pairs else ())],
        warnings=[
            *_unfinished(each),
            *(
                [f"A and B were not judged in the same way: {'; '.join(differing)}."]
                if differing
                else []
            ),
            *left_out,
            *(_changed(a, b, len(rows)) if of_pairs else ()),
        ],
        charts=[*charts_of(found), *_charts(rows, scales, a.pair_ids if of_pairs else None)],
        facts={
            "About the comparison": {"systems": " ".join(notes_on(found))},
            **{
                f"Run {letter}": status.lines for letter, status in zip(_LETTERS, each, strict=True)
            },
        },
        listing=Listing(
            _table(
                rows,
                *ids,
                beside(a, what, show) if of_pairs else (lambda _: {}),
                several=len(a.space.attributes) > 1,
            ),
            _orders(rows["difference"].to_numpy()),
            _bar(scales, of_pairs=of_pairs),
            (
                "difference",
                "The difference and its interval; sorts by how wide that is."
                if of_pairs
                else "The difference.",
            ),
            [list(scales).index(name) for name in rows["attribute"].to_pylist()],
            [
                Filter("differ beyond noise", "differ", "is", "yes"),
                Filter("A higher", "A − B", "above", 0),
                Filter("B higher", "A − B", "below", 0),
            ],
            lambda some: (
                texts_of_shared(a, b, what[some])
                if of_pairs
                else texts_of_prompts(found, what[some])
            ),
            WORDS[a.manifest.kind.name],
        ),
    )


def _table(
    rows: pa.Table, column: Column, ids: Sequence[str], read: Beside, *, several: bool
) -> Table:
    hidden = {"what"} if several else {"what", "attribute"}
    values = {name: rows[name].to_numpy() for name in rows.column_names if name not in hidden}
    return SIDE_BY_SIDE.of(
        {column.name: ids, **values}, column, beside=read, html=[column.name, *SIDE_BY_SIDE.html]
    )


def _orders(difference: NDArray[np.float64]) -> dict[Order, NDArray[np.float64] | None]:
    return {
        Order("order of the data"): None,
        Order("largest A − B", ("A − B",), power=1): difference,
        Order("largest difference", ("A", "B"), power=1): np.abs(difference),
    }


def _bar(scales: Mapping[str, Scale], *, of_pairs: bool) -> Bar:
    drawn = (
        "the line is the interval, the stroke the difference"
        if of_pairs
        else "its stroke is the difference"
    )
    return Bar(
        f"A bar has 0 in its middle and ends where A would be lower or higher by the whole scale: {drawn}.",
        *("A − B", "", "interval" if of_pairs else "", ""),
        scales=[(scale.low - scale.high, scale.high - scale.low) for scale in scales.values()],
    )


def _by_attribute(
    rows: pa.Table, scales: Mapping[str, Scale]
) -> Iterator[tuple[Scale, str, dict[str, Any]]]:
    """Return each attribute's scale, the words behind its name, and its columns; attributes have no meaningful mean."""
    there = [name for name in scales if pc.any(pc.equal(rows["attribute"], name)).as_py()]
    for name in there:
        mine = rows.filter(pc.equal(rows["attribute"], name)).drop_columns("attribute")
        about = f" · {name}" if len(there) > 1 else ""
        yield scales[name], about, {column: mine[column].to_numpy() for column in mine.column_names}


def _charts(
    rows: pa.Table, scales: Mapping[str, Scale], pair_ids: Sequence[str] | None
) -> Iterator[Chart]:
    for scale, about, mine in _by_attribute(rows, scales):
        if pair_ids is not None:
            ids = [pair_ids[each] for each in mine["what"].tolist()]
            panel = against(mine["a"], mine["b"], ("score in A", "score in B"), scale, ids)
            says = f"{marks_of({'': panel})} On the dashed line both runs score them alike."
            yield chart(f"Do A and B score alike?{about}", says, panel)
            continue
        width = float(scale.high - scale.low)
        yield chart(
            f"How far are A and B apart?{about}",
            "On how many prompts A scores higher (right of 0) or lower than B, and by how much.",
            histogram(mine["difference"], "A − B", (-width, width), "prompts", bins=_BINS),
        )


def _pair_headline(a: RunData, rows: pa.Table, scales: Mapping[str, Scale]) -> Iterator[Tile]:
    for scale, about, mine in _by_attribute(rows, scales):
        apart = f"of {len(mine['a']):,}: their 95 % intervals of A − B leave 0 out, each for itself"
        yield f"pairs that differ beyond noise{about}", f"{int(mine['differ'].sum()):,}", apart
        if not np.isnan(mine["difference"]).all():
            found = agreement(mine["a"], mine["b"], a.prompts[mine["what"]], scale)
            rho = next(each for each in found if each.coefficient == "spearman")
            yield coefficient_tile(f"Spearman ρ of A and B{about}", rho)


def _unfinished(each: Sequence[Status]) -> list[str]:
    return [
        f"Run {letter} is {status.work.state}: {' are '.join(status.spent)}."
        for letter, status in zip(_LETTERS, each, strict=True)
        if status.work.state != "finished"
    ]


def _changed(a: RunData, b: RunData, shared: int) -> Iterator[str]:
    alone = [len(run.pair_ids) * len(run.space.attributes) - shared for run in (a, b)]
    if any(alone):
        yield f"{shared:,} scores are in both; {alone[0]:,} are in A alone and {alone[1]:,} in B alone."
    if changed := changed_pairs(a, b):
        yield f"{number_of(changed, 'pair')} of one id have other texts in B than in A."
