"""``robin simulate``: settings in, a table (and a picture) out."""

from __future__ import annotations

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TextIO

import numpy as np
from rich.console import Console
from rich.text import Text

from robin_cli.config import SIMULATE, find_config, toml_content
from robin_cli.data.pools import Pool, load_pools
from robin_cli.errors import InputError
from robin_cli.output.curves import Saving, check_picture, draw, saved
from robin_cli.output.parsing import read_scale
from robin_cli.output.text import plain
from robin_cli.records import Scale
from robin_cli.statistics.experiment import Design, Row, Subject, conduct

_CURVE_POINTS = 14
_REFERENCE = 4
"""How far uniform's curve goes beyond the largest budget, to read off the calls it needs for the others' errors."""


@dataclass(frozen=True, slots=True)
class SimulateConfig:
    """The settings of ``robin simulate``, by the names of its flags; ``budget`` in rising order."""

    pool: str
    budget: tuple[int, ...]
    schedulers: tuple[str, ...] = ("uniform", "robin-hood", "robin")
    runs: int = 50
    seed: int = 0
    attribute: tuple[str, ...] = ()
    limit: int | None = None
    scale: Scale | None = None
    delta: float = 0.007
    mode: str = "practice"
    objective: str = "worst-case"
    plot: str | None = None


def load(given: Mapping[str, Any], file: str | None) -> SimulateConfig:
    """The settings out of flags and the table [simulate] of a TOML file; flags win.

    Raises:
        InputError: no pool or budget, an unknown name, or a value that is not of its kind.
    """
    merged = {**(_table(find_config(file)) if file else {}), **given}
    for name, example in (("pool", "ratings.parquet"), ("budget", "--budget 50000,100000")):
        if not merged.get(name):
            raise InputError(f"no {name}: give one, for example robin simulate {example}")
    settings = SimulateConfig(
        **{name: _READ[name](value, name) if name in _READ else value for name, value in merged.items()}
    )
    if settings.plot:
        check_picture(Path(settings.plot))
    return settings


def _table(path: Path) -> dict[str, Any]:
    table: Any = toml_content(path).get(SIMULATE, {})
    if not isinstance(table, dict):
        raise InputError(f"{path}: {SIMULATE} must be a table, [{SIMULATE}] with the settings under it")
    if unknown := sorted(table.keys() - {each.name for each in fields(SimulateConfig)}):
        raise InputError(f'{path}: [{SIMULATE}] has no setting "{unknown[0]}"')
    for name in ("pool", "plot"):
        if isinstance(table.get(name), str) and not table[name].startswith("hf://"):
            table[name] = str(path.parent / table[name])
    return table


def experiment(settings: SimulateConfig, progress: Callable[[int, int], None]) -> tuple[list[Subject], list[Row]]:
    """Load the pools and conduct the experiment; with a plot, at more budgets than were asked for, to draw curves.

    Raises:
        InputError: the pool cannot be used, or the design does not fit it.
    """
    subjects = [_subject(pool, settings) for pool in _chosen(load_pools(settings.pool), settings)]
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


def print_csv(rows: Sequence[Row], settings: SimulateConfig, out: TextIO) -> None:
    """Write the columns of the contract for the budgets that were asked for."""
    writer = csv.writer(out, lineterminator="\n")
    columns = ("attribute", "scheduler", "budget", "wce_mean", "wce_std", "wce_sem", "runs")
    writer.writerow(columns)
    for row in rows:
        if row.budget in settings.budget:
            values = (getattr(row, name) for name in columns)
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])


def say_constant(subjects: Sequence[Subject], console: Console) -> None:
    """Say of which pools some pairs have one rating only: simulated, a judge never varies there, and no error is made."""
    for subject in subjects:
        if once := sum(len(each) == 1 for each in subject.ratings):
            console.print(
                Text(
                    plain(
                        f"{subject.attribute}: {once:,} of {len(subject.ratings):,} pairs have one rating, and never vary"
                    )
                )
            )


def say_savings(rows: Sequence[Row], settings: SimulateConfig, console: Console) -> None:
    """Say how many of uniform's calls each other scheduler saves at equal error, where the curves were drawn to tell."""
    if "uniform" not in settings.schedulers or not settings.plot:
        return
    console.print("simulated: calls saved at equal worst-case error, against uniform")
    for row in rows:
        if row.scheduler != "uniform" and row.budget in settings.budget:
            said = _said(saved(rows, row.attribute, row.scheduler, row.budget), row.runs)
            console.print(Text(plain(f"  {row.attribute} · {row.scheduler} at {row.budget:,}: {said}")))


def _said(saving: Saving, runs: int) -> str:
    if np.isnan(saving.share):
        return "– (uniform's curve ends before)"
    if not saving.is_told:
        return f"– ({runs} run{'s' * (runs > 1)} cannot tell it from 0)"
    return f"{saving.share:.0%} (95 %: {saving.low:.0%} to {saving.high:.0%})"


def draw_curves(rows: Sequence[Row], subjects: Sequence[Subject], path: Path) -> None:
    """Draw the picture, see :func:`robin_cli.output.curves.draw`, without what only the savings were read off."""
    last = (
        max(row.budget for row in rows if row.scheduler != "uniform")
        if len({row.scheduler for row in rows}) > 1
        else None
    )
    draw([row for row in rows if last is None or row.budget <= last], subjects, path)


def _chosen(pools: Mapping[str, Pool], settings: SimulateConfig) -> list[Pool]:
    for name in settings.attribute:
        if name not in pools:
            raise InputError(f'--attribute "{name}": not in {settings.pool}; it has {", ".join(pools)}')
    return [pool for name, pool in pools.items() if not settings.attribute or name in settings.attribute]


def _subject(pool: Pool, settings: SimulateConfig) -> Subject:
    ratings = pool.ratings[: settings.limit]
    low = min(int(each.min()) for each in ratings)
    high = max(int(each.max()) for each in ratings)
    scale = settings.scale or Scale(low, max(high, low + 1))
    human = None if pool.human is None else pool.human[: settings.limit]
    return Subject(pool.name, ratings, scale, human)


def _items(value: object, _name: str = "") -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(item.strip() for item in value.split(",") if item.strip())
    return tuple(map(str, value)) if isinstance(value, list | tuple) else (str(value),)


def _whole(value: object, name: str) -> int:
    least = _LEAST.get(name, 1)
    text = str(value).strip()
    if not (text.isascii() and text.isdecimal()) or int(text) < least:
        raise InputError(f"--{name} {value}: must be a whole number, at least {least}")
    return int(text)


def _budgets(value: object, name: str) -> tuple[int, ...]:
    return tuple(sorted({_whole(item, name) for item in _items(value)}))


def _scale(value: object, _name: str) -> Scale:
    return read_scale(str(value))


_LEAST = {"seed": 0}
_READ: Mapping[str, Callable[[object, str], Any]] = {
    "budget": _budgets,
    "schedulers": _items,
    "attribute": _items,
    "runs": _whole,
    "seed": _whole,
    "limit": _whole,
    "scale": _scale,
}
