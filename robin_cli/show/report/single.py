"""The report of a run that rates responses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from robin_cli.goals.found import View
from robin_cli.goals.own.compare import Comparison
from robin_cli.goals.rating import Rated
from robin_cli.goals.rows import own_of
from robin_cli.goals.scores import most_uncertain_first, score_table
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of
from robin_cli.run.reader import RunData
from robin_cli.show.report.page import (
    WORDS,
    Bar,
    Filter,
    Listing,
    Order,
    Sections,
    Tile,
    sections_of,
    thin_line,
)
from robin_cli.show.report.rated import agreement_tiles, rated_charts
from robin_cli.show.report.rows import texts_of_pairs
from robin_cli.stats.run_agreement import subjects
from robin_cli.stats.scores import Scores, interval_widths
from robin_cli.stats.summaries import Summary

_MOST_UNRATED = 0.5
"""Rows without a rating come first, as the least certain, unless so many are that of the others none would be seen."""

_NONE_HAS_TWO = "No pair has two ratings, so nothing is drawn of how they vary."


@sections_of.register
def _sections(found: Rated, view: View) -> Sections:
    run, scores = found.run, found.scores
    error = ": ".join(found.worst_text()[:2])
    varied = bool(run.fold.arms.n.max(initial=0) >= 2)
    return Sections(
        title=f"{', '.join(run.space.attributes)} of {number_of(len(run.pair_ids), 'pair')}",
        sure=[*found.asides, *([] if scores.decided is not None else [error])],
        headline=list(_headline(found)),
        warnings=[] if varied else [_NONE_HAS_TWO],
        charts=list(rated_charts(found)),
        listing=_listing(run, scores, view),
    )


@sections_of.register
def _of_systems(found: Comparison, view: View) -> Sections:
    return replace(_sections(found, view), systems_first=True)


def _headline(found: Rated) -> Iterator[Tile]:
    by_attribute = dict(subjects(found.run, [found.scores]))
    for (name, mine), mean in zip(by_attribute.items(), found.means, strict=True):
        yield _mean_line(
            f"mean {name}" if len(by_attribute) > 1 else "mean score", mine.scores, mean
        )
    yield found.worst_text()
    if not np.isnan(found.judge_spread):
        apart = f"standard deviation of the judges' means of one pair, noise taken out; {found.spread_over}"
        yield "between judges", found.error_text(found.judge_spread), apart
    yield from agreement_tiles(found.people)


def _mean_line(name: str, scores: FloatArray, mean: Summary) -> Tile:
    rated = scores[~np.isnan(scores)]
    value = "–" if np.isnan(mean.mean.value) else f"{mean.mean.value:.2f}"
    if not np.isnan(mean.mean.low):
        value += f" [{mean.mean.low:.2f}, {mean.mean.high:.2f}]"
    spread = f"{rated.std(ddof=1):.2f}" if len(rated) > 1 else "–"
    over = f"95 %, over {number_of(mean.prompts, 'prompt')}, {number_of(len(rated), 'score')}"
    return name, value, f"{over}; how scores differ: standard deviation {spread}"


def _listing(run: RunData, scores: Scores, view: View) -> Listing:
    scales, pair = run.manifest.scales, run.space.pair[scores.arm]
    table = score_table(scores, run, view)
    has_human = "human" in {column.name for column in table.shown(["human"])}
    along = f", {scales[0].low} to {scales[0].high}" if len(set(scales)) == 1 else ""
    ring = ", the ring the human rating" if has_human else ""
    return Listing(
        table,
        _orders(run, scores),
        Bar(
            f"A bar goes along the scale{along}: the thick line is the interval{thin_line(view)}, the stroke the score{ring}.",
            *("score", "95 %", "guaranteed" * view.guaranteed, "human" if has_human else ""),
            scales=[(scale.low, scale.high) for scale in scales],
        ),
        ("interval", "Score and interval on the scale. Sorts by how wide the interval is."),
        run.space.attribute[scores.arm],
        [
            Filter("likely wrong above 5 %", "likely wrong", "above", 0.05),
            Filter("variance above 1", "variance", "above", 1),
            Filter("variance 0", "variance", "is", 0),
            Filter("with unparsed answers", "unparsed", "above", 0),
            Filter("without a rating", "ratings", "is", 0),
            Filter("given up", "given up", "isnt", ""),
        ],
        lambda rows: texts_of_pairs(run, pair[rows]),
        WORDS["rate"],
        own_of(run, pair, view.show),
    )


def _orders(run: RunData, scores: Scores) -> dict[Order, FloatArray | None]:
    unit, widths = run.space.units[scores.arm], interval_widths(scores, run.space)
    unfinished = bool(np.isinf(widths).mean() > _MOST_UNRATED)
    orders: dict[Order, FloatArray | None] = {
        Order("widest interval", ("95 %",), 1, unknown_last=unfinished): np.where(
            np.isinf(widths) & unfinished, np.nan, widths
        ),
        Order("largest variance", ("variance",), 2): scores.numbers("variance") / unit**2,
    }
    apart = np.abs(scores.numbers("score") - scores.numbers("human")) / unit
    if not np.isnan(apart).all():
        orders[Order("furthest from human", ("score", "human"), 1)] = apart
    if scores.decided is not None:
        orders = {Order("most uncertain decision"): most_uncertain_first(scores), **orders}
    return orders | {Order("order of the data"): None}
