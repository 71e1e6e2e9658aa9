"""Pictures of systems that were ranked: who beats whom, and the ranking with how sure it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from robin_cli.analysis.ranking import Ranking
from robin_cli.model.records import number_of
from robin_cli.views.report import pictures
from robin_cli.views.report.pictures import Picture, picture, title_of
from robin_cli.views.text import one_line

MOST_SYSTEMS = 20
"""Systems that are drawn; of more, the best."""
_FEW = 6
"""Systems of which a matrix is as wide as any other picture."""
_NAME = 24
_HEAD = 15
_WIDTH, _WIDE = 5.2, 9.5
_LINE = 0.3
"""Inches of a system's line in the ranking."""


def pictures_of(names: Sequence[str], ranking: Ranking, order: Sequence[int]) -> list[Picture]:
    """The matrix of win rates and the ranking, the best first.

    Args:
        names: of the systems, by number.
        order: the systems by number, the best first.
    """
    shown = list(order[:MOST_SYSTEMS])
    labels = labels_of([names[system] for system in shown])
    rest = f" Of {len(order):,} systems these are the best {MOST_SYSTEMS}." if len(order) > MOST_SYSTEMS else ""
    return [_matrix(labels, ranking, shown, rest), _ranking(labels, ranking, shown, rest)]


def labels_of(names: Sequence[str]) -> list[str]:
    """Names as a picture has room for them, each another."""
    short = []
    for name in map(one_line, names):
        fits = len(name) <= _NAME
        short.append(name.strip() or "(no name)" if fits else f"{name[:_HEAD]}…{name[_HEAD + 1 - _NAME :]}")
    return [title_of(f"{label} ({at})" if short.count(label) > 1 else label) for at, label in enumerate(short, 1)]


def _matrix(labels: Sequence[str], ranking: Ranking, shown: Sequence[int], rest: str) -> Picture:
    rates = ranking.rates(shown)
    rate, low, high = rates.rate, rates.ci_low, rates.ci_high
    is_wide = len(labels) > _FEW
    width = _WIDE if is_wide else _WIDTH
    height = max(2.2, min(9.0, 1.3 + 0.44 * len(labels)))
    empty = " An empty cell: no comparison of the two has a preference." if np.isnan(rate).sum() > len(labels) else ""
    return picture(
        "Who beats whom",
        "How often, in %, the system of the row is preferred to that of the column, each comparison once, a tie as half; "
        f"the best system is first. In bold where the 95 % interval over prompts leaves 50 out, each for itself.{empty}{rest}",
        pictures.matrix(labels, rate, (low > 0.5) | (high < 0.5), 10.0 if len(labels) <= 12 else 8.0),
        size=(width, height),
    )


def _ranking(labels: Sequence[str], ranking: Ranking, shown: Sequence[int], rest: str) -> Picture:
    values, low, high = (each[list(shown)] for each in (ranking.strength, ranking.ci_low, ranking.ci_high))
    ranks = [rank_text(ranking, system) for system in shown]
    controlled = "" if ranking.covariate is None else f", at equal {ranking.covariate.name}"

    return picture(
        "The ranking",
        f"Strengths by Bradley and Terry{controlled}, natural logarithms, 0 on average: a system that is 1 above another is "
        "preferred to it in 73 %, 2 above in 88 %. The lines are 95 % intervals over prompts, each for itself; on the right "
        "the ranks that are not ruled out, for each system with 95 %. From "
        f"{number_of(ranking.n_comparisons, 'comparison')} on {number_of(ranking.n_prompts, 'prompt')}.{rest}",
        pictures.whiskers(labels, (values, low, high), ranks, "strength"),
        size=(_WIDTH, max(2.4, 1.0 + _LINE * len(labels))),
    )


def rank_text(ranking: Ranking, system: int) -> str:
    """The ranks that are not ruled out: "1", or "2–4"."""
    low, high = int(ranking.rank_low[system]), int(ranking.rank_high[system])
    return f"{low}" if low == high else f"{low}–{high}"
