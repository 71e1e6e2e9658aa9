"""Any chart drawn by matplotlib for light and for dark, as SVG."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from robin_cli.render.text import one_line
from robin_cli.results.charts import MANY, SIZE, Chart, Panel, Series

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as Drawn

_PANEL_HEIGHT = 1.8
_SQUARE = 2.6
_STYLE: Any = {
    "svg.hashsalt": "robin",  # by which a drawing of the same figures is the same file
    "svg.fonttype": "none",
    "font.sans-serif": ["DejaVu Sans", "Arial"],
    "font.size": 10,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9,
}
_CELLS = 28
"""Cells from end to end where a density is drawn."""
_TITLE = 68
"""Letters of a title that one line of a chart of the usual size holds."""
_FEW_MARKS = 5.0
"""An axis that ends at less than so many times its beginning has hardly one of 1, 2, 5, 10, … on it."""
_FEW_NAMES = 3
_MANY_NAMES = 12
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


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart as data addresses for light and dark."""

    title: str
    says: str
    light: str
    dark: str
    wide: bool


def picture(chart: Chart) -> Picture:
    """Draw a chart in both themes."""
    light = svg(chart, LIGHT)
    # to draw it takes a hundred times as long as to change its colours, but those of a bitmap
    dark = svg(chart, DARK) if "<image" in light else darkened(light)
    return Picture(chart.title, chart.says, address(light), address(dark), wide=chart.size[0] > SIZE[0])


def _points(axes: Axes, each: Series, theme: Theme) -> None:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    if len(each.x) <= MANY:
        axes.scatter(each.x, each.y, s=14, alpha=0.7, linewidths=0, color=theme.marks[each.colour])
        return
    red, green, blue, _ = to_rgba(theme.marks[each.colour])
    colours = LinearSegmentedColormap.from_list("density", [(red, green, blue, 0.12), (red, green, blue, 1.0)])
    ends = (*axes.get_xlim(), *axes.get_ylim())
    how: Any = {"mincnt": 1, "bins": "log", "cmap": colours, "linewidths": 0, "rasterized": True}
    axes.hexbin(each.x, each.y, gridsize=_CELLS, extent=ends, **how)


def _line(axes: Axes, each: Series, theme: Theme) -> None:
    axes.plot(each.x, each.y, each.style, color=theme.marks[each.colour], markersize=3, label=each.name)
    if len(each.low):
        axes.vlines(each.x, each.low, each.high, color=theme.marks[each.colour], linewidth=1)


def _steps(axes: Axes, each: Series, theme: Theme) -> None:
    axes.stairs(each.y, each.x, fill=True, color=theme.marks[each.colour], alpha=0.8)


def _bars(axes: Axes, each: Series, theme: Theme) -> None:
    axes.barh(each.y, each.x, color=theme.marks[each.colour])
    for place, text in zip(zip(each.x, each.y, strict=True), each.texts, strict=True):
        axes.annotate(text, place, xytext=(4, 0), textcoords="offset points", va="center", color=theme.ink)
    axes.margins(x=0.15)


def _intervals(axes: Axes, each: Series, theme: Theme) -> None:
    colour, is_known = theme.marks[each.colour], ~np.isnan(each.low)
    (axes.vlines if each.upright else axes.hlines)(
        (each.x if each.upright else each.y)[is_known],
        each.low[is_known],
        each.high[is_known],
        color=colour,
        linewidth=1.5 if each.upright else 2,
    )
    for some, fill in ((~is_known, "none"), (is_known, "full")):
        axes.plot(each.x[some], each.y[some], "o", color=colour, fillstyle=fill)
    offset: Any = {"xytext": (6, 4)} if each.upright else {"xytext": (0, 6), "ha": "center"}
    for place, text in zip(zip(each.x, each.y, strict=True), each.texts, strict=False):
        axes.annotate(text, place, textcoords="offset points", color=theme.ink, **offset)


