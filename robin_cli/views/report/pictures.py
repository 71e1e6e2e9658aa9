"""The pictures of a report: each drawn by matplotlib for light and for dark, as SVG."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.records import Scale
from robin_cli.render.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis

_SIZE = (5.2, 3.6)
"""Inches."""
_PANEL_HEIGHT = 1.8
_SQUARE = 2.6
SAME_EACH_TIME: Any = {"svg.hashsalt": "robin"}
"""By which a drawing of the same figures is the same file."""
MANY = 1500
"""More marks than these are drawn as one bitmap in the picture."""
_CELLS = 28
"""Cells from end to end where a density is drawn."""
_TITLE = 68
"""Letters of a title that one line holds."""
_FEW_MARKS = 5.0
"""An axis that ends at less than so many times its beginning has hardly one of 1, 2, 5, 10, … on it."""
_FEW = 12
"""Up to so many marks each has its number beside it."""


_STRONGEST = 0.62
"""How much of the colour a cell has at most: numbers are read upon it."""


@dataclass(frozen=True, slots=True)
class Theme:
    """Colours that can be told apart on their ground, by people who do not see red and green apart as well."""

    ink: str
    faint: str
    marks: tuple[str, ...]

    @property
    def colours(self) -> tuple[str, ...]:
        """All of them."""
        return self.ink, self.faint, *self.marks


LIGHT = Theme("#24292f", "#d0d7de", ("#0b62c4", "#c4520b", "#1a7f37", "#8250df", "#6e7781"))
DARK = Theme("#e6edf3", "#3d444d", ("#6cb6ff", "#f0883e", "#57ab5a", "#b083f0", "#909dab"))

Draw = Callable[["Axes", Theme], None]


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as data addresses for light and dark, with what it shows in words."""

    title: str
    says: str
    light: str
    dark: str
    wide: bool = False


def picture(
    title: str,
    says: str,
    draw: Draw | Mapping[str, Draw],
    *,
    square: bool = False,
    size: tuple[float, float] = _SIZE,
) -> Picture:
    """Draw a picture in both themes; ``says`` is read out in its place, and stands below it.

    ``draw``: one panel, or several under one another, each with its name; two a line where they are ``square``. ``size``: width
    and height at least; wider than usual it has the page to itself.
    """
    panels = draw if isinstance(draw, Mapping) else {"": draw}
    light = _svg(panels, LIGHT, size, square=square)
    # to draw it takes a hundred times as long as to change its colours, but those of a bitmap
    dark = _svg(panels, DARK, size, square=square) if "<image" in light else _darkened(light)
    return Picture(title, says, _address(light), _address(dark), wide=size[0] > _SIZE[0])


def small_multiples(names: Iterable[str], draw: Callable[[str], Draw]) -> Draw | dict[str, Draw]:
    """A panel for each name; one alone needs none."""
    panels = {name: draw(name) for name in dict.fromkeys(names)}
    return panels if len(panels) > 1 else next(iter(panels.values()))


def allocation(counts: FloatArray, variances: FloatArray, evenly: float, most: tuple[float, float]) -> Draw:
    """Ratings against their variance, arm by arm; arms with fewer than two ratings have none.

    ``most``: of variance and of ratings, where the axes end.
    """

    def draw(axes: Axes, theme: Theme) -> None:
        mine = ~np.isnan(variances)
        _dots(axes, variances[mine], counts[mine], theme)
        axes.axhline(evenly, color=theme.ink, linewidth=1, linestyle="--")
        widest, highest = most
        axes.set(xlabel="variance of a pair's ratings", ylabel="ratings")
        axes.set(xlim=(-0.03 * widest, 1.03 * widest), ylim=(0, 1.05 * highest))

    return draw


def course(
    calls: IntArray, run: FloatArray, evenly: FloatArray, label: str, also: tuple[str, FloatArray] | None = None
) -> Draw:
    """A measure of the run against ratings, and that of an even spread; ``also``: another of the run, and its name."""

    def draw(axes: Axes, theme: Theme) -> None:
        axes.plot(calls, run, color=theme.marks[0], marker="o", markersize=3, label="this run")
        if also is not None:
            axes.plot(calls, also[1], color=theme.marks[0], linestyle=":", label=also[0])
        axes.plot(calls, evenly, color=theme.marks[1], linestyle="--", label="even spread (projected)")
        axes.set(xlabel="ratings (log scale)", ylabel=label, xscale="log")
        log_axis(axes.xaxis)
        axes.set_ylim(0, None)
        axes.legend(frameon=False, fontsize=8, labelcolor=theme.ink)

    return draw


def histogram(values: FloatArray, label: str, bins: FloatArray, things: str = "pairs") -> Draw:
    """How many ``things`` have which value."""

    def draw(axes: Axes, theme: Theme) -> None:
        axes.hist(values[~np.isnan(values)], bins=list(bins), color=theme.marks[0], alpha=0.8)
        axes.set(xlabel=label, ylabel=things)

    return draw


