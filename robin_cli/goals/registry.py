"""Finds the goal of a run, by its settings or by its manifest. Nothing else decides what a run is for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from inspect import isabstract
from pathlib import Path

from robin_cli.goals.base import Goal
from robin_cli.goals.checks import WantedGoal
from robin_cli.goals.result import View
from robin_cli.goals.scores import ScoresGoal
from robin_cli.model.errors import InputError
from robin_cli.model.records import Pair
from robin_cli.model.space import ArmSpace
from robin_cli.run import schema
from robin_cli.run.inquiry import Inquiry
from robin_cli.run.reader import RunReader, read_run
from robin_cli.run.segments import read_judgments
from robin_cli.run.writer import RunWriter
from robin_cli.settings.table import TABLE, Settings
from robin_cli.show.columns import JUDGMENTS, RESULTS
from robin_cli.show.tables import Table, read_by

_USUAL = ScoresGoal
"""The goal of a run that names no other."""


@cache
def known_goals() -> Sequence[type[Goal]]:
    """Return all other goals, which are found in the files of this folder."""
    known = []
    for file in sorted(Path(__file__).parent.glob("[a-z]*.py")):
        module = import_module(f"robin_cli.goals.{file.stem}")
        for kind in vars(module).values():
            is_goal = isinstance(kind, type) and issubclass(kind, Goal) and not isabstract(kind)
            if is_goal and kind.__module__ == module.__name__ and kind is not _USUAL:
                known.append(kind)
    return known


def goal_of(source: Inquiry) -> Goal:
    """Return the goal of ``source``. InputError if it names two, or as its goal refuses it; StorageError likewise."""
    asked = [goal for kind in known_goals() if (goal := kind.asked_by(source)) is not None]
    if len(asked) > 1:
        flags = " and ".join(goal.flag or type(goal).__name__ for goal in asked)
        raise InputError(f"{flags}: a run has one goal; leave one out, and make a run of each")
    return asked[0] if asked else _USUAL.asked_by(source)


def goal_of_run(run: RunReader | RunWriter) -> Goal:
    """Return the goal of a run that was read, or is open. StorageError if its data cannot be read."""
    return goal_of(run)


def wanted_goal(
    settings: Settings, space: ArmSpace, pairs: Sequence[Pair], notify: Callable[[str], None]
) -> Goal:
    """Return the goal of ``settings``.

    Args:
        notify: called with a warning about the data: prompts that one system alone answered, groups of one.

    InputError: these data do not allow the decision or comparison.
    """
    values = {name: getattr(settings, name) for name in TABLE}
    return goal_of(
        WantedGoal(values, space, pairs, settings.seed, settings=settings, notify=notify)
    )


def table_of(path: Path, what: str, view: View) -> Table:
    """Return the table called ``what`` of the run at ``path``, as in ``robin export --what``.

    InputError: there is none, with the reason. RunError, StorageError: the run cannot be read.
    """
    if what == "judgments":  # a million of them are not read into memory at once
        return judgment_table(path)
    run = read_run(path)
    return goal_of_run(run).result(run).table(what, view)


def results_of(
    path: Path, names: Iterable[str], more: Iterable[tuple[str, int, str, str]] = ()
) -> Table:
    """Return which tables, among ``names``, the run at ``path`` has, and ``more`` rows; errors as :func:`table_of`."""
    run = read_run(path)
    result, rows = goal_of_run(run).result(run), list[tuple[str, int, str, str]]()
    for what in names:
        if what == "judge-scores" and not result.is_panel:  # the same as its scores
            continue
        with suppress(InputError):  # the run has none
            table = JUDGMENTS if what == "judgments" else result.table(what, View())
            count = run.fold.judgments if what == "judgments" else len(table)
            if count:
                rows.append((what, count, table.says.partition(":")[0], table.row.replace("`", "")))
    columns = zip(*rows, *more, strict=True)
    return RESULTS.with_values(dict(zip(RESULTS.columns, columns, strict=False)))


def judgment_table(path: Path) -> Table:
    """Return the judgments of the run at ``path``, for files alone, a segment at a time.

    RunError: no run there, or made by a newer robin. StorageError comes with the rows, if its files are damaged.
    """
    rows = read_by(schema.JUDGMENTS, read_judgments(path))
    return JUDGMENTS.having(lambda: rows)