def _shares(axes: Axes, each: Series, theme: Theme) -> None:
    from matplotlib.colors import to_rgba

    worse, better = (to_rgba(theme.marks[at])[:3] for at in (1, 0))
    rates, count = np.asarray(each.y), len(each.y)
    letters: Any = {"ha": "center", "va": "center", "color": theme.ink, "fontsize": 10 if count <= _MANY_NAMES else 8}
    for row, column in np.ndindex(rates.shape):
        share = float(rates[row, column])
        if np.isnan(share):
            continue
        edges = np.array([-0.5, 0.5, 0.5, -0.5])
        colour = (*(better if share > 0.5 else worse), _STRONGEST * abs(2.0 * share - 1.0))
        axes.fill(column + edges, row + edges[[0, 0, 1, 1]], color=colour, linewidth=0)
        is_bold = each.is_bold is not None and each.is_bold[row, column]
        axes.text(column, row, f"{100 * share:.0f}", fontweight="bold" if is_bold else "normal", **letters)
    for at in range(count):
        axes.text(at, at, "·", ha="center", va="center", color=theme.ink)
    for name in axes.get_xticklabels() if count > _FEW_NAMES else ():
        name.set(rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


_KINDS: Mapping[str, Callable[[Axes, Series, Theme], None]] = {
    "points": _points,
    "line": _line,
    "steps": _steps,
    "bars": _bars,
    "intervals": _intervals,
    "shares": _shares,
}


def _draw(axes: Axes, panel: Panel, theme: Theme) -> None:
    dashed: Any = {"color": theme.ink, "linewidth": 1, "linestyle": "--"}
    _set_axis(axes, "x", panel, dashed)
    _set_axis(axes, "y", panel, dashed)
    if panel.diagonal is not None:
        axes.plot(panel.diagonal, panel.diagonal, **dashed)
        if panel.x.limits == panel.y.limits is not None:
            axes.set_aspect("equal")
    for each in panel.series:
        _KINDS[each.kind](axes, each, theme)
    if panel.y.limits is not None:  # an open end is where the data ends, which is known only now
        axes.set_ylim(*panel.y.limits)
    heading, texts = panel.y.beyond
    for at, text in [*enumerate(texts), *([(-0.8, heading)] if texts else [])]:
        axes.text(1.02, at, text, transform=axes.get_yaxis_transform(), va="center", color=theme.ink)
    for axis, drawn_axis in ((panel.x, axes.xaxis), (panel.y, axes.yaxis)):
        if axis.is_log:
            log_axis(drawn_axis)
    if any(each.name for each in panel.series):
        axes.legend(frameon=False, fontsize=8, labelcolor=theme.ink)


def _set_axis(axes: Axes, letter: Literal["x", "y"], panel: Panel, dashed: Mapping[str, Any]) -> None:
    from matplotlib.ticker import MaxNLocator

    axis, drawn = (panel.x, axes.xaxis) if letter == "x" else (panel.y, axes.yaxis)
    axes.set(**{f"{letter}label": title_of(axis.label), f"{letter}scale": "log" if axis.is_log else "linear"})
    if axis.limits is not None and None not in axis.limits:  # a density goes from end to end
        axes.set(**{f"{letter}lim": axis.limits})
    if axis.rule is not None:
        (axes.axvline if letter == "x" else axes.axhline)(axis.rule, **dashed)
    if axis.names:
        drawn.set_ticks(np.arange(len(axis.names)), [title_of(each) for each in axis.names])
        axes.grid(visible=False, axis=letter)
    elif panel.diagonal is not None and axis.limits is not None:
        drawn.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def svg(chart: Chart, theme: Theme) -> str:
    """Draw a chart in the colours of ``theme``."""
    return drawn(chart, theme, "svg").decode()


def drawn(chart: Chart, theme: Theme, form: str, ground: str = "none") -> bytes:
    """Draw a chart as the bytes of a file, svg or png, in the colours of ``theme`` on ``ground``."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    coloured = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
    style: Any = dict.fromkeys(coloured, theme.ink) | _STYLE | {"grid.color": theme.faint}
    with mpl.rc_context(style):
        count, panels = len(chart.panels), list(chart.panels.values())
        a_line = min(chart.a_line, count)
        lines = -(-count // a_line)
        least = (_PANEL_HEIGHT if chart.a_line == 1 else _SQUARE) * lines
        width, height = chart.size
        figure = Figure(figsize=(width, max(height, least)), layout="constrained", facecolor=ground)
        places = figure.subplots(lines, a_line, squeeze=False).ravel()
        for axes in places[count:]:
            axes.remove()
        for place, (axes, (name, panel)) in enumerate(zip(places, chart.panels.items(), strict=False)):
            _draw(axes, panel, theme)
            axes.set_title(
                "\n".join(wrap(title_of(name if count > 1 else ""), int(_TITLE * width / SIZE[0]) // a_line))
            )
            if place + a_line < count and panels[place + a_line].x.label == panel.x.label:
                axes.set_xlabel("")
            if place % a_line and panels[place - 1].y.label == panel.y.label:
                axes.set_ylabel("")
        file = io.BytesIO()
        figure.savefig(file, format=form, dpi=110, metadata={"Date": None, "Creator": None} if form == "svg" else None)
    return file.getvalue()


def darkened(drawn: str) -> str:
    """Return what was drawn with the colours of LIGHT with those of DARK."""
    dark = dict(zip(LIGHT.colours, DARK.colours, strict=True))
    return re.sub(rf"(?<=: )({'|'.join(dark)})\b", lambda colour: dark[colour[0]], drawn)


def address(drawn: str) -> str:
    """Return a drawing as a data address."""
    lines = " ".join(line.strip() for line in drawn[drawn.index("<svg") :].splitlines())
    return "data:image/svg+xml;base64," + base64.b64encode(lines.encode()).decode("ascii")


def log_axis(axis: Drawn) -> None:
    """Mark 1, 2, 5, 10, … with plain numbers; four even ones, where hardly one of these is shown."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if high > _FEW_MARKS * low else MaxNLocator(4))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))


def title_of(name: str) -> str:
    """Return a name from data as a picture shows it: harmless, and never taken for a formula."""
    return one_line(name).replace("$", r"\$")
