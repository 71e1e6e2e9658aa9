"""``robin simulate``: settings in, a table (and a picture) out."""

from __future__ import annotations

import base64
import csv
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

import numpy as np

from robin_cli.model.arms import FloatArray
from robin_cli.model.errors import InputError
from robin_cli.policies.registry import BASELINE
from robin_cli.show.charts import Axis, Chart, Panel, Series, histogram
from robin_cli.show.columns import SIMULATED
from robin_cli.show.drawing import drawn
from robin_cli.show.files import write_to
from robin_cli.show.outputs import check_writable
from robin_cli.show.parsing import read_scale
from robin_cli.show.tables import Table
from robin_cli.simulate.experiment import Row, Subject, conduct
from robin_cli.simulate.pools import subjects_of
from robin_cli.simulate.runs import Ratings
from robin_cli.simulate.savings import Saving, saved
from robin_cli.simulate.settings import SimulationSettings

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


def table_of(rows: Sequence[Row], settings: SimulationSettings) -> Table:
    """Return the results at the requested budgets, to six digits."""
    asked = [row for row in rows if row.budget in settings.budget]
    figures = {
        name: [row.what if name == "what" else float(f"{row.figure(name):.6g}") for row in asked]
        for name in rows[0].columns
    }
    about = {
        name: [getattr(row, name) for row in asked]
        for name in ("attribute", "scheduler", "budget", "runs")
    }
    runs = about.pop("runs")
    return SIMULATED.of({**about, **figures, "runs": runs})


def print_csv(table: Table, out: TextIO) -> None:
    """Write the table in its original format, without quotation marks."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(table.data.column_names)
    for row in table.records():
        writer.writerow(
            "nan" if value is None else f"{value:.6g}" if isinstance(value, float) else value
            for value in row.values()
        )


def notes(
    subjects: Sequence[Subject], rows: Sequence[Row], settings: SimulationSettings
) -> Iterator[str]:
    """Return notes on the pools, and the gain of each other scheduler over uniform at the requested budgets."""
    for subject in subjects:
        once = sum(len(each) == 1 for each in subject.ratings)
        if once and subject.goal.space.raters == 1:
            yield f"{subject.attribute}: {once:,} of {len(subject.ratings):,} pairs have one rating, and never vary"
        for share in subject.found_right(subject.recorded).values():
            yield f"{subject.attribute}: {100 * share.item():.1f} % of the best by all recorded ratings are right"
    evenly = {(row.attribute, row.budget): row for row in rows if row.scheduler == BASELINE}
    pairs = {subject.attribute: subject.recorded.size for subject in subjects}
    others = [row for row in rows if row.scheduler != BASELINE and row.budget in settings.budget]
    is_scoring = "wce" in rows[0].measured
    if not evenly or (is_scoring and not settings.plot):
        return
    if is_scoring:
        yield "simulated: calls saved at equal worst-case error, against uniform"
    elif "right" in rows[0].measured:
        yield "simulated: the best by the mean ratings that are right, against uniform"
    elif rows[0].what:
        yield f"simulated: {rows[0].what} that are wrong, against {BASELINE}"
    else:
        yield "simulated: decisions that are wrong, against uniform"
    for row in others:
        if is_scoring:
            gain = _said(saved(rows, row.attribute, row.scheduler, row.budget), row.runs)
        else:
            gain = _against(row, evenly[row.attribute, row.budget])
        each = (
            f" ({row.budget / pairs[row.attribute]:.2g} a response)"
            if "right" in row.measured
            else ""
        )
        yield f"  {row.attribute} · {row.scheduler} at {row.budget:,}{each}: {gain}"


def _against(row: Row, evenly: Row) -> str:
    """Return the errors, or right decisions, of one scheduler and of an even spread."""
    if "right" in row.measured:
        return f"{_percent(row, 'right', '.1f')} right against {_percent(evenly, 'right', '.1f')}"
    wrong = f"{_percent(row)} wrong against {_percent(evenly)}"
    if "likely_wrong" not in row.measured:
        return f"{wrong}, any in {row.figure('any_mean'):.0%} of the runs against {evenly.figure('any_mean'):.0%}"
    stated, calls = _percent(row, "likely_wrong"), row.figure("calls_mean")
    ended = f", ended after {calls:,.0f} calls" if calls < row.budget else ""
    sure = ""
    if "certified" in row.measured:
        sure = f", {row.figure('certified_mean'):.0%} certified against {evenly.figure('certified_mean'):.0%}"
    return f"{wrong} (stated: {stated}){sure}{ended}"


def _percent(row: Row, measure: str = "wrong", form: str = ".2g") -> str:
    mean, sem = (100 * row.figure(f"{measure}_{part}") for part in ("mean", "sem"))
    return f"{mean:{form}}{'' if np.isnan(sem) else f' ± {sem:{form}}'} %"


def _said(saving: Saving, runs: int) -> str:
    if np.isnan(saving.share):
        return "– (uniform's curve ends before)"
    if not saving.is_significant:
        return f"– ({runs} run{'s' * (runs > 1)} cannot tell it from 0)"
    return f"{saving.share:.0%} (95 %: {saving.low:.0%} to {saving.high:.0%})"


SUFFIXES = (".png", ".svg", ".pdf", ".html")
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
    chart = _chart([row for row in rows if row.budget <= last], subjects)
    write_to("--plot", str(path), lambda file: file.write(_file(chart, path.suffix.lower())))


def check_picture(path: Path) -> None:
    """Raise InputError unless ``path`` ends in one of SUFFIXES and can be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot {path}: a picture ends in {', '.join(SUFFIXES)}")
    check_writable("--plot", str(path))


