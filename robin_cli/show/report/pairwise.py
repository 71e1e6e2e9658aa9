"""The report of a pairwise run: who is better, how sure that is, the effect of order, and each comparison with texts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from robin_cli.goals.comparisons import comparisons_of
from robin_cli.goals.found import View
from robin_cli.goals.preferences import Preferences
from robin_cli.goals.rows import own_of
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import shown as cut
from robin_cli.model.records import SYSTEM_COLUMNS, number_of
from robin_cli.run.reader import RunData
from robin_cli.show.charts import Chart, chart, histogram
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
from robin_cli.show.report.rated import agreement_tiles, human_charts
from robin_cli.show.report.rows import texts_of_pairs
from robin_cli.show.report.standings import NAME, charts_of, leaders, warnings_on
from robin_cli.stats.pairwise import order_means

_MANY = 3
"""Systems, from which on it says little how clear the preferences of all are together."""
_EVEN = 0.5
_LARGE = 0.25
"""An order's effect by which a response that would be preferred in half of all cases is so in three quarters."""


@sections_of.register
def _sections(found: Preferences, view: View) -> Sections:
    return Sections(
        title=_title(found.run, found),
        sure=found.asides,
        headline=_headline(found),
        warnings=warnings_on(found.ranked),
        charts=list(_charts(found)),
        listing=_listing(found.run, found, view),
    )


def _title(run: RunData, found: Preferences) -> str:
    by = f" by {run.manifest.criteria[0]}" if run.manifest.criteria else ""
    names = found.ranked.names
    prompts = number_of(int(np.unique(found.matches.prompt).size), "prompt")
    if len(names) == 2:
        return f"{cut(names[0], NAME)} against {cut(names[1], NAME)}{by}, {prompts}"
    if names:
        return f"{len(names):,} systems{by}, {prompts}"
    return f"{number_of(len(found.matches), 'comparison')}{by}, {prompts}"


def _headline(found: Preferences) -> list[Tile]:
    asked = found.compared
    partly = f"; {asked.partly:,} in part" if asked.partly else ""
    return [
        *leaders(found.ranked),
        *_order_lines(found),
        ("compared", f"{asked.whole:,} of {asked.comparisons:,}", f"asked in both orders{partly}"),
        *_tie_line(found),
        *agreement_tiles(found.people),
    ]


def _order_lines(found: Preferences) -> Iterator[Tile]:
    for judge, each in zip(found.run.manifest.judges, found.order_effects, strict=True):
        name = (
            f"the order's effect · {cut(judge, NAME)}"
            if len(found.order_effects) > 1
            else "the order's effect"
        )
        if not each.n:
            yield name, "–", "no comparison has verdicts in both orders"
            continue
        place = "the first place helps" if each.effect > 0 else "the second place helps"
        if each.ci_low <= 0 <= each.ci_high:
            place = "it cannot be told from 0"
        interval = f"95 % interval {each.ci_low:+.3f} to {each.ci_high:+.3f}"
        between = f"on average the first is preferred in {100 * (_EVEN + each.effect):.0f} %"
        yield name, f"{each.effect:+.3f}", f"{place}; {interval}; {between}"


def _tie_line(found: Preferences) -> list[Tile]:
    ties, n = (int(np.sum(found.scores.columns[name])) for name in ("n_ties", "n"))
    return (
        [("ties", f"{100 * ties / n:.0f} %", f"{ties:,} of {n:,} verdicts; each counts half")]
        if ties
        else []
    )


def _charts(found: Preferences) -> Iterator[Chart]:
    ranked = found.ranked
    if ranked.ranking is not None:
        yield from charts_of(ranked.names, ranked.ranking, ranked.order)
    if len(ranked.names) < _MANY and not np.isnan(found.scores.numbers("preference")).all():
        yield _clearness(found)
    yield from human_charts(found)


def _clearness(found: Preferences) -> Chart:
    """Return the preferences: of two systems for the leader, else for the preferred response."""
    preference = found.scores.numbers("preference")
    if len(found.ranked.order) == 2:
        best = found.ranked.order[0]
        values = np.where(found.matches.system[:, 0] == best, preference, 1.0 - preference)
        who, start = cut(found.ranked.names[best], NAME), 0.0
        says = f"How many comparisons prefer {who}, and how clearly: at 1 always, at 0 never, both orders taken together."
    else:
        values, start = np.maximum(preference, 1.0 - preference), _EVEN
        says = (
            "How clearly comparisons prefer one response, both orders taken together: at 1 always the same, at 0.5 neither, "
            "or each response where it comes first."
        )
    return chart(
        "How clear are the preferences?",
        says,
        histogram(values, "preference", (start, 1.0), "comparisons"),
    )


def _listing(run: RunData, found: Preferences, view: View) -> Listing:
    table, by_order = comparisons_of(found, found.scores, view=view), order_means(run).mean(axis=2)
    of = {name: np.asarray(values) for name, values in found.scores.columns.items()}
    names = {name: [cut(each, NAME) for each in of[name]] for name in SYSTEM_COLUMNS}
    values = {name: table.data[name] for name in table.data.column_names} | names
    orders: dict[Order, FloatArray | None] = {
        # Those that were not asked, most of a large tournament, have the least to show.
        Order("least certain", ("95 %",), 1, unknown_last=True): of["ci_high"] - of["ci_low"],
        Order("most swayed by the order", ("A first", "B first"), 1): np.abs(
            by_order[:, 0] - by_order[:, 1]
        ),
    }
    if found.best is None or table.sort is None:
        orders[Order("order of the data")] = None
    else:
        orders = {Order("most uncertain prompt"): table.sort.key(), **orders}
    return Listing(
        table.of({**values, "a_first": by_order[:, 0], "b_first": by_order[:, 1]}),
        orders,
        Bar(
            f"A bar goes from B to A: the thick line is the interval{thin_line(view)}, the stroke the preference, the mean "
            "over both orders.",
            *("A preferred", "95 %", "guaranteed" * view.guaranteed, ""),
            scales=[(0.0, 1.0)],
        ),
        (
            "B … A",
            "Preference and interval from 0, B is better, to 1, A is. Sorts by how wide the interval is.",
        ),
        [0] * len(table),
        [
            Filter("likely wrong above 5 %", "likely wrong", "above", 0.05),
            Filter("certified", "certified", "is", "yes"),
            Filter("A preferred", "A preferred", "above", _EVEN),
            Filter("B preferred", "A preferred", "below", _EVEN),
            Filter(f"order's effect above {_LARGE:g}", "order ±", "above", _LARGE),
            Filter(f"order's effect below -{_LARGE:g}", "order ±", "below", -_LARGE),
            Filter("with unparsed answers", "unparsed", "above", 0),
            Filter("without a verdict", "verdicts", "is", 0),
            Filter("given up", "given up", "isnt", ""),
        ],
        lambda rows: texts_of_pairs(run, rows),
        WORDS["prefer"],
        own_of(run, run.space.pair[found.scores.arm], [*view.show, *SYSTEM_COLUMNS]),
    )
