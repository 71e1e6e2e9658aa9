"""Charts as data: series in panels, which :mod:`robin_cli.show.drawing` draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from robin_cli.model.arms import FloatArray, IntArray
from robin_cli.model.errors import shown
from robin_cli.model.records import Scale

SIZE = (5.2, 3.6)
"""Width and height in inches."""
MANY = 1500
"""From this number of points their density is drawn, not each point."""
_FEW = 12
"""Up to this number of intervals each has its count beside it."""
BINS = 20

Numbers = FloatArray | IntArray
Kind = Literal["points", "line", "steps", "intervals", "shares"]


@dataclass(frozen=True, slots=True)
class Series:
    """Values drawn in one way.

    Attributes:
        kind: ``points``: a mark at each ``x`` and ``y``, or their density from MANY on. ``line``: through the points in order.
            ``steps``: ``y`` between every two of the edges ``x``. ``intervals``: a mark at each place with a line from ``low``
            to ``high``; an empty mark if these are nan. ``shares``: a matrix ``y`` of shares, coloured by the side of a half.
        name: in the legend; '' for none.
        style: of a line, in matplotlib's notation.
        colour: number of one of the theme's colours.
        low, high: the ends of intervals; of a line none, or one at each place.
        upright: whether intervals are along y, not along x.
        texts: beside the marks.
        is_bold: whether each share is settled, shape of ``y``.
    """

    kind: Kind
    x: Numbers
    y: Numbers
    name: str = ""
    style: str = "-"
    colour: int = 0
    low: Numbers = field(default_factory=lambda: np.zeros(0))
    high: Numbers = field(default_factory=lambda: np.zeros(0))
    upright: bool = False
    texts: Sequence[str] = ()
    is_bold: NDArray[np.bool_] | None = None


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis: its label and its ends; None for the data's own.

    Attributes:
        names: of the places 0, 1, 2, …, in place of numbers.
        beyond: a heading and texts at its other end, one for each place.
        rule: where a dashed line crosses it.
    """

    label: str = ""
    limits: tuple[float | None, float | None] | None = None
    is_log: bool = False
    names: Sequence[str] = ()
    beyond: tuple[str, Sequence[str]] = ("", ())
    rule: float | None = None


@dataclass(frozen=True, slots=True)
class Panel:
    """Series on the same axes; ``diagonal``: the ends of a dashed line on which both axes are equal."""

    series: Sequence[Series]
    x: Axis
    y: Axis
    diagonal: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: panels by name, below one another; ``says`` describes it to screen readers and stands below it.

    Attributes:
        a_line: number of panels side by side.
        size: least width and height in inches; a chart wider than SIZE has the page's width to itself.
        written_out: names on its axes, and what a figure of its own has in their place.
    """

    title: str
    says: str
    panels: Mapping[str, Panel]
    a_line: int = 1
    size: tuple[float, float] = SIZE
    written_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_wide(self) -> bool:
        """Whether it takes the full width of a page."""
        return self.size[0] > SIZE[0]


def chart(title: str, says: str, panel: Panel, **about: Any) -> Chart:
    """Return a chart of one panel; ``about``: further attributes."""
    return Chart(title, says, {"": panel}, **about)


def course(calls: IntArray, run: FloatArray, evenly: FloatArray, label: str) -> Panel:
    """Return a measure of the run over its ratings, beside that of an even spread."""
    lines = [
        Series("line", calls, run, "this run", style="o-"),
        Series("line", calls, evenly, "even spread (projected)", style="--", colour=1),
    ]
    return Panel(lines, Axis("ratings (log scale)", is_log=True), Axis(label, (0.0, None)))


def histogram(
    values: FloatArray,
    label: str,
    ends: tuple[float, float],
    things: str = "pairs",
    bins: int = BINS,
) -> Panel:
    """Return the number of ``things`` at each value."""
    counts, edges = np.histogram(values[~np.isnan(values)], bins, ends)
    return Panel([Series("steps", edges, counts)], Axis(label), Axis(things))


def against(
    x: FloatArray,
    y: FloatArray,
    names: tuple[str, str],
    scale: Scale,
    ids: Sequence[str],
    *,
    jitter: float = 0.0,
) -> Panel:
    """Return one score against another, with the line of equal scores. Values off the scale are drawn, too.

    Args:
        ids: what each point is called where a reader points at it.
        jitter: share of the scale that spreads points which would hide one another.
    """
    both = ~(np.isnan(x) | np.isnan(y))
    width = scale.high - scale.low
    spread = np.random.default_rng(0).uniform(-jitter * width, jitter * width, int(both.sum()))
    margin = 0.03 * width + jitter * width
    low = min(scale.low, x[both].min(initial=scale.low)) - margin
    high = max(scale.high, x[both].max(initial=scale.high)) + margin
    texts = named(ids, both, {names[0]: x, names[1]: y})
    return Panel(
        [Series("points", x[both] + spread, y[both], texts=texts)],
        Axis(names[0], (low, high)),
        Axis(names[1], (scale.low - margin, scale.high + margin)),
        diagonal=(scale.low, scale.high),
    )


def named(ids: Sequence[str], which: NDArray[np.bool_], values: Mapping[str, Numbers]) -> list[str]:
    """Return what a reader sees of each point that is drawn: its id, and its values by name; nothing for a density."""
    places = np.flatnonzero(which).tolist()
    return [
        f"{shown(ids[at])}: {', '.join(f'{name} {each[at]:.3g}' for name, each in values.items())}"
        for at in places * (len(places) <= MANY)
    ]


def marks_of(panels: Mapping[str, Panel]) -> str:
    """Return what the marks of panels stand for, in words."""
    marked = [
        name
        for name, panel in panels.items()
        if not any(each.kind == "points" and len(each.x) > MANY for each in panel.series)
    ]
    if len(marked) == len(panels):
        return "Each mark is a pair."
    of = f"; of {', '.join(marked)} each mark is a pair" if marked else ""
    return f"The stronger the colour, the more pairs{of}."


def beside_numbers(
    place: FloatArray, value: FloatArray, ends: tuple[FloatArray, FloatArray], counts: IntArray
) -> Series:
    """Return a value with its interval at each place, and its count if there are few."""
    texts = [f"{count:,}" for count in counts.tolist()] if len(counts) <= _FEW else []
    return Series("intervals", place, value, low=ends[0], high=ends[1], upright=True, texts=texts)


def under_one_another(
    names: Sequence[str],
    value: FloatArray,
    ends: tuple[FloatArray, FloatArray],
    label: str,
    beyond: Sequence[str] = (),
) -> Panel:
    """Return a value with its interval for each name, and a line at 0; ``beyond``: ranks shown in place of the values."""
    texts = [] if len(beyond) else [f"{each:+.2f}" for each in value.tolist()]
    places, (low, high) = np.arange(len(names)), ends
    series = Series("intervals", value, places, low=low, high=high, texts=texts)
    limits = (len(names) - 0.4, -1.1) if len(beyond) else (len(names) - 0.5, -0.7)
    axis = Axis("", limits, names=names, beyond=("ranks", beyond))
    return Panel([series], Axis(label, rule=0.0), axis)


def shares(
    names: Sequence[str], rate: FloatArray, is_bold: NDArray[np.bool_], labels: tuple[str, str]
) -> Panel:
    """Return a matrix of shares; ``labels``: of its rows and of its columns."""
    ends = (len(names) - 0.5, -0.5)
    series = Series("shares", np.zeros(0), rate, is_bold=is_bold)
    rows, columns = Axis(labels[0], ends, names=names), Axis(labels[1], ends[::-1], names=names)
    return Panel([series], columns, rows)
