"""``robin simulate``: settings in, a table (and a picture) out."""

from __future__ import annotations

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
from robin_cli.simulate.experiment import RecordedSet, Row, conduct
from robin_cli.simulate.pools import subjects_of
from robin_cli.simulate.savings import saved
from robin_cli.simulate.settings import SimulationSettings

SUFFIXES = (".png", ".svg", ".pdf")
_CURVE_POINTS = 14
_REFERENCE = 4  # uniform's curve goes so far beyond the largest budget: savings are read off it
_MARKS = ("o", "s", "^", "D", "v")


def experiment(
    settings: SimulationSettings, progress: Callable[[int, int], None]
) -> tuple[Sequence[RecordedSet], Sequence[Row]]:
    """Load the pools and conduct the experiment; for a plot at further budgets, to draw curves.

    Raises:
        InputError: the pool cannot be used, or the design does not fit it.
    """
    if settings.plot and not settings.pairwise:
        check_picture(Path(settings.plot))
    subjects = subjects_of(settings, read_scale(settings.scale) if settings.scale else None)
    reference: tuple[int, ...] = ()
    if settings.plot:
        arms, last = max(len(subject.ratings) for subject in subjects), max(settings.budget)
        budgets = {*settings.budget, *_between(max(arms, min(3 * arms, last)), last)}
        reference = () if settings.decide else _between(last, _REFERENCE * last)
        settings = replace(settings, budget=tuple(sorted(budgets)))
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
    names = ("attribute", "scheduler", "budget", "runs")
    *about, runs = ([getattr(row, name) for row in asked] for name in names)
    return SIMULATED.with_values({**dict(zip(names, about, strict=False)), **figures, "runs": runs})


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
    subjects: Sequence[RecordedSet], rows: Sequence[Row], settings: SimulationSettings
) -> Iterator[str]:
    """Yield notes on the pools, and what each scheduler gains over uniform at each budget."""
    for subject in subjects:
        name, pairs = subject.attribute, len(subject.ratings)
        once = sum(len(each) == 1 for each in subject.ratings)
        if once and subject.goal.space.raters == 1:
            yield f"{name}: {once:,} of {pairs:,} pairs have one rating, and never vary"
        for share in subject.share_right(subject.recorded).values():
            right = f"{100 * share.item():.1f} %"
            yield f"{name}: {right} of the best by all recorded ratings are right"
    evenly = {(row.attribute, row.budget): row for row in rows if row.scheduler == BASELINE}
    others = [row for row in rows if row.scheduler != BASELINE and row.budget in settings.budget]
    measured, what = rows[0].measured, rows[0].what
    is_scoring = "wce" in measured
    if not evenly or (is_scoring and not settings.plot):
        return
    if is_scoring:
        yield "simulated: calls saved at equal worst-case error, against uniform"
    elif "right" in measured:
        yield "simulated: the best by the mean ratings that are right, against uniform"
    else:
        yield f"simulated: {what or 'decisions'} that are wrong, against {BASELINE}"
    responses = {subject.attribute: subject.recorded.size for subject in subjects}
    for row in others:
        gain = (
            _saving(rows, row) if is_scoring else _against(row, evenly[row.attribute, row.budget])
        )
        a_response = row.budget / responses[row.attribute]
        each = f" ({a_response:.2g} a response)" if "right" in measured else ""
        yield f"  {row.attribute} · {row.scheduler} at {row.budget:,}{each}: {gain}"


def _saving(rows: Sequence[Row], row: Row) -> str:
    saving = saved(rows, row)
    if np.isnan(saving.share):
        return "– (uniform's curve ends before)"
    if not saving.is_significant:
        return f"– ({row.runs} run{'s' * (row.runs > 1)} cannot tell it from 0)"
    return f"{saving.share:.0%} (95 %: {saving.low:.0%} to {saving.high:.0%})"


def _against(row: Row, evenly: Row) -> str:
    """Return the errors, or right decisions, of one scheduler and of an even spread."""
    if "right" in row.measured:
        return f"{_percent(row, 'right', '.1f')} right against {_percent(evenly, 'right', '.1f')}"
    wrong = f"{_percent(row)} wrong against {_percent(evenly)}"
    if "likely_wrong" not in row.measured:
        any_wrong, even = (each.figure("any_mean") for each in (row, evenly))
        return f"{wrong}, any in {any_wrong:.0%} of the runs against {even:.0%}"
    stated, calls, sure = _percent(row, "likely_wrong"), row.figure("calls_mean"), ""
    if "certified" in row.measured:
        certified, even = (each.figure("certified_mean") for each in (row, evenly))
        sure = f", {certified:.0%} certified against {even:.0%}"
    ended = f", ended after {calls:,.0f} calls" if calls < row.budget else ""
    return f"{wrong} (stated: {stated}){sure}{ended}"