def against(x: FloatArray, y: FloatArray, names: tuple[str, str], scale: Scale, *, jitter: float = 0.0) -> Draw:
    """One score against another, with the line on which both are equal; the density of them where they are many.

    ``jitter``, a share of the scale, spreads what would hide one another. What is off the scale is drawn, too.
    """

    def draw(axes: Axes, theme: Theme) -> None:
        from matplotlib.ticker import MaxNLocator

        both = ~(np.isnan(x) | np.isnan(y))
        width = scale.high - scale.low
        spread = np.random.default_rng(0).uniform(-jitter * width, jitter * width, int(both.sum()))
        margin = 0.03 * width + jitter * width
        low = min(scale.low, x[both].min(initial=scale.low)) - margin
        high = max(scale.high, x[both].max(initial=scale.high)) + margin
        ends = (scale.low - margin, scale.high + margin)
        if is_dense(x, y):
            _density(axes, x[both] + spread, y[both], (low, high, *ends), theme)
        else:
            _dots(axes, x[both] + spread, y[both], theme)
        axes.plot([scale.low, scale.high], [scale.low, scale.high], color=theme.ink, linewidth=1, linestyle="--")
        axes.set(xlabel=title_of(names[0]), ylabel=title_of(names[1]), xlim=(low, high), ylim=ends)
        if (low, high) == ends:
            axes.set_aspect("equal")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))

    return draw


def is_dense(x: FloatArray, y: FloatArray) -> bool:
    """Whether :func:`against` draws the density of the marks, and not each."""
    return int((~(np.isnan(x) | np.isnan(y))).sum()) > MANY


def marks_of(dense: Mapping[str, bool]) -> str:
    """What the marks of :func:`against` are, in words; ``dense``: whether each panel is, by its name."""
    if not any(dense.values()):
        return "Each mark is a pair."
    if all(dense.values()):
        return "The stronger the colour, the more pairs."
    each = ", ".join(name for name, is_it in dense.items() if not is_it)
    return f"The stronger the colour, the more pairs; of {each} each mark is a pair."


def intervals(rows: Mapping[str, tuple[float, float, float]], label: str) -> Draw:
    """A value with the ends of its interval for each name, one under another, and the line at 0."""

    def draw(axes: Axes, theme: Theme) -> None:
        places = np.arange(len(rows))
        values, low, high = (np.array(each, dtype=np.float64) for each in zip(*rows.values(), strict=True))
        axes.axvline(0.0, color=theme.ink, linewidth=1, linestyle="--")
        axes.hlines(places, low, high, color=theme.marks[0], linewidth=2)
        axes.plot(values, places, color=theme.marks[0], marker="o", linestyle="none")
        for place, value in enumerate(values):
            axes.annotate(
                f"{value:+.2f}", (value, place), xytext=(0, 6), textcoords="offset points", ha="center", color=theme.ink
            )
        axes.set_yticks(places, [title_of(name) for name in rows])
        axes.set(xlabel=label, ylim=(len(rows) - 0.5, -0.7))
        axes.grid(visible=False, axis="y")

    return draw


def matrix(labels: Sequence[str], rate: FloatArray, settled: NDArray[np.bool_], letters: float) -> Draw:
    """A share for each row and column, in %, coloured by which side of a half it is; in bold where it is ``settled``."""

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


def whiskers(
    labels: Sequence[str], values: tuple[FloatArray, FloatArray, FloatArray], ranks: Sequence[str], label: str
) -> Draw:
    """Values with the ends of their intervals, one under another, and on the right the ranks of each."""
    value, low, high = values

    def draw(axes: Axes, theme: Theme) -> None:
        places = np.arange(len(labels))
        axes.axvline(0.0, color=theme.ink, linewidth=1, linestyle="--")
        axes.hlines(places, low, high, color=theme.marks[0], linewidth=2)
        axes.plot(value, places, color=theme.marks[0], marker="o", linestyle="none")
        axes.set_yticks(places, labels)
        for place, text in enumerate(ranks):
            axes.text(1.02, place, text, transform=axes.get_yaxis_transform(), va="center", color=theme.ink)
        axes.text(1.02, -0.8, "ranks", transform=axes.get_yaxis_transform(), va="center", color=theme.ink, fontsize=8)
        axes.set(xlabel=label, ylim=(len(labels) - 0.4, -1.1))
        axes.grid(visible=False, axis="y")

    return draw


