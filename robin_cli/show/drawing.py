"""Draw any chart with matplotlib, as an image file or as SVG inside a page with the page's colours."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal
from xml.etree import ElementTree

import numpy as np

from robin_cli.show.charts import MANY, SIZE, Chart, Panel, Series
from robin_cli.show.text import one_line

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis as Drawn
    from matplotlib.figure import Figure

INK, FAINT = "#24292f", "#d0d7de"
MARKS = ("#0b62c4", "#c4520b", "#1a7f37", "#8250df", "#6e7781")
"""Colours that can be told apart on white, by people who do not see red and green apart as well."""
_IN_PAGE = {INK: "var(--ink)", FAINT: "var(--line)"} | {
    each: f"var(--mark-{at})" for at, each in enumerate(MARKS)
}
"""What a page calls them: its style sheet has others for the dark, and for paper."""
_PANEL_HEIGHT = 1.8
_SQUARE = 2.6
_OTHER_SCRIPTS = tuple(f"Noto Sans {name}" for name in ("CJK SC", "CJK JP", "CJK KR", "SC"))
_OTHER_SCRIPTS += ("WenQuanYi Micro Hei", "PingFang SC", "Hiragino Sans", "Apple SD Gothic Neo")
_OTHER_SCRIPTS += ("Microsoft YaHei", "Yu Gothic", "Malgun Gothic", "Arial Unicode MS")
"""Fonts with Chinese, Japanese or Korean letters, of which a machine may have some: matplotlib brings none."""
_STYLE: Any = {
    "svg.hashsalt": "robin",  # by which a drawing of the same figures is the same file
    "pdf.fonttype": 42,  # letters that can be selected, and fonts that are embedded
    "font.sans-serif": ["DejaVu Sans", "Arial", *_OTHER_SCRIPTS],
    "font.size": 10.5,
    "axes.unicode_minus": False,  # the minus of every other number
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.facecolor": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 10.5,
    **dict.fromkeys(
        ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color"), INK
    ),
}
_CELLS = 28
"""Cells from end to end where a density is drawn."""
_TITLE = 68
"""Letters of a title that one line of a chart of the usual size holds."""
_FEW_MARKS = 5.0
"""An axis that ends at less than so many times its beginning has hardly one of 1, 2, 5, 10, … on it."""
_SVG = "{http://www.w3.org/2000/svg}"
ElementTree.register_namespace("", _SVG.strip("{}"))  # which a page needs no prefix for
_DRAWN = frozenset({f"{_SVG}use", f"{_SVG}path"})
_NOT_DATED: Mapping[str, Any] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None},
}
_NAME = 60
"""Letters of a name in a line of a figure."""
_ROOM, _BETWEEN, _REST = 1.6, 0.1, 0.5
"""Inches of a figure that names have beside their marks, between one another, and that an axis has for its label."""
_FEW_NAMES = 3
_MANY_NAMES = 12
_STRONGEST = 0.62
"""How much of the colour a cell has at most: numbers are read upon it."""


Marks = list[tuple["Artist", Sequence[str]]]
"""What was drawn, and what each mark of it says to a reader who points at it."""


def picture(chart: Chart, number: int) -> str:
    """Return a chart as SVG for a page, on which it has this ``number``."""
    titles: dict[str, Sequence[str]] = {}
    root = ElementTree.fromstring(drawn(chart, "svg", titles=titles))  # noqa: S314  # drawn here
    _set_for_page(root, f"c{number}-", titles)
    root.attrib |= {"role": "img", "aria-label": chart.says}
    return ElementTree.tostring(root, encoding="unicode")


def _set_for_page(
    root: ElementTree.Element, prefix: str, titles: Mapping[str, Sequence[str]]
) -> None:
    """Give an SVG a page's colours, its own ids, short numbers, and titles; no styles, which the page forbids."""
    for name in ("width", "height"):
        del root.attrib[name]
    styled = [each for each in root if each.find(f"{_SVG}style") is not None]
    for child in [*root.findall(f"{_SVG}metadata"), *styled]:
        root.remove(child)
    for group in root.iter(f"{_SVG}g"):
        marks = (each for each in group.iter() if each.tag in _DRAWN and "id" not in each.attrib)
        for mark, text in zip(marks, titles.get(group.attrib.pop("id", ""), ()), strict=False):
            ElementTree.SubElement(mark, f"{_SVG}title").text = text
    for element in root.iter():
        style = filter(None, element.attrib.pop("style", "").split("; "))
        styles = dict(each.split(": ", 1) for each in style)
        styles.pop("font-family", None)
        values = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        values |= {name: _IN_PAGE.get(value, value) for name, value in styles.items()}
        element.attrib.clear()
        for name, value in values.items():
            linked = re.sub(r"(?<=#)(?=[a-z][0-9a-f]{10})", prefix, value)
            named = prefix + value if name == "id" else linked
            element.set(name, re.sub(r"(\.\d\d)\d+", r"\1", " ".join(named.split())))
        if element.text is not None and not element.text.strip():
            element.text = None
        element.tail = None


