"""What the report of a pairwise run shows: who is better, what the order does, comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow.compute as pc

from robin_cli.goals.comparisons import comparisons_of
from robin_cli.goals.preferences import Preferences
from robin_cli.goals.result import View
from robin_cli.goals.rows import further_columns
from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import shown as cut
from robin_cli.model.records import SYSTEM_COLUMNS, number_of
from robin_cli.policies.bradley_terry import PRIOR
from robin_cli.show.charts import Chart, chart, histogram, shares, under_one_another
from robin_cli.show.report.page import WORDS, Bar, Rows, Test, judged_by_each
from robin_cli.show.report.rating_charts import human_charts
from robin_cli.show.report.texts import texts_of_pairs
from robin_cli.show.text import one_line
from robin_cli.stats.pairwise import order_means
from robin_cli.stats.ranking import Ranking

MOST_SYSTEMS = 20
"""Systems that are drawn; of more, the best."""
_NAME = 32
_DRAWN, _HEAD = 24, 15  # letters of a name in a chart, and of its head if it is cut
_FEW = 6  # systems of which a matrix is as wide as any other chart
_MANY = 3  # systems from which on the clearness of all preferences together says little
_EVEN = 0.5
_LARGE = 0.25  # the order's effect that makes a preference of one half one of three quarters
_VIEWS: dict[str, Test] = {
    "likely wrong above 5 %": ("likely_wrong", pc.greater, 0.05),
    "certified": ("certified", pc.equal, True),
    "A preferred": ("preference", pc.greater, _EVEN),
    "B preferred": ("preference", pc.less, _EVEN),
    f"order's effect above {_LARGE:g}": ("order_effect", pc.greater, _LARGE),
    f"order's effect below -{_LARGE:g}": ("order_effect", pc.less, -_LARGE),
    "with unparsed answers": ("n_unparsed", pc.greater, 0),
    "without a verdict": ("n", pc.equal, 0),
    "given up": ("given_up", pc.not_equal, ""),
}


def title_of(result: Preferences) -> str:
    """Return what was compared."""
    criteria, names = result.run.manifest.criteria, result.ranked.names
    what = f"{len(names):,} systems" if names else number_of(len(result.matches), "comparison")
    if len(names) == 2:
        what = " against ".join(cut(name, _NAME) for name in names)
    by = f" by {criteria[0]}" if criteria else ""
    return f"{what}{by}, {number_of(int(np.unique(result.matches.prompt).size), 'prompt')}"


def sure_of(result: Preferences) -> Sequence[str]:
    """Return how sure the answer is."""
    return result.asides


def warnings_of(result: Preferences) -> list[str]:
    """Return warnings about the ranking, or the reason for its absence."""
    ranked, warnings = result.ranked, []
    if ranked.parts:
        warnings.append(f"There is no ranking: {ranked.why}.")
    if circle := ranked.circle_text:
        warnings.append(f"{circle[0].upper()}{circle[1:]}.")
    if ranked.ranking is not None and not ranked.ranking.is_bounded:
        warnings.append(
            "Some systems won, or lost, every comparison with some others, so that no strength is "
            f"large enough: strengths have {PRIOR:g} ties more in them for every two systems that "
            "were compared, and are too close together."
        )
    return warnings


def rows_of(result: Preferences, view: View) -> Rows:
    """Return the comparisons; the page opens with the least certain ones."""
    run, scores = result.run, result.scores
    table, by_order = comparisons_of(result, scores, view=view), order_means(run).mean(axis=2)
    first = {"a_first": by_order[:, 0], "b_first": by_order[:, 1]}
    names = {name: [cut(each, _NAME) for each in scores.columns[name]] for name in SYSTEM_COLUMNS}
    values = {name: table.data[name] for name in table.data.column_names}
    width = np.subtract(scores.columns["ci_high"], scores.columns["ci_low"])
    orders: dict[str, FloatArray | None] = {
        # those not asked, most of a large tournament, have the least to show
        "least certain": np.where(np.isfinite(width), width, np.nan),
        "most swayed by the order": np.abs(by_order[:, 0] - by_order[:, 1]),
    }
    if result.best is None or table.sort is None:
        orders["order of the data"] = None
    else:
        orders = {"most uncertain prompt": table.sort.key(), **orders}
    thin = ", the thin one the guaranteed interval" * view.guaranteed
    return Rows(
        table.with_values({**values, **names, **first}),
        Bar(
            heading="B … A",
            help="Preference and interval from 0, B is better, to 1, A is. Sorts by how wide the "
            "interval is.",
            says=f"A bar goes from B to A: the thick line is the interval{thin}, the stroke the "
            "preference, the mean over both orders.",
            tick="preference",
            scales=[(0.0, 1.0)],
            scale=[0] * len(table),
        ),
        orders,
        _VIEWS,
        lambda rows: texts_of_pairs(run, rows),
        WORDS["prefer"],
        further_columns(run, run.space.pair[scores.arm], [*view.show, *SYSTEM_COLUMNS]),
        judged_by_each(run, scores),
    )


def charts_of(result: Preferences) -> Iterator[Chart]:
    """Yield the ranking, the matrix of win rates, and how clear preferences are."""
    ranked = result.ranked
    if ranked.ranking is not None:
        yield from _ranking_charts(ranked.names, ranked.ranking, ranked.order)
    if len(ranked.names) < _MANY and not np.isnan(result.scores.numbers("preference")).all():
        yield _clearness(result)
    yield from human_charts(result)


def _ranking_charts(
    names: Sequence[str], ranking: Ranking, order: Sequence[int]
) -> Iterator[Chart]:
    drawn = list(order[:MOST_SYSTEMS])
    full = [one_line(names[system]) for system in drawn]
    labels = labels_of(full)
    written_out = dict(zip(labels, full, strict=True))
    rest = f" Of {len(order):,} systems these are the best {MOST_SYSTEMS}."
    rest *= len(order) > MOST_SYSTEMS
    p = f" That both are equal: p {ranking.p[tuple(order)]:.2g}." if len(order) == 2 else ""
    ends, ranks = (ranking.ci_low[drawn], ranking.ci_high[drawn]), []
    for system in drawn:
        low, high = int(ranking.rank_low[system]), int(ranking.rank_high[system])
        ranks.append(f"{low}" if low == high else f"{low}–{high}")
    yield chart(
        "How do the systems rank?",
        "Strengths by Bradley and Terry, natural logarithms, 0 on average: a system that is 1 above "
        "another is preferred to it in 73 %, 2 above in 88 %. The lines are 95 % intervals over "
        "prompts, each for itself; on the right the ranks that are not ruled out, for each system "
        f"with 95 %. From {number_of(ranking.n_comparisons, 'comparison')} on "
        f"{number_of(ranking.n_prompts, 'prompt')}.{p}{rest}",
        under_one_another(labels, ranking.strength[drawn], ends, "strength", ranks),
        size=(5.2, max(2.4, 1.0 + 0.3 * len(labels))),
        written_out=written_out,
    )
    rates = ranking.rates(drawn)
    is_settled = (rates.ci_low > _EVEN) | (rates.ci_high < _EVEN)
    empty = " An empty cell: no comparison of the two has a preference."
    empty *= bool(np.isnan(rates.rate).sum() > len(labels))
    yield chart(
        "Who beats whom?",
        "How often, in %, the system of the row is preferred to that of the column, each "
        "comparison once, a tie as half; the best system is first. In bold where the 95 % interval "
        f"over prompts leaves 50 out, each for itself.{empty}{rest}",
        shares(labels, rates.rate, is_settled, ("preferred …", "… to")),
        size=(9.5 if len(labels) > _FEW else 5.2, max(2.2, min(9.0, 1.3 + 0.44 * len(labels)))),
        written_out=written_out,
    )


def _clearness(result: Preferences) -> Chart:
    """Return the preferences: of two systems for the leader, else for the preferred response."""
    preference, order = result.scores.numbers("preference"), result.ranked.order
    if len(order) == 2:
        is_first = result.matches.system[:, 0] == order[0]
        values, start = np.where(is_first, preference, 1.0 - preference), 0.0
        leader = cut(result.ranked.names[order[0]], _NAME)
        says = f"How many comparisons prefer {leader}, and how clearly: at 1 always, at 0 never,"
        says += " both orders taken together."
    else:
        values, start = np.maximum(preference, 1.0 - preference), _EVEN
        says = "How clearly comparisons prefer one response, both orders taken together: at 1 "
        says += "always the same, at 0.5 neither, or each response where it comes first."
    panel = histogram(values, "preference", (start, 1.0), "comparisons")
    return chart("How clear are the preferences?", says, panel)


def labels_of(names: Sequence[str]) -> list[str]:
    """Return names cut to the width of a chart, but distinct."""
    short = [
        f"{name[:_HEAD]}…{name[_HEAD + 1 - _DRAWN :]}"
        if len(name) > _DRAWN
        else name.strip() or "(no name)"
        for name in map(one_line, names)
    ]
    return [
        f"{label} ({at})" if short.count(label) > 1 else label for at, label in enumerate(short, 1)
    ]
