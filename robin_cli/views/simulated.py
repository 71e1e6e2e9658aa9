"""``robin simulate``: settings in, a table (and a picture) out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from robin_cli.analysis.experiment import Design, Row, Subject, conduct
from robin_cli.analysis.savings import Saving, saved
from robin_cli.datasets.pools import Pool, load_pools
from robin_cli.model.errors import InputError
from robin_cli.model.records import Scale
from robin_cli.policies.registry import BASELINE
from robin_cli.settings.table import SimulationSettings
from robin_cli.views.curves import check_picture, draw
from robin_cli.views.parsing import read_scale

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
    subjects = [_subject(pool, settings) for pool in _chosen(load_pools(settings.pool or ""), settings)]
    budgets = settings.budget
    reference: tuple[int, ...] = ()
    if settings.plot:
        pairs, last = max(len(subject.ratings) for subject in subjects), max(budgets)
        budgets = tuple(sorted({*budgets, *_between(max(pairs, min(3 * pairs, last)), last)}))
        reference = _between(last, _REFERENCE * last)
    design = Design(
        schedulers=settings.schedulers,
        budgets=budgets,
        runs=settings.runs,
        seed=settings.seed,
        delta=settings.delta,
        mode=settings.mode,
        objective=settings.objective,
        reference=reference,
    )
    return subjects, conduct(subjects, design, progress)


def _between(first: int, last: int) -> tuple[int, ...]:
    return tuple(np.unique(np.geomspace(first, last, _CURVE_POINTS).round().astype(int)).tolist())


def print_csv(rows: Sequence[Row], settings: SimulationSettings, out: TextIO) -> None:
    """Write the columns of the contract for the budgets that were asked for."""
    writer = csv.writer(out, lineterminator="\n")
    columns = ("attribute", "scheduler", "budget", "wce_mean", "wce_std", "wce_sem", "runs")
    writer.writerow(columns)
    for row in rows:
        if row.budget in settings.budget:
            values = (getattr(row, name) for name in columns)
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def say_constant(subjects: Sequence[Subject], notify: Callable[[str], None]) -> None:
    """Say of which pools some pairs have one rating only: simulated, a judge never varies there, and no error is made."""
    for subject in subjects:
        if once := sum(len(each) == 1 for each in subject.ratings):
            notify(f"{subject.attribute}: {once:,} of {len(subject.ratings):,} pairs have one rating, and never vary")


def say_savings(rows: Sequence[Row], settings: SimulationSettings, notify: Callable[[str], None]) -> None:
    """Say how many of uniform's calls each other scheduler saves at equal error, where the curves were drawn to tell."""
    if BASELINE not in settings.schedulers or not settings.plot:
        return
    notify("simulated: calls saved at equal worst-case error, against uniform")
    for row in rows:
        if row.scheduler != BASELINE and row.budget in settings.budget:
            said = _said(saved(rows, row.attribute, row.scheduler, row.budget), row.runs)
            notify(f"  {row.attribute} · {row.scheduler} at {row.budget:,}: {said}")


def _said(saving: Saving, runs: int) -> str:
    if np.isnan(saving.share):
        return "– (uniform's curve ends before)"
    if not saving.is_told:
        return f"– ({runs} run{'s' * (runs > 1)} cannot tell it from 0)"
    return f"{saving.share:.0%} (95 %: {saving.low:.0%} to {saving.high:.0%})"


def draw_curves(rows: Sequence[Row], subjects: Sequence[Subject], path: Path) -> None:
    """Draw the picture, see :func:`robin_cli.views.curves.draw`, without what only the savings were read off."""
    last = max((row.budget for row in rows if row.scheduler != BASELINE), default=rows[-1].budget)
    draw([row for row in rows if row.budget <= last], subjects, path)


def _chosen(pools: Mapping[str, Pool], settings: SimulationSettings) -> list[Pool]:
    for name in settings.attribute:
        if name not in pools:
            raise InputError(f'--attribute "{name}": not in {settings.pool}; it has {", ".join(pools)}')
    return [pool for name, pool in pools.items() if not settings.attribute or name in settings.attribute]


def _subject(pool: Pool, settings: SimulationSettings) -> Subject:
    ratings = pool.ratings[: settings.limit]
    low = min(int(each.min()) for each in ratings)
    high = max(int(each.max()) for each in ratings)
    scale = read_scale(settings.scale) if settings.scale else Scale(low, max(high, low + 1))
    human = None if pool.human is None else pool.human[: settings.limit]
    return Subject(pool.name, ratings, scale, human)