def _points(axes: Axes, series: Series) -> Marks:
    from matplotlib.colors import LinearSegmentedColormap, to_rgba

    colour = MARKS[series.colour]
    if len(series.x) <= MANY:
        marks = axes.scatter(series.x, series.y, s=16, alpha=0.7, linewidths=0, color=colour)
        return [(marks, series.texts)]
    shades = [to_rgba(colour, alpha) for alpha in (0.12, 1.0)]
    colours = LinearSegmentedColormap.from_list("density", shades)
    ends = (*axes.get_xlim(), *axes.get_ylim())
    how: Any = {"mincnt": 1, "bins": "log", "cmap": colours, "linewidths": 0}
    axes.hexbin(series.x, series.y, gridsize=_CELLS, extent=ends, **how)
    return []


def _line(axes: Axes, series: Series) -> Marks:
    known, colour = ~np.isnan(series.y), MARKS[series.colour]
    x, y = series.x[known], series.y[known]
    (line,) = axes.plot(x, y, series.style, color=colour, markersize=4, label=series.name)
    if len(series.low):
        axes.vlines(series.x, series.low, series.high, color=colour, linewidth=1)
    of = f"{series.name}: " * bool(series.name)
    texts = [f"{of}{value:.3g} after {at:,.0f}" for at, value in zip(x, y, strict=True)]
    return [(line, texts if "o" in series.style else [])]


def _steps(axes: Axes, series: Series) -> Marks:
    low, high = series.x[:-1], series.x[1:]
    colour = MARKS[series.colour]
    bars = axes.bar(low, series.y, high - low, align="edge", color=colour, alpha=0.8)
    return [
        (bar, [f"{start:.3g} to {end:.3g}: {count:,}"])
        for bar, start, end, count in zip(bars, low, high, series.y.tolist(), strict=True)
    ]


def _intervals(axes: Axes, series: Series) -> Marks:
    colour, is_known = MARKS[series.colour], ~np.isnan(series.low)
    place, values = (series.x, series.y) if series.upright else (series.y, series.x)
    lines: Any = axes.vlines if series.upright else axes.hlines
    width = 1.5 if series.upright else 2
    ends = (series.low[is_known], series.high[is_known])
    lines(place[is_known], *ends, color=colour, linewidth=width)
    marks = Marks()
    for some, fill in ((~is_known, "none"), (is_known, "full")):
        (drawn,) = axes.plot(series.x[some], series.y[some], "o", color=colour, fillstyle=fill)
        texts = [
            f"{value:.2f}, 95 % interval {low:.2f} to {high:.2f}"
            for value, low, high in zip(
                values[some], series.low[some], series.high[some], strict=True
            )
        ]
        marks.append((drawn, texts))
    offset: Any = {"xytext": (6, 4)} if series.upright else {"xytext": (0, 6), "ha": "center"}
    for at, text in zip(zip(series.x, series.y, strict=True), series.texts, strict=False):
        axes.annotate(text, at, textcoords="offset points", **offset)
    return marks


