"""``robin simulate --plot``: the paper's figures as one picture."""

from __future__ import annotations

import base64
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from robin_cli.allocation.arms import FloatArray
from robin_cli.errors import InputError, StorageError
from robin_cli.files import check_output_file, output_file
from robin_cli.output.text import plain
from robin_cli.statistics.agreement import COEFFICIENTS
from robin_cli.statistics.experiment import Row, Subject
from robin_cli.statistics.simulation import Ratings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".html")
_COLOURS = ("#6e7781", "#1f6feb", "#d1570a", "#2da44e", "#8250df")
_FEWEST_RUNS = 10
_RESAMPLES = 1_000
_MARKS = ("o", "s", "^", "D", "v")


@dataclass(frozen=True, slots=True)
class Saving:
    """A share of calls saved, and where it lies with 95 % over the simulated runs.

    Attributes:
        share: nan where uniform's curve does not reach the error.
        low, high: nan where ``share`` is, or of fewer than 10 runs.
    """

    share: float
    low: float
    high: float

    @property
    def is_told(self) -> bool:
        """Whether it is more than noise."""
        return self.low > 0 or self.high < 0


def saved(rows: Sequence[Row], attribute: str, scheduler: str, budget: int) -> Saving:
    """The share of uniform's calls that ``scheduler`` saves at the error it reaches with ``budget``.

    1 − budget / B', where uniform's mean WCE at B' is the scheduler's at ``budget``; B' is read off uniform's curve, straight
    between its points in the logarithms. Negative where uniform is better. The interval is a percentile bootstrap over runs:
    those of uniform, each with its whole curve, and those of the scheduler.
    """
    curve = sorted(
        (row for row in rows if (row.attribute, row.scheduler) == (attribute, "uniform")), key=lambda row: row.budget
    )
    mine = next(row for row in rows if (row.attribute, row.scheduler, row.budget) == (attribute, scheduler, budget))
    budgets = np.log(np.array([row.budget for row in curve], dtype=np.float64))
    evenly, errors = np.array([row.wces for row in curve]), np.array(mine.wces)
    share = _share(budgets, np.log(evenly.mean(axis=1)), math.log(errors.mean()), budget, beyond=np.nan)
    if np.isnan(share) or len(errors) < _FEWEST_RUNS:
        return Saving(share, np.nan, np.nan)
    rng = np.random.default_rng(0)
    picks = (rng.integers(len(errors), size=(2, len(errors))) for _ in range(_RESAMPLES))
    shares = [
        _share(budgets, np.log(evenly[:, one].mean(axis=1)), math.log(errors[other].mean()), budget, beyond=None)
        for one, other in picks
    ]
    low, high = np.quantile(shares, [0.025, 0.975])
    return Saving(share, float(low), float(high))


def _share(budgets: FloatArray, evenly: FloatArray, error: float, budget: int, *, beyond: float | None) -> float:
    """The share saved, of logarithms; ``beyond`` uniform's curve, or what the end of the curve says for None."""
    falling = np.minimum.accumulate(evenly)  # noise may lift a later point; more calls never hurt
    if beyond is not None and not falling[-1] <= error <= falling[0]:
        return beyond
    return float(1 - budget / np.exp(np.interp(-error, -falling, budgets)))


def draw(rows: Sequence[Row], subjects: Sequence[Subject], path: Path) -> None:
    """Draw a row of pictures for each subject: WCE against budget, the spread of variances and means, and the agreement.

    Raises:
        InputError: the file's name ends in none of SUFFIXES, or it cannot be written.
        StorageError: the disk would not take it.
    """
    check_picture(path)
    figure = _figure(rows, subjects)
    try:
        with output_file(path) as file:
            file.write(_drawn(figure, path.suffix.lower()))
    except OSError as error:
        raise StorageError(f"{path}: could not be written ({error.strerror}); name another file with --plot") from error


def check_picture(path: Path) -> None:
    """InputError unless ``path`` ends in one of SUFFIXES and can be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot {path}: a picture ends in {', '.join(SUFFIXES)}")
    try:
        check_output_file(path)
    except OSError as error:
        raise InputError(f"--plot {path}: cannot be written ({error.strerror}); name another file") from error


def _drawn(figure: Figure, suffix: str) -> bytes:
    if suffix == ".html":
        return _html(figure).encode()
    picture = io.BytesIO()
    figure.savefig(
        picture, format=suffix.removeprefix("."), dpi=130, metadata={"Date": None} if suffix == ".svg" else None
    )
    return picture.getvalue()


def _figure(rows: Sequence[Row], subjects: Sequence[Subject]) -> Figure:
    from matplotlib.figure import Figure

    agreeing = any(subject.human is not None for subject in subjects)
    columns = 4 if agreeing else 3
    figure = Figure(figsize=(4.4 * columns, 3.3 * len(subjects)), layout="constrained")
    axes = figure.subplots(len(subjects), columns, squeeze=False)
    for subject, line in zip(subjects, axes, strict=True):
        ratings = Ratings.of(subject.ratings)
        mine = [row for row in rows if row.attribute == subject.attribute]
        _errors(line[0], mine)
        line[0].set_title(plain(subject.attribute, keep="").replace("$", r"\$"), loc="left", fontweight="bold")
        _histogram(line[1], ratings.variances, "variance of a pair's ratings")
        _histogram(line[2], ratings.means, "mean rating of a pair")
        if agreeing:
            _agreement(line[3], mine)
    return figure


def _errors(axes: Axes, rows: Sequence[Row]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    for number, name in enumerate(dict.fromkeys(row.scheduler for row in rows)):
        mine = [row for row in rows if row.scheduler == name]
        axes.errorbar(
            [row.budget for row in mine],
            [row.wce_mean for row in mine],
            [row.wce_sem for row in mine],
            label=name,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_MARKS[number % len(_MARKS)],
            markersize=3,
            linewidth=1.2,
            capsize=2,
        )
    axes.set(xscale="log", yscale="log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 10 else f"{value:g}"))
    runs = rows[0].runs
    axes.set(xlabel="judge calls", ylabel=f"worst-case error\n(mean of {runs} simulated runs ± s.e.)")
    axes.grid(visible=True, which="both", alpha=0.25)
    axes.legend(frameon=False, fontsize=8)


def _histogram(axes: Axes, values: np.ndarray[tuple[int], np.dtype[np.float64]], label: str) -> None:
    axes.hist(values, bins=40, color=_COLOURS[1], alpha=0.8)
    axes.set(xlabel=label, ylabel=f"pairs (of {len(values):,})")


def _agreement(axes: Axes, rows: Sequence[Row]) -> None:
    name = rows[-1].scheduler
    mine = [row for row in rows if row.scheduler == name]
    for number, coefficient in enumerate(COEFFICIENTS):
        values = [row.correlations[coefficient] for row in mine]
        axes.plot(
            [row.budget for row in mine], values, label=coefficient, color=_COLOURS[number], marker=_MARKS[number]
        )
    axes.set(xlabel="judge calls", ylabel=f"correlation with human ratings\n({name})")
    axes.legend(frameon=False, fontsize=8)


def _html(figure: Figure) -> str:
    picture = io.BytesIO()
    figure.savefig(picture, format="svg", metadata={"Date": None})
    data = base64.b64encode(picture.getvalue()).decode("ascii")
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>robin simulate</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        '<body style="margin:1rem;background:#fff"><img style="max-width:100%" alt="Simulated worst-case error against budget" '
        f'src="data:image/svg+xml;base64,{data}"></body></html>\n'
    )
