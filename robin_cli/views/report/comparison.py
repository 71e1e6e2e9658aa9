"""What the report of two runs shows, or of two systems: both side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from robin_cli.analysis.agreement import FEWEST_PROMPTS, agreement
from robin_cli.analysis.run_compare import compared, differing_in
from robin_cli.analysis.side_by_side import (
    SideBySide,
    changed_pairs,
    check_systems,
    prompts_side_by_side,
    shared_scales,
    side_by_side,
)
from robin_cli.goals.judges import judged_by
from robin_cli.model.arms import IntArray
from robin_cli.model.groups import name_of
from robin_cli.model.records import Scale, number_of
from robin_cli.results import charts
from robin_cli.results.charts import Chart, chart
from robin_cli.results.columns import SIDE_BY_SIDE
from robin_cli.results.tables import Column
from robin_cli.storage.reader import RunData
from robin_cli.views.report.page import Bar, Listing, Order, Page, Tile, View
from robin_cli.views.report.rows import Texts, texts_of_prompts, texts_of_shared
from robin_cli.views.report.systems import charts_of, headline_of
from robin_cli.views.status import spent_of_budget, standing

_BINS = 48
_LETTERS = ("A", "B")


@dataclass(frozen=True)
class _Sides:
    """Two runs side by side.

    Attributes:
        runs: A and B.
        scales: of the attributes that both rate, by name.
        rows: what both say of the same pairs, or prompts.
        things: which of these, in the plural.
        column: what names a row, and the names.
        texts: those of rows, see :class:`Listing`.
    """

    runs: tuple[RunData, RunData]
    scales: Mapping[str, Scale]
    rows: SideBySide
    things: str
    column: Column
    names: Sequence[str]
    texts: Callable[[IntArray], tuple[IntArray, Texts]]

    def by_attribute(self) -> Iterator[tuple[Scale, str, SideBySide]]:
        """Yield the scale of each attribute, what is said of it behind a name, and its rows."""
        each = list(self.rows.by_attribute())
        for place, mine in each:
            name = self.runs[0].space.attributes[place]
            yield self.scales[name], f" · {name}" if len(each) > 1 else "", mine


def comparison_of(a: RunData, b: RunData, *, working: tuple[bool, bool]) -> Page:
    """Return what the report of two runs shows: A, B, and A − B.

    Raises:
        InputError: they have no pair and no prompt in common, or rate on different scales; or other responses by other judges.
    """
    scales, differing = shared_scales(a, b), differing_in(a.manifest, b.manifest)
    rows, left_out = side_by_side(a, b), list[str]()
    if not len(rows):
        check_systems(a, b, differing)
    found = compared([a, b], left_out.append, as_they_are=True)
    if of_pairs := len(rows) > 0:
        ids = [a.pair_ids[pair] for pair in rows.what.tolist()]
        column = Column("pair_id", "The pair's id.", "id", "pair")
        sides = _Sides((a, b), scales, rows, "pairs", column, ids, texts_of_shared(a, b, rows.what))
    else:
        rows = prompts_side_by_side(found)
        prompts = [name_of(found.who.prompts[prompt]) for prompt in rows.what.tolist()]
        column = Column("prompt", "The prompt, with both answers.", "id")
        texts = texts_of_prompts(a, b, np.split(found.who.prompt, [len(a.pair_ids)]), found.who.prompts, rows.what)
        sides = _Sides((a, b), scales, rows, "prompts", column, prompts, texts)
    each = [standing(run, working=at) for run, at in zip((a, b), working, strict=True)]
    return Page(
        title="Two runs, pair by pair" if of_pairs else "Two systems, prompt by prompt",
        subtitle=f"A: {a.path}, {judged_by(a.manifest)} · B: {b.path}, {judged_by(b.manifest)}",
        headline=[*headline_of(found), *(_pair_headline(sides) if of_pairs else ())],
        warnings=[
            *_unfinished([status.facts for status in each]),
            *([f"A and B were not judged in the same way: {'; '.join(differing)}."] if differing else []),
            *left_out,
            *(_changed(sides) if of_pairs else ()),
        ],
        charts=[*charts_of(found), *_charts(sides, of_pairs=of_pairs)],
        facts={f"Run {letter}": status.lines for letter, status in zip(_LETTERS, each, strict=True)},
        listing=_listing(sides, of_pairs=of_pairs),
    )


def _listing(sides: _Sides, *, of_pairs: bool) -> Listing:
    rows, several = sides.rows, len(sides.runs[0].space.attributes) > 1
    names = np.array(sides.runs[0].space.attributes, dtype=object)[rows.attribute]
    values = {sides.column.name: sides.names, "a": rows.a, "b": rows.b, "difference": rows.difference}
    values |= {"attribute": names} if several else {}
    if of_pairs:
        values |= {"ci_low": rows.low, "ci_high": rows.high, "n_a": rows.n_a, "n_b": rows.n_b, "differ": rows.apart}
    reaches = [(scale.low - scale.high, scale.high - scale.low) for scale in sides.scales.values()]
    place = {name: number for number, name in enumerate(sides.scales)}
    drawn = "the line is the interval, the stroke the difference" if of_pairs else "its stroke is the difference"
    return Listing(
        SIDE_BY_SIDE.of(values, sides.column, html=[sides.column.name, *SIDE_BY_SIDE.html]),
        {
            Order("order of the data"): None,
            Order("largest A − B", ("A − B",), power=1): rows.difference,
            Order("largest difference", ("A", "B"), power=1): np.abs(rows.difference),
        },
        Bar(
            f"A bar has 0 in its middle and ends where A would be lower or higher by the whole scale: {drawn}.",
            *("A − B", "", "interval" if of_pairs else "", ""),
            scales=reaches,
        ),
        (
            "difference",
            "The difference and its interval; sorts by how wide that is." if of_pairs else "The difference.",
        ),
        [place[name] for name in names],
        [
            View("differ beyond noise", "differ", "is", "yes"),
            View("A higher", "A − B", "above", 0),
            View("B higher", "A − B", "below", 0),
        ],
        sides.texts,
    )


def _charts(sides: _Sides, *, of_pairs: bool) -> Iterator[Chart]:
    for scale, about, mine in sides.by_attribute():
        if of_pairs:
            panel = charts.against(mine.a, mine.b, ("score in A", "score in B"), scale)
            says = f"{charts.marks_of({'': panel})} On the dashed line both runs score them alike."
            yield chart(f"A against B{about}", says, panel)
        width = float(scale.high - scale.low)
        yield chart(
            f"Differences{about}",
            f"How many {sides.things} A scores higher (right of 0) or lower than B, and by how much.",
            charts.histogram(mine.difference, "A − B", (-width, width), sides.things, bins=_BINS),
        )


def _pair_headline(sides: _Sides) -> Iterator[Tile]:
    for scale, about, mine in sides.by_attribute():
        apart = f"of {len(mine):,}: their 95 % intervals of A − B leave 0 out, each for itself"
        yield f"pairs that differ beyond noise{about}", f"{int(mine.apart.sum()):,}", apart
        if not (np.isnan(mine.a) | np.isnan(mine.b)).all():
            found = agreement(mine.a, mine.b, sides.runs[0].prompts[mine.what], scale)
            rho = next(each for each in found if each.coefficient == "spearman")
            note = f"told from {FEWEST_PROMPTS} prompts up" if rho.n_prompts < FEWEST_PROMPTS else ""
            if not np.isnan(rho.ci_low):
                over = number_of(rho.n_prompts, "prompt")
                note = f"95 % interval [{rho.ci_low:.2f}, {rho.ci_high:.2f}], bootstrap over {over}"
            yield f"Spearman ρ of A and B{about}", "–" if np.isnan(rho.value) else f"{rho.value:.2f}", note


def _unfinished(facts: Sequence[dict[str, Any]]) -> list[str]:
    return [
        f"Run {letter} is {each['state']}: {' are '.join(spent_of_budget(each))}."
        for letter, each in zip(_LETTERS, facts, strict=True)
        if each["state"] != "finished"
    ]


def _changed(sides: _Sides) -> Iterator[str]:
    alone = sides.rows.alone
    if any(alone):
        yield f"{len(sides.rows):,} scores are in both; {alone[0]:,} are in A alone and {alone[1]:,} in B alone."
    if changed := changed_pairs(*sides.runs):
        yield f"{number_of(changed, 'pair')} of one id have other texts in B than in A."
