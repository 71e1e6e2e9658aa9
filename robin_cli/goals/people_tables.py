"""People's labels of a run's pairs as tables, and their decisions beside the run's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from robin_cli.data.given_labels import GivenLabels
from robin_cli.goals.agreeing import disagreements_table, judge_quality_table
from robin_cli.goals.summary import given_labels, labels_wanted_table, summary_table
from robin_cli.goals.systems import systems_table
from robin_cli.model.errors import InputError
from robin_cli.show.columns import AGREEMENT, CALIBRATION
from robin_cli.show.tables import Column, Table
from robin_cli.stats.run_agreement import (
    agreements,
    agreements_among,
    calibrations,
    check_comparable,
    reliabilities,
)
from robin_cli.stats.stances import Stances, stances_of, stances_of_best

if TYPE_CHECKING:
    from robin_cli.goals.found import Found, View
    from robin_cli.goals.preferences import Preferences
    from robin_cli.goals.rating import Rated


def stances_of_scores(found: Rated, given: GivenLabels | None) -> Stances:
    """Return people's decisions beside a run's by ratings. InputError if it decides nothing."""
    if (decided := found.scores.decided) is None:
        raise InputError(
            f"{found.run.name}: decides nothing, so there is nothing to agree with; make a run with --decide"
        )
    return stances_of(found.run, decided, given)


def stances_of_bests(found: Preferences, given: GivenLabels | None) -> Stances:
    """Return people's decisions beside a pairwise run's best responses. InputError if it looks for none."""
    if found.best is None:
        raise InputError(
            f"{found.run.name}: decides nothing; make a pairwise run with --decide best"
        )
    return stances_of_best(found.run, found.best, given)


def agreement_table(ran: Found, view: View) -> Table:
    """Return a row for each attribute and coefficient: of judge and people, of each among themselves, of the judge alone."""
    run, tables = ran.run, ran.all_scores
    given = given_labels(view.labels, run)
    found = agreements(run, *tables, given=given, rounds=view.round)
    for name, (alpha, *_) in found.items():
        if math.isnan(alpha.value):
            view.notify(f"{name}: agreement with people not computed: {alpha.why}")
    several = agreements_among(run, *tables, given=given, rounds=view.round)
    alone = reliabilities(run, *tables)
    rows = {name: (*found.get(name, ()), *own) for name, own in alone.items()}
    return _by_attribute(AGREEMENT, {**rows, **several})


def calibration_table(ran: Found, view: View) -> Table:
    """Return a row for each attribute and level: people's ratings of the pairs with such a score.

    Raises:
        InputError: there is none at all, see :func:`~robin_cli.stats.run_agreement.check_comparable`.
    """
    run = ran.run
    found = calibrations(run, *ran.all_scores, given=given_labels(view.labels, run))
    check_comparable({name: told.why for name, told in found.items()}, run, view.notify)
    quarters = [replace(CALIBRATION.columns[name], form="number") for name in ("level", "to_level")]
    more = quarters if run.manifest.is_pairwise else []
    return _by_attribute(CALIBRATION, {name: told.levels for name, told in found.items()}, *more)


def _by_attribute(table: Table, found: Mapping[str, Sequence[Any]], *more: Column) -> Table:
    """Return a row for each, its attributes as columns behind the name; ``more``: columns in place of the table's."""
    rows = [(name, each) for name, several in found.items() for each in several]
    values = {
        column: [getattr(each, column) for _, each in rows]
        for column in table.columns
        if column != "attribute"
    }
    return table.of({"attribute": [name for name, _ in rows], **values}, *more)


OF_PEOPLE: Mapping[str, Callable[[Any, View], Table]] = {
    "agreement": agreement_table,
    "calibration": calibration_table,
    "summary": summary_table,
    "labels-wanted": labels_wanted_table,
    "judge-quality": judge_quality_table,
    "disagreements": disagreements_table,
}
"""The tables of people's labels that every run has, by name."""

OF_SCORES = {**OF_PEOPLE, "systems": systems_table}
"""Those of a run of ratings."""
