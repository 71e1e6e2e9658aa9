"""``robin simulate --plot``: the paper's figures as one picture."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from robin_cli.analysis.agreement import CORRELATIONS
from robin_cli.analysis.experiment import Row, Subject
from robin_cli.analysis.simulation import Ratings
from robin_cli.files.outputs import check_output_file, output_file
from robin_cli.model.errors import InputError, StorageError
from robin_cli.views.report.pictures import SAME_EACH_TIME, log_axis, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SUFFIXES = (".png", ".svg", ".html")
_COLOURS = ("#6e7781", "#1f6feb", "#d1570a", "#2da44e", "#8250df")
_MARKS = ("o", "s", "^", "D", "v")


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
        return _html(_drawn(figure, ".svg"))
    import matplotlib as mpl

    picture = io.BytesIO()
    metadata = {"Date": None} if suffix == ".svg" else None
    with mpl.rc_context(SAME_EACH_TIME):
        figure.savefig(picture, format=suffix.removeprefix("."), dpi=130, metadata=metadata)
    return picture.getvalue()


def _figure(rows: Sequence[Row], subjects: Sequence[Subject]) -> Figure:
    from matplotlib.figure import Figure

    if rows[0].decided is not None:
        return _decisions_figure(rows, subjects)
    agreeing = any(subject.human is not None for subject in subjects)
    columns = 4 if agreeing else 3
    figure = Figure(figsize=(4.4 * columns, 3.3 * len(subjects)), layout="constrained")
    axes = figure.subplots(len(subjects), columns, squeeze=False)
    for subject, line in zip(subjects, axes, strict=True):
        ratings = Ratings.of(subject.ratings)
        mine = [row for row in rows if row.attribute == subject.attribute]
        _errors(line[0], mine)
        line[0].set_title(title_of(subject.attribute), loc="left", fontweight="bold")
        _histogram(line[1], ratings.variances, "variance of a pair's ratings")
        _histogram(line[2], ratings.means, "mean rating of a pair")
        if agreeing:
            _agreement(line[3], mine)
    return figure


def _decisions_figure(rows: Sequence[Row], subjects: Sequence[Subject]) -> Figure:
    """A line of pictures a subject: what is wrong and what is certified against budget, and where the pairs lie."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4 * 3, 3.3 * len(subjects)), layout="constrained")
    axes = figure.subplots(len(subjects), 3, squeeze=False)
    runs = rows[0].runs
    for subject, line in zip(subjects, axes, strict=True):
        mine = [row for row in rows if row.attribute == subject.attribute]
        for number, name in enumerate(dict.fromkeys(row.scheduler for row in mine)):
            of_one = [row for row in mine if row.scheduler == name]
            told = [row.decided for row in of_one if row.decided is not None]
            look: dict[str, Any] = {
                "label": name,
                "color": _COLOURS[number % len(_COLOURS)],
                "marker": _MARKS[number % len(_MARKS)],
                "markersize": 3,
                "linewidth": 1.2,
            }
            budgets = [row.budget for row in of_one]
            wrong, error = ([100 * getattr(each, part) for each in told] for part in ("wrong_mean", "wrong_sem"))
            line[0].errorbar(budgets, wrong, error, capsize=2, **look)
            line[1].plot(budgets, [100 * each.certified_mean for each in told], **look)
        for place, label in enumerate(("wrong by the mean ratings", "certified")):
            line[place].set(
                xscale="log",
                xlabel="judge calls (log scale)",
                ylabel=f"decisions {label}, %\n(mean of {runs} simulated runs)",
            )
            line[place].set_ylim(0, None if place == 0 else 103)
            log_axis(line[place].xaxis)
            line[place].grid(visible=True, which="both", alpha=0.25)
            line[place].legend(frameon=False, fontsize=8)
        line[0].set_title(title_of(subject.attribute), loc="left", fontweight="bold")
        _histogram(line[2], Ratings.of(subject.ratings).means, "mean rating of a pair")
    return figure


def _errors(axes: Axes, rows: Sequence[Row]) -> None:
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
        log_axis(axis)
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
    budgets = [row.budget for row in mine]
    for coefficient, colour, mark in zip(CORRELATIONS, _COLOURS, _MARKS, strict=False):
        values = [row.correlations[coefficient] for row in mine]
        axes.plot(budgets, values, label=coefficient, color=colour, marker=mark)
    axes.set(xlabel="judge calls", ylabel=f"correlation with human ratings\n({name})")
    axes.legend(frameon=False, fontsize=8)


def _html(svg: bytes) -> bytes:
    data = base64.b64encode(svg).decode("ascii")
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>robin simulate</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        '<body style="margin:1rem;background:#fff"><img style="max-width:100%" alt="Simulated runs against their budgets" '
        f'src="data:image/svg+xml;base64,{data}"></body></html>\n'
    )
    return page.encode()