def _percent(row: Row, measure: str = "wrong", form: str = ".2g") -> str:
    mean, sem = (100 * row.figure(f"{measure}_{part}") for part in ("mean", "sem"))
    return f"{mean:{form}}{'' if np.isnan(sem) else f' ± {sem:{form}}'} %"


def check_picture(path: Path) -> None:
    """Raise InputError unless ``path`` ends in one of SUFFIXES and can be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"--plot {path}: a picture ends in {', '.join(SUFFIXES)}")
    check_writable("--plot", str(path))


def draw(rows: Sequence[Row], subjects: Sequence[RecordedSet], path: Path) -> None:
    """Draw a row of panels for each subject: errors or decisions by budget, and its pairs.

    Budgets that only the savings were read off are left out.

    Raises:
        InputError: the file's name ends in none of SUFFIXES, or it cannot be written.
        StorageError: the disk would not take it.
    """
    check_picture(path)
    last = max((row.budget for row in rows if row.scheduler != BASELINE), default=rows[-1].budget)
    chart = _chart([row for row in rows if row.budget <= last], subjects)
    data = drawn(chart, path.suffix.lower().removeprefix("."))
    write_to("--plot", str(path), lambda file: file.write(data))


def _chart(rows: Sequence[Row], subjects: Sequence[RecordedSet]) -> Chart:
    measured, runs = rows[0].measured, rows[0].runs
    decides, knows = "wrong" in measured, "right" in measured
    agreeing = not decides and any(subject.human is not None for subject in subjects)
    panels: dict[str, Panel] = {}
    for subject in subjects:
        name, ratings = subject.attribute, subject.drawn
        of_subject = [row for row in rows if row.attribute == name]
        if knows:
            panels[name] = _right(of_subject, subject)
            continue
        if decides:
            percent, stated = (0.0, None), f"likely wrong, %, {runs} runs"
            panels[name] = _curves(of_subject, "wrong", f"wrong, %, {runs} runs", percent)
            panels[f"{name}: stated"] = _curves(of_subject, "likely_wrong", stated, percent)
        else:
            panels[name] = _curves(
                of_subject, "wce", f"worst-case error, mean of {runs} runs ± s.e."
            )
            panels[f"{name}: variances"] = _spread(
                ratings.variances, "variance of a pair's ratings"
            )
        panels[f"{name}: means"] = _spread(ratings.means, "mean rating of a pair")
        if agreeing:
            panels[f"{name}: people"] = _agreement(of_subject)
    a_line = min(3, len(panels)) if knows else 3 + agreeing
    size = (4.4 * a_line, 3.3 * -(-len(panels) // a_line))
    says = "Simulated runs against their budgets"
    return Chart("robin simulate", says, panels, a_line=a_line, size=size)


def _curves(
    rows: Sequence[Row],
    measure: str,
    label: str,
    limits: tuple[float | None, float | None] | None = None,
) -> Panel:
    """Return each scheduler's curve by budget.

    Args:
        limits: of a share in percent; None for an error, whose axis is logarithmic.
    """
    lines = []
    for number, name in enumerate(dict.fromkeys(row.scheduler for row in rows)):
        of_policy = [row for row in rows if row.scheduler == name]
        mean, error = (
            np.array([row.figure(f"{measure}_{part}") for row in of_policy])
            * (100.0 if limits else 1.0)
            for part in ("mean", "sem")
        )
        lines.append(
            replace(_line(name, of_policy, mean, number), low=mean - error, high=mean + error)
        )
    calls, figure = Axis("judge calls", is_log=True), Axis(label, limits, is_log=limits is None)
    return Panel(lines, calls, figure)


def _right(rows: Sequence[Row], subject: RecordedSet) -> Panel:
    """Return the curve of right decisions by calls a response, and the level of all ratings."""
    lines = [
        replace(each, x=np.divide(each.x, subject.recorded.size))
        for each in _curves(rows, "right", "", (None, None)).series
    ]
    known = 100 * subject.share_right(subject.recorded)["right"].item()
    label = f"right, %, {rows[0].runs} runs (dashed: all recorded)"
    calls = Axis("judge calls a response", is_log=True)
    return Panel(lines, calls, Axis(label, (None, None), rule=known))


def _spread(values: FloatArray, label: str) -> Panel:
    ends = (float(values.min()), float(values.max()))
    return histogram(values, label, ends, f"pairs (of {len(values):,})", bins=40)


def _agreement(rows: Sequence[Row]) -> Panel:
    name = rows[-1].scheduler
    of_policy = [row for row in rows if row.scheduler == name]
    lines = [
        _line(
            each, of_policy, np.array([(row.correlations or {})[each] for row in of_policy]), number
        )
        for number, each in enumerate(rows[-1].correlations or ())
    ]
    return Panel(lines, Axis("judge calls"), Axis(f"correlation with people, {name}"))


def _line(name: str, rows: Sequence[Row], values: FloatArray, number: int) -> Series:
    calls, place = np.array([row.budget for row in rows]), number % len(_MARKS)
    return Series("line", calls, values, name, f"{_MARKS[place]}-", place)
