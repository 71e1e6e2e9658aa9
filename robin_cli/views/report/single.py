"""What the report of a run shows that rates responses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from robin_cli.analysis.run_agreement import Subject, all_scores, subjects
from robin_cli.analysis.scores import Scores, likely_widths
from robin_cli.goals import rated_words as words
from robin_cli.goals.decided import OPEN, decided_text
from robin_cli.goals.rated import Rated
from robin_cli.goals.tables.scores import score_table
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of
from robin_cli.results.words import WORST
from robin_cli.storage.reader import RunData
from robin_cli.views.report.page import WORDS, Bar, Listing, Order, Sections, Tile, View, sections_of, spending
from robin_cli.views.report.rated import rated_charts
from robin_cli.views.report.rows import texts_of_pairs

_MOST_UNRATED = 0.5
"""Rows without a rating come first, as the least certain, unless so many are that of the others none would be seen."""

_NONE_HAS_TWO = "No pair has two ratings, so nothing is drawn of how they vary."


@sections_of.register
def _sections(found: Rated, facts: Mapping[str, Any]) -> Sections:
    run, scores = found.run, found.scores
    varied = bool(run.fold.arms.counts.max(initial=0) >= 2)
    return Sections(
        title=f"{', '.join(facts['attributes'])} of {number_of(facts['pairs'], 'pair')}",
        headline=list(_headline(facts, dict(subjects(run, [scores])))),
        warnings=[] if varied else [_NONE_HAS_TWO],
        charts=list(rated_charts(run, facts, *all_scores(run, scores))),
        listing=_listing(run, scores),
        further={"paper's bound": words.paper_line(facts)},
    )


def _headline(facts: Mapping[str, Any], by_attribute: Mapping[str, Subject]) -> Iterator[Tile]:
    single = " of single judges" if len(facts["judges"]) > 1 else ""  # as in the picture
    for name, mine in by_attribute.items():
        yield _mean_line(f"mean {name}" if len(by_attribute) > 1 else "mean score", mine.scores)
    if (found := facts["decisions"]) is not None:
        yield "decided", f"{found['certified']:,} of {found['of']:,}", decided_text(found)
    calls, *rest = spending(facts, "rating")
    yield calls
    yield WORST, *words.worst_of(facts)
    yield (
        "error bound",
        f"± {words.error_of(facts, facts['error_bound'])}",
        f"no score{single} is further from {words.whose(facts)} mean, with 95 % confidence for all at once",
    )
    yield from rest
    if facts["judge_spread"] is not None:
        apart = f"standard deviation of the judges' means of one pair, noise taken out; {words.spread_over(facts)}"
        yield "between judges", words.error_of(facts, facts["judge_spread"]), apart
    for attribute, each in facts["agreement"].items():
        rho = each["spearman"]
        value = "–" if rho["value"] is None else f"{rho['value']:z.2f}"
        over = f"95 % interval {words.range_of(rho)}, bootstrap over {number_of(rho['n_prompts'], 'prompt')}"
        yield f"Spearman ρ with human {attribute}", value, rho["why"] or over


def _mean_line(name: str, scores: FloatArray) -> Tile:
    rated = scores[~np.isnan(scores)]
    mean = f"{rated.mean():.2f}" if len(rated) else "–"
    spread = f"{rated.std(ddof=1):.2f}" if len(rated) > 1 else "–"
    return name, mean, f"over {number_of(len(rated), 'score')}; how they differ: standard deviation {spread}"


def _listing(run: RunData, scores: Scores) -> Listing:
    table, scales, pair = score_table(scores, run, sort="width"), run.manifest.scales, run.space.pair[scores.arm]
    has_human = "human" in {column.name for column in table.shown(["human"])}
    along = f", {scales[0].low} to {scales[0].high}" if len(set(scales)) == 1 else ""
    ring = ", the ring the human rating" if has_human else ""
    return Listing(
        table,
        _orders(run, scores),
        Bar(
            f"A bar goes along the scale{along}: the thick line is the likely interval, the thin one the guaranteed, "
            f"the stroke the score{ring}.",
            *("score", "likely", "guaranteed", "human" if has_human else ""),
            scales=[(scale.low, scale.high) for scale in scales],
        ),
        ("interval", "Score and intervals on the scale. Sorts by how wide the likely interval is."),
        run.space.attribute[scores.arm],
        [
            View("open decisions", "decision", "ends", OPEN),
            View("variance above 1", "variance", "above", 1),
            View("variance 0", "variance", "is", 0),
            View("with unparsed answers", "unparsed", "above", 0),
            View("without a rating", "ratings", "is", 0),
            View("given up", "given up", "isnt", ""),
        ],
        lambda rows: texts_of_pairs(run, pair[rows]),
        WORDS["rate"],
    )


def _orders(run: RunData, scores: Scores) -> dict[Order, FloatArray | None]:
    unit, widths = run.space.units[scores.arm], likely_widths(scores, run.space)
    unfinished = bool(np.isinf(widths).mean() > _MOST_UNRATED)
    orders: dict[Order, FloatArray | None] = {
        Order("widest likely interval", ("likely",), 1, unknown_last=unfinished): np.where(
            np.isinf(widths) & unfinished, np.nan, widths
        ),
        Order("largest variance", ("variance",), 2): scores.numbers("variance") / unit**2,
    }
    apart = np.abs(scores.numbers("score") - scores.numbers("human")) / unit
    if not np.isnan(apart).all():
        orders[Order("furthest from human", ("score", "human"), 1)] = apart
    return orders | {Order("order of the data"): None}