def _file(chart: Chart, suffix: str) -> bytes:
    if suffix != ".html":
        return drawn(chart, suffix.removeprefix("."))
    picture = base64.b64encode(drawn(chart, "svg")).decode()
    page = (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>robin simulate</title>'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; style-src 'unsafe-inline'\">"
        f'<body style="margin:1rem;background:#fff"><img style="max-width:100%" alt="{chart.says}" '
        f'src="data:image/svg+xml;base64,{picture}"></body></html>\n'
    )
    return page.encode()


def _chart(rows: Sequence[Row], subjects: Sequence[Subject]) -> Chart:
    decides, runs = "wrong" in rows[0].measured, rows[0].runs
    agreeing = not decides and any(subject.human is not None for subject in subjects)
    knows, panels = "right" in rows[0].measured, dict[str, Panel]()
    for subject in subjects:
        name, ratings = subject.attribute, Ratings.of(subject.ratings)
        mine = [row for row in rows if row.attribute == name]
        if knows:
            panels[name] = _right(mine, subject)
            continue
        if decides:
            panels[name] = _curves(mine, "wrong", f"wrong, %, {runs} runs", (0.0, None))
            panels[f"{name}: stated"] = _curves(
                mine, "likely_wrong", f"likely wrong, %, {runs} runs", (0.0, None)
            )
        else:
            panels[name] = _curves(mine, "wce", f"worst-case error, mean of {runs} runs ± s.e.")
            panels[f"{name}: variances"] = _spread(
                ratings.variances, "variance of a pair's ratings"
            )
        panels[f"{name}: means"] = _spread(ratings.means, "mean rating of a pair")
        if agreeing:
            panels[f"{name}: people"] = _agreement(mine)
    a_line = min(3, len(panels)) if knows else 3 + agreeing
    size = (4.4 * a_line, 3.3 * -(-len(panels) // a_line))
    return Chart(
        "robin simulate", "Simulated runs against their budgets", panels, a_line=a_line, size=size
    )


def _curves(
    rows: Sequence[Row],
    measure: str,
    label: str,
    limits: tuple[float | None, float | None] | None = None,
) -> Panel:
    """Return each scheduler's curve against budget: a share in percent with ``limits``, else an error, logarithmic."""
    lines = []
    for number, name in enumerate(dict.fromkeys(row.scheduler for row in rows)):
        mine = [row for row in rows if row.scheduler == name]
        mean, error = (
            np.array([row.figure(f"{measure}_{part}") for row in mine]) * (100.0 if limits else 1.0)
            for part in ("mean", "sem")
        )
        lines.append(replace(_line(name, mine, mean, number), low=mean - error, high=mean + error))
    return Panel(
        lines, Axis("judge calls", is_log=True), Axis(label, limits, is_log=limits is None)
    )


def _right(rows: Sequence[Row], subject: Subject) -> Panel:
    """Return the curve of right decisions by calls for each response, and the level of all recorded ratings' means."""
    lines = [
        replace(each, x=np.divide(each.x, subject.recorded.size))
        for each in _curves(rows, "right", "", (None, None)).series
    ]
    known = subject.found_right(subject.recorded)["right"].item()
    label = f"right, %, {rows[0].runs} runs (dashed: all recorded)"
    return Panel(
        lines,
        Axis("judge calls a response", is_log=True),
        Axis(label, (None, None), rule=100 * known),
    )


def _spread(values: FloatArray, label: str) -> Panel:
    return histogram(
        values,
        label,
        (float(values.min()), float(values.max())),
        f"pairs (of {len(values):,})",
        bins=40,
    )


def _agreement(rows: Sequence[Row]) -> Panel:
    name = rows[-1].scheduler
    mine = [row for row in rows if row.scheduler == name]
    lines = [
        _line(each, mine, np.array([(row.correlations or {})[each] for row in mine]), number)
        for number, each in enumerate(rows[-1].correlations or ())
    ]
    return Panel(lines, Axis("judge calls"), Axis(f"correlation with people, {name}"))


def _line(name: str, rows: Sequence[Row], values: FloatArray, number: int) -> Series:
    calls, place = np.array([row.budget for row in rows]), number % len(_MARKS)
    return Series("line", calls, values, name, f"{_MARKS[place]}-", place)
