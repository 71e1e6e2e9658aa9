"""``robin simulate --pairwise``: settings in, a table of wrong rankings out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import TextIO

import numpy as np

from robin_cli.analysis.pairwise_experiment import VoteDesign, VoteRow, VoteSubject, conduct_votes
from robin_cli.datasets.votes import VotePool, load_votes
from robin_cli.model.decision import BEST
from robin_cli.model.errors import InputError, shown
from robin_cli.policies.registry import BASELINE
from robin_cli.settings.table import SIMULATION, SimulationSettings

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
        _subject(pool, settings.limit)
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


def _subject(pool: VotePool, limit: int | None) -> VoteSubject:
    orders = zip(*(each[:limit] for each in pool.points), strict=True)
    return VoteSubject(pool.name, pool.pairs[:limit], tuple(each for both in orders for each in both))


def print_pairwise_csv(rows: Sequence[VoteRow], out: TextIO) -> None:
    """Write the columns of the contract."""
    writer = csv.writer(out, lineterminator="\n")
    columns = [each.name for each in fields(VoteRow)]
    writer.writerow(columns)
    for row in rows:
        values = (getattr(row, name) for name in columns)
        writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


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


def _percent(row: VoteRow) -> str:
    error = "" if np.isnan(row.wrong_sem) else f" ± {100 * row.wrong_sem:.2g}"
    return f"{100 * row.wrong_mean:.2g}{error} %"