def calibration(levels: Sequence[Mapping[str, Any]], names: tuple[str, str], scale: Scale) -> Draw:
    """The mean human rating of each level, or bin of levels, with its interval and how many pairs have it.

    On the line both are equal. ``levels``: those of one attribute in the status of a run.
    """

    def draw(axes: Axes, theme: Theme) -> None:
        ends = [scale.low, scale.high]
        axes.plot(ends, ends, color=theme.ink, linewidth=1, linestyle="--")
        score, human = ([each[name] for each in levels] for name in ("mean_score", "mean_human"))
        known = [each for each in levels if each["ci_low"] is not None]
        axes.vlines(
            [each["mean_score"] for each in known],
            [each["ci_low"] for each in known],
            [each["ci_high"] for each in known],
            color=theme.marks[0],
        )
        axes.plot(score, human, color=theme.marks[0], marker="o", linestyle="none", fillstyle="none")
        axes.plot(
            [each["mean_score"] for each in known],
            [each["mean_human"] for each in known],
            color=theme.marks[0],
            marker="o",
            linestyle="none",
        )
        if len(levels) <= _FEW:
            for each in levels:
                place = (each["mean_score"], each["mean_human"])
                axes.annotate(f"{each['n']:,}", place, xytext=(6, 4), textcoords="offset points", color=theme.ink)
        axes.set(xlabel=title_of(names[0]), ylabel=title_of(names[1]))

    return draw


def bars(counts: Mapping[str, int], label: str) -> Draw:
    """A count for each name."""

    def draw(axes: Axes, theme: Theme) -> None:
        axes.barh([title_of(name) for name in counts], list(counts.values()), color=theme.marks[1])
        axes.invert_yaxis()
        axes.set(xlabel=label)
        for position, count in enumerate(counts.values()):
            axes.annotate(
                f"{count:,}", (count, position), xytext=(4, 0), textcoords="offset points", va="center", color=theme.ink
            )
        axes.margins(x=0.15)

    return draw


def _dots(axes: Axes, x: FloatArray, y: FloatArray, theme: Theme) -> None:
    many = len(x) > MANY
    size, alpha = (6, 0.35) if many else (14, 0.7)
    axes.scatter(x, y, s=size, alpha=alpha, linewidths=0, color=theme.marks[0], rasterized=many)


def _density(axes: Axes, x: FloatArray, y: FloatArray, ends: tuple[float, float, float, float], theme: Theme) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    red, green, blue, _ = to_rgba(theme.marks[0])
    colours = LinearSegmentedColormap.from_list("density", [(red, green, blue, 0.12), (red, green, blue, 1.0)])
    axes.hexbin(x, y, gridsize=_CELLS, extent=ends, mincnt=1, bins="log", cmap=colours, linewidths=0, rasterized=True)


def _svg(panels: Mapping[str, Draw], theme: Theme, size: tuple[float, float], *, square: bool) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    coloured = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = (
        dict.fromkeys(coloured, theme.ink)
        | SAME_EACH_TIME
        | {
            "svg.fonttype": "none",
            "font.sans-serif": ["DejaVu Sans", "Arial"],
            "font.size": 10,
            "grid.color": theme.faint,
            "grid.linewidth": 0.6,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.facecolor": "none",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titlesize": 9,
        }
    )
    with mpl.rc_context(style):
        a_line = 2 if square and len(panels) > 1 else 1
        lines = -(-len(panels) // a_line)
        width, height = size
        figure = Figure(
            figsize=(width, max(height, (_SQUARE if square else _PANEL_HEIGHT) * lines)),
            layout="constrained",
            facecolor="none",
        )
        places = figure.subplots(lines, a_line, squeeze=False).ravel()
        for axes in places[len(panels) :]:
            axes.remove()
        for place, (axes, (name, draw)) in enumerate(zip(places, panels.items(), strict=False)):
            draw(axes, theme)
            axes.set_title("\n".join(wrap(title_of(name), _TITLE // a_line)))
            if place < len(panels) - a_line:
                axes.set_xlabel("")
            if place % a_line:
                axes.set_ylabel("")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", dpi=110, metadata={"Date": None, "Creator": None})
    return drawn.getvalue()


def _darkened(svg: str) -> str:
    """What was drawn with the colours of LIGHT, with those of DARK."""
    dark = dict(zip(LIGHT.colours, DARK.colours, strict=True))
    return re.sub(rf"(?<=: )({'|'.join(dark)})\b", lambda colour: dark[colour[0]], svg)


def _address(svg: str) -> str:
    lines = " ".join(line.strip() for line in svg[svg.index("<svg") :].splitlines())
    return "data:image/svg+xml;base64," + base64.b64encode(lines.encode()).decode("ascii")


def log_axis(axis: Axis) -> None:
    """Marks at 1, 2, 5, 10, … with plain numbers; at four even ones, where hardly one of these is shown."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high > _FEW_MARKS * low else MaxNLocator(4))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))


def title_of(name: str) -> str:
    """A name from data as a picture shows it: harmless, and never taken for a formula."""
    return one_line(name).replace("$", r"\$")
