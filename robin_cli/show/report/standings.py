"""The systems of a pairwise run in a report: who leads, the matrix of win rates, the ranking."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from robin_cli.model.errors import shown as cut
from robin_cli.model.records import number_of
from robin_cli.policies.bradley_terry import PRIOR
from robin_cli.show.charts import Chart, chart, shares, under_one_another
from robin_cli.show.report.page import Tile
from robin_cli.show.text import one_line
from robin_cli.stats.pairwise import Ranked
from robin_cli.stats.ranking import Ranking

NAME = 32
"""Letters of a name."""
MOST_SYSTEMS = 20
"""Systems that are drawn; of more, the best."""
_FEW = 6
"""Systems of which a matrix is as wide as any other picture."""
_DRAWN = 24
_HEAD = 15
_WIDTH, _WIDE = 5.2, 9.5
_LINE = 0.3
"""Inches of a system's line in the ranking."""


def leaders(ranked: Ranked) -> list[Tile]:
    """Return who leads, and how sure that is."""
    ranking = ranked.ranking
    if ranking is None:
        return [("leading", "–", ranked.why)]
    best, second = ranked.order[:2]
    names = [cut(ranked.names[system], NAME) for system in (best, second)]
    over = number_of(ranking.n_prompts, "prompt")
    rate, low, high = (
        100 * float(each[best]) for each in (ranking.win_rate, ranking.win_low, ranking.win_high)
    )
    who = "none" if ranking.rank[best] == ranking.rank[second] else names[0]
    interval = (
        f"95 % interval {low:.1f} to {high:.1f} %"
        if not np.isnan(low)
        else f"{over} says nothing of others"
    )
    if len(ranked.names) == 2:
        is_settled = int(ranking.rank_high[best]) == 1
        verdict = "it is better" if is_settled else "which of the two is better is not settled"
        return [
            ("leading", who, f"{verdict}; p {ranking.p[best, second]:.2g}"),
            (f"preferred to {names[1]}", f"{rate:.1f} %", f"{interval}, over {over}"),
        ]
    candidates = 1 if ranking.rank_high[best] == 1 else int((ranking.rank_low == 1).sum())
    not_out = "it is the best" if candidates == 1 else f"{candidates:,} systems may be the best"
    return [
        ("leading", who, f"ranks not ruled out: {rank_text(ranking, best)}; {not_out}"),
        ("preferred to another system", f"{rate:.1f} %", f"{names[0]}; {interval}"),
    ]


def warnings_on(ranked: Ranked) -> list[str]:
    """Return warnings about the ranking, or the reason for its absence."""
    told = []
    if ranked.parts:
        told.append(f"There is no ranking: {ranked.why}.")
    if circle := ranked.circle_text:
        told.append(f"{circle[0].upper()}{circle[1:]}.")
    if ranked.ranking is not None and not ranked.ranking.is_bounded:
        told.append(
            "Some systems won, or lost, every comparison with some others, so that no strength is large enough: strengths have "
            f"{PRIOR:g} ties more in them for every two systems that were compared, and are too close together."
        )
    return told


def charts_of(names: Sequence[str], ranking: Ranking, order: Sequence[int]) -> Iterator[Chart]:
    """Yield the matrix of win rates and the ranking, the best first.

    Args:
        names: of the systems, by number.
        order: the systems by number, the best first.
    """
    shown = list(order[:MOST_SYSTEMS])
    labels = labels_of([names[system] for system in shown])
    written_out = {
        label: one_line(names[system]) for label, system in zip(labels, shown, strict=True)
    }
    rest = (
        f" Of {len(order):,} systems these are the best {MOST_SYSTEMS}."
        if len(order) > MOST_SYSTEMS
        else ""
    )
    values, low, high = (
        each[shown] for each in (ranking.strength, ranking.ci_low, ranking.ci_high)
    )
    ranks = [rank_text(ranking, system) for system in shown]
    yield chart(
        "How do the systems rank?",
        f"Strengths by Bradley and Terry, natural logarithms, 0 on average: a system that is 1 above another is "
        "preferred to it in 73 %, 2 above in 88 %. The lines are 95 % intervals over prompts, each for itself; on the right "
        "the ranks that are not ruled out, for each system with 95 %. From "
        f"{number_of(ranking.n_comparisons, 'comparison')} on {number_of(ranking.n_prompts, 'prompt')}.{rest}",
        under_one_another(labels, values, (low, high), "strength", ranks),
        size=(_WIDTH, max(2.4, 1.0 + _LINE * len(labels))),
        written_out=written_out,
    )
    rates = ranking.rates(shown)
    empty = " An empty cell: no comparison of the two has a preference."
    yield chart(
        "Who beats whom?",
        "How often, in %, the system of the row is preferred to that of the column, each comparison once, a tie as half; "
        "the best system is first. In bold where the 95 % interval over prompts leaves 50 out, each for itself."
        f"{empty * bool(np.isnan(rates.rate).sum() > len(labels))}{rest}",
        shares(
            labels,
            rates.rate,
            (rates.ci_low > 0.5) | (rates.ci_high < 0.5),
            ("preferred …", "… to"),
        ),
        size=(
            _WIDE if len(labels) > _FEW else _WIDTH,
            max(2.2, min(9.0, 1.3 + 0.44 * len(labels))),
        ),
        written_out=written_out,
    )


def labels_of(names: Sequence[str]) -> list[str]:
    """Return names cut to the width of a chart, but distinct."""
    short = []
    for name in map(one_line, names):
        fits = len(name) <= _DRAWN
        short.append(
            name.strip() or "(no name)" if fits else f"{name[:_HEAD]}…{name[_HEAD + 1 - _DRAWN :]}"
        )
    return [
        f"{label} ({at})" if short.count(label) > 1 else label for at, label in enumerate(short, 1)
    ]


def rank_text(ranking: Ranking, system: int) -> str:
    """Return the ranks that are not ruled out: "1", or "2–4"."""
    low, high = int(ranking.rank_low[system]), int(ranking.rank_high[system])
    return f"{low}" if low == high else f"{low}–{high}"
