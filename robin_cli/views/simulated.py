"""``robin simulate``: settings in, a table (and a picture) out."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import numpy as np

from robin_cli.analysis.agreement import CORRELATIONS
from robin_cli.files.outputs import check_output_file, output_file
from robin_cli.model.errors import InputError, StorageError
from robin_cli.policies.registry import BASELINE
from robin_cli.render.charts import SAME_EACH_TIME, log_axis, title_of
from robin_cli.settings.table import SimulationSettings
from robin_cli.simulation.experiment import Row, Subject, conduct
from robin_cli.simulation.pools import subjects_of
from robin_cli.simulation.runs import Ratings
from robin_cli.simulation.savings import Saving, saved
from robin_cli.views.parsing import read_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_CURVE_POINTS = 14
_REFERENCE = 4
"""How far uniform's curve goes beyond the largest budget, to read off the calls it needs for the others' errors."""


def experiment(
    settings: SimulationSettings, progress: Callable[[int, int], None]
) -> tuple[Sequence[Subject], Sequence[Row]]:
    """Load the pools and conduct the experiment; with a plot, at more budgets than were asked for, to draw curves.

    Raises:
        InputError: the pool cannot be used, or the design does not fit it.
    """
    if settings.plot and not settings.pairwise:
        check_picture(Path(settings.plot))
    subjects = subjects_of(settings, read_scale(settings.scale) if settings.scale else None)
    reference: tuple[int, ...] = ()
    if settings.plot:
        arms, last = max(len(subject.ratings) for subject in subjects), max(settings.budget)
        drawn = {*settings.budget, *_between(max(arms, min(3 * arms, last)), last)}
        reference = () if settings.decide else _between(last, _REFERENCE * last)
        settings = replace(settings, budget=tuple(sorted(drawn)))
    return subjects, conduct(subjects, settings, progress, reference)


def _between(first: int, last: int) -> tuple[int, ...]:
    return tuple(np.unique(np.geomspace(first, last, _CURVE_POINTS).round().astype(int)).tolist())


def print_csv(rows: Sequence[Row], settings: SimulationSettings, out: TextIO) -> None:
    """Write the columns of the contract for the budgets that were asked for."""
    columns = rows[0].columns
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(("attribute", "scheduler", "budget", *columns, "runs"))
    for row in rows:
        if row.budget in settings.budget:
            values = (row.what if name == "what" else f"{row.figure(name):.6g}" for name in columns)
            writer.writerow((row.attribute, row.scheduler, row.budget, *values, row.runs))


def notes(subjects: Sequence[Subject], rows: Sequence[Row], settings: SimulationSettings) -> Iterator[str]:
    """What to know of the pools, and what each other scheduler does better than uniform at the budgets that were asked for."""
    for subject in subjects:
        once = sum(len(each) == 1 for each in subject.ratings)
        if once and subject.goal.space.raters == 1:
            yield f"{subject.attribute}: {once:,} of {len(subject.ratings):,} pairs have one rating, and never vary"
    evenly = {(row.attribute, row.budget): row for row in rows if row.scheduler == BASELINE}
    others = [row for row in rows if row.scheduler != BASELINE and row.budget in settings.budget]
    is_scoring = "wce" in rows[0].measured
    if not evenly or (is_scoring and not settings.plot):
        return
    if is_scoring:
        yield "simulated: calls saved at equal worst-case error, against uniform"
    elif rows[0].what:
        yield f"simulated: {rows[0].what} that are wrong, against {BASELINE}"
    else:
        yield "simulated: decisions that are wrong by the mean ratings, and what is certified, against uniform"
    for row in others:
        if is_scoring:
            gain = _said(saved(rows, row.attribute, row.scheduler, row.budget), row.runs)
        else:
            gain = _against(row, evenly[row.attribute, row.budget])
        yield f"  {row.attribute} · {row.scheduler} at {row.budget:,}: {gain}"


def _against(row: Row, evenly: Row) -> str:
    """What is wrong by one scheduler and by an even spread."""
    wrong = f"{_percent(row)} wrong against {_percent(evenly)}"
    if "any" in row.measured:
        return f"{wrong}, any in {row.figure('any_mean'):.0%} of the runs against {evenly.figure('any_mean'):.0%}"
    certified, calls = row.figure("certified_mean"), row.figure("calls_mean")
    ended = f", all decided after {calls:,.0f} calls" if certified == 1.0 and calls < row.budget else ""
    return f"{wrong}, {certified:.0%} certified against {evenly.figure('certified_mean'):.0%}{ended}"


def _percent(row: Row) -> str:
    sem = row.figure("wrong_sem")
    return f"{100 * row.figure('wrong_mean'):.2g}{'' if np.isnan(sem) else f' ± {100 * sem:.2g}'} %"


def _said(saving: Saving, runs: int) -> str:
    if np.isnan(saving.share):
        return "– (uniform's curve ends before)"
    if not saving.is_told:
        return f"– ({runs} run{'s' * (runs > 1)} cannot tell it from 0)"
    return f"{saving.share:.0%} (95 %: {saving.low:.0%} to {saving.high:.0%})"


SUFFIXES = (".png", ".svg", ".html")
_COLOURS = ("#6e7781", "#1f6feb", "#d1570a", "#2da44e", "#8250df")
_MARKS = ("o", "s", "^", "D", "v")


def draw(rows: Sequence[Row], subjects: Sequence[Subject], path: Path) -> None:
    """Draw a row of pictures for each subject: errors, or decisions, against budget, how its pairs are spread, the agreement.

    Budgets that only the savings were read off are left out.

    Raises:
        InputError: the file's name ends in none of SUFFIXES, or it cannot be written.
        StorageError: the disk would not take it.
    """
    check_picture(path)
    last = max((row.budget for row in rows if row.scheduler != BASELINE), default=rows[-1].budget)
    figure = _figure([row for row in rows if row.budget <= last], subjects)
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

    decides, runs = "wrong" in rows[0].measured, rows[0].runs
    agreeing = not decides and any(subject.human is not None for subject in subjects)
    figure = Figure(figsize=(4.4 * (3 + agreeing), 3.3 * len(subjects)), layout="constrained")
    axes = figure.subplots(len(subjects), 3 + agreeing, squeeze=False)
    for subject, line in zip(subjects, axes, strict=True):
        ratings = Ratings.of(subject.ratings)
        mine = [row for row in rows if row.attribute == subject.attribute]
        if decides:
            what, over = "decisions {}, %", f"\n(mean of {runs} simulated runs)"
            _curves(line[0], mine, "wrong", what.format("wrong by the mean ratings") + over, times=100, bottom=0)
            _curves(line[1], mine, "certified", what.format("certified") + over, times=100, bottom=0, top=103)
        else:
            _curves(line[0], mine, "wce", f"worst-case error\n(mean of {runs} simulated runs ± s.e.)")
            _histogram(line[1], ratings.variances, "variance of a pair's ratings")
        line[0].set_title(title_of(subject.attribute), loc="left", fontweight="bold")
        _histogram(line[2], ratings.means, "mean rating of a pair")
        if agreeing:
            _agreement(line[3], mine)
    return figure


def _curves(
    axes: Axes,
    rows: Sequence[Row],
    measure: str,
    label: str,
    *,
    times: float = 1,
    bottom: float | None = None,
    top: float | None = None,
) -> None:
    """Draw a curve of each scheduler against budget; logarithmic, but from ``bottom`` on where there is one."""
    for number, name in enumerate(dict.fromkeys(row.scheduler for row in rows)):
        mine = [row for row in rows if row.scheduler == name]
        mean, error = ([times * row.figure(f"{measure}_{part}") for row in mine] for part in ("mean", "sem"))
        axes.errorbar(
            [row.budget for row in mine],
            mean,
            error,
            label=name,
            color=_COLOURS[number % len(_COLOURS)],
            marker=_MARKS[number % len(_MARKS)],
            markersize=3,
            linewidth=1.2,
            capsize=2,
        )
    axes.set(xscale="log", xlabel="judge calls", ylabel=label)
    log_axis(axes.xaxis)
    if bottom is None:
        axes.set(yscale="log")
        log_axis(axes.yaxis)
    else:
        axes.set_ylim(bottom, top)
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
        values = [(row.correlations or {})[coefficient] for row in mine]
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