def _shares(axes: Axes, series: Series) -> Marks:
    from matplotlib.colors import to_rgba

    rates, count, marks = np.asarray(series.y), len(series.y), Marks()
    names = [name.get_text() for name in axes.get_yticklabels()]
    inside: Any = {"in_layout": False}  # within the axes: takes long to measure, and moves nothing
    letters: Any = {"ha": "center", "va": "center", "fontsize": 10 if count <= _MANY_NAMES else 8}
    edges = np.array([-0.5, 0.5, 0.5, -0.5])
    for row, column in np.ndindex(rates.shape):
        share = float(rates[row, column])
        if np.isnan(share):
            continue
        colour = to_rgba(MARKS[0 if share > 0.5 else 1], _STRONGEST * abs(2.0 * share - 1.0))
        around = (column + edges, row + edges[[0, 0, 1, 1]])
        (cell,) = axes.fill(*around, color=colour, linewidth=0, **inside)
        says = f"{names[row]} is preferred to {names[column]} in {100 * share:.0f} %"
        marks.append((cell, [says]))
        is_bold = series.is_bold is not None and series.is_bold[row, column]
        weight = "bold" if is_bold else "normal"
        axes.text(column, row, f"{100 * share:.0f}", fontweight=weight, **letters, **inside)
    for at in range(count):
        axes.text(at, at, "·", ha="center", va="center")
    for name in axes.get_xticklabels() if count > _FEW_NAMES else ():
        name.set(rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return marks


_KINDS: Mapping[str, Callable[[Axes, Series], Marks]] = {
    "points": _points,
    "line": _line,
    "steps": _steps,
    "intervals": _intervals,
    "shares": _shares,
}


def _draw(axes: Axes, panel: Panel, written_out: Mapping[str, str]) -> Marks:
    dashed: Any = {"color": INK, "linewidth": 1, "linestyle": "--"}
    _set_axis(axes, "x", panel, dashed, written_out)
    _set_axis(axes, "y", panel, dashed, written_out)
    if panel.diagonal is not None:
        axes.plot(panel.diagonal, panel.diagonal, **dashed)
        if panel.x.limits == panel.y.limits is not None:
            axes.set_aspect("equal")
    marks = [mark for each in panel.series for mark in _KINDS[each.kind](axes, each)]
    if panel.y.limits is not None:  # an open end is where the data ends, which is known only now
        axes.set_ylim(*panel.y.limits)
    heading, texts = panel.y.beyond
    for at, text in [*enumerate(texts), *([(-0.8, heading)] if texts else [])]:
        axes.text(1.02, at, text, transform=axes.get_yaxis_transform(), va="center")
    for axis, drawn_axis in ((panel.x, axes.xaxis), (panel.y, axes.yaxis)):
        if axis.is_log:
            log_axis(drawn_axis)
    return marks


def _set_axis(
    axes: Axes,
    letter: Literal["x", "y"],
    panel: Panel,
    dashed: Mapping[str, Any],
    written_out: Mapping[str, str],
) -> None:
    from matplotlib.ticker import MaxNLocator

    axis, drawn = (panel.x, axes.xaxis) if letter == "x" else (panel.y, axes.yaxis)
    scale = "log" if axis.is_log else "linear"
    axes.set(**{f"{letter}label": title_of(axis.label), f"{letter}scale": scale})
    if axis.limits is not None and None not in axis.limits:  # a density goes from end to end
        axes.set(**{f"{letter}lim": axis.limits})
    if axis.rule is not None:
        (axes.axvline if letter == "x" else axes.axhline)(axis.rule, **dashed)
    if axis.names:
        texts = [written_out.get(each, each).split("\n") for each in axis.names]
        names = [[part for line in each for part in wrap(title_of(line), _NAME)] for each in texts]
        drawn.set_ticks(np.arange(len(names)), list(map("\n".join, names)))
        axes.grid(visible=False, axis=letter)
    elif panel.diagonal is not None and axis.limits is not None:
        drawn.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))


def drawn(chart: Chart, form: str, *, titles: dict[str, Sequence[str]] | None = None) -> bytes:
    """Draw a chart as the bytes of a file, svg, pdf or png; with a white background, except for a page.

    A file has its fonts within, or its letters as outlines, and names written out. Letters that no font of this machine has
    are boxes, except in SVG, whose letters are then text.

    Args:
        titles: for a page: filled with the texts of the marks in each group of the SVG, by its id.
    """
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    is_file = titles is None
    is_text = not is_file or (form == "svg" and bool(letters_without_font(chart)))
    style: Any = {"font.family": ["sans-serif", *_other_fonts()]}
    style["svg.fonttype"] = "none" if is_text else "path"
    file, how = io.BytesIO(), {"metadata": _NOT_DATED.get(form)}
    with warnings.catch_warnings(), mpl.rc_context(_STYLE | style):
        warnings.filterwarnings("ignore", "Glyph .* missing")  # letters_without_font says so
        figure = _figure(chart, titles)
        if is_file:
            figure.savefig(file, format=form, dpi=110, bbox_inches="tight", **how)
        else:  # savefig would draw it twice, to the same bytes
            canvas: Any = FigureCanvasSVG(figure)
            canvas.print_svg(file, **how)
    return file.getvalue()


