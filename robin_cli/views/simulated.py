"""``robin simulate``: settings in, a table (and a picture) out."""

from __future__ import annotations

import base64
import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from robin_cli.analysis.agreement import CORRELATIONS
from robin_cli.analysis.experiment import DecisionRow, Design, Row, Saving, Subject, conduct, deciding_policy, saved
from robin_cli.analysis.pairwise_experiment import VoteDesign, VoteRow, VoteSubject, conduct_votes
from robin_cli.analysis.simulation import Ratings
from robin_cli.datasets.pools import Pool
from robin_cli.datasets.votes import VotePool, holds_votes, load_votes
from robin_cli.files.outputs import check_output_file, output_file
from robin_cli.model.decision import BEST, SCORE, named_in
from robin_cli.model.errors import InputError, StorageError, shown
from robin_cli.model.records import Scale
from robin_cli.policies.registry import BASELINE
from robin_cli.settings.table import SIMULATION, SimulationSettings
from robin_cli.storage.pools import load_pools
from robin_cli.views.parsing import read_scale
from robin_cli.views.report.pictures import SAME_EACH_TIME, log_axis, title_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_SCORING = (BASELINE, "robin-hood", "robin")
_ERROR_COLUMNS = ("attribute", "scheduler", "budget", "wce_mean", "wce_std", "wce_sem", "runs")
_DECISION_COLUMNS = (
    *("attribute", "scheduler", "budget", "wrong_mean", "wrong_sem", "certified_mean", "certified_wrong_mean"),
    *("calls_mean", "runs"),
)
_CURVE_POINTS = 14
_REFERENCE = 4
"""How far uniform's curve goes beyond the largest budget, to read off the calls it needs for the others' errors."""


def experiment(settings: SimulationSettings, progress: Callable[[int, int], None]) -> tuple[list[Subject], list[Row]]:
    """Load the pools and conduct the experiment; with a plot, at more budgets than were asked for, to draw curves.

    Raises:
        InputError: the pool cannot be used, or the design does not fit it.
    """
    if settings.plot:
        check_picture(Path(settings.plot))
    is_best = settings.decide is not None and settings.decide.strip() == BEST
    if settings.group is not None and not is_best:
        raise InputError(f"--group: is for --decide {BEST}; thresholds are for each pair by itself")
    if holds_votes(settings.pool or ""):
        raise InputError(f"{settings.pool}: holds verdicts on two responses, and no ratings; add --pairwise")
    pools = load_pools(settings.pool or "", settings.group, grouped=is_best)
    subjects = [_subject(pool, settings) for pool in _chosen(pools, settings)]
    budgets = settings.budget
    reference: tuple[int, ...] = ()
    if settings.plot:
        pairs, last = max(len(subject.ratings) for subject in subjects), max(budgets)
        budgets = tuple(sorted({*budgets, *_between(max(pairs, min(3 * pairs, last)), last)}))
        reference = () if settings.decide else _between(last, _REFERENCE * last)
    design = Design(
        schedulers=settings.schedulers or _SCORING,
        budgets=budgets,
        runs=settings.runs,
        seed=settings.seed,
        delta=settings.delta,
        mode=settings.mode,
        objective=settings.objective,
        reference=reference,
        decide=settings.decide,
        margin=settings.margin,
        error_rate=settings.error_rate,
        group=settings.group,
    )
    if settings.decide and not settings.schedulers:
        design = replace(design, schedulers=(BASELINE, deciding_policy(subjects[0], design)))
    return subjects, conduct(subjects, design, progress)


def _between(first: int, last: int) -> tuple[int, ...]:
    return tuple(np.unique(np.geomspace(first, last, _CURVE_POINTS).round().astype(int)).tolist())


