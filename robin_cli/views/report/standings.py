"""Pictures of systems that were ranked: who beats whom, and the ranking with how sure it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from robin_cli.analysis.ranking import Ranking
from robin_cli.model.arms import FloatArray
from robin_cli.model.records import number_of
from robin_cli.views.report.pictures import Draw, Picture, Theme, picture, title_of
from robin_cli.views.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_SYSTEMS = 20
"""Systems that are drawn; of more, the best."""
_FEW = 6
"""Systems of which a matrix is as wide as any other picture."""
_NAME = 24
_HEAD = 15
_WIDTH, _WIDE = 5.2, 9.5
_STRONGEST = 0.62
"""How much of the colour a cell has at most: numbers are read upon it."""
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
    rates, square = ranking.rates, np.ix_(shown, shown)
    rate, low, high = (each[square] for each in (rates.rate, rates.ci_low, rates.ci_high))
    is_wide = len(labels) > _FEW
    width = _WIDE if is_wide else _WIDTH
    height = max(2.2, min(9.0, 1.3 + 0.44 * len(labels)))
    empty = " An empty cell: no comparison of the two has a preference." if np.isnan(rate).sum() > len(labels) else ""
    return picture(
        "Who beats whom",
        "How often, in %, the system of the row is preferred to that of the column, each comparison once, a tie as half; "
        f"the best system is first. In bold where the 95 % interval over prompts leaves 50 out, each for itself.{empty}{rest}",
        _cells(labels, rate, (low > 0.5) | (high < 0.5), 10.0 if len(labels) <= 12 else 8.0),
        size=(width, height),
    )


def _cells(labels: Sequence[str], rate: FloatArray, settled: NDArray[np.bool_], letters: float) -> Draw:
    def draw(axes: Axes, theme: Theme) -> None:
        from matplotlib.colors import to_rgba

        worse, better = (to_rgba(theme.marks[at])[:3] for at in (1, 0))
        places = np.arange(len(labels))
        for row, column in zip(*np.nonzero(~np.isnan(rate)), strict=True):
            share = float(rate[row, column])
            strength = _STRONGEST * abs(2.0 * share - 1.0)
            axes.fill(
                column + np.array([-0.5, 0.5, 0.5, -0.5]),
                row + np.array([-0.5, -0.5, 0.5, 0.5]),
                color=(*(better if share > 0.5 else worse), strength),
                linewidth=0,
            )
            axes.text(
                column,
                row,
                f"{100 * share:.0f}",
                ha="center",
                va="center",
                fontsize=letters,
                fontweight="bold" if settled[row, column] else "normal",
                color=theme.ink,
            )
        for at in range(len(labels)):
            axes.text(at, at, "·", ha="center", va="center", color=theme.ink)
        few = len(labels) <= 3
        axes.set_xticks(
            places, labels, rotation=0 if few else 40, ha="center" if few else "right", rotation_mode="anchor"
        )
        axes.set_yticks(places, labels)
        axes.set(xlim=(-0.5, len(labels) - 0.5), ylim=(len(labels) - 0.5, -0.5), ylabel="preferred …", xlabel="… to")
        axes.tick_params(length=0)
        axes.grid(visible=False)
        for side in axes.spines.values():
            side.set_visible(False)

    return draw


def _ranking(labels: Sequence[str], ranking: Ranking, shown: Sequence[int], rest: str) -> Picture:
    values, low, high = (each[list(shown)] for each in (ranking.strength, ranking.ci_low, ranking.ci_high))
    ranks = [rank_text(ranking, system) for system in shown]
    controlled = "" if ranking.covariate is None else f", at equal {ranking.covariate.name}"

    def draw(axes: Axes, theme: Theme) -> None:
        places = np.arange(len(labels))
        axes.axvline(0.0, color=theme.ink, linewidth=1, linestyle="--")
        axes.hlines(places, low, high, color=theme.marks[0], linewidth=2)
        axes.plot(values, places, color=theme.marks[0], marker="o", linestyle="none")
        axes.set_yticks(places, labels)
        for place, text in enumerate(ranks):
            axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center", color=theme.ink)
        axes.text(1.02, -0.8, "ranks", transform=axes.get_yaxis_transform(), va="center", color=theme.ink, fontsize=8)
        axes.set(xlabel="strength", ylim=(len(labels) - 0.4, -1.1))
        axes.grid(visible=False, axis="y")

    return picture(
        "The ranking",
        f"Strengths by Bradley and Terry{controlled}, natural logarithms, 0 on average: a system that is 1 above another is "
        "preferred to it in 73 %, 2 above in 88 %. The lines are 95 % intervals over prompts, each for itself; on the right "
        "the ranks that are not ruled out, for each system with 95 %. From "
        f"{number_of(ranking.n_comparisons, 'comparison')} on {number_of(ranking.n_prompts, 'prompt')}.{rest}",
        draw,
        size=(_WIDTH, max(2.4, 1.0 + _LINE * len(labels))),
    )


def rank_text(ranking: Ranking, system: int) -> str:
    """The ranks that are not ruled out: "1", or "2–4"."""
    low, high = int(ranking.rank_low[system]), int(ranking.rank_high[system])
    return f"{low}" if low == high else f"{low}–{high}"