def _figure(chart: Chart, titles: dict[str, Sequence[str]] | None) -> Figure:
    from matplotlib.figure import Figure

    count, panels = len(chart.panels), list(chart.panels.values())
    a_line = min(chart.a_line, count)
    lines = -(-count // a_line)
    width, height = chart.size
    height = max(height, (_PANEL_HEIGHT if chart.a_line == 1 else _SQUARE) * lines)
    ground = "white" if titles is None else "none"
    figure = Figure(figsize=(width, height), layout="constrained", facecolor=ground)
    places = figure.subplots(lines, a_line, squeeze=False).ravel()
    for axes in places[count:]:
        axes.remove()
    named: dict[str, Artist] = {}
    for place, (axes, panel, name) in enumerate(zip(places, panels, chart.panels, strict=False)):
        for mark, texts in _draw(axes, panel, chart.written_out if titles is None else {}):
            if titles is not None:
                mark.set_gid(f"mark-{len(titles)}")
                titles[f"mark-{len(titles)}"] = texts
        handles, labels = axes.get_legend_handles_labels()
        named |= dict(zip(labels, handles, strict=True))
        if count > 1:
            letters = int(_TITLE * width / SIZE[0]) // a_line
            axes.set_title("\n".join(wrap(title_of(name), letters)))
        if place + a_line < count and panels[place + a_line].x.label == panel.x.label:
            axes.set_xlabel("")
        if place % a_line and panels[place - 1].y.label == panel.y.label:
            axes.set_ylabel("")
    if named:  # below all, so that it never lies on a curve
        below: Any = {"loc": "outside lower left", "ncols": len(named), "frameon": False}
        figure.legend([*named.values()], [*named], **below)
    _make_room(figure, panels, lines, a_line)
    return figure


def letters_without_font(chart: Chart) -> str:
    """Return the letters of a chart's names that no font of this machine has: in a PDF they are boxes."""
    from matplotlib.font_manager import FontProperties, findfont, get_font

    names = ("DejaVu Sans", *_other_fonts())
    fonts = [get_font(findfont(FontProperties(family=name))) for name in names]
    axes = [(panel.x, panel.y) for panel in chart.panels.values()]
    letters = sorted(set(f"{[*chart.panels]}{axes}{chart.written_out}"))  # as Python prints them
    return "".join(char for char in letters if not any(f.get_char_index(ord(char)) for f in fonts))


def _other_fonts() -> list[str]:
    from matplotlib.font_manager import fontManager

    return [name for name in _OTHER_SCRIPTS if name in fontManager.get_font_names()]


def _make_room(figure: Figure, panels: Sequence[Panel], lines: int, a_line: int) -> None:
    """Enlarge a figure where the names would leave its marks no room; ``lines``, ``a_line``: of panels."""
    width = figure.get_figwidth()
    for axes in (axes for axes, panel in zip(figure.axes, panels, strict=True) if panel.y.names):
        side, below = (
            np.array([name.get_window_extent().size for name in axis.get_ticklabels()]) / figure.dpi
            for axis in (axes.yaxis, axes.xaxis)
        )
        room = len(side) * (side[:, 1].max() + _BETWEEN) + below[:, 1].max() + _REST
        wider = max(figure.get_figwidth(), width + a_line * (side[:, 0].max() - _ROOM))
        figure.set_size_inches(wider, max(figure.get_figheight(), lines * room))


def log_axis(axis: Drawn) -> None:
    """Label 1, 2, 5, 10, … with plain numbers, or four even values if hardly any of those is in range."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0)) if high > _FEW_MARKS * low else MaxNLocator(4)
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}")
    )


def title_of(name: str) -> str:
    """Return a name from data for a chart, made harmless, and never read as a formula."""
    return one_line(name).replace("$", r"\$")