def print_csv(rows: Sequence[Row], settings: SimulationSettings, out: TextIO) -> None:
    """Write the columns of the contract for the budgets that were asked for."""
    asked = [row for row in rows if row.budget in settings.budget]
    found = [{**asdict(row), **({} if row.decided is None else asdict(row.decided))} for row in asked]
    _write(_DECISION_COLUMNS if settings.decide else _ERROR_COLUMNS, found, out)


def _write(columns: Sequence[str], rows: Iterable[Mapping[str, Any]], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = (row[name] for name in columns)
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def say_constant(subjects: Sequence[Subject], notify: Callable[[str], None]) -> None:
    """Say of which pools some pairs have one rating only: simulated, a judge never varies there, and no error is made."""
    for subject in subjects:
        if once := sum(len(each) == 1 for each in subject.ratings):
            notify(f"{subject.attribute}: {once:,} of {len(subject.ratings):,} pairs have one rating, and never vary")


def say_savings(rows: Sequence[Row], settings: SimulationSettings, notify: Callable[[str], None]) -> None:
    """Say how many of uniform's calls each other scheduler saves at equal error, where the curves were drawn to tell."""
    if BASELINE not in (settings.schedulers or _SCORING) or not settings.plot or settings.decide:
        return
    notify("simulated: calls saved at equal worst-case error, against uniform")
    for row in rows:
        if row.scheduler != BASELINE and row.budget in settings.budget:
            said = _said(saved(rows, row.attribute, row.scheduler, row.budget), row.runs)
            notify(f"  {row.attribute} · {row.scheduler} at {row.budget:,}: {said}")


def say_decisions(rows: Sequence[Row], settings: SimulationSettings, notify: Callable[[str], None]) -> None:
    """Say of each other scheduler how many decisions are wrong beside uniform's, at the budgets that were asked for."""
    if settings.decide is None:
        return
    evenly = {(row.attribute, row.budget): row.decided for row in rows if row.scheduler == BASELINE}
    notify("simulated: decisions that are wrong by the mean ratings, and what is certified, against uniform")
    for row in rows:
        mine, other = row.decided, evenly.get((row.attribute, row.budget))
        if row.scheduler == BASELINE or row.budget not in settings.budget or mine is None or other is None:
            continue
        is_over = mine.certified_mean == 1.0
        ended = f", all decided after {mine.calls_mean:,.0f} calls" if is_over and mine.calls_mean < row.budget else ""
        notify(
            f"  {row.attribute} · {row.scheduler} at {row.budget:,}: {_percent(mine)} wrong against {_percent(other)}, "
            f"{mine.certified_mean:.0%} certified against {other.certified_mean:.0%}{ended}"
        )


def _percent(row: DecisionRow | VoteRow) -> str:
    error = "" if np.isnan(row.wrong_sem) else f" ± {100 * row.wrong_sem:.2g}"
    return f"{100 * row.wrong_mean:.2g}{error} %"


def _said(saving: Saving, runs: int) -> str:
    if np.isnan(saving.share):
        return "– (uniform's curve ends before)"
    if not saving.is_told:
        return f"– ({runs} run{'s' * (runs > 1)} cannot tell it from 0)"
    return f"{saving.share:.0%} (95 %: {saving.low:.0%} to {saving.high:.0%})"


def draw_curves(rows: Sequence[Row], subjects: Sequence[Subject], path: Path) -> None:
    """Draw the picture, see :mod:`robin_cli.views.simulated`, without what only the savings were read off."""
    last = max((row.budget for row in rows if row.scheduler != BASELINE), default=rows[-1].budget)
    draw([row for row in rows if row.budget <= last], subjects, path)


def _chosen(pools: Mapping[str, Pool], settings: SimulationSettings) -> list[Pool]:
    names = settings.attribute
    for name in names:
        if name not in pools:
            raise InputError(f'--attribute "{name}": not in {settings.pool}; it has {", ".join(pools)}')
    chosen = [pool for name, pool in pools.items() if not names or name in names]
    if settings.decide is None or settings.decide.strip() == BEST:
        return chosen
    wanted = set(named_in(settings.decide)) - {SCORE}
    if len(wanted) > 1:
        raise InputError(
            f'--decide "{settings.decide}": one attribute at a time is simulated; name it score, and the sets with --attribute'
        )
    if not wanted:
        return chosen
    named = [pool for pool in chosen if pool.name.rpartition("/")[2] in wanted]
    if not named:
        raise InputError(f'--decide "{settings.decide}": {settings.pool} has no {wanted.pop()}, but {", ".join(pools)}')
    return named


def _subject(pool: Pool, settings: SimulationSettings) -> Subject:
    ratings = pool.ratings[: settings.limit]
    low = min(int(each.min()) for each in ratings)
    high = max(int(each.max()) for each in ratings)
    scale = read_scale(settings.scale) if settings.scale else Scale(low, max(high, low + 1))
    human = None if pool.human is None else pool.human[: settings.limit]
    group = None if pool.groups is None else pool.groups[: settings.limit]
    return Subject(pool.name, ratings, scale, human, group)


_NOT_WITH = {"group": "is for ratings", "scale": "is for ratings", "plot": "draws errors of ratings"}


def pairwise_experiment(settings: SimulationSettings, progress: Callable[[int, int], None]) -> list[VoteRow]:
    """Load the verdicts and conduct the experiment.

    Raises:
        InputError: there are none, or the design does not fit them.
    """
    for name, why in _NOT_WITH.items():
        if getattr(settings, name) is not None:
            raise InputError(f"--pairwise: not with {SIMULATION[name].flag}, which {why}; leave one of the two out")
    if settings.decide is not None and settings.decide.strip() != BEST:
        raise InputError(
            f'--pairwise: not with --decide "{shown(settings.decide, 80)}", a threshold for ratings; --decide {BEST} finds the '
            "best response to each prompt"
        )
    if settings.margin is not None and settings.margin >= 0.5:
        raise InputError(f"--margin {settings.margin:g}: with --pairwise it is a probability below 0.5, as 0.025")
    pools = load_votes(settings.pool or "")
    for name in settings.attribute:
        if name not in pools:
            raise InputError(f'--attribute "{name}": no judge in {settings.pool}; it has {", ".join(pools)}')
    subjects = [
        _vote_subject(pool, settings.limit)
        for name, pool in pools.items()
        if not settings.attribute or name in settings.attribute
    ]
    design = VoteDesign(
        budgets=settings.budget,
        schedulers=settings.schedulers,
        runs=settings.runs,
        seed=settings.seed,
        objective=settings.objective,
        wants_best=settings.decide is not None,
        margin=settings.margin,
    )
    return conduct_votes(subjects, design, progress)


def _vote_subject(pool: VotePool, limit: int | None) -> VoteSubject:
    orders = zip(*(each[:limit] for each in pool.points), strict=True)
    return VoteSubject(pool.name, pool.pairs[:limit], tuple(each for both in orders for each in both))


def print_pairwise_csv(rows: Sequence[VoteRow], out: TextIO) -> None:
    """Write the columns of the contract."""
    _write([each.name for each in fields(VoteRow)], map(asdict, rows), out)


def say_pairwise(rows: Sequence[VoteRow], notify: Callable[[str], None]) -> None:
    """Say of each other scheduler how much is wrong beside uniform's."""
    evenly = {(row.attribute, row.budget): row for row in rows if row.scheduler == BASELINE}
    if not evenly:
        return
    notify(f"simulated: {rows[0].what} that are wrong, against {BASELINE}")
    for row in rows:
        other = evenly.get((row.attribute, row.budget))
        if row.scheduler == BASELINE or other is None:
            continue
        notify(
            f"  {row.attribute} · {row.scheduler} at {row.budget:,}: {_percent(row)} wrong against {_percent(other)}, any in "
            f"{row.any_mean:.0%} of the runs against {other.any_mean:.0%}"
        )


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
